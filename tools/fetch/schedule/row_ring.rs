//! The rows that were read and have not been passed on to the writer, in their order. Host queues and retries refer to them
//! by index.

use std::collections::VecDeque;

use crate::fetch::fetcher::{FetchJob, FinishedRow};

/// The rows of the window.
#[derive(Default)]
pub struct RowRing {
    /// By increasing index. The first one is not finished.
    slots: VecDeque<Slot>,
    /// Slots of rows that have left out of order.
    left: usize,
}

struct Slot {
    index: u64,
    state: RowState,
}

enum RowState {
    /// For its host, or for its retry.
    Waiting(Box<FetchJob>),
    /// The attempt has the job.
    Running,
    /// Older rows must finish first.
    Finished(FinishedRow),
    /// The row is with the writer. Its slot is removed when all older rows have left.
    Left,
}

/// Slots of rows that have left are removed from this number on, even if older rows are unfinished: their number has no limit.
const MAX_LEFT: usize = 1024;

impl RowRing {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.slots.len() - self.left
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Adds a row. Rows come in the order of their indexes.
    pub fn push(&mut self, job: Box<FetchJob>) {
        self.slots.push_back(Slot { index: job.row.index, state: RowState::Waiting(job) });
    }

    /// A row that waits.
    pub fn waiting(&self, index: u64) -> Option<&FetchJob> {
        match &self.slots[self.position(index)?].state {
            RowState::Waiting(job) => Some(job),
            _ => None,
        }
    }

    /// Takes a waiting row for an attempt.
    pub fn start(&mut self, index: u64) -> Option<Box<FetchJob>> {
        let at = self.position(index)?;
        match std::mem::replace(&mut self.slots[at].state, RowState::Running) {
            RowState::Waiting(job) => Some(job),
            other => {
                self.slots[at].state = other;
                None
            }
        }
    }

    /// Puts a row back that waits for its next attempt.
    pub fn put_back(&mut self, job: Box<FetchJob>) {
        if let Some(at) = self.position(job.row.index) {
            self.slots[at].state = RowState::Waiting(job);
        }
    }

    /// Keeps a finished row until all older ones are finished.
    pub fn finish(&mut self, row: FinishedRow) {
        if let Some(at) = self.position(row.job.row.index) {
            self.slots[at].state = RowState::Finished(row);
        }
    }

    /// Removes a finished row, whether older ones are finished or not.
    pub fn leave(&mut self, index: u64) {
        if let Some(at) = self.position(index) {
            self.slots[at].state = RowState::Left;
            self.left += 1;
        }
        if self.left > MAX_LEFT && self.left > self.slots.len() / 2 {
            self.slots.retain(|slot| !matches!(slot.state, RowState::Left));
            self.left = 0;
        }
    }

    /// Removes the oldest row if it is finished.
    pub fn pop_finished(&mut self) -> Option<FinishedRow> {
        loop {
            match self.slots.front()?.state {
                RowState::Left => {
                    self.slots.pop_front();
                    self.left -= 1;
                }
                RowState::Finished(_) => match self.slots.pop_front()?.state {
                    RowState::Finished(row) => return Some(row),
                    _ => return None,
                },
                _ => return None,
            }
        }
    }

    /// The oldest row, and whether it is being fetched.
    pub fn oldest(&self) -> Option<(u64, bool)> {
        self.slots.front().map(|slot| (slot.index, matches!(slot.state, RowState::Running)))
    }

    /// Removes all rows, finished or not, in their order. `unfinished` decides what becomes of a waiting row. No attempt may
    /// be running.
    pub fn into_rows(self, unfinished: impl Fn(Box<FetchJob>) -> FinishedRow) -> Vec<FinishedRow> {
        let row = |slot: Slot| match slot.state {
            RowState::Waiting(job) => Some(unfinished(job)),
            RowState::Finished(row) => Some(row),
            RowState::Running | RowState::Left => None,
        };
        self.slots.into_iter().filter_map(row).collect()
    }

    fn position(&self, index: u64) -> Option<usize> {
        self.slots.binary_search_by_key(&index, |slot| slot.index).ok()
    }
}
