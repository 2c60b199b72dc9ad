//! Shows the progress of a run on a cluster: counts items as they end by following the job log.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use tarpipe::messages::progress;

use crate::shardrun::run::job_log::{ItemRecord, ItemStatus};
use crate::shardrun::run::pending::PendingRun;

/// Time between two reads of the log.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Follows the log in the background.
struct JobLogFollower {
    log: PathBuf,
    /// Bytes read so far of each file.
    read: HashMap<PathBuf, u64>,
    /// For each item, whether it has yet to end.
    open: Vec<bool>,
}

/// Counts the pending items that end from now on.
pub fn start(pending: &PendingRun) -> Result<()> {
    progress::count_items(pending.todo.len() as u64);
    let log = pending.folder.absolute()?.path().join("log");
    let mut open = vec![false; pending.spec.plan.count as usize];
    pending.todo.iter().for_each(|&index| open[index as usize] = true);
    let read = files(&log).filter_map(|path| Some((path.clone(), fs::metadata(&path).ok()?.len()))).collect();
    let mut follower = JobLogFollower { log, read, open };
    std::thread::Builder::new().name("follow".into()).spawn(move || {
        loop {
            std::thread::sleep(POLL_INTERVAL);
            follower.read_new();
        }
    })?;
    Ok(())
}

fn files(log: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(log).into_iter().flatten().flatten().map(|entry| entry.path())
}

impl JobLogFollower {
    /// Counts the records that were appended since the last call.
    fn read_new(&mut self) {
        for path in files(&self.log) {
            let from = self.read.get(&path).copied().unwrap_or(0);
            let Some(text) = read_lines(&path, from) else { continue };
            text.split(|&byte| byte == b'\n')
                .filter_map(|line| serde_json::from_slice(line).ok())
                .for_each(|record| self.count(&record));
            self.read.insert(path, from + text.len() as u64);
        }
    }

    fn count(&mut self, record: &ItemRecord) {
        let Some(open) = self.open.get_mut(record.item as usize).filter(|open| **open) else { return };
        match record.state {
            ItemStatus::Running | ItemStatus::Left => return,
            ItemStatus::Done => progress::add_sample(),
            ItemStatus::Failed => progress::add_failed(),
        }
        *open = false;
    }
}

/// The complete lines of a file from an offset on.
fn read_lines(path: &Path, from: u64) -> Option<Vec<u8>> {
    let mut file = File::open(path).ok()?;
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut text = Vec::new();
    file.read_to_end(&mut text).ok()?;
    let end = text.iter().rposition(|&byte| byte == b'\n')? + 1;
    text.truncate(end);
    Some(text)
}
