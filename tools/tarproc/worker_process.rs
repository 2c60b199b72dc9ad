//! A persistent worker process. A single poll serves its stdin, stdout and stderr, its end and its deadline.

use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use tarpipe::archive::BLOCK;
use tarpipe::run::failure::{self, Failure};
use tarpipe::run::watched::{self, read_available, reap_group, spawn, wait_or_terminate, wait_ready};

use crate::tarproc::log::CommandLog;

/// Grace period for a worker to end after its last sample.
const END_GRACE: Duration = Duration::from_secs(5);

/// The code of samples whose worker exited or died of a signal.
pub const WORKER_DIED: &str = "worker_died";

/// A worker process and its pipes.
pub struct WorkerProcess {
    child: Child,
    exit: OwnedFd,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<PipeReader>,
    request: Vec<u8>,
    sent: usize,
    deadline: Option<Instant>,
    log: CommandLog,
    fault: Option<Failure>,
    over: bool,
}

impl WorkerProcess {
    /// Starts the process.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let (stderr, theirs) = io::pipe()?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(theirs);
        let (mut child, exit) = spawn(&mut command)?;
        drop(command); // closes our copy of the other end of stderr
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        if let Some(stdin) = &stdin {
            rustix::io::ioctl_fionbio(stdin, true)?;
        }
        let (request, log) = (Vec::new(), CommandLog::default());
        let stderr = Some(stderr);
        Ok(WorkerProcess {
            child,
            exit,
            stdin,
            stdout,
            stderr,
            request,
            sent: 0,
            deadline: None,
            log,
            fault: None,
            over: false,
        })
    }

    /// Sets the next request, which is written while the result is read.
    pub fn send(&mut self, request: Vec<u8>, deadline: Option<Instant>) {
        (self.request, self.sent, self.deadline) = (request, 0, deadline);
    }

    /// The output of the worker since the last call.
    pub fn take_log(&mut self) -> CommandLog {
        std::mem::take(&mut self.log)
    }

    /// Why the result could not be read; `what` if nothing better is known.
    pub fn fault(&mut self, what: &str) -> Failure {
        self.fault.take().unwrap_or_else(|| Failure::new("worker_answer", format!("invalid result: {what}")))
    }

    /// Whether the process has ended.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Kills the process and everything it started.
    pub fn kill(&mut self) {
        if !std::mem::replace(&mut self.over, true) {
            _ = wait_or_terminate(&mut self.child, self.exit.as_fd(), true);
            reap_group(self.child.id(), Duration::ZERO);
        }
    }

    /// Ends the worker's input and gives it time to exit.
    pub fn finish(&mut self) {
        if self.over {
            return;
        }
        if let Some(mut stdin) = self.stdin.take() {
            _ = stdin.write_all(&[0; 2 * BLOCK]);
        }
        let until = Instant::now() + END_GRACE;
        while let Ok(ready) =
            wait_ready(Some(self.exit.as_fd()), None, None, self.stderr.as_ref().map(AsFd::as_fd), Some(until))
        {
            if ready.stderr {
                _ = read_available(&mut self.stderr, |bytes| self.log.add(bytes));
            } else {
                break;
            }
        }
        self.kill();
    }

    /// Writes as much as the pipe accepts.
    fn feed(&mut self) {
        let Some(stdin) = &mut self.stdin else { return };
        // If the worker is dying, reading its stdout will show it.
        self.sent += watched::write_available(stdin, &self.request[self.sent..]);
        if self.sent == self.request.len() {
            (self.request, self.sent) = (Vec::new(), 0);
        }
    }

    fn died(&mut self) -> io::Result<usize> {
        self.over = true;
        let status = wait_or_terminate(&mut self.child, self.exit.as_fd(), false)?;
        reap_group(self.child.id(), Duration::ZERO);
        self.fault = Some(match failure::check(status) {
            Ok(()) => Failure::new(WORKER_DIED, "it exited without a result"),
            Err(failure) if failure.ends_run() => failure,
            Err(failure) => Failure::new(WORKER_DIED, failure.to_string()),
        });
        Ok(0)
    }

    fn timed_out(&mut self) -> io::Result<usize> {
        self.fault = Some(Failure::new("timeout", "the worker timed out"));
        Ok(0)
    }
}

/// Reads the stdout of the worker.
impl Read for WorkerProcess {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.sent < self.request.len() {
            self.feed();
        }
        loop {
            let unsent = self.sent < self.request.len();
            let stdin = self.stdin.as_ref().filter(|_| unsent).map(AsFd::as_fd);
            let (stdout, stderr) = (self.stdout.as_ref().map(AsFd::as_fd), self.stderr.as_ref().map(AsFd::as_fd));
            let ready = wait_ready(Some(self.exit.as_fd()), stdin, stdout, stderr, self.deadline)?;
            if ready.stderr {
                read_available(&mut self.stderr, |bytes| self.log.add(bytes))
                    .map_err(|failure| io::Error::other(failure.to_string()))?;
            }
            if ready.stdin {
                self.feed();
            }
            match &self.stdout {
                Some(stdout) if ready.stdout => {
                    match rustix::io::retry_on_intr(|| rustix::io::read(stdout, &mut *buf))? {
                        0 => self.stdout = None,
                        n => return Ok(n),
                    }
                }
                _ if ready.stderr || ready.stdin => {}
                _ if ready.exit => return self.died(),
                _ => return self.timed_out(),
            }
        }
    }
}
