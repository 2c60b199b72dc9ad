//! How much sample data is in memory: what as many samples as there are workers take, and a
//! little more to read ahead. The pool's own limit is a fixed number; the size of samples is not.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Read ahead by this much when samples are small.
const SLACK: u64 = 8 << 20;

/// Counts the bytes of samples between reading and writing.
pub struct Budget {
    workers: u64,
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Default)]
struct State {
    held: u64,
    largest: u64,
    someone_waits: bool,
}

/// The part of the budget that a sample takes up. Dropping it gives the part back.
pub struct Held {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Budget {
    /// A budget for so many workers.
    pub fn new(workers: usize) -> Arc<Self> {
        Arc::new(Budget { workers: workers as u64, state: Mutex::default(), moved: Condvar::new() })
    }

    /// Waits until another sample as large as the largest so far may be read.
    pub fn wait_for_room(&self) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |state: &mut State| {
            state.someone_waits = state.held > (self.workers - 1) * state.largest + SLACK;
            state.someone_waits
        };
        drop(self.moved.wait_while(state, full).unwrap_or_else(PoisonError::into_inner));
    }

    /// Counts something that has been read.
    pub fn hold(self: &Arc<Self>, bytes: u64) -> Held {
        let mut held = Held { budget: Arc::clone(self), bytes: 0 };
        held.resize(bytes);
        held
    }
}

impl Held {
    /// The sample has become larger or smaller.
    pub fn resize(&mut self, bytes: u64) {
        let mut state = self.budget.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.held = state.held - self.bytes + bytes;
        state.largest = state.largest.max(bytes);
        self.bytes = bytes;
        if state.someone_waits {
            self.budget.moved.notify_one(); // a call of the system, even where nobody waits
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_one_large_sample_a_worker() {
        let budget = Budget::new(2);
        let first = budget.hold(SLACK * 4);
        budget.wait_for_room();
        let second = budget.hold(SLACK * 4);
        let waiting = std::thread::spawn({
            let budget = Arc::clone(&budget);
            move || budget.wait_for_room()
        });
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!waiting.is_finished());
        drop(first);
        waiting.join().unwrap();
        drop(second);
    }
}
