//! Slurm warns a task by USR1 that its time is nearly over: it goes back into the queue. An item that takes longer than
//! the whole time limit would do so for ever, and fails after some rounds.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::Signal;
use tarpipe::messages;
use tarpipe::run::signals;

use crate::ask::ask_at_end;
use crate::folder::Folder;
use crate::items::Item;
use crate::joblog::{JobLog, Record};
use crate::results::{Results, note_failed};

/// How often a task may be interrupted without having ended an item in between.
const MOST: u32 = 3;
const LIMIT: Duration = Duration::from_secs(20);

/// How far a task is, for whoever interrupts it.
#[derive(Clone, Default)]
pub struct Progress(Arc<Mutex<Option<Current>>>);

#[derive(Clone)]
struct Current {
    record: Record,
    /// How many items of the task have ended since it was started,
    ended: usize,
    /// and how many are to come after this one.
    left: usize,
}

impl Progress {
    /// Notes the item that runs now, the one after `ended` of `all`.
    pub fn begin(&self, item: &Item<'_>, ended: usize, all: usize) {
        let current = Current { record: Record::begin(item), ended, left: all - ended - 1 };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(current);
    }

    fn current(&self) -> Option<Current> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Has a warned task put back into the queue. On TERM it is for Slurm to say whether it is.
pub fn on_warning(results: &Results, task: usize) -> Progress {
    let progress = Progress::default();
    let (Ok(job), Some((folder, submission))) = (std::env::var("SLURM_JOB_ID"), results.folder()) else {
        return progress;
    };
    if std::env::var_os("SHARDRUN_REQUEUE").is_none() {
        return progress;
    }
    let task = Task {
        folder: folder.clone(),
        rounds: submission.join(format!("interrupted-{task}")),
        submission: submission.to_owned(),
    };
    let seen = progress.clone();
    signals::before_end(move |signal| {
        if signal == Signal::USR1.as_raw() {
            signals::clean_up();
            let again = task.interrupt(seen.current()).unwrap_or_else(|err| {
                messages::notice(&format!("{err:#}"));
                true
            });
            if again && let Err(err) = ask_at_end(&["scontrol", "requeue", &job], LIMIT) {
                messages::notice(&format!("{err:#}"));
            }
        }
    });
    progress
}

/// A task that is interrupted.
struct Task {
    folder: Folder,
    submission: PathBuf,
    /// A file with a byte for each round.
    rounds: PathBuf,
}

impl Task {
    /// Whether it is to run again.
    fn interrupt(&self, current: Option<Current>) -> Result<bool> {
        let Some(mut current) = current else { return Ok(true) };
        let rounds = if current.ended > 0 { 1 } else { 1 + count(&self.rounds) };
        fs::write(&self.rounds, ".".repeat(rounds as usize)).with_context(|| self.rounds.display().to_string())?;
        if rounds < MOST {
            return Ok(true);
        }
        current.record.attempts = rounds;
        current.record.code = Some("timeout".into());
        current.record.message = Some(format!(
            "interrupted {rounds} times by Slurm's time limit, with nothing done in between; raise it, as by --slurm-arg=--time=4:00:00"
        ));
        note_failed(&self.submission)?;
        JobLog::open(&self.folder)?.append(&current.record)?;
        _ = fs::remove_file(&self.rounds);
        Ok(current.left > 0)
    }
}

fn count(rounds: &Path) -> u32 {
    fs::metadata(rounds).map_or(0, |found| found.len() as u32)
}
