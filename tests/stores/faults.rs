//! Servers that are busy, connections that drop, objects that change.

use super::proxy::{Act, Asked, Proxy, SLOW_DOWN};
use super::round_trips::large;
use super::server::store;
use crate::support::Archive;

fn is_part(asked: &Asked) -> bool {
    asked.method == "PUT" && asked.target.contains("partNumber=")
}

#[test]
fn a_busy_server_is_asked_again() {
    let archive = Archive::of_samples(5).whole();
    store().put("test/busy/a.tar", &archive);
    let proxy =
        Proxy::start(store().endpoint(), |_, number| if number < 2 { Act::Answer(SLOW_DOWN) } else { Act::Pass });
    let read = store().run("tarcat", ["s3://test/busy/a.tar"]).env("AWS_ENDPOINT_URL", &proxy.url);
    assert!(read.ok() == archive);
    assert_eq!(proxy.requests().len(), 3);
}

#[test]
fn a_server_that_stays_busy_is_given_up() {
    let proxy = Proxy::start(store().endpoint(), |_, _| Act::Answer(SLOW_DOWN));
    let with_proxy =
        |tool, args: &[&str]| store().run(tool, args).env("AWS_ENDPOINT_URL", &proxy.url).env("AWS_MAX_ATTEMPTS", "3");
    let said = "the server answers 503 Service Unavailable (SlowDown), given up after 3 attempts";
    with_proxy("tarcat", &["s3://test/a.tar"]).fails(1, &format!("tarcat: s3://test/a.tar: {said}"));
    assert_eq!(proxy.requests().len(), 3);
    let write = with_proxy("tarcat", &["-o", "s3://test/a.tar"]).stdin(Archive::of_samples(2).whole());
    write.fails(1, &format!("tarcat: s3://test/a.tar: {said}"));
    assert_eq!(proxy.requests().len(), 6);
    with_proxy("tarcat", &["s3://test/*.tar"]).fails(1, &format!("tarcat: s3://test/*.tar: cannot list: {said}"));
}

#[test]
fn parts_are_sent_again_and_the_object_is_whole() {
    let archive = large();
    let proxy = Proxy::start(store().endpoint(), |asked, number| match number % 2 {
        0 if is_part(asked) || asked.target.contains("uploadId") => Act::Answer(SLOW_DOWN),
        _ => Act::Pass,
    });
    let write = store().run("tarcat", ["-o", "s3://test/again/a.tar"]).env("AWS_ENDPOINT_URL", &proxy.url);
    write.stdin(archive.clone()).ok();
    assert!(store().get("test/again/a.tar").unwrap() == archive);
    assert!(proxy.requests().iter().filter(|asked| is_part(asked)).count() > 4);
}

#[test]
fn connections_cut_in_the_middle_are_resumed_where_they_broke() {
    let archive = large();
    store().put("test/cut/a.tar", &archive);
    let proxy =
        Proxy::start(store().endpoint(), |_, number| if number % 2 == 0 { Act::Cut(300_000) } else { Act::Pass });
    let read = store().run("tarcat", ["s3://test/cut/a.tar"]).env("AWS_ENDPOINT_URL", &proxy.url);
    assert!(read.ok() == archive);
    let starts: Vec<u64> = proxy.requests().iter().filter_map(start_of).collect();
    assert!(starts.iter().any(|start| start % (1 << 20) != 0), "nothing was resumed in the middle: {starts:?}");
}

fn start_of(asked: &Asked) -> Option<u64> {
    asked.range.as_ref()?.strip_prefix("bytes=")?.split('-').next()?.parse().ok()
}

#[test]
fn uploads_survive_cut_connections() {
    let archive = large();
    let proxy = Proxy::start(store().endpoint(), |asked, number| match number % 3 {
        1 if is_part(asked) => Act::Cut(0),
        _ => Act::Pass,
    });
    let write = store().run("tarcat", ["-o", "s3://test/cutput/a.tar"]).env("AWS_ENDPOINT_URL", &proxy.url);
    write.stdin(archive.clone()).ok();
    assert!(store().get("test/cutput/a.tar").unwrap() == archive);
}

#[test]
fn what_changes_while_it_is_read_is_not_glued_together() {
    store().put("test/changed/a.tar", &large());
    let changed = "HTTP/1.1 412 Precondition Failed\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let proxy = Proxy::start(store().endpoint(), move |asked, _| match start_of(asked) {
        Some(start) if start > 10 << 20 => Act::Answer(changed),
        _ => Act::Pass,
    });
    let done = store().run("tarcat", ["s3://test/changed/a.tar"]).env("AWS_ENDPOINT_URL", &proxy.url).done().status(1);
    done.stderr_has("changed on the server while it was read");
}

#[test]
fn a_part_that_is_refused_leaves_neither_object_nor_upload() {
    let refusal = "HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let proxy = Proxy::start(store().endpoint(), move |asked, _| match is_part(asked) {
        true if asked.target.contains("partNumber=3") => Act::Answer(refusal),
        _ => Act::Pass,
    });
    let write = store().run("tarcat", ["-o", "s3://test/refused/a.tar"]).env("AWS_ENDPOINT_URL", &proxy.url);
    let done = write.stdin(large()).done().status(1);
    done.stderr("tarcat: s3://test/refused/a.tar: access denied");
    assert!(store().get("test/refused/a.tar").is_none());
    assert_eq!(store().unfinished("refused/a.tar"), 0);
}
