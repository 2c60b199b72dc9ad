//! How long to wait before something is tried again. Used for requests of all
//! kinds and for the items of shardrun.

use std::time::{Duration, SystemTime};

/// Waits that double with every failure.
///
/// ```
/// use std::time::Duration;
/// use tarpipe::run::backoff::Backoff;
///
/// let backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(5) };
/// let waits: Vec<u64> = (1..=4).map(|failures| backoff.after(failures).as_secs()).collect();
/// assert_eq!(waits, [1, 2, 4, 5]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// The wait after the first failure.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
}

impl Backoff {
    /// The wait after this many failures in a row.
    pub fn after(&self, failures: u32) -> Duration {
        self.first.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(self.longest)
    }
}

/// The value of Retry-After, which is a number of seconds or a date, as a time
/// from `now` on; zero if the date has passed, None if it is neither.
pub fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    match value.trim().parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => Some(httpdate::parse_http_date(value.trim()).ok()?.duration_since(now).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        assert_eq!(retry_after("120", now), Some(Duration::from_secs(120)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:47 GMT", now), Some(Duration::from_secs(10)));
        assert_eq!(retry_after("Sat, 06 Nov 1993 08:49:47 GMT", now), Some(Duration::ZERO));
        assert_eq!(retry_after("soon", now), None);
    }
}
