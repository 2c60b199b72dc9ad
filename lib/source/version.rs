//! Which version of a file a server sends: what its answers say of it.

use std::time::Duration;

use ureq::Body;
use ureq::http::{Response, StatusCode, header};

/// A date is trusted if the file had been left alone for so long when it was sent: dates count in whole seconds, and
/// the clocks of a server and its storage differ.
const SETTLED: Duration = Duration::from_secs(60);

/// What an answer says of the file behind it.
#[derive(Debug)]
pub(super) struct Version {
    /// The length of the whole file.
    pub(super) total: Option<u64>,
    tag: Option<String>,
    modified: Option<String>,
    /// Whether the date tells any two versions apart.
    is_settled: bool,
}

impl Version {
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

    /// What goes with a request for the rest: a strong entity tag, or else the date of a file that is not new. None
    /// where nothing says that the rest would be of the same version.
    pub(super) fn validator(&self) -> Option<&str> {
        self.strong_tag().or_else(|| self.modified.as_deref().filter(|_| self.is_settled))
    }

    /// Whether an answer is of the version that `first` was of, as far as both say: tag, date and length. Beside a
    /// strong tag, the date may be missing from an answer with a part.
    pub(super) fn is_same_as(&self, first: &Version) -> bool {
        let lengths = self.total.zip(first.total);
        let has_no_date = self.modified.is_none() && self.strong_tag().is_some();
        lengths.is_none_or(|(a, b)| a == b) && self.tag == first.tag && (self.modified == first.modified || has_no_date)
    }

    fn strong_tag(&self) -> Option<&str> {
        self.tag.as_deref().filter(|tag| !tag.starts_with("W/"))
    }
}

/// The value of a header.
pub(super) fn text(response: &Response<Body>, name: header::HeaderName) -> Option<&str> {
    response.headers().get(name)?.to_str().ok()
}

/// The length behind the slash in `bytes 5-9/10`; None for `*`.
fn complete_length(response: &Response<Body>) -> Option<u64> {
    text(response, header::CONTENT_RANGE)?.rsplit('/').next()?.trim().parse().ok()
}

/// How long before it was sent a file was changed last.
fn age(modified: Option<&str>, sent: Option<&str>) -> Option<Duration> {
    let date = |text: Option<&str>| httpdate::parse_http_date(text?).ok();
    date(sent)?.duration_since(date(modified)?).ok()
}
