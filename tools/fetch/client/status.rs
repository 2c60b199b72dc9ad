//! What the status and headers of a response mean for its row: a redirect, or a failure with its code.

use std::time::{Duration, SystemTime};

use hyper::header;
use url::Url;

use super::http1::ResponseHead;
use crate::fetch::failure::{FailureCode, FetchFailure};

/// The target of a redirect; None if the response is not a redirect.
pub fn redirect_target(url: &Url, head: &ResponseHead) -> Option<Result<Url, FetchFailure>> {
    if !matches!(head.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let value = head.headers.get(header::LOCATION)?;
    let text = String::from_utf8_lossy(value.as_bytes());
    let invalid = |err| FetchFailure::permanent(FailureCode::BadUrl, format!("redirected to an invalid URL: {err}"));
    Some(url.join(text.trim()).map_err(invalid))
}

/// The failure that a status other than success stands for.
pub fn status_failure(head: &ResponseHead) -> FetchFailure {
    let number = head.status.as_u16();
    let code = match number {
        429 => FailureCode::Http429,
        500.. => FailureCode::Http5xx,
        400..500 => FailureCode::Http4xx,
        _ => FailureCode::Http3xx,
    };
    let wait = head.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    FetchFailure {
        is_transient: matches!(number, 408 | 425 | 429 | 500 | 502 | 503 | 504),
        retry_after: wait.and_then(|value| retry_after(value, SystemTime::now())),
        ..FetchFailure::permanent(code, format!("HTTP {number}"))
    }
}

/// The value of Retry-After, which is a number of seconds or a date, as a time from `now` on.
fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
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
