//! What the status and headers of a response mean for its row: a redirect, or a failure with its code.

use std::time::SystemTime;

use hyper::header;
use tarpipe::run::backoff::retry_after;
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
