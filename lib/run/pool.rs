//! A parallel map over a stream of jobs: bounded in items and in bytes, in order or not.
//!
//! The threads are not joined when a run fails: one may be blocked in a read that never
//! returns. They die with the process, which the caller is about to end.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use crossbeam_channel::{Receiver, Sender, unbounded};

/// How much may be in flight between the source of jobs and their results.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Worker threads.
    pub parallel: usize,
    /// Jobs read but not emitted.
    pub items: usize,
    /// Their cost; a single job may cost more, and is then alone.
    pub bytes: u64,
    /// Results come in the order of the jobs, else as they are ready.
    pub ordered: bool,
}

impl Limits {
    /// For `parallel` workers on samples: enough in flight to keep them busy.
    pub fn for_workers(parallel: usize) -> Self {
        Limits { parallel, items: parallel * 4, bytes: 256 << 20, ordered: true }
    }
}

/// A bug of ours: a panic, already told to stderr by the hook that `cli::main` sets.
#[derive(Debug)]
pub struct Bug;

impl std::fmt::Display for Bug {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a worker panicked")
    }
}

impl std::error::Error for Bug {}

/// Runs every job through one of the workers and hands the results to `emit`, on the calling
/// thread; a single worker runs there too. `worker(i)` makes the i-th worker, which may keep buffers or a process between jobs;
/// `cost` is what a job holds in memory.
///
/// The first error, from a job, a worker or `emit`, ends the run at once.
pub fn run<I, O, J, F, W>(
    limits: Limits,
    jobs: J,
    cost: fn(&I) -> u64,
    worker: W,
    mut emit: impl FnMut(O) -> Result<()>,
) -> Result<()>
where
    I: Send + 'static,
    O: Send + 'static,
    J: Iterator<Item = Result<I>> + Send + 'static,
    F: FnMut(I) -> Result<O>,
    W: Fn(usize) -> F + Send + Sync + 'static,
{
    if limits.parallel <= 1 {
        return run_here(jobs, worker(0), emit);
    }
    let line = Arc::new(Line::new(limits));
    let _over = Over(Arc::clone(&line));
    let (sender, receiver) = unbounded();
    let worker = Arc::new(worker);
    for i in 0..limits.parallel {
        let (line, jobs, worker) = (Arc::clone(&line), receiver.clone(), Arc::clone(&worker));
        spawn("worker", move || work(&line, &jobs, || worker(i)))?;
    }
    let entrance = Arc::clone(&line);
    spawn("reader", move || feed(&entrance, jobs, cost, &sender))?;
    while let Some(answers) = line.take() {
        for Answer { cost, result } in answers {
            emit(result?)?;
            line.leave(cost);
        }
    }
    Ok(())
}

/// One worker needs no threads: handing a small job over costs more than doing it.
fn run_here<I, O>(
    jobs: impl Iterator<Item = Result<I>>,
    mut worker: impl FnMut(I) -> Result<O>,
    mut emit: impl FnMut(O) -> Result<()>,
) -> Result<()> {
    for job in jobs {
        emit(worker(job?)?)?;
    }
    Ok(())
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(body).context("cannot start a thread")?;
    Ok(())
}

struct Job<I> {
    input: I,
    number: u64,
    cost: u64,
}

fn work<I, O, F: FnMut(I) -> Result<O>>(line: &Line<O>, jobs: &Receiver<Job<I>>, make: impl FnOnce() -> F) {
    let mut worker = catch_unwind(AssertUnwindSafe(make)).ok();
    for Job { input, number, cost } in jobs {
        let answer = worker.as_mut().and_then(|worker| catch_unwind(AssertUnwindSafe(|| worker(input))).ok());
        line.put(number, Answer { cost, result: answer.unwrap_or_else(|| Err(anyhow!(Bug))) });
    }
}

/// Lets jobs in, one after another, as long as the run goes on.
fn feed<I, O>(
    line: &Line<O>,
    mut jobs: impl Iterator<Item = Result<I>>,
    cost: fn(&I) -> u64,
    workers: &Sender<Job<I>>,
) {
    let next = || catch_unwind(AssertUnwindSafe(|| jobs.next())).unwrap_or_else(|_| Some(Err(anyhow!(Bug))));
    for job in std::iter::from_fn(next) {
        let cost = job.as_ref().map_or(0, cost);
        let Some(number) = line.enter(cost) else { return };
        match job {
            Ok(input) => _ = workers.send(Job { input, number, cost }),
            Err(err) => line.put(number, Answer { cost, result: Err(err) }),
        }
    }
    line.close();
}

/// How long answers may gather that are few.
const PAUSE: Duration = Duration::from_millis(10);

/// What a job cost and what came of it.
struct Answer<O> {
    cost: u64,
    result: Result<O>,
}

/// The jobs in flight. Holds back the reader, and gathers answers: a thread that is woken for every job, and then
/// has little to do, takes more from the workers than that little.
struct Line<O> {
    limits: Limits,
    state: Mutex<InFlight<O>>,
    room: Condvar,
    answered: Condvar,
}

struct InFlight<O> {
    /// In order, with the places of those to come; else as they came.
    answers: VecDeque<Option<Answer<O>>>,
    ready: u64,
    entered: u64,
    taken: u64,
    items: usize,
    bytes: u64,
    closed: bool,
    over: bool,
    rested: Instant,
}

impl<O> InFlight<O> {
    fn has_all(&self) -> bool {
        self.ready == self.entered - self.taken
    }

    fn has_next(&self) -> bool {
        self.answers.front().is_some_and(Option::is_some)
    }
}

impl<O> Line<O> {
    fn new(limits: Limits) -> Self {
        let state = InFlight {
            answers: VecDeque::new(),
            ready: 0,
            entered: 0,
            taken: 0,
            items: 0,
            bytes: 0,
            closed: false,
            over: false,
            rested: Instant::now(),
        };
        Line { limits, state: Mutex::new(state), room: Condvar::new(), answered: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, InFlight<O>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn half(&self) -> usize {
        self.limits.items / 2
    }

    /// Waits until there is room; the number of the job, or None when the run is over.
    fn enter(&self, cost: u64) -> Option<u64> {
        let full = |state: &mut InFlight<O>| {
            let too_much = state.items >= self.limits.items.max(1) || state.bytes + cost > self.limits.bytes;
            state.items > 0 && too_much && !state.over
        };
        let mut state = self.room.wait_while(self.state(), full).unwrap_or_else(PoisonError::into_inner);
        state.items += 1;
        state.bytes += cost;
        state.entered += 1;
        if self.limits.ordered {
            state.answers.push_back(None);
        }
        (!state.over).then_some(state.entered - 1)
    }

    /// There are no more jobs.
    fn close(&self) {
        self.state().closed = true;
        self.answered.notify_one();
    }

    fn put(&self, number: u64, answer: Answer<O>) {
        let mut state = self.state();
        state.ready += 1;
        if self.limits.ordered {
            let place = (number - state.taken) as usize;
            state.answers[place] = Some(answer);
        } else {
            state.answers.push_back(Some(answer));
        }
        let many = state.ready as usize >= self.half() || state.has_all();
        if state.has_next() && (many || Instant::now() >= state.rested) {
            self.answered.notify_one();
        }
    }

    /// The next answers; None after the last.
    fn take(&self) -> Option<Vec<Answer<O>>> {
        let mut state = self.state();
        while !state.has_next() {
            if state.closed && state.entered == state.taken {
                return None;
            }
            let left = state.rested.saturating_duration_since(Instant::now());
            state = if left.is_zero() {
                self.answered.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else {
                self.answered.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
            };
        }
        let next = state.answers.iter().take_while(|answer| answer.is_some()).count();
        let answers: Vec<Answer<O>> = state.answers.drain(..next).flatten().collect();
        state.ready -= next as u64;
        state.taken += next as u64;
        state.rested = Instant::now() + PAUSE;
        Some(answers)
    }

    /// What was taken is no longer held. The reader goes on when half of the room is free.
    fn leave(&self, cost: u64) {
        let mut state = self.state();
        state.items -= 1;
        state.bytes -= cost;
        if state.items <= self.half() {
            self.room.notify_one();
        }
    }
}

/// Ends the reader however `run` ends.
struct Over<O>(Arc<Line<O>>);

impl<O> Drop for Over<O> {
    fn drop(&mut self) {
        self.0.state().over = true;
        self.0.room.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;

    fn limits(parallel: usize, ordered: bool) -> Limits {
        Limits { parallel, items: 5, bytes: 100, ordered }
    }

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        let mut out = Vec::new();
        let worker = |_| {
            |n: u64| {
                std::thread::sleep(Duration::from_micros(n * 7919 % 500));
                Ok(n * 2)
            }
        };
        run(
            limits(4, true),
            (0..200).map(Ok),
            |_| 1,
            worker,
            |n| {
                out.push(n);
                Ok(())
            },
        )
        .unwrap();
        assert_eq!(out, (0..200).map(|n| n * 2).collect::<Vec<u64>>());
    }

    #[test]
    fn one_worker_does_it_all_in_turn() {
        let mut out = Vec::new();
        let here = std::thread::current().id();
        let worker = move |_| move |n: u64| Ok((n, std::thread::current().id() == here));
        run(
            limits(1, true),
            (0..5).map(Ok),
            |_| 1,
            worker,
            |answer| {
                out.push(answer);
                Ok(())
            },
        )
        .unwrap();
        assert_eq!(out, (0..5).map(|n| (n, true)).collect::<Vec<_>>());
    }

    #[test]
    fn unordered_results_are_all_there() {
        let mut out = Vec::new();
        run(
            limits(4, false),
            (0..200).map(Ok),
            |_| 1,
            |_| |n: u64| Ok(n),
            |n| {
                out.push(n);
                Ok(())
            },
        )
        .unwrap();
        out.sort_unstable();
        assert_eq!(out, (0..200).collect::<Vec<u64>>());
    }

    #[test]
    fn no_more_is_in_flight_than_allowed_even_when_the_first_job_stalls() {
        static READ: AtomicU64 = AtomicU64::new(0);
        let jobs = (0..50_u64).map(|n| {
            READ.fetch_add(1, Ordering::SeqCst);
            Ok(n)
        });
        let worker = |_| {
            |n: u64| {
                if n == 0 {
                    std::thread::sleep(Duration::from_millis(50));
                    assert!(READ.load(Ordering::SeqCst) <= 4, "the gate let too many in");
                }
                Ok(n)
            }
        };
        run(limits(2, true), jobs, |_| 40, worker, |_| Ok(())).unwrap();
    }

    #[test]
    fn errors_and_panics_end_the_run() {
        let failing = |_| |n: u64| if n == 3 { Err(anyhow!("three")) } else { Ok(n) };
        let err = run(limits(2, true), (0..).map(Ok), |_| 1, failing, |_| Ok(())).unwrap_err();
        assert_eq!(err.to_string(), "three");
        let panicking = |_| |n: u64| if n == 3 { panic!("on purpose") } else { Ok(n) };
        let err = run(limits(2, false), (0..).map(Ok), |_| 1, panicking, |_| Ok(())).unwrap_err();
        assert!(err.is::<Bug>());
        let err = run(limits(2, true), (0..).map(Ok), |_| 1, |_| |n: u64| Ok(n), |_| Err(anyhow!("full"))).unwrap_err();
        assert_eq!(err.to_string(), "full");
        let jobs = (0..9).map(|n| if n == 4 { Err(anyhow!("unreadable")) } else { Ok(n) });
        let err = run(limits(2, true), jobs, |_| 1, |_| |n: u64| Ok(n), |_| Ok(())).unwrap_err();
        assert_eq!(err.to_string(), "unreadable");
    }

    #[test]
    fn an_answer_does_not_wait_for_others() {
        for ordered in [true, false] {
            let stalling = |_| {
                |n: u64| {
                    if n > 3 {
                        std::thread::sleep(Duration::from_secs(3600));
                    }
                    Ok(n)
                }
            };
            let limits = Limits { parallel: 2, items: 100, bytes: 100, ordered };
            let mut seen = 0;
            let emit = |_| {
                seen += 1;
                if seen == 4 { Err(anyhow!("four")) } else { Ok(()) }
            };
            assert_eq!(run(limits, (0..).map(Ok), |_| 1, stalling, emit).unwrap_err().to_string(), "four");
        }
    }

    #[test]
    fn a_worker_that_cannot_be_made_ends_the_run() {
        let broken = |i| {
            assert!(i > 1, "on purpose");
            |n: u64| Ok(n)
        };
        assert!(run(limits(2, true), (0..9).map(Ok), |_| 1, broken, |_| Ok(())).unwrap_err().is::<Bug>());
    }

    #[test]
    fn a_reader_that_never_returns_does_not_hold_up_an_error() {
        let jobs = (0..).map(|n| {
            if n == 3 {
                std::thread::sleep(Duration::from_secs(3600));
            }
            Ok(n)
        });
        let failing = |_| |n: u64| if n == 2 { Err(anyhow!("two")) } else { Ok(n) };
        assert!(run(limits(2, true), jobs, |_| 1, failing, |_| Ok(())).is_err());
    }
}
