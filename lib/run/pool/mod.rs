//! A parallel map over a stream of jobs, bounded in items and bytes, with
//! results in order or not. Every tool that processes samples in parallel uses
//! it.
//!
//! One thread reads jobs, `parallel` threads work on them, and the calling
//! thread receives the results. What is in flight is bounded: a job counts from
//! when it was read until its result has been emitted, so that a slow output
//! holds back the reader.
//!
//! A run that succeeds returns after its workers have been dropped. If a run
//! fails, the threads are not joined: one of them may be blocked in a read that
//! never returns. They die with the process, which the caller is about to end.

mod queue;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use crossbeam_channel::{Receiver, Sender, unbounded};

use queue::{CompletedJob, Queue, StopOnDrop};

/// How much may be in flight between reading a job and emitting its result.
#[derive(Clone, Copy, Debug)]
pub struct PoolLimits {
    /// Worker threads. With 0 or 1 there are no threads at all, and the other
    /// limits do not apply.
    pub parallel: usize,
    /// The maximum number of jobs in flight.
    pub items: usize,
    /// The maximum of their total cost. A job that alone costs more is admitted
    /// when nothing else is in flight.
    pub bytes: ByteLimit,
    /// Whether results are emitted in the order of the jobs; otherwise as they
    /// become ready.
    pub ordered: bool,
}

/// How many bytes may be in flight.
#[derive(Clone, Copy, Debug)]
pub enum ByteLimit {
    /// This many.
    Fixed(u64),
    /// As many as one of the largest jobs so far holds, for each worker, and
    /// this many more to read ahead. The next job is read only when there is
    /// room for it.
    LargestPerWorker(u64),
}

/// How many bytes are held in memory.
pub struct Cost<I, O> {
    /// By a job, until it is done.
    pub job: fn(&I) -> u64,
    /// By its result, until it was emitted; as many as by the job if None.
    pub result: Option<fn(&O) -> u64>,
}

impl<I, O> Cost<I, O> {
    /// Results hold about as much as their jobs.
    pub fn of_jobs(job: fn(&I) -> u64) -> Self {
        Cost { job, result: None }
    }

    /// Jobs and results hold next to nothing.
    pub fn none() -> Self {
        Cost::of_jobs(|_| 0)
    }
}

impl<I, O> Clone for Cost<I, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I, O> Copy for Cost<I, O> {}

impl PoolLimits {
    /// The usual limits for `parallel` workers on samples, in order: four jobs
    /// per worker, and 256 MB of samples in all.
    pub fn for_workers(parallel: usize) -> Self {
        PoolLimits { parallel, items: parallel * 4, bytes: ByteLimit::Fixed(256 << 20), ordered: true }
    }
}

/// A panic in a worker, which is a bug. The panic hook that `cli::main` sets
/// has already reported it; this error only ends the run.
#[derive(Debug)]
pub struct WorkerPanicked;

impl std::fmt::Display for WorkerPanicked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a worker panicked")
    }
}

impl std::error::Error for WorkerPanicked {}

/// Runs every job through one of the workers and passes the results to `emit`,
/// on the calling thread.
///
/// `worker(i)` makes the i-th worker, on the thread that it will run on; it may
/// keep buffers or a process between jobs, and need not be `Send`. With a
/// single worker everything happens on the calling thread, one job at a time.
///
/// Blocks until every result has been emitted and the workers have been
/// dropped, or until the first error.
///
/// # Errors
///
/// The first error of a job, a worker or `emit` ends the run at once. Other
/// jobs may still be running then; their results are discarded. With ordered
/// results, an error surfaces when its job's turn comes. A panic is reported as
/// [`WorkerPanicked`].
///
/// ```
/// use tarpipe::run::pool::{self, Cost, PoolLimits};
///
/// let jobs = (1..=5).map(Ok::<u64, anyhow::Error>);
/// let mut squares = Vec::new();
/// pool::run(
///     PoolLimits::for_workers(2),
///     jobs,
///     Cost::of_jobs(|_| 8), // bytes
///     |_worker| |n: u64| Ok(n * n),
///     |square| {
///         squares.push(square);
///         Ok(())
///     },
/// )?;
/// assert_eq!(squares, [1, 4, 9, 16, 25]);
/// # anyhow::Ok(())
/// ```
pub fn run<I, O, J, F, W>(
    limits: PoolLimits,
    jobs: J,
    cost: Cost<I, O>,
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
    let queue = Arc::new(Queue::new(limits));
    let _stop = StopOnDrop(Arc::clone(&queue));
    let (sender, receiver) = unbounded();
    let worker = Arc::new(worker);
    let mut workers = Vec::with_capacity(limits.parallel);
    for i in 0..limits.parallel {
        let (queue, jobs, worker) = (Arc::clone(&queue), receiver.clone(), Arc::clone(&worker));
        workers.push(spawn("worker", move || work(&queue, &jobs, cost.result, || worker(i)))?);
    }
    let reader_queue = Arc::clone(&queue);
    spawn("reader", move || feed(&reader_queue, jobs, cost.job, &sender))?;
    while let Some(results) = queue.drain() {
        for CompletedJob { cost, result } in results {
            emit(result?)?;
            queue.release(cost);
        }
    }
    workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| anyhow!(WorkerPanicked)))
}

/// The case of a single worker: handing over a small job costs more than doing
/// it.
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

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.into()).spawn(body).context("cannot start a thread")
}

/// A job that was admitted, on its way to a worker.
struct QueuedJob<I> {
    input: I,
    number: u64,
    cost: u64,
}

/// The loop of a worker thread. A panic, also while the worker is made, becomes
/// the result of a job.
fn work<I, O, F: FnMut(I) -> Result<O>>(
    queue: &Queue<O>,
    jobs: &Receiver<QueuedJob<I>>,
    result_cost: Option<fn(&O) -> u64>,
    make: impl FnOnce() -> F,
) {
    let mut worker = catch_unwind(AssertUnwindSafe(make)).ok();
    for QueuedJob { input, number, cost } in jobs {
        let result = worker.as_mut().and_then(|worker| catch_unwind(AssertUnwindSafe(|| worker(input))).ok());
        let result = result.unwrap_or_else(|| Err(anyhow!(WorkerPanicked)));
        let held = result_cost.zip(result.as_ref().ok()).map_or(cost, |(held, result)| held(result));
        queue.complete(number, cost, CompletedJob { cost: held, result });
    }
}

/// Admits jobs one after another until there are no more or the run has
/// stopped.
fn feed<I, O>(
    queue: &Queue<O>,
    mut jobs: impl Iterator<Item = Result<I>>,
    cost: fn(&I) -> u64,
    workers: &Sender<QueuedJob<I>>,
) {
    let mut next =
        || catch_unwind(AssertUnwindSafe(|| jobs.next())).unwrap_or_else(|_| Some(Err(anyhow!(WorkerPanicked))));
    while queue.wait_for_room() {
        let Some(job) = next() else { break };
        let cost = job.as_ref().map_or(0, cost);
        let Some(number) = queue.admit(cost) else { return };
        match job {
            Ok(input) => _ = workers.send(QueuedJob { input, number, cost }),
            Err(err) => queue.complete(number, cost, CompletedJob { cost, result: Err(err) }),
        }
    }
    queue.close();
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;

    fn limits(parallel: usize, ordered: bool) -> PoolLimits {
        PoolLimits { parallel, items: 5, bytes: ByteLimit::Fixed(100), ordered }
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
        run(limits(4, true), (0..200).map(Ok), Cost::of_jobs(|_| 1), worker, |n| {
            out.push(n);
            Ok(())
        })
        .unwrap();
        assert_eq!(out, (0..200).map(|n| n * 2).collect::<Vec<u64>>());
    }

    #[test]
    fn a_single_worker_runs_on_the_calling_thread() {
        let mut out = Vec::new();
        let here = std::thread::current().id();
        let worker = move |_| move |n: u64| Ok((n, std::thread::current().id() == here));
        run(limits(1, true), (0..5).map(Ok), Cost::of_jobs(|_| 1), worker, |result| {
            out.push(result);
            Ok(())
        })
        .unwrap();
        assert_eq!(out, (0..5).map(|n| (n, true)).collect::<Vec<_>>());
    }

    #[test]
    fn unordered_results_are_complete() {
        let mut out = Vec::new();
        run(
            limits(4, false),
            (0..200).map(Ok),
            Cost::of_jobs(|_| 1),
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
        run(limits(2, true), jobs, Cost::of_jobs(|_| 40), worker, |_| Ok(())).unwrap();
    }

    /// The jobs read and not emitted yet are counted while workers of two
    /// threads hold a large job each.
    #[test]
    fn there_is_room_for_one_large_job_per_worker() {
        static READ: AtomicU64 = AtomicU64::new(0);
        static MOST: AtomicU64 = AtomicU64::new(0);
        let jobs = (0..50_u64).map(|n| {
            let held = READ.fetch_add(1, Ordering::SeqCst) + 1;
            MOST.fetch_max(held, Ordering::SeqCst);
            Ok(n)
        });
        let worker = |_| {
            |n: u64| {
                std::thread::sleep(Duration::from_millis(1));
                Ok(n)
            }
        };
        let emit = |_| {
            READ.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        };
        let limits = PoolLimits { items: 40, bytes: ByteLimit::LargestPerWorker(10), ..limits(2, true) };
        run(limits, jobs, Cost { job: |_| 100, result: Some(|_| 70) }, worker, emit).unwrap();
        // Two, and a third read while the results of two hold less.
        assert!((2..=3).contains(&MOST.load(Ordering::SeqCst)), "{MOST:?}");
    }

    #[test]
    fn workers_are_dropped_before_a_run_returns() {
        static DROPPED: AtomicU64 = AtomicU64::new(0);
        struct Slow;
        impl Drop for Slow {
            fn drop(&mut self) {
                std::thread::sleep(Duration::from_millis(20));
                DROPPED.fetch_add(1, Ordering::SeqCst);
            }
        }
        let worker = |_| {
            let slow = Slow;
            move |n: u64| {
                _ = &slow;
                Ok(n)
            }
        };
        run(limits(3, true), (0..9).map(Ok), Cost::none(), worker, |_| Ok(())).unwrap();
        assert_eq!(DROPPED.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn errors_and_panics_end_the_run() {
        let failing = |_| |n: u64| if n == 3 { Err(anyhow!("three")) } else { Ok(n) };
        let err = run(limits(2, true), (0..).map(Ok), Cost::of_jobs(|_| 1), failing, |_| Ok(())).unwrap_err();
        assert_eq!(err.to_string(), "three");
        let panicking = |_| |n: u64| if n == 3 { panic!("on purpose") } else { Ok(n) };
        let err = run(limits(2, false), (0..).map(Ok), Cost::of_jobs(|_| 1), panicking, |_| Ok(())).unwrap_err();
        assert!(err.is::<WorkerPanicked>());
        let err =
            run(limits(2, true), (0..).map(Ok), Cost::of_jobs(|_| 1), |_| |n: u64| Ok(n), |_| Err(anyhow!("full")))
                .unwrap_err();
        assert_eq!(err.to_string(), "full");
        let jobs = (0..9).map(|n| if n == 4 { Err(anyhow!("unreadable")) } else { Ok(n) });
        let err = run(limits(2, true), jobs, Cost::of_jobs(|_| 1), |_| |n: u64| Ok(n), |_| Ok(())).unwrap_err();
        assert_eq!(err.to_string(), "unreadable");
    }

    #[test]
    fn a_result_does_not_wait_for_others() {
        for ordered in [true, false] {
            let stalling = |_| {
                |n: u64| {
                    if n > 3 {
                        std::thread::sleep(Duration::from_secs(3600));
                    }
                    Ok(n)
                }
            };
            let limits = PoolLimits { parallel: 2, items: 100, bytes: ByteLimit::Fixed(100), ordered };
            let mut seen = 0;
            let emit = |_| {
                seen += 1;
                if seen == 4 { Err(anyhow!("four")) } else { Ok(()) }
            };
            assert_eq!(
                run(limits, (0..).map(Ok), Cost::of_jobs(|_| 1), stalling, emit).unwrap_err().to_string(),
                "four"
            );
        }
    }

    #[test]
    fn a_worker_that_cannot_be_created_ends_the_run() {
        let broken = |i| {
            assert!(i > 1, "on purpose");
            |n: u64| Ok(n)
        };
        assert!(
            run(limits(2, true), (0..9).map(Ok), Cost::of_jobs(|_| 1), broken, |_| Ok(()))
                .unwrap_err()
                .is::<WorkerPanicked>()
        );
    }

    #[test]
    fn a_reader_that_never_returns_does_not_delay_an_error() {
        let jobs = (0..).map(|n| {
            if n == 3 {
                std::thread::sleep(Duration::from_secs(3600));
            }
            Ok(n)
        });
        let failing = |_| |n: u64| if n == 2 { Err(anyhow!("two")) } else { Ok(n) };
        assert!(run(limits(2, true), jobs, Cost::of_jobs(|_| 1), failing, |_| Ok(())).is_err());
    }
}
