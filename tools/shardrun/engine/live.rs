//! Runs that an engine still works on: found before anything is submitted again, joined, and ended.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tarpipe::cli::{Outcome, Usage};
use tarpipe::messages;

use super::{driver, hand_over_again, judge, k8s, slurm, wait};
use crate::bundle;
use crate::engine::Submission;
use crate::folder::Folder;
use crate::job::Job;
use crate::joblog::{self, Record, State};
use crate::lock::Held;
use crate::settings::Engine;

/// How long what is cancelled may take to end: Slurm and Kubernetes grant half a minute by default.
const PATIENCE: Duration = Duration::from_secs(150);
const PAUSE: Duration = Duration::from_millis(300);

/// The submission of a run that its engine still works on. The caller holds the run's lock, so that nobody hands over
/// more meanwhile. An engine that cannot be asked is an error: its tasks may be at work.
pub fn live(folder: &Folder) -> Result<Option<Submission>> {
    for mut submission in Submission::all(folder)?.into_iter().rev() {
        if submission.is_over() {
            continue;
        }
        let engine = submission.engine.name();
        let mut look = || {
            if submission.engine == Engine::Slurm {
                slurm::adopt(&mut submission)?;
            }
            is_alive(folder, &submission)
        };
        let asked = look().with_context(|| {
            let path = submission.path.display();
            format!("cannot tell whether {path} still runs on {engine} (remove that folder if it does not)")
        });
        if asked? {
            return Ok(Some(submission));
        }
        submission.set_over()?;
    }
    Ok(None)
}

/// Whether tasks of a submission wait or run. Results that only the engine has are collected.
pub fn is_alive(folder: &Folder, submission: &Submission) -> Result<bool> {
    match submission.engine {
        Engine::Slurm => slurm::is_alive(submission),
        Engine::K8s => Ok(k8s::collect(folder, submission)? > 0),
        // Their tasks end with the process that holds the lock.
        Engine::Local | Engine::Spark | Engine::Ray => Ok(false),
    }
}

/// Ends a submission of several Jobs in which more items have failed than may: each of them counts its own alone.
pub fn stop_if_failed(job: &Job, submission: &Submission) -> Result<bool> {
    let (Engine::K8s, Some(most)) = (submission.engine, job.head.limits.max_failures) else { return Ok(false) };
    let since = bundle::time(&submission.path);
    let records = joblog::latest(&job.folder, job.head.plan.count)?;
    let has_failed = |record: &&Record| record.state == State::Failed && record.start + record.seconds >= since;
    let failed = records.iter().flatten().filter(has_failed).count() as u64;
    if failed <= most {
        return Ok(false);
    }
    messages::notice(&format!("{failed} items have failed: ending {}", submission.ids()));
    end(&job.folder, submission)?;
    Ok(true)
}

/// Goes on with a run that an engine works on already, instead of running its items twice.
pub fn join(mut job: Job, submission: &Submission) -> Result<Outcome> {
    let (engine, folder) = (submission.engine.name(), job.folder.path().display().to_string());
    let ids = submission.ids();
    if job.repeats || submission.engine != job.settings.on {
        bail!("{folder}: still running on {engine} as {ids} (wait for its end, or end it by shardrun cancel {folder})");
    }
    drop(job.lock.take());
    if !job.settings.wait && !job.settings.interactive {
        return hand_over_again(&job, submission);
    }
    messages::notice(&format!("{folder}: already running on {engine} as {ids}: waiting for it, nothing is submitted"));
    wait(&job, submission)?;
    judge(&job)
}

/// Ends a run, here or at its engine. A success means that nothing of it runs any more.
pub fn cancel(dir: Option<&Path>) -> Result<Outcome> {
    let folder = match dir {
        Some(_) => Folder::find(dir)?,
        None => only_live()?,
    };
    let mut ended = Vec::new();
    match folder.holder()? {
        Held::Free => {}
        Held::Here(holder) => {
            if !holder.terminate(PATIENCE)? {
                bail!("process {} has not ended within {} s", holder.pid, PATIENCE.as_secs());
            }
            ended.push(format!("process {}", holder.pid));
        }
        held @ Held::Elsewhere(_) => {
            let (run, holder) = (folder.path().display(), held.describe());
            bail!("{run}: {holder} works on this run and cannot be ended from here: run shardrun cancel where it is");
        }
    }
    let _lock = folder.lock()?;
    // Drivers whose shardrun was killed: those of the holder have ended with it.
    for submission in Submission::all(&folder)?.iter().filter(|submission| driver::is_driven(submission)) {
        driver::cancel(submission)?;
        ended.push(format!("the driver of {}", submission.engine.name()));
    }
    while let Some(submission) = live(&folder)? {
        end(&folder, &submission)?;
        ended.push(format!("{} {}", submission.engine.name(), submission.ids()));
    }
    let what = if ended.is_empty() { "nothing was running".into() } else { format!("ended {}", ended.join(", ")) };
    messages::notice(&format!("{}: {what}", folder.path().display()));
    Ok(Outcome::default())
}

/// Has the engine end a submission, and waits until it has.
fn end(folder: &Folder, submission: &Submission) -> Result<()> {
    match submission.engine {
        Engine::Slurm => slurm::cancel(submission)?,
        Engine::K8s => k8s::cancel(folder, submission)?,
        Engine::Local | Engine::Spark | Engine::Ray => {}
    }
    let until = Instant::now() + PATIENCE;
    loop {
        let left = match submission.engine {
            Engine::K8s => k8s::left(submission)?,
            _ if slurm::is_alive(submission)? => submission.ids(),
            _ => String::new(),
        };
        if left.is_empty() {
            return submission.set_over();
        }
        if Instant::now() >= until {
            let engine = submission.engine.name();
            bail!("{engine} was told to end {left}, which still runs after {} s", PATIENCE.as_secs());
        }
        std::thread::sleep(PAUSE);
    }
}

/// The one run of this folder that is at work; where none is, the one used last.
fn only_live() -> Result<Folder> {
    let mut found = Vec::new();
    for folder in Folder::all() {
        let is_driven = Submission::all(&folder)?.iter().any(driver::is_driven);
        let is_live = is_driven || !matches!(folder.holder()?, Held::Free) || live(&folder)?.is_some();
        found.extend(is_live.then_some(folder));
    }
    if found.len() > 1 {
        let names: Vec<String> = found.iter().map(|folder| folder.path().display().to_string()).collect();
        bail!(Usage(format!("several runs are at work, name one of them: {}", names.join(" "))));
    }
    found.pop().map_or_else(|| Folder::find(None), Ok)
}
