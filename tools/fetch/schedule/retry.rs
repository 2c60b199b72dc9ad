//! When to retry: the wait doubles with every failure, has jitter, and is never shorter than the server's Retry-After.

use std::time::Duration;

use tarpipe::run::backoff::Backoff;

use crate::fetch::failure::FetchFailure;

/// When transient failures are retried.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// Attempts after the first.
    pub retries: u32,
    /// The wait before the second attempt.
    pub wait: Duration,
    /// The longest wait; if a server asks for more, the row fails.
    pub max_wait: Duration,
}

impl RetryPolicy {
    /// How long to wait after the failure of attempt number `attempts`, or None to give up. `jitter`, a number from 0 to 1,
    /// spreads rows that failed together.
    pub fn wait_after(&self, failure: &FetchFailure, attempts: u32, jitter: f64) -> Option<Duration> {
        if !failure.is_transient || attempts > self.retries {
            return None;
        }
        let backoff = Backoff { first: self.wait, longest: self.max_wait }.after(attempts).mul_f64(0.5 + jitter / 2.0);
        match failure.retry_after {
            Some(asked) if asked > self.max_wait => None,
            Some(asked) => Some(asked.max(backoff)),
            None => Some(backoff),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::failure::FailureCode;

    const RETRY: RetryPolicy =
        RetryPolicy { retries: 3, wait: Duration::from_secs(1), max_wait: Duration::from_secs(30) };

    #[test]
    fn waits_double_and_end() {
        let failure = FetchFailure::transient(FailureCode::Connect, "refused");
        let waits: Vec<_> = (1..=4).map(|attempts| RETRY.wait_after(&failure, attempts, 1.0)).collect();
        assert_eq!(
            waits,
            [Some(Duration::from_secs(1)), Some(Duration::from_secs(2)), Some(Duration::from_secs(4)), None]
        );
        assert_eq!(RETRY.wait_after(&failure, 1, 0.0), Some(Duration::from_millis(500)));
        assert_eq!(RETRY.wait_after(&FetchFailure::permanent(FailureCode::Http4xx, "404"), 1, 0.0), None);
    }

    #[test]
    fn the_server_decides_unless_it_asks_for_too_much() {
        let asked = |seconds| FetchFailure {
            retry_after: Some(Duration::from_secs(seconds)),
            ..FetchFailure::transient(FailureCode::Http429, "429")
        };
        assert_eq!(RETRY.wait_after(&asked(20), 1, 0.0), Some(Duration::from_secs(20)));
        assert_eq!(RETRY.wait_after(&asked(3600), 1, 0.0), None);
    }
}
