//! The lock of a run: one process at a time works on it, and everyone else can tell which. A process id means
//! something only within one boot and one pid namespace of one machine, so these are recorded with it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use tarpipe::run::procfs;
use tarpipe::run::watched::wait_readable;

/// How long a lock may be held by processes that only look at it, or be held and not signed yet.
const MOMENT: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(20);

/// The process that works on a run, as it signs the lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its id, in its namespace.
    pub pid: i32,
    /// The name of its machine,
    pub host: String,
    /// the boot of that machine,
    boot: String,
    /// and the pid namespace, which a container has for itself.
    namespace: String,
    /// When it started, in clock ticks since that boot: ids are used again.
    start: u64,
}

/// Whether a run is locked.
#[derive(Debug)]
pub enum Held {
    /// Nobody works on it.
    Free,
    /// A process of this machine and pid namespace does.
    Here(Holder),
    /// A process that cannot be reached from here does; where it is.
    Elsewhere(String),
}

impl Held {
    /// Who it is, for a message.
    pub fn describe(&self) -> String {
        match self {
            Held::Free => "nobody".into(),
            Held::Here(holder) => format!("process {} on {}", holder.pid, holder.host),
            Held::Elsewhere(place) => place.clone(),
        }
    }
}

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct RunLock {
    _file: File,
}

impl RunLock {
    /// Takes the lock; the error is who holds it.
    pub fn take(path: &Path) -> Result<Result<RunLock, Held>> {
        let shown = || path.display().to_string();
        let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path);
        let mut file = file.with_context(shown)?;
        let until = Instant::now() + MOMENT;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(err)) => return Err(err).context("cannot be locked").with_context(shown),
                Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(PAUSE),
                Err(TryLockError::WouldBlock) => match look(path)? {
                    Held::Free => {} // it went away just now
                    held => return Ok(Err(held)),
                },
            }
        }
        file.set_len(0).and_then(|()| file.write_all(sign()?.as_bytes())).with_context(shown)?;
        Ok(Ok(RunLock { _file: file }))
    }
}

/// Who holds a lock, as far as it can be told from here.
pub fn look(path: &Path) -> Result<Held> {
    let shown = || path.display().to_string();
    let mut file = match File::open(path) {
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => return Ok(Held::Free),
        file => file.with_context(shown)?,
    };
    let until = Instant::now() + MOMENT;
    loop {
        match file.try_lock_shared() {
            Ok(()) => return Ok(Held::Free),
            Err(TryLockError::Error(err)) => return Err(err).context("cannot be locked").with_context(shown),
            Err(TryLockError::WouldBlock) => {}
        }
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(shown)?;
        std::io::Seek::rewind(&mut file).with_context(shown)?;
        let signed = serde_json::from_str::<Holder>(&text).ok();
        match signed.map(place) {
            Some(held) if !matches!(held, Held::Free) => return Ok(held),
            // Between a new holder's lock and its signature, that of the last one is there, or none.
            _ if Instant::now() < until => std::thread::sleep(PAUSE),
            _ => return Ok(Held::Elsewhere("a process that did not sign the lock".into())),
        }
    }
}

/// Where a holder is, seen from here; nowhere when its process is gone.
fn place(holder: Holder) -> Held {
    let Ok(here) = Place::here() else { return Held::Elsewhere(format!("process {} on {}", holder.pid, holder.host)) };
    if holder.boot != here.boot {
        return Held::Elsewhere(format!("process {} on {}", holder.pid, holder.host));
    }
    if holder.namespace != here.namespace {
        return Held::Elsewhere(format!("process {} in another container on {}", holder.pid, holder.host));
    }
    match start_of(holder.pid) {
        Some(start) if start == holder.start => Held::Here(holder),
        _ => Held::Free,
    }
}

impl Holder {
    /// Ends this process, which is of this machine, and waits for its end; false when it took too long.
    pub fn terminate(&self, limit: Duration) -> Result<bool> {
        let Some(pid) = Pid::from_raw(self.pid) else { bail!("invalid process id {}", self.pid) };
        let process = match pidfd_open(pid, PidfdFlags::empty()) {
            Err(Errno::SRCH) => return Ok(true),
            Err(Errno::NOSYS) => return self.terminate_by_number(pid, limit),
            process => process.with_context(|| self.cannot_end())?,
        };
        // The id cannot change hands from here on; it may have before.
        if start_of(self.pid) != Some(self.start) {
            return Ok(true);
        }
        match pidfd_send_signal(&process, Signal::TERM) {
            Ok(()) => Ok(wait_readable(&process, Some(Instant::now() + limit))?),
            Err(Errno::SRCH) => Ok(true),
            Err(err) => Err(err).with_context(|| self.cannot_end()),
        }
    }

    /// The same before Linux 5.3.
    fn terminate_by_number(&self, pid: Pid, limit: Duration) -> Result<bool> {
        let until = Instant::now() + limit;
        let is_there = || start_of(self.pid) == Some(self.start);
        if is_there() {
            kill_process(pid, Signal::TERM).with_context(|| self.cannot_end())?;
        }
        while is_there() && Instant::now() < until {
            std::thread::sleep(PAUSE);
        }
        Ok(!is_there())
    }

    fn cannot_end(&self) -> String {
        format!("cannot end process {}", self.pid)
    }
}

/// What process ids are relative to.
struct Place {
    boot: String,
    namespace: String,
}

impl Place {
    fn here() -> std::io::Result<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        let namespace = fs::read_link("/proc/self/ns/pid")?.to_string_lossy().into_owned();
        Ok(Place { boot, namespace })
    }
}

/// When a process started; None when it is gone or a zombie.
fn start_of(pid: i32) -> Option<u64> {
    procfs::find(pid).filter(|process| !process.has_ended).map(|process| process.start)
}

/// The signature of this process.
fn sign() -> std::io::Result<String> {
    let Place { boot, namespace } = Place::here()?;
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let start = start_of(pid).unwrap_or(0);
    Ok(serde_json::to_string(&Holder { pid, host, boot, namespace, start })? + "\n")
}
