//! fetch among enemies: each ends in its code, and the run ends.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::support::web::{Asked, Web, Wire, name_server, reply};
use crate::support::{bash, dir, members, run};

const JPEG: &[u8] = b"\xff\xd8\xff\xe0 a small picture";

fn misbehave(asked: &Asked, wire: &mut dyn Wire) {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    match asked.path.as_str() {
        "/endless" => {
            let chunk = [b"10000\r\n".as_slice(), &[b'x'; 0x10000], b"\r\n"].concat();
            _ = wire.write_all(chunked.as_bytes());
            while wire.write_all(&chunk).is_ok() {}
        }
        "/drip" => {
            _ = wire.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
            while wire.write_all(b"x").and_then(|()| wire.flush()).is_ok() {
                std::thread::sleep(Duration::from_millis(200));
            }
        }
        "/short" => _ = wire.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly this"),
        "/cut" => _ = wire.write_all(format!("{chunked}10\r\nonly").as_bytes()),
        "/huge" => _ = wire.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\nx"),
        "/silent" => std::thread::sleep(Duration::from_secs(600)),
        "/closed" => {}
        "/junk" => _ = wire.write_all(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"),
        "/loop" => reply(wire, "302 Found", "Location: /loop\r\n", b""),
        path if path.starts_with("/far/") => {
            let next: u32 = path[5..].parse::<u32>().unwrap_or(0) + 1;
            reply(wire, "301 Moved", &format!("Location: /far/{next}\r\n"), b"");
        }
        "/ftp" => reply(wire, "302 Found", "Location: ftp://h/x\r\n", b""),
        "/passwd" => reply(wire, "302 Found", "Location: file:///etc/passwd\r\n", b""),
        "/bomb" => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            (0..32).for_each(|_| encoder.write_all(&[0; 1 << 20]).unwrap());
            reply(wire, "200 OK", "Content-Encoding: gzip\r\n", &encoder.finish().unwrap());
        }
        "/headers" => {
            _ = wire.write_all(b"HTTP/1.1 200 OK\r\n");
            let line = format!("X-Filler: {}\r\n", "x".repeat(8000));
            for _ in 0..13_000 {
                if wire.write_all(line.as_bytes()).is_err() {
                    break;
                }
            }
        }
        "/odd" => reply(wire, "200 OK", "Content-Encoding: compress\r\n", JPEG),
        _ => reply(wire, "200 OK", "", JPEG),
    }
}

/// More memory than this, in KB, no attack may cost: an allocation beyond it ends fetch.
const MEMORY: &str = "200000";

/// The code of every row, by its URL, after a run with these flags.
fn codes(flags: &[&str], rows: &str, env: &[(&str, &str)]) -> BTreeMap<String, String> {
    let folder = dir();
    let limited = format!("ulimit -d {MEMORY}; exec timeout 300 fetch \"$@\" --report r.jsonl -o /dev/null");
    let mut fetch = bash(&limited).args(["fetch"]).args(flags).cwd(folder.path());
    for (name, value) in env {
        fetch = fetch.env(name, value);
    }
    fetch.stdin(rows).done();
    let text = std::fs::read_to_string(folder.path().join("r.jsonl")).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.map(|row| (row["url"].as_str().unwrap().to_owned(), row["code"].as_str().unwrap_or("success").to_owned()))
        .collect()
}

#[test]
fn servers_that_lie_stall_or_never_end_get_their_code() {
    let web = Web::start(misbehave);
    let expected = [
        ("/endless", "too_large"),
        ("/drip", "stalled"),
        ("/short", "truncated"),
        ("/cut", "truncated"),
        ("/huge", "too_large"),
        ("/silent", "timeout"),
        ("/closed", "truncated"),
        ("/junk", "protocol"),
        ("/loop", "redirect_loop"),
        ("/far/0", "redirect_loop"),
        ("/ftp", "bad_url"),
        ("/passwd", "bad_url"),
        ("/bomb", "too_large"),
        ("/headers", "too_large"),
        ("/odd", "protocol"),
        ("/good", "success"),
    ];
    let rows: String = expected.iter().map(|(path, _)| format!("{}{path}\n", web.url)).collect();
    let flags = ["--allow-private", "--retries", "0", "--timeout", "6s", "--stall-time", "1s", "--max-bytes", "4M"];
    let codes = codes(&flags, &rows, &[]);
    for (path, code) in expected {
        assert_eq!(codes[&format!("{}{path}", web.url)], code, "{path}");
    }
}

#[test]
fn urls_that_point_inside_are_refused_in_every_disguise() {
    let web = Web::start(|_, wire| reply(wire, "200 OK", "", JPEG));
    let port = web.port;
    let servers = name_server(|name, _| match name {
        "inside.example" => Some(Ipv4Addr::LOCALHOST),
        "metadata.example" => Some(Ipv4Addr::new(169, 254, 169, 254)),
        _ => None,
    });
    let urls = [
        format!("http://127.0.0.1:{port}/"),
        format!("http://0x7f.1:{port}/"),
        format!("http://2130706433:{port}/"),
        format!("http://[::1]:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        format!("http://inside.example:{port}/"),
        "http://metadata.example/latest/meta-data/".to_owned(),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://10.0.0.1/".to_owned(),
    ];
    let codes = codes(&["--dns", &servers, "--retries", "0"], &urls.join("\n"), &[("no_proxy", "*")]);
    for url in &urls {
        assert_eq!(codes[url], "blocked_address", "{url}");
    }
    assert_eq!(web.seen().len(), 0);
}

#[test]
fn redirects_inside_are_refused() {
    let secret = Web::start(|_, wire| reply(wire, "200 OK", "", JPEG));
    let port = secret.port;
    // A proxy makes a loopback server look like the public web.
    let proxy = Web::start(move |asked, wire| match asked.path.as_str() {
        "http://public.example/local" => {
            reply(wire, "302 Found", &format!("Location: http://127.0.0.1:{port}/\r\n"), b"")
        }
        "http://public.example/metadata" => {
            reply(wire, "307 There", "Location: http://169.254.169.254/latest\r\n", b"")
        }
        "http://public.example/good" => reply(wire, "200 OK", "", JPEG),
        _ => reply(wire, "502 No", "", b""),
    });
    let rows = "http://public.example/local\nhttp://public.example/metadata\nhttp://public.example/good\n";
    let env = [("http_proxy", proxy.url.as_str()), ("no_proxy", ""), ("NO_PROXY", "")];
    let codes = codes(&["--retries", "0"], rows, &env);
    assert_eq!(codes["http://public.example/local"], "blocked_address");
    assert_eq!(codes["http://public.example/metadata"], "blocked_address");
    assert_eq!(codes["http://public.example/good"], "success");
    assert_eq!(secret.seen().len(), 0);
}

#[test]
fn a_name_that_changes_its_address_is_checked_each_time() {
    let web = Web::start(|_, wire| reply(wire, "503 Again", "", b""));
    // Allowed at first, on the block list at the second attempt.
    let servers = name_server(|name, times| match (name, times) {
        ("turn.example", 0) => Some(Ipv4Addr::new(127, 0, 0, 1)),
        ("turn.example", _) => Some(Ipv4Addr::new(127, 0, 0, 2)),
        _ => None,
    });
    let folder = dir();
    let list = folder.path().join("list");
    std::fs::write(&list, "127.0.0.2/32\n").unwrap();
    let flags = ["--allow-private", "--block-list", list.to_str().unwrap(), "--dns", &servers, "--retry-wait", "10ms"];
    let row = format!("http://turn.example:{}/\n", web.port);
    assert_eq!(codes(&flags, &row, &[("no_proxy", "*")])[row.trim()], "blocked_address");
    assert_eq!(web.seen().len(), 1);
}

#[test]
fn names_that_do_not_exist_and_ten_thousand_dead_hosts_end_in_their_codes() {
    let servers = name_server(|_, _| None);
    let mut rows: String = (0..10_000).map(|i| format!("http://127.{}.{}.9:1/\n", i / 250 + 1, i % 250)).collect();
    rows += "http://nowhere.example/\nhttp://nowhere.example/again\n";
    let flags = ["--allow-private", "--dns", &servers, "--retries", "0", "-j", "1024"];
    let codes = codes(&flags, &rows, &[("no_proxy", "*")]);
    let mut counts = BTreeMap::<&str, usize>::new();
    codes.values().for_each(|code| *counts.entry(code).or_default() += 1);
    assert_eq!(counts, BTreeMap::from([("connect", 10_000), ("dns", 2)]));
}

#[test]
fn a_reader_that_does_not_read_stops_the_requests() {
    for order in ["", "--unordered"] {
        let body = vec![7; 1 << 20];
        let web = Web::start(move |_, wire| reply(wire, "200 OK", "", &body));
        let rows: String = (0..200).map(|i| format!("{}/{i}\n", web.url)).collect();
        let flags = ["--allow-private", "--window-bytes", "4M", "--per-host", "4", order];
        let mut command = run("fetch", flags.into_iter().filter(|flag| !flag.is_empty())).into_command();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(rows.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_secs(2));
        let asked = web.seen().len();
        assert!((4..=16).contains(&asked), "{asked} requests of 200 {order}");
        let mut archive = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut archive).unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(members(&archive).len(), 400);
    }
}

#[test]
fn bodies_wait_for_room_instead_of_filling_the_memory() {
    let body = vec![7; 1 << 20];
    let web = Web::start(move |asked, wire| {
        if asked.path == "/0" {
            std::thread::sleep(Duration::from_millis(500));
        }
        reply(wire, "200 OK", "", &body);
    });
    let rows: String = (0..40).map(|i| format!("{}/{i}\n", web.url)).collect();
    let flags = ["--allow-private", "--window-bytes", "3M", "--per-host", "40"];
    let codes = codes(&flags, &rows, &[]);
    assert!(codes.len() == 40 && codes.values().all(|code| code == "success"), "{codes:?}");
}

#[test]
fn the_oldest_row_is_tried_again_while_all_others_wait_for_room() {
    let (body, is_first) = (vec![7; 1 << 20], AtomicBool::new(true));
    let web = Web::start(move |asked, wire| match asked.path == "/0" && is_first.swap(false, Ordering::SeqCst) {
        true => reply(wire, "503 Busy", "", b""),
        false => reply(wire, "200 OK", "", &body),
    });
    let rows: String = (0..20).map(|i| format!("{}/{i}\n", web.url)).collect();
    // No number of pieces fills it: what is left is too little for any of those that hold the host's places.
    let flags = ["--allow-private", "--window-bytes", "3000001", "--per-host", "4"];
    let codes = codes(&flags, &rows, &[]);
    assert!(codes.len() == 20 && codes.values().all(|code| code == "success"), "{codes:?}");
}
