//! fetch and headers of the user: they go to the hosts of the table and nowhere else.

use crate::support::web::{Web, reply};
use crate::support::{Run, run};

const JPEG: &[u8] = b"\xff\xd8\xff\xe0 a small picture";

/// What the user sends, and how a server sees it.
const SECRETS: [&str; 3] = ["cookie: session=1", "x-api-key: secret", "authorization: bearer token"];

fn fetch(args: &[&str]) -> Run {
    let fixed = ["--allow-private", "--retries", "0", "-H", "Cookie: session=1", "-H", "X-Api-Key: secret"];
    let fixed = fixed.into_iter().chain(["-H", "Authorization: Bearer token", "-H", "Accept-Language: de"]);
    run("fetch", fixed.chain(args.iter().copied())).env("no_proxy", "*")
}

fn secrets(head: &str) -> Vec<&'static str> {
    SECRETS.into_iter().filter(|secret| head.contains(secret)).collect()
}

fn heads(web: &Web) -> Vec<(String, String)> {
    web.seen().into_iter().map(|asked| (asked.path, asked.head)).collect()
}

/// A server that pictures are on, and one that leads there, by way of itself and by way of the other one and back.
fn pair() -> (Web, Web) {
    let theirs = Web::start(|asked, wire| match asked.path.strip_prefix("/back/") {
        Some(port) => reply(wire, "302 Found", &format!("Location: http://127.0.0.1:{port}/end\r\n"), b""),
        None => reply(wire, "200 OK", "", JPEG),
    });
    let port = theirs.port;
    let ours = Web::start(move |asked, wire| {
        let away = format!("Location: http://127.0.0.1:{port}{}\r\n", asked.path);
        match asked.path.as_str() {
            "/start" => reply(wire, "302 Found", "Location: /away\r\nSet-Cookie: own=2\r\n", b""),
            "/away" => reply(wire, "302 Found", &away, b""),
            path if path.starts_with("/back/") => reply(wire, "302 Found", &away, b""),
            _ => reply(wire, "200 OK", "", JPEG),
        }
    });
    (ours, theirs)
}

#[test]
fn hosts_of_redirects_get_no_headers_of_the_user() {
    let (ours, theirs) = pair();
    fetch(&[]).stdin(format!("{0}/start\n{0}/back/{1}\n", ours.url, ours.port)).ok();
    for (path, head) in heads(&ours) {
        assert_eq!(secrets(&head), SECRETS, "{path}: {head}");
        // Cookies of the chain come behind those of the user.
        assert!(path != "/away" || head.contains("cookie: session=1; own=2"), "{head}");
    }
    assert_eq!(theirs.seen().len(), 2);
    for (path, head) in heads(&theirs) {
        assert_eq!(secrets(&head), [""; 0], "{path}: {head}");
        assert!(head.contains("accept-language: de") && head.contains("user-agent: tarpipe/"), "{head}");
    }
    assert!(heads(&ours).iter().any(|(path, _)| path == "/end"));
}

#[test]
fn hosts_of_redirects_are_trusted_when_that_is_asked_for() {
    let (ours, theirs) = pair();
    fetch(&["--location-trusted"]).stdin(format!("{}/away\n", ours.url)).ok();
    assert_eq!(secrets(&heads(&theirs)[0].1), SECRETS);
}

#[test]
fn a_password_in_a_url_is_for_its_host() {
    let (ours, theirs) = pair();
    let plain = |args: &[&str]| run("fetch", ["--allow-private"].iter().chain(args)).env("no_proxy", "*");
    let row = format!("http://user:pass@127.0.0.1:{}/start\n", ours.port);
    plain(&[]).stdin(row.clone()).ok();
    for (path, head) in heads(&ours) {
        assert!(head.contains("authorization: basic dxnlcjpwyxnz"), "{path}: {head}");
    }
    assert!(!heads(&theirs)[0].1.contains("authorization"));
    plain(&["--location-trusted"]).stdin(row).ok();
    assert!(heads(&theirs)[1].1.contains("authorization: basic"));
}

#[test]
fn robots_txt_is_asked_for_without_the_headers_of_the_user() {
    let (ours, theirs) = pair();
    fetch(&["--robots", "obey"]).stdin(format!("{}/start\n", ours.url)).ok();
    let asked = heads(&ours).into_iter().chain(heads(&theirs)).filter(|(path, _)| path == "/robots.txt");
    let asked: Vec<_> = asked.collect();
    assert_eq!(asked.len(), 2);
    asked.iter().for_each(|(_, head)| assert_eq!(secrets(head), [""; 0], "{head}"));
}

#[test]
fn what_is_for_a_proxy_does_not_reach_a_server() {
    let web = Web::start(|_, wire| reply(wire, "200 OK", "", JPEG));
    let auth = ["-H", "Proxy-Authorization: Basic abc"];
    fetch(&auth).stdin(format!("{}/\n", web.url)).ok();
    assert!(!heads(&web)[0].1.contains("proxy-authorization"));
    let through = fetch(&auth).env("no_proxy", "").env("NO_PROXY", "").env("http_proxy", &web.url);
    through.stdin("http://public.example/x\n").ok();
    let head = &heads(&web)[1].1;
    assert!(head.contains("proxy-authorization: basic abc") && head.contains("get http://public.example/x"), "{head}");
}
