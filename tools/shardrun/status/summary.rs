//! The summary that `status` prints, as text or JSON, and that the HTML report shows.

use std::fmt;

use serde::Serialize;
use tarpipe::messages::escape;
use tarpipe::value::size;

use super::logs::last_line;
use crate::shardrun::run::job_log::{ItemRecord, ItemStatus};
use crate::shardrun::status::snapshot::RunSnapshot;

/// Number of slowest and failed items to show.
const SHOWN: usize = 10;
/// Seconds over which the rate is measured.
const WINDOW: f64 = 600.0;

/// The state of a run in numbers. Its fields are those of `status --json`.
#[derive(Debug, Serialize)]
pub struct RunSummary {
    /// The run folder.
    pub run: String,
    /// Number of items.
    pub count: u64,
    /// Items that are done.
    pub done: u64,
    /// Items that are running.
    pub running: u64,
    /// Items that failed.
    pub failed: u64,
    /// Items that are left to run.
    pub left: u64,
    /// Whether the run is active.
    pub live: bool,
    /// Why tasks do not start.
    pub waits: Vec<String>,
    /// Recent rate in items per second.
    pub rate: Option<f64>,
    /// Seconds until the end at this rate.
    pub eta: Option<f64>,
    /// Bytes stored.
    pub bytes: u64,
    /// Samples stored.
    pub samples: u64,
    /// The items that took longest.
    pub slowest: Vec<ItemRecord>,
    /// The first failed items.
    pub failures: Vec<FailedItem>,
}

/// An item that failed.
#[derive(Debug, Serialize)]
pub struct FailedItem {
    /// Record of the item.
    #[serde(flatten)]
    pub record: ItemRecord,
    /// Last line of its stderr.
    #[serde(rename = "said")]
    pub last_line: Option<String>,
}

impl RunSummary {
    /// Summarizes a snapshot.
    pub fn of(snapshot: &RunSnapshot) -> Self {
        let done: Vec<&ItemRecord> = snapshot
            .records
            .iter()
            .flatten()
            .filter(|record| record.state == ItemStatus::Done && record.attempts > 0)
            .collect();
        let (running, left) = (snapshot.count(ItemStatus::Running), snapshot.count(ItemStatus::Left));
        let rate = rate(snapshot.records.iter().flatten());
        RunSummary {
            run: snapshot.folder.path().display().to_string(),
            count: snapshot.plan.count,
            done: snapshot.count(ItemStatus::Done),
            running,
            failed: snapshot.count(ItemStatus::Failed),
            left,
            live: snapshot.is_live,
            waits: snapshot.waits.clone(),
            rate,
            eta: rate.filter(|_| snapshot.is_live).map(|rate| (left + running) as f64 / rate),
            bytes: done.iter().filter_map(|record| record.bytes).sum(),
            samples: done.iter().filter_map(|record| record.samples).sum(),
            slowest: slowest(done),
            failures: snapshot
                .with_status(ItemStatus::Failed)
                .take(SHOWN)
                .filter_map(|index| failed(snapshot, index))
                .collect(),
        }
    }
}

fn failed(snapshot: &RunSnapshot, index: u64) -> Option<FailedItem> {
    let record = snapshot.records[index as usize].clone()?;
    Some(FailedItem { last_line: last_line(&snapshot.folder, index), record })
}

/// The slowest items, the slowest first.
fn slowest(mut records: Vec<&ItemRecord>) -> Vec<ItemRecord> {
    let longer = |a: &&ItemRecord, b: &&ItemRecord| b.seconds.total_cmp(&a.seconds);
    if records.len() > SHOWN {
        records.select_nth_unstable_by(SHOWN, longer);
        records.truncate(SHOWN);
    }
    records.sort_by(longer);
    records.into_iter().cloned().collect()
}

/// Items per second, measured over the last minutes before the latest end of an item.
fn rate<'a>(records: impl Iterator<Item = &'a ItemRecord>) -> Option<f64> {
    let spans: Vec<(f64, f64)> = records
        .filter(|record| record.attempts > 0)
        .map(|record| (record.start, record.start + record.seconds))
        .collect();
    let last = spans.iter().map(|span| span.1).fold(f64::MIN, f64::max);
    let recent: Vec<&(f64, f64)> = spans.iter().filter(|span| span.1 >= last - WINDOW).collect();
    let first = recent.iter().map(|span| span.0).fold(f64::MAX, f64::min).max(last - WINDOW);
    (recent.len() > 1 && last > first).then(|| recent.len() as f64 / (last - first))
}

impl fmt::Display for RunSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = 100.0 * self.done as f64 / self.count.max(1) as f64;
        writeln!(
            f,
            "{}: {} of {} done ({percent:.0} %), {} running, {} failed, {} left",
            self.run, self.done, self.count, self.running, self.failed, self.left
        )?;
        for reason in &self.waits {
            writeln!(f, "waiting: {}", escape(reason))?;
        }
        if self.bytes > 0 {
            writeln!(f, "stored {}, {} samples", size::show(self.bytes), self.samples)?;
        }
        if let Some(rate) = self.rate {
            let rate = if rate >= 1.0 { format!("{rate:.1} items/s") } else { format!("{:.1} items/min", rate * 60.0) };
            let eta = self.eta.map_or_else(String::new, |eta| format!(", {} left", clock(eta)));
            writeln!(f, "{rate}{eta}")?;
        }
        if !self.slowest.is_empty() {
            writeln!(f, "slowest:")?;
        }
        for record in self.slowest.iter().take(3) {
            writeln!(
                f,
                "  item {} ({}): {:.1} s on {}",
                record.item,
                escape(&record.shard),
                record.seconds,
                record.host
            )?;
        }
        if !self.failures.is_empty() {
            writeln!(f, "failed:")?;
        }
        for FailedItem { record, last_line } in &self.failures {
            let (code, message) = (record.code.as_deref().unwrap_or("failed"), record.message.as_deref().unwrap_or(""));
            writeln!(f, "  item {} ({}): {code}: {}", record.item, escape(&record.shard), escape(message))?;
            if let Some(line) = last_line {
                writeln!(f, "    {}", escape(line))?;
            }
        }
        if self.failed as usize > self.failures.len() {
            writeln!(f, "  and {} more", self.failed as usize - self.failures.len())?;
        }
        Ok(())
    }
}

/// Formats a duration as `1:02:03` or `2:03`.
pub fn clock(seconds: f64) -> String {
    let seconds = seconds as u64;
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{rest:02}") } else { format!("{minutes}:{rest:02}") }
}
