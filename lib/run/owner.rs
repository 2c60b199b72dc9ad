//! Who writes a temporary file or directory. Its name says so, and the next run tells by it whether the writer is dead.
//!
//! A name holds `HOST-MACHINE-NAMESPACE.PID.START-RANDOM`. Host names and process numbers repeat: containers are all
//! process 1 on a host of a fixed name, and short host names are equal in two clusters. MACHINE comes from the boot ID,
//! so that it differs between machines and between boots; NAMESPACE is the process namespace, START the time at which
//! the process began. Together they name one process and no other.
//!
//! A writer also locks what it writes. A lock that is free proves its death wherever all writers see each other's
//! locks: on one machine, or on a file system that only one machine can mount. Elsewhere (locks of network file systems
//! may be local, or missing) only time tells.

use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, OnceLock};
use std::time::{Duration, Instant};

use crate::run::procfs;
use crate::run::signals;

/// How long we wait, in all, for writers that were killed and still hold their locks.
const LAST_MOMENTS: Duration = Duration::from_secs(5);

/// What statfs says of file systems that one machine alone has mounted: ext2 to ext4, xfs, btrfs, tmpfs, ramfs, f2fs,
/// overlayfs, zfs and bcachefs.
const LOCAL: [u64; 9] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x8584_58f6, 0xf2f5_2010, 0x794c_7630, 0x2fc1_2fc1, 0xca45_1a4e];

/// The name of this machine, as far as a file name takes it. Not unique.
pub fn host() -> String {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_string_lossy();
    name.chars().filter(|c| c.is_ascii_alphanumeric()).take(32).collect()
}

/// Twelve digits that no other machine has, nor this one after its next start.
pub fn machine() -> &'static str {
    static MACHINE: LazyLock<String> = LazyLock::new(|| {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let digits: String = id.chars().filter(char::is_ascii_hexdigit).take(12).collect();
        // Without one, nobody can tell that we are on the same machine: a number that nobody else has says that.
        if digits.len() == 12 { digits } else { random()[..12].to_owned() }
    });
    &MACHINE
}

/// The process namespace and our place in it.
fn process() -> &'static str {
    static PROCESS: LazyLock<String> = LazyLock::new(|| {
        let start = procfs::own().map_or(0, |own| own.start);
        format!("{}.{}.{start}", namespace(), std::process::id())
    });
    &PROCESS
}

/// The number of our process namespace; 0 where it is not known.
fn namespace() -> u64 {
    static NAMESPACE: LazyLock<u64> = LazyLock::new(|| {
        let number = || fs::metadata("/proc/self/ns/pid").ok().map(|found| found.ino());
        procfs::own().and_then(|_| number()).unwrap_or(0)
    });
    *NAMESPACE
}

fn random() -> String {
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

/// A part of a name that nobody else has or had.
pub fn unique() -> String {
    format!("{}-{}-{}-{}", host(), machine(), process(), random())
}

/// Makes a temporary file or directory, removed when a signal ends the process, and locks it. `create` is given a
/// path with a new [`unique`] part, as `name` puts it, and opens what it has made.
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

/// Locks what was just made. False when somebody took it for garbage before that: they hold the lock or have removed it.
fn hold(made: &File, path: &Path) -> io::Result<bool> {
    // Where the file system has no locks, time decides what is garbage.
    if matches!(made.try_lock(), Err(TryLockError::WouldBlock)) {
        return Ok(false);
    }
    let ours = made.metadata()?;
    Ok(fs::symlink_metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == (ours.dev(), ours.ino())))
}

/// What a name says about its writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    /// A process that runs here.
    Alive,
    /// A process that ran here.
    Dead,
    /// A process of this machine, in another process namespace.
    Near,
    /// Anybody: a process of another machine or boot, or a name of tarpipe 0.1, `HOST-PID` or `HOST-PID-NUMBER`.
    Far,
}

/// Reads what [`unique`] made. None when the text is something else.
fn writer(unique: &str) -> Option<Writer> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_host = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let parts: Vec<&str> = unique.split('-').collect();
    let (theirs, process) = match parts[..] {
        [host, _] | [host, _, _] if is_host(host) && parts[1..].iter().all(|part| is_number(part)) => {
            return Some(Writer::Far);
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
    Some(if theirs != machine() {
        Writer::Far
    } else if space == 0 || space != namespace() {
        Writer::Near
    } else if runs(pid as i32, start) {
        Writer::Alive
    } else {
        Writer::Dead
    })
}

/// Whether a process runs, or ends before we have to say so.
fn runs(pid: i32, start: u64) -> bool {
    let process = || procfs::find(pid).filter(|found| found.start == start && !found.has_ended);
    wait_while(|| process().is_some_and(|found| found.is_dying()));
    process().is_some()
}

/// Locks what a dead process wrote. For a moment after its death it may still be locked: by other threads of it that
/// are not dead yet, or by a child that it was about to start.
fn lock_of_dead(handle: &File) -> Result<(), TryLockError> {
    wait_while(|| matches!(handle.try_lock(), Err(TryLockError::WouldBlock)));
    handle.try_lock()
}

/// Waits while something holds, as long as there is time.
fn wait_while(holds: impl Fn() -> bool) {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    while holds() && FIRST.get_or_init(Instant::now).elapsed() < LAST_MOMENTS {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the writer of what `handle` has open is dead, by the [`unique`] part of its name, its lock, and its age where
/// neither tells: it is then garbage when it was not changed for `idle`. Locked as long as the handle is held, so that
/// a writer that has just begun sees what is going on.
pub fn is_abandoned(unique: &str, handle: &File, idle: Duration) -> bool {
    let Some(writer) = writer(unique) else { return false };
    let is_idle = || {
        let changed = handle.metadata().and_then(|found| found.modified());
        changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age > idle))
    };
    let may_be = match writer {
        Writer::Alive => false,
        Writer::Dead | Writer::Near => true,
        Writer::Far => is_local(handle) || is_idle(),
    };
    let lock = || if writer == Writer::Dead { lock_of_dead(handle) } else { handle.try_lock() };
    may_be
        && match lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Error(_)) => writer == Writer::Dead || is_idle(),
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
        assert_eq!(writer(&unique()), Some(Writer::Alive));
        let (own, random) = (procfs::own().unwrap(), random());
        let name = |machine: &str, space: u64, pid: i32, start: u64| {
            writer(&format!("host-{machine}-{space}.{pid}.{start}-{random}")).unwrap()
        };
        assert_eq!(name(machine(), namespace(), own.pid, own.start), Writer::Alive);
        assert_eq!(name(machine(), namespace(), own.pid, own.start + 1), Writer::Dead);
        assert_eq!(name(machine(), namespace() + 1, own.pid, own.start), Writer::Near);
        assert_eq!(name("0123456789ab", namespace(), own.pid, own.start), Writer::Far);
        assert_eq!(writer("host-1-0"), Some(Writer::Far));
        assert_eq!(writer("host-1"), Some(Writer::Far));
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
