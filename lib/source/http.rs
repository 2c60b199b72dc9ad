//! HTTP downloads that survive dropped connections by requesting the rest as a
//! range.

use std::io::{self, Read};
use std::time::{Duration, SystemTime};

use anyhow::{Result, anyhow};
use ureq::http::{Response, StatusCode, header};
use ureq::{Body, BodyReader};

use super::version::{Version, text};
use crate::digest::Digest;
use crate::http::{self, transport_error};
use crate::messages;
use crate::run::backoff::{self, Backoff};

/// Consecutive attempts without progress before a download fails.
const ATTEMPTS: u32 = 6;
/// The delays between attempts. Retry-After is honoured up to the longest.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(250), longest: Duration::from_secs(30) };

/// Whether the same request may succeed later.
fn is_transient(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::REQUEST_TIMEOUT
}

/// The body of a URL, read as if nothing could interrupt it.
///
/// All bytes that it returns are of the same version of the file. The rest is
/// requested as a range if the server gave a reliable validator (a strong
/// entity tag, or a date that is not recent); otherwise the whole body is
/// requested again and its beginning compared with what was returned before.
pub(super) struct HttpDownload {
    url: String,
    /// Sent to the URL's own host only, not to hosts that it redirects to.
    token: Option<String>,
    body: BodyReader<'static>,
    offset: u64,
    version: Version,
    /// Hash of the bytes returned so far, if only the bytes can tell versions
    /// apart.
    passed_on: Option<Digest>,
    attempts: u32,
}

impl HttpDownload {
    /// Sends the request and returns when the response headers have arrived.
    /// Transient failures (5xx, 429, 408, connection errors) are retried up to
    /// six times with increasing delays, or as Retry-After says, up to 30 s
    /// each; other statuses fail at once.
    pub(super) fn start(url: &str, token: Option<String>) -> Result<Self> {
        let mut attempts = 0;
        let response = loop {
            match ask(url, token.as_deref(), None) {
                Ok(response) => break response,
                Err(HttpRefusal::Permanent(err)) => return Err(err),
                Err(HttpRefusal::Transient(err, wait)) => pause(url, &mut attempts, err, wait)?,
            }
        };
        let version = Version::of(&response);
        let passed_on = version.validator().is_none().then(Digest::new);
        let body = reader(response);
        Ok(HttpDownload { url: url.into(), token, body, offset: 0, version, passed_on, attempts: 0 })
    }

    /// Connects again until the body is at the offset where the last connection
    /// broke.
    fn resume(&mut self, dropped: anyhow::Error) -> Result<()> {
        pause(&self.url, &mut self.attempts, dropped, None)?;
        loop {
            let range = self.version.validator().map(|validator| (self.offset, validator));
            let range = range.filter(|(offset, _)| *offset > 0);
            let refused = match ask(&self.url, self.token.as_deref(), range) {
                Ok(response) => self.go_on_with(response),
                Err(refusal) => Err(refusal),
            };
            match refused {
                Ok(()) => return Ok(()),
                Err(HttpRefusal::Permanent(err)) => return Err(err),
                Err(HttpRefusal::Transient(err, wait)) => pause(&self.url, &mut self.attempts, err, wait)?,
            }
        }
    }

    /// Continues with a new response if it is of the same version.
    fn go_on_with(&mut self, response: Response<Body>) -> Result<(), HttpRefusal> {
        let version = Version::of(&response);
        let is_part = response.status() == StatusCode::PARTIAL_CONTENT;
        if self.offset == 0 && !is_part {
            // Nothing was returned yet: any version will do.
            self.passed_on = version.validator().is_none().then(Digest::new);
            (self.version, self.body) = (version, reader(response));
            return Ok(());
        }
        let is_compared = self.passed_on.is_some() && !is_part;
        if !is_compared && !version.is_same_as(&self.version) {
            return Err(changed());
        }
        if is_part && range_start(&response) != Some(self.offset) {
            return Err(HttpRefusal::Permanent(anyhow!("the server sent a different range than requested")));
        }
        self.body = reader(response);
        if !is_part {
            self.skip_passed_on(version.total)?;
        }
        if is_compared {
            self.version = version; // it begins with the bytes returned so far, so all of them are of this version
        }
        Ok(())
    }

    /// Skips what was returned before, in a body of `total` bytes that starts
    /// at the beginning.
    fn skip_passed_on(&mut self, total: Option<u64>) -> Result<(), HttpRefusal> {
        let mut digest = self.passed_on.is_some().then(Digest::new);
        let mut buf = vec![0; 64 * 1024];
        let mut left = self.offset;
        while left > 0 {
            let most = left.min(buf.len() as u64) as usize;
            let n = match self.body.read(&mut buf[..most]) {
                // A body that is complete here is shorter than before; any other was cut off.
                Ok(0) if total.is_none_or(|total| total < self.offset) => return Err(changed()),
                Ok(0) => return Err(HttpRefusal::Transient(anyhow!("the connection closed early"), None)),
                Ok(n) => n,
                Err(err) => return Err(HttpRefusal::Transient(anyhow!("{err}"), None)),
            };
            digest.iter_mut().for_each(|digest| digest.update(&buf[..n]));
            left -= n as u64;
        }
        let [again, before] = [digest, self.passed_on.clone()].map(|digest| digest.map(Digest::hex));
        if again == before { Ok(()) } else { Err(changed()) }
    }

    /// Reads once. The end of the body before the announced length counts as a
    /// dropped connection.
    fn read_once(&mut self, buf: &mut [u8]) -> Result<usize> {
        match self.body.read(buf) {
            Ok(0) if !buf.is_empty() && self.version.total.is_some_and(|total| self.offset < total) => {
                Err(anyhow!("the connection closed early"))
            }
            Ok(n) => Ok(n),
            Err(err) => Err(anyhow!("{err}")),
        }
    }
}

impl Read for HttpDownload {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.read_once(buf) {
                Ok(n) => {
                    self.offset += n as u64;
                    self.passed_on.iter_mut().for_each(|digest| digest.update(&buf[..n]));
                    self.attempts = 0;
                    return Ok(n);
                }
                Err(dropped) => self.resume(dropped).map_err(|err| io::Error::other(format!("{err:#}")))?,
            }
        }
    }
}

/// Continuing would mix two versions of the file.
fn changed() -> HttpRefusal {
    HttpRefusal::Permanent(anyhow!("changed on the server while it was read"))
}

/// Why a request failed: permanently, or in a way that may pass, after the time
/// that the server asks for.
enum HttpRefusal {
    Permanent(anyhow::Error),
    Transient(anyhow::Error, Option<Duration>),
}

/// Sends a request; if `range` is given, for the rest from an offset on,
/// provided that the validator still holds.
fn ask(url: &str, token: Option<&str>, range: Option<(u64, &str)>) -> Result<Response<Body>, HttpRefusal> {
    let start = range.map(|(offset, validator)| (format!("bytes={offset}-"), validator));
    let headers = start.as_ref().map(|(start, validator)| [("Range", start.as_str()), ("If-Range", validator)]);
    let response = match http::get(url, token, headers.as_ref().map_or(&[], |headers| headers)) {
        Ok(response) => response,
        Err(err @ (ureq::Error::BadUri(_) | ureq::Error::TooManyRedirects)) => {
            return Err(HttpRefusal::Permanent(anyhow!(transport_error(err))));
        }
        Err(err) => return Err(HttpRefusal::Transient(anyhow!(transport_error(err)), None)),
    };
    let status = response.status();
    if status.is_success() {
        Ok(response)
    } else if is_transient(status) {
        Err(HttpRefusal::Transient(anyhow!("the server answers {status}"), retry_after(&response)))
    } else {
        Err(HttpRefusal::Permanent(anyhow!("the server answers {status}")))
    }
}

/// Waits before the next attempt, or fails with the last error if there were
/// enough.
fn pause(url: &str, attempts: &mut u32, err: anyhow::Error, asked: Option<Duration>) -> Result<()> {
    *attempts += 1;
    if *attempts >= ATTEMPTS {
        return Err(err.context(format!("given up after {ATTEMPTS} attempts")));
    }
    messages::detail(&format!("{url}: {err}; retrying"));
    std::thread::sleep(asked.map_or_else(|| BACKOFF.after(*attempts), |asked| asked.min(BACKOFF.longest)));
    Ok(())
}

fn reader(response: Response<Body>) -> BodyReader<'static> {
    response.into_body().into_with_config().limit(u64::MAX).reader()
}

fn retry_after(response: &Response<Body>) -> Option<Duration> {
    backoff::retry_after(text(response, header::RETRY_AFTER)?, SystemTime::now())
}

/// The first offset in `Content-Range: bytes 5-9/10`.
fn range_start(response: &Response<Body>) -> Option<u64> {
    text(response, header::CONTENT_RANGE)?.strip_prefix("bytes ")?.split('-').next()?.parse().ok()
}
