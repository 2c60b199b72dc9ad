//! What became of every row so far: the report, the counts, and the finished rows that wait to be written.
//!
//! Two threads share it: the one that writes the archive, and the one that a signal wakes. When the writer is stuck in
//! a pipe that nobody reads, the other one takes the remaining rows over and completes the report.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use tarpipe::messages::progress;
use tarpipe::tally::Tally;
use tokio::sync::mpsc::Receiver;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::watch;

use super::entry::Entry;
use super::failure::{Code, Failure};
use super::report::Report;
use super::rows::Extent;
use super::schedule::Done;
use super::stats::Stats;

/// How long the rows of an interrupted run are collected. Those that come later are not in its report, which says so.
const COLLECT: Duration = Duration::from_secs(2);

/// How often the other thread is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(2);

pub struct Journal {
    results: Mutex<Receiver<Vec<Done>>>,
    state: Mutex<State>,
    /// Turns true when the run is to end at once.
    stop: watch::Sender<bool>,
    extent: Arc<Extent>,
}

struct State {
    report: Option<Report>,
    stats: Stats,
    tally: Tally,
    /// Finished rows, in their order.
    pending: VecDeque<Done>,
    /// The row that is being written.
    current: Option<Entry>,
    /// Whether the archive is being completed.
    is_committing: bool,
    is_closed: bool,
}

impl Journal {
    pub fn new(
        report: Option<Report>,
        stats: Stats,
        results: Receiver<Vec<Done>>,
        stop: watch::Sender<bool>,
        extent: Arc<Extent>,
    ) -> Self {
        let state = State {
            report,
            stats,
            tally: Tally::default(),
            pending: VecDeque::new(),
            current: None,
            is_committing: false,
            is_closed: false,
        };
        Journal { results: Mutex::new(results), state: Mutex::new(state), stop, extent }
    }

    /// The next finished row, in the state that `judge` leaves it in; none after the last. [`Journal::settle`] is to
    /// follow once it is written.
    pub fn next(&self, judge: impl Fn(&mut Done)) -> Option<Done> {
        loop {
            let mut state = self.state();
            if let Some(mut done) = state.pending.pop_front() {
                if self.is_stopped() {
                    interrupt(&mut done);
                }
                judge(&mut done);
                state.current = Some(Entry::new(&done.job, done.failure.as_ref()));
                return Some(done);
            }
            drop(state);
            let mut results = lock(&self.results);
            let batch = results.blocking_recv()?;
            self.state().pending.extend(batch);
        }
    }

    /// Records the row that [`Journal::next`] gave out last. An error ends the run.
    pub fn settle(&self, written: Result<()>) -> Result<()> {
        let mut state = self.state();
        // A signal has recorded it meanwhile.
        let Some(mut entry) = state.current.take() else { return written };
        if let Err(err) = &written
            && entry.code.is_none()
        {
            entry.fail(Code::Interrupted, &format!("not written: {err:#}"));
        }
        written.and(state.add(entry)).inspect_err(|_| _ = self.stop.send(true))
    }

    /// Whether the run is to end at once.
    pub fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Completes the archive, then the report of it. None when a signal came first.
    pub fn commit(&self, archive: impl FnOnce() -> Result<()>) -> Result<Option<Tally>> {
        {
            let mut state = self.state();
            // Under the lock: whoever stops the run sees the one or is seen by the other.
            if self.is_stopped() {
                return Ok(None);
            }
            state.is_committing = true;
        }
        archive()?;
        let mut state = self.state();
        state.close(true, true)?;
        Ok(Some(std::mem::take(&mut state.tally)))
    }

    /// Completes the report of a run whose archive is lost.
    pub fn abandon(&self) -> Result<()> {
        let mut state = self.state();
        let is_complete = self.extent.is_covered_by(state.report.as_ref().map_or(0, |report| report.rows));
        state.close(false, is_complete)
    }

    /// Ends the run after a signal: takes over the rows that the writer leaves, and completes the report. A writer that
    /// is about to complete the archive gets the time to do so.
    pub fn wind_up(&self) {
        _ = self.stop.send(true);
        let until = Instant::now() + COLLECT;
        while Instant::now() < until && !self.state().is_closed {
            if !self.state().is_committing && self.take_over(until) {
                break;
            }
            std::thread::sleep(LOOK);
        }
        // Nobody is left to tell when the report cannot be written: the signal decides the exit status.
        _ = self.abandon();
    }

    /// Records all rows that are still to come as interrupted. False when the writer waits for them itself.
    fn take_over(&self, until: Instant) -> bool {
        let mut results = match self.results.try_lock() {
            Ok(results) => results,
            Err(_) => return false,
        };
        loop {
            let batch = results.try_recv();
            let mut state = self.state();
            let current = state.current.take();
            if let Some(mut entry) = current {
                entry.fail(Code::Interrupted, INTERRUPTED);
                _ = state.add(entry);
            }
            let pending = std::mem::take(&mut state.pending);
            let is_over = matches!(batch, Err(TryRecvError::Disconnected));
            for mut done in pending.into_iter().chain(batch.into_iter().flatten()) {
                interrupt(&mut done);
                _ = state.add(Entry::new(&done.job, done.failure.as_ref()));
            }
            drop(state);
            if is_over || Instant::now() >= until {
                return true;
            }
            std::thread::sleep(LOOK);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

const INTERRUPTED: &str = "interrupted before it was written";

/// A row that is finished when the run ends is not written any more.
fn interrupt(done: &mut Done) {
    done.failure.get_or_insert_with(|| Failure::lasting(Code::Interrupted, INTERRUPTED));
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn add(&mut self, entry: Entry) -> Result<()> {
        match entry.code {
            None => {
                self.tally.done();
                progress::add_bytes(entry.bytes);
            }
            Some(code) => {
                self.tally.fail(code);
                progress::add_failed();
            }
        }
        self.stats.add(entry.code, entry.bytes);
        self.report.as_mut().map_or(Ok(()), |report| report.add(entry))
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
