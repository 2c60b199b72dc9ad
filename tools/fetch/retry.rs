//! When to try again: twice as long after every failure, with jitter, and not before the server's
//! Retry-After has passed.

use std::time::{Duration, SystemTime};

use super::failure::Failure;

/// The plan for transient failures.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    /// Attempts after the first.
    pub retries: u32,
    /// The wait before the second attempt.
    pub wait: Duration,
    /// No wait is longer; a server that asks for more is not asked again.
    pub max_wait: Duration,
}

impl Retry {
    /// How long to wait before attempt number `attempts + 1`, or None to give up. `jitter` is a number
    /// from 0 to 1: it spreads rows that failed together.
    pub fn wait(&self, failure: &Failure, attempts: u32, jitter: f64) -> Option<Duration> {
        if !failure.is_transient || attempts > self.retries {
            return None;
        }
        let doubled = self.wait.saturating_mul(1 << (attempts.saturating_sub(1)).min(16));
        let backoff = doubled.min(self.max_wait).mul_f64(0.5 + jitter / 2.0);
        match failure.retry_after {
            Some(asked) if asked > self.max_wait => None,
            Some(asked) => Some(asked.max(backoff)),
            None => Some(backoff),
        }
    }
}

/// Retry-After: seconds, or a date.
pub fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    match value.trim().parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => Some(httpdate::parse_http_date(value.trim()).ok()?.duration_since(now).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::failure::Code;
    use super::*;

    const RETRY: Retry = Retry { retries: 3, wait: Duration::from_secs(1), max_wait: Duration::from_secs(30) };

    #[test]
    fn waits_double_and_end() {
        let failure = Failure::passing(Code::Connect, "refused");
        let waits: Vec<_> = (1..=4).map(|attempts| RETRY.wait(&failure, attempts, 1.0)).collect();
        assert_eq!(
            waits,
            [Some(Duration::from_secs(1)), Some(Duration::from_secs(2)), Some(Duration::from_secs(4)), None]
        );
        assert_eq!(RETRY.wait(&failure, 1, 0.0), Some(Duration::from_millis(500)));
        assert_eq!(RETRY.wait(&Failure::lasting(Code::Http4xx, "404"), 1, 0.0), None);
    }

    #[test]
    fn the_server_decides_unless_it_asks_for_too_much() {
        let asked = |seconds| Failure {
            retry_after: Some(Duration::from_secs(seconds)),
            ..Failure::passing(Code::Http429, "429")
        };
        assert_eq!(RETRY.wait(&asked(20), 1, 0.0), Some(Duration::from_secs(20)));
        assert_eq!(RETRY.wait(&asked(3600), 1, 0.0), None);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        assert_eq!(retry_after("120", now), Some(Duration::from_secs(120)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:47 GMT", now), Some(Duration::from_secs(10)));
        assert_eq!(retry_after("Sat, 06 Nov 1993 08:49:47 GMT", now), Some(Duration::ZERO));
        assert_eq!(retry_after("soon", now), None);
    }
}
