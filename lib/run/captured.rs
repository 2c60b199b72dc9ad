//! Commands that run to their end while their output is collected, within
//! limits. Used by all tools that run commands for samples, and for the clients
//! of clusters; long-lived children use [`watched`] directly.
//!
//! One poll serves all pipes, the end of the command and its deadline, so that
//! no thread is needed.

use std::fmt;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit};

use crate::run::failure::Failure;
use crate::run::watched::{self, ChildEvents};

/// How long to read what is left in the pipes of a command that has ended, if
/// processes that it started keep writing to them.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// The interval between calls of [`Capture::check`].
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// How a command is run.
#[derive(Clone, Copy)]
pub struct Capture<'a> {
    /// Bytes to write to its stdin. If None, its stdin is that of the
    /// [`Command`].
    pub input: Option<&'a [u8]>,
    /// Whether its stdout goes where its stderr goes.
    pub is_merged: bool,
    /// When it is terminated.
    pub deadline: Option<Instant>,
    /// Bytes of stdout after which it is terminated.
    pub max_output: u64,
    /// How long processes that it started may outlive it.
    pub grace: Duration,
    /// Resource limits.
    pub resources: &'a [(Resource, u64)],
    /// Called ten times per second; an error terminates the command.
    pub check: Option<&'a dyn Fn() -> Result<(), Failure>>,
    /// Whether it runs while a signal ends this process: then it is not ended
    /// with the other children.
    pub is_last: bool,
}

/// No input, no limits.
impl Default for Capture<'_> {
    fn default() -> Self {
        Capture {
            input: None,
            is_merged: false,
            deadline: None,
            max_output: u64::MAX,
            grace: Duration::ZERO,
            resources: &[],
            check: None,
            is_last: false,
        }
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandEnd {
    /// By itself. All processes that it started have ended.
    Exited(ExitStatus),
    /// By itself, with status 0, but processes that it started had to be
    /// killed.
    LeftRunning,
    /// The deadline passed.
    TimedOut,
    /// It wrote too much to stdout.
    TooLarge,
}

impl fmt::Display for CommandEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandEnd::Exited(status) => status.fmt(f),
            CommandEnd::LeftRunning => f.write_str("it left a process running"),
            CommandEnd::TimedOut => f.write_str("it timed out"),
            CommandEnd::TooLarge => f.write_str("it wrote too much"),
        }
    }
}

/// What a command wrote, and how it ended.
pub struct Captured {
    /// How it ended.
    pub end: CommandEnd,
    /// Its stdout, unless that was merged.
    pub stdout: Vec<u8>,
    /// Its stderr.
    pub stderr: Vec<u8>,
}

impl Captured {
    /// Whether it ended by itself with status 0.
    pub fn is_success(&self) -> bool {
        matches!(self.end, CommandEnd::Exited(status) if status.success()) || self.end == CommandEnd::LeftRunning
    }
}

/// Runs a command to its end and collects its output in memory. Blocks forever
/// if this process is being ended, unless the command
/// [is the last](Capture::is_last).
///
/// # Errors
///
/// The system's error if the command cannot be started or watched. How it ended
/// is in the result.
///
/// ```
/// use std::process::Command;
/// use std::time::{Duration, Instant};
/// use tarpipe::run::captured::{self, Capture};
///
/// let limits = Capture { input: Some(b"hello"), deadline: Some(Instant::now() + Duration::from_secs(60)), ..Capture::default() };
/// let captured = captured::output(Command::new("cat"), limits)?;
/// assert!(captured.is_success() && captured.stdout == b"hello");
/// # anyhow::Ok(())
/// ```
pub fn output(command: Command, capture: Capture<'_>) -> io::Result<Captured> {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let running = RunningCommand::start(command, capture)?;
    let end = running.finish(&mut stdout, |bytes| stderr.extend_from_slice(bytes));
    Ok(Captured { end: end.map_err(|failure| io::Error::other(failure.what().to_owned()))?, stdout, stderr })
}

/// A command that has been started. It must be finished.
#[must_use]
pub struct RunningCommand<'a> {
    child: Child,
    exit: OwnedFd,
    stdin: Option<(ChildStdin, &'a [u8])>,
    stdout: Option<ChildStdout>,
    stderr: Option<PipeReader>,
    /// The write end of stderr, held while the command runs: otherwise the pipe
    /// would close just before the command ends, and wake the poll twice.
    stderr_writer: Option<PipeWriter>,
    capture: Capture<'a>,
}

impl<'a> RunningCommand<'a> {
    /// Starts a command as [`watched::spawn`] does.
    ///
    /// # Errors
    ///
    /// The system's error if it cannot be started.
    pub fn start(mut command: Command, capture: Capture<'a>) -> io::Result<Self> {
        let (stderr, theirs) = io::pipe()?;
        match capture.is_merged {
            true => command.stdout(theirs.try_clone()?),
            false => command.stdout(Stdio::piped()),
        };
        let stderr_writer = Some(theirs.try_clone()?);
        command.stderr(theirs);
        if capture.input.is_some() {
            command.stdin(Stdio::piped());
        }
        let start = if capture.is_last { watched::spawn_last } else { watched::spawn };
        let (mut child, exit) = start(&mut command)?;
        drop(command); // closes our copies of the other ends
        for &(resource, most) in capture.resources {
            let limit = Rlimit { current: Some(most), maximum: Some(most) };
            _ = rustix::process::prlimit(Some(Pid::from_child(&child)), resource, limit);
        }
        let stdin = child.stdin.take().zip(capture.input);
        if let Some((pipe, _)) = &stdin {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        let stdout = child.stdout.take();
        Ok(RunningCommand { child, exit, stdin, stdout, stderr: Some(stderr), stderr_writer, capture })
    }

    /// Appends its stdout to `stdout` and passes its stderr to `stderr` as it
    /// comes, until it has ended, or terminates it at a limit.
    ///
    /// # Errors
    ///
    /// The failure of the check, or a failed system call.
    pub fn finish(mut self, stdout: &mut Vec<u8>, stderr: impl FnMut(&[u8])) -> Result<CommandEnd, Failure> {
        let served = self.serve(stdout, stderr);
        let by_force = !matches!(served, Ok(Served::Whole | Served::HeldOpen));
        let status = watched::wait_or_terminate(&mut self.child, self.exit.as_fd(), by_force);
        let status = status.map_err(|err| Failure::io("wait for the command", &err))?;
        let grace = if matches!(served, Ok(Served::Whole)) { self.capture.grace } else { Duration::ZERO };
        let left = !self.capture.is_last && watched::reap_group(self.child.id(), grace);
        Ok(match served? {
            Served::TimedOut => CommandEnd::TimedOut,
            Served::TooLarge => CommandEnd::TooLarge,
            Served::HeldOpen if status.success() => CommandEnd::LeftRunning,
            Served::Whole if status.success() && left => CommandEnd::LeftRunning,
            Served::Whole | Served::HeldOpen => CommandEnd::Exited(status),
        })
    }

    /// Serves the pipes until the command has ended and they are closed.
    fn serve(&mut self, out: &mut Vec<u8>, mut log: impl FnMut(&[u8])) -> Result<Served, Failure> {
        let mut ended: Option<Instant> = None;
        let mut next_check = self.capture.check.map(|_| Instant::now() + CHECK_INTERVAL);
        loop {
            if ended.is_some() && self.stdout.is_none() && self.stderr.is_none() {
                return Ok(Served::Whole);
            }
            let until = ended.map(|at| at + self.capture.grace).or(self.capture.deadline);
            let wake = until.into_iter().chain(next_check).min();
            let ready = self.wait(ended.is_none(), wake).map_err(|err| Failure::system("poll", err))?;
            // A command that never stops writing is ended all the same.
            let is_late = |until: Instant| match ended {
                _ if ready == ChildEvents::default() => Instant::now() >= until,
                Some(_) => Instant::now() >= until + DRAIN_TIME,
                None => !ready.exit && Instant::now() >= until,
            };
            if until.is_some_and(is_late) {
                return Ok(if ended.is_some() { Served::HeldOpen } else { Served::TimedOut });
            }
            if ready.stdin {
                self.feed();
            }
            if ready.stdout {
                watched::read_available(&mut self.stdout, |bytes| out.extend_from_slice(bytes))?;
                if out.len() as u64 > self.capture.max_output {
                    return Ok(Served::TooLarge);
                }
            }
            if ready.stderr {
                watched::read_available(&mut self.stderr, &mut log)?;
            }
            if ready.exit {
                ended = Some(Instant::now());
                self.stdin = None;
                self.stderr_writer = None;
            }
            if let (Some(check), Some(at)) = (self.capture.check, next_check)
                && Instant::now() >= at
            {
                check()?;
                next_check = Some(Instant::now() + CHECK_INTERVAL);
            }
        }
    }

    fn wait(&self, exit: bool, until: Option<Instant>) -> Result<ChildEvents, Errno> {
        let exit = exit.then(|| self.exit.as_fd());
        let stdin = self.stdin.as_ref().map(|(pipe, _)| pipe.as_fd());
        let (stdout, stderr) = (self.stdout.as_ref().map(AsFd::as_fd), self.stderr.as_ref().map(AsFd::as_fd));
        watched::wait_ready(exit, stdin, stdout, stderr, until)
    }

    /// Writes as much as the pipe accepts. A command may close its stdin early.
    fn feed(&mut self) {
        let Some((pipe, data)) = &mut self.stdin else { return };
        *data = &data[watched::write_available(pipe, data)..];
        if data.is_empty() {
            self.stdin = None;
        }
    }
}

/// Why the pipes are no longer served.
enum Served {
    /// The command has ended and its pipes are closed.
    Whole,
    /// It has ended, but processes that it started hold its pipes open.
    HeldOpen,
    TimedOut,
    TooLarge,
}
