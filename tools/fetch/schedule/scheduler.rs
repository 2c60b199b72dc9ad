//! Decides which row is fetched when: a limited number at a time, hosts taking turns, failed rows waiting for their retry,
//! results in the order of the rows. One task owns all of this state, so nothing needs a lock.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::host_queues::{HostLimits, HostQueues, NextRow};
use super::retry::RetryPolicy;
use super::row_ring::RowRing;
use crate::fetch::failure::{FailureCode, FetchFailure};
use crate::fetch::fetcher::{FetchJob, Fetcher, FinishedRow};
use crate::fetch::input::InputRow;
use crate::fetch::memory::ByteBudget;

/// How many rows are fetched at a time, and in which order they come out.
#[derive(Clone, Copy, Debug)]
pub struct ScheduleOptions {
    pub in_flight: usize,
    /// The most rows that are read and not yet written.
    pub window: usize,
    /// Whether results come out as they are ready, not in the order of the rows.
    pub unordered: bool,
    pub retry: RetryPolicy,
    pub host_limits: HostLimits,
}

/// Current values for `--stats`.
#[derive(Default)]
pub struct Gauges {
    pub in_flight: AtomicUsize,
}

/// How the scheduler is connected to the reader, the writer and the signal handler.
pub struct ScheduleChannels {
    /// Rows to fetch, in batches: every message wakes a thread.
    pub rows: mpsc::Receiver<Vec<InputRow>>,
    pub finished: mpsc::Sender<Vec<FinishedRow>>,
    /// Becomes true when the run must stop.
    pub interrupt: watch::Receiver<bool>,
    pub gauges: Arc<Gauges>,
}

/// What the scheduler needs from outside: attempts, and the time. The model test simulates both.
pub trait Environment: Send + Sync + 'static {
    /// Makes one attempt at the job's current URL and adds the file to the job.
    fn attempt(&self, job: &mut FetchJob) -> impl Future<Output = Result<(), FetchFailure>> + Send;

    fn now(&self) -> Instant;

    fn sleep_until(&self, at: Instant) -> impl Future<Output = ()> + Send;
}

impl Environment for Fetcher {
    fn attempt(&self, job: &mut FetchJob) -> impl Future<Output = Result<(), FetchFailure>> + Send {
        Fetcher::attempt(self, job)
    }

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep_until(&self, at: Instant) -> impl Future<Output = ()> + Send {
        sleep_until(at)
    }
}

/// How long rows that arrive after an interruption are still reported.
pub const DRAIN_TIME: Duration = Duration::from_millis(500);

/// The most results that wait for the writer. Beyond that no request starts: it would only fill memory.
const MAX_OUTBOX: usize = 64;

/// A task panicked; the panic hook has printed why.
#[derive(Debug)]
pub struct TaskPanicked;

/// Runs until every row is finished, or the receiver of the results is gone.
pub async fn run<E: Environment>(
    options: ScheduleOptions,
    environment: Arc<E>,
    budget: Arc<ByteBudget>,
    channels: ScheduleChannels,
) -> Result<(), TaskPanicked> {
    let scheduler = Scheduler {
        hosts: HostQueues::new(options.host_limits),
        options,
        environment,
        budget,
        gauges: channels.gauges,
        running: JoinSet::new(),
        retries: BinaryHeap::new(),
        rows: RowRing::default(),
        outbox: VecDeque::new(),
        interrupt: channels.interrupt,
    };
    scheduler.run(channels.rows, channels.finished).await
}

/// A job, and the result of its latest attempt.
type AttemptResult = (Box<FetchJob>, Result<(), FetchFailure>);

struct Scheduler<E> {
    options: ScheduleOptions,
    environment: Arc<E>,
    budget: Arc<ByteBudget>,
    gauges: Arc<Gauges>,
    hosts: HostQueues,
    running: JoinSet<AttemptResult>,
    /// When which row is retried.
    retries: BinaryHeap<Reverse<(Instant, u64)>>,
    /// Rows that are not finished, or wait for an older row to finish.
    rows: RowRing,
    /// Results that are ready for the writer.
    outbox: VecDeque<FinishedRow>,
    interrupt: watch::Receiver<bool>,
}

impl<E: Environment> Scheduler<E> {
    async fn run(
        mut self,
        mut rows: mpsc::Receiver<Vec<InputRow>>,
        finished: mpsc::Sender<Vec<FinishedRow>>,
    ) -> Result<(), TaskPanicked> {
        let mut has_more = true;
        let mut interrupted = self.interrupt.clone();
        let budget = Arc::clone(&self.budget);
        let environment = Arc::clone(&self.environment);
        while has_more || !self.rows.is_empty() || !self.outbox.is_empty() {
            let mut change = std::pin::pin!(budget.change());
            change.as_mut().enable();
            self.start_ready(environment.now());
            let has_room = self.rows.len() + self.outbox.len() < self.options.window;
            let wakes_at = self.wakes_at();
            tokio::select! {
                biased;
                _ = interrupted.wait_for(|stop| *stop) => break,
                Some(ended) = self.running.join_next(), if !self.running.is_empty() => {
                    self.collect(ended)?;
                }
                received = rows.recv(), if has_more && has_room => match received {
                    Some(batch) => batch.into_iter().for_each(|row| self.admit(row)),
                    None => has_more = false,
                },
                // After the rows, so that results leave in large batches: every message wakes a thread.
                permit = finished.reserve(), if !self.outbox.is_empty() => match permit {
                    Ok(permit) => permit.send(std::mem::take(&mut self.outbox).into()),
                    Err(_) => return Ok(()),
                },
                // Rows that have been written free room for others.
                () = change, if self.budget.is_full() => {}
                // Perhaps only the oldest row can free room, and has to be started.
                () = budget.shortage() => {}
                () = environment.sleep_until(wakes_at.unwrap_or_else(Instant::now)), if wakes_at.is_some() => {}
            }
        }
        if *self.interrupt.borrow() {
            self.abort(rows, finished).await;
        }
        Ok(())
    }

    /// Handles this result and those of all other attempts that have ended.
    fn collect(&mut self, first: Result<AttemptResult, JoinError>) -> Result<(), TaskPanicked> {
        let mut next = Some(first);
        while let Some(ended) = next {
            let (job, result) = ended.map_err(|_| TaskPanicked)?;
            self.complete_attempt(job, result);
            next = self.running.try_join_next();
        }
        Ok(())
    }

    fn wakes_at(&self) -> Option<Instant> {
        let retry = self.retries.peek().map(|Reverse((at, _))| *at);
        let host = match self.has_slot() {
            true => self.hosts.wakes_at(),
            false => self.blocking_row().and_then(|(row, host)| self.hosts.starts_at(&host, row)),
        };
        retry.into_iter().chain(host).min()
    }

    fn has_slot(&self) -> bool {
        self.running.len() < self.options.in_flight && !self.budget.is_full() && self.outbox.len() < MAX_OUTBOX
    }

    fn admit(&mut self, mut row: InputRow) {
        let failure = row.parse_failure.take();
        let job = Box::new(FetchJob::new(row, &self.budget));
        let index = job.row.index;
        if failure.is_none() {
            self.hosts.push(job.host(), index, false, self.environment.now());
        }
        self.rows.push(job);
        if let Some(failure) = failure {
            self.refuse(index, failure);
        }
    }

    /// Starts every row that may start now.
    fn start_ready(&mut self, now: Instant) {
        while let Some(&Reverse((at, index))) = self.retries.peek() {
            if at > now {
                break;
            }
            self.retries.pop();
            if let Some(job) = self.rows.waiting(index) {
                self.hosts.push(job.host(), index, true, now);
            }
        }
        while self.has_slot() {
            match self.hosts.next(now) {
                Some(NextRow::Start(index)) => self.spawn(index),
                Some(NextRow::Refuse(index, failure)) => self.refuse(index, failure),
                None => break,
            }
        }
        if let Some((oldest, _)) = self.rows.oldest() {
            self.budget.set_oldest(oldest);
        }
        if let Some((oldest, host)) = self.blocking_row()
            && self.hosts.force_start(&host, oldest, now)
        {
            self.spawn(oldest);
        }
    }

    /// If the byte budget is full and no finished row will free any of it, only the oldest row can. Returns that row and its
    /// host if it has not been started.
    fn blocking_row(&self) -> Option<(u64, String)> {
        let (oldest, is_running) = self.rows.oldest()?;
        if is_running || !self.budget.is_stuck() {
            return None;
        }
        self.rows.waiting(oldest).map(|job| (oldest, job.host().to_owned()))
    }

    fn spawn(&mut self, index: u64) {
        let Some(mut job) = self.rows.start(index) else { return };
        let environment = Arc::clone(&self.environment);
        let mut interrupt = self.interrupt.clone();
        self.running.spawn(async move {
            let result = tokio::select! {
                biased;
                result = environment.attempt(&mut job) => result,
                _ = interrupt.wait_for(|stop| *stop) => Err(interrupted()),
            };
            (job, result)
        });
        self.gauges.in_flight.store(self.running.len(), Ordering::Relaxed);
    }

    fn complete_attempt(&mut self, mut job: Box<FetchJob>, result: Result<(), FetchFailure>) {
        let now = self.environment.now();
        self.gauges.in_flight.store(self.running.len(), Ordering::Relaxed);
        self.hosts.complete(job.host(), result.as_ref().err(), job.started, now);
        match result {
            Ok(()) if job.has_more_urls() => {
                job.go_to_next_url();
                self.hosts.push(job.host(), job.row.index, true, now);
                self.rows.put_back(job);
            }
            Ok(()) => self.finish(FinishedRow { job, failure: None }),
            Err(failure) => match self.options.retry.wait_after(&failure, job.attempts_at_url, job.jitter()) {
                Some(wait) => {
                    self.retries.push(Reverse((now + wait, job.row.index)));
                    self.rows.put_back(job);
                }
                None => self.finish(FinishedRow { job, failure: Some(failure) }),
            },
        }
    }

    /// Fails a row that waits.
    fn refuse(&mut self, index: u64, failure: FetchFailure) {
        if let Some(job) = self.rows.start(index) {
            self.finish(FinishedRow { job, failure: Some(failure) });
        }
    }

    fn finish(&mut self, mut row: FinishedRow) {
        if row.failure.is_some() {
            row.job.drop_files();
        }
        let ends_run = row.failure.as_ref().is_some_and(|failure| failure.is_fatal);
        if self.options.unordered || ends_run {
            self.rows.leave(row.job.row.index);
            self.emit(row);
        } else {
            self.rows.finish(row);
        }
        while let Some(row) = self.rows.pop_finished() {
            self.emit(row);
        }
    }

    fn emit(&mut self, mut row: FinishedRow) {
        row.job.mark_finished();
        self.outbox.push_back(row);
    }

    /// Reports all unfinished rows as interrupted, in the order of the rows.
    async fn abort(mut self, mut rows: mpsc::Receiver<Vec<InputRow>>, finished: mpsc::Sender<Vec<FinishedRow>>) {
        while let Some(ended) = self.running.join_next().await {
            if let Ok((job, _)) = ended {
                self.rows.put_back(job);
            }
        }
        let mut results: Vec<FinishedRow> = self.outbox.into();
        results.extend(self.rows.into_rows(interrupted_row));
        results.sort_by_key(|row| row.job.row.index);
        if finished.send(results).await.is_err() {
            return;
        }
        let drain = async {
            while let Some(batch) = rows.recv().await {
                let jobs = batch.into_iter().map(|row| Box::new(FetchJob::new(row, &self.budget)));
                if finished.send(jobs.map(interrupted_row).collect()).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = drain => {}
            () = self.environment.sleep_until(self.environment.now() + DRAIN_TIME) => {}
        }
    }
}

fn interrupted_row(mut job: Box<FetchJob>) -> FinishedRow {
    job.drop_files();
    FinishedRow { job, failure: Some(interrupted()) }
}

fn interrupted() -> FetchFailure {
    FetchFailure::permanent(FailureCode::Interrupted, "interrupted before it was finished")
}
