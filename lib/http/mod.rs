//! HTTP as the environment configures it: which certificates are trusted, and which proxy serves which URL. Sources and sinks
//! (ureq), object stores (reqwest) and fetch (a client of its own) all take both from here, so that no two tools disagree
//! about a URL.
//!
//! Names are not resolved in one way. Sources, sinks and stores ask getaddrinfo, and so follow all that the system configures
//! (nsswitch.conf, LDAP, mDNS): they connect to few hosts, which the user has chosen. fetch connects to thousands of hosts that a
//! table has chosen: hickory looks them up without a thread for each, can be sent to other servers (`--dns`), and returns
//! addresses that are checked before a connection is opened to one of them. It reads resolv.conf and /etc/hosts only.
//!
//! Below that is the client of sources and sinks. fetch has its own, which is asynchronous: see tools/fetch.

mod proxies;
mod roots;

pub use proxies::{are_disabled as proxies_are_disabled, proxies};
pub use roots::{Roots, roots};

use std::sync::OnceLock;
use std::time::Duration;

use ureq::http::{Response, StatusCode, header};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::typestate::WithBody;
use ureq::{Agent, Body, RequestBuilder};
use url::Url;

/// A connection without any data for this long is considered dropped.
const STALL: Duration = Duration::from_secs(60);

/// Redirects to follow.
const MAX_REDIRECTS: usize = 10;

/// Sends a GET request and follows redirects, each by the proxy of its URL. `token` is sent to the first host only. HTTP
/// error statuses are returned as responses, not as errors.
///
/// Connecting times out after 20 seconds, each read or write after 60; there is no limit on the whole transfer.
pub(crate) fn get(url: &str, token: Option<&str>, headers: &[(&str, &str)]) -> Result<Response<Body>, ureq::Error> {
    let mut target = url.to_owned();
    for hop in 0..=MAX_REDIRECTS {
        let proxy = proxies::of(&target)?;
        let mut request = agent(&target).get(&target).config().max_redirects(0).proxy(proxy).build();
        if let Some(token) = token.filter(|_| hop == 0) {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.call()?;
        match redirect_target(&target, &response)? {
            Some(next) => target = next,
            None => return Ok(response),
        }
    }
    Err(ureq::Error::TooManyRedirects)
}

/// A PUT request, which follows no redirect: it would become a GET, and its response be mistaken for that of the upload.
pub(crate) fn put(url: &str) -> Result<RequestBuilder<WithBody>, ureq::Error> {
    let proxy = proxies::of(url)?;
    Ok(agent(url).put(url).config().max_redirects(0).proxy(proxy).build())
}

fn redirect_target(url: &str, response: &Response<Body>) -> Result<Option<String>, ureq::Error> {
    let is_redirect = matches!(
        response.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    let Some(location) = response.headers().get(header::LOCATION).filter(|_| is_redirect) else { return Ok(None) };
    let location = String::from_utf8_lossy(location.as_bytes());
    let next = Url::parse(url).and_then(|url| url.join(location.trim()));
    next.map(|url| Some(url.into())).map_err(|_| ureq::Error::BadUri(location.into_owned()))
}

/// The shared client, which keeps connections alive. It has no proxy: requests name theirs. The certificates are read for the
/// first https URL.
pub(crate) fn agent(url: &str) -> &'static Agent {
    static PLAIN: OnceLock<Agent> = OnceLock::new();
    static SECURE: OnceLock<Agent> = OnceLock::new();
    if !url.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:")) {
        return PLAIN.get_or_init(|| new_agent(RootCerts::new_with_certs(&[])));
    }
    SECURE.get_or_init(|| new_agent(roots().certificates.iter().map(|der| Certificate::from_der(der)).into()))
}

fn new_agent(roots: RootCerts) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(Duration::from_secs(20)))
        .timeout_per_read(Some(STALL))
        .timeout_per_write(Some(STALL))
        .user_agent(concat!("tarpipe/", env!("CARGO_PKG_VERSION")))
        .tls_config(TlsConfig::builder().root_certs(roots).build())
        .proxy(None)
        .build();
    config.into()
}

/// The message of a failed connection, without the client's own prefixes.
pub(crate) fn transport_error(err: ureq::Error) -> String {
    match err {
        ureq::Error::Io(err) => err.to_string(),
        err => err.to_string(),
    }
}
