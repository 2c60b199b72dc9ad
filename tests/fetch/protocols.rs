//! fetch and what the web speaks besides plain HTTP/1.1: HTTP/2 from a real nginx, compressed
//! bodies, proxies that tunnel, thousands of connections.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use crate::support::web::{Certificate, Web, reply};
use crate::support::{Run, dir, members, run};

const JPEG: &[u8] = b"\xff\xd8\xff\xe0 a small picture";

fn fetch(args: &str) -> Run {
    run("fetch", args.split_whitespace().chain(["--allow-private", "--retry-wait", "10ms"]))
}

/// A real nginx that ends with the test.
struct Nginx {
    port: u16,
    master: std::process::Child,
}

impl Nginx {
    /// Serves `folder`/www over TLS, with HTTP/2 and gzip; logs the protocol of each request.
    fn start(folder: &Path) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = format!(
            "worker_processes 1; pid nginx.pid; daemon off; user root; events {{ worker_connections 512; }}
            http {{ log_format protocol '$server_protocol'; access_log access.log protocol; types {{ text/plain txt; }}
              gzip on; gzip_types text/plain; client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f;
              uwsgi_temp_path u; scgi_temp_path s;
              server {{ listen 127.0.0.1:{port} ssl http2; ssl_certificate cert.pem; ssl_certificate_key key.pem; root www; }} }}"
        );
        std::fs::write(folder.join("nginx.conf"), config).unwrap();
        let place = folder.to_str().unwrap();
        let args = ["-p", place, "-c", "nginx.conf", "-e", "error.log"];
        let master = Command::new("nginx").args(args).spawn().unwrap();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        Nginx { port, master }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // The master ends its worker on TERM, not on KILL.
        _ = Command::new("kill").arg(self.master.id().to_string()).status();
        _ = self.master.wait();
    }
}

#[test]
fn many_requests_share_a_connection_of_http_2() {
    let folder = dir();
    let www = folder.path().join("www");
    std::fs::create_dir(&www).unwrap();
    let text = "the same words again and again; ".repeat(500);
    (0..200).for_each(|i| std::fs::write(www.join(format!("{i}.txt")), format!("{i} {text}")).unwrap());
    Certificate::new(&["localhost"]).save_pair(&folder.path().join("cert.pem"), &folder.path().join("key.pem"));
    let nginx = Nginx::start(folder.path());
    let rows: String = (0..200).map(|i| format!("https://localhost:{}/{i}.txt\n", nginx.port)).collect();
    let cert = folder.path().join("cert.pem");
    let archive =
        fetch("-j 64 --per-host 64").env("no_proxy", "*").env("SSL_CERT_FILE", cert.to_str().unwrap()).stdin(rows).ok();
    drop(nginx);
    let bodies: Vec<Vec<u8>> = members(&archive).into_iter().step_by(2).map(|member| member.1).collect();
    assert_eq!(bodies.len(), 200);
    bodies.iter().enumerate().for_each(|(i, body)| assert_eq!(*body, format!("{i} {text}").into_bytes()));
    let log = std::fs::read_to_string(folder.path().join("access.log")).unwrap();
    assert_eq!(log.lines().filter(|line| *line == "HTTP/2.0").count(), 200, "{log}");
}

#[test]
fn bodies_are_stored_as_they_were_before_compression() {
    let gzip = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(JPEG).unwrap();
        encoder.finish().unwrap()
    };
    // "hello" in a brotli block that is stored.
    let brotli = b"\x0b\x02\x80hello\x03";
    let web = Web::start(move |asked, wire| match asked.path.as_str() {
        "/gzip" => reply(wire, "200 OK", "Content-Encoding: gzip\r\n", &gzip),
        "/brotli" => reply(wire, "200 OK", "Content-Encoding: br\r\nContent-Type: text/plain\r\n", brotli),
        _ => reply(wire, "200 OK", "Content-Encoding: br\r\n", b"\x0b\x02\x80hel"),
    });
    let rows = format!("{0}/gzip\n{0}/brotli\n{0}/cut\n", web.url);
    let done = fetch("--retries 0").env("no_proxy", "*").stdin(rows).done().status(0);
    let stored = members(&done.stderr("fetch: 2 samples; failed 1 (1 truncated)").stdout());
    assert_eq!((stored[0].1.as_slice(), stored[2].1.as_slice()), (JPEG, b"hello".as_slice()));
    assert!(web.seen()[0].head.contains("accept-encoding: gzip, br"), "{}", web.seen()[0].head);
}

/// A proxy that tunnels to `target`, whatever it is asked for; says what it was asked.
fn tunnel(target: u16) -> Web {
    Web::start_raw(move |asked, tcp| {
        if !asked.head.starts_with("connect ") || !asked.head.contains("proxy-authorization: basic bwu6c2vjcmv0") {
            return reply(tcp, "407 Who are you", "", b"");
        }
        let server = TcpStream::connect(("127.0.0.1", target)).unwrap();
        tcp.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
        let (mut up, mut down) = (server.try_clone().unwrap(), tcp.try_clone().unwrap());
        let upward = std::thread::spawn(move || _ = std::io::copy(&mut down, &mut up));
        _ = std::io::copy(&mut server.take(u64::MAX), tcp);
        _ = tcp.shutdown(std::net::Shutdown::Both);
        _ = upward.join();
    })
}

#[test]
fn https_goes_through_a_proxy_that_tunnels() {
    let folder = dir();
    let certificate = Certificate::new(&["far.example"]);
    let cert = folder.path().join("cert.pem");
    certificate.save(&cert);
    let web = Web::start_tls(&certificate, |_, wire| reply(wire, "200 OK", "", JPEG));
    let proxy = tunnel(web.port);
    let ask = |user: &str| {
        let via = format!("http://{user}127.0.0.1:{}", proxy.port);
        let fetch = fetch("--retries 0").env("https_proxy", &via).env("no_proxy", "").env("NO_PROXY", "");
        fetch.env("SSL_CERT_FILE", cert.to_str().unwrap()).stdin("https://far.example/a.jpg\n").done()
    };
    assert_eq!(members(&ask("me:secret@").status(0).stdout())[0].1, JPEG);
    assert_eq!(proxy.seen()[0].path, "far.example:443");
    let refused = ask("").status(3).stderr_has("proxy 127.0.0.1: HTTP/1.1 407 Who are you");
    refused.stderr_has("fetch: 0 samples; failed 1 (1 connect)");
}

#[test]
fn four_thousand_requests_are_in_flight_at_once() {
    // Nobody is answered before all have asked.
    let all = std::sync::Arc::new(std::sync::Barrier::new(4096));
    let web = Web::start(move |_, wire| {
        all.wait();
        reply(wire, "200 OK", "", JPEG);
    });
    let rows: String = (0..4096).map(|i| format!("{}/{i}\n", web.url)).collect();
    let archive = fetch("-j 4096 --per-host 4096 --timeout 5m").env("no_proxy", "*").stdin(rows).ok();
    assert_eq!(members(&archive).len(), 8192);
}
