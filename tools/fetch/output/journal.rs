//! The outcome of every row so far: the report, the counts, and the finished rows that wait to be written.
//!
//! Two threads share it: the one that writes the archive, and the one that handles a signal. If the writer is stuck in a pipe
//! that nobody reads, the other one records the remaining rows and completes the report.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use parking_lot::Mutex;
use tarpipe::messages::progress;
use tarpipe::tally::Tally;
use tokio::sync::mpsc::Receiver;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::watch;

use super::report::FetchReport;
use super::report_row::ReportRow;
use super::stats::RunStats;
use crate::fetch::failure::{FailureCode, FetchFailure};
use crate::fetch::fetcher::FinishedRow;
use crate::fetch::input::ReadProgress;

/// How long to collect rows after a signal. Later ones are missing from the report, which says so.
const COLLECT_TIME: Duration = Duration::from_secs(2);

/// How often the state is checked meanwhile.
const CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// The record of a run.
pub struct RunJournal {
    results: Mutex<Receiver<Vec<FinishedRow>>>,
    state: Mutex<JournalState>,
    /// Becomes true when the run must stop.
    stop: watch::Sender<bool>,
    progress: Arc<ReadProgress>,
}

struct JournalState {
    report: Option<FetchReport>,
    stats: RunStats,
    tally: Tally,
    /// Finished rows that are not written, in their order.
    pending: VecDeque<FinishedRow>,
    /// The row that is being written.
    current: Option<ReportRow>,
    /// Whether the archive is being completed.
    is_committing: bool,
    /// Whether the report is complete.
    is_closed: bool,
}

impl RunJournal {
    pub fn new(
        report: Option<FetchReport>,
        stats: RunStats,
        results: Receiver<Vec<FinishedRow>>,
        stop: watch::Sender<bool>,
        progress: Arc<ReadProgress>,
    ) -> Self {
        let state = JournalState {
            report,
            stats,
            tally: Tally::default(),
            pending: VecDeque::new(),
            current: None,
            is_committing: false,
            is_closed: false,
        };
        RunJournal { results: Mutex::new(results), state: Mutex::new(state), stop, progress }
    }

    /// The next finished row, after `validate`, which may fail it; None after the last. Call [`RunJournal::record`] once it
    /// is written.
    pub fn next(&self, validate: impl Fn(&mut FinishedRow)) -> Option<FinishedRow> {
        loop {
            let mut state = self.state.lock();
            if let Some(mut finished) = state.pending.pop_front() {
                if self.is_stopped() {
                    interrupt(&mut finished);
                }
                validate(&mut finished);
                state.current = Some(ReportRow::new(&finished.job, finished.failure.as_ref()));
                return Some(finished);
            }
            drop(state);
            let mut results = self.results.lock();
            let batch = results.blocking_recv()?;
            self.state.lock().pending.extend(batch);
        }
    }

    /// Records the row that [`RunJournal::next`] returned last. An error stops the run.
    pub fn record(&self, written: Result<()>) -> Result<()> {
        let mut state = self.state.lock();
        // The signal handler has recorded it meanwhile.
        let Some(mut row) = state.current.take() else { return written };
        if let Err(err) = &written
            && row.code.is_none()
        {
            row.fail(FailureCode::Interrupted, &format!("not written: {err:#}"));
        }
        written.and(state.add(row)).inspect_err(|_| _ = self.stop.send(true))
    }

    /// Whether the run must stop.
    pub fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Completes the archive, then the report. None if a signal came first.
    pub fn commit(&self, finish_archive: impl FnOnce() -> Result<()>) -> Result<Option<Tally>> {
        {
            let mut state = self.state.lock();
            // Under the lock: either this sees the stop, or the signal handler sees `is_committing`.
            if self.is_stopped() {
                return Ok(None);
            }
            state.is_committing = true;
        }
        finish_archive()?;
        let mut state = self.state.lock();
        state.close(true, true)?;
        Ok(Some(std::mem::take(&mut state.tally)))
    }

    /// Completes the report of a run whose archive is lost.
    pub fn close_without_archive(&self) -> Result<()> {
        let mut state = self.state.lock();
        let is_complete = self.progress.is_complete_with(state.report.as_ref().map_or(0, |report| report.rows));
        state.close(false, is_complete)
    }

    /// Ends the run after a signal: records the rows that the writer has not written, and completes the report. A writer
    /// that is completing the archive gets time to do so.
    pub fn close_after_signal(&self) {
        _ = self.stop.send(true);
        let until = Instant::now() + COLLECT_TIME;
        while Instant::now() < until && !self.state.lock().is_closed {
            if !self.state.lock().is_committing && self.record_remaining(until) {
                break;
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
        // An error of the report is not printed: the signal determines the exit status.
        _ = self.close_without_archive();
    }

    /// Records all remaining rows as interrupted. False if the writer is waiting for rows itself.
    fn record_remaining(&self, until: Instant) -> bool {
        let Some(mut results) = self.results.try_lock() else {
            return false;
        };
        loop {
            let batch = results.try_recv();
            let mut state = self.state.lock();
            let current = state.current.take();
            if let Some(mut row) = current {
                row.fail(FailureCode::Interrupted, INTERRUPTED);
                _ = state.add(row);
            }
            let pending = std::mem::take(&mut state.pending);
            let is_last = matches!(batch, Err(TryRecvError::Disconnected));
            for mut finished in pending.into_iter().chain(batch.into_iter().flatten()) {
                interrupt(&mut finished);
                _ = state.add(ReportRow::new(&finished.job, finished.failure.as_ref()));
            }
            drop(state);
            if is_last || Instant::now() >= until {
                return true;
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
    }
}

const INTERRUPTED: &str = "interrupted before it was written";

/// Fails a row that finished too late to be written.
fn interrupt(finished: &mut FinishedRow) {
    finished.failure.get_or_insert_with(|| FetchFailure::permanent(FailureCode::Interrupted, INTERRUPTED));
}

impl JournalState {
    fn add(&mut self, row: ReportRow) -> Result<()> {
        match row.code {
            None => {
                self.tally.done();
                progress::add_bytes(row.bytes);
            }
            Some(code) => {
                let message = row.error_message.as_deref().unwrap_or_default();
                self.tally
                    .fail_as(code, || format!("{}: {message}", if row.url.is_empty() { &row.key } else { &row.url }));
                progress::add_failed();
            }
        }
        self.stats.add(row.code, row.bytes);
        self.report.as_mut().map_or(Ok(()), |report| report.add(row))
    }

    /// Writes the final report and counts, once.
    fn close(&mut self, is_kept: bool, is_complete: bool) -> Result<()> {
        if std::mem::replace(&mut self.is_closed, true) {
            return Ok(());
        }
        let reported = self.report.take().map_or(Ok(()), |report| report.finish(is_kept, is_complete));
        reported.and(self.stats.finish(is_kept))
    }
}
