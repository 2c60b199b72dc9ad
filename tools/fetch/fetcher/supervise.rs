//! Runs the program of `--via` under the limits of an attempt: reads its stdout and stderr, watches the size of its output
//! file, and kills it and everything it started once it exceeds the time or the size.
//!
//! lib's supervisor of child processes is synchronous; here hundreds of programs run on one thread.

use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use tarpipe::run::failure;
use tarpipe::run::signals;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::{Instant, sleep};

use crate::fetch::client::BodyLimits;
use crate::fetch::failure::{FailureCode, FetchFailure, io_message};
use crate::fetch::memory::HeldBytes;

/// How often the time and the size of the output are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// How long to retry if the system has no free process, and how often.
const SPAWN_PATIENCE: Duration = Duration::from_secs(2);
const SPAWN_INTERVAL: Duration = Duration::from_millis(50);

/// The bytes of stderr to keep: its end tells what went wrong.
const STDERR_TAIL: usize = 4096;

/// A program to run for one URL.
pub struct CommandRun<'a> {
    /// The program and its arguments.
    pub argv: &'a [String],
    /// The file or folder that the program writes to, if it does not write to stdout.
    pub output: &'a Path,
    pub uses_stdout: bool,
    pub timeout: Duration,
    /// Makes a failure of an exit status other than success and the end of stderr.
    pub classify: fn(ExitStatus, &str) -> FetchFailure,
}

/// Runs the program to its end and returns what it wrote to stdout. Time spent waiting for the byte budget does not count.
pub async fn run(run: CommandRun<'_>, limits: &BodyLimits, held: &mut HeldBytes) -> Result<Vec<u8>, FetchFailure> {
    let program = &run.argv[0];
    let mut command = Command::new(program);
    command.args(&run.argv[1..]).stdin(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    command.stdout(if run.uses_stdout { Stdio::piped() } else { Stdio::null() });
    let child = spawn(&mut command).await.map_err(|err| start_failure(program, &err))?;
    let group = ProcessGroup::new(&child);
    let result = supervise(child, &run, limits, held).await;
    drop(group);
    result
}

async fn supervise(
    mut child: Child,
    run: &CommandRun<'_>,
    limits: &BodyLimits,
    held: &mut HeldBytes,
) -> Result<Vec<u8>, FetchFailure> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let is_waiting = AtomicBool::new(false);
    let finished = async {
        let (data, stderr) = tokio::join!(read_stdout(stdout, limits, held, &is_waiting), read_stderr_tail(stderr));
        Ok((data?, stderr, child.wait().await))
    };
    let too_large = async {
        while disk_usage(run.output) <= limits.max_bytes {
            sleep(CHECK_INTERVAL).await;
        }
    };
    let (data, stderr, status) = tokio::select! {
        finished = finished => finished?,
        () = elapse(run.timeout, &is_waiting) => {
            let message = format!("the command did not finish within {:?}", run.timeout);
            return Err(FetchFailure::transient(FailureCode::Timeout, message));
        }
        () = too_large => return Err(limits.too_large()),
    };
    match status {
        Ok(status) if status.success() => Ok(data),
        Ok(status) => Err((run.classify)(status, &String::from_utf8_lossy(&stderr))),
        Err(err) => Err(FetchFailure::permanent(FailureCode::Command, err.to_string())),
    }
}

/// Completes after `time`, not counting the time in which the row waits for the byte budget.
async fn elapse(time: Duration, is_waiting: &AtomicBool) {
    let mut left = time;
    while !left.is_zero() {
        let step = left.min(CHECK_INTERVAL);
        sleep(step).await;
        if !is_waiting.load(Ordering::SeqCst) {
            left -= step;
        }
    }
}

/// Reads stdout to its end, taking room from the byte budget after each read.
async fn read_stdout(
    stdout: Option<ChildStdout>,
    limits: &BodyLimits,
    held: &mut HeldBytes,
    is_waiting: &AtomicBool,
) -> Result<Vec<u8>, FetchFailure> {
    let mut data = Vec::new();
    let Some(mut stdout) = stdout else { return Ok(data) };
    loop {
        let read = stdout.read_buf(&mut data).await.map_err(|err| read_failure(&err))?;
        if read == 0 {
            return Ok(data);
        }
        if data.len() as u64 > limits.max_bytes {
            return Err(limits.too_large());
        }
        is_waiting.store(true, Ordering::SeqCst);
        held.take(read as u64).await;
        is_waiting.store(false, Ordering::SeqCst);
    }
}

async fn read_stderr_tail(stderr: Option<ChildStderr>) -> Vec<u8> {
    let mut tail = Vec::new();
    let mut buf = [0; 1024];
    let Some(mut stderr) = stderr else { return tail };
    while let Ok(n @ 1..) = stderr.read(&mut buf).await {
        tail.extend_from_slice(&buf[..n]);
        let extra = tail.len().saturating_sub(STDERR_TAIL);
        tail.drain(..extra);
    }
    tail
}

/// The bytes of a file, or of the files in a folder; 0 if it does not exist.
pub fn disk_usage(path: &Path) -> u64 {
    match std::fs::read_dir(path) {
        Ok(entries) => entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|found| found.len()).sum(),
        Err(_) => std::fs::metadata(path).map_or(0, |found| found.len()),
    }
}

/// Starts a program. If the system has no free process, retries for a while: others end.
async fn spawn(command: &mut Command) -> io::Result<Child> {
    let until = Instant::now() + SPAWN_PATIENCE;
    loop {
        match command.spawn() {
            Err(err) if err.kind() == io::ErrorKind::WouldBlock && Instant::now() < until => {
                sleep(SPAWN_INTERVAL).await
            }
            result => return result,
        }
    }
}

/// A program that does not start ends the run, unless the row is at fault: its URL may be too long for the system.
fn start_failure(program: &str, err: &io::Error) -> FetchFailure {
    let message = format!("cannot start {program}: {}", io_message(err));
    match err.kind() {
        io::ErrorKind::ArgumentListTooLong | io::ErrorKind::InvalidInput => {
            FetchFailure::permanent(FailureCode::Command, message)
        }
        _ => FetchFailure::fatal(format!("--via: {message}")),
    }
}

/// The failure to read the output of a program, which ends the run if this machine is at fault.
pub fn read_failure(err: &io::Error) -> FetchFailure {
    let failure = failure::Failure::io("read the output of the command", err);
    match failure.ends_run() {
        true => FetchFailure::fatal(failure.what()),
        false => FetchFailure::transient(FailureCode::Command, failure.what()),
    }
}

/// The process group of a program: whatever it started is killed with it.
struct ProcessGroup(Option<u32>);

impl ProcessGroup {
    fn new(child: &Child) -> Self {
        if let Some(leader) = child.id() {
            signals::guard_group(leader);
        }
        ProcessGroup(child.id())
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            signals::signal_group(leader, Signal::KILL);
            signals::release_group(leader);
        }
    }
}
