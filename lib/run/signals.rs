//! What happens when the process is ended by INT, TERM, HUP or USR1 (which
//! batch systems send before they end a job).
//!
//! When one of them arrives,
//!
//! 1. the hook of [`on_signal`] is called, if there is one;
//! 2. every registered child gets TERM, and KILL after the grace period, with
//!    all processes that it started, as far as they can be found;
//! 3. every registered path is removed;
//! 4. the functions of [`on_clean_up`] are called, which abort uploads;
//! 5. the process dies of the same signal, so that a shell sees the exit status
//!    128+N and stops its loop.
//!
//! A run that fails goes through steps 2 to 4 as well ([`clean_up`]).
//!
//! This module keeps the list of what has to be cleaned up. Register children
//! and paths when they are created, release them when they are gone. All
//! functions can be called from any thread.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpgid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::run::strays::{self, ChildMark};

/// What must not outlive the process.
struct Guarded {
    paths: BTreeSet<PathBuf>,
    groups: BTreeMap<i32, ChildMark>,
    ending: bool,
}

type Hook = Box<dyn FnOnce(i32) + Send>;

const SIGNALS: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGUSR1];

static HOOK: Mutex<Option<Hook>> = Mutex::new(None);

static GUARDED: Mutex<Guarded> = Mutex::new(Guarded { paths: BTreeSet::new(), groups: BTreeMap::new(), ending: false });

/// Set by the signal handler itself, before any thread runs.
static RECEIVED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Starts the thread that handles signals. Called once, by `cli::main`; before
/// that, signals have their default action.
///
/// # Errors
///
/// The handlers cannot be installed, or the system is out of threads.
pub fn listen() -> io::Result<()> {
    for signal in SIGNALS {
        signal_hook::flag::register(signal, Arc::clone(&RECEIVED))?;
    }
    let mut signals = Signals::new(SIGNALS)?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let hook = HOOK.lock().take();
            if let Some(hook) = hook {
                hook(signal);
            }
            clean_up();
            if std::process::id() == 1 {
                // The first process of a container ignores signals that have their default action.
                signal_hook::low_level::exit(128 + signal);
            }
            // Does not return: the default action of all four ends the process.
            _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    })?;
    Ok(())
}

/// Blocks forever if a signal has arrived. Call it before reporting a failure:
/// errors after a signal are due to children being ended, and the thread that
/// cleans up determines the exit status.
pub fn park_if_signalled() {
    while RECEIVED.load(Ordering::SeqCst) {
        std::thread::park();
    }
}

/// Has `hook` called with the number of the signal, before anything is cleaned
/// up, for a tool that records what is not done yet. It must return soon. A
/// later call replaces the hook; it is not called if the run fails without a
/// signal.
pub fn on_signal(hook: impl FnOnce(i32) + Send + 'static) {
    *HOOK.lock() = Some(Box::new(hook));
}

/// Runs `create` and registers `path` for removal if a signal ends the process
/// or the run fails. In all other cases its owner removes it and calls
/// [`release_path`].
///
/// Blocks forever once the clean-up has begun: nobody would remove the path any
/// more. If `create` fails, nothing is registered.
pub fn create_guarded<T>(path: &Path, create: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let mut guarded = GUARDED.lock();
    if guarded.ending {
        drop(guarded);
        loop {
            std::thread::park();
        }
    }
    let created = create()?;
    guarded.paths.insert(path.to_owned());
    Ok(created)
}

/// Unregisters a path that was removed or renamed.
pub fn release_path(path: &Path) {
    GUARDED.lock().paths.remove(path);
}

/// Registers a child that leads a process group; it is killed if a signal ends
/// the process or the run fails. Processes that leave the group are found and
/// ended only then; [`crate::run::watched::spawn`] does more.
pub fn guard_group(leader: u32) {
    guard(leader, ChildMark::Feed(u64::MAX));
}

/// The same for a child that was marked before it was started (see `strays`).
/// If the clean-up has begun, the group is killed at once.
pub(crate) fn guard(leader: u32, mark: ChildMark) {
    let mut guarded = GUARDED.lock();
    guarded.groups.insert(leader as i32, mark);
    if guarded.ending {
        signal_group(leader, Signal::KILL);
    }
}

/// Registers a process group that a registered child, `parent`, has started.
/// Processes that leave the group count as the child's.
pub fn guard_within(parent: u32, leader: u32) {
    guard(leader, mark_of(parent).unwrap_or(ChildMark::Feed(u64::MAX)));
}

/// The mark of a registered child.
pub(crate) fn mark_of(leader: u32) -> Option<ChildMark> {
    GUARDED.lock().groups.get(&(leader as i32)).copied()
}

/// All registered children, by process ID.
pub(crate) fn groups() -> BTreeMap<i32, ChildMark> {
    GUARDED.lock().groups.clone()
}

/// Unregisters a child that has been reaped.
pub fn release_group(leader: u32) {
    GUARDED.lock().groups.remove(&(leader as i32));
}

/// Sends `signal` to a process group. Does nothing if the group is gone.
pub fn signal_group(leader: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(leader as i32) {
        _ = kill_process_group(pid, signal);
    }
}

/// Returns true if a process group still has members. Zombies that are our
/// children are reaped first; those of other parents count as members. The
/// kernel does not reuse the ID of a group that has members.
pub fn has_members(leader: u32) -> bool {
    let Some(group) = Pid::from_raw(leader as i32) else { return false };
    let is_there = || test_kill_process_group(group).is_ok();
    if !is_there() {
        return false;
    }
    while let Ok(Some(_)) = waitpgid(group, WaitOptions::NOHANG) {}
    is_there()
}

/// How long children have to clean up after TERM.
static PATIENCE: Mutex<Duration> = Mutex::new(Duration::from_secs(1));

/// Sets how long children have between TERM and KILL; one second by default.
/// For tools whose children are tools with children of their own.
pub fn set_grace(time: Duration) {
    *PATIENCE.lock() = time;
}

/// Returns true once the clean-up has begun. Threads that see this must not
/// start anything new.
pub fn is_ending() -> bool {
    GUARDED.lock().ending
}

static AT_END: Mutex<Vec<fn()>> = Mutex::new(Vec::new());

/// Has `end` called once by [`clean_up`], after children and paths. This is how
/// an upper layer (object stores) cleans up what only it knows about.
pub fn on_clean_up(end: fn()) {
    AT_END.lock().push(end);
}

/// Ends every registered child (TERM, then KILL after the grace period),
/// removes every registered path and calls what was registered with
/// [`on_clean_up`]. Called for a run that was signalled or has failed, while
/// other threads may still be working; nothing must be started afterwards.
/// Takes up to the grace period, plus ten seconds if uploads have to be
/// aborted.
pub fn clean_up() {
    let (groups, paths) = {
        let mut guarded = GUARDED.lock();
        guarded.ending = true;
        (guarded.groups.clone(), guarded.paths.clone())
    };
    // Processes that have left their group become our children when their parent ends.
    _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    for &leader in groups.keys() {
        signal_group(leader as u32, Signal::TERM);
    }
    let until = Instant::now() + *PATIENCE.lock();
    let mut asked = strays::AskedToEnd::default();
    loop {
        let left = strays::all();
        asked.ask(&left);
        let are_gone = left.is_empty() && !groups.keys().any(|&leader| has_members(leader as u32));
        if are_gone || Instant::now() >= until {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    for &leader in groups.keys() {
        signal_group(leader as u32, Signal::KILL);
    }
    strays::kill_all();
    paths.iter().for_each(|path| remove(path));
    AT_END.lock().drain(..).for_each(|end| end());
}

/// Removes a file or a directory tree. A thread that has not noticed the end
/// yet may still be creating files in it, so this is tried several times.
fn remove(path: &Path) {
    for _ in 0..20 {
        // Removing an empty directory needs no file descriptor, of which there may be none left.
        let removed = std::fs::remove_file(path).or_else(|_| std::fs::remove_dir(path));
        let removed = removed.or_else(|_| std::fs::remove_dir_all(path));
        if removed.is_ok() || std::fs::symlink_metadata(path).is_err() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    // Parked threads may hold all file descriptors; another process has its own.
    _ = Command::new("sh").args(["-c", "rm -rf -- \"$1\" 2>/dev/null", "sh"]).arg(path).status();
}
