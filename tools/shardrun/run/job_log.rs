//! The job log: one JSON line per item that ended. Each machine appends to its own file, one write per line, so that many
//! processes can share the log; readers merge all files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tarpipe::messages::secret::mask;
use tarpipe::run::owner;

use crate::shardrun::plan::items::RunItem;
use crate::shardrun::run::folder::RunFolder;

/// Longest message: longer lines might be split into several writes.
const MAX_MESSAGE: usize = 1024;

/// The first bytes of every record.
const RECORD_START: &str = "{\"item\":";

/// The status of an item or of a task: in the job log, as engines report it, and as `shardrun status` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ItemStatus {
    /// It has yet to run. The job log has no such records.
    Left,
    /// It has started.
    Running,
    /// Its output exists, or a record says that it is done.
    Done,
    /// Its last attempt failed.
    Failed,
}

/// A line of the job log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ItemRecord {
    /// Number of the item.
    pub item: u64,
    /// Value of the item, with secrets masked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub shard: String,
    /// How it ended.
    pub state: ItemStatus,
    /// Machine that it ran on.
    #[serde(default)]
    pub host: String,
    /// Start time, in seconds since 1970.
    #[serde(default)]
    pub start: f64,
    /// Duration of all attempts.
    #[serde(default)]
    pub seconds: f64,
    /// Bytes stored, if there is an output.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Samples stored, if the output is an archive.
    #[serde(default)]
    pub samples: Option<u64>,
    /// Number of attempts; 0 if the output existed already.
    #[serde(default)]
    pub attempts: u32,
    /// Exit status of the last attempt, 128+N after signal N.
    #[serde(default)]
    pub exit: Option<i32>,
    /// Reason code of a failure.
    #[serde(default)]
    pub code: Option<String>,
    /// Message of a failure.
    #[serde(default)]
    pub message: Option<String>,
    /// Last part of its stderr, on the way from a worker that cannot see the run folder. The log itself never has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
}

impl ItemRecord {
    /// An item that starts now.
    pub fn begin(item: &RunItem<'_>) -> Self {
        let start = (now() * 1000.0).round() / 1000.0;
        ItemRecord { host: host().to_owned(), ..ItemRecord::new(item.index, item.value.to_owned(), start) }
    }

    /// An item that the engine reports as done, without further details.
    pub fn done(item: u64, shard: &str) -> Self {
        ItemRecord { state: ItemStatus::Done, attempts: 1, ..ItemRecord::new(item, shard.to_owned(), now()) }
    }

    /// An item that the engine lost at some time after `since`.
    pub fn lost(item: u64, shard: String, message: String, since: f64) -> Self {
        ItemRecord { code: Some("lost".into()), message: Some(message), ..ItemRecord::new(item, shard, since) }
    }

    fn new(item: u64, shard: String, start: f64) -> Self {
        ItemRecord {
            item,
            shard: mask(&shard).into_owned(),
            state: ItemStatus::Failed,
            host: String::new(),
            start,
            seconds: 0.0,
            bytes: None,
            samples: None,
            attempts: 0,
            exit: None,
            code: None,
            message: None,
            stderr: None,
        }
    }
}

/// The log of this machine, open for appending.
pub struct JobLog {
    file: File,
}

impl JobLog {
    /// Opens the file of this machine.
    pub fn open(folder: &RunFolder) -> Result<Self> {
        let path = folder.create_inside("log")?.join(machine_file() + ".jsonl");
        let file = OpenOptions::new().create(true).append(true).read(true).open(&path);
        Ok(JobLog { file: file.with_context(|| path.display().to_string())? })
    }

    /// Appends a record.
    pub fn append(&mut self, record: &ItemRecord) -> Result<()> {
        let mut record = record.clone();
        record.stderr = None;
        if let Some(message) = &mut record.message {
            *message = mask(message).into_owned();
            shorten(message, MAX_MESSAGE);
        }
        let line = serde_json::to_string(&record)? + "\n";
        let start = if self.is_torn().context("the job log")? { "\n" } else { "" };
        self.file.write_all((start.to_owned() + &line).as_bytes()).context("the job log")
    }

    /// Whether the file ends with part of a line, left by a full disk or a crash.
    fn is_torn(&self) -> io::Result<bool> {
        let mut last = [b'\n'];
        let bytes = self.file.metadata()?.len();
        if bytes > 0 {
            self.file.read_at(&mut last, bytes - 1)?;
        }
        Ok(last != *b"\n")
    }
}

/// Calls `each` with every record of a run, in order of time within each machine only. Partial records, as left by a full
/// disk, are skipped.
pub fn read(folder: &RunFolder, mut each: impl FnMut(ItemRecord)) -> Result<()> {
    let log = folder.path().join("log");
    for entry in fs::read_dir(&log).with_context(|| log.display().to_string())?.flatten() {
        let mut reader = BufReader::with_capacity(1 << 20, File::open(entry.path())?);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line)? > 0 {
            if let Some(record) = parse(&line) {
                each(record);
            }
            line.clear();
        }
    }
    Ok(())
}

/// Parses the record in a line, which may follow the truncated start of another one.
fn parse(line: &[u8]) -> Option<ItemRecord> {
    if let Ok(record) = serde_json::from_slice(line) {
        return Some(record);
    }
    let starts = line.windows(RECORD_START.len()).enumerate().filter(|(_, bytes)| *bytes == RECORD_START.as_bytes());
    starts.map(|(at, _)| &line[at..]).find_map(|rest| serde_json::from_slice(rest).ok())
}

/// The record of every item that ended last.
pub fn latest(folder: &RunFolder, count: u64) -> Result<Vec<Option<ItemRecord>>> {
    let mut all: Vec<Option<ItemRecord>> = vec![None; count as usize];
    read(folder, |record| {
        let Some(latest) = all.get_mut(record.item as usize) else { return };
        if latest.as_ref().is_none_or(|earlier| is_later(&record, earlier)) {
            *latest = Some(record);
        }
    })?;
    Ok(all)
}

/// For every item, whether its latest record says that it is done.
pub fn done_items(folder: &RunFolder, count: u64) -> Result<Vec<bool>> {
    Ok(latest(folder, count)?.iter().map(is_done).collect())
}

/// Whether the latest record of an item says that it is done.
pub fn is_done(record: &Option<ItemRecord>) -> bool {
    record.as_ref().is_some_and(|record| record.state == ItemStatus::Done)
}

fn is_later(record: &ItemRecord, earlier: &ItemRecord) -> bool {
    let end = |record: &ItemRecord| record.start + record.seconds;
    end(record) >= end(earlier)
}

/// Truncates a text to at most `most` bytes, at a character boundary.
pub fn shorten(text: &mut String, most: usize) {
    if text.len() > most {
        let end = (0..=most).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        text.truncate(end);
    }
}

/// The current time in seconds since 1970.
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// The name of a file that only this machine appends to: appending is not atomic between machines. It includes the machine id,
/// because several may have the same name.
pub fn machine_file() -> String {
    format!("{}-{}", host(), owner::machine())
}

/// The name of this machine: Slurm's name of the node if there is one.
pub fn host() -> &'static str {
    static HOST: OnceLock<String> = OnceLock::new();
    HOST.get_or_init(|| {
        let named = std::env::var("SLURMD_NODENAME").ok().filter(|name| !name.is_empty() && !name.contains('/'));
        named.unwrap_or_else(owner::host)
    })
}
