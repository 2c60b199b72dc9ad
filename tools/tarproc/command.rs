//! One run of a command: starts it in a process group of its own, serves its pipes, and ends it in time.
//! A single poll waits for its pipes and its end, so that no thread is needed.

use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use tarpipe::run::failure::{self, Failure};
use tarpipe::run::watched::{ChildEvents, read_available, reap_group, spawn, wait_or_terminate, wait_ready};
use tarpipe::sample::Sample;

use crate::tarproc::log::CommandLog;

/// How long processes that a command started may outlive it: shells do not wait for `>(…)`.
pub const GRACE: Duration = Duration::from_secs(2);

/// Limits for one run of a command.
#[derive(Clone, Copy, Debug)]
pub struct CommandLimits {
    /// Wall time.
    pub timeout: Option<Duration>,
    /// Bytes on its stdout.
    pub max_output: u64,
}

/// The result of one run.
pub struct CommandResult {
    /// Success, or why the run failed.
    pub verdict: Result<(), Failure>,
    /// Its stdout, unless that went to the log.
    pub stdout: Vec<u8>,
    /// Its stderr.
    pub log: CommandLog,
}

/// Where the stdout of a command goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum StdoutTarget {
    /// Kept in memory, to print it.
    Kept,
    /// To stderr and into the log, together with its stderr.
    Logged,
}

/// Runs a command to its end. `input` is its stdin, empty if None.
pub fn run(command: Command, input: Option<&[u8]>, stdout: StdoutTarget, limits: CommandLimits) -> CommandResult {
    let mut finished = CommandResult { verdict: Ok(()), stdout: Vec::new(), log: CommandLog::default() };
    finished.verdict = match RunningCommand::start(command, input, stdout, limits) {
        Ok(pump) => pump.run(&mut finished.stdout, &mut finished.log),
        Err(err) => Err(Failure::io("start the command", &err)),
    };
    finished
}

struct RunningCommand<'a> {
    child: Child,
    exit: OwnedFd,
    stdin: Option<(ChildStdin, &'a [u8])>,
    stdout: Option<ChildStdout>,
    stderr: Option<PipeReader>,
    /// The write end of stderr, held while the command runs: otherwise the pipe would close just before the command ends,
    /// and wake the poll twice.
    stderr_writer: Option<PipeWriter>,
    limits: CommandLimits,
    deadline: Option<Instant>,
}

impl<'a> RunningCommand<'a> {
    fn start(
        mut command: Command,
        input: Option<&'a [u8]>,
        stdout: StdoutTarget,
        limits: CommandLimits,
    ) -> io::Result<Self> {
        let (stderr, theirs) = io::pipe()?;
        match stdout {
            StdoutTarget::Kept => command.stdout(Stdio::piped()),
            StdoutTarget::Logged => command.stdout(theirs.try_clone()?),
        };
        let stderr_writer = Some(theirs.try_clone()?);
        command.stderr(theirs).stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        let (mut child, exit) = spawn(&mut command)?;
        drop(command); // closes our copies of the other ends
        let stdin = match (child.stdin.take(), input) {
            (Some(pipe), Some(data)) => {
                rustix::io::ioctl_fionbio(&pipe, true)?;
                Some((pipe, data))
            }
            _ => None,
        };
        let deadline = limits.timeout.map(|timeout| Instant::now() + timeout);
        Ok(RunningCommand {
            stdout: child.stdout.take(),
            stderr: Some(stderr),
            stderr_writer,
            stdin,
            child,
            exit,
            limits,
            deadline,
        })
    }

    fn run(mut self, out: &mut Vec<u8>, log: &mut CommandLog) -> Result<(), Failure> {
        let served = self.serve(out, log);
        let status = wait_or_terminate(&mut self.child, self.exit.as_fd(), served.is_err());
        let status = status.map_err(|err| Failure::io("wait for the command", &err))?;
        let has_had_time = !matches!(served, Ok(true));
        let left = reap_group(self.child.id(), if has_had_time { Duration::ZERO } else { GRACE });
        served.and_then(|whole| {
            failure::check(status)?;
            if whole && !left { Ok(()) } else { Err(left_running()) }
        })
    }

    /// Serves the pipes until the command has ended and they are closed. False if they are still open after the grace
    /// period.
    fn serve(&mut self, out: &mut Vec<u8>, log: &mut CommandLog) -> Result<bool, Failure> {
        let mut ended: Option<Instant> = None;
        loop {
            if ended.is_some() && self.stdout.is_none() && self.stderr.is_none() {
                return Ok(true);
            }
            let until = ended.map(|at| at + GRACE).or(self.deadline);
            let ready = self.wait(ended.is_none(), until).map_err(|err| Failure::system("poll", err))?;
            if ready == ChildEvents::default() {
                return if ended.is_some() { Ok(false) } else { Err(timed_out(self.limits.timeout)) };
            }
            if ready.stdin {
                self.feed();
            }
            if ready.stdout && read_available(&mut self.stdout, |bytes| out.extend_from_slice(bytes))? > 0 {
                self.check_size(out)?;
            }
            if ready.stderr {
                read_available(&mut self.stderr, |bytes| log.add(bytes))?;
            }
            if ready.exit {
                ended = Some(Instant::now());
                self.stdin = None;
                self.stderr_writer = None;
            }
        }
    }

    fn check_size(&self, out: &[u8]) -> Result<(), Failure> {
        if out.len() as u64 > self.limits.max_output {
            return Err(Failure::new("too_large", "the command writes more than --max-sample"));
        }
        Ok(())
    }

    fn wait(&self, exit: bool, until: Option<Instant>) -> Result<ChildEvents, Errno> {
        let exit = exit.then(|| self.exit.as_fd());
        let stdin = self.stdin.as_ref().map(|(pipe, _)| pipe.as_fd());
        wait_ready(exit, stdin, self.stdout.as_ref().map(AsFd::as_fd), self.stderr.as_ref().map(AsFd::as_fd), until)
    }

    /// Writes as much as the pipe accepts. A command may close its stdin early.
    fn feed(&mut self) {
        let Some((pipe, data)) = &mut self.stdin else { return };
        match pipe.write(data) {
            Ok(n) => *data = &data[n..],
            Err(err) if matches!(err.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => *data = &[],
        }
        if data.is_empty() {
            self.stdin = None;
        }
    }
}

/// Tells a command which sample it works on, through its environment.
pub fn name_sample(command: &mut Command, index: u64, sample: &Sample) {
    command.env("TARPROC_KEY", &sample.key);
    command.env("TARPROC_SOURCE", &*sample.source);
    command.env("TARPROC_INDEX", index.to_string());
}

pub fn timed_out(timeout: Option<Duration>) -> Failure {
    let seconds = timeout.unwrap_or_default().as_secs_f64();
    Failure::new("timeout", format!("the command timed out after {seconds} s"))
}

pub fn left_running() -> Failure {
    Failure::new("left_running", "the command left a process running")
}
