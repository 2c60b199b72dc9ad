//! Cookies within one redirect chain: set by one hop, sent to later ones, forgotten at the end. Some sites redirect for ever
//! without them.

use hyper::header::{COOKIE, HeaderValue, SET_COOKIE};
use hyper::{HeaderMap, Request};
use url::{Host, Url};

/// The most cookies to store per chain; further ones are ignored.
const MAX_COOKIES: usize = 50;

/// The cookies that the hops of a chain have set.
#[derive(Default)]
pub struct Cookies(Vec<Cookie>);

struct Cookie {
    name: String,
    value: String,
    domain: String,
    with_subdomains: bool,
    secure_only: bool,
}

impl Cookies {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Stores the cookies that the response to `url` sets.
    pub fn store(&mut self, url: &Url, headers: &HeaderMap) {
        for value in headers.get_all(SET_COOKIE) {
            let Some(cookie) = value.to_str().ok().and_then(|text| Cookie::parse(text, url)) else { continue };
            self.0.retain(|old| old.name != cookie.name || old.domain != cookie.domain);
            if self.0.len() < MAX_COOKIES {
                self.0.push(cookie);
            }
        }
    }

    /// Adds the cookies for `url` to a request, after those it already has.
    pub fn add_to<B>(&self, request: &mut Request<B>, url: &Url) {
        let matching = self.0.iter().filter(|cookie| cookie.matches(url));
        let pairs: Vec<String> = matching.map(|cookie| format!("{}={}", cookie.name, cookie.value)).collect();
        if pairs.is_empty() {
            return;
        }
        let given = request.headers().get(COOKIE).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let all = given.into_iter().chain(pairs).collect::<Vec<_>>().join("; ");
        if let Ok(value) = HeaderValue::from_str(&all) {
            request.headers_mut().insert(COOKIE, value);
        }
    }
}

impl Cookie {
    fn parse(text: &str, url: &Url) -> Option<Cookie> {
        let host = url.host_str()?;
        let mut parts = text.split(';').map(str::trim);
        let (name, value) = parts.next()?.split_once('=')?;
        let mut cookie = Cookie {
            name: name.trim().into(),
            value: value.trim().into(),
            domain: host.into(),
            with_subdomains: false,
            secure_only: false,
        };
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            match name.trim().to_ascii_lowercase().as_str() {
                "secure" => cookie.secure_only = true,
                "domain" => {
                    let domain = value.trim().trim_start_matches('.').to_ascii_lowercase();
                    // A host may set cookies for its parent domains, but not for a top-level domain. An IP address has no parents.
                    let is_name = matches!(url.host(), Some(Host::Domain(_)));
                    if host != domain && (!is_name || !domain.contains('.') || !is_within(host, &domain)) {
                        return None;
                    }
                    (cookie.domain, cookie.with_subdomains) = (domain, is_name);
                }
                _ => {}
            }
        }
        Some(cookie)
    }

    fn matches(&self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default();
        let matches_host = if self.with_subdomains { is_within(host, &self.domain) } else { host == self.domain };
        matches_host && (!self.secure_only || url.scheme() == "https")
    }
}

fn is_within(host: &str, domain: &str) -> bool {
    host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(set: &str, from: &str, to: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(SET_COOKIE, set.parse().unwrap());
        let mut cookies = Cookies::default();
        cookies.store(&from.parse().unwrap(), &headers);
        let mut request = Request::new(());
        cookies.add_to(&mut request, &to.parse().unwrap());
        request.headers().get(COOKIE).map(|value| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn cookies_are_sent_only_to_the_hosts_they_are_for() {
        assert_eq!(sent("a=1; Path=/", "http://h.org/", "http://h.org/x").as_deref(), Some("a=1"));
        assert_eq!(sent("a=1", "http://h.org/", "http://x.h.org/"), None);
        assert_eq!(sent("a=1; Domain=.h.org", "http://www.h.org/", "http://x.h.org/").as_deref(), Some("a=1"));
        assert_eq!(sent("a=1; domain=org", "http://h.org/", "http://x.org/"), None);
        assert_eq!(sent("a=1; domain=evil.org", "http://h.org/", "http://evil.org/"), None);
        assert_eq!(sent("a=1; Secure", "https://h.org/", "http://h.org/"), None);
        assert_eq!(sent("a=1; domain=0.0.1", "http://8.0.0.1/", "http://9.0.0.1/"), None);
        assert_eq!(sent("a=1; domain=8.0.0.1", "http://8.0.0.1/", "http://8.0.0.1/x").as_deref(), Some("a=1"));
    }
}
