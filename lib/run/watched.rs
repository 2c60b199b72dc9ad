//! Child processes that are watched: one `poll` waits for their end, their
//! pipes and a deadline at the same time, and everything that they started ends
//! with them. For commands that run to their end, [`crate::run::captured`] is
//! simpler, and for commands that are only read from or written to,
//! [`crate::run::shell`]. Used directly where a child serves many samples, or
//! is waited for in a way of its own:
//!
//! ```
//! use std::os::fd::AsFd;
//! use std::process::Command;
//! use std::time::{Duration, Instant};
//! use tarpipe::run::watched;
//!
//! let (mut child, exit) = watched::spawn(Command::new("sleep").arg("1000"))?;
//! let in_time = watched::wait_readable(&exit, Some(Instant::now() + Duration::from_millis(10)))?;
//! let status = watched::wait_or_terminate(&mut child, exit.as_fd(), !in_time)?;
//! watched::reap_group(child.id(), Duration::ZERO);
//! assert!(!in_time && !status.success());
//! # anyhow::Ok(())
//! ```

use std::io::{self, Write};
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
use crate::run::strays::{self, ChildMark};

/// The grace period between TERM and KILL.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// How long to wait for a killed process group to disappear.
const DEATH: Duration = Duration::from_secs(2);

/// How long to retry if the limit on processes is reached.
const PATIENCE: Duration = Duration::from_secs(2);

/// Starts a command in a process group of its own. The group ends with us, and
/// so do processes that have left it, as far as the kernel lets us find them.
/// The returned file descriptor becomes readable when the command ends.
///
/// If the limit on processes is reached, this is retried for two seconds,
/// because other processes end. Blocks forever if the process is being ended.
/// The caller must reap the child and call [`reap_group`].
///
/// # Errors
///
/// The command cannot be started, or the system is out of processes or file
/// descriptors.
pub fn spawn(command: &mut Command) -> io::Result<(Child, OwnedFd)> {
    let mark = strays::mark_command(command.process_group(0));
    let mut child = spawn_patiently(command, mark)?;
    match exit_of(&child) {
        Ok(exit) => Ok((child, exit)),
        Err(err) => {
            signals::signal_group(child.id(), Signal::KILL);
            _ = child.wait();
            signals::release_group(child.id());
            Err(err)
        }
    }
}

/// The same for a command that runs while a signal ends this process: it is not
/// ended with the other children, and not retried. The caller must reap it.
pub(crate) fn spawn_last(command: &mut Command) -> io::Result<(Child, OwnedFd)> {
    let child = command.process_group(0).spawn()?;
    exit_of(&child).map(|exit| (child, exit))
}

/// A file descriptor that becomes readable when the child ends: a pidfd, or a
/// pipe fed by a thread before Linux 5.3. The child must not have been reaped
/// yet.
///
/// # Errors
///
/// The system is out of file descriptors, or, before Linux 5.3, of threads.
fn exit_of(child: &Child) -> io::Result<OwnedFd> {
    let pid = Pid::from_child(child);
    match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Err(Errno::NOSYS) => exit_by_thread(pid),
        found => Ok(found?),
    }
}

/// The fallback before Linux 5.3: a thread waits for the child and closes a
/// pipe.
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

/// Retries while the limit on processes is reached.
fn spawn_patiently(command: &mut Command, mark: ChildMark) -> io::Result<Child> {
    let until = Instant::now() + PATIENCE;
    loop {
        match spawn_marked(command, mark) {
            Err(err) if err.kind() == io::ErrorKind::WouldBlock && Instant::now() < until => {
                park_if_ending();
                std::thread::sleep(Duration::from_millis(50));
            }
            result => return result,
        }
    }
}

/// Starts a marked command and registers it.
pub(crate) fn spawn_marked(command: &mut Command, mark: ChildMark) -> io::Result<Child> {
    let _until_guarded = strays::spawning();
    command.spawn().inspect(|child| signals::guard(child.id(), mark))
}

/// What [`wait_ready`] found. All false means that the deadline has passed.
#[derive(Default, PartialEq, Eq)]
pub struct ChildEvents {
    /// The process has ended.
    pub exit: bool,
    /// Its stdin accepts data, or has been closed.
    pub stdin: bool,
    /// Its stdout has data, or is at its end.
    pub stdout: bool,
    /// Its stderr has data, or is at its end.
    pub stderr: bool,
}

/// Blocks until the process ends, one of the given pipes is ready, or `until`
/// has passed. Pipes and events that are None are not waited for; without a
/// deadline it may block forever. Interrupted calls are restarted.
///
/// # Errors
///
/// Those of poll(2), except interruptions.
pub fn wait_ready(
    exit: Option<BorrowedFd<'_>>,
    stdin: Option<BorrowedFd<'_>>,
    stdout: Option<BorrowedFd<'_>>,
    stderr: Option<BorrowedFd<'_>>,
    until: Option<Instant>,
) -> Result<ChildEvents, Errno> {
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
    Ok(ChildEvents { exit: next(exit), stdin: next(stdin), stdout: next(stdout), stderr: next(stderr) })
}

/// Blocks until one descriptor is readable; false if `until` has passed first.
///
/// # Errors
///
/// Those of poll(2), except interruptions.
pub fn wait_readable(fd: impl AsFd, until: Option<Instant>) -> io::Result<bool> {
    Ok(wait_ready(None, None, Some(fd.as_fd()), None, until)?.stdout)
}

/// Reads once, up to 16 KB, from a pipe that is ready, and passes the bytes to
/// `give`. At the end of the pipe, sets it to None. Returns the number of
/// bytes; a pipe that is None gives 0.
///
/// # Errors
///
/// A fatal [`Failure`] if the pipe cannot be read: the sample is not to blame.
pub fn read_available<P: AsFd>(pipe: &mut Option<P>, mut give: impl FnMut(&[u8])) -> Result<usize, Failure> {
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

/// Writes as much of `data` as a non-blocking pipe accepts; returns the number of
/// bytes. If nobody reads the pipe any more, that is all of them: its reader
/// need not read everything.
pub fn write_available(pipe: &mut impl Write, data: &[u8]) -> usize {
    match pipe.write(data) {
        Ok(n) => n,
        Err(err) if matches!(err.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => 0,
        Err(_) => data.len(),
    }
}

/// Reaps a child: waits for it to end by itself, or, if `by_force`, calls
/// [`terminate`] with a grace period of 200 ms.
///
/// # Errors
///
/// The child was reaped elsewhere.
pub fn wait_or_terminate(child: &mut Child, exit: BorrowedFd<'_>, by_force: bool) -> io::Result<ExitStatus> {
    if by_force { terminate(child, exit, LAST_WORDS) } else { child.wait() }
}

/// Sends TERM to the process group of a child, and KILL if the child has not
/// ended within `grace`; then reaps the child. Follow it with
/// [`reap_terminated_group`] for the rest of the group.
///
/// # Errors
///
/// The child was reaped elsewhere. A process that ignores TERM is not an error:
/// it is killed.
pub fn terminate(child: &mut Child, exit: BorrowedFd<'_>, grace: Duration) -> io::Result<ExitStatus> {
    signals::signal_group(child.id(), Signal::TERM);
    let ready = wait_ready(Some(exit), None, None, None, Some(Instant::now() + grace));
    if !ready.is_ok_and(|ready| ready.exit) {
        signals::signal_group(child.id(), Signal::KILL);
    }
    child.wait()
}

/// Makes this process adopt the orphans of its commands, so that [`reap_group`]
/// finds them. Otherwise zombies stay in their group until init reaps them,
/// which in a container may never happen, and processes that left their group
/// cannot be found. Call it once, at the start.
pub fn become_subreaper() {
    _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Kills processes that have left the group of their command and hide which
/// command started them. Call it at the end of a run that started several
/// commands at a time; [`reap_group`] kills all others.
pub fn kill_orphans() {
    strays::kill_rest();
}

/// Cleans up after a command that has ended: gives processes that it left
/// behind, inside or outside of its group, `grace` to end, and then kills them.
/// Returns true if that was necessary. Unregisters the group; blocks forever if
/// the process is being ended.
pub fn reap_group(leader: u32, grace: Duration) -> bool {
    reap_group_by(leader, grace, |_| ())
}

/// The same after [`terminate`]: processes that have left the group, and so did
/// not get its TERM, are sent one first.
pub fn reap_terminated_group(leader: u32, grace: Duration) -> bool {
    let mut asked = strays::AskedToEnd::default();
    reap_group_by(leader, grace, |left| asked.ask(left))
}

/// Waits for the group and the strays of a command; `see` is shown the strays
/// each time.
fn reap_group_by(leader: u32, grace: Duration, mut see: impl FnMut(&[Process])) -> bool {
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
        kill_rest(leader, mark);
    }
    signals::release_group(leader);
    park_if_ending();
    left
}

/// Kills the rest of a group and waits for it to disappear: a process that is
/// still dying would be blamed on the next command.
fn kill_rest(leader: u32, mark: Option<ChildMark>) {
    signals::signal_group(leader, Signal::KILL);
    let until = Instant::now() + DEATH;
    while signals::has_members(leader) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(2));
    }
    if let Some(mark) = mark {
        strays::kill(mark);
    }
}

/// Blocks forever if the process is being ended, by a signal or after a
/// failure. Threads that process samples call it before they start something or
/// report a failure.
pub fn park_if_ending() {
    signals::park_if_signalled();
    while signals::is_ending() {
        std::thread::park();
    }
}
