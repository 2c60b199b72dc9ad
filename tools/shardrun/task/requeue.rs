//! Puts a task back into Slurm's queue when its time limit is near, of which Slurm warns by USR1. An item that takes longer
//! than the whole limit would be requeued forever, so it fails after a few rounds.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use parking_lot::Mutex;
use rustix::process::Signal;
use tarpipe::messages;
use tarpipe::run::signals;

use crate::shardrun::engine::external::query_at_end;
use crate::shardrun::plan::items::RunItem;
use crate::shardrun::run::folder::RunFolder;
use crate::shardrun::run::job_log::{ItemRecord, JobLog};
use crate::shardrun::task::results::{TaskResults, count_failure};

/// Interruptions in a row without a finished item after which the item fails.
const MAX_ROUNDS: u32 = 3;
const SCONTROL_TIMEOUT: Duration = Duration::from_secs(20);

/// How far a task is, for the signal handler.
#[derive(Clone, Default)]
pub struct TaskProgress(Arc<Mutex<Option<CurrentItem>>>);

#[derive(Clone)]
struct CurrentItem {
    record: ItemRecord,
    /// Number of items that ended since the task was started.
    ended: usize,
    /// Number of items after this one.
    left: usize,
}

impl TaskProgress {
    /// Sets the current item, which comes after `ended` of `all` items.
    pub fn begin(&self, item: &RunItem<'_>, ended: usize, all: usize) {
        let current = CurrentItem { record: ItemRecord::begin(item), ended, left: all - ended - 1 };
        *self.0.lock() = Some(current);
    }

    fn current(&self) -> Option<CurrentItem> {
        self.0.lock().clone()
    }
}

/// Installs the handler that requeues a task when Slurm warns it. After TERM, Slurm itself decides whether to requeue.
pub fn on_warning(results: &TaskResults, task: usize) -> TaskProgress {
    let progress = TaskProgress::default();
    let (Ok(job), Some((folder, submission))) = (std::env::var("SLURM_JOB_ID"), results.folder()) else {
        return progress;
    };
    if std::env::var_os("SHARDRUN_REQUEUE").is_none() {
        return progress;
    }
    let task = WarnedTask {
        folder: folder.clone(),
        rounds: submission.join(format!("interrupted-{task}")),
        submission: submission.to_owned(),
    };
    let shared = progress.clone();
    signals::on_signal(move |signal| {
        if signal == Signal::USR1.as_raw() {
            signals::clean_up();
            let requeue = task.interrupt(shared.current()).unwrap_or_else(|err| {
                messages::notice(&format!("{err:#}"));
                true
            });
            if requeue && let Err(err) = query_at_end(&["scontrol", "requeue", &job], SCONTROL_TIMEOUT) {
                messages::notice(&format!("{err:#}"));
            }
        }
    });
    progress
}

/// A task that Slurm has warned of its time limit.
struct WarnedTask {
    folder: RunFolder,
    submission: PathBuf,
    /// File with one byte per round.
    rounds: PathBuf,
}

impl WarnedTask {
    /// Counts the interruption; whether the task should run again.
    fn interrupt(&self, current: Option<CurrentItem>) -> Result<bool> {
        let Some(mut current) = current else { return Ok(true) };
        let rounds = if current.ended > 0 { 1 } else { 1 + count(&self.rounds) };
        fs::write(&self.rounds, ".".repeat(rounds as usize)).with_context(|| self.rounds.display().to_string())?;
        if rounds < MAX_ROUNDS {
            return Ok(true);
        }
        current.record.attempts = rounds;
        current.record.code = Some("timeout".into());
        current.record.message = Some(format!(
            "interrupted {rounds} times by Slurm's time limit without finishing an item; raise the limit, such as --slurm-arg=--time=4:00:00"
        ));
        count_failure(&self.submission, current.record.item)?;
        JobLog::open(&self.folder)?.append(&current.record)?;
        _ = fs::remove_file(&self.rounds);
        Ok(current.left > 0)
    }
}

fn count(rounds: &Path) -> u32 {
    fs::metadata(rounds).map_or(0, |found| found.len() as u32)
}
