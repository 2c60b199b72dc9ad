//! The bytes that all rows together may hold. A row that finds no room stops reading its
//! connection until another has been written. When none is on its way out, all wait for the oldest row, which then
//! takes more than there is, so that the run goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// A number of bytes shared by all rows.
pub struct Budget {
    limit: u64,
    used: AtomicU64,
    oldest: AtomicU64,
    /// Rows that find no room.
    waiting: AtomicU64,
    /// Rows that only have to be written.
    leaving: AtomicU64,
    moved: Notify,
    short: Notify,
}

impl Budget {
    /// Room for `limit` bytes, and those of the oldest row.
    pub fn new(limit: u64) -> Arc<Self> {
        let [used, oldest, waiting, leaving] = [0; 4].map(AtomicU64::new);
        Arc::new(Budget { limit, used, oldest, waiting, leaving, moved: Notify::new(), short: Notify::new() })
    }

    /// Names the oldest row that is not done.
    pub fn set_oldest(&self, row: u64) {
        if self.oldest.swap(row, Ordering::SeqCst) != row {
            self.moved.notify_waiters();
        }
    }

    /// Whether all room is taken, or what is left is too little for a row that waits.
    pub fn is_full(&self) -> bool {
        self.used.load(Ordering::SeqCst) >= self.limit || self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Whether all room is taken by rows that wait for others.
    pub fn is_stuck(&self) -> bool {
        self.is_full() && self.leaving.load(Ordering::SeqCst) == 0
    }

    /// Waits until something has changed since the call.
    pub fn change(&self) -> Notified<'_> {
        self.moved.notified()
    }

    /// Waits until a row has found no room.
    pub fn shortage(&self) -> Notified<'_> {
        self.short.notified()
    }

    fn try_take(&self, row: u64, bytes: u64) -> bool {
        let is_oldest = row == self.oldest.load(Ordering::SeqCst);
        let may_overdraw = is_oldest && self.leaving.load(Ordering::SeqCst) == 0;
        let room = |used: u64| (may_overdraw || used + bytes <= self.limit).then_some(used + bytes);
        self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, room).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        let before = self.used.fetch_sub(bytes, Ordering::SeqCst);
        if bytes > 0 && before > self.limit / 2 {
            self.moved.notify_waiters();
        }
    }

    fn left(&self) {
        if self.leaving.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.moved.notify_waiters();
        }
    }
}

/// What one row holds of the budget; given back when dropped.
pub struct Held {
    budget: Arc<Budget>,
    row: u64,
    bytes: u64,
    is_leaving: bool,
}

impl Held {
    /// Nothing yet.
    pub fn new(budget: &Arc<Budget>, row: u64) -> Self {
        Held { budget: Arc::clone(budget), row, bytes: 0, is_leaving: false }
    }

    /// Takes room if there is some.
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
        budget.short.notify_one();
        loop {
            let mut moved = std::pin::pin!(budget.moved.notified());
            moved.as_mut().enable();
            if self.try_take(bytes) {
                break;
            }
            moved.await;
        }
        budget.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// The row is done and only has to be written.
    pub fn leave(&mut self) {
        if !std::mem::replace(&mut self.is_leaving, true) {
            self.budget.leaving.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// How much is held.
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

impl Drop for Held {
    fn drop(&mut self) {
        self.shrink_to(0);
        if self.is_leaving {
            self.budget.left();
        }
    }
}
