//! Sources and sinks over HTTP, against servers that misbehave and against a real nginx.

mod environment;
mod versions;

use std::process::Stdio;

use crate::support::server::{Request, Server, respond};
use crate::support::{Archive, bash, dir, names, run};

/// Answers with the rest that a Range header asks for, and sends at most `sent` bytes of it.
fn serve_range(request: &Request, stream: &mut std::net::TcpStream, body: &[u8], sent: usize) {
    let start = request.header("range").map(|range| range["bytes=".len()..].trim_end_matches('-').parse().unwrap());
    match start {
        None => respond(stream, "200 OK", "ETag: \"v1\"\r\n", body, sent),
        Some(start) => {
            let range = format!("ETag: \"v1\"\r\nContent-Range: bytes {start}-{}/{}\r\n", body.len() - 1, body.len());
            respond(stream, "206 Partial Content", &range, &body[start..], sent);
        }
    }
}

#[test]
fn a_dropped_connection_is_resumed_by_range() {
    let archive = Archive::of_samples(100).whole();
    let body = archive.clone();
    let server = Server::start(move |request, _, stream| serve_range(request, stream, &body, 50_000));
    let out = run("tarcat", [format!("{}/a.tar", server.url)]).ok();
    assert!(out == archive);
    let ranges: Vec<_> = server.requests().iter().map(|r| r.header("range").map(str::to_owned)).collect();
    assert_eq!(ranges[..3], [None, Some("bytes=50000-".into()), Some("bytes=100000-".into())]);
    assert_eq!(server.requests()[1].header("if-range"), Some("\"v1\""));
}

#[test]
fn a_server_without_ranges_is_read_past_what_is_there() {
    let archive = Archive::of_samples(100).whole();
    let body = archive.clone();
    let server = Server::start(move |_, number, stream| {
        respond(stream, "200 OK", "", &body, if number == 0 { 70_000 } else { usize::MAX });
    });
    assert!(run("tarcat", [&server.url]).ok() == archive);
}

#[test]
fn what_changes_on_the_server_is_not_glued_together() {
    let body = Archive::of_samples(100).whole();
    let server = Server::start(move |_, number, stream| {
        respond(stream, "200 OK", &format!("ETag: \"v{number}\"\r\n"), &body, 70_000);
    });
    let done = run("tarcat", [&server.url]).done().status(1);
    done.stderr_has("changed on the server while it was read");
}

#[test]
fn a_passing_fault_is_asked_again_and_a_final_one_is_not() {
    let archive = Archive::of_samples(3).whole();
    let body = archive.clone();
    let server = Server::start(move |_, number, stream| match number {
        0 => respond(stream, "503 Service Unavailable", "Retry-After: 0\r\n", b"", 0),
        _ => respond(stream, "200 OK", "", &body, usize::MAX),
    });
    assert!(run("tarcat", [&server.url]).ok() == archive);
    let server = Server::start(|_, _, stream| respond(stream, "404 Not Found", "", b"no", 2));
    run("tarcat", [&server.url]).fails(1, &format!("tarcat: {}: the server answers 404 Not Found", server.url));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn redirects_are_followed_but_not_for_ever() {
    let archive = Archive::of_samples(3).whole();
    let body = archive.clone();
    let server = Server::start(move |request, _, stream| match request.path.as_str() {
        "/there" => respond(stream, "200 OK", "", &body, usize::MAX),
        "/loop" => respond(stream, "302 Found", "Location: /loop\r\n", b"", 0),
        _ => respond(stream, "302 Found", "Location: /there\r\n", b"", 0),
    });
    assert!(run("tarcat", [format!("{}/here", server.url)]).ok() == archive);
    run("tarcat", [format!("{}/loop", server.url)]).done().status(1).stderr_has("too many redirects");
}

#[test]
fn an_upload_is_whole_or_broken_off() {
    let server = Server::start(|_, _, stream| respond(stream, "201 Created", "", b"", 0));
    let archive = Archive::of_samples(50).whole();
    run("tarcat", ["-o", &format!("{}/x.tar", server.url)]).stdin(archive.clone()).ok();
    run("tarcat", ["-o", &format!("{}/y.tar", server.url)]).stdin(&archive[..40_000]).done().status(1);
    let seen = server.requests();
    assert_eq!((seen[0].method.as_str(), seen[0].path.as_str(), seen[0].whole), ("PUT", "/x.tar", true));
    assert!(seen[0].body == archive);
    assert!(seen.get(1).is_none_or(|request| !request.whole), "a cut-off body looked whole");
}

#[test]
fn a_refused_upload_is_a_failure() {
    let server = Server::start(|_, _, stream| respond(stream, "403 Forbidden", "", b"", 0));
    let url = format!("{}/x.tar", server.url);
    let done = run("tarcat", ["-o", &url]).stdin(Archive::of_samples(3).whole()).done().status(1);
    done.stderr(&format!("tarcat: {url}: the server answers 403 Forbidden"));
}

#[test]
fn an_upload_that_is_sent_elsewhere_is_not_taken_for_stored() {
    for status in ["301 Moved Permanently", "302 Found", "303 See Other", "307 Temporary Redirect"] {
        let server = Server::start(move |request, _, stream| match request.method.as_str() {
            "PUT" => respond(stream, status, "Location: /login\r\n", b"", 0),
            _ => respond(stream, "200 OK", "", b"who are you?", usize::MAX),
        });
        let url = format!("{}/x.tar", server.url);
        let done = run("tarcat", ["-o", &url]).stdin(Archive::of_samples(3).whole()).done().status(1);
        done.stderr(&format!("tarcat: {url}: the server answers {status}"));
    }
}

#[test]
fn commands_stand_for_schemes() {
    let folder = dir();
    let archive = Archive::of_samples(2).whole();
    std::fs::write(folder.path().join("a b.tar"), &archive).unwrap();
    let read = run("tarcat", ["my+s3://a b.tar"]).cwd(folder.path()).env("GOPEN_MY_S3", "u={}; cat \"${u#my+s3://}\"");
    assert!(read.ok() == archive);
    let write =
        run("tarcat", ["-o", "out://x.tar", "a b.tar"]).cwd(folder.path()).env("GCREATE_OUT", "cat > put.tar; : {}");
    write.ok();
    assert!(std::fs::read(folder.path().join("put.tar")).unwrap() == archive);
    run("tarcat", ["ftp://b/x.tar"])
        .fails(1, "tarcat: ftp://b/x.tar: no client for ftp:// (set GOPEN_FTP to a command, with {} for the name)");
}

#[test]
fn commands_that_fail_are_failures_at_both_ends() {
    let archive = Archive::of_samples(2).whole();
    let folder = dir();
    std::fs::write(folder.path().join("a.tar"), &archive).unwrap();
    let done = run("tarcat", ["pipe:cat a.tar; exit 7"]).cwd(folder.path()).done().status(1);
    done.stderr_has("the command failed with exit status 7");
    let done = run("tarcat", ["-o", "pipe:cat >/dev/null; exit 7"]).stdin(archive.clone()).done().status(1);
    done.stderr("tarcat: pipe:cat >/dev/null; exit 7: the command failed with exit status 7");
    let done = run("tarcat", ["-o", "|exit 9"]).stdin(Archive::of_samples(400).whole()).done().status(1);
    done.stderr_has("tarcat: |exit 9: ");
}

#[test]
fn nginx_is_read_and_written() {
    let folder = dir();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config = format!(
        "daemon off; pid nginx.pid; error_log stderr crit; events {{}} http {{ access_log off;
         client_body_temp_path body; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
         server {{ listen 127.0.0.1:{port}; root www; client_max_body_size 0; dav_methods PUT; create_full_put_path on; }} }}"
    );
    std::fs::create_dir(folder.path().join("www")).unwrap();
    // Its workers run as another user, who must reach the folder.
    bash("chmod -R a+rwX .").cwd(folder.path()).ok();
    std::fs::write(folder.path().join("nginx.conf"), config).unwrap();
    let mut nginx = bash("exec nginx -p . -e stderr -c nginx.conf").cwd(folder.path()).into_command();
    let mut nginx = nginx.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(nginx.try_wait().unwrap().is_none(), "nginx ended");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let url = format!("http://127.0.0.1:{port}");
    let archive = Archive::of_samples(500).whole();
    let put = run("tarsplit", ["-n", "100", "-o", &format!("{url}/d/%03d.tar")]).stdin(archive.clone()).done();
    let got = run("tarcat", [format!("{url}/d/{{000..004}}.tar")]).done();
    // TERM, not KILL: its workers must go too.
    bash(&format!("kill {}", nginx.id())).ok();
    nginx.wait().unwrap();
    put.status(0).stderr("");
    assert_eq!(names(&got.status(0).stderr("").stdout()), names(&archive));
}
