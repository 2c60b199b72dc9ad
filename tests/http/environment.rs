//! Sources, fetch and object stores have different HTTP clients. Certificates and proxies of the environment must mean the same
//! to all of them.

use std::io::Write;
use std::net::TcpStream;

use crate::support::web::{Certificate, Web, reply};
use crate::support::{Archive, Run, dir, run};

const VARIABLES: [&str; 8] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"];

const FACTS: &str = "ETag: \"v1\"\r\nLast-Modified: Wed, 01 Jan 2025 00:00:00 GMT\r\n";

/// tarcat, fetch, and tarcat through S3, each of which reads `base`/b/a.tar.
fn readers(base: &str, environment: &[(&str, &str)]) -> [Run; 3] {
    let url = format!("{base}/b/a.tar");
    let fetch = run("fetch", ["--allow-private", "--retries", "0"]).stdin(format!("{url}\n"));
    let store = run("tarcat", ["s3://b/a.tar"])
        .env("AWS_ENDPOINT_URL", base)
        .env("AWS_SKIP_SIGNATURE", "true")
        .env("AWS_REGION", "us-east-1")
        .env("AWS_MAX_ATTEMPTS", "1");
    [run("tarcat", [&url]), fetch, store].map(|reader| {
        let clean = VARIABLES.iter().fold(reader, |reader, name| reader.env(name, ""));
        environment.iter().fold(clean, |reader, (name, value)| reader.env(name, value))
    })
}

fn succeeds(reader: Run) -> bool {
    reader.done().status_code() == 0
}

/// A proxy for plain requests and for tunnels to `web`.
fn proxy(web: u16, archive: Vec<u8>) -> Web {
    Web::start_raw(move |asked, tcp| {
        if !asked.head.starts_with("connect ") {
            return reply(tcp, "200 OK", FACTS, &archive);
        }
        let server = TcpStream::connect(("127.0.0.1", web)).unwrap();
        _ = tcp.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n");
        let (mut up, mut down) = (server.try_clone().unwrap(), tcp.try_clone().unwrap());
        std::thread::spawn(move || _ = std::io::copy(&mut down, &mut up));
        _ = std::io::copy(&mut &server, tcp);
        _ = tcp.shutdown(std::net::Shutdown::Both);
    })
}

#[test]
fn all_clients_trust_the_same_certificates() {
    let (folder, archive) = (dir(), Archive::of_samples(1).whole());
    let [good, wrong] = [["127.0.0.1"], ["example.org"]].map(|names| Certificate::new(&names));
    let [trusted, other] = ["good.pem", "wrong.pem"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    good.save(trusted.as_ref());
    wrong.save(other.as_ref());
    let web = Web::start_tls(&good, move |_, wire| reply(wire, "200 OK", FACTS, &archive));
    let readers =
        |file: &str| readers(&web.url, &[("SSL_CERT_FILE", file), ("SSL_CERT_DIR", "/nonexistent")]).map(succeeds);
    assert_eq!(readers(&trusted), [true; 3]);
    assert_eq!(readers(&other), [false; 3]);
    // A file that is missing is not replaced by built-in certificates.
    assert_eq!(readers("/nonexistent"), [false; 3]);
}

#[test]
fn all_clients_use_the_same_proxies() {
    let archive = Archive::of_samples(1).whole();
    let body = archive.clone();
    let web = Web::start(move |_, wire| reply(wire, "200 OK", FACTS, &body));
    let (far, dead) = ("http://sub.far.example", "http://127.0.0.1:9");
    // Variables, with P for the proxy; the server; whether it is reached, and whether by the proxy.
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a str, bool, bool);
    let cases: [Case; 9] = [
        (&[("HTTP_PROXY", "P")], far, true, true),
        (&[("ALL_PROXY", "P")], far, true, true),
        (&[("ALL_PROXY", dead), ("HTTP_PROXY", "P")], far, true, true),
        (&[("HTTPS_PROXY", "P")], &web.url, true, false),
        (&[("HTTPS_PROXY", "P")], far, false, false),
        (&[("HTTP_PROXY", "P"), ("NO_PROXY", "127.0.0.0/8")], &web.url, true, false),
        (&[("HTTP_PROXY", "P"), ("NO_PROXY", "far.example")], far, false, false),
        (&[("HTTP_PROXY", "P"), ("NO_PROXY", "example.org")], far, true, true),
        (&[("HTTP_PROXY", "P"), ("NO_PROXY", "*")], &web.url, true, false),
    ];
    for (variables, server, is_reached, is_proxied) in cases {
        let proxy = proxy(web.port, archive.clone());
        let environment: Vec<_> = variables
            .iter()
            .map(|&(name, value)| (name, if value == "P" { proxy.url.as_str() } else { value }))
            .collect();
        let outcomes = readers(server, &environment).map(|reader| {
            let before = proxy.seen().len();
            (succeeds(reader), proxy.seen().len() > before)
        });
        assert_eq!(outcomes, [(is_reached, is_proxied); 3], "{variables:?} {server}: {:?}", proxy.seen());
    }
}
