//! Counts and rates in a file that dashboards read while the run goes on.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::json;
use tarpipe::sink::{Options, Sink};

use super::failure::Code;
use super::schedule::Gauges;

const EVERY: Duration = Duration::from_secs(5);

/// The counts so far.
#[derive(Default)]
struct Counts {
    success: u64,
    failed: u64,
    bytes: u64,
    codes: BTreeMap<&'static str, u64>,
}

/// Counts rows, and writes the counts where that was asked for.
pub struct Stats(Arc<Shared>);

struct Shared {
    file: Option<String>,
    began: Instant,
    counts: Mutex<Counts>,
    gauges: Arc<Gauges>,
}

impl Stats {
    /// Starts to count; with a file, writes it at once and then every few seconds.
    pub fn start(file: Option<&str>, gauges: &Arc<Gauges>) -> Result<Self> {
        let shared = Arc::new(Shared {
            file: file.map(str::to_owned),
            began: Instant::now(),
            counts: Mutex::default(),
            gauges: Arc::clone(gauges),
        });
        if shared.file.is_some() {
            shared.write()?;
            let writer = Arc::clone(&shared);
            let loops = move || {
                loop {
                    std::thread::sleep(EVERY);
                    // The last writing says what is wrong with the file, if it still is.
                    _ = writer.write();
                }
            };
            std::thread::Builder::new().name("stats".into()).spawn(loops).context("cannot start a thread")?;
        }
        Ok(Stats(shared))
    }

    /// Counts one row, which failed under this code if there is one.
    pub fn add(&self, failed: Option<&'static str>, bytes: u64) {
        if self.0.file.is_none() {
            return;
        }
        let mut counts = self.0.counts();
        counts.bytes += bytes;
        match failed {
            None => counts.success += 1,
            Some(code) => {
                counts.failed += 1;
                *counts.codes.entry(code).or_default() += 1;
            }
        }
    }

    /// Writes the final counts. Without the archive no row was a success.
    pub fn finish(&self, is_kept: bool) -> Result<()> {
        if !is_kept {
            let mut counts = self.0.counts();
            let lost = std::mem::take(&mut counts.success);
            counts.failed += lost;
            if lost > 0 {
                *counts.codes.entry(Code::NotKept.name()).or_default() += lost;
            }
        }
        self.0.write()
    }
}

impl Shared {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let seconds = self.began.elapsed().as_secs_f64();
        let text = {
            let counts = self.counts();
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
        let mut sink = Sink::create(file, Options::default())?;
        sink.write_all(format!("{text}\n").as_bytes())?;
        sink.finish()?;
        Ok(())
    }
}
