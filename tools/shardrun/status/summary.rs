//! The figures of a run.

use std::fmt;

use serde::Serialize;
use tarpipe::messages::escape;
use tarpipe::value::size;

use super::logs::last_line;
use crate::joblog::{Record, State};
use crate::survey::{Standing, Survey};

/// How many of the slowest and of the failed are shown.
const SHOWN: usize = 10;
/// The rate is that of the last minutes.
const WINDOW: f64 = 600.0;

/// How far a run is.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// The run folder.
    pub run: String,
    /// All items.
    pub count: u64,
    /// Those that are done,
    pub done: u64,
    /// at work,
    pub running: u64,
    /// failed,
    pub failed: u64,
    /// and to be run.
    pub left: u64,
    /// Whether somebody is at work on it.
    pub live: bool,
    /// Why tasks do not start.
    pub waits: Vec<String>,
    /// Items a second, lately.
    pub rate: Option<f64>,
    /// Seconds until the end, at this rate.
    pub eta: Option<f64>,
    /// Bytes stored.
    pub bytes: u64,
    /// Samples in them.
    pub samples: u64,
    /// The items that took longest.
    pub slowest: Vec<Record>,
    /// The first of those that failed, with the last lines that they said.
    pub failures: Vec<Failed>,
}

/// An item that failed.
#[derive(Debug, Serialize)]
pub struct Failed {
    /// Its record.
    #[serde(flatten)]
    pub record: Record,
    /// The last line that it said.
    pub said: Option<String>,
}

impl Summary {
    /// The figures of a survey.
    pub fn of(survey: &Survey) -> Self {
        let done: Vec<&Record> = survey
            .records
            .iter()
            .flatten()
            .filter(|record| record.state == State::Done && record.attempts > 0)
            .collect();
        let (running, left) = (survey.count(Standing::Running), survey.count(Standing::Left));
        let rate = rate(survey.records.iter().flatten());
        Summary {
            run: survey.folder.path().display().to_string(),
            count: survey.plan.count,
            done: survey.count(Standing::Done),
            running,
            failed: survey.count(Standing::Failed),
            left,
            live: survey.is_live,
            waits: survey.waits.clone(),
            rate,
            eta: rate.filter(|_| survey.is_live).map(|rate| (left + running) as f64 / rate),
            bytes: done.iter().filter_map(|record| record.bytes).sum(),
            samples: done.iter().filter_map(|record| record.samples).sum(),
            slowest: slowest(done),
            failures: survey.which(Standing::Failed).take(SHOWN).filter_map(|index| failed(survey, index)).collect(),
        }
    }
}

fn failed(survey: &Survey, index: u64) -> Option<Failed> {
    let record = survey.records[index as usize].clone()?;
    Some(Failed { said: last_line(&survey.folder, index), record })
}

/// The longest first.
fn slowest(mut records: Vec<&Record>) -> Vec<Record> {
    let longer = |a: &&Record, b: &&Record| b.seconds.total_cmp(&a.seconds);
    if records.len() > SHOWN {
        records.select_nth_unstable_by(SHOWN, longer);
        records.truncate(SHOWN);
    }
    records.sort_by(longer);
    records.into_iter().cloned().collect()
}

/// Items that ended a second, in the last minutes before the last of them.
fn rate<'a>(records: impl Iterator<Item = &'a Record>) -> Option<f64> {
    let spans: Vec<(f64, f64)> = records
        .filter(|record| record.attempts > 0)
        .map(|record| (record.start, record.start + record.seconds))
        .collect();
    let last = spans.iter().map(|span| span.1).fold(f64::MIN, f64::max);
    let recent: Vec<&(f64, f64)> = spans.iter().filter(|span| span.1 >= last - WINDOW).collect();
    let first = recent.iter().map(|span| span.0).fold(f64::MAX, f64::min).max(last - WINDOW);
    (recent.len() > 1 && last > first).then(|| recent.len() as f64 / (last - first))
}

impl fmt::Display for Summary {
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
        for Failed { record, said } in &self.failures {
            let (code, message) = (record.code.as_deref().unwrap_or("failed"), record.message.as_deref().unwrap_or(""));
            writeln!(f, "  item {} ({}): {code}: {}", record.item, escape(&record.shard), escape(message))?;
            if let Some(said) = said {
                writeln!(f, "    {}", escape(said))?;
            }
        }
        if self.failed as usize > self.failures.len() {
            writeln!(f, "  and {} more", self.failed as usize - self.failures.len())?;
        }
        Ok(())
    }
}

/// `1:02:03`, `2:03`.
pub fn clock(seconds: f64) -> String {
    let seconds = seconds as u64;
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{rest:02}") } else { format!("{minutes}:{rest:02}") }
}
