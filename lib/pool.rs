//! A parallel map over a stream of jobs: bounded in items and in bytes, in order or not.
//!
//! The threads are not joined when a run fails: one may be blocked in a read that never
//! returns. They die with the process, which the caller is about to end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

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
    let gate = Arc::new(Gate::new(limits));
    let _over = Over(Arc::clone(&gate));
    let (job_sender, job_receiver) = unbounded::<Job<I, O>>();
    let worker = Arc::new(worker);
    for i in 0..limits.parallel {
        let (jobs, worker) = (job_receiver.clone(), Arc::clone(&worker));
        spawn("worker", move || work(&jobs, || worker(i)))?;
    }
    let (place_sender, places) = unbounded();
    let feeder = Feeder { gate: Arc::clone(&gate), jobs: job_sender, places: place_sender, shared: None };
    spawn("reader", move || feeder.feed(jobs, cost))?;
    for (cost, result) in places.into_iter().flatten() {
        emit(result?)?;
        gate.leave(cost);
    }
    if gate.is_empty() { Ok(()) } else { Err(anyhow!(Bug)) }
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

/// What a job cost and what came of it.
type Answer<O> = (u64, Result<O>);

struct Job<I, O> {
    input: I,
    cost: u64,
    answer: Sender<Answer<O>>,
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(body).context("cannot start a thread")?;
    Ok(())
}

fn work<I, O, F: FnMut(I) -> Result<O>>(jobs: &Receiver<Job<I, O>>, make: impl FnOnce() -> F) {
    let Ok(mut worker) = catch_unwind(AssertUnwindSafe(make)) else { return };
    for Job { input, cost, answer } in jobs {
        let result = catch_unwind(AssertUnwindSafe(|| worker(input))).unwrap_or_else(|_| Err(anyhow!(Bug)));
        // Nobody waits for the answers of a run that has failed.
        _ = answer.send((cost, result));
    }
}

/// Gives each job the place where its answer goes: one each, in order, or one for all.
struct Feeder<I, O> {
    gate: Arc<Gate>,
    jobs: Sender<Job<I, O>>,
    places: Sender<Receiver<Answer<O>>>,
    shared: Option<Sender<Answer<O>>>,
}

impl<I, O> Feeder<I, O> {
    fn feed(mut self, mut jobs: impl Iterator<Item = Result<I>>, cost: fn(&I) -> u64) {
        if !self.gate.limits.ordered {
            self.shared = self.place();
        }
        let next = || catch_unwind(AssertUnwindSafe(|| jobs.next())).unwrap_or_else(|_| Some(Err(anyhow!(Bug))));
        for job in std::iter::from_fn(next) {
            if self.admit(job, cost).is_none() {
                return;
            }
        }
    }

    /// Lets one job in; None when the run is over.
    fn admit(&self, job: Result<I>, cost: fn(&I) -> u64) -> Option<()> {
        let cost = job.as_ref().map_or(0, cost);
        self.gate.enter(cost)?;
        let answer = self.shared.clone().or_else(|| self.place())?;
        match job {
            Ok(input) => self.jobs.send(Job { input, cost, answer }).ok(),
            Err(err) => answer.send((cost, Err(err))).ok(),
        }
    }

    fn place(&self) -> Option<Sender<Answer<O>>> {
        let (answer, place) = unbounded();
        self.places.send(place).ok()?;
        Some(answer)
    }
}

/// Counts what is in flight and holds back the reader.
struct Gate {
    limits: Limits,
    state: Mutex<InFlight>,
    moved: Condvar,
}

#[derive(Default)]
struct InFlight {
    items: usize,
    bytes: u64,
    over: bool,
}

impl Gate {
    fn new(limits: Limits) -> Self {
        Gate { limits, state: Mutex::default(), moved: Condvar::new() }
    }

    /// Waits until there is room; None when the run is over.
    fn enter(&self, cost: u64) -> Option<()> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |state: &mut InFlight| {
            let too_much = state.items >= self.limits.items.max(1) || state.bytes + cost > self.limits.bytes;
            state.items > 0 && too_much && !state.over
        };
        let mut state = self.moved.wait_while(state, full).unwrap_or_else(PoisonError::into_inner);
        state.items += 1;
        state.bytes += cost;
        (!state.over).then_some(())
    }

    fn is_empty(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).items == 0
    }

    fn leave(&self, cost: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.items -= 1;
        state.bytes -= cost;
        self.moved.notify_one();
    }
}

/// Ends the reader however `run` ends.
struct Over(Arc<Gate>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).over = true;
        self.0.moved.notify_all();
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
