//! Decides which row is fetched when: a limited number at a time, hosts taking turns, failed rows waiting for their retry,
//! results in the order of the rows. One task owns all of this state, so nothing needs a lock.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::host_queues::{HostLimits, HostQueues, NextJob};
use super::retry::RetryPolicy;
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

/// How long rows that arrive after an interruption are still reported.
const DRAIN_TIME: Duration = Duration::from_millis(500);

/// The most results that wait for the writer. Beyond that no request starts: it would only fill memory.
const MAX_OUTBOX: usize = 64;

/// A task panicked; the panic hook has printed why.
#[derive(Debug)]
pub struct TaskPanicked;

/// Runs until every row is finished, or the receiver of the results is gone.
pub async fn run(
    options: ScheduleOptions,
    fetcher: Arc<Fetcher>,
    budget: Arc<ByteBudget>,
    channels: ScheduleChannels,
) -> Result<(), TaskPanicked> {
    let scheduler = Scheduler {
        hosts: HostQueues::new(options.host_limits),
        options,
        fetcher,
        budget,
        gauges: channels.gauges,
        running: JoinSet::new(),
        retries: BinaryHeap::new(),
        retry_jobs: BTreeMap::new(),
        unfinished: BTreeMap::new(),
        ready: BTreeMap::new(),
        outbox: VecDeque::new(),
        next_out: 0,
        interrupt: channels.interrupt,
    };
    scheduler.run(channels.rows, channels.finished).await
}

/// A job, and the result of its latest attempt.
type AttemptResult = (FetchJob, Result<(), FetchFailure>);

struct Scheduler {
    options: ScheduleOptions,
    fetcher: Arc<Fetcher>,
    budget: Arc<ByteBudget>,
    gauges: Arc<Gauges>,
    hosts: HostQueues<FetchJob>,
    running: JoinSet<AttemptResult>,
    /// When which row is retried.
    retries: BinaryHeap<Reverse<(Instant, u64)>>,
    retry_jobs: BTreeMap<u64, FetchJob>,
    /// Rows that are not finished, and whether they are being fetched.
    unfinished: BTreeMap<u64, bool>,
    /// Results that wait for an older row to finish.
    ready: BTreeMap<u64, FinishedRow>,
    /// Results that are ready for the writer.
    outbox: VecDeque<FinishedRow>,
    /// The row whose result comes out next.
    next_out: u64,
    interrupt: watch::Receiver<bool>,
}

impl Scheduler {
    async fn run(
        mut self,
        mut rows: mpsc::Receiver<Vec<InputRow>>,
        finished: mpsc::Sender<Vec<FinishedRow>>,
    ) -> Result<(), TaskPanicked> {
        let mut has_more = true;
        let mut interrupted = self.interrupt.clone();
        let budget = Arc::clone(&self.budget);
        while has_more || !self.unfinished.is_empty() || !self.outbox.is_empty() {
            let mut change = std::pin::pin!(budget.change());
            change.as_mut().enable();
            self.start_ready(Instant::now());
            let has_room = self.unfinished.len() + self.ready.len() + self.outbox.len() < self.options.window;
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
                () = sleep_until(wakes_at.unwrap_or_else(Instant::now)), if wakes_at.is_some() => {}
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
            false => self.blocking_row().and_then(|oldest| self.hosts.starts_at(|job| job.row.index == oldest)),
        };
        retry.into_iter().chain(host).min()
    }

    fn has_slot(&self) -> bool {
        self.running.len() < self.options.in_flight && !self.budget.is_full() && self.outbox.len() < MAX_OUTBOX
    }

    fn admit(&mut self, mut row: InputRow) {
        let failure = row.parse_failure.take();
        let job = FetchJob::new(row, &self.budget);
        self.unfinished.insert(job.row.index, false);
        match failure {
            Some(failure) => self.finish(job, Some(failure)),
            None => self.hosts.push(&job.host(), job, false, Instant::now()),
        }
    }

    /// Starts every job that may start now.
    fn start_ready(&mut self, now: Instant) {
        while let Some(&Reverse((at, index))) = self.retries.peek() {
            if at > now {
                break;
            }
            self.retries.pop();
            if let Some(job) = self.retry_jobs.remove(&index) {
                self.hosts.push(&job.host(), job, true, now);
            }
        }
        while self.has_slot() {
            match self.hosts.next(now) {
                Some(NextJob::Start(job)) => self.spawn(job),
                Some(NextJob::Refuse(job, failure)) => self.finish(job, Some(failure)),
                None => break,
            }
        }
        if let Some((&oldest, _)) = self.unfinished.first_key_value() {
            self.budget.set_oldest(oldest);
        }
        if let Some(oldest) = self.blocking_row()
            && let Some(job) = self.hosts.force_start(|job| job.row.index == oldest, now)
        {
            self.spawn(job);
        }
    }

    /// If the byte budget is full and no finished row will free any of it, only the oldest row can. Returns that row if it
    /// has not been started.
    fn blocking_row(&self) -> Option<u64> {
        let (&oldest, &is_running) = self.unfinished.first_key_value()?;
        (!is_running && self.budget.is_stuck()).then_some(oldest)
    }

    fn spawn(&mut self, mut job: FetchJob) {
        self.unfinished.insert(job.row.index, true);
        let fetcher = Arc::clone(&self.fetcher);
        let mut interrupt = self.interrupt.clone();
        self.running.spawn(async move {
            let result = tokio::select! {
                biased;
                result = fetcher.attempt(&mut job) => result,
                _ = interrupt.wait_for(|stop| *stop) => Err(interrupted()),
            };
            (job, result)
        });
        self.gauges.in_flight.store(self.running.len(), Ordering::Relaxed);
    }

    fn complete_attempt(&mut self, mut job: FetchJob, result: Result<(), FetchFailure>) {
        let now = Instant::now();
        self.gauges.in_flight.store(self.running.len(), Ordering::Relaxed);
        self.hosts.complete(&job.host(), result.as_ref().err(), job.started, now);
        match result {
            Ok(()) if job.has_more_urls() => {
                job.go_to_next_url();
                self.unfinished.insert(job.row.index, false);
                self.hosts.push(&job.host(), job, true, now);
            }
            Ok(()) => self.finish(job, None),
            Err(failure) => match self.options.retry.wait_after(&failure, job.attempts_at_url, job.jitter()) {
                Some(wait) => {
                    self.unfinished.insert(job.row.index, false);
                    self.retries.push(Reverse((now + wait, job.row.index)));
                    self.retry_jobs.insert(job.row.index, job);
                }
                None => self.finish(job, Some(failure)),
            },
        }
    }

    fn finish(&mut self, mut job: FetchJob, failure: Option<FetchFailure>) {
        if failure.is_some() {
            job.drop_files();
        }
        let index = job.row.index;
        self.unfinished.remove(&index);
        let ends_run = failure.as_ref().is_some_and(|failure| failure.is_fatal);
        let result = FinishedRow { job, failure };
        if self.options.unordered || ends_run {
            self.emit(result);
            return;
        }
        self.ready.insert(index, result);
        while let Some(result) = self.ready.remove(&self.next_out) {
            self.emit(result);
            self.next_out += 1;
        }
    }

    fn emit(&mut self, mut result: FinishedRow) {
        result.job.mark_finished();
        self.outbox.push_back(result);
    }

    /// Reports all unfinished rows as interrupted, in the order of the rows.
    async fn abort(mut self, mut rows: mpsc::Receiver<Vec<InputRow>>, finished: mpsc::Sender<Vec<FinishedRow>>) {
        let mut left: BTreeMap<u64, FetchJob> = std::mem::take(&mut self.retry_jobs);
        left.extend(self.hosts.drain().into_iter().map(|job| (job.row.index, job)));
        while let Some(ended) = self.running.join_next().await {
            left.extend(ended.ok().map(|(job, _)| (job.row.index, job)));
        }
        let completed = self.outbox.into_iter().chain(self.ready.into_values());
        let mut results: BTreeMap<u64, FinishedRow> = completed.map(|result| (result.job.row.index, result)).collect();
        for (index, mut job) in left {
            job.drop_files();
            results.insert(index, FinishedRow { job, failure: Some(interrupted()) });
        }
        if finished.send(results.into_values().collect()).await.is_err() {
            return;
        }
        let drain = async {
            while let Some(batch) = rows.recv().await {
                let jobs = batch.into_iter().map(|row| FetchJob::new(row, &self.budget));
                let batch = jobs.map(|job| FinishedRow { job, failure: Some(interrupted()) }).collect();
                if finished.send(batch).await.is_err() {
                    return;
                }
            }
        };
        _ = tokio::time::timeout(DRAIN_TIME, drain).await;
    }
}

fn interrupted() -> FetchFailure {
    FetchFailure::permanent(FailureCode::Interrupted, "interrupted before it was finished")
}
