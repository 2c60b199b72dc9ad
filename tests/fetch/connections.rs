//! fetch and its connections: where a body ends, when a connection serves again, and when it must not.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::web::{Asked, Web, read_request};
use crate::support::{Run, bash, dir, members, run};

const JPEG: &[u8] = b"\xff\xd8\xff\xe0 a small picture";

fn fetch(args: &str) -> Run {
    let flags = ["--allow-private", "--retries", "0", "--timeout", "20s"];
    run("fetch", args.split_whitespace().chain(flags)).env("no_proxy", "*")
}

/// The bodies of an archive whose samples are a file and its JSON.
fn bodies(archive: &[u8]) -> Vec<Vec<u8>> {
    members(archive).into_iter().step_by(2).map(|member| member.1).collect()
}

fn rows(web: &Web, count: usize) -> String {
    (0..count).map(|i| format!("{}/{i}\n", web.url)).collect()
}

/// A server that goes on after an answer for as long as `answer` says so, and how many connections it had.
fn lasting(answer: impl Fn(&Asked, &mut TcpStream) -> bool + Send + Sync + 'static) -> (Web, Arc<AtomicUsize>) {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let web = Web::start_raw(move |first, tcp| {
        counted.fetch_add(1, Ordering::SeqCst);
        let mut asked = Some(first.clone());
        while asked.is_some_and(|request| answer(&request, tcp)) {
            asked = read_request(tcp);
        }
    });
    (web, connections)
}

fn ok(tcp: &mut TcpStream, headers: &str, body: &[u8]) {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
    _ = tcp.write_all(&[head.as_bytes(), body].concat());
}

#[test]
fn a_body_ends_as_its_server_says() {
    let web = Web::start_raw(|asked, tcp| {
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\n\xff\xd8\xff\xe0\r\n10\r\n a small picture\r\n0\r\nA: b\r\n\r\n";
        let answer = match asked.path.as_str() {
            "/whole" => chunked.to_vec(),
            "/drops" => return chunked.chunks(1).for_each(|byte| _ = tcp.write_all(byte).and_then(|()| tcp.flush())),
            "/closing" => [&b"HTTP/1.0 200 OK\r\n\r\n"[..], JPEG].concat(),
            "/hints" => [
                &b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n"[..],
                JPEG,
            ]
            .concat(),
            "/cut" => chunked[..70].to_vec(),
            "/lengths" => [&b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\nContent-Length: 21\r\n\r\n"[..], JPEG].concat(),
            _ => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n".to_vec(),
        };
        _ = tcp.write_all(&answer);
    });
    let names = ["whole", "drops", "closing", "hints", "cut", "lengths", "nonsense"];
    let rows: String = names.iter().map(|name| format!("{}/{name}\n", web.url)).collect();
    let done = fetch("").stdin(rows).done().status(0);
    let stored = bodies(&done.stderr("fetch: 4 samples; failed 3 (2 protocol, 1 truncated)").stdout());
    assert_eq!(stored, vec![JPEG.to_vec(); 4]);
}

#[test]
fn a_connection_serves_again_also_after_a_refusal() {
    let (web, connections) = lasting(|asked, tcp| {
        match asked.path.ends_with('7') {
            true => _ = tcp.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone"),
            false => ok(tcp, "", JPEG),
        }
        true
    });
    let done = fetch("-j 1").stdin(rows(&web, 20)).done().status(0).stderr("fetch: 18 samples; failed 2 (2 http_4xx)");
    assert_eq!(bodies(&done.stdout()).len(), 18);
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

#[test]
fn a_connection_that_was_closed_meanwhile_is_no_failure() {
    for (headers, promise) in [("Connection: close\r\n", "kept"), ("", "broken")] {
        let (web, connections) = lasting(move |_, tcp| {
            ok(tcp, headers, JPEG);
            false
        });
        let folder = dir();
        let report = folder.path().join("report.jsonl");
        let archive = fetch(&format!("-j 1 --report {}", report.display())).stdin(rows(&web, 20)).ok();
        assert_eq!(bodies(&archive).len(), 20, "{promise}");
        assert_eq!(connections.load(Ordering::SeqCst), 20, "{promise}");
        let report = std::fs::read_to_string(report).unwrap();
        assert_eq!(report.matches("\"attempts\":1").count(), 20, "{report}");
    }
}

#[test]
fn an_answer_that_came_unasked_is_never_taken() {
    let (web, _) = lasting(|asked, tcp| {
        // In one piece: what comes after the next question passes for its answer, whoever the client is.
        let answer = |body: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        _ = tcp.write_all((answer(&format!("text of {}", asked.path)) + &answer("smuggled in")).as_bytes());
        true
    });
    let stored = bodies(&fetch("-j 1").stdin(rows(&web, 20)).ok());
    stored.iter().enumerate().for_each(|(i, body)| assert_eq!(*body, format!("text of /{i}").into_bytes()));
    assert_eq!(stored.len(), 20);
}

#[test]
fn idle_connections_make_room_for_others() {
    let webs: Vec<Web> = (0..60).map(|_| lasting(|_, tcp| (ok(tcp, "", JPEG), true).1).0).collect();
    let rows: String = (0..120).map(|i| format!("{}/{i}\n", webs[i % webs.len()].url)).collect();
    let folder = dir();
    std::fs::write(folder.path().join("rows"), rows).unwrap();
    // Half of these are for other files.
    let limited = format!("ulimit -n 64; fetch -j 64 --allow-private {}", folder.path().join("rows").display());
    assert_eq!(bodies(&bash(&limited).env("no_proxy", "*").ok()).len(), 120);
}

/// A server that accepts nobody has room for 128 that wait; the system tries again with what comes beyond that, after
/// seconds. As many are under way at once, and no more.
#[test]
fn connections_to_one_server_do_not_come_all_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let folder = dir();
    let rows: String = (0..700).map(|i| format!("{url}/{i}\n")).collect();
    std::fs::write(folder.path().join("rows"), rows).unwrap();
    let mut command = fetch("-j 700 --per-host 700 rows -o out.tar").cwd(folder.path()).into_command();
    let mut child = command.spawn().unwrap();
    let sockets = || {
        let open = std::fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap().flatten();
        open.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|link| link.to_string_lossy().starts_with("socket:")))
            .count()
    };
    let is_socket_count = |count: usize| (257..280).contains(&count);
    let until = Instant::now() + Duration::from_secs(60);
    while !is_socket_count(sockets()) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(500));
    let count = sockets();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_socket_count(count), "{count} sockets");
}
