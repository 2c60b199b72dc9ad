//! INT, TERM, HUP and USR1 (which engines send before they end a job): children are ended, temporary files removed, and the process dies of
//! the signal, so that a shell sees 128+N and stops its loop.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpgid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::run::strays::{self, Mark};

/// What must not outlive the process.
struct Guarded {
    paths: BTreeSet<PathBuf>,
    groups: BTreeMap<i32, Mark>,
    ending: bool,
}

type Hook = Box<dyn FnOnce(i32) + Send>;

const SIGNALS: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGUSR1];

static HOOK: Mutex<Option<Hook>> = Mutex::new(None);

static GUARDED: Mutex<Guarded> = Mutex::new(Guarded { paths: BTreeSet::new(), groups: BTreeMap::new(), ending: false });

fn guarded() -> MutexGuard<'static, Guarded> {
    GUARDED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Set by the handler itself, before any thread runs.
static RECEIVED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Starts to listen. Called once, by `cli::main`.
pub fn listen() -> io::Result<()> {
    for signal in SIGNALS {
        signal_hook::flag::register(signal, Arc::clone(&RECEIVED))?;
    }
    let mut signals = Signals::new(SIGNALS)?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let hook = HOOK.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(hook) = hook {
                hook(signal);
            }
            clean_up();
            if std::process::id() == 1 {
                // The first process of a container is deaf to signals that have their default action.
                signal_hook::low_level::exit(128 + signal);
            }
            // Does not return: the default action of all four is to end the process.
            _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    })?;
    Ok(())
}

/// Does not return once a signal has come: what fails then fails because children were ended,
/// and the thread that cleans up decides the exit status.
pub fn yield_to_signal() {
    while RECEIVED.load(Ordering::SeqCst) {
        std::thread::park();
    }
}

/// Runs `hook`, which is told the signal, between it and the end, for a tool that has last words: a
/// report of what is not done. It must return soon.
pub fn before_end(hook: impl FnOnce(i32) + Send + 'static) {
    *HOOK.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(hook));
}

/// Creates a temporary file or directory, removed when a signal ends the process. On every other way
/// out its owner removes it. Does not return once the process is on its way out: nobody would remove it then.
pub fn create_guarded<T>(path: &Path, create: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let mut guarded = guarded();
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

/// The path was removed or renamed.
pub fn release_path(path: &Path) {
    guarded().paths.remove(path);
}

/// A child that leads a process group, ended when a signal ends the process. Of what leaves the group, nothing but such
/// a signal ends it; [`crate::run::watched::spawn`] does more.
pub fn guard_group(leader: u32) {
    guard(leader, Mark::Feed(u64::MAX));
}

/// The same for a child that was marked before it was started.
pub(crate) fn guard(leader: u32, mark: Mark) {
    let mut guarded = guarded();
    guarded.groups.insert(leader as i32, mark);
    if guarded.ending {
        end_group(leader, Signal::KILL);
    }
}

/// The same for a process group that a guarded child, `parent`, has started: what leaves it belongs to that child.
pub fn guard_within(parent: u32, leader: u32) {
    guard(leader, mark_of(parent).unwrap_or(Mark::Feed(u64::MAX)));
}

/// The mark of a guarded child.
pub(crate) fn mark_of(leader: u32) -> Option<Mark> {
    guarded().groups.get(&(leader as i32)).copied()
}

/// Every guarded child, by its number.
pub(crate) fn groups() -> BTreeMap<i32, Mark> {
    guarded().groups.clone()
}

/// The child was waited for.
pub fn release_group(leader: u32) {
    guarded().groups.remove(&(leader as i32));
}

/// Sends `signal` to a whole process group; one that is gone is no error.
pub fn end_group(leader: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(leader as i32) {
        _ = kill_process_group(pid, signal);
    }
}

/// Whether a process group has members. The kernel does not give its number out before it has none.
pub fn has_members(leader: u32) -> bool {
    let Some(group) = Pid::from_raw(leader as i32) else { return false };
    let is_there = || test_kill_process_group(group).is_ok();
    if !is_there() {
        return false;
    }
    while let Ok(Some(_)) = waitpgid(group, WaitOptions::NOHANG) {}
    is_there()
}

/// How long children may take to clean up after themselves.
static PATIENCE: Mutex<Duration> = Mutex::new(Duration::from_secs(1));

fn patience() -> MutexGuard<'static, Duration> {
    PATIENCE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives children longer than a second to clean up, for a tool whose children are tools that have children.
pub fn be_patient(time: Duration) {
    *patience() = time;
}

/// Whether the process is on its way out: children are being ended, paths removed. A thread that
/// sees this starts nothing new.
pub fn is_ending() -> bool {
    guarded().ending
}

type AtEnd = MutexGuard<'static, Vec<fn()>>;

fn at_end() -> AtEnd {
    static AT_END: Mutex<Vec<fn()>> = Mutex::new(Vec::new());
    AT_END.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has `end` called once by [`clean_up`], after children and paths: an upper layer drops there what only it knows.
pub fn call_at_end(end: fn()) {
    at_end().push(end);
}

/// Ends every guarded child, removes every guarded path and aborts every upload. `cli::main` calls it for a run that
/// fails, while other threads may still be at work. Nothing may be started afterwards.
pub fn clean_up() {
    let (groups, paths) = {
        let mut guarded = guarded();
        guarded.ending = true;
        (guarded.groups.clone(), guarded.paths.clone())
    };
    // What has left its group becomes our child when its parent ends.
    _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    for &leader in groups.keys() {
        end_group(leader as u32, Signal::TERM);
    }
    let until = Instant::now() + *patience();
    let mut asked = strays::Asked::default();
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
        end_group(leader as u32, Signal::KILL);
    }
    strays::kill_all();
    paths.iter().for_each(|path| remove(path));
    at_end().drain(..).for_each(|end| end());
}

/// Removes a file or a whole directory. A thread that has not noticed the end yet may still put
/// something into it, so it is tried more than once.
fn remove(path: &Path) {
    for _ in 0..20 {
        // An empty directory goes without a descriptor, of which there may be none left.
        let removed = std::fs::remove_file(path).or_else(|_| std::fs::remove_dir(path));
        let removed = removed.or_else(|_| std::fs::remove_dir_all(path));
        if removed.is_ok() || std::fs::symlink_metadata(path).is_err() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    // Threads that are on hold may have all descriptors; another process has its own.
    _ = Command::new("sh").args(["-c", "rm -rf -- \"$1\" 2>/dev/null", "sh"]).arg(path).status();
}
