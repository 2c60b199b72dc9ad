//! The jobs in flight of one [`run`](super::run), between its reader, its
//! workers and the thread that emits the results.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use parking_lot::{Condvar, Mutex};

use super::{ByteLimit, PoolLimits};

/// How long a few results may wait for more before the emitting thread is
/// woken.
const GATHER: Duration = Duration::from_millis(10);

/// The result of a job, with its cost to release.
pub(super) struct CompletedJob<O> {
    pub(super) cost: u64,
    pub(super) result: Result<O>,
}

/// The jobs in flight. Holds back the reader while there is no room, and
/// gathers results: waking the emitting thread for every single small job would
/// take more time from the workers than emitting does.
pub(super) struct Queue<O> {
    limits: PoolLimits,
    state: Mutex<QueueState<O>>,
    room: Condvar,
    completed: Condvar,
}

/// Counters of the queue. `items` and `bytes` count from admission to release,
/// `ready` the results that have not been drained.
struct QueueState<O> {
    /// If ordered, one slot per job in flight, empty until its result arrives;
    /// otherwise the results as they arrived.
    results: VecDeque<Option<CompletedJob<O>>>,
    ready: u64,
    admitted: u64,
    drained: u64,
    items: usize,
    bytes: u64,
    /// The most that a job or a result has held.
    largest: u64,
    closed: bool,
    stopped: bool,
    /// Until then, a few results do not wake the emitting thread.
    quiet_until: Instant,
}

impl<O> QueueState<O> {
    /// Whether every job in flight is complete, so that waiting would be
    /// pointless.
    fn has_all(&self) -> bool {
        self.ready == self.admitted - self.drained
    }

    /// Whether there is a result to emit.
    fn has_next(&self) -> bool {
        self.results.front().is_some_and(Option::is_some)
    }
}

impl<O> Queue<O> {
    pub(super) fn new(limits: PoolLimits) -> Self {
        let state = QueueState {
            results: VecDeque::new(),
            ready: 0,
            admitted: 0,
            drained: 0,
            items: 0,
            bytes: 0,
            largest: 0,
            closed: false,
            stopped: false,
            quiet_until: Instant::now(),
        };
        Queue { limits, state: Mutex::new(state), room: Condvar::new(), completed: Condvar::new() }
    }

    /// Half of the items in flight: the number of results that wakes the
    /// emitting thread, and of free places that wakes the reader.
    fn wake_threshold(&self) -> usize {
        self.limits.items / 2
    }

    /// If the limit depends on the largest job, blocks until there is room for
    /// another one. Returns false if the run has stopped.
    pub(super) fn wait_for_room(&self) -> bool {
        let ByteLimit::LargestPerWorker(_) = self.limits.bytes else { return true };
        let mut state = self.state.lock();
        let full = |state: &mut QueueState<O>| self.is_full(state, state.largest);
        self.room.wait_while(&mut state, full);
        !state.stopped
    }

    fn is_full(&self, state: &QueueState<O>, cost: u64) -> bool {
        let limit = match self.limits.bytes {
            ByteLimit::Fixed(bytes) => bytes,
            ByteLimit::LargestPerWorker(spare) => self.limits.parallel as u64 * state.largest.max(cost) + spare,
        };
        let too_much = state.items >= self.limits.items.max(1) || state.bytes + cost > limit;
        state.items > 0 && too_much && !state.stopped
    }

    /// Blocks until there is room. Returns the number of the job, or None if
    /// the run has stopped.
    pub(super) fn admit(&self, cost: u64) -> Option<u64> {
        let mut state = self.state.lock();
        self.room.wait_while(&mut state, |state| self.is_full(state, cost));
        state.items += 1;
        state.bytes += cost;
        state.largest = state.largest.max(cost);
        state.admitted += 1;
        if self.limits.ordered {
            state.results.push_back(None);
        }
        (!state.stopped).then_some(state.admitted - 1)
    }

    /// Called when there are no more jobs.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.completed.notify_one();
    }

    /// Stores the result of a job that cost so much, and wakes the emitting
    /// thread if there are enough.
    pub(super) fn complete(&self, number: u64, job_cost: u64, result: CompletedJob<O>) {
        let mut state = self.state.lock();
        state.bytes = state.bytes - job_cost + result.cost;
        state.largest = state.largest.max(result.cost);
        if result.cost < job_cost {
            self.room.notify_one();
        }
        state.ready += 1;
        if self.limits.ordered {
            let slot = (number - state.drained) as usize;
            state.results[slot] = Some(result);
        } else {
            state.results.push_back(Some(result));
        }
        let many = state.ready as usize >= self.wake_threshold() || state.has_all();
        if state.has_next() && (many || Instant::now() >= state.quiet_until) {
            self.completed.notify_one();
        }
    }

    /// Blocks until there are results to emit and returns them; None after the
    /// last.
    pub(super) fn drain(&self) -> Option<Vec<CompletedJob<O>>> {
        let mut state = self.state.lock();
        while !state.has_next() {
            if state.closed && state.admitted == state.drained {
                return None;
            }
            let left = state.quiet_until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.completed.wait(&mut state);
            } else {
                self.completed.wait_for(&mut state, left);
            }
        }
        let next = state.results.iter().take_while(|result| result.is_some()).count();
        let results: Vec<CompletedJob<O>> = state.results.drain(..next).flatten().collect();
        state.ready -= next as u64;
        state.drained += next as u64;
        state.quiet_until = Instant::now() + GATHER;
        Some(results)
    }

    /// Called when a result has been emitted. The reader continues once half of
    /// the room is free.
    pub(super) fn release(&self, cost: u64) {
        let mut state = self.state.lock();
        state.items -= 1;
        state.bytes -= cost;
        if state.items <= self.wake_threshold() {
            self.room.notify_one();
        }
    }
}

/// Stops the reader, however `run` returns.
pub(super) struct StopOnDrop<O>(pub(super) Arc<Queue<O>>);

impl<O> Drop for StopOnDrop<O> {
    fn drop(&mut self) {
        self.0.state.lock().stopped = true;
        self.0.room.notify_all();
    }
}
