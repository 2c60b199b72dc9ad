//! Engines run the tasks of a run: one module per engine, and what they share. This file defines what an engine does, starts a
//! run on one, waits for it and reports the outcome.

mod driver;
mod driver_locks;
pub mod external;
mod k8s;
mod local;
mod progress;
mod running;
mod site_config;
mod slurm;
mod submission;
mod yaml;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tarpipe::cli::Outcome;
use tarpipe::messages;
use tarpipe::run::signals;
use tarpipe::sink;
use tarpipe::tally::{MaxFailures, Tally, counted};

use crate::shardrun::run::folder::RunFolder;
use crate::shardrun::run::job_log::ItemStatus;
use crate::shardrun::run::pending::PendingRun;
use crate::shardrun::settings::EngineKind;
use crate::shardrun::status::snapshot::RunSnapshot;
use crate::shardrun::task::bundle;
use crate::shardrun::task::worker;

pub use running::{cancel, find_running};
pub use submission::{Submission, TaskReport, TaskReports};

/// Time between two queries of the engine, first and longest; queries take at most a quarter of the time.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
const PAUSE_FACTOR: u32 = 3;
/// Failed queries in a row before waiting fails: a controller may be restarting.
const MAX_MISSES: u32 = 30;

/// An engine. It has no state: everything that it knows about a run is in the run's folder.
pub trait Engine: Sync {
    /// Runs the pending items. Returns when they have ended, or when the engine has them and --wait was not given.
    fn run(&self, pending: PendingRun) -> Result<Outcome>;

    /// The exact scripts, manifests or commands of a run.
    fn dry_run(&self, pending: &PendingRun) -> Result<String>;

    /// Whether tasks see neither the folders of this machine nor the run folder.
    fn is_remote(&self) -> bool {
        false
    }

    /// Whether this process has to end a run after too many failures, because tasks do not know of each other.
    fn needs_failure_check(&self) -> bool {
        false
    }

    /// Completes the record of a submission whose process died while submitting.
    fn complete(&self, _submission: &mut Submission) -> Result<()> {
        Ok(())
    }

    /// Whether tasks of a submission are waiting or running without this process. Collects results that only the engine has.
    fn is_running(&self, _folder: &RunFolder, _submission: &Submission) -> Result<bool> {
        Ok(false)
    }

    /// Whether a submission has a driver that is alive or about to start. Its tasks end with it.
    fn is_driven(&self, _submission: &Submission) -> bool {
        false
    }

    /// Starts to end all tasks of a submission.
    fn cancel(&self, _folder: &RunFolder, _submission: &Submission) -> Result<()> {
        Ok(())
    }

    /// The engine's names for what is left of a cancelled submission; empty once all of it has ended.
    fn remaining(&self, folder: &RunFolder, submission: &Submission) -> Result<String> {
        Ok(if self.is_running(folder, submission)? { submission.ids() } else { String::new() })
    }

    /// Deletes everything that an ended submission has left on the engine, after collecting its results. Returns false if the
    /// engine keeps nothing.
    fn delete(&self, _folder: &RunFolder, _submission: &Submission) -> Result<bool> {
        Ok(false)
    }

    /// What the engine reports of the tasks of a submission; empty if it has forgotten them or does not report states.
    fn task_reports(&self, _submission: &Submission) -> TaskReports {
        TaskReports::new()
    }

    /// Why tasks of a submission wait, other than for their turn.
    fn reasons(&self, _submission: &Submission) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Collects results that only the engine has into the run folder.
    fn collect(&self, _folder: &RunFolder, _submission: &Submission) -> Result<()> {
        Ok(())
    }

    /// The stderr of a task, if only the engine has it.
    fn logs(&self, _submission: &Submission, _task: usize) -> Option<String> {
        None
    }
}

/// The engine of a name on the command line.
pub fn of(kind: EngineKind) -> &'static dyn Engine {
    match kind {
        EngineKind::Local => &local::Local,
        EngineKind::Slurm => &slurm::Slurm,
        EngineKind::K8s => &k8s::K8s,
        EngineKind::Spark => &driver::SPARK,
        EngineKind::Ray => &driver::RAY,
    }
}

/// Runs the pending items. Returns when they have ended, or when the engine has them and --wait was not given.
pub fn run(mut pending: PendingRun) -> Result<Outcome> {
    if pending.todo.is_empty() {
        messages::detail(&format!("all {} are done", counted(pending.items.count(), "item")));
        return Ok(Tally::of("item").into());
    }
    driver::await_orphans(&pending.folder)?;
    if pending.settings.on != EngineKind::Local {
        progress::start(&pending)?;
    }
    match pending.submission.take() {
        Some(submission) => running::join(pending, &submission),
        None => of(pending.settings.on).run(pending),
    }
}

/// Prints the exact scripts or manifests of a run.
pub fn dry_run(pending: &PendingRun) -> Result<Outcome> {
    sink::write_text("-", &of(pending.settings.on).dry_run(pending)?)?;
    Ok(Outcome::default())
}

/// Waits for the tasks of a submission if --wait was given; otherwise it runs without this process.
fn follow(mut pending: PendingRun, submission: &Submission) -> Result<Outcome> {
    drop(pending.lock.take()); // the engine has all tasks: other processes may wait for them too, or cancel them
    if !pending.settings.wait {
        return report_submitted(&pending, submission);
    }
    wait(&pending, submission)?;
    outcome_of(&pending)
}

/// Reports a submission that runs without us.
fn report_submitted(pending: &PendingRun, submission: &Submission) -> Result<Outcome> {
    let items = counted(pending.todo.len() as u64, "item");
    messages::notice(&format!(
        "{items} submitted to {} as {}; see shardrun status {}",
        submission.engine.name(),
        submission.ids(),
        pending.folder.path().display()
    ));
    Ok(Outcome::default())
}

/// Reports that a run is still running on its engine.
fn report_running(pending: &PendingRun, submission: &Submission) -> Result<Outcome> {
    let folder = pending.folder.path().display();
    messages::notice(&format!(
        "{folder}: already running on {} as {}, nothing submitted; see shardrun status {folder}",
        submission.engine.name(),
        submission.ids()
    ));
    Ok(Outcome::default())
}

/// Waits for the end of a submission. If a signal ends this process, the run continues.
fn wait(pending: &PendingRun, submission: &Submission) -> Result<()> {
    let folder = pending.folder.path().display().to_string();
    signals::on_signal(move |_| {
        messages::notice(&format!(
            "the run continues; see shardrun status {folder}, or end it with shardrun cancel {folder}"
        ))
    });
    let mut reasons = WaitReasons::default();
    let (mut pause, mut misses) = (FIRST_PAUSE, 0);
    loop {
        let queried = Instant::now();
        match submission.engine().is_running(&pending.folder, submission) {
            Ok(false) => return submission.set_over(),
            Ok(true) => misses = 0,
            Err(err) if misses < MAX_MISSES => {
                misses += 1;
                messages::detail(&format!("{err:#}; retrying"));
            }
            Err(err) => return Err(err),
        }
        if running::stop_if_failed(pending, submission)? {
            return Ok(());
        }
        reasons.report(submission);
        std::thread::sleep(pause.max(queried.elapsed() * PAUSE_FACTOR));
        pause = (pause * 3 / 2).min(LONGEST_PAUSE);
    }
}

/// Reports why tasks do not start to a user who waits for them: each reason once.
struct WaitReasons {
    reported: BTreeSet<String>,
    next: Instant,
}

impl Default for WaitReasons {
    fn default() -> Self {
        WaitReasons { reported: BTreeSet::new(), next: Instant::now() + LONGEST_PAUSE }
    }
}

impl WaitReasons {
    /// Reports new reasons; queries the engine only every 20 s.
    fn report(&mut self, submission: &Submission) {
        if Instant::now() < self.next {
            return;
        }
        for reason in submission.engine().reasons(submission).unwrap_or_default() {
            // The number of tasks that wait for the same reason changes all the time.
            let what = reason.split_once(": ").map_or(reason.as_str(), |(_, what)| what);
            let kind = what.split_once(": ").map_or(what, |(kind, _)| kind);
            if self.reported.insert(kind.to_owned()) {
                messages::notice(&format!("waiting for {}: {reason}", submission.engine.name()));
            }
        }
        self.next = Instant::now() + 2 * LONGEST_PAUSE;
    }
}

/// The outcome of the items that an engine was given.
fn outcome_of(pending: &PendingRun) -> Result<Outcome> {
    let snapshot = RunSnapshot::take(&pending.folder)?;
    let mut tally = Tally::of("item");
    let mut left = 0;
    // With --redo, an output may be one from before.
    let since = Submission::all(&pending.folder)?
        .last()
        .filter(|_| pending.spec.limits.redo)
        .map(|last| bundle::written_at(&last.path));
    let is_stale = |index| since.is_some_and(|since| !snapshot.has_ended(index, since));
    for &index in &pending.todo {
        match (snapshot.statuses[index as usize], &snapshot.records[index as usize]) {
            (ItemStatus::Done, _) if is_stale(index) => left += 1,
            (ItemStatus::Done, _) => tally.done(),
            (ItemStatus::Failed, Some(record)) => {
                worker::add_to_tally(&mut tally, record);
                worker::report_failure(record);
            }
            _ => left += 1,
        }
    }
    let most = pending.spec.limits.max_failures.unwrap_or(0);
    if left > 0 && tally.count_failed() <= most {
        bail!(
            "{} not run; see shardrun status {}, and use the same command again to run what is missing",
            counted(left, "item"),
            pending.folder.path().display()
        );
    }
    Ok(Outcome { tally, max_failures: Some(MaxFailures::Count(most)) })
}

/// Collects results that only the engine has into the run folder. If the engine cannot be queried, the state of the last
/// collection is used.
pub fn collect(folder: &RunFolder, submissions: &[Submission]) {
    for submission in submissions.iter().filter(|submission| !submission.is_over()) {
        if let Err(err) = submission.engine().collect(folder, submission) {
            messages::notice(&format!("{err:#}; using the last known state"));
        }
    }
}

/// The stderr of an item, if only the engine has it.
pub fn logs(folder: &RunFolder, index: u64) -> Option<String> {
    let submissions = Submission::all(folder).ok()?;
    let logs = |submission: &Submission| submission.engine().logs(submission, submission.task_of(index)?);
    submissions.iter().rev().find_map(logs)
}
