//! The job log: one line of JSON per item. Each machine appends to a file of its own, each line by one write, so that
//! many processes can share it; readers take all files together.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tarpipe::messages::secret::mask;
use tarpipe::run::owner;

use crate::folder::Folder;
use crate::items::Item;

/// Messages longer than this would make a line that one write may cut.
const MAX_MESSAGE: usize = 1024;

/// What every record starts with.
const START: &str = "{\"item\":";

/// What became of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Its output is there.
    Done,
    /// Its last attempt failed.
    Failed,
    /// It was begun.
    Running,
}

/// A line of the job log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The index of the item.
    pub item: u64,
    /// Its value, without the secrets in it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub shard: String,
    /// What became of it.
    pub state: State,
    /// Where it ran.
    #[serde(default)]
    pub host: String,
    /// When it began, in seconds since 1970.
    #[serde(default)]
    pub start: f64,
    /// How long it took, with all attempts.
    #[serde(default)]
    pub seconds: f64,
    /// What was stored, where there is an output.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// How many samples that holds, where it is an archive.
    #[serde(default)]
    pub samples: Option<u64>,
    /// How often it was tried; 0 when its output was there already.
    #[serde(default)]
    pub attempts: u32,
    /// The exit status of the last attempt, 128+N after signal N.
    #[serde(default)]
    pub exit: Option<i32>,
    /// Why it failed.
    #[serde(default)]
    pub code: Option<String>,
    /// The same in words.
    #[serde(default)]
    pub message: Option<String>,
    /// The end of what it said, on its way from a worker without the run folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
}

impl Record {
    /// An item that begins now.
    pub fn begin(item: &Item<'_>) -> Self {
        let start = (now() * 1000.0).round() / 1000.0;
        Record { host: host().to_owned(), ..Record::new(item.index, item.value.to_owned(), start) }
    }

    /// An item that is done, as the engine says, which knows no more.
    pub fn done(item: u64, shard: &str) -> Self {
        Record { state: State::Done, attempts: 1, ..Record::new(item, shard.to_owned(), now()) }
    }

    /// An item that the engine lost after this time.
    pub fn lost(item: u64, shard: String, message: String, after: f64) -> Self {
        Record { code: Some("lost".into()), message: Some(message), ..Record::new(item, shard, after) }
    }

    fn new(item: u64, shard: String, start: f64) -> Self {
        Record {
            item,
            shard: mask(&shard).into_owned(),
            state: State::Failed,
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

/// The log, open for appending.
pub struct JobLog {
    file: File,
}

impl JobLog {
    /// Opens this machine's part. Hosts of one name must not share a file: appending is not atomic between machines.
    pub fn open(folder: &Folder) -> Result<Self> {
        let path = folder.make("log")?.join(format!("{}-{}.jsonl", host(), owner::machine()));
        let file = OpenOptions::new().create(true).append(true).read(true).open(&path);
        Ok(JobLog { file: file.with_context(|| path.display().to_string())? })
    }

    /// Appends a record.
    pub fn append(&mut self, record: &Record) -> Result<()> {
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

    /// Whether a full disk, or the death of the machine, left a part of a line at the end.
    fn is_torn(&self) -> io::Result<bool> {
        let mut last = [b'\n'];
        let bytes = self.file.metadata()?.len();
        if bytes > 0 {
            self.file.read_at(&mut last, bytes - 1)?;
        }
        Ok(last != *b"\n")
    }
}

/// Hands on every record of a run, in order of time within a machine only. Part of a record, as a full disk leaves it,
/// is skipped.
pub fn read(folder: &Folder, mut each: impl FnMut(Record)) -> Result<()> {
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

/// The record in a line. Before it, there may be the start of another that was cut off.
fn parse(line: &[u8]) -> Option<Record> {
    if let Ok(record) = serde_json::from_slice(line) {
        return Some(record);
    }
    let starts = line.windows(START.len()).enumerate().filter(|(_, bytes)| *bytes == START.as_bytes());
    starts.map(|(at, _)| &line[at..]).find_map(|rest| serde_json::from_slice(rest).ok())
}

/// The last word on every item: the record that ended last, but done stays done.
pub fn latest(folder: &Folder, count: u64) -> Result<Vec<Option<Record>>> {
    let mut all: Vec<Option<Record>> = vec![None; count as usize];
    read(folder, |record| {
        let Some(place) = all.get_mut(record.item as usize) else { return };
        if place.as_ref().is_none_or(|earlier| is_later(&record, earlier)) {
            *place = Some(record);
        }
    })?;
    Ok(all)
}

/// For every item, whether its last record says that it is done.
pub fn marked(folder: &Folder, count: u64) -> Result<Vec<bool>> {
    Ok(latest(folder, count)?.iter().map(is_done).collect())
}

/// Whether an item's last record says that it is done.
pub fn is_done(record: &Option<Record>) -> bool {
    record.as_ref().is_some_and(|record| record.state == State::Done)
}

fn is_later(record: &Record, earlier: &Record) -> bool {
    let end = |record: &Record| record.start + record.seconds;
    end(record) >= end(earlier)
}

/// Cuts a text to `most` bytes, between two characters.
pub fn shorten(text: &mut String, most: usize) {
    if text.len() > most {
        let end = (0..=most).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        text.truncate(end);
    }
}

/// Seconds since 1970.
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// What this machine is called: the node's name where Slurm gives one.
pub fn host() -> &'static str {
    static HOST: OnceLock<String> = OnceLock::new();
    HOST.get_or_init(|| {
        let named = std::env::var("SLURMD_NODENAME").ok().filter(|name| !name.is_empty() && !name.contains('/'));
        named.unwrap_or_else(owner::host)
    })
}
