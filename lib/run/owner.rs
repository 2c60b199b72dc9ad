//! Names of temporary files and directories, from which the next run can tell
//! whether the process that writes them is dead.
//!
//! A name contains `HOST-MACHINE-NAMESPACE.PID.START-RANDOM`. Host names and
//! process IDs are not unique: in containers the process ID is often 1 and the
//! host name fixed, and two clusters may use the same short host names. MACHINE
//! comes from the boot ID, so it differs between machines and between boots;
//! NAMESPACE is the PID namespace, START the start time of the process.
//! Together they identify one process.
//!
//! The writer also locks what it writes. A free lock proves that it is dead
//! wherever all writers see each other's locks: on one machine, or on a file
//! system that only one machine can mount. On network file systems, where locks
//! may be local or missing, only the age of a file decides.
//!
//! | the name says | abandoned if |
//! |---|---|
//! | a process that runs here | never |
//! | a process that ran here | nobody holds the lock |
//! | another PID namespace of this machine | nobody holds the lock |
//! | another machine or boot, on a local file system | nobody holds the lock |
//! | another machine or boot, elsewhere | nobody holds the lock, and it is old |
//!
//! If the file system has no locks, files of processes that ran here are
//! abandoned at once, and others when they are old.
//!
//! shardrun signs the locks of its runs with such names too.

use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, OnceLock};
use std::time::{Duration, Instant};

use crate::run::procfs;
use crate::run::signals;

/// How long to wait, in total, for writers that were killed and still hold
/// their locks.
const LAST_MOMENTS: Duration = Duration::from_secs(5);

/// The `f_type` of file systems that only one machine can mount: ext2 to ext4,
/// xfs, btrfs, tmpfs, ramfs, f2fs, overlayfs, zfs and bcachefs.
const LOCAL: [u64; 9] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x8584_58f6, 0xf2f5_2010, 0x794c_7630, 0x2fc1_2fc1, 0xca45_1a4e];

/// The host name, reduced to at most 32 letters and digits so that it fits into
/// a file name. Not unique.
pub fn host() -> String {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_string_lossy();
    name.chars().filter(|c| c.is_ascii_alphanumeric()).take(32).collect()
}

/// Twelve hexadecimal digits that identify this machine until its next boot. If
/// there is no boot ID they are random, so that no other process is ever
/// mistaken for one on the same machine.
pub fn machine() -> &'static str {
    static MACHINE: LazyLock<String> = LazyLock::new(|| {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let digits: String = id.chars().filter(char::is_ascii_hexdigit).take(12).collect();
        // Without a boot ID nobody can tell that two processes share a machine.
        if digits.len() == 12 { digits } else { random()[..12].to_owned() }
    });
    &MACHINE
}

/// The PID namespace, the process ID and the start time.
fn process() -> &'static str {
    static PROCESS: LazyLock<String> = LazyLock::new(|| {
        let start = procfs::own().map_or(0, |own| own.start);
        format!("{}.{}.{start}", namespace(), std::process::id())
    });
    &PROCESS
}

/// The inode of our PID namespace; 0 if it is unknown.
fn namespace() -> u64 {
    static NAMESPACE: LazyLock<u64> = LazyLock::new(|| {
        let number = || fs::metadata("/proc/self/ns/pid").ok().map(|found| found.ino());
        procfs::own().and_then(|_| number()).unwrap_or(0)
    });
    *NAMESPACE
}

/// 64 bits from the system's generator, by way of the standard library's hash
/// keys.
fn random() -> String {
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

/// A part of a file name that no other process uses, and this one only once:
/// see the head of this module.
pub fn unique() -> String {
    format!("{}-{}-{}-{}", host(), machine(), process(), random())
}

/// Creates a temporary file or directory and locks it. `name` makes the path
/// from a [`unique`] part; `create` makes what is there, which must not exist
/// yet, and opens it.
///
/// The path is removed if a signal ends the process (see
/// [`signals::create_guarded`]); otherwise removing it is up to the caller. The
/// lock lasts as long as the returned handle. Tries further names if one is
/// taken or was removed as garbage before it could be locked.
///
/// # Errors
///
/// Those of `create`, other than that the name exists, or of taking the lock.
pub fn create(
    name: impl Fn(&str) -> PathBuf,
    create: impl Fn(&Path) -> io::Result<File>,
) -> io::Result<(PathBuf, File)> {
    loop {
        let path = name(&unique());
        match signals::create_guarded(&path, || create(&path)) {
            Ok(made) if hold(&made, &path)? => return Ok((path, made)),
            Ok(_) => {
                _ = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
                signals::release_path(&path);
            }
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {}
            Err(err) => return Err(err),
        }
    }
}

/// Locks a new file. Returns false if another process took it for garbage in
/// the meantime: it holds the lock or has removed the file.
fn hold(made: &File, path: &Path) -> io::Result<bool> {
    // On a file system without locks only the age tells what is garbage.
    if matches!(made.try_lock(), Err(TryLockError::WouldBlock)) {
        return Ok(false);
    }
    let ours = made.metadata()?;
    Ok(fs::symlink_metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == (ours.dev(), ours.ino())))
}

/// The process that made a [`unique`] name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writer {
    /// Its process ID in its own namespace.
    pub pid: i32,
    /// What its name says about it.
    pub state: WriterState,
}

/// What a name says about its writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriterState {
    /// A running process in our PID namespace.
    Alive,
    /// A process of our PID namespace that has ended.
    Dead,
    /// A process of this machine in another PID namespace, which we cannot look
    /// up.
    Near,
    /// A process of another machine or boot, or a name in the format of tarpipe
    /// 0.1, `HOST-PID` or `HOST-PID-NUMBER`.
    Far,
}

/// Parses what [`unique`] made; None for any other text. May block for up to
/// five seconds per process while a killed writer dies.
pub fn writer(unique: &str) -> Option<Writer> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_host = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let parts: Vec<&str> = unique.split('-').collect();
    let (theirs, process) = match parts[..] {
        [host, _] | [host, _, _] if is_host(host) && parts[1..].iter().all(|part| is_number(part)) => {
            return Some(Writer { pid: 0, state: WriterState::Far });
        }
        [host, machine, process, random] if is_host(host) && machine.len() == 12 && random.len() == 16 => {
            (machine, process)
        }
        _ => return None,
    };
    let mut numbers = process.split('.').map(str::parse::<u64>);
    let (Some(Ok(space)), Some(Ok(pid)), Some(Ok(start)), None) =
        (numbers.next(), numbers.next(), numbers.next(), numbers.next())
    else {
        return None;
    };
    let pid = pid as i32;
    let state = if theirs != machine() {
        WriterState::Far
    } else if space == 0 || space != namespace() {
        WriterState::Near
    } else if runs(pid, start) {
        WriterState::Alive
    } else {
        WriterState::Dead
    };
    Some(Writer { pid, state })
}

/// Returns true if the process runs. One that is dying is waited for.
fn runs(pid: i32, start: u64) -> bool {
    let process = || procfs::find(pid).filter(|found| found.start == start && !found.has_ended);
    wait_while(|| process().is_some_and(|found| found.is_dying()));
    process().is_some()
}

/// Locks a file of a dead process. It may still be locked for a moment: by
/// threads that are not dead yet, or by a child that was just being started.
fn lock_of_dead(handle: &File) -> Result<(), TryLockError> {
    wait_while(|| matches!(handle.try_lock(), Err(TryLockError::WouldBlock)));
    handle.try_lock()
}

/// Waits while `holds` returns true, but no longer than [`LAST_MOMENTS`] over
/// all calls.
fn wait_while(holds: impl Fn() -> bool) {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    while holds() && FIRST.get_or_init(Instant::now).elapsed() < LAST_MOMENTS {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns true if the writer of an open file is dead, so that it can be
/// removed. `unique` is the part of its name that [`unique`] made. The name
/// decides if it can, then the lock; if neither does, the file is abandoned
/// once it has not been changed for `idle`.
///
/// On true, `handle` holds the lock until it is closed, so that two runs do not
/// clean up the same file, and a writer that was just creating it notices. May
/// block for up to five seconds per process while killed writers die. False for
/// names of a different format.
///
/// ```
/// use std::time::Duration;
/// use tarpipe::run::owner;
///
/// let file = tempfile::tempfile()?;
/// let idle = Duration::from_secs(3600);
/// assert!(!owner::is_abandoned(&owner::unique(), &file, idle), "this process is alive");
/// assert!(!owner::is_abandoned("something else", &file, idle));
/// # anyhow::Ok(())
/// ```
pub fn is_abandoned(unique: &str, handle: &File, idle: Duration) -> bool {
    let Some(Writer { state: writer, .. }) = writer(unique) else { return false };
    let is_idle = || {
        let changed = handle.metadata().and_then(|found| found.modified());
        changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age > idle))
    };
    let may_be = match writer {
        WriterState::Alive => false,
        WriterState::Dead | WriterState::Near => true,
        WriterState::Far => is_local(handle) || is_idle(),
    };
    let lock = || if writer == WriterState::Dead { lock_of_dead(handle) } else { handle.try_lock() };
    may_be
        && match lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Error(_)) => writer == WriterState::Dead || is_idle(),
        }
}

fn is_local(handle: &File) -> bool {
    rustix::fs::fstatfs(handle).is_ok_and(|found| LOCAL.contains(&(found.f_type as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_who_writes() {
        let writer = |name: &str| writer(name).map(|writer| writer.state);
        assert_eq!(writer(&unique()), Some(WriterState::Alive));
        let (own, random) = (procfs::own().unwrap(), random());
        let name = |machine: &str, space: u64, pid: i32, start: u64| {
            writer(&format!("host-{machine}-{space}.{pid}.{start}-{random}")).unwrap()
        };
        assert_eq!(name(machine(), namespace(), own.pid, own.start), WriterState::Alive);
        assert_eq!(name(machine(), namespace(), own.pid, own.start + 1), WriterState::Dead);
        assert_eq!(name(machine(), namespace() + 1, own.pid, own.start), WriterState::Near);
        assert_eq!(name("0123456789ab", namespace(), own.pid, own.start), WriterState::Far);
        assert_eq!(writer("host-1-0"), Some(WriterState::Far));
        assert_eq!(writer("host-1"), Some(WriterState::Far));
        for other in ["", "host", "kept-host-1-0", "host-1-x", &format!("kept-{}", unique()), "a-b-c-d"] {
            assert_eq!(writer(other), None, "{other}");
        }
    }

    #[test]
    fn a_name_is_never_given_twice() {
        let names: std::collections::BTreeSet<String> = (0..10_000).map(|_| unique()).collect();
        assert_eq!(names.len(), 10_000);
    }
}
