//! `--stats`: a file with counts and rates, for dashboards to read during the run.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use parking_lot::Mutex;
use serde_json::json;
use tarpipe::sink::{Sink, SinkOptions};

use crate::fetch::failure::FailureCode;
use crate::fetch::schedule::Gauges;

/// How often the file is written.
const INTERVAL: Duration = Duration::from_secs(5);

/// The counts so far.
#[derive(Default)]
struct RowCounts {
    success: u64,
    failed: u64,
    bytes: u64,
    codes: BTreeMap<&'static str, u64>,
}

/// Counts rows, and writes the counts if there is a file for them.
pub struct RunStats(Arc<StatsShared>);

struct StatsShared {
    file: Option<String>,
    started: Instant,
    counts: Mutex<RowCounts>,
    gauges: Arc<Gauges>,
}

impl RunStats {
    /// Starts counting. The file, if any, is written at once and then every few seconds.
    pub fn start(file: Option<&str>, gauges: &Arc<Gauges>) -> Result<Self> {
        let shared = Arc::new(StatsShared {
            file: file.map(str::to_owned),
            started: Instant::now(),
            counts: Mutex::default(),
            gauges: Arc::clone(gauges),
        });
        if shared.file.is_some() {
            shared.write()?;
            let writer = Arc::clone(&shared);
            let write_repeatedly = move || {
                loop {
                    std::thread::sleep(INTERVAL);
                    // An error that lasts is reported by `finish`.
                    _ = writer.write();
                }
            };
            std::thread::Builder::new()
                .name("stats".into())
                .spawn(write_repeatedly)
                .context("cannot start a thread")?;
        }
        Ok(RunStats(shared))
    }

    /// Counts one row; `code` is that of its failure.
    pub fn add(&self, code: Option<&'static str>, bytes: u64) {
        if self.0.file.is_none() {
            return;
        }
        let mut counts = self.0.counts.lock();
        counts.bytes += bytes;
        match code {
            None => counts.success += 1,
            Some(code) => {
                counts.failed += 1;
                *counts.codes.entry(code).or_default() += 1;
            }
        }
    }

    /// Writes the final counts. If the archive is not kept, no row was a success.
    pub fn finish(&self, is_kept: bool) -> Result<()> {
        if !is_kept {
            let mut counts = self.0.counts.lock();
            let lost = std::mem::take(&mut counts.success);
            counts.failed += lost;
            if lost > 0 {
                *counts.codes.entry(FailureCode::NotKept.name()).or_default() += lost;
            }
        }
        self.0.write()
    }
}

impl StatsShared {
    fn write(&self) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let seconds = self.started.elapsed().as_secs_f64();
        let text = {
            let counts = self.counts.lock();
            let rows = counts.success + counts.failed;
            json!({
                "seconds": seconds,
                "rows": rows,
                "success": counts.success,
                "failed": counts.failed,
                "bytes": counts.bytes,
                "rows_per_second": rows as f64 / seconds.max(0.001),
                "bytes_per_second": counts.bytes as f64 / seconds.max(0.001),
                "in_flight": self.gauges.in_flight.load(Ordering::Relaxed),
                "codes": counts.codes,
            })
        };
        let mut sink = Sink::create(file, SinkOptions::default())?;
        sink.write_all(format!("{text}\n").as_bytes())?;
        sink.finish()?;
        Ok(())
    }
}
