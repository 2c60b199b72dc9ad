//! Limits the sample data in memory: as much as one sample per worker takes, and a little more to read ahead. The limit
//! adapts to the largest sample; the limit of the pool is fixed.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// Bytes to read ahead when samples are small.
const SLACK: u64 = 8 << 20;

/// Counts the bytes of samples between reading and writing.
pub struct SampleBudget {
    workers: u64,
    state: Mutex<SampleBudgetState>,
    changed: Condvar,
}

#[derive(Default)]
struct SampleBudgetState {
    held: u64,
    largest: u64,
    someone_waits: bool,
}

/// The bytes that a sample takes up in the budget. Returned when this is dropped.
pub struct BudgetShare {
    budget: Arc<SampleBudget>,
    bytes: u64,
}

impl SampleBudget {
    /// A budget for this number of workers.
    pub fn new(workers: usize) -> Arc<Self> {
        Arc::new(SampleBudget { workers: workers as u64, state: Mutex::default(), changed: Condvar::new() })
    }

    /// Waits until there is room for another sample as large as the largest so far.
    pub fn wait_for_room(&self) {
        let mut state = self.state.lock();
        let full = |state: &mut SampleBudgetState| {
            state.someone_waits = state.held > (self.workers - 1) * state.largest + SLACK;
            state.someone_waits
        };
        self.changed.wait_while(&mut state, full);
    }

    /// Counts a sample that has been read.
    pub fn hold(self: &Arc<Self>, bytes: u64) -> BudgetShare {
        let mut held = BudgetShare { budget: Arc::clone(self), bytes: 0 };
        held.resize(bytes);
        held
    }
}

impl BudgetShare {
    /// Adjusts the share to a sample that became larger or smaller.
    pub fn resize(&mut self, bytes: u64) {
        let mut state = self.budget.state.lock();
        state.held = state.held - self.bytes + bytes;
        state.largest = state.largest.max(bytes);
        self.bytes = bytes;
        if state.someone_waits {
            self.budget.changed.notify_one(); // a system call, even if nobody waits
        }
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_one_large_sample_per_worker() {
        let budget = SampleBudget::new(2);
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
