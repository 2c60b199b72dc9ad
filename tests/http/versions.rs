//! A file that changes on its server while it is read: what comes out is one version or an error, never both.

use std::net::TcpStream;

use crate::support::archives::noise;
use crate::support::server::{Request, Server, respond};
use crate::support::{Archive, run};

/// Where the first connection drops.
const DROPPED: usize = 70_000;

/// One member, different in every version.
fn version(number: u64, bytes: usize) -> Vec<u8> {
    Archive::new().file("a.bin", &noise(number, bytes)).whole()
}

/// Answers with the range that was asked for, or with everything.
fn serve(request: &Request, stream: &mut TcpStream, headers: &str, body: &[u8]) {
    match request.header("range") {
        None => respond(stream, "200 OK", headers, body, usize::MAX),
        Some(range) => {
            let start: usize = range["bytes=".len()..].trim_end_matches('-').parse().unwrap();
            let headers = format!("{headers}Content-Range: bytes {start}-{}/{}\r\n", body.len() - 1, body.len());
            respond(stream, "206 Partial Content", &headers, &body[start..], usize::MAX);
        }
    }
}

/// A server that drops the first connection, with these headers, and then has `second` with those.
fn changing(headers: [&'static str; 2], second: Vec<u8>, has_ranges: bool) -> Server {
    let first = version(1, 200_000);
    Server::start(move |request, number, stream| match number {
        0 => respond(stream, "200 OK", headers[0], &first, DROPPED),
        _ if has_ranges => serve(request, stream, headers[1], &second),
        _ => respond(stream, "200 OK", headers[1], &second, usize::MAX),
    })
}

const NOW: &str = "Last-Modified: Tue, 17 Nov 2026 10:00:00 GMT\r\nDate: Tue, 17 Nov 2026 10:00:01 GMT\r\n";
const SETTLED: &str = "Last-Modified: Tue, 17 Nov 2026 10:00:00 GMT\r\nDate: Tue, 17 Nov 2026 11:00:00 GMT\r\n";

#[test]
fn two_versions_of_a_file_are_never_joined() {
    let tag = "ETag: \"v1\"\r\n";
    for (name, headers, bytes) in [
        ("no validator", ["", ""], 200_000),
        ("no validator, another length", ["", ""], 300_000),
        ("a weak tag", ["ETag: W/\"v1\"\r\n", "ETag: W/\"v1\"\r\n"], 200_000),
        ("another weak tag", ["ETag: W/\"v1\"\r\n", "ETag: W/\"v2\"\r\n"], 200_000),
        ("another tag, in spite of If-Range", [tag, "ETag: \"v2\"\r\n"], 200_000),
        ("a tag that is gone", [tag, ""], 200_000),
        ("the same tag for another length", [tag, tag], 300_000),
        ("a date of this second", [NOW, NOW], 200_000),
        ("a date that is gone", [SETTLED, ""], 200_000),
        ("the same date for another length", [SETTLED, SETTLED], 300_000),
    ] {
        for has_ranges in [true, false] {
            let validated = headers[0] == headers[1] && [tag, SETTLED].contains(&headers[0]);
            if validated && bytes == 200_000 {
                continue; // nobody could tell
            }
            let server = changing(headers, version(2, bytes), has_ranges);
            let done = run("tarcat", [&server.url]).done();
            let said = done.stderr_text();
            assert_eq!(done.status_code(), 1, "{name}, ranges {has_ranges}: {said}");
            assert!(said.contains("changed on the server while it was read"), "{name}, ranges {has_ranges}: {said}");
            assert!(!done.stdout().ends_with(&[0; 1024]), "{name}, ranges {has_ranges}: the output looks whole");
        }
    }
}

#[test]
fn a_file_that_stays_the_same_is_read_to_its_end() {
    for (headers, if_range) in [
        ("", None),
        ("ETag: W/\"v1\"\r\n", None),
        (NOW, None),
        ("ETag: \"v1\"\r\n", Some("\"v1\"")),
        (SETTLED, Some("Tue, 17 Nov 2026 10:00:00 GMT")),
    ] {
        for has_ranges in [true, false] {
            let server = changing([headers, headers], version(1, 200_000), has_ranges);
            let out = run("tarcat", [&server.url]).ok();
            assert!(out == version(1, 200_000), "{headers:?}, ranges {has_ranges}");
            let again = server.requests()[1].clone();
            assert_eq!(again.header("if-range"), if_range, "{headers:?}");
            assert_eq!(again.header("range").is_some(), if_range.is_some(), "{headers:?}");
        }
    }
}

#[test]
fn without_a_validator_the_bytes_decide() {
    // What a server makes anew for each request has another date each time.
    let dates =
        ["Last-Modified: Tue, 17 Nov 2026 10:00:00 GMT\r\n", "Last-Modified: Tue, 17 Nov 2026 10:00:05 GMT\r\n"];
    for headers in [dates, ["ETag: W/\"v1\"\r\n", "ETag: W/\"v2\"\r\n"], ["", "ETag: \"v2\"\r\n"]] {
        let server = changing(headers, version(1, 200_000), true);
        assert!(run("tarcat", [&server.url]).ok() == version(1, 200_000), "{headers:?}");
    }
    // Another end behind the same beginning: then all of it is the second version.
    let mut second = version(1, 200_000);
    second[DROPPED + 1000..DROPPED + 2000].fill(7);
    let server = changing(["", ""], second.clone(), true);
    assert!(run("tarcat", [&server.url]).ok() == second);
}

#[test]
fn a_connection_that_drops_before_the_end_of_what_is_there_is_tried_again() {
    let body = version(1, 200_000);
    let sent = [DROPPED, 20_000, DROPPED + 10, 0];
    let server = Server::start(move |_, number, stream| {
        respond(stream, "200 OK", "", &body, sent.get(number).copied().unwrap_or(usize::MAX));
    });
    assert!(run("tarcat", [&server.url]).ok() == version(1, 200_000));
    assert_eq!(server.requests().len(), 5);
}

#[test]
fn a_file_that_changes_before_its_first_byte_is_read_as_it_is_then() {
    let server = Server::start(|_, number, stream| {
        let headers = format!("ETag: \"v{number}\"\r\n");
        respond(stream, "200 OK", &headers, &version(number as u64, 50_000), if number == 0 { 0 } else { usize::MAX });
    });
    assert!(run("tarcat", [&server.url]).ok() == version(1, 50_000));
}

/// A store that has another version after the first answer, and ignores what it is asked to compare.
#[cfg(feature = "stores")]
fn changing_store(headers: [&'static str; 2], bodies: [Vec<u8>; 2]) -> Server {
    Server::start(move |request, number, stream| {
        let (headers, body) = (headers[number.min(1)], &bodies[number.min(1)]);
        let (start, end) = request.header("range").unwrap()["bytes=".len()..].split_once('-').unwrap();
        let start: usize = start.parse().unwrap();
        let end = (end.parse::<usize>().unwrap() + 1).min(body.len());
        let headers = format!("{headers}Content-Range: bytes {start}-{}/{}\r\n", end - 1, body.len());
        respond(stream, "206 Partial Content", &headers, &body[start..end], usize::MAX);
    })
}

#[test]
#[cfg(feature = "stores")]
fn the_ranges_of_an_object_are_those_of_one_version() {
    const FIRST: &str = "ETag: \"v1\"\r\nLast-Modified: Tue, 17 Nov 2026 10:00:00 GMT\r\n";
    let (size, one) = (3_000_000, version(1, 3_000_000));
    let read = |server: &Server| {
        let args = ["--endpoint", &server.url, "s3://bucket/a.tar"];
        let run = run("tarcat", args).env("AWS_ACCESS_KEY_ID", "k").env("AWS_SECRET_ACCESS_KEY", "s");
        run.env("AWS_REGION", "us-east-1").done()
    };
    for (name, second, bytes) in [
        ("another tag", "ETag: \"v2\"\r\nLast-Modified: Tue, 17 Nov 2026 10:00:00 GMT\r\n", size),
        ("another date", "ETag: \"v1\"\r\nLast-Modified: Tue, 17 Nov 2026 10:00:01 GMT\r\n", size),
        ("another length", FIRST, size + 1000),
    ] {
        let done = read(&changing_store([FIRST, second], [one.clone(), version(2, bytes)]));
        let said = done.stderr_text();
        assert_eq!(done.status_code(), 1, "{name}: {said}");
        assert!(said.contains("changed on the server while it was read"), "{name}: {said}");
    }
    assert!(read(&changing_store([FIRST, FIRST], [one.clone(), one.clone()])).status(0).stdout() == one);
}
