//! The bytes that all rows together may hold (`--window-bytes`). A row that finds no room stops reading its connection until
//! another row has been written. If no finished row is waiting to be written, all wait for the oldest row: it may then exceed
//! the budget, so that the run goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// The bytes that are in use, and who waits for more.
pub struct ByteBudget {
    limit: u64,
    used: AtomicU64,
    /// The oldest row that is not finished.
    oldest: AtomicU64,
    /// Rows that wait for room.
    waiting: AtomicU64,
    /// Finished rows that wait to be written.
    finished: AtomicU64,
    changed: Notify,
    shortage: Notify,
}

impl ByteBudget {
    /// A budget of `limit` bytes, which only the oldest row may exceed.
    pub fn new(limit: u64) -> Arc<Self> {
        let [used, oldest, waiting, finished] = [0; 4].map(AtomicU64::new);
        Arc::new(ByteBudget { limit, used, oldest, waiting, finished, changed: Notify::new(), shortage: Notify::new() })
    }

    /// Sets the oldest row that is not finished.
    pub fn set_oldest(&self, row: u64) {
        if self.oldest.swap(row, Ordering::SeqCst) != row {
            self.changed.notify_waiters();
        }
    }

    /// Whether the budget is used up, or what is left is too little for a waiting row.
    pub fn is_full(&self) -> bool {
        self.used.load(Ordering::SeqCst) >= self.limit || self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Whether the budget is full and no finished row will free any of it.
    pub fn is_stuck(&self) -> bool {
        self.is_full() && self.finished.load(Ordering::SeqCst) == 0
    }

    /// Completes when room has been freed or another row has become the oldest since the call.
    pub fn change(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Completes when a row has found no room.
    pub fn shortage(&self) -> Notified<'_> {
        self.shortage.notified()
    }

    #[cfg(test)]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::SeqCst)
    }

    /// Rows that wait for room, and rows that are finished and not dropped yet.
    #[cfg(test)]
    pub fn waiting_and_finished(&self) -> (usize, usize) {
        (self.waiting.load(Ordering::SeqCst) as usize, self.finished.load(Ordering::SeqCst) as usize)
    }

    fn try_take(&self, row: u64, bytes: u64) -> bool {
        let is_oldest = row == self.oldest.load(Ordering::SeqCst);
        let may_overdraw = is_oldest && self.finished.load(Ordering::SeqCst) == 0;
        let room = |used: u64| (may_overdraw || used + bytes <= self.limit).then_some(used + bytes);
        self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, room).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        let before = self.used.fetch_sub(bytes, Ordering::SeqCst);
        if bytes > 0 && before > self.limit / 2 {
            self.changed.notify_waiters();
        }
    }

    fn finished_row_dropped(&self) {
        if self.finished.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.changed.notify_waiters();
        }
    }
}

/// The part of the budget that one row holds; given back on drop.
pub struct HeldBytes {
    budget: Arc<ByteBudget>,
    row: u64,
    bytes: u64,
    is_finished: bool,
}

impl HeldBytes {
    pub fn new(budget: &Arc<ByteBudget>, row: u64) -> Self {
        HeldBytes { budget: Arc::clone(budget), row, bytes: 0, is_finished: false }
    }

    /// Takes room if there is enough.
    pub fn try_take(&mut self, bytes: u64) -> bool {
        let taken = bytes == 0 || self.budget.try_take(self.row, bytes);
        self.bytes += if taken { bytes } else { 0 };
        taken
    }

    /// Waits for room.
    pub async fn take(&mut self, bytes: u64) {
        if self.try_take(bytes) {
            return;
        }
        let budget = Arc::clone(&self.budget);
        budget.waiting.fetch_add(1, Ordering::SeqCst);
        budget.shortage.notify_one();
        loop {
            let mut changed = std::pin::pin!(budget.changed.notified());
            changed.as_mut().enable();
            if self.try_take(bytes) {
                break;
            }
            changed.await;
        }
        budget.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Marks the row as finished: it only has to be written.
    pub fn mark_finished(&mut self) {
        if !std::mem::replace(&mut self.is_finished, true) {
            self.budget.finished.fetch_add(1, Ordering::SeqCst);
        }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives back all but `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        let extra = self.bytes.saturating_sub(bytes);
        self.bytes -= extra;
        self.budget.give_back(extra);
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.shrink_to(0);
        if self.is_finished {
            self.budget.finished_row_dropped();
        }
    }
}
