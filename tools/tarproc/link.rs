//! The pipes to and from a persistent worker, served by one poll: what is not written yet, what
//! it answers, what it says, its end, and the time it may take.

use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tarpipe::archive::BLOCK;
use tarpipe::run::failure::{self, Failure};
use tarpipe::run::watched::{end, settle, spawn, take, wait_ready};

use crate::log::Log;

/// How long a worker may take to end after its last sample.
const FAREWELL: Duration = Duration::from_secs(5);

/// A worker process and its pipes.
pub struct Link {
    child: Child,
    exit: OwnedFd,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<PipeReader>,
    request: Vec<u8>,
    sent: usize,
    deadline: Option<Instant>,
    log: Log,
    fault: Option<Failure>,
    over: bool,
}

impl Link {
    /// Starts the process.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let (stderr, theirs) = io::pipe()?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(theirs);
        let (mut child, exit) = spawn(&mut command)?;
        drop(command); // and with it our copy of the other end of stderr
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        if let Some(stdin) = &stdin {
            rustix::io::ioctl_fionbio(stdin, true)?;
        }
        let (request, log) = (Vec::new(), Log::default());
        let stderr = Some(stderr);
        Ok(Link { child, exit, stdin, stdout, stderr, request, sent: 0, deadline: None, log, fault: None, over: false })
    }

    /// Lets the next answer begin: `request` is written while it is read.
    pub fn send(&mut self, request: Vec<u8>, deadline: Option<Instant>) {
        (self.request, self.sent, self.deadline) = (request, 0, deadline);
    }

    /// What the worker said since the last time.
    pub fn take_log(&mut self) -> Log {
        std::mem::take(&mut self.log)
    }

    /// Why the answer could not be read; `what` if nothing better is known.
    pub fn fault(&mut self, what: &str) -> Failure {
        self.fault.take().unwrap_or_else(|| Failure::new("worker_answer", format!("not an answer: {what}")))
    }

    /// Whether the process has ended.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Ends the process, and what it started.
    pub fn end_by_force(&mut self) {
        if !std::mem::replace(&mut self.over, true) {
            _ = end(&mut self.child, self.exit.as_fd(), true);
            settle(self.child.id(), Duration::ZERO);
        }
    }

    /// Tells the worker that there is no more and gives it time to end by itself.
    pub fn finish(&mut self) {
        if self.over {
            return;
        }
        if let Some(mut stdin) = self.stdin.take() {
            _ = stdin.write_all(&[0; 2 * BLOCK]);
        }
        let until = Instant::now() + FAREWELL;
        while let Ok(ready) =
            wait_ready(Some(self.exit.as_fd()), None, None, self.stderr.as_ref().map(AsFd::as_fd), Some(until))
        {
            if ready.stderr {
                _ = take(&mut self.stderr, |bytes| self.log.add(bytes));
            } else {
                break;
            }
        }
        self.end_by_force();
    }

    /// Writes what the pipe takes.
    fn feed(&mut self) {
        let Some(stdin) = &mut self.stdin else { return };
        match stdin.write(&self.request[self.sent..]) {
            Ok(n) => self.sent += n,
            Err(err) if matches!(err.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => self.sent = self.request.len(), // it is dying; its stdout will tell
        }
        if self.sent == self.request.len() {
            (self.request, self.sent) = (Vec::new(), 0);
        }
    }

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
                take(&mut self.stderr, |bytes| self.log.add(bytes))
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

    fn died(&mut self) -> io::Result<usize> {
        self.over = true;
        let status = end(&mut self.child, self.exit.as_fd(), false)?;
        settle(self.child.id(), Duration::ZERO);
        let how =
            failure::check(status).err().map_or("it left without an answer".to_owned(), |failure| failure.to_string());
        self.fault = Some(Failure::new("worker_died", how));
        Ok(0)
    }

    fn timed_out(&mut self) -> io::Result<usize> {
        self.fault = Some(Failure::new("timeout", "the worker did not answer in time"));
        Ok(0)
    }
}

/// What the worker answers, for the archive reader.
pub struct Output(pub Arc<Mutex<Link>>);

impl Read for Output {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).read(buf)
    }
}
