//! Processes that commands started and that left their process group, as `setsid` and daemons do. A signal to the
//! group does not reach them.
//!
//! Where we adopt orphans ([`crate::run::watched::adopt_orphans`]), a stray becomes our child when its parent ends, so that
//! none is lost from sight. To which command it belongs is told by a variable in its environment, which every command
//! is started with and hands down. A process that removed the variable belongs to the command that runs alone; where
//! several run, it is ended with the last of them, or with us.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, waitpid};

use crate::run::procfs::{self, Process};
use crate::run::signals;

/// Says by which command a process was started: `RUN.MARK`, after those of the runs that this one is part of.
const VARIABLE: &str = "TARPIPE_COMMAND";

/// How long we wait for the end of processes that were killed.
const LAST_MOMENTS: Duration = Duration::from_secs(2);

/// Tells a command from others of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mark {
    /// A command that takes with it all it started.
    Command(u64),
    /// A command that feeds a source or takes a sink's bytes: what it leaves behind on purpose, such as a shared
    /// connection, ends with us only when we fail or are ended.
    Feed(u64),
}

impl std::fmt::Display for Mark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Mark::Command(number) => write!(f, "c{number}"),
            Mark::Feed(number) => write!(f, "f{number}"),
        }
    }
}

/// Held while a child is started and guarded: until then it looks like a stray.
pub(crate) fn spawning() -> RwLockReadGuard<'static, ()> {
    SPAWNING.read().unwrap_or_else(PoisonError::into_inner)
}

static SPAWNING: RwLock<()> = RwLock::new(());

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Marks a command that is about to be started, and all it will start.
pub(crate) fn mark_command(command: &mut Command) -> Mark {
    mark(command, Mark::Command(NUMBER.fetch_add(1, Ordering::Relaxed)))
}

/// The same for [`Mark::Feed`].
pub(crate) fn mark_feed(command: &mut Command) -> Mark {
    mark(command, Mark::Feed(NUMBER.fetch_add(1, Ordering::Relaxed)))
}

fn mark(command: &mut Command, mark: Mark) -> Mark {
    static OUTER: LazyLock<String> = LazyLock::new(|| match std::env::var(VARIABLE) {
        Ok(outer) if !outer.is_empty() => format!("{outer}:"),
        _ => String::new(),
    });
    command.env(VARIABLE, format!("{}{}.{mark}", *OUTER, run()));
    mark
}

/// Tells our marks from those of other runs.
fn run() -> &'static str {
    static RUN: LazyLock<String> = LazyLock::new(|| {
        let start = procfs::own().map_or(0, |own| own.start);
        format!("{}.{start}", std::process::id())
    });
    &RUN
}

/// The mark that one of our commands handed down to a process.
fn mark_of(pid: i32) -> Option<Mark> {
    let value = procfs::variable(pid, VARIABLE)?;
    value.split(':').find_map(|part| {
        let mark = part.strip_prefix(run())?.strip_prefix('.')?;
        let number = mark.get(1..)?.parse().ok()?;
        Some(if mark.starts_with('f') { Mark::Feed(number) } else { Mark::Command(number) })
    })
}

/// Adopted processes of a command that has ended or is to end. Others that have ended are taken notice of on the way.
/// Costs one short read where there are none.
pub(crate) fn of(mark: Mark) -> Vec<Process> {
    if matches!(mark, Mark::Feed(_)) || procfs::children_of_main().is_empty() {
        return Vec::new();
    }
    let _nothing_begins = SPAWNING.write().unwrap_or_else(PoisonError::into_inner);
    let groups = signals::groups();
    let live: BTreeSet<Mark> = groups.values().copied().filter(|mark| matches!(mark, Mark::Command(_))).collect();
    let mut found = Vec::new();
    for process in adopted(&groups) {
        match mark_of(process.pid) {
            Some(theirs) if theirs == mark => found.push(process),
            Some(Mark::Feed(_)) => {}
            Some(theirs) if live.contains(&theirs) => {}
            // Its command was settled: it is dying, or was started while we looked.
            Some(_) => end(&process, Signal::KILL),
            // The first process of a container adopts what others started there.
            None if live.iter().all(|other| *other == mark) && std::process::id() != 1 => found.push(process),
            None => {}
        }
    }
    found
}

/// Our children that are neither commands nor in the group of one.
fn adopted(groups: &BTreeMap<i32, Mark>) -> Vec<Process> {
    let Some(own) = procfs::own() else { return Vec::new() };
    let processes = procfs::children_of_main().into_iter().filter_map(procfs::find);
    // Our own helpers are in our own group. In a container that may have no number there: it is 0.
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

/// Sends a signal to a stray and to the group that it is in.
fn end(process: &Process, signal: Signal) {
    if let Some(group) = Pid::from_raw(process.group) {
        _ = kill_process_group(group, signal);
    }
    if let Some(pid) = Pid::from_raw(process.pid) {
        _ = kill_process(pid, signal);
    }
}

/// Ends the adopted processes of a command by force. Each that ends may leave others to us.
pub(crate) fn kill(mark: Mark) {
    kill_while(|| of(mark));
}

/// Ends the adopted processes that no command can be blamed for any more, when the last command has ended.
pub(crate) fn kill_rest() {
    let is_left = |process: &Process| match mark_of(process.pid) {
        Some(mark) => matches!(mark, Mark::Command(_)),
        None => std::process::id() != 1,
    };
    kill_while(|| all().into_iter().filter(is_left).collect());
}

/// Every adopted process, whatever its mark, for one that is on its way out.
pub(crate) fn all() -> Vec<Process> {
    adopted(&signals::groups())
}

/// Ends every adopted process by force.
pub(crate) fn kill_all() {
    kill_while(all);
}

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
pub(crate) struct Asked(BTreeSet<Process>);

impl Asked {
    pub(crate) fn ask(&mut self, processes: &[Process]) {
        for process in processes {
            if self.0.insert(*process) {
                end(process, Signal::TERM);
            }
        }
    }
}
