//! Input from hostile servers to fetch: robots.txt, a path, and a header with opt-outs or cookies, separated by NULs.

#![no_main]
#![allow(dead_code, reason = "a target uses a part of its tool")]

#[path = "../../tools/fetch"]
mod fetch {
    pub mod client {
        pub mod cookies;
    }
    pub mod robots {
        pub mod opt_out;
        pub mod robots_txt;
    }
}

use hyper::header::HeaderValue;
use hyper::{HeaderMap, Request};
use libfuzzer_sys::fuzz_target;
use url::Url;

use fetch::client::cookies;
use fetch::robots::{opt_out, robots_txt};

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(3, |&b| b == 0);
    let mut next = || parts.next().unwrap_or_default();
    let (text, path, header) = (next(), String::from_utf8_lossy(next()), next());
    let path: &str = &path;
    let rules = robots_txt::RobotsTxt::parse(text, "tarpipe");
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
    assert_eq!(opt_out::OptOutPolicy::parse("none").find(&headers, "tarpipe"), None);
    _ = opt_out::OptOutPolicy::parse(opt_out::DEFAULT).find(&headers, "tarpipe");
    _ = opt_out::OptOutPolicy::parse(path).find(&headers, "tarpipe");
    let mut jar = cookies::Cookies::default();
    let (ours, theirs) = (url("https://a.example.org/x"), url("https://other.test/"));
    jar.store(&ours, &headers);
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
