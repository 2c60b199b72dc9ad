//! A download that survives dropped connections: it asks for the rest by range.

use std::io::{self, Read};
use std::time::Duration;

use anyhow::{Result, anyhow};
use ureq::http::{Response, StatusCode, header};
use ureq::{Body, BodyReader};

use super::version::{Version, text};
use crate::digest::Digest;
use crate::http::{agent, transport_error};
use crate::messages;

/// Attempts in a row that bring nothing before a download is given up.
const ATTEMPTS: u32 = 6;
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Whether asking again may help.
fn is_transient(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::REQUEST_TIMEOUT
}

/// The body of one URL, read as if nothing could interrupt it.
///
/// Bytes that were passed on are followed only by bytes of the same version. The rest is asked for by range where
/// the server has given a validator that holds; where it has not, the whole is read again and what was passed on is
/// compared with it.
pub(super) struct Download {
    url: String,
    /// Sent to the URL's own host, not to those that it redirects to.
    token: Option<String>,
    body: BodyReader<'static>,
    offset: u64,
    version: Version,
    /// Of what was passed on, where only the bytes tell one version from another.
    passed_on: Option<Digest>,
    attempts: u32,
}

impl Download {
    pub(super) fn start(url: &str, token: Option<String>) -> Result<Self> {
        let mut attempts = 0;
        let response = loop {
            match ask(url, token.as_deref(), None) {
                Ok(response) => break response,
                Err(Refusal::Final(err)) => return Err(err),
                Err(Refusal::Passing(err, wait)) => pause(url, &mut attempts, err, wait)?,
            }
        };
        let version = Version::of(&response);
        let passed_on = version.validator().is_none().then(Digest::new);
        let body = reader(response);
        Ok(Download { url: url.into(), token, body, offset: 0, version, passed_on, attempts: 0 })
    }

    /// Connects again until the body stands where the last connection left off.
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
                Err(Refusal::Final(err)) => return Err(err),
                Err(Refusal::Passing(err, wait)) => pause(&self.url, &mut self.attempts, err, wait)?,
            }
        }
    }

    fn go_on_with(&mut self, response: Response<Body>) -> Result<(), Refusal> {
        let version = Version::of(&response);
        let is_part = response.status() == StatusCode::PARTIAL_CONTENT;
        if self.offset == 0 && !is_part {
            // Nothing was passed on: any version will do.
            self.passed_on = version.validator().is_none().then(Digest::new);
            (self.version, self.body) = (version, reader(response));
            return Ok(());
        }
        let is_compared = self.passed_on.is_some() && !is_part;
        if !is_compared && !version.is_same_as(&self.version) {
            return Err(changed());
        }
        if is_part && range_start(&response) != Some(self.offset) {
            return Err(Refusal::Final(anyhow!("the server sent another range than the one asked for")));
        }
        self.body = reader(response);
        if !is_part {
            self.skip_passed_on(version.total)?;
        }
        if is_compared {
            self.version = version; // it starts with what was passed on, and so all that comes out is of it
        }
        Ok(())
    }

    /// Reads past what was passed on, in a body of `total` bytes that starts at the beginning.
    fn skip_passed_on(&mut self, total: Option<u64>) -> Result<(), Refusal> {
        let mut digest = self.passed_on.is_some().then(Digest::new);
        let mut buf = vec![0; 64 * 1024];
        let mut left = self.offset;
        while left > 0 {
            let most = left.min(buf.len() as u64) as usize;
            let n = match self.body.read(&mut buf[..most]) {
                // A body that ends here by itself is a shorter one; all others were cut off.
                Ok(0) if total.is_none_or(|total| total < self.offset) => return Err(changed()),
                Ok(0) => return Err(Refusal::Passing(anyhow!("the connection closed early"), None)),
                Ok(n) => n,
                Err(err) => return Err(Refusal::Passing(anyhow!("{err}"), None)),
            };
            digest.iter_mut().for_each(|digest| digest.update(&buf[..n]));
            left -= n as u64;
        }
        let [again, before] = [digest, self.passed_on.clone()].map(|digest| digest.map(Digest::hex));
        if again == before { Ok(()) } else { Err(changed()) }
    }

    /// The end of the body before the announced length is a dropped connection.
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

impl Read for Download {
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

fn changed() -> Refusal {
    Refusal::Final(anyhow!("changed on the server while it was read"))
}

enum Refusal {
    Final(anyhow::Error),
    Passing(anyhow::Error, Option<Duration>),
}

/// Sends a request; for a range, from an offset on, only where the validator still holds.
fn ask(url: &str, token: Option<&str>, range: Option<(u64, &str)>) -> Result<Response<Body>, Refusal> {
    let mut request = agent().get(url);
    if let Some(token) = token {
        request = request.header("Authorization", format!("Bearer {token}"));
    }
    if let Some((offset, validator)) = range {
        request = request.header("Range", format!("bytes={offset}-")).header("If-Range", validator);
    }
    let response = match request.call() {
        Ok(response) => response,
        Err(err @ (ureq::Error::BadUri(_) | ureq::Error::TooManyRedirects)) => {
            return Err(Refusal::Final(anyhow!(transport_error(err))));
        }
        Err(err) => return Err(Refusal::Passing(anyhow!(transport_error(err)), None)),
    };
    let status = response.status();
    if status.is_success() {
        Ok(response)
    } else if is_transient(status) {
        Err(Refusal::Passing(anyhow!("the server answers {status}"), retry_after(&response)))
    } else {
        Err(Refusal::Final(anyhow!("the server answers {status}")))
    }
}

/// Waits before the next attempt, or gives up with the last error.
fn pause(url: &str, attempts: &mut u32, err: anyhow::Error, asked: Option<Duration>) -> Result<()> {
    *attempts += 1;
    if *attempts >= ATTEMPTS {
        return Err(err.context(format!("given up after {ATTEMPTS} attempts")));
    }
    messages::detail(&format!("{url}: {err}; trying again"));
    let backed_off = FIRST_WAIT * 2_u32.pow(*attempts - 1);
    std::thread::sleep(asked.unwrap_or(backed_off).min(LONGEST_WAIT));
    Ok(())
}

fn reader(response: Response<Body>) -> BodyReader<'static> {
    response.into_body().into_with_config().limit(u64::MAX).reader()
}

fn retry_after(response: &Response<Body>) -> Option<Duration> {
    text(response, header::RETRY_AFTER)?.trim().parse().ok().map(Duration::from_secs)
}

fn range_start(response: &Response<Body>) -> Option<u64> {
    text(response, header::CONTENT_RANGE)?.strip_prefix("bytes ")?.split('-').next()?.parse().ok()
}
