//! One run of a command: started in a process group of its own, fed, listened to, ended in time.
//! A single poll waits for its pipes and its end, so that no thread is started for it.

use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use tarpipe::run::failure::{self, Failure};
use tarpipe::run::watched::{Ready, end, settle, spawn, take, wait_ready};

use crate::log::Log;

/// How long what a command started may go on after it: shells do not wait for `>(…)`.
pub const GRACE: Duration = Duration::from_secs(2);

/// What a command may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of wall time.
    pub timeout: Option<Duration>,
    /// Of bytes on its stdout.
    pub max_output: u64,
}

/// How a run ended.
pub struct Finished {
    /// Whether it went well.
    pub verdict: Result<(), Failure>,
    /// What it wrote, unless that went to the log.
    pub stdout: Vec<u8>,
    /// What it said.
    pub log: Log,
}

/// Where the stdout of a command goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stdout {
    /// To us.
    Kept,
    /// To stderr and into the log, as its stderr does.
    Logged,
}

/// Runs a command to its end. `input` is its stdin; without one that is empty.
pub fn run(command: Command, input: Option<&[u8]>, stdout: Stdout, limits: Limits) -> Finished {
    let mut finished = Finished { verdict: Ok(()), stdout: Vec::new(), log: Log::default() };
    finished.verdict = match Pump::start(command, input, stdout, limits) {
        Ok(pump) => pump.run(&mut finished.stdout, &mut finished.log),
        Err(err) => Err(Failure::io("start the command", &err)),
    };
    finished
}

struct Pump<'a> {
    child: Child,
    exit: OwnedFd,
    stdin: Option<(ChildStdin, &'a [u8])>,
    stdout: Option<ChildStdout>,
    stderr: Option<PipeReader>,
    /// The other end, held while the command runs: its silence is then broken once, by its end, and not by that of the
    /// pipe before.
    held: Option<PipeWriter>,
    limits: Limits,
    deadline: Option<Instant>,
}

impl<'a> Pump<'a> {
    fn start(mut command: Command, input: Option<&'a [u8]>, stdout: Stdout, limits: Limits) -> io::Result<Self> {
        let (stderr, theirs) = io::pipe()?;
        match stdout {
            Stdout::Kept => command.stdout(Stdio::piped()),
            Stdout::Logged => command.stdout(theirs.try_clone()?),
        };
        let held = Some(theirs.try_clone()?);
        command.stderr(theirs).stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        let (mut child, exit) = spawn(&mut command)?;
        drop(command); // and with it our copies of the other ends
        let stdin = match (child.stdin.take(), input) {
            (Some(pipe), Some(data)) => {
                rustix::io::ioctl_fionbio(&pipe, true)?;
                Some((pipe, data))
            }
            _ => None,
        };
        let deadline = limits.timeout.map(|timeout| Instant::now() + timeout);
        Ok(Pump { stdout: child.stdout.take(), stderr: Some(stderr), held, stdin, child, exit, limits, deadline })
    }

    fn run(mut self, out: &mut Vec<u8>, log: &mut Log) -> Result<(), Failure> {
        let listened = self.listen(out, log);
        let status = end(&mut self.child, self.exit.as_fd(), listened.is_err());
        let status = status.map_err(|err| Failure::io("wait for the command", &err))?;
        let has_had_time = !matches!(listened, Ok(true));
        let left = settle(self.child.id(), if has_had_time { Duration::ZERO } else { GRACE });
        listened.and_then(|whole| {
            failure::check(status)?;
            if whole && !left { Ok(()) } else { Err(left_running()) }
        })
    }

    /// Until the command has ended and its pipes are closed; false when they are held open beyond
    /// its end.
    fn listen(&mut self, out: &mut Vec<u8>, log: &mut Log) -> Result<bool, Failure> {
        let mut ended: Option<Instant> = None;
        loop {
            if ended.is_some() && self.stdout.is_none() && self.stderr.is_none() {
                return Ok(true);
            }
            let until = ended.map(|at| at + GRACE).or(self.deadline);
            let ready = self.wait(ended.is_none(), until).map_err(|err| Failure::system("poll", err))?;
            if ready == Ready::default() {
                return if ended.is_some() { Ok(false) } else { Err(timed_out(self.limits.timeout)) };
            }
            if ready.stdin {
                self.feed();
            }
            if ready.stdout && take(&mut self.stdout, |bytes| out.extend_from_slice(bytes))? > 0 {
                self.check_size(out)?;
            }
            if ready.stderr {
                take(&mut self.stderr, |bytes| log.add(bytes))?;
            }
            if ready.exit {
                ended = Some(Instant::now());
                self.stdin = None;
                self.held = None;
            }
        }
    }

    fn check_size(&self, out: &[u8]) -> Result<(), Failure> {
        if out.len() as u64 > self.limits.max_output {
            return Err(Failure::new("too_large", "the command writes more than a sample may hold"));
        }
        Ok(())
    }

    fn wait(&self, exit: bool, until: Option<Instant>) -> Result<Ready, Errno> {
        let exit = exit.then(|| self.exit.as_fd());
        let stdin = self.stdin.as_ref().map(|(pipe, _)| pipe.as_fd());
        wait_ready(exit, stdin, self.stdout.as_ref().map(AsFd::as_fd), self.stderr.as_ref().map(AsFd::as_fd), until)
    }

    /// Writes what the pipe takes. A command that does not want all of its input may say so.
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

fn timed_out(timeout: Option<Duration>) -> Failure {
    let seconds = timeout.unwrap_or_default().as_secs_f64();
    Failure::new("timeout", format!("the command was ended after {seconds} s"))
}

fn left_running() -> Failure {
    Failure::new("left_running", "the command left something running behind it")
}
