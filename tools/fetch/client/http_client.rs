//! Requests a URL: sends the request, follows redirects with their cookies, and checks every hop before it is contacted.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Request, Uri};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::address_rules::AddressRules;
use super::body_limits::{self, BodyLimits};
use super::connection_pool::ConnectionPool;
use super::connector::Connector;
use super::cookies::Cookies;
use super::http1::ResponseHead;
use super::response_body::ResponseBody;
use super::status::{redirect_target, status_failure};
use crate::fetch::failure::{FailureCode, FetchFailure};
use crate::fetch::memory::HeldBytes;
use crate::fetch::robots::{OptOutPolicy, RobotsCache, RobotsTxt};

/// Headers of the user that are sent to every host, because they only say which responses are preferred. All others may
/// be secrets.
const PUBLIC: [HeaderName; 5] =
    [header::ACCEPT, header::ACCEPT_CHARSET, header::ACCEPT_ENCODING, header::ACCEPT_LANGUAGE, header::USER_AGENT];

/// RFC 9309 asks for at least five.
const MAX_ROBOTS_REDIRECTS: usize = 5;

/// What applies to every request of a run.
pub struct RequestOptions {
    pub timeout: Duration,
    pub max_redirects: usize,
    pub user_agent: String,
    /// The name that robots.txt and X-Robots-Tag know us by.
    pub agent: String,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Whether hosts of redirects get all headers and the password of the URL.
    pub location_trusted: bool,
    pub opt_out: OptOutPolicy,
    pub obey_robots: bool,
    pub limits: BodyLimits,
    pub rules: Arc<AddressRules>,
    pub proxies: &'static Matcher,
    pub per_host: usize,
}

/// What the report says about an attempt, even if it failed.
#[derive(Clone, Debug, Default)]
pub struct RequestTrace {
    pub final_url: Option<String>,
    pub http_status: Option<u16>,
    pub mime: Option<String>,
}

/// Requests URLs over HTTP and HTTPS. One per run: it owns the connections.
pub struct HttpClient {
    connections: ConnectionPool,
    connector: Connector,
    /// Sent with every request, to every host.
    headers: HeaderMap,
    /// Sent only to the origin of the table's URL, not to hosts that it redirects to.
    private: HeaderMap,
    robots: RobotsCache,
    /// One permit per core: bodies that may be decompressed at a time.
    decoders: Semaphore,
    options: RequestOptions,
}

impl HttpClient {
    pub fn new(options: RequestOptions, connector: Connector) -> anyhow::Result<Self> {
        let connections = ConnectionPool::new(connector.clone(), options.per_host);
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_str(&options.user_agent)?);
        headers.insert(header::ACCEPT, accept(&options.limits)?);
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip, br"));
        let mut private = HeaderMap::new();
        for (name, value) in &options.headers {
            if PUBLIC.contains(name) { &mut headers } else { &mut private }.insert(name, value.clone());
        }
        let decoders = Semaphore::new(std::thread::available_parallelism().map_or(1, |cores| cores.get()));
        Ok(HttpClient { connections, connector, headers, private, robots: RobotsCache::default(), decoders, options })
    }

    /// Fetches `url`. The timeout covers the whole attempt, redirects and body included.
    pub async fn get(
        &self,
        url: &Url,
        held: &mut HeldBytes,
        trace: &mut RequestTrace,
    ) -> Result<Vec<u8>, FetchFailure> {
        let deadline = Instant::now() + self.options.timeout;
        let response = match timeout_at(deadline, self.follow(url, trace)).await {
            Ok(response) => response?,
            Err(_) => {
                return Err(FetchFailure::transient(
                    FailureCode::Timeout,
                    format!("no response within {:?}", self.options.timeout),
                ));
            }
        };
        let (head, body) = response;
        if let Some(found) = self.options.opt_out.find(&head.headers, &self.options.agent) {
            return Err(FetchFailure::permanent(FailureCode::OptOut, found));
        }
        trace.mime = body_limits::content_type(&head.headers).map(str::to_owned);
        self.options.limits.read(body, &head.headers, deadline, held, &self.decoders).await
    }

    /// Follows redirects to the first response that is not one. Any status but success is a failure.
    async fn follow(
        &self,
        first: &Url,
        trace: &mut RequestTrace,
    ) -> Result<(ResponseHead, ResponseBody), FetchFailure> {
        let mut url = first.clone();
        let mut cookies = Cookies::default();
        let mut seen = Vec::new();
        loop {
            trace.final_url = Some(url.to_string());
            self.check(&url).await?;
            let mut request = self.request(&url)?;
            self.authorize(&mut request, first, &url);
            cookies.add_to(&mut request, &url);
            let (head, mut body) = self.connections.send(request).await?;
            trace.http_status = Some(head.status.as_u16());
            if head.status.is_success() {
                return Ok((head, body));
            }
            body.release();
            let next = redirect_target(&url, &head).ok_or_else(|| status_failure(&head))??;
            cookies.store(&url, &head.headers);
            seen.push(url);
            if seen.len() > self.options.max_redirects {
                return Err(FetchFailure::permanent(
                    FailureCode::RedirectLoop,
                    format!("more than {} redirects", self.options.max_redirects),
                ));
            }
            if cookies.is_empty() && seen.contains(&next) {
                return Err(FetchFailure::permanent(
                    FailureCode::RedirectLoop,
                    format!("redirected to {next} a second time"),
                ));
            }
            url = next;
        }
    }

    /// Checks a URL before it is requested, be it the table's or a redirect's.
    async fn check(&self, url: &Url) -> Result<(), FetchFailure> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(FetchFailure::permanent(FailureCode::BadUrl, format!("unsupported scheme '{}'", url.scheme())));
        }
        let Some(host) = url.host_str() else {
            return Err(FetchFailure::permanent(FailureCode::BadUrl, "missing host"));
        };
        if let Some(reason) = self.options.rules.refuse_host(host) {
            return Err(FetchFailure::permanent(FailureCode::BlockedAddress, reason));
        }
        if self.options.obey_robots && !Box::pin(self.robots.allows(url, || self.fetch_robots_txt(url))).await? {
            return Err(FetchFailure::permanent(FailureCode::Robots, format!("disallowed by robots.txt of {host}")));
        }
        Ok(())
    }

    /// A request with the headers that every host may see.
    fn request(&self, url: &Url) -> Result<Request<Empty<Bytes>>, FetchFailure> {
        let uri: Uri = uri(url)?;
        let mut request = Request::new(Empty::new());
        *request.headers_mut() = self.headers.clone();
        if let Some(auth) = self.proxy(&uri).and_then(|proxy| proxy.basic_auth().cloned()) {
            request.headers_mut().insert(header::PROXY_AUTHORIZATION, auth);
        }
        *request.uri_mut() = uri;
        Ok(request)
    }

    /// The proxy that sees requests to this URI in plain text.
    fn proxy(&self, uri: &Uri) -> Option<Intercept> {
        self.options.proxies.intercept(uri).filter(|_| uri.scheme_str() == Some("http"))
    }

    /// Adds the headers and the password that only the origin of the table's URL `first` may see, be it requested directly
    /// or by a redirect back to it.
    fn authorize(&self, request: &mut Request<Empty<Bytes>>, first: &Url, url: &Url) {
        let auth = basic_auth(first);
        if self.private.is_empty() && auth.is_none() {
            return;
        }
        if url.origin() != first.origin() && !self.options.location_trusted {
            return;
        }
        for (name, value) in &self.private {
            // Only for the proxy, if there is one.
            if name != header::PROXY_AUTHORIZATION || self.proxy(request.uri()).is_some() {
                request.headers_mut().insert(name, value.clone());
            }
        }
        if let Some(value) = auth {
            request.headers_mut().insert(header::AUTHORIZATION, value);
        }
    }

    /// Checks a URL for a program that connects by itself. A host name that resolves to another address afterwards gets
    /// around this check.
    pub async fn check_host(&self, url: &Url) -> Result<(), FetchFailure> {
        match url.host_str().filter(|_| matches!(url.scheme(), "http" | "https")) {
            None => Ok(()),
            Some(host) => {
                self.check(url).await?;
                self.connector.check(host).await
            }
        }
    }

    /// Fetches the robots.txt of `url`'s origin. An unreachable host fails with its own code.
    async fn fetch_robots_txt(&self, url: &Url) -> Result<RobotsTxt, FetchFailure> {
        let mut target = url.clone();
        target.set_path("/robots.txt");
        target.set_query(None);
        target.set_fragment(None);
        for _ in 0..MAX_ROBOTS_REDIRECTS {
            let mut request = self.request(&target)?;
            request.headers_mut().remove(header::ACCEPT_ENCODING);
            let (head, body) = self.connections.send(request).await?;
            match redirect_target(&target, &head) {
                Some(next) => target = next?,
                None => {
                    let text = read_prefix(body, RobotsTxt::MAX_BYTES).await;
                    return Ok(RobotsTxt::from_response(head.status.as_u16(), &text, &self.options.agent));
                }
            }
        }
        Ok(RobotsTxt::AllowAll)
    }
}

/// The first bytes of a body, even if the connection fails after them.
async fn read_prefix(mut body: ResponseBody, max_bytes: usize) -> Vec<u8> {
    let mut data = Vec::new();
    while data.len() < max_bytes && body.read(&mut data).await.is_ok_and(|read| read > 0) {}
    data.truncate(max_bytes);
    data
}

fn accept(limits: &BodyLimits) -> anyhow::Result<HeaderValue> {
    Ok(if limits.accept.is_empty() {
        HeaderValue::from_static("*/*")
    } else {
        HeaderValue::from_str(&limits.accept.join(", "))?
    })
}

fn uri(url: &Url) -> Result<Uri, FetchFailure> {
    let bad = |_| FetchFailure::permanent(FailureCode::BadUrl, "not a valid HTTP URL");
    if url.username().is_empty() && url.fragment().is_none() && url.password().is_none() {
        return url.as_str().parse().map_err(bad);
    }
    let mut bare = url.clone();
    bare.set_fragment(None);
    _ = bare.set_username("");
    _ = bare.set_password(None);
    bare.as_str().parse().map_err(bad)
}

fn basic_auth(url: &Url) -> Option<HeaderValue> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let decode = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let pair = format!("{}:{}", decode(url.username()), decode(url.password().unwrap_or_default()));
    let mut value = HeaderValue::from_str(&format!("Basic {}", base64::prelude::BASE64_STANDARD.encode(pair))).ok()?;
    value.set_sensitive(true);
    Some(value)
}
