//! One run of a command: started in a process group of its own, fed, listened to, ended in time.
//! A single poll waits for its pipes and its end, so that no thread is started for it.

use std::io::{self, PipeReader, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};
use tarpipe::signals;

use crate::failure::{self, Failure};
use crate::log::Log;

/// How long what a command started may go on after it: shells do not wait for `>(…)`.
pub const GRACE: Duration = Duration::from_millis(500);
/// Between the request to end and the end by force.
const LAST_WORDS: Duration = Duration::from_millis(200);

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
        command.stderr(theirs).stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        let mut child = spawn(&mut command)?;
        drop(command); // and with it our copies of the other ends
        let exit = watch(&child)?;
        let stdin = match (child.stdin.take(), input) {
            (Some(pipe), Some(data)) => {
                rustix::io::ioctl_fionbio(&pipe, true)?;
                Some((pipe, data))
            }
            _ => None,
        };
        let deadline = limits.timeout.map(|timeout| Instant::now() + timeout);
        Ok(Pump { stdout: child.stdout.take(), stderr: Some(stderr), stdin, child, exit, limits, deadline })
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

/// Starts a command in a process group of its own, which a signal to us ends too.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    let child = command.process_group(0).spawn()?;
    signals::guard_group(child.id());
    Ok(child)
}

/// A descriptor that becomes readable when the child ends.
pub fn watch(child: &Child) -> io::Result<OwnedFd> {
    Ok(rustix::process::pidfd_open(Pid::from_child(child), PidfdFlags::empty())?)
}

/// Which of the things waited for have happened; none of them when the time is over.
#[derive(Default, PartialEq, Eq)]
pub struct Ready {
    /// The process has ended.
    pub exit: bool,
    /// There is room to write.
    pub stdin: bool,
    /// There is something to read, or the end.
    pub stdout: bool,
    /// The same.
    pub stderr: bool,
}

/// Waits for the end of a process and for its pipes, those that are given.
pub fn wait_ready(
    exit: Option<BorrowedFd<'_>>,
    stdin: Option<BorrowedFd<'_>>,
    stdout: Option<BorrowedFd<'_>>,
    stderr: Option<BorrowedFd<'_>>,
    until: Option<Instant>,
) -> Result<Ready, Errno> {
    let watched = [exit, stdin, stdout, stderr];
    let flags = |i| if i == 1 { PollFlags::OUT } else { PollFlags::IN };
    let given = watched.iter().enumerate().filter_map(|(i, fd)| fd.map(|fd| PollFd::from_borrowed_fd(fd, flags(i))));
    let mut fds: Vec<PollFd<'_>> = given.collect();
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
        match poll(&mut fds, left.as_ref()) {
            Err(Errno::INTR) => {}
            Err(err) => return Err(err),
            Ok(_) => break,
        }
    }
    let mut events = fds.iter().map(|fd| !fd.revents().is_empty());
    let mut next = |fd: Option<BorrowedFd<'_>>| fd.is_some() && events.next().unwrap_or(false);
    Ok(Ready { exit: next(exit), stdin: next(stdin), stdout: next(stdout), stderr: next(stderr) })
}

/// Reads once and hands the bytes on; at the end of the pipe, closes it.
pub fn take<P: AsFd>(pipe: &mut Option<P>, mut give: impl FnMut(&[u8])) -> Result<usize, Failure> {
    let Some(open) = pipe else { return Ok(0) };
    let mut buf = [0; 16 * 1024];
    let n = rustix::io::retry_on_intr(|| rustix::io::read(&*open, &mut buf))
        .map_err(|err| Failure::system("read from the command", err))?;
    if n == 0 {
        *pipe = None;
    } else {
        give(&buf[..n]);
    }
    Ok(n)
}

/// Waits for the end of a child, which is brought about if need be.
pub fn end(child: &mut Child, exit: BorrowedFd<'_>, by_force: bool) -> io::Result<ExitStatus> {
    if by_force {
        signals::end_group(child.id(), Signal::TERM);
        _ = wait_ready(Some(exit), None, None, None, Some(Instant::now() + LAST_WORDS));
        signals::end_group(child.id(), Signal::KILL);
    }
    child.wait()
}

/// Takes in what commands leave behind, so that [`settle`] sees its end. Without this a process
/// that has ended stays in its group until another one takes notice, which in a container may be
/// never.
pub fn adopt_orphans() {
    _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Lets what an ended command left behind in its group end within `grace`, and then ends it; true
/// when that was needed.
pub fn settle(leader: u32, grace: Duration) -> bool {
    let until = Instant::now() + grace;
    let mut left = has_members(leader);
    while left && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
        left = has_members(leader);
    }
    if left {
        signals::end_group(leader, Signal::KILL);
    }
    signals::release_group(leader);
    wait_if_ending();
    left
}

/// Whether a process group has members. The kernel does not give its number out before it has none.
fn has_members(leader: u32) -> bool {
    let Some(group) = Pid::from_raw(leader as i32) else { return false };
    let is_there = || rustix::process::test_kill_process_group(group).is_ok();
    if !is_there() {
        return false;
    }
    while let Ok(Some(_)) = rustix::process::waitpgid(group, WaitOptions::NOHANG) {}
    is_there()
}

/// When the process is on its way out, a thread that works on samples goes no further.
pub fn wait_if_ending() {
    signals::yield_to_signal();
    while signals::is_ending() {
        std::thread::park();
    }
}

fn timed_out(timeout: Option<Duration>) -> Failure {
    let seconds = timeout.unwrap_or_default().as_secs_f64();
    Failure::new("timeout", format!("the command was ended after {seconds} s"))
}

fn left_running() -> Failure {
    Failure::new("left_running", "the command left something running behind it")
}
