//! A row in progress, from the scheduler to the output.

use std::sync::Arc;
use std::time::Duration;

use tarpipe::sample::Member;
use tokio::time::Instant;

use crate::fetch::client::RequestTrace;
use crate::fetch::failure::FetchFailure;
use crate::fetch::input::{InputRow, RowUrl};
use crate::fetch::memory::{ByteBudget, HeldBytes};

/// A row in progress: the files fetched so far, and the cost.
pub struct FetchJob {
    pub row: InputRow,
    pub files: Vec<FetchedFile>,
    /// Of the latest attempt.
    pub trace: RequestTrace,
    /// Attempts at all URLs of the row.
    pub attempts: u32,
    /// Attempts at the current URL.
    pub attempts_at_url: u32,
    /// Time spent in attempts, without the waits between them.
    pub spent: Duration,
    /// When the latest attempt started.
    pub started: Instant,
    /// The room that its files take in the byte budget.
    pub held: HeldBytes,
    /// The current URL.
    pub url_index: usize,
}

/// A file that was fetched and passed all checks.
pub struct FetchedFile {
    pub data: Vec<u8>,
    /// Further members of the sample that came with it.
    pub extras: Vec<Member>,
    pub extension: String,
    pub mime: String,
    pub hash: String,
    pub trace: RequestTrace,
}

/// A row that needs no more work.
pub struct FinishedRow {
    pub job: Box<FetchJob>,
    /// None for a success.
    pub failure: Option<FetchFailure>,
}

impl FetchJob {
    pub fn new(row: InputRow, budget: &Arc<ByteBudget>) -> Self {
        let held = HeldBytes::new(budget, row.index);
        FetchJob {
            row,
            files: Vec::new(),
            trace: RequestTrace::default(),
            attempts: 0,
            attempts_at_url: 0,
            spent: Duration::ZERO,
            started: Instant::now(),
            held,
            url_index: 0,
        }
    }

    /// The current URL: the one that is being fetched, or that failed. None if the row is invalid.
    pub fn current_url(&self) -> Option<&RowUrl> {
        self.row.urls.get(self.url_index)
    }

    /// The current URL as the table has it; empty if there is none.
    pub fn url(&self) -> &str {
        self.current_url().map_or("", |url| &url.text)
    }

    /// The first URL as the table has it; empty if there is none.
    pub fn first_url(&self) -> &str {
        self.row.urls.first().map_or("", |url| &url.text)
    }

    /// The host of the current URL: see [`RowUrl::host`].
    pub fn host(&self) -> &str {
        self.current_url().map_or("", RowUrl::host)
    }

    /// Whether the row has URLs after the current one.
    pub fn has_more_urls(&self) -> bool {
        self.url_index + 1 < self.row.urls.len()
    }

    pub fn go_to_next_url(&mut self) {
        self.url_index += 1;
        self.attempts_at_url = 0;
    }

    /// Counts an attempt that starts now.
    pub fn start_attempt(&mut self, now: Instant) {
        self.started = now;
        self.attempts += 1;
        self.attempts_at_url += 1;
        self.trace = RequestTrace::default();
    }

    /// A number from 0 to 1 that differs from row to row and is the same in every run.
    pub fn jitter(&self) -> f64 {
        let mixed = (self.row.index + u64::from(self.attempts)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 40) as f64 / f64::from(1 << 24)
    }

    /// Marks the row as finished: it only has to be written.
    pub fn mark_finished(&mut self) {
        self.held.mark_finished();
    }

    /// Frees the files that a failed row had fetched.
    pub fn drop_files(&mut self) {
        self.files.clear();
        self.held.shrink_to(0);
    }
}
