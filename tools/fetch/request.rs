//! One attempt at one URL: the request, its redirects with their cookies, the checks between them.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine;
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Request, Uri};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::address::Rules;
use super::body::{self, Limits};
use super::budget::Held;
use super::connect::Connector;
use super::connections::{Body, Connections};
use super::cookies::Cookies;
use super::failure::{Code, Failure};
use super::http1::Head;
use super::optout::OptOut;
use super::retry::retry_after;
use super::robots_cache::RobotsCache;

/// Headers of the user that say how we like our answers. All others may be secrets.
const PUBLIC: [HeaderName; 5] =
    [header::ACCEPT, header::ACCEPT_CHARSET, header::ACCEPT_ENCODING, header::ACCEPT_LANGUAGE, header::USER_AGENT];

/// What a run asks of every request.
pub struct Options {
    pub timeout: Duration,
    pub max_redirects: usize,
    pub user_agent: String,
    /// What robots.txt and X-Robots-Tag call us.
    pub agent: String,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Whether the hosts of redirects get all headers and the password of the URL.
    pub location_trusted: bool,
    pub opt_out: OptOut,
    pub obey_robots: bool,
    pub limits: Limits,
    pub rules: Arc<Rules>,
    pub proxies: Arc<Matcher>,
    pub per_host: usize,
}

/// What is known of an attempt, also when it failed.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    pub final_url: Option<String>,
    pub http_status: Option<u16>,
    pub mime: Option<String>,
}

/// Makes requests.
pub struct Client {
    connections: Connections,
    connector: Connector,
    /// Sent with every request.
    headers: HeaderMap,
    /// Sent only to the hosts that the table names, not to those that they redirect to.
    private: HeaderMap,
    robots: RobotsCache,
    /// As many bodies are decoded at once as there are cores.
    decoders: Semaphore,
    options: Options,
}

impl Client {
    pub fn new(options: Options, connector: Connector) -> anyhow::Result<Self> {
        let connections = Connections::new(connector.clone(), options.per_host);
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_str(&options.user_agent)?);
        headers.insert(header::ACCEPT, accept(&options.limits)?);
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip, br"));
        let mut private = HeaderMap::new();
        for (name, value) in &options.headers {
            if PUBLIC.contains(name) { &mut headers } else { &mut private }.insert(name, value.clone());
        }
        let decoders = Semaphore::new(std::thread::available_parallelism().map_or(1, |cores| cores.get()));
        Ok(Client { connections, connector, headers, private, robots: RobotsCache::default(), decoders, options })
    }

    pub(super) fn agent(&self) -> &str {
        &self.options.agent
    }

    /// Fetches `url` within the total deadline of an attempt, redirects and body included.
    pub async fn get(&self, url: &Url, held: &mut Held, trace: &mut Trace) -> Result<Vec<u8>, Failure> {
        let deadline = Instant::now() + self.options.timeout;
        let response = match timeout_at(deadline, self.follow(url, trace)).await {
            Ok(response) => response?,
            Err(_) => {
                return Err(Failure::passing(Code::Timeout, format!("no answer within {:?}", self.options.timeout)));
            }
        };
        let (head, body) = response;
        if let Some(found) = self.options.opt_out.find(&head.headers, self.agent()) {
            return Err(Failure::lasting(Code::OptOut, found));
        }
        trace.mime = body::content_type(&head.headers).map(str::to_owned);
        self.options.limits.read(body, &head.headers, deadline, held, &self.decoders).await
    }

    /// The first answer that is no redirect, if it is a success.
    async fn follow(&self, first: &Url, trace: &mut Trace) -> Result<(Head, Body), Failure> {
        let mut url = first.clone();
        let mut cookies = Cookies::default();
        let mut seen = Vec::new();
        loop {
            trace.final_url = Some(url.to_string());
            self.check(&url).await?;
            let mut request = self.request(&url)?;
            self.authorize(&mut request, first, &url);
            cookies.add_to(&mut request, &url);
            let (head, mut body) = self.connections.ask(request).await?;
            trace.http_status = Some(head.status.as_u16());
            if head.status.is_success() {
                return Ok((head, body));
            }
            body.leave();
            let next = location(&url, &head).ok_or_else(|| refused(&head))??;
            cookies.take(&url, &head.headers);
            seen.push(url);
            if seen.len() > self.options.max_redirects {
                return Err(Failure::lasting(
                    Code::RedirectLoop,
                    format!("more than {} redirects", self.options.max_redirects),
                ));
            }
            if cookies.is_empty() && seen.contains(&next) {
                return Err(Failure::lasting(Code::RedirectLoop, format!("redirected to {next} again")));
            }
            url = next;
        }
    }

    /// Everything that must hold before a URL is asked for, the first as well as a redirect's.
    async fn check(&self, url: &Url) -> Result<(), Failure> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Failure::lasting(Code::BadUrl, format!("'{}' URLs are not fetched", url.scheme())));
        }
        let Some(host) = url.host_str() else {
            return Err(Failure::lasting(Code::BadUrl, "no host"));
        };
        if let Some(why) = self.options.rules.refuses_host(host) {
            return Err(Failure::lasting(Code::BlockedAddress, why));
        }
        if self.options.obey_robots && !Box::pin(self.robots.allows(self, url)).await? {
            return Err(Failure::lasting(Code::Robots, format!("robots.txt of {host} disallows it")));
        }
        Ok(())
    }

    /// A request with what everybody may see of us.
    fn request(&self, url: &Url) -> Result<Request<Empty<Bytes>>, Failure> {
        let uri: Uri = uri(url)?;
        let mut request = Request::new(Empty::new());
        *request.headers_mut() = self.headers.clone();
        if let Some(auth) = self.proxy(&uri).and_then(|proxy| proxy.basic_auth().cloned()) {
            request.headers_mut().insert(header::PROXY_AUTHORIZATION, auth);
        }
        *request.uri_mut() = uri;
        Ok(request)
    }

    /// The proxy that reads the request for this URI.
    fn proxy(&self, uri: &Uri) -> Option<Intercept> {
        self.options.proxies.intercept(uri).filter(|_| uri.scheme_str() == Some("http"))
    }

    /// Adds what is meant for the host of the table's URL `first` alone: that very scheme, host and port, also when a
    /// redirect leads back to them.
    fn authorize(&self, request: &mut Request<Empty<Bytes>>, first: &Url, url: &Url) {
        let auth = basic_auth(first);
        if self.private.is_empty() && auth.is_none() {
            return;
        }
        if url.origin() != first.origin() && !self.options.location_trusted {
            return;
        }
        for (name, value) in &self.private {
            // Meant for a proxy, which may not be there.
            if name != header::PROXY_AUTHORIZATION || self.proxy(request.uri()).is_some() {
                request.headers_mut().insert(name, value.clone());
            }
        }
        if let Some(value) = auth {
            request.headers_mut().insert(header::AUTHORIZATION, value);
        }
    }

    /// For a program that will connect by itself: refuses what can be seen to be refused, which
    /// a name that changes its address afterwards gets around.
    pub async fn check_host(&self, url: &Url) -> Result<(), Failure> {
        match url.host_str().filter(|_| matches!(url.scheme(), "http" | "https")) {
            None => Ok(()),
            Some(host) => {
                self.check(url).await?;
                self.connector.check(host).await
            }
        }
    }

    /// Status and text of a small file, uncompressed, its redirects followed.
    pub(super) async fn small_file(&self, url: &Url, max_bytes: usize) -> Result<(u16, Vec<u8>), Failure> {
        let mut url = url.clone();
        for _ in 0..5 {
            let mut request = self.request(&url)?;
            request.headers_mut().remove(header::ACCEPT_ENCODING);
            let (head, body) = self.connections.ask(request).await?;
            match location(&url, &head) {
                Some(next) => url = next?,
                None => return Ok((head.status.as_u16(), read_some(body, max_bytes).await)),
            }
        }
        Ok((404, Vec::new()))
    }
}

/// The first bytes of a body, however it ends.
async fn read_some(mut body: Body, max_bytes: usize) -> Vec<u8> {
    let mut data = Vec::new();
    while data.len() < max_bytes && body.read(&mut data).await.is_ok_and(|read| read > 0) {}
    data.truncate(max_bytes);
    data
}

fn accept(limits: &Limits) -> anyhow::Result<HeaderValue> {
    Ok(if limits.accept.is_empty() {
        HeaderValue::from_static("*/*")
    } else {
        HeaderValue::from_str(&limits.accept.join(", "))?
    })
}

fn uri(url: &Url) -> Result<Uri, Failure> {
    let bad = |_| Failure::lasting(Code::BadUrl, "not a URL that HTTP can ask for");
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

/// Where a redirect leads.
fn location(url: &Url, head: &Head) -> Option<Result<Url, Failure>> {
    if !matches!(head.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let value = head.headers.get(header::LOCATION)?;
    let text = String::from_utf8_lossy(value.as_bytes());
    Some(url.join(text.trim()).map_err(|err| Failure::lasting(Code::BadUrl, format!("redirected to a bad URL: {err}"))))
}

fn refused(head: &Head) -> Failure {
    let number = head.status.as_u16();
    let code = match number {
        429 => Code::Http429,
        500.. => Code::Http5xx,
        400..500 => Code::Http4xx,
        _ => Code::Http3xx,
    };
    let wait = head.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    Failure {
        is_transient: matches!(number, 408 | 425 | 429 | 500 | 502 | 503 | 504),
        retry_after: wait.and_then(|value| retry_after(value, SystemTime::now())),
        ..Failure::lasting(code, format!("HTTP {number}"))
    }
}
