//! Versions of a file on a server, as far as its response headers identify
//! them.

use std::time::Duration;

use ureq::Body;
use ureq::http::{Response, StatusCode, header};

/// A date identifies a version only if the file had not been changed for this
/// long when it was sent: dates have a resolution of one second, and the clocks
/// of a server and its storage differ.
const SETTLED: Duration = Duration::from_secs(60);

/// What a response says about the file.
#[derive(Debug)]
pub(super) struct Version {
    /// The length of the whole file.
    pub(super) total: Option<u64>,
    tag: Option<String>,
    modified: Option<String>,
    /// Whether the date distinguishes any two versions.
    is_settled: bool,
}

impl Version {
    /// Takes the length of the whole file from Content-Range if the response is
    /// partial.
    pub(super) fn of(response: &Response<Body>) -> Self {
        let own = |name| text(response, name).map(str::to_owned);
        let length = response.body().content_length();
        let total = match response.status() {
            StatusCode::PARTIAL_CONTENT => complete_length(response),
            _ => length,
        };
        let [modified, sent] = [own(header::LAST_MODIFIED), own(header::DATE)];
        let is_settled = age(modified.as_deref(), sent.as_deref()).is_some_and(|age| age >= SETTLED);
        Version { total, tag: own(header::ETAG), modified, is_settled }
    }

    /// The value of If-Range for a request for the rest: a strong entity tag,
    /// or else the date of a file that is not new. None if nothing guarantees
    /// that the rest would be of the same version.
    pub(super) fn validator(&self) -> Option<&str> {
        self.strong_tag().or_else(|| self.modified.as_deref().filter(|_| self.is_settled))
    }

    /// Whether a response is of the same version as `first`, as far as both
    /// say: tag, date and length. With a strong tag, the date may be missing
    /// from a partial response.
    pub(super) fn is_same_as(&self, first: &Version) -> bool {
        let lengths = self.total.zip(first.total);
        let has_no_date = self.modified.is_none() && self.strong_tag().is_some();
        lengths.is_none_or(|(a, b)| a == b) && self.tag == first.tag && (self.modified == first.modified || has_no_date)
    }

    /// Weak tags do not promise that the bytes are the same.
    fn strong_tag(&self) -> Option<&str> {
        self.tag.as_deref().filter(|tag| !tag.starts_with("W/"))
    }
}

/// The value of a header, if it is valid text.
pub(super) fn text(response: &Response<Body>, name: header::HeaderName) -> Option<&str> {
    response.headers().get(name)?.to_str().ok()
}

/// The length after the slash in `bytes 5-9/10`; None for `*`.
fn complete_length(response: &Response<Body>) -> Option<u64> {
    text(response, header::CONTENT_RANGE)?.rsplit('/').next()?.trim().parse().ok()
}

/// How long the file had been unchanged when it was sent.
fn age(modified: Option<&str>, sent: Option<&str>) -> Option<Duration> {
    let date = |text: Option<&str>| httpdate::parse_http_date(text?).ok();
    date(sent)?.duration_since(date(modified)?).ok()
}
