//! Strays: processes that a command started and that have left its process
//! group, as `setsid` and daemons do. A signal to the group does not reach
//! them.
//!
//! After [`crate::run::watched::become_subreaper`], a stray becomes our child
//! when its parent ends, so that none is lost. An environment variable, which
//! every command is started with and hands down, tells which command it belongs
//! to. A process that has removed the variable is attributed to the command if
//! that is the only one running; if several are, it is ended with the last of
//! them, or with us.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{RwLock, RwLockReadGuard};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, waitpid};

use crate::run::procfs::{self, Process};
use crate::run::signals;

/// Identifies the command that started a process: `RUN.MARK`, appended to the
/// marks of the runs that this run is part of.
const VARIABLE: &str = "TARPIPE_COMMAND";

/// How long to wait for killed processes to disappear.
const LAST_MOMENTS: Duration = Duration::from_secs(2);

/// Identifies a command among those of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ChildMark {
    /// A command whose strays are ended with it.
    Command(u64),
    /// A command that is a source or a sink. Processes that it leaves running
    /// on purpose, such as a shared connection, are ended only if the run fails
    /// or is signalled.
    Feed(u64),
}

impl std::fmt::Display for ChildMark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ChildMark::Command(number) => write!(f, "c{number}"),
            ChildMark::Feed(number) => write!(f, "f{number}"),
        }
    }
}

/// Held while a child is started and registered: until then it looks like a
/// stray.
pub(crate) fn spawning() -> RwLockReadGuard<'static, ()> {
    SPAWNING.read()
}

static SPAWNING: RwLock<()> = RwLock::new(());

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Marks a command that is about to be started, and thereby everything that it
/// will start.
pub(crate) fn mark_command(command: &mut Command) -> ChildMark {
    mark(command, ChildMark::Command(NUMBER.fetch_add(1, Ordering::Relaxed)))
}

/// The same for [`ChildMark::Feed`].
pub(crate) fn mark_feed(command: &mut Command) -> ChildMark {
    mark(command, ChildMark::Feed(NUMBER.fetch_add(1, Ordering::Relaxed)))
}

/// Sets the variable, after the marks of outer runs, which look for their own.
fn mark(command: &mut Command, mark: ChildMark) -> ChildMark {
    static OUTER: LazyLock<String> = LazyLock::new(|| match std::env::var(VARIABLE) {
        Ok(outer) if !outer.is_empty() => format!("{outer}:"),
        _ => String::new(),
    });
    command.env(VARIABLE, format!("{}{}.{mark}", *OUTER, run()));
    mark
}

/// Distinguishes our marks from those of other runs.
pub(crate) fn run() -> &'static str {
    static RUN: LazyLock<String> = LazyLock::new(|| {
        let start = procfs::own().map_or(0, |own| own.start);
        format!("{}.{start}", std::process::id())
    });
    &RUN
}

/// The mark that one of our commands handed down to a process.
fn mark_of(pid: i32) -> Option<ChildMark> {
    let value = procfs::variable(pid, VARIABLE)?;
    value.split(':').find_map(|part| {
        let mark = part.strip_prefix(run())?.strip_prefix('.')?;
        let number = mark.get(1..)?.parse().ok()?;
        Some(if mark.starts_with('f') { ChildMark::Feed(number) } else { ChildMark::Command(number) })
    })
}

/// Everything that the commands of a run have started, found by the marks, even
/// if that run has ended. What its sources and sinks have left running stays.
pub(crate) fn started_by(run: &str) -> Vec<Process> {
    let is_mark = |part: &str| part.strip_prefix(run).is_some_and(|mark| mark.starts_with(".c"));
    let is_theirs =
        |process: &Process| procfs::variable(process.pid, VARIABLE).is_some_and(|value| value.split(':').any(is_mark));
    procfs::all().into_iter().filter(|process| !process.has_ended && is_theirs(process)).collect()
}

/// The adopted strays of a command that has ended or is being ended. Reaps
/// zombies of any command on the way, and kills strays whose command is gone.
/// Costs one short read if there are none.
pub(crate) fn of(mark: ChildMark) -> Vec<Process> {
    if matches!(mark, ChildMark::Feed(_)) || procfs::children_of_main().is_empty() {
        return Vec::new();
    }
    let _nothing_begins = SPAWNING.write();
    let groups = signals::groups();
    let live: BTreeSet<ChildMark> =
        groups.values().copied().filter(|mark| matches!(mark, ChildMark::Command(_))).collect();
    let mut found = Vec::new();
    for process in adopted(&groups) {
        match mark_of(process.pid) {
            Some(theirs) if theirs == mark => found.push(process),
            Some(ChildMark::Feed(_)) => {}
            Some(theirs) if live.contains(&theirs) => {}
            // Its command was reaped: it is dying, or was started while we looked.
            Some(_) => end(&process, Signal::KILL),
            // The first process of a container also adopts what others started there.
            None if live.iter().all(|other| *other == mark) && std::process::id() != 1 => found.push(process),
            None => {}
        }
    }
    found
}

/// Our children that are neither commands nor in the group of one.
fn adopted(groups: &BTreeMap<i32, ChildMark>) -> Vec<Process> {
    let Some(own) = procfs::own() else { return Vec::new() };
    let processes = procfs::children_of_main().into_iter().filter_map(procfs::find);
    // Our own helpers are in our own group, whose ID is 0 if it was created outside of the container.
    let is_known = |process: &Process| {
        process.group == own.group || groups.contains_key(&process.pid) || groups.contains_key(&process.group)
    };
    let (ended, strays): (Vec<_>, Vec<_>) =
        processes.filter(|process| !is_known(process)).partition(|process| process.has_ended);
    for process in ended {
        _ = waitpid(Pid::from_raw(process.pid), WaitOptions::NOHANG);
    }
    strays
}

/// Sends a signal to a stray and to its process group.
pub(crate) fn end(process: &Process, signal: Signal) {
    if let Some(group) = Pid::from_raw(process.group) {
        _ = kill_process_group(group, signal);
    }
    if let Some(pid) = Pid::from_raw(process.pid) {
        _ = kill_process(pid, signal);
    }
}

/// Kills the strays of a command. Each one that dies may leave others to us.
pub(crate) fn kill(mark: ChildMark) {
    kill_while(|| of(mark));
}

/// Kills the strays that cannot be attributed to a command, after the last
/// command has ended.
pub(crate) fn kill_rest() {
    let is_left = |process: &Process| match mark_of(process.pid) {
        Some(mark) => matches!(mark, ChildMark::Command(_)),
        None => std::process::id() != 1,
    };
    kill_while(|| all().into_iter().filter(is_left).collect());
}

/// Every stray, whatever its mark, for a process that is ending.
pub(crate) fn all() -> Vec<Process> {
    adopted(&signals::groups())
}

/// Kills every stray.
pub(crate) fn kill_all() {
    kill_while(all);
}

/// Kills until `left` finds nothing more, but for two seconds at most.
fn kill_while(left: impl Fn() -> Vec<Process>) {
    let until = Instant::now() + LAST_MOMENTS;
    loop {
        let left = left();
        if left.is_empty() || Instant::now() > until {
            return;
        }
        left.iter().for_each(|process| end(process, Signal::KILL));
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Sends TERM to processes, once to each.
#[derive(Default)]
pub(crate) struct AskedToEnd(BTreeSet<Process>);

impl AskedToEnd {
    pub(crate) fn ask(&mut self, processes: &[Process]) {
        for process in processes {
            if self.0.insert(*process) {
                end(process, Signal::TERM);
            }
        }
    }
}
