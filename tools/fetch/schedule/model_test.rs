//! Runs the scheduler on random rows, hosts, failures, budgets and interruptions in a simulated clock, and checks what it
//! promises: every row is reported once and in its order, limits are kept, and it never hangs.
//!
//! The clock advances when all tasks wait, to the time that the first of them waits for. If all wait for each other, the run
//! hangs. TARPIPE_MODEL_SEEDS sets the number of runs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tarpipe::random::Random;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::scheduler::{self, DRAIN_TIME, Environment};
use super::{Gauges, HostLimits, RetryPolicy, ScheduleChannels, ScheduleOptions};
use crate::fetch::failure::{FailureCode, FetchFailure};
use crate::fetch::fetcher::{FetchJob, FinishedRow};
use crate::fetch::input::InputRow;
use crate::fetch::memory::ByteBudget;

/// Seeds of a run without TARPIPE_MODEL_SEEDS.
const SEEDS: u64 = 10_000;

/// References to the byte budget that are not rows: two in this file, two in the scheduler.
const OTHER_REFERENCES: usize = 4;

#[test]
fn the_scheduler_keeps_its_promises_for_random_rows_hosts_budgets_failures_and_interruptions() {
    let seeds = std::env::var("TARPIPE_MODEL_SEEDS").ok().map_or(SEEDS, |text| text.parse().unwrap());
    let mut seen = Seen::default();
    (0..seeds).for_each(|seed| simulate(seed, &mut seen));
    assert!(seeds < SEEDS || seen.covers_everything(), "the model no longer covers what it should: {seen:?}");
}

/// What happened in all runs together: a model in which nothing goes wrong proves nothing.
#[derive(Debug, Default)]
struct Seen {
    fetched: usize,
    failed: usize,
    retried: usize,
    refused: usize,
    interrupted: usize,
    waits_for_budget: usize,
    forced: usize,
    full_windows: usize,
    full_hosts: usize,
    writers_gone: usize,
}

impl Seen {
    fn covers_everything(&self) -> bool {
        let counts = [
            self.fetched,
            self.failed,
            self.retried,
            self.refused,
            self.interrupted,
            self.waits_for_budget,
            self.forced,
            self.full_windows,
            self.full_hosts,
            self.writers_gone,
        ];
        counts.iter().all(|&count| count > 100)
    }
}

/// A clock that only advances when told.
struct Clock(Mutex<ClockState>);

struct ClockState {
    now: Instant,
    /// Who waits until when, with a number that makes the key unique.
    sleepers: BTreeMap<(Instant, u64), Waker>,
    last_number: u64,
    /// Waits since the time last advanced.
    waits: usize,
    hangs: bool,
    /// The main task, which reports a hang.
    main: Option<Waker>,
}

impl Clock {
    fn new() -> Arc<Self> {
        let now = Instant::now();
        let state = ClockState { now, sleepers: BTreeMap::new(), last_number: 0, waits: 0, hangs: false, main: None };
        Arc::new(Clock(Mutex::new(state)))
    }

    fn now(&self) -> Instant {
        self.0.lock().now
    }

    async fn sleep(&self, time: Duration) {
        self.sleep_until(self.now() + time).await;
    }

    async fn sleep_until(&self, at: Instant) {
        let number = {
            let mut state = self.0.lock();
            state.last_number += 1;
            state.waits += 1;
            assert!(state.waits < 100_000, "the run is busy without an end");
            state.last_number
        };
        let sleeper = Sleeper { clock: self, key: (at, number) };
        poll_fn(|cx| {
            let mut state = sleeper.clock.0.lock();
            if state.now >= at {
                return Poll::Ready(());
            }
            state.sleepers.insert(sleeper.key, cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Called when all tasks wait.
    fn advance(&self) {
        let mut state = self.0.lock();
        match state.sleepers.pop_first() {
            Some(((at, _), waker)) => {
                state.now = state.now.max(at);
                state.waits = 0;
                waker.wake();
            }
            None => {
                state.hangs = true;
                state.main.iter().for_each(Waker::wake_by_ref);
            }
        }
    }

    /// Fails if the run hangs before `run` ends.
    async fn watch<T>(&self, seed: u64, run: impl Future<Output = T>) -> T {
        let mut run = std::pin::pin!(run);
        poll_fn(|cx| {
            {
                let mut state = self.0.lock();
                assert!(!state.hangs, "seed {seed}: the run hangs");
                state.main = Some(cx.waker().clone());
            }
            run.as_mut().poll(cx)
        })
        .await
    }
}

struct Sleeper<'a> {
    clock: &'a Clock,
    key: (Instant, u64),
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        self.clock.0.lock().sleepers.remove(&self.key);
    }
}

/// A run as the seed decides it.
#[derive(Clone, Debug)]
struct Plan {
    seed: u64,
    rows: usize,
    hosts: usize,
    batch: usize,
    options: ScheduleOptions,
    budget: u64,
    largest_body: usize,
    /// Of attempts, in percent.
    failures: usize,
    /// The longest pauses of reader, requests and writer, in milliseconds.
    reader: usize,
    latency: usize,
    writer: usize,
    interrupt: Option<Duration>,
    writer_leaves: Option<usize>,
}

impl Plan {
    fn new(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        let in_flight = 1 + random.below(8);
        let largest_body = [0, 100, 1000][random.below(3)];
        let pick = |random: &mut Random, from: &[usize]| from[random.below(from.len())];
        Plan {
            seed,
            rows: random.below(50),
            hosts: 1 + random.below(5),
            batch: 1 + random.below(6),
            options: ScheduleOptions {
                in_flight,
                window: in_flight + random.below(20),
                unordered: random.below(3) == 0,
                retry: RetryPolicy {
                    retries: random.below(3) as u32,
                    wait: Duration::from_millis(1 + random.below(2000) as u64),
                    max_wait: Duration::from_secs(30),
                },
                host_limits: HostLimits {
                    in_flight: 1 + random.below(4),
                    interval: Duration::from_millis(pick(random, &[0, 0, 1, 700]) as u64),
                    max_failures: random.below(4) as u32,
                    pause: Duration::from_secs(1 + random.below(30) as u64),
                },
            },
            budget: 1 + random.below(2000) as u64,
            largest_body,
            failures: pick(random, &[0, 10, 40, 90]),
            reader: pick(random, &[0, 10, 500]),
            latency: pick(random, &[0, 1, 100, 3000]),
            writer: pick(random, &[0, 10, 1000]),
            interrupt: (random.below(3) == 0).then(|| Duration::from_millis(random.below(5000) as u64)),
            writer_leaves: (random.below(10) == 0).then(|| random.below(20)),
        }
    }

    /// Most rows are URLs, some have several, some are invalid.
    fn row(&self, index: u64, random: &mut Random) -> InputRow {
        let mut url = || format!("\"http://host{}.test/{}\"", random.below(self.hosts), random.below(1000));
        let line = match self.seed.wrapping_add(index) % 7 {
            0 => format!("{{\"url\": [{}, {}, {}]}}", url(), url(), url()),
            1 => "{\"uri\": 1}".to_owned(),
            2 => "not a URL".to_owned(),
            _ => format!("{{\"url\": {}}}", url()),
        };
        InputRow::parse(index, index, line.as_bytes())
    }
}

/// Simulated hosts, and what is known about the run.
struct World {
    clock: Arc<Clock>,
    plan: Plan,
    budget: Arc<ByteBudget>,
    state: Mutex<WorldState>,
}

struct WorldState {
    random: Random,
    /// Attempts in flight, and the start of the last one, by host.
    hosts: HashMap<String, (usize, Option<Instant>)>,
    in_flight: usize,
    running: BTreeSet<u64>,
    seen: Seen,
}

impl World {
    fn random<T>(&self, pick: impl FnOnce(&mut Random) -> T) -> T {
        pick(&mut self.state.lock().random)
    }

    async fn pause(&self, longest: usize) {
        if longest > 0 {
            let time = self.random(|random| random.below(longest + 1));
            self.clock.sleep(Duration::from_millis(time as u64)).await;
        }
    }

    /// Checks the limits when an attempt starts.
    fn check_start(&self, job: &FetchJob) {
        let Plan { seed, options, batch, .. } = &self.plan;
        let now = self.clock.now();
        let (waiting, finished) = self.budget.waiting_and_finished();
        // Each row refers to the budget, and so do rows that wait for room, the test and the scheduler.
        let in_window = Arc::strong_count(&self.budget) - OTHER_REFERENCES - waiting - finished;
        let mut state = self.state.lock();
        let state = &mut *state;
        assert!(in_window < options.window + batch, "seed {seed}: {in_window} rows in a window of {}", options.window);
        state.seen.full_windows += usize::from(in_window >= options.window);
        assert!(state.running.insert(job.row.index), "seed {seed}: row {} is fetched twice at a time", job.row.index);
        state.in_flight += 1;
        let (count, last) = state.hosts.entry(job.host().to_owned()).or_default();
        *count += 1;
        let limit = options.host_limits.in_flight;
        state.seen.full_hosts += usize::from(*count == limit);
        if *count > limit || state.in_flight > options.in_flight {
            // Only the oldest row may, if nothing else can free the budget.
            assert!(self.budget.is_full(), "seed {seed}: {count} requests to one host, {} in all", state.in_flight);
            assert!(*count == limit + 1 || *count <= limit, "seed {seed}: {count} requests to one host");
            assert_eq!(state.running.first(), Some(&job.row.index), "seed {seed}: a younger row exceeds the limits");
            state.seen.forced += 1;
        }
        let early = last.is_some_and(|last| now < last + options.host_limits.interval);
        assert!(!early, "seed {seed}: two requests to one host within its interval");
        *last = Some(now);
    }

    async fn transfer(&self, job: &mut FetchJob) -> Result<(), FetchFailure> {
        self.pause(self.plan.latency).await;
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        let pieces = self.random(|random| random.below(4));
        for _ in 0..pieces {
            let bytes = self.random(|random| random.below(self.plan.largest_body + 1)) as u64;
            if !job.held.try_take(bytes) {
                self.state.lock().seen.waits_for_budget += 1;
                job.held.take(bytes).await;
            }
            self.pause(self.plan.latency / 4).await;
        }
        Ok(())
    }

    fn failure(&self) -> Option<FetchFailure> {
        let failures = self.plan.failures;
        let kind = self.random(|random| (random.below(100) < failures).then(|| random.below(4)))?;
        Some(match kind {
            0 => FetchFailure::transient(FailureCode::Connect, "refused"),
            1 => FetchFailure::transient(FailureCode::Timeout, "timed out"),
            2 => FetchFailure::permanent(FailureCode::Http4xx, "404"),
            _ => FetchFailure {
                retry_after: Some(Duration::from_secs(self.random(|random| random.below(40)) as u64)),
                ..FetchFailure::transient(FailureCode::Http429, "429")
            },
        })
    }
}

/// Ends an attempt, even if it is cancelled.
struct Attempt<'a> {
    world: &'a World,
    host: String,
    row: u64,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let mut state = self.world.state.lock();
        state.in_flight -= 1;
        state.running.remove(&self.row);
        state.hosts.get_mut(&self.host).unwrap().0 -= 1;
    }
}

impl Environment for World {
    async fn attempt(&self, job: &mut FetchJob) -> Result<(), FetchFailure> {
        job.start_attempt(self.clock.now());
        self.check_start(job);
        let _attempt = Attempt { world: self, host: job.host().to_owned(), row: job.row.index };
        let held_before = job.held.bytes();
        let result = match job.current_url().unwrap().parsed() {
            Ok(_) => self.transfer(job).await,
            Err(failure) => Err(failure),
        };
        if result.is_err() {
            job.held.shrink_to(held_before);
        }
        result
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    async fn sleep_until(&self, at: Instant) {
        self.clock.sleep_until(at).await;
    }
}

fn simulate(seed: u64, seen: &mut Seen) {
    let plan = Plan::new(seed);
    let clock = Clock::new();
    let advance = Arc::clone(&clock);
    let runtime = tokio::runtime::Builder::new_current_thread().on_thread_park(move || advance.advance()).build();
    let budget = ByteBudget::new(plan.budget);
    let state = WorldState {
        random: Random::new(!seed),
        hosts: HashMap::new(),
        in_flight: 0,
        running: BTreeSet::new(),
        seen: std::mem::take(seen),
    };
    let world = Arc::new(World {
        clock: Arc::clone(&clock),
        plan: plan.clone(),
        budget: Arc::clone(&budget),
        state: Mutex::new(state),
    });
    let outcome = runtime.unwrap().block_on(clock.watch(seed, run(Arc::clone(&world))));
    check(&plan, &outcome, &budget);
    let mut state = world.state.lock();
    *seen = std::mem::take(&mut state.seen);
    outcome.count(seen);
}

/// What the reader and the writer saw.
struct ModelOutcome {
    /// Rows handed over before the interruption.
    handed_over: usize,
    /// Whether the reader was through before the scheduler gave up on it.
    read_all: bool,
    reported: Vec<(u64, Result<(), FetchFailure>, u32)>,
    has_left: bool,
}

impl ModelOutcome {
    fn count(&self, seen: &mut Seen) {
        seen.writers_gone += usize::from(self.has_left);
        for (_, result, attempts) in &self.reported {
            seen.retried += usize::from(*attempts > 3);
            match result {
                Ok(()) => seen.fetched += 1,
                Err(failure) if failure.message.starts_with("not tried") => seen.refused += 1,
                Err(failure) if failure.code == FailureCode::Interrupted => seen.interrupted += 1,
                Err(_) => seen.failed += 1,
            }
        }
    }
}

async fn run(world: Arc<World>) -> ModelOutcome {
    let (row_sender, rows) = mpsc::channel(2);
    let (finished, results) = mpsc::channel(2);
    let (stop, interrupt) = watch::channel(false);
    let gauges = Arc::new(Gauges::default());
    let channels = ScheduleChannels { rows, finished, interrupt: interrupt.clone(), gauges };
    let reader = tokio::spawn(read(Arc::clone(&world), row_sender, interrupt));
    let writer = tokio::spawn(write(Arc::clone(&world), results));
    if let Some(after) = world.plan.interrupt {
        let clock = Arc::clone(&world.clock);
        tokio::spawn(async move {
            clock.sleep(after).await;
            _ = stop.send(true);
        });
    } else {
        // The sender must live as long as the run.
        std::mem::forget(stop);
    }
    let budget = Arc::clone(&world.budget);
    let scheduler = scheduler::run(world.plan.options, Arc::clone(&world), budget, channels);
    assert!(scheduler.await.is_ok());
    let (handed_over, read_all) = reader.await.unwrap();
    let (reported, has_left) = writer.await.unwrap();
    ModelOutcome { handed_over, read_all, reported, has_left }
}

/// Sends the rows. Returns how many were sent before the interruption, and whether all were sent soon after it.
async fn read(world: Arc<World>, out: mpsc::Sender<Vec<InputRow>>, interrupt: watch::Receiver<bool>) -> (usize, bool) {
    let plan = &world.plan;
    let start = world.clock.now();
    let (mut next, mut before) = (0, 0);
    while next < plan.rows {
        world.pause(plan.reader).await;
        let end = plan.rows.min(next + plan.batch);
        let batch = (next..end).map(|index| world.random(|random| plan.row(index as u64, random))).collect();
        if out.send(batch).await.is_err() {
            return (before, false);
        }
        next = end;
        if !*interrupt.borrow() {
            before = end;
        }
    }
    let until = plan.interrupt.map_or(Duration::MAX, |after| after + DRAIN_TIME / 2);
    (before, world.clock.now() - start < until)
}

/// Takes the results, as slowly as the plan says.
async fn write(
    world: Arc<World>,
    mut results: mpsc::Receiver<Vec<FinishedRow>>,
) -> (Vec<(u64, Result<(), FetchFailure>, u32)>, bool) {
    let mut reported = Vec::new();
    while let Some(batch) = results.recv().await {
        for row in batch {
            if world.plan.writer_leaves == Some(reported.len()) {
                return (reported, true);
            }
            world.pause(world.plan.writer).await;
            let used = world.budget.used();
            let most = world.plan.budget + 9 * world.plan.largest_body as u64;
            assert!(used <= most, "seed {}: {used} bytes of {}", world.plan.seed, world.plan.budget);
            reported.push((row.job.row.index, row.failure.map_or(Ok(()), Err), row.job.attempts));
        }
    }
    (reported, false)
}

fn check(plan: &Plan, outcome: &ModelOutcome, budget: &ByteBudget) {
    let seed = plan.seed;
    let indexes: Vec<u64> = outcome.reported.iter().map(|(index, ..)| *index).collect();
    let distinct: BTreeSet<u64> = indexes.iter().copied().collect();
    assert_eq!(distinct.len(), indexes.len(), "seed {seed}: a row is reported twice: {indexes:?}");
    if !plan.options.unordered {
        assert!(indexes.is_sorted(), "seed {seed}: not in order: {indexes:?}");
    }
    assert_eq!((budget.used(), budget.waiting_and_finished().1), (0, 0), "seed {seed}: the budget leaks");
    if outcome.has_left {
        return;
    }
    let is_prefix = distinct.iter().copied().eq(0..distinct.len() as u64);
    assert!(is_prefix, "seed {seed}: a row is missing: {distinct:?}");
    // After an interruption, a slow writer costs the rows that the scheduler has not received yet.
    let least = match (plan.interrupt, outcome.read_all) {
        (Some(_), _) if plan.writer > 0 => 0,
        (Some(_), false) => outcome.handed_over,
        _ => plan.rows,
    };
    assert!(distinct.len() >= least, "seed {seed}: {} of {least} rows are reported", distinct.len());
    let interrupted = outcome
        .reported
        .iter()
        .any(|(_, result, _)| matches!(result, Err(failure) if failure.code == FailureCode::Interrupted));
    assert!(plan.interrupt.is_some() || !interrupted, "seed {seed}: interrupted by nobody");
}
