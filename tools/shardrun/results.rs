//! Where the results of a task go: into the run folder, or to stdout and a pod's termination message.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::bundle;
use crate::folder::Folder;
use crate::item::Said;
use crate::joblog::{self, JobLog, Record, State};
use crate::listener::Listener;

/// Kubernetes keeps so much of a termination message.
const MAX_MESSAGE: usize = 4096;
/// What a record takes without what the item said.
const RECORD: usize = 350;
/// What a failed item has room for in any case.
const LEAST_SHARE: usize = 500;
/// The folder of a submission with a file per host, a byte per failed item.
const FAILED: &str = "failed";

/// Where the results of a task go.
pub enum Results {
    /// Into the run folder, which this machine sees.
    Folder(Folder, JobLog, PathBuf),
    /// To stdout, and as a termination message.
    Stdout(Option<Message>),
}

/// A termination message that grows.
pub struct Message {
    file: PathBuf,
    text: String,
    /// How much of what an item said has room.
    share: usize,
}

impl Results {
    /// For the tasks of a bundle: a file has no run folder around it.
    pub fn open(name: &str) -> Result<Self> {
        if !Path::new(name).is_dir() {
            let message = |file| Message { file: PathBuf::from(file), text: String::new(), share: LEAST_SHARE };
            return Ok(Results::Stdout(std::env::var_os("SHARDRUN_MESSAGE").map(message)));
        }
        let submission = fs::canonicalize(name)?;
        let folder = Folder::of_submission(&submission)?;
        let log = JobLog::open(&folder)?;
        Ok(Results::Folder(folder, log, submission))
    }

    /// To stdout alone.
    pub fn to_stdout() -> Self {
        Results::Stdout(None)
    }

    /// Divides the room of the termination message among the items of a task.
    pub fn share_message(&mut self, items: usize) {
        if let Results::Stdout(Some(message)) = self {
            message.share = (MAX_MESSAGE / items.max(1)).saturating_sub(RECORD);
        }
    }

    /// The run folder and the submission, where this machine sees them.
    pub fn folder(&self) -> Option<(&Folder, &Path)> {
        match self {
            Results::Folder(folder, _, submission) => Some((folder, submission.as_path())),
            Results::Stdout(_) => None,
        }
    }

    /// Where pipelines' stderr goes.
    pub fn said(&self) -> Said {
        match self {
            Results::Folder(folder, ..) => Said::Kept(folder.clone()),
            Results::Stdout(..) => Said::Passed(Listener::default()),
        }
    }

    /// Whether the run is to start nothing more, by what has failed since it was submitted.
    pub fn failed_more_than(&self, most: Option<u64>) -> Result<bool> {
        let (Results::Folder(_, _, submission), Some(most)) = (self, most) else { return Ok(false) };
        Ok(count_failed(submission)? > most)
    }

    /// For each item, whether a task that was requeued need not run it: its failure is final, and outputs alone do not
    /// tell where there are none.
    pub fn ended_before(&self, count: u64, redo: bool) -> Result<Vec<bool>> {
        let restarted = std::env::var("SLURM_RESTART_COUNT").is_ok_and(|restarts| restarts != "0");
        let Results::Folder(folder, _, submission) = self else { return Ok(Vec::new()) };
        if !restarted {
            return Ok(Vec::new());
        }
        let since = bundle::time(submission);
        let has_ended = |record: &Record| {
            let is_of_this = record.start + record.seconds >= since;
            is_of_this || (record.state == State::Done && !redo)
        };
        let latest = joblog::latest(folder, count)?;
        let is_final = |record: &Record| record.state != State::Running;
        Ok(latest
            .iter()
            .map(|record| record.as_ref().is_some_and(|record| is_final(record) && has_ended(record)))
            .collect())
    }

    /// Shows an item as running where the engine does not: steps of an allocation.
    pub fn begin(&self, index: u64) -> Result<()> {
        match self {
            Results::Folder(folder, ..) if std::env::var_os("SHARDRUN_STARTED").is_some() => folder.note_start(index),
            _ => Ok(()),
        }
    }

    /// Notes what became of an item.
    pub fn put(&mut self, record: &Record) -> Result<()> {
        match self {
            Results::Folder(_, log, submission) => {
                if record.state == State::Failed {
                    note_failed(submission)?;
                }
                log.append(record)
            }
            Results::Stdout(message) => {
                write_out(&(serde_json::to_string(record)? + "\n"))?;
                message.as_mut().map_or(Ok(()), |message| message.add(record))
            }
        }
    }
}

/// Writes to stdout at once.
pub fn write_out(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Counts a failure of a submission: a byte in a file of this host, so that nobody has to read the job log for it.
pub fn note_failed(submission: &Path) -> Result<()> {
    let folder = submission.join(FAILED);
    let path = folder.join(joblog::host());
    let append = || OpenOptions::new().create(true).append(true).open(&path)?.write_all(b".");
    fs::create_dir_all(&folder).and_then(|()| append()).with_context(|| path.display().to_string())
}

fn count_failed(submission: &Path) -> Result<u64> {
    let entries = match fs::read_dir(submission.join(FAILED)) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries.with_context(|| submission.display().to_string())?,
    };
    Ok(entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|found| found.len()).sum())
}

/// What a message ends with that has no room for all results: the rest is on stdout.
pub const MORE: &str = "more\n";

impl Message {
    /// Adds a record, as long as there is room. Of what an item said, the end.
    fn add(&mut self, record: &Record) -> Result<()> {
        let share = if record.state == State::Failed { self.share.max(LEAST_SHARE) } else { self.share };
        let end = |text: &str| text.chars().skip(text.chars().count().saturating_sub(share)).collect();
        let said: Option<String> = record.stderr.as_deref().map(end);
        let said = said.filter(|said| !said.is_empty());
        let mut record = Record { stderr: said, shard: String::new(), ..record.clone() };
        if let Some(text) = &mut record.message {
            joblog::shorten(text, LEAST_SHARE);
        }
        let line = serde_json::to_string(&record)? + "\n";
        if !self.text.ends_with(MORE) {
            let fits = self.text.len() + line.len() + MORE.len() <= MAX_MESSAGE;
            self.text.push_str(if fits { &line } else { MORE });
        }
        fs::write(&self.file, self.text.as_bytes()).context("SHARDRUN_MESSAGE")
    }
}
