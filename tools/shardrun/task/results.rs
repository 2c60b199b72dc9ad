//! Where a worker puts its results: into the run folder if it can see it; else to stdout, and into the termination message of
//! a pod.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::shardrun::item::runner::StderrTo;
use crate::shardrun::item::stderr_tail::StderrTail;
use crate::shardrun::run::folder::RunFolder;
use crate::shardrun::run::job_log::{self, ItemRecord, ItemStatus, JobLog};
use crate::shardrun::task::bundle;

/// Longest termination message that Kubernetes keeps, in bytes.
const MAX_MESSAGE: usize = 4096;
/// Approximate size of a record without stderr.
const RECORD_SIZE: usize = 350;
/// Stderr that a failed item may always have in the message.
const MIN_SHARE: usize = 500;
/// Folder inside a submission that counts failures: one file per machine, one line per failed item.
const FAILED: &str = "failed";

/// Where the results of a task go.
pub enum TaskResults {
    /// Into the run folder, which this machine can see.
    Folder(RunFolder, JobLog, PathBuf),
    /// To stdout, and in a pod to its termination message.
    Stdout(Option<TerminationMessage>),
}

/// A termination message to which results are added.
pub struct TerminationMessage {
    file: PathBuf,
    text: String,
    /// Stderr to keep per item, in characters.
    share: usize,
}

impl TaskResults {
    /// The results of a bundle: a folder is a submission inside a run folder, a file has no run folder.
    pub fn open(name: &str) -> Result<Self> {
        if !Path::new(name).is_dir() {
            let message =
                |file| TerminationMessage { file: PathBuf::from(file), text: String::new(), share: MIN_SHARE };
            return Ok(TaskResults::Stdout(std::env::var_os("SHARDRUN_MESSAGE").map(message)));
        }
        let submission = fs::canonicalize(name)?;
        let folder = RunFolder::of_submission(&submission)?;
        let log = JobLog::open(&folder)?;
        Ok(TaskResults::Folder(folder, log, submission))
    }

    /// Results on stdout only.
    pub fn to_stdout() -> Self {
        TaskResults::Stdout(None)
    }

    /// Divides the termination message among the items of a task.
    pub fn share_message(&mut self, items: usize) {
        if let TaskResults::Stdout(Some(message)) = self {
            message.share = (MAX_MESSAGE / items.max(1)).saturating_sub(RECORD_SIZE);
        }
    }

    /// The run folder and the submission, if this machine can see them.
    pub fn folder(&self) -> Option<(&RunFolder, &Path)> {
        match self {
            TaskResults::Folder(folder, _, submission) => Some((folder, submission.as_path())),
            TaskResults::Stdout(_) => None,
        }
    }

    /// Where the stderr of pipelines goes.
    pub fn stderr_to(&self) -> StderrTo {
        match self {
            TaskResults::Folder(folder, ..) => StderrTo::Folder(folder.clone()),
            TaskResults::Stdout(..) => StderrTo::Tail(StderrTail::default()),
        }
    }

    /// Whether more items than `most` have failed since the submission, so that no further task may start.
    pub fn failed_more_than(&self, most: Option<u64>) -> Result<bool> {
        let (TaskResults::Folder(_, _, submission), Some(most)) = (self, most) else { return Ok(false) };
        Ok(count_failures(submission)? > most)
    }

    /// For each item, whether a requeued task can skip it. The job log decides, because failures are final and items may have
    /// no output. Empty unless the task was requeued.
    pub fn ended_before(&self, count: u64, redo: bool) -> Result<Vec<bool>> {
        let restarted = std::env::var("SLURM_RESTART_COUNT").is_ok_and(|restarts| restarts != "0");
        let TaskResults::Folder(folder, _, submission) = self else { return Ok(Vec::new()) };
        if !restarted {
            return Ok(Vec::new());
        }
        let since = bundle::written_at(submission);
        let has_ended = |record: &ItemRecord| {
            let is_of_submission = record.start + record.seconds >= since;
            is_of_submission || (record.state == ItemStatus::Done && !redo)
        };
        let latest = job_log::latest(folder, count)?;
        let is_final = |record: &ItemRecord| record.state != ItemStatus::Running;
        Ok(latest
            .iter()
            .map(|record| record.as_ref().is_some_and(|record| is_final(record) && has_ended(record)))
            .collect())
    }

    /// Records the start of an item if the engine does not show it as running: steps of a Slurm allocation.
    pub fn begin(&self, index: u64) -> Result<()> {
        match self {
            TaskResults::Folder(folder, ..) if std::env::var_os("SHARDRUN_STARTED").is_some() => {
                folder.record_start(index)
            }
            _ => Ok(()),
        }
    }

    /// Stores the record of an item that has ended.
    pub fn put(&mut self, record: &ItemRecord) -> Result<()> {
        match self {
            TaskResults::Folder(_, log, submission) => {
                if record.state == ItemStatus::Failed {
                    count_failure(submission, record.item)?;
                }
                log.append(record)
            }
            TaskResults::Stdout(message) => {
                write_out(&(serde_json::to_string(record)? + "\n"))?;
                message.as_mut().map_or(Ok(()), |message| message.add(record))
            }
        }
    }
}

/// Writes to stdout and flushes it.
pub fn write_out(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Counts a failed item by appending its number to the file of this machine, so that workers need not read the job log. It
/// must be counted before it is logged: a task that is killed in between runs the item again when it is requeued, and numbers
/// that appear twice count once.
pub fn count_failure(submission: &Path, item: u64) -> Result<()> {
    let folder = submission.join(FAILED);
    let path = folder.join(job_log::machine_file());
    let append = || OpenOptions::new().create(true).append(true).open(&path)?.write_all(format!("{item}\n").as_bytes());
    fs::create_dir_all(&folder).and_then(|()| append()).with_context(|| path.display().to_string())
}

/// Number of different items that have failed. Opens each file, because a network file system may show an old size of a file
/// that it has not opened.
fn count_failures(submission: &Path) -> Result<u64> {
    let folder = submission.join(FAILED);
    let read = || -> io::Result<u64> {
        let mut failed = BTreeSet::new();
        for entry in fs::read_dir(&folder)? {
            failed.extend(fs::read_to_string(entry?.path())?.lines().map(str::to_owned));
        }
        Ok(failed.len() as u64)
    };
    match read() {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(0),
        count => count.with_context(|| folder.display().to_string()),
    }
}

/// Ends a message that has no room for all results; stdout has them all.
pub const TRUNCATED: &str = "more\n";

impl TerminationMessage {
    /// Adds a record if there is room, with the last part of its stderr.
    fn add(&mut self, record: &ItemRecord) -> Result<()> {
        let share = if record.state == ItemStatus::Failed { self.share.max(MIN_SHARE) } else { self.share };
        let end = |text: &str| text.chars().skip(text.chars().count().saturating_sub(share)).collect();
        let stderr: Option<String> = record.stderr.as_deref().map(end);
        let stderr = stderr.filter(|stderr| !stderr.is_empty());
        let mut record = ItemRecord { stderr, shard: String::new(), ..record.clone() };
        if let Some(text) = &mut record.message {
            job_log::shorten(text, MIN_SHARE);
        }
        let line = serde_json::to_string(&record)? + "\n";
        if !self.text.ends_with(TRUNCATED) {
            let fits = self.text.len() + line.len() + TRUNCATED.len() <= MAX_MESSAGE;
            self.text.push_str(if fits { &line } else { TRUNCATED });
        }
        fs::write(&self.file, self.text.as_bytes()).context("SHARDRUN_MESSAGE")
    }
}
