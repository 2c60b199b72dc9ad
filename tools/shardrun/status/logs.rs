//! `shardrun logs`: prints the stderr of items.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result};
use tarpipe::cli::Outcome;
use tarpipe::messages::escape;
use tarpipe::sink::{Sink, SinkOptions};

use crate::shardrun::engine;
use crate::shardrun::run::folder::RunFolder;
use crate::shardrun::run::job_log::ItemStatus;
use crate::shardrun::status::snapshot::RunSnapshot;

/// Bytes to search for the last line.
const TAIL: u64 = 4096;

/// Prints the stderr of the given items, the failed ones, or all.
pub fn logs(dir: Option<&Path>, items: &[u64], failed: bool) -> Result<Outcome> {
    let folder = RunFolder::find(dir)?;
    let snapshot = RunSnapshot::take(&folder)?;
    let wanted: Vec<u64> = match items {
        [] if failed => snapshot.with_status(ItemStatus::Failed).collect(),
        [] => (0..snapshot.plan.count).collect(),
        named => named
            .iter()
            .copied()
            .filter(|&index| !failed || snapshot.statuses.get(index as usize) == Some(&ItemStatus::Failed))
            .collect(),
    };
    for index in wanted {
        let is_requested = failed || !items.is_empty();
        print(&snapshot, index, is_requested)?;
    }
    Ok(Outcome::default())
}

/// Prints a heading and the stderr of an item. An item without stderr is skipped unless it was requested.
fn print(snapshot: &RunSnapshot, index: u64, is_requested: bool) -> Result<()> {
    let record = snapshot.records.get(index as usize).with_context(|| format!("no item {index}"))?;
    let stderr = match File::open(snapshot.folder.stderr(index)) {
        Ok(file) => Some(Box::new(file) as Box<dyn Read>),
        Err(_) if is_requested => {
            engine::logs(&snapshot.folder, index).map(|text| Box::new(io::Cursor::new(text)) as Box<dyn Read>)
        }
        Err(_) => None,
    };
    if stderr.is_none() && !is_requested {
        return Ok(());
    }
    let message = record
        .as_ref()
        .and_then(|record| record.message.as_deref())
        .map_or_else(String::new, |message| format!(": {message}"));
    let mut out = Sink::create("-", SinkOptions::default())?;
    writeln!(out, "==> item {index} ({}){}", escape(&snapshot.items.value(index)), escape(&message))?;
    if let Some(mut stderr) = stderr {
        io::copy(&mut stderr, &mut out)?;
    }
    out.finish().map(drop)
}

/// The last line of the stderr of an item.
pub fn last_line(folder: &RunFolder, index: u64) -> Option<String> {
    let mut file = File::open(folder.stderr(index)).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL))).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    text.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_owned)
}
