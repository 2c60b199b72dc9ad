//! One attempt at an item: the script runs in a process group of its own, its stdout goes to the
//! output, and the output is committed only when every stage succeeded.

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
use tarpipe::sink::{Options, Sink};

use crate::samples;

/// How long what a script started may go on after it: shells do not wait for `>(…)`.
const GRACE: Duration = Duration::from_secs(2);
/// Between the request to end and the end by force. Tools in the pipeline wait for a second for what they have started.
pub const LAST_WORDS: Duration = Duration::from_secs(3);

/// Why an attempt failed: a stable code, the words, and the exit status if there is one.
#[derive(Debug)]
pub struct Failure {
    /// What the job log counts it under.
    pub code: &'static str,
    /// In words.
    pub message: String,
    /// 128+N after signal N.
    pub exit: Option<i32>,
}

impl Failure {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        Failure { code, message: message.into(), exit: None }
    }
}

/// What was stored.
#[derive(Clone, Copy, Debug, Default)]
pub struct Made {
    /// Bytes, after compression.
    pub bytes: Option<u64>,
    /// Samples, if it is an archive.
    pub samples: Option<u64>,
}

/// What runs and where its output goes.
pub struct Attempt<'a> {
    /// The shell.
    pub bash: &'a Path,
    /// The script, filled.
    pub script: &'a str,
    /// The environment of the item.
    pub env: &'a [(&'static str, String)],
    /// The name that stdout is committed to; without one it goes where stderr goes.
    pub output: Option<&'a str>,
    /// Files that must be there afterwards.
    pub also: &'a [String],
    /// How long it may take.
    pub timeout: Option<Duration>,
}

impl Attempt<'_> {
    /// Runs it; `stderr` is the child's.
    pub fn run(&self, stderr: File) -> Result<Made, Failure> {
        let target = self.output.map(Target::open).transpose()?;
        let mut child = self.spawn(stderr)?;
        let deadline = self.timeout.map(|timeout| Instant::now() + timeout);
        let listened = match (child.process.stdout.take(), target) {
            (Some(stdout), Some(target)) => target.fill(stdout, deadline),
            _ => Ok(None),
        };
        let status = child.end(if listened.is_ok() { deadline } else { Some(Instant::now()) });
        let status = status.map_err(|err| Failure::new("system", format!("cannot wait for the command: {err}")))?;
        let target = listened.map_err(|failure| if failure.code == "timeout" { self.timed_out() } else { failure })?;
        let Some(status) = status else { return Err(self.timed_out()) };
        shell::check(status).map_err(|err| Failure {
            code: if status.code().is_some() { "exit_status" } else { "signal" },
            message: err.to_string(),
            exit: Some(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))),
        })?;
        self.check_also()?;
        target.map_or(Ok(Made::default()), Filled::commit)
    }

    fn spawn(&self, stderr: File) -> Result<Running, Failure> {
        let failed = |err: io::Error| Failure::new("system", format!("cannot start bash: {err}"));
        let mut command = Command::new(self.bash);
        command.args(["-o", "pipefail", "-eu", "-c", self.script]).stdin(Stdio::null());
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        match self.output {
            Some(_) => command.stdout(Stdio::piped()),
            None => command.stdout(stderr.try_clone().map_err(failed)?),
        };
        watched::adopt_orphans();
        let (process, exit) = watched::spawn(command.stderr(stderr)).map_err(failed)?;
        Ok(Running { process, exit })
    }

    fn timed_out(&self) -> Failure {
        let limit = self.timeout.unwrap_or_default();
        Failure::new("timeout", format!("not done after {} s", limit.as_secs_f64()))
    }

    fn check_also(&self) -> Result<(), Failure> {
        match self.also.iter().find(|name| !std::fs::exists(location::path_of(name)).unwrap_or(false)) {
            None => Ok(()),
            Some(name) => Err(Failure::new("missing", format!("the pipeline did not write {name}"))),
        }
    }
}

struct Running {
    process: Child,
    exit: OwnedFd,
}

impl Running {
    /// Waits for the end of the script and of all it started; None when that had to be brought about.
    fn end(&mut self, deadline: Option<Instant>) -> io::Result<Option<ExitStatus>> {
        if wait_readable(&self.exit, deadline)? {
            let status = self.process.wait()?;
            watched::settle(self.process.id(), GRACE);
            return Ok(Some(status));
        }
        let until = Instant::now() + LAST_WORDS;
        watched::terminate(&mut self.process, self.exit.as_fd(), LAST_WORDS)?;
        // The shell may be gone at once, while a stage of the pipeline cleans up.
        watched::settle_asked(self.process.id(), until.saturating_duration_since(Instant::now()));
        Ok(None)
    }
}

/// The output before the first byte is known.
struct Target<'a> {
    name: &'a str,
    /// None where the first bytes decide how it is stored.
    sink: Option<Sink>,
}

impl<'a> Target<'a> {
    fn open(name: &'a str) -> Result<Self, Failure> {
        let by_suffix = Compression::by_suffix(name).is_some();
        let sink = if by_suffix { None } else { Some(open_sink(name, false)?) };
        Ok(Target { name, sink })
    }

    /// Takes all of `stdout`.
    fn fill(self, stdout: ChildStdout, deadline: Option<Instant>) -> Result<Option<Filled>, Failure> {
        let mut input = Timed { stdout: stdout.into(), deadline };
        let mut head = Vec::with_capacity(compression::HEAD);
        let read = (&mut input).take(compression::HEAD as u64).read_to_end(&mut head);
        read.map_err(|err| unreadable(&err))?;
        let mut sink = match self.sink {
            Some(sink) => sink,
            None => open_sink(self.name, is_packed(self.name, &head)?)?,
        };
        sink.write_all(&head).map_err(|err| unwritable(&err))?;
        match samples::copy(head, input, sink, is_archive(self.name)) {
            Ok((samples, sink)) => Ok(Some(Filled { sink, samples, name: self.name.to_owned() })),
            Err(samples::Broken::Input(err)) => Err(unreadable(&err)),
            Err(samples::Broken::Output(err)) => Err(unwritable(&err)),
        }
    }
}

fn open_sink(name: &str, as_is: bool) -> Result<Sink, Failure> {
    let sink = if as_is { Sink::create_as_is(name) } else { Sink::create(name, Options::default()) };
    sink.map_err(|err| Failure::new("output", format!("{err:#}")))
}

/// Whether the pipeline has compressed its output as the name asks for. All else is compressed on its way, but not
/// what is compressed in another way: nobody expects to unpack a file twice.
fn is_packed(name: &str, head: &[u8]) -> Result<bool, Failure> {
    let Some(asked) = Compression::by_suffix(name).map(Compression::format) else { return Ok(false) };
    if !compression::is_compressed(head) {
        return Ok(false);
    }
    if asked.may_start_with(head) {
        return Ok(true);
    }
    let found = compression::recognise(head).map_or_else(|| "zstd or lz4".into(), |format| format.to_string());
    Err(Failure::new("output", format!("the pipeline writes {found}, but the name {name} asks for {asked}")))
}

fn unreadable(err: &io::Error) -> Failure {
    let code = if err.kind() == io::ErrorKind::TimedOut { "timeout" } else { "system" };
    Failure::new(code, err.to_string())
}

fn unwritable(err: &io::Error) -> Failure {
    Failure::new("output", err.to_string())
}

/// The output with all bytes in it, not yet under its name.
struct Filled {
    sink: Sink,
    samples: samples::Count,
    name: String,
}

impl Filled {
    fn commit(self) -> Result<Made, Failure> {
        let samples = match self.samples {
            samples::Count::Whole(samples) => Some(samples),
            samples::Count::Other => None,
            samples::Count::Empty if !is_archive(&self.name) => None,
            samples::Count::Empty => return Err(Failure::new("damaged", "the pipeline wrote nothing to its stdout")),
            samples::Count::Damaged(what) => return Err(Failure::new("damaged", what)),
        };
        let stored = self.sink.finish().map_err(|err| Failure::new("output", format!("{err:#}")))?;
        Ok(Made { bytes: Some(stored.bytes), samples })
    }
}

/// Whether a name promises an archive.
fn is_archive(name: &str) -> bool {
    [".tar", ".tgz", ".tzst", ".txz", ".tbz2", ".tbz"].iter().any(|suffix| name.ends_with(suffix))
        || name.contains(".tar.")
}

/// A pipe that is read until a moment.
struct Timed {
    stdout: OwnedFd,
    deadline: Option<Instant>,
}

impl Read for Timed {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.deadline.is_some() && !wait_readable(&self.stdout, self.deadline)? {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "not done in time"));
        }
        Ok(rustix::io::retry_on_intr(|| rustix::io::read(&self.stdout, &mut *buf))?)
    }
}
