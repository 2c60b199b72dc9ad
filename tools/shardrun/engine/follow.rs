//! Progress of a run that is in the hands of an engine: counts the items that end, by the lines that are appended to the
//! job log.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use tarpipe::messages::progress;

use crate::job::Job;
use crate::joblog::{Record, State};

/// Between two looks at the log.
const EVERY: Duration = Duration::from_secs(1);

/// Where each file of the log was read to, and which items are still to end.
struct Follower {
    log: PathBuf,
    read: HashMap<PathBuf, u64>,
    open: Vec<bool>,
}

/// Counts the items of a job that end from now on.
pub fn start(job: &Job) -> Result<()> {
    progress::count_items(job.todo.len() as u64);
    let log = job.folder.absolute()?.path().join("log");
    let mut open = vec![false; job.head.plan.count as usize];
    job.todo.iter().for_each(|&index| open[index as usize] = true);
    let read = files(&log).filter_map(|path| Some((path.clone(), fs::metadata(&path).ok()?.len()))).collect();
    let mut follower = Follower { log, read, open };
    std::thread::Builder::new().name("follow".into()).spawn(move || {
        loop {
            std::thread::sleep(EVERY);
            follower.look();
        }
    })?;
    Ok(())
}

fn files(log: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(log).into_iter().flatten().flatten().map(|entry| entry.path())
}

impl Follower {
    /// Counts what was appended since the last look.
    fn look(&mut self) {
        for path in files(&self.log) {
            let from = self.read.get(&path).copied().unwrap_or(0);
            let Some(text) = read_lines(&path, from) else { continue };
            text.split(|&byte| byte == b'\n')
                .filter_map(|line| serde_json::from_slice(line).ok())
                .for_each(|record| self.count(&record));
            self.read.insert(path, from + text.len() as u64);
        }
    }

    fn count(&mut self, record: &Record) {
        let Some(open) = self.open.get_mut(record.item as usize).filter(|open| **open) else { return };
        match record.state {
            State::Running => return,
            State::Done => progress::add_sample(),
            State::Failed => progress::add_failed(),
        }
        *open = false;
    }
}

/// The whole lines of a file from there on.
fn read_lines(path: &Path, from: u64) -> Option<Vec<u8>> {
    let mut file = File::open(path).ok()?;
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut text = Vec::new();
    file.read_to_end(&mut text).ok()?;
    let end = text.iter().rposition(|&byte| byte == b'\n')? + 1;
    text.truncate(end);
    Some(text)
}
