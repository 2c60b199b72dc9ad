//! Which row is fetched when: so many at once, hosts taking turns, failures waiting for their next
//! attempt, results in the order of the rows. One task owns all of this; nothing is locked.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::attempt::{Attempts, Job};
use super::budget::Budget;
use super::failure::{Code, Failure};
use super::hosts::{Hosts, Politeness, Turn};
use super::retry::Retry;
use super::row::Row;

/// How much is done at once, and in which order it comes out.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Requests in flight.
    pub in_flight: usize,
    /// Rows read and not yet handed out.
    pub window: usize,
    /// Results as they are ready instead of in the order of the rows.
    pub unordered: bool,
    pub retry: Retry,
    pub politeness: Politeness,
}

/// A row that needs no more work.
pub struct Done {
    pub job: Job,
    /// None for a success.
    pub failure: Option<Failure>,
}

/// What a run shows while it goes on.
#[derive(Default)]
pub struct Gauges {
    pub in_flight: AtomicUsize,
}

/// The ends of a scheduler.
pub struct Ends {
    /// In batches: every hand-over wakes a thread.
    pub rows: mpsc::Receiver<Vec<Row>>,
    pub done: mpsc::Sender<Vec<Done>>,
    /// Turns true when the run is to end at once.
    pub interrupt: watch::Receiver<bool>,
    pub gauges: Arc<Gauges>,
}

/// Rows that come after an interruption are reported as not done, for so long.
const DRAIN: Duration = Duration::from_millis(500);

/// Results whose turn has come and that nobody takes: the output is behind, and more would only fill memory.
const BEHIND: usize = 64;

/// A task of ours panicked; its hook has told.
#[derive(Debug)]
pub struct Panicked;

/// Runs until every row is done, or the receiver of the results has left.
pub async fn run(plan: Plan, attempts: Arc<Attempts>, budget: Arc<Budget>, ends: Ends) -> Result<(), Panicked> {
    let scheduler = Scheduler {
        hosts: Hosts::new(plan.politeness),
        plan,
        attempts,
        budget,
        gauges: ends.gauges,
        running: JoinSet::new(),
        waiting: BinaryHeap::new(),
        waiting_jobs: BTreeMap::new(),
        unfinished: BTreeMap::new(),
        ready: BTreeMap::new(),
        out: VecDeque::new(),
        next: 0,
        interrupt: ends.interrupt,
    };
    scheduler.run(ends.rows, ends.done).await
}

/// A job, and what came of its attempt.
type Ended = (Job, Result<(), Failure>);

struct Scheduler {
    plan: Plan,
    attempts: Arc<Attempts>,
    budget: Arc<Budget>,
    gauges: Arc<Gauges>,
    hosts: Hosts<Job>,
    running: JoinSet<Ended>,
    /// When which row is tried again.
    waiting: BinaryHeap<Reverse<(Instant, u64)>>,
    waiting_jobs: BTreeMap<u64, Job>,
    /// Rows that are not done, and whether they are being fetched.
    unfinished: BTreeMap<u64, bool>,
    /// Results that wait for an older row.
    ready: BTreeMap<u64, Done>,
    /// Results whose turn has come.
    out: VecDeque<Done>,
    /// The row whose result comes next.
    next: u64,
    interrupt: watch::Receiver<bool>,
}

impl Scheduler {
    async fn run(mut self, mut rows: mpsc::Receiver<Vec<Row>>, done: mpsc::Sender<Vec<Done>>) -> Result<(), Panicked> {
        let mut has_more = true;
        let mut interrupted = self.interrupt.clone();
        let budget = Arc::clone(&self.budget);
        while has_more || !self.unfinished.is_empty() || !self.out.is_empty() {
            let mut change = std::pin::pin!(budget.change());
            change.as_mut().enable();
            self.start(Instant::now());
            let has_room = self.unfinished.len() + self.ready.len() + self.out.len() < self.plan.window;
            let wakes_at = self.wakes_at();
            tokio::select! {
                biased;
                _ = interrupted.wait_for(|is_over| *is_over) => break,
                Some(ended) = self.running.join_next(), if !self.running.is_empty() => {
                    self.collect(ended)?;
                }
                received = rows.recv(), if has_more && has_room => match received {
                    Some(batch) => batch.into_iter().for_each(|row| self.admit(row)),
                    None => has_more = false,
                },
                // Last, so that results go out together: every hand-over wakes a thread.
                permit = done.reserve(), if !self.out.is_empty() => match permit {
                    Ok(permit) => permit.send(std::mem::take(&mut self.out).into()),
                    Err(_) => return Ok(()),
                },
                // Rows that have been written make room for others.
                () = change, if self.budget.is_full() => {}
                // Only the oldest row may be able to make any.
                () = budget.shortage() => {}
                () = sleep_until(wakes_at.unwrap_or_else(Instant::now)), if wakes_at.is_some() => {}
            }
        }
        if *self.interrupt.borrow() {
            self.give_up(rows, done).await;
        }
        Ok(())
    }

    /// Takes in this attempt and all others that have ended.
    fn collect(&mut self, first: Result<Ended, JoinError>) -> Result<(), Panicked> {
        let mut next = Some(first);
        while let Some(ended) = next {
            let (job, result) = ended.map_err(|_| Panicked)?;
            self.ended(job, result);
            next = self.running.try_join_next();
        }
        Ok(())
    }

    fn wakes_at(&self) -> Option<Instant> {
        let retry = self.waiting.peek().map(|Reverse((at, _))| *at);
        let host = match self.has_slot() {
            true => self.hosts.wakes_at(),
            false => self.stuck_on().and_then(|oldest| self.hosts.starts_at(|job| job.row.index == oldest)),
        };
        retry.into_iter().chain(host).min()
    }

    fn has_slot(&self) -> bool {
        self.running.len() < self.plan.in_flight && !self.budget.is_full() && self.out.len() < BEHIND
    }

    fn admit(&mut self, mut row: Row) {
        let fault = row.fault.take();
        let job = Job::new(row, &self.budget);
        self.unfinished.insert(job.row.index, false);
        match fault {
            Some(failure) => self.finish(job, Some(failure)),
            None => self.hosts.push(&job.host(), job, false, Instant::now()),
        }
    }

    /// Starts whatever may start now.
    fn start(&mut self, now: Instant) {
        while let Some(&Reverse((at, index))) = self.waiting.peek() {
            if at > now {
                break;
            }
            self.waiting.pop();
            if let Some(job) = self.waiting_jobs.remove(&index) {
                self.hosts.push(&job.host(), job, true, now);
            }
        }
        while self.has_slot() {
            match self.hosts.next(now) {
                Some(Turn::Start(job)) => self.spawn(job),
                Some(Turn::Refuse(job, failure)) => self.finish(job, Some(failure)),
                None => break,
            }
        }
        if let Some((&oldest, _)) = self.unfinished.first_key_value() {
            self.budget.set_oldest(oldest);
        }
        if let Some(oldest) = self.stuck_on()
            && let Some(job) = self.hosts.force(|job| job.row.index == oldest, now)
        {
            self.spawn(job);
        }
    }

    /// With no room left and nothing on its way out, rows wait for bytes that only the oldest row can free: which that
    /// is, should it not have been started.
    fn stuck_on(&self) -> Option<u64> {
        let (&oldest, &is_running) = self.unfinished.first_key_value()?;
        (!is_running && self.budget.is_stuck()).then_some(oldest)
    }

    fn spawn(&mut self, mut job: Job) {
        self.unfinished.insert(job.row.index, true);
        let attempts = Arc::clone(&self.attempts);
        let mut interrupt = self.interrupt.clone();
        self.running.spawn(async move {
            let result = tokio::select! {
                biased;
                result = attempts.run(&mut job) => result,
                _ = interrupt.wait_for(|is_over| *is_over) => Err(interrupted()),
            };
            (job, result)
        });
        self.gauges.in_flight.store(self.running.len(), Ordering::Relaxed);
    }

    fn ended(&mut self, mut job: Job, result: Result<(), Failure>) {
        let now = Instant::now();
        self.gauges.in_flight.store(self.running.len(), Ordering::Relaxed);
        self.hosts.ended(&job.host(), result.as_ref().err(), job.began, now);
        match result {
            Ok(()) if job.has_more() => {
                job.advance();
                self.unfinished.insert(job.row.index, false);
                self.hosts.push(&job.host(), job, true, now);
            }
            Ok(()) => self.finish(job, None),
            Err(failure) => match self.plan.retry.wait(&failure, job.tries, job.jitter()) {
                Some(wait) => {
                    self.unfinished.insert(job.row.index, false);
                    self.waiting.push(Reverse((now + wait, job.row.index)));
                    self.waiting_jobs.insert(job.row.index, job);
                }
                None => self.finish(job, Some(failure)),
            },
        }
    }

    fn finish(&mut self, mut job: Job, failure: Option<Failure>) {
        if failure.is_some() {
            job.drop_files();
        }
        let index = job.row.index;
        self.unfinished.remove(&index);
        let is_end = failure.as_ref().is_some_and(|failure| failure.ends_run);
        let result = Done { job, failure };
        if self.plan.unordered || is_end {
            self.send(result);
            return;
        }
        self.ready.insert(index, result);
        while let Some(result) = self.ready.remove(&self.next) {
            self.send(result);
            self.next += 1;
        }
    }

    fn send(&mut self, mut result: Done) {
        result.job.leave();
        self.out.push_back(result);
    }

    /// Hands out everything that is not done as interrupted, in the order of the rows.
    async fn give_up(mut self, mut rows: mpsc::Receiver<Vec<Row>>, done: mpsc::Sender<Vec<Done>>) {
        let mut left: BTreeMap<u64, Job> = std::mem::take(&mut self.waiting_jobs);
        left.extend(self.hosts.drain().into_iter().map(|job| (job.row.index, job)));
        while let Some(ended) = self.running.join_next().await {
            left.extend(ended.ok().map(|(job, _)| (job.row.index, job)));
        }
        let finished = self.out.into_iter().chain(self.ready.into_values());
        let mut results: BTreeMap<u64, Done> = finished.map(|result| (result.job.row.index, result)).collect();
        for (index, mut job) in left {
            job.drop_files();
            results.insert(index, Done { job, failure: Some(interrupted()) });
        }
        if done.send(results.into_values().collect()).await.is_err() {
            return;
        }
        let drain = async {
            while let Some(batch) = rows.recv().await {
                let jobs = batch.into_iter().map(|row| Job::new(row, &self.budget));
                let batch = jobs.map(|job| Done { job, failure: Some(interrupted()) }).collect();
                if done.send(batch).await.is_err() {
                    return;
                }
            }
        };
        _ = tokio::time::timeout(DRAIN, drain).await;
    }
}

fn interrupted() -> Failure {
    Failure::lasting(Code::Interrupted, "interrupted before it was done")
}
