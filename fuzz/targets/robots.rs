//! What strange servers say to fetch: robots.txt, a path, and a header with opt-outs or cookies, with NULs between.

#![no_main]
#![allow(dead_code, reason = "a target uses a part of its tool")]

#[path = "../../tools/fetch/cookies.rs"]
mod cookies;
#[path = "../../tools/fetch/optout.rs"]
mod optout;
#[path = "../../tools/fetch/robots.rs"]
mod robots;

use hyper::header::HeaderValue;
use hyper::{HeaderMap, Request};
use libfuzzer_sys::fuzz_target;
use url::Url;

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(3, |&b| b == 0);
    let mut next = || parts.next().unwrap_or_default();
    let (text, path, header) = (next(), String::from_utf8_lossy(next()), next());
    let path: &str = &path;
    let rules = robots::Robots::parse(text, "tarpipe");
    if text.is_empty() {
        assert!(rules.allows(path));
    }
    _ = rules.allows(path);
    _ = rules.allows("/a/b.gif?x");
    let Ok(value) = HeaderValue::from_bytes(header) else { return };
    let mut headers = HeaderMap::new();
    for name in ["x-robots-tag", "tdm-reservation", "set-cookie"] {
        headers.append(name, value.clone());
    }
    assert_eq!(optout::OptOut::parse("none").find(&headers, "tarpipe"), None);
    _ = optout::OptOut::parse(optout::DEFAULT).find(&headers, "tarpipe");
    _ = optout::OptOut::parse(path).find(&headers, "tarpipe");
    let mut jar = cookies::Cookies::default();
    let (ours, theirs) = (url("https://a.example.org/x"), url("https://other.test/"));
    jar.take(&ours, &headers);
    assert!(!sends_cookies(&jar, &theirs), "a cookie for another site");
    _ = (jar.is_empty(), sends_cookies(&jar, &ours));
});

fn sends_cookies(jar: &cookies::Cookies, url: &Url) -> bool {
    let mut request = Request::new(());
    jar.add_to(&mut request, url);
    request.headers().contains_key("cookie")
}

fn url(text: &str) -> Url {
    Url::parse(text).expect("a URL")
}
