//! The proxies of the environment: HTTP_PROXY for http URLs, HTTPS_PROXY for https URLs, ALL_PROXY for both where the former
//! are not set, NO_PROXY for hosts (with their subdomains), addresses and networks without a proxy; in lower case too.

use std::sync::OnceLock;

use base64::Engine;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use ureq::http::Uri;
use ureq::{Proxy, ProxyProtocol};

/// Which URL has which proxy. reqwest has the same rules, except for [`are_disabled`]: it uses this crate too.
pub fn proxies() -> &'static Matcher {
    static PROXIES: OnceLock<Matcher> = OnceLock::new();
    PROXIES.get_or_init(|| if are_disabled() { Matcher::builder().build() } else { Matcher::from_env() })
}

/// Whether NO_PROXY is `*`: no proxy for any URL, as in curl. To the crate, that means names but not addresses.
pub fn are_disabled() -> bool {
    let hosts = ["NO_PROXY", "no_proxy"].into_iter().find_map(|name| std::env::var(name).ok());
    hosts.is_some_and(|hosts| hosts.split(',').any(|host| host.trim() == "*"))
}

/// The proxy of `url` in the form that ureq takes.
pub(super) fn of(url: &str) -> Result<Option<Proxy>, ureq::Error> {
    let found = url.parse::<Uri>().ok().and_then(|uri| proxies().intercept(&uri));
    found.map(|found| convert(&found)).transpose()
}

fn convert(found: &Intercept) -> Result<Proxy, ureq::Error> {
    let uri = found.uri();
    let protocol = ProxyProtocol::try_from(uri.scheme_str().unwrap_or("http"))?;
    let mut proxy = Proxy::builder(protocol).host(uri.host().unwrap_or_default());
    if let Some(port) = uri.port_u16() {
        proxy = proxy.port(port);
    }
    if let Some((user, password)) = credentials(found) {
        proxy = proxy.username(&user).password(&password);
    }
    proxy.build()
}

fn credentials(found: &Intercept) -> Option<(String, String)> {
    if let Some((user, password)) = found.raw_auth() {
        return Some((user.to_owned(), password.to_owned()));
    }
    let encoded = found.basic_auth()?.to_str().ok()?.strip_prefix("Basic ")?;
    let pair = String::from_utf8(base64::prelude::BASE64_STANDARD.decode(encoded).ok()?).ok()?;
    let (user, password) = pair.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}
