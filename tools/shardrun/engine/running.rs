//! Submissions that are still running on their engine. A new start of the run joins them instead of running items twice, and
//! `cancel` ends them.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tarpipe::cli::{Outcome, Usage};
use tarpipe::messages;
use tarpipe::tally::counted;

use super::{outcome_of, report_running, wait};
use crate::shardrun::engine::Submission;
use crate::shardrun::run::folder::RunFolder;
use crate::shardrun::run::job_log::{self, ItemRecord, ItemStatus};
use crate::shardrun::run::lock::LockState;
use crate::shardrun::run::pending::PendingRun;
use crate::shardrun::task::bundle;

/// How long cancelled tasks may take to end: Slurm and Kubernetes give them half a minute by default.
const MAX_WAIT: Duration = Duration::from_secs(150);
const POLL_INTERVAL: Duration = Duration::from_millis(300);

/// The submission of a run that is still running on its engine. The caller holds the run's lock, so that nobody submits more
/// meanwhile. It is an error if the engine cannot be queried, because its tasks may be running.
pub fn find_running(folder: &RunFolder) -> Result<Option<Submission>> {
    for mut submission in Submission::all(folder)?.into_iter().rev() {
        if submission.is_over() {
            continue;
        }
        let engine = submission.engine.name();
        let mut query = || {
            submission.engine().complete(&mut submission)?;
            submission.engine().is_running(folder, &submission)
        };
        let is_running = query().with_context(|| {
            let path = submission.path.display();
            format!("cannot determine whether {path} still runs on {engine}; remove that folder if it does not")
        });
        if is_running? {
            return Ok(Some(submission));
        }
        submission.set_over()?;
    }
    Ok(None)
}

/// Ends a submission if more items have failed than --max-failures allows and nobody else stops it.
pub fn stop_if_failed(pending: &PendingRun, submission: &Submission) -> Result<bool> {
    let most = pending.spec.limits.max_failures.filter(|_| submission.engine().needs_failure_check());
    let Some(most) = most else { return Ok(false) };
    let since = bundle::written_at(&submission.path);
    let records = job_log::latest(&pending.folder, pending.spec.plan.count)?;
    let has_failed =
        |record: &&ItemRecord| record.state == ItemStatus::Failed && record.start + record.seconds >= since;
    let failed = records.iter().flatten().filter(has_failed).count() as u64;
    if failed <= most {
        return Ok(false);
    }
    messages::notice(&format!("{failed} items have failed; ending {}", submission.ids()));
    end(&pending.folder, submission)?;
    Ok(true)
}

/// Joins a run that is still running on its engine, instead of running its items twice.
pub fn join(mut pending: PendingRun, submission: &Submission) -> Result<Outcome> {
    let (engine, folder) = (submission.engine.name(), pending.folder.path().display().to_string());
    let ids = submission.ids();
    if pending.repeats || submission.engine != pending.settings.on {
        bail!(
            "{folder}: still running on {engine} as {ids}; wait for its end, or end it with shardrun cancel {folder}"
        );
    }
    drop(pending.lock.take());
    if !pending.settings.wait && !pending.settings.interactive {
        return report_running(&pending, submission);
    }
    messages::notice(&format!(
        "{folder}: already running on {engine} as {ids}, nothing submitted; waiting for its end"
    ));
    wait(&pending, submission)?;
    outcome_of(&pending)
}

/// Ends a run, here or on its engine. On success, no process or job of the run is left; with `delete`, the engine keeps
/// nothing of it.
pub fn cancel(dir: Option<&Path>, delete: bool) -> Result<Outcome> {
    let folder = match dir {
        Some(_) => RunFolder::find(dir)?,
        None => only_active()?,
    };
    let mut ended = Vec::new();
    match folder.lock_state()? {
        LockState::Free => {}
        LockState::Here(holder) => {
            if !holder.terminate(MAX_WAIT)? {
                bail!("process {} is still running after {} s", holder.pid, MAX_WAIT.as_secs());
            }
            ended.push(format!("process {}", holder.pid));
        }
        held @ LockState::Elsewhere(_) => {
            let (run, holder) = (folder.path().display(), held.describe());
            bail!("{run}: {holder} is working on this run and cannot be ended from here; run shardrun cancel there");
        }
    }
    let _lock = folder.lock()?;
    // Drivers whose shardrun was killed; the holder's own have ended with it.
    for submission in Submission::all(&folder)?.iter().filter(|submission| submission.is_driven()) {
        submission.engine().cancel(&folder, submission)?;
        ended.push(format!("the {} driver", submission.engine.name()));
    }
    while let Some(submission) = find_running(&folder)? {
        end(&folder, &submission)?;
        ended.push(format!("{} {}", submission.engine.name(), submission.ids()));
    }
    let result = if ended.is_empty() { "nothing was running".into() } else { format!("ended {}", ended.join(", ")) };
    let result = if delete { format!("{result}; {}", delete_all(&folder)?) } else { result };
    messages::notice(&format!("{}: {result}", folder.path().display()));
    Ok(Outcome::default())
}

/// Deletes what the submissions of a run have left on their engines, and describes it.
fn delete_all(folder: &RunFolder) -> Result<String> {
    let mut deleted = 0_u64;
    for submission in Submission::all(folder)? {
        deleted += u64::from(submission.engine().delete(folder, &submission)?);
    }
    if deleted == 0 {
        bail!(Usage(format!("--delete: {} was not submitted to k8s", folder.path().display())));
    }
    Ok(format!("deleted {}", counted(deleted, "submission")))
}

/// Cancels a submission and waits until the engine has ended it.
fn end(folder: &RunFolder, submission: &Submission) -> Result<()> {
    submission.engine().cancel(folder, submission)?;
    let until = Instant::now() + MAX_WAIT;
    loop {
        let remaining = submission.engine().remaining(folder, submission)?;
        if remaining.is_empty() {
            return submission.set_over();
        }
        if Instant::now() >= until {
            let engine = submission.engine.name();
            bail!("{engine}: {remaining} still runs {} s after it was cancelled", MAX_WAIT.as_secs());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// The only active run in the current folder; if none is active, the one that was started last.
fn only_active() -> Result<RunFolder> {
    let mut found = Vec::new();
    for folder in RunFolder::all() {
        let is_driven = Submission::all(&folder)?.iter().any(Submission::is_driven);
        let is_active =
            is_driven || !matches!(folder.lock_state()?, LockState::Free) || find_running(&folder)?.is_some();
        found.extend(is_active.then_some(folder));
    }
    if found.len() > 1 {
        let names: Vec<String> = found.iter().map(|folder| folder.path().display().to_string()).collect();
        bail!(Usage(format!("several runs are active; name one of them: {}", names.join(" "))));
    }
    found.pop().map_or_else(|| RunFolder::find(None), Ok)
}
