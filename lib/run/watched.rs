//! A child that is watched with poll: its end, its pipes and the clock are waited for at once, and
//! whatever it started ends with it. [`crate::run::shell`] is for those who only read or write.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};

use crate::run::failure::Failure;
use crate::run::procfs::Process;
use crate::run::signals;
use crate::run::strays::{self, Mark};

/// Between the request to end and the end by force.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// How long we wait for the end of a process group that was killed.
const DEATH: Duration = Duration::from_secs(2);

/// How long we wait for a free process.
const PATIENCE: Duration = Duration::from_secs(2);

/// Starts a command in a process group of its own, which a signal to us ends too, with all that left the group where
/// the kernel lets us find it. The descriptor becomes readable when the command ends.
pub fn spawn(command: &mut Command) -> io::Result<(Child, OwnedFd)> {
    let mark = strays::mark_command(command.process_group(0));
    let mut child = spawn_patiently(command, mark)?;
    match exit_of(&child) {
        Ok(exit) => Ok((child, exit)),
        Err(err) => {
            signals::end_group(child.id(), Signal::KILL);
            _ = child.wait();
            signals::release_group(child.id());
            Err(err)
        }
    }
}

/// A descriptor that becomes readable when a child ends.
pub fn exit_of(child: &Child) -> io::Result<OwnedFd> {
    let pid = Pid::from_child(child);
    match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Err(Errno::NOSYS) => exit_by_thread(pid),
        found => Ok(found?),
    }
}

/// The same before Linux 5.3: a thread waits, and a pipe is closed.
fn exit_by_thread(pid: Pid) -> io::Result<OwnedFd> {
    let (exit, held) = io::pipe()?;
    let wait = move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        _ = rustix::io::retry_on_intr(|| rustix::process::waitid(WaitId::Pid(pid), options));
        drop(held);
    };
    std::thread::Builder::new().name("exit".to_owned()).spawn(wait)?;
    Ok(exit.into())
}

/// Others' processes end: one that cannot be started now may be in a moment.
fn spawn_patiently(command: &mut Command, mark: Mark) -> io::Result<Child> {
    let until = Instant::now() + PATIENCE;
    loop {
        match spawn_marked(command, mark) {
            Err(err) if err.kind() == io::ErrorKind::WouldBlock && Instant::now() < until => {
                wait_if_ending();
                std::thread::sleep(Duration::from_millis(50));
            }
            result => return result,
        }
    }
}

/// Starts and guards a command that has its mark.
pub(crate) fn spawn_marked(command: &mut Command, mark: Mark) -> io::Result<Child> {
    let _until_guarded = strays::spawning();
    command.spawn().inspect(|child| signals::guard(child.id(), mark))
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

/// Waits for one descriptor; false when the time is over first.
pub fn wait_readable(fd: impl AsFd, until: Option<Instant>) -> io::Result<bool> {
    Ok(wait_ready(None, None, Some(fd.as_fd()), None, until)?.stdout)
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
    if by_force { terminate(child, exit, LAST_WORDS) } else { child.wait() }
}

/// Asks a child and its group to end, and ends them by force when the child has not done so within `grace`. Its
/// [`settle_asked`] is for the rest of the group.
pub fn terminate(child: &mut Child, exit: BorrowedFd<'_>, grace: Duration) -> io::Result<ExitStatus> {
    signals::end_group(child.id(), Signal::TERM);
    let ready = wait_ready(Some(exit), None, None, None, Some(Instant::now() + grace));
    if !ready.is_ok_and(|ready| ready.exit) {
        signals::end_group(child.id(), Signal::KILL);
    }
    child.wait()
}

/// Adopts what commands leave behind, so that [`settle`] finds it and sees its end. Without this a process that has
/// ended stays in its group until another one takes notice, which in a container may be never, and one that left its
/// group is out of sight.
pub fn adopt_orphans() {
    _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Ends processes that left the group of their command and hide which command started them. For the end of a run that
/// started several commands at a time; [`settle`] ends all others.
pub fn end_orphans() {
    strays::kill_rest();
}

/// Lets what an ended command left behind, in its group or outside of it, end within `grace`, and then ends it; true
/// when that was needed.
pub fn settle(leader: u32, grace: Duration) -> bool {
    settle_by(leader, grace, |_| ())
}

/// The same after TERM was sent to the group of the command: what has left the group is asked to end, too.
pub fn settle_asked(leader: u32, grace: Duration) -> bool {
    let mut asked = strays::Asked::default();
    settle_by(leader, grace, |left| asked.ask(left))
}

fn settle_by(leader: u32, grace: Duration, mut see: impl FnMut(&[Process])) -> bool {
    let until = Instant::now() + grace;
    let mark = signals::mark_of(leader);
    let strays = || mark.map(strays::of).unwrap_or_default();
    let left = loop {
        let (strays, has_members) = (strays(), signals::has_members(leader));
        see(&strays);
        let left = has_members || !strays.is_empty();
        if !left || Instant::now() >= until {
            break left;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    if left {
        end_rest(leader, mark);
    }
    signals::release_group(leader);
    wait_if_ending();
    left
}

/// Ends what is left by force, and waits for that: a process that is still dying when the next command settles would
/// count against that one.
fn end_rest(leader: u32, mark: Option<Mark>) {
    signals::end_group(leader, Signal::KILL);
    let until = Instant::now() + DEATH;
    while signals::has_members(leader) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(2));
    }
    if let Some(mark) = mark {
        strays::kill(mark);
    }
}

/// When the process is on its way out, a thread that works on samples goes no further.
pub fn wait_if_ending() {
    signals::yield_to_signal();
    while signals::is_ending() {
        std::thread::park();
    }
}
