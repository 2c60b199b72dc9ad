//! --fast-shell: one long-lived bash that forks a sub-shell for every sample.
//!
//! It is not the default because a script can tell the difference: `$$` is the same for all samples
//! (and killing it ends the interpreter), `$BASH_SUBSHELL` is not 0, `$0` and `$SHLVL` differ.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tarpipe::run::failure::{self, Failure};
use tarpipe::run::signals;
use tarpipe::run::watched::{self, reap_group, wait_or_terminate, wait_ready};
use tarpipe::sample::Sample;

use crate::tarproc::command::{self, CommandLimits, CommandResult, GRACE, StdoutTarget};
use crate::tarproc::directory::SampleDirectory;
use crate::tarproc::log::CommandLog;
use crate::tarproc::settings::RunnerSettings;

/// Reads requests, runs the script for each in a process group of its own, and prints its process id and then its status.
/// Output goes to files: a pipe shared by all samples could carry output of a process that an earlier sample left running.
const DRIVER: &str = r#"
set -m
exec 8<&0 9>&1 0</dev/null 1>&2
TARPROC_SCRIPT=$1; shift
while IFS= read -rd '' -u 8 TARPROC_OUT && IFS= read -rd '' -u 8 TARPROC_ERR && IFS= read -rd '' -u 8 TARPROC_DIR &&
      IFS= read -rd '' -u 8 TARPROC_KEY && IFS= read -rd '' -u 8 TARPROC_SOURCE && IFS= read -rd '' -u 8 TARPROC_INDEX
do
  ( exec 8<&- 9>&-; export TARPROC_KEY TARPROC_SOURCE TARPROC_INDEX
    cd "$TARPROC_DIR" && eval "$TARPROC_SCRIPT" ) >>"$TARPROC_OUT" 2>>"$TARPROC_ERR" &
  echo $! >&9
  wait $! 2>/dev/null
  echo $? >&9
done
"#;

/// A bash that is started when it is first needed, and restarted after it was killed.
pub struct ForkingShell {
    settings: Arc<RunnerSettings>,
    live: Option<LiveShell>,
}

struct LiveShell {
    child: Child,
    exit: OwnedFd,
    stdin: ChildStdin,
    stdout: ChildStdout,
}

impl ForkingShell {
    /// Nothing is started yet.
    pub fn new(settings: Arc<RunnerSettings>) -> Self {
        ForkingShell { settings, live: None }
    }

    /// Runs the script in a directory.
    pub fn run(&mut self, index: u64, sample: &Sample, directory: &SampleDirectory) -> CommandResult {
        let path = directory.path();
        let files = OutputFiles::beside(&path, self.settings.stdout);
        let verdict = self.run_script(index, sample, &path, &files);
        if verdict.as_ref().is_err_and(|failure| failure.code == "system") {
            self.live = None;
        }
        files.collect(verdict, self.settings.limits)
    }

    fn run_script(&mut self, index: u64, sample: &Sample, path: &Path, files: &OutputFiles) -> Result<(), Failure> {
        let failed = |err| Failure::io("run the shell", &err);
        if self.live.is_none() {
            self.live = Some(LiveShell::start(&self.settings).map_err(failed)?);
        }
        let Some(live) = &mut self.live else { return Err(Failure::new("system", "no shell")) };
        live.request(index, sample, path, files).map_err(failed)?;
        let leader = live.number(None).map_err(failed)?.ok_or_else(gone)?;
        signals::guard_within(live.child.id(), leader);
        let deadline = self.settings.limits.timeout.map(|timeout| Instant::now() + timeout);
        let (status, in_time) = live.status(leader, deadline).map_err(failed)?;
        let left = reap_group(leader, if in_time { GRACE } else { Duration::ZERO });
        let status = status.ok_or_else(gone)?;
        if !in_time {
            return Err(command::timed_out(self.settings.limits.timeout));
        }
        failure::check(ExitStatus::from_raw((status as i32) << 8))?;
        if left { Err(command::left_running()) } else { Ok(()) }
    }
}

impl LiveShell {
    fn start(settings: &RunnerSettings) -> io::Result<Self> {
        let source = settings.interpreter.source().map_err(io::Error::other)?;
        let mut command = Command::new("bash");
        command.args(["-c", DRIVER, "bash", &source]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let (mut child, exit) = watched::spawn(&mut command)?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(stdin), Some(stdout)) => Ok(LiveShell { child, exit, stdin, stdout }),
            _ => Err(io::Error::other("no pipe to the shell")),
        }
    }

    fn request(&mut self, index: u64, sample: &Sample, path: &Path, files: &OutputFiles) -> io::Result<()> {
        let index = index.to_string();
        let paths = [files.out.as_path(), files.err.as_path(), path];
        let mut words: Vec<&[u8]> = paths.iter().map(|path| path.as_os_str().as_encoded_bytes()).collect();
        words.extend([sample.key.as_bytes(), sample.source.as_bytes(), index.as_bytes()]);
        let mut request = words.join(&0);
        request.push(0);
        self.stdin.write_all(&request)
    }

    /// The next number that the driver prints; None if it ended, or after the deadline.
    fn number(&mut self, until: Option<Instant>) -> io::Result<Option<u32>> {
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            let ready = wait_ready(None, None, Some(self.stdout.as_fd()), None, until)?;
            let mut buf = [0; 16];
            if !ready.stdout {
                return Ok(None);
            }
            // Byte by byte: the status may follow the process id at once.
            let n = rustix::io::read(&self.stdout, &mut buf[..1])?;
            if n == 0 {
                return Ok(None);
            }
            line.extend_from_slice(&buf[..n]);
        }
        Ok(std::str::from_utf8(&line).ok().and_then(|text| text.trim().parse().ok()))
    }

    /// The status of the command, which is killed after the deadline; and whether it ended in time.
    fn status(&mut self, leader: u32, deadline: Option<Instant>) -> io::Result<(Option<u32>, bool)> {
        let status = self.number(deadline)?;
        if status.is_some() || deadline.is_none_or(|deadline| Instant::now() < deadline) {
            return Ok((status, true));
        }
        signals::signal_group(leader, Signal::TERM);
        let ended = self.number(Some(Instant::now() + Duration::from_millis(200)))?;
        signals::signal_group(leader, Signal::KILL);
        let status = if ended.is_some() { ended } else { self.number(None)? };
        Ok((status, false))
    }
}

impl Drop for LiveShell {
    fn drop(&mut self) {
        _ = wait_or_terminate(&mut self.child, self.exit.as_fd(), true);
        reap_group(self.child.id(), Duration::ZERO);
    }
}

/// The files that take the output of a command while it runs.
struct OutputFiles {
    out: PathBuf,
    err: PathBuf,
}

impl OutputFiles {
    fn beside(path: &Path, stdout: StdoutTarget) -> Self {
        let err = path.with_extension("err");
        let out = if stdout == StdoutTarget::Kept { path.with_extension("out") } else { err.clone() };
        OutputFiles { out, err }
    }

    /// Reads and removes the files.
    fn collect(self, verdict: Result<(), Failure>, limits: CommandLimits) -> CommandResult {
        let mut finished = CommandResult { verdict, stdout: Vec::new(), log: CommandLog::default() };
        let mut buf = [0; 16 * 1024];
        if let Ok(mut file) = File::open(&self.err) {
            while let Ok(n @ 1..) = file.read(&mut buf) {
                finished.log.add(&buf[..n]);
            }
            _ = std::fs::remove_file(&self.err);
        }
        if self.out != self.err {
            if let Ok(file) = File::open(&self.out) {
                _ = file.take(limits.max_output + 1).read_to_end(&mut finished.stdout);
            }
            _ = std::fs::remove_file(&self.out);
        }
        if finished.stdout.len() as u64 > limits.max_output {
            finished.verdict = Err(command::too_large());
        }
        finished
    }
}

fn gone() -> Failure {
    Failure::new("system", "the shell that runs the commands was killed")
}
