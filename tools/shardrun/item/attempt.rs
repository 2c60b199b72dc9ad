//! One attempt at an item: the script runs in its own process group, its stdout goes to the output, and the output is
//! committed only if every stage of the script succeeded.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Result;
use tarpipe::compression::{self, Compression};
use tarpipe::location;
use tarpipe::run::shell;
use tarpipe::run::watched::{self, wait_readable};
use tarpipe::sink::{Sink, SinkOptions};

use crate::shardrun::item::counting_copy::{self, CopyError, SampleCount};

/// How long processes may outlive the script that started them: shells do not wait for `>(…)`.
const ORPHAN_GRACE: Duration = Duration::from_secs(2);
/// Time between TERM and KILL. Tools in the pipeline give their own children one second.
pub const TERM_GRACE: Duration = Duration::from_secs(3);

/// Why an attempt failed.
#[derive(Debug)]
pub struct AttemptFailure {
    /// Stable reason code for the job log.
    pub code: &'static str,
    /// Message for users.
    pub message: String,
    /// Exit status of the script, 128+N after signal N.
    pub exit: Option<i32>,
}

impl AttemptFailure {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        AttemptFailure { code, message: message.into(), exit: None }
    }
}

/// The size of a committed output.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoredOutput {
    /// Bytes after compression; None without an output.
    pub bytes: Option<u64>,
    /// Samples, if the output is an archive.
    pub samples: Option<u64>,
}

/// The script of an item and its environment.
pub struct ItemAttempt<'a> {
    /// Path of the shell.
    pub bash: &'a Path,
    /// The script with all placeholders filled in.
    pub script: &'a str,
    /// Environment variables of the item.
    pub env: &'a [(&'static str, String)],
    /// Name that stdout is committed to; without one, stdout goes where stderr goes.
    pub output: Option<&'a str>,
    /// Files that must exist afterwards.
    pub also: &'a [String],
    /// Time limit.
    pub timeout: Option<Duration>,
}

impl ItemAttempt<'_> {
    /// Runs the script with this stderr, and commits its output.
    pub fn run(&self, stderr: File) -> Result<StoredOutput, AttemptFailure> {
        let target = self.output.map(OutputTarget::open).transpose()?;
        let mut child = self.spawn(stderr)?;
        let deadline = self.timeout.map(|timeout| Instant::now() + timeout);
        let received = match (child.process.stdout.take(), target) {
            (Some(stdout), Some(target)) => target.fill(stdout, deadline),
            _ => Ok(None),
        };
        let status = child.wait_or_terminate(if received.is_ok() { deadline } else { Some(Instant::now()) });
        let status =
            status.map_err(|err| AttemptFailure::new("system", format!("cannot wait for the command: {err}")))?;
        let target = received.map_err(|failure| if failure.code == "timeout" { self.timed_out() } else { failure })?;
        let Some(status) = status else { return Err(self.timed_out()) };
        shell::check(status).map_err(|err| AttemptFailure {
            code: if status.code().is_some() { "exit_status" } else { "signal" },
            message: err.to_string(),
            exit: Some(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))),
        })?;
        self.check_also()?;
        target.map_or(Ok(StoredOutput::default()), PendingOutput::commit)
    }

    fn spawn(&self, stderr: File) -> Result<RunningScript, AttemptFailure> {
        let failed = |err: io::Error| AttemptFailure::new("system", format!("cannot start bash: {err}"));
        let mut command = Command::new(self.bash);
        command.args(["-o", "pipefail", "-eu", "-c", self.script]).stdin(Stdio::null());
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        match self.output {
            Some(_) => command.stdout(Stdio::piped()),
            None => command.stdout(stderr.try_clone().map_err(failed)?),
        };
        watched::become_subreaper();
        let (process, exit) = watched::spawn(command.stderr(stderr)).map_err(failed)?;
        Ok(RunningScript { process, exit })
    }

    fn timed_out(&self) -> AttemptFailure {
        let limit = self.timeout.unwrap_or_default();
        AttemptFailure::new("timeout", format!("timed out after {} s", limit.as_secs_f64()))
    }

    fn check_also(&self) -> Result<(), AttemptFailure> {
        match self.also.iter().find(|name| !std::fs::exists(location::path_of(name)).unwrap_or(false)) {
            None => Ok(()),
            Some(name) => Err(AttemptFailure::new("missing", format!("the pipeline did not write {name}"))),
        }
    }
}

struct RunningScript {
    process: Child,
    exit: OwnedFd,
}

impl RunningScript {
    /// Waits until the script and its children have ended; None if the deadline passed and they were terminated.
    fn wait_or_terminate(&mut self, deadline: Option<Instant>) -> io::Result<Option<ExitStatus>> {
        if wait_readable(&self.exit, deadline)? {
            let status = self.process.wait()?;
            watched::reap_group(self.process.id(), ORPHAN_GRACE);
            return Ok(Some(status));
        }
        let until = Instant::now() + TERM_GRACE;
        watched::terminate(&mut self.process, self.exit.as_fd(), TERM_GRACE)?;
        // The shell may end at once while a stage of the pipeline still cleans up.
        watched::reap_terminated_group(self.process.id(), until.saturating_duration_since(Instant::now()));
        Ok(None)
    }
}

/// The output before its first bytes are known.
struct OutputTarget<'a> {
    name: &'a str,
    /// None if the first bytes decide about compression.
    sink: Option<Sink>,
}

impl<'a> OutputTarget<'a> {
    fn open(name: &'a str) -> Result<Self, AttemptFailure> {
        let by_suffix = Compression::by_suffix(name).is_some();
        let sink = if by_suffix { None } else { Some(open_sink(name, false)?) };
        Ok(OutputTarget { name, sink })
    }

    /// Writes all of `stdout` to the output.
    fn fill(self, stdout: ChildStdout, deadline: Option<Instant>) -> Result<Option<PendingOutput>, AttemptFailure> {
        let mut input = DeadlineReader { stdout: stdout.into(), deadline };
        let mut head = Vec::with_capacity(compression::HEAD);
        let read = (&mut input).take(compression::HEAD as u64).read_to_end(&mut head);
        read.map_err(|err| unreadable(&err))?;
        let mut sink = match self.sink {
            Some(sink) => sink,
            None => open_sink(self.name, is_compressed(self.name, &head)?)?,
        };
        sink.write_all(&head).map_err(|err| unwritable(&err))?;
        match counting_copy::copy(&head, input, sink, is_archive(self.name)) {
            Ok((samples, sink)) => Ok(Some(PendingOutput { sink, samples, name: self.name.to_owned() })),
            Err(CopyError::Input(err)) => Err(unreadable(&err)),
            Err(CopyError::Output(err)) => Err(unwritable(&err)),
        }
    }
}

fn open_sink(name: &str, is_compressed: bool) -> Result<Sink, AttemptFailure> {
    let sink = if is_compressed { Sink::create_as_is(name) } else { Sink::create(name, SinkOptions::default()) };
    sink.map_err(|err| AttemptFailure::new("output", format!("{err:#}")))
}

/// Whether the pipeline has compressed its output as the suffix of its name says; if not, it is compressed here. Output that
/// is compressed in another format is refused, because nobody expects to decompress a file twice.
fn is_compressed(name: &str, head: &[u8]) -> Result<bool, AttemptFailure> {
    let Some(expected) = Compression::by_suffix(name).map(Compression::format) else { return Ok(false) };
    if !compression::is_compressed(head) {
        return Ok(false);
    }
    if expected.may_start_with(head) {
        return Ok(true);
    }
    let found = compression::recognise(head).map_or_else(|| "zstd or lz4".into(), |format| format.to_string());
    Err(AttemptFailure::new(
        "output",
        format!("the pipeline wrote {found} data, but the name {name} calls for {expected}"),
    ))
}

fn unreadable(err: &io::Error) -> AttemptFailure {
    let code = if err.kind() == io::ErrorKind::TimedOut { "timeout" } else { "system" };
    AttemptFailure::new(code, err.to_string())
}

fn unwritable(err: &io::Error) -> AttemptFailure {
    AttemptFailure::new("output", err.to_string())
}

/// A completely written output that is not visible under its name yet.
struct PendingOutput {
    sink: Sink,
    samples: SampleCount,
    name: String,
}

impl PendingOutput {
    fn commit(self) -> Result<StoredOutput, AttemptFailure> {
        let samples = match self.samples {
            SampleCount::Whole(samples) => Some(samples),
            SampleCount::Other => None,
            SampleCount::Empty if !is_archive(&self.name) => None,
            SampleCount::Empty => {
                return Err(AttemptFailure::new("damaged", "the pipeline wrote nothing to its stdout"));
            }
            SampleCount::Damaged(what) => return Err(AttemptFailure::new("damaged", what)),
        };
        let stored = self.sink.finish().map_err(|err| AttemptFailure::new("output", format!("{err:#}")))?;
        Ok(StoredOutput { bytes: Some(stored.bytes), samples })
    }
}

/// Whether a name is that of an archive.
fn is_archive(name: &str) -> bool {
    [".tar", ".tgz", ".tzst", ".txz", ".tbz2", ".tbz"].iter().any(|suffix| name.ends_with(suffix))
        || name.contains(".tar.")
}

/// A pipe that is read until a deadline.
struct DeadlineReader {
    stdout: OwnedFd,
    deadline: Option<Instant>,
}

impl Read for DeadlineReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.deadline.is_some() && !wait_readable(&self.stdout, self.deadline)? {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "timed out"));
        }
        Ok(rustix::io::retry_on_intr(|| rustix::io::read(&self.stdout, &mut *buf))?)
    }
}
