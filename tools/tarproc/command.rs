//! One run of a command on a sample, within the limits of the run.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tarpipe::run::captured::{Capture, CommandEnd, RunningCommand};
use tarpipe::run::failure::{self, Failure};
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
pub fn run(mut command: Command, input: Option<&[u8]>, stdout: StdoutTarget, limits: CommandLimits) -> CommandResult {
    if input.is_none() {
        command.stdin(Stdio::null());
    }
    let capture = Capture {
        input,
        is_merged: stdout == StdoutTarget::Logged,
        deadline: limits.timeout.map(|timeout| Instant::now() + timeout),
        max_output: limits.max_output,
        grace: GRACE,
        ..Capture::default()
    };
    let mut finished = CommandResult { verdict: Ok(()), stdout: Vec::new(), log: CommandLog::default() };
    let ended = match RunningCommand::start(command, capture) {
        Ok(running) => running.finish(&mut finished.stdout, |bytes| finished.log.add(bytes)),
        Err(err) => Err(Failure::io("start the command", &err)),
    };
    finished.verdict = ended.and_then(|end| match end {
        CommandEnd::Exited(status) => failure::check(status),
        CommandEnd::LeftRunning => Err(left_running()),
        CommandEnd::TimedOut => Err(timed_out(limits.timeout)),
        CommandEnd::TooLarge => Err(too_large()),
    });
    finished
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

pub fn too_large() -> Failure {
    Failure::new("too_large", "the command writes more than --max-sample")
}
