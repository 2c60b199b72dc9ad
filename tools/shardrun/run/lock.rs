//! The lock of a run: one process at a time works on it, and every other process can find out which. A process id is valid
//! only within one boot and one PID namespace of one machine, so the lock file has a name that contains these too.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use tarpipe::run::owner::{self, Writer, WriterState};
use tarpipe::run::watched::wait_readable;

/// How long a lock may be held by processes that only inspect it, or by a new holder that has not written its name yet.
const SETTLE_TIME: Duration = Duration::from_millis(500);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The content of the lock file while a process holds it.
#[derive(Serialize, Deserialize)]
struct Signature {
    /// A name of the process, by which [`owner`] finds it.
    process: String,
    /// Name of the machine.
    host: String,
}

/// A process of this machine that works on a run.
#[derive(Debug)]
pub struct LockHolder {
    /// Process id.
    pub pid: i32,
    /// Name of the machine.
    pub host: String,
    process: String,
}

/// Whether a run is locked, and by whom.
#[derive(Debug)]
pub enum LockState {
    /// No process works on the run.
    Free,
    /// A process of this machine and PID namespace does.
    Here(LockHolder),
    /// A process does that cannot be reached from here; its description.
    Elsewhere(String),
}

impl LockState {
    /// Describes the holder for a message.
    pub fn describe(&self) -> String {
        match self {
            LockState::Free => "no process".into(),
            LockState::Here(holder) => format!("process {} on {}", holder.pid, holder.host),
            LockState::Elsewhere(description) => description.clone(),
        }
    }
}

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct RunLock {
    _file: File,
}

impl RunLock {
    /// Takes the lock, or returns the state of the one that holds it.
    pub fn acquire(path: &Path) -> Result<Result<RunLock, LockState>> {
        let shown = || path.display().to_string();
        let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path);
        let mut file = file.with_context(shown)?;
        let until = Instant::now() + SETTLE_TIME;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(err)) => return Err(err).context("cannot lock").with_context(shown),
                Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(POLL_INTERVAL),
                Err(TryLockError::WouldBlock) => match inspect(path)? {
                    LockState::Free => {} // released just now
                    held => return Ok(Err(held)),
                },
            }
        }
        let signature = own_signature()?;
        file.set_len(0).and_then(|()| file.write_all(signature.as_bytes())).with_context(shown)?;
        Ok(Ok(RunLock { _file: file }))
    }
}

/// Finds out who holds a lock.
pub fn inspect(path: &Path) -> Result<LockState> {
    let shown = || path.display().to_string();
    let mut file = match File::open(path) {
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => return Ok(LockState::Free),
        file => file.with_context(shown)?,
    };
    let until = Instant::now() + SETTLE_TIME;
    loop {
        match file.try_lock_shared() {
            Ok(()) => return Ok(LockState::Free),
            Err(TryLockError::Error(err)) => return Err(err).context("cannot lock").with_context(shown),
            Err(TryLockError::WouldBlock) => {}
        }
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(shown)?;
        std::io::Seek::rewind(&mut file).with_context(shown)?;
        let signed = serde_json::from_str::<Signature>(&text).ok();
        match signed.and_then(locate) {
            Some(held) if !matches!(held, LockState::Free) => return Ok(held),
            // A new holder locks the file before it writes its signature; until then the old one is there, or none.
            _ if Instant::now() < until => std::thread::sleep(POLL_INTERVAL),
            _ => return Ok(LockState::Elsewhere("an unidentified process".into())),
        }
    }
}

/// Whether a holder is still alive and reachable; None if the signature is invalid.
fn locate(Signature { process, host }: Signature) -> Option<LockState> {
    let Writer { pid, state } = owner::writer(&process)?;
    Some(match state {
        WriterState::Alive => LockState::Here(LockHolder { pid, host, process }),
        WriterState::Dead => LockState::Free,
        WriterState::Near => LockState::Elsewhere(format!("process {pid} in another container on {host}")),
        WriterState::Far => LockState::Elsewhere(format!("process {pid} on {host}")),
    })
}

impl LockHolder {
    /// Terminates this process, which must be on this machine, and waits for its end; false if that exceeds `limit`.
    pub fn terminate(&self, limit: Duration) -> Result<bool> {
        let Some(pid) = Pid::from_raw(self.pid) else { bail!("invalid process id {}", self.pid) };
        let process = match pidfd_open(pid, PidfdFlags::empty()) {
            Err(Errno::SRCH) => return Ok(true),
            Err(Errno::NOSYS) => return self.terminate_by_number(pid, limit),
            process => process.with_context(|| self.cannot_terminate())?,
        };
        // From here on the id cannot be reused; it may have been before.
        if !self.is_running() {
            return Ok(true);
        }
        match pidfd_send_signal(&process, Signal::TERM) {
            Ok(()) => Ok(wait_readable(&process, Some(Instant::now() + limit))?),
            Err(Errno::SRCH) => Ok(true),
            Err(err) => Err(err).with_context(|| self.cannot_terminate()),
        }
    }

    /// The same without pidfd, before Linux 5.3.
    fn terminate_by_number(&self, pid: Pid, limit: Duration) -> Result<bool> {
        let until = Instant::now() + limit;
        if self.is_running() {
            kill_process(pid, Signal::TERM).with_context(|| self.cannot_terminate())?;
        }
        while self.is_running() && Instant::now() < until {
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(!self.is_running())
    }

    fn is_running(&self) -> bool {
        owner::writer(&self.process).is_some_and(|writer| writer.state == WriterState::Alive)
    }

    fn cannot_terminate(&self) -> String {
        format!("cannot terminate process {}", self.pid)
    }
}

/// The content of the lock file while this process holds it.
fn own_signature() -> Result<String> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Ok(serde_json::to_string(&Signature { process: owner::unique(), host })? + "\n")
}
