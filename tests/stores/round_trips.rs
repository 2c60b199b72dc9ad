//! What is written comes back, through names of every kind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::proxy::{Act, Proxy};
use super::server::store;
use crate::support::archives::noise;
use crate::support::{Archive, dir, names, words};

/// An archive that takes several parts and ranges.
pub fn large() -> Vec<u8> {
    let archive = (0..12).fold(Archive::of_samples(10), |archive, i| {
        archive.file(&format!("large{i}.bin"), &noise(i, 2_500_000 + i as usize))
    });
    archive.whole()
}

#[test]
fn an_object_of_many_parts_comes_back_byte_for_byte() {
    let archive = large();
    store().run("tarcat", ["-o", "s3://test/parts/a.tar"]).stdin(archive.clone()).ok();
    assert!(store().get("test/parts/a.tar").unwrap() == archive);
    assert!(store().run("tarcat", ["s3://test/parts/a.tar"]).ok() == archive);
    assert_eq!(store().unfinished("parts/a.tar"), 0);
}

#[test]
fn small_and_empty_objects_are_objects() {
    let archive = Archive::of_samples(3).whole();
    store().run("tarcat", ["-o", "s3://test/small/a b-ü.tar"]).stdin(archive.clone()).ok();
    assert!(store().run("tarcat", ["s3://test/small/a b-ü.tar"]).ok() == archive);
    store().put("test/small/empty.tar", b"");
    let done = store().run("tarcat", ["s3://test/small/empty.tar"]).done().status(1);
    done.stderr("tarcat: s3://test/small/empty.tar: byte 0: empty input: expected a tar archive");
}

#[test]
fn the_suffix_chooses_the_compression_there_too() {
    let archive = Archive::of_samples(3).whole();
    store().run("tarcat", ["-o", "s3://test/packed/a.tar.zst"]).stdin(archive.clone()).ok();
    assert!(store().get("test/packed/a.tar.zst").unwrap().starts_with(&[0x28, 0xb5, 0x2f, 0xfd]));
    assert!(store().run("tarcat", ["s3://test/packed/a.tar.zst"]).ok() == archive);
}

#[test]
fn shards_are_found_by_range_by_pattern_and_by_folder() {
    let archive = Archive::of_samples(50).whole();
    let split = ["-n", "10", "--stats", "-o", "s3://test/found/set/d-{shard:03}.tar"];
    store().run("tarsplit", split).stdin(archive.clone()).ok();
    store().put("test/found/set/below/x.tar", &Archive::new().whole());
    store().put("test/found/setter.tar", &Archive::new().file("other.txt", b"x").whole());
    let read = |name: &str| names(&store().run("tarcat", [name]).ok());
    let all = names(&archive);
    assert_eq!(read("s3://test/found/set/d-{000..004}.tar"), all);
    assert_eq!(read("s3://test/found/set/*.tar"), all);
    assert_eq!(read("s3://test/found/set/d-00[0-3].tar::s3://test/found/set/d-00?.tar").len(), all.len() * 9 / 5);
    assert_eq!(read("s3://test/found/s*/d-*.tar"), all);
    let done = store().run("tarcat", ["s3://test/found/set/"]).done().status(1);
    done.stderr_has("s3://test/found/set/d-000.stats.json");
    let done = store().run("tarcat", ["s3://test/found/set/none-*.tar"]).done().status(1);
    done.stderr("tarcat: s3://test/found/set/none-*.tar: no matching objects");
}

#[test]
fn a_pattern_costs_one_listing() {
    let archive = Archive::of_samples(20).whole();
    store().run("tarsplit", ["-n", "2", "-o", "s3://test/once/%03d.tar"]).stdin(archive.clone()).ok();
    let proxy = Proxy::start(store().endpoint(), |_, _| Act::Pass);
    let read = store().run("tarcat", ["s3://test/once/*.tar"]).env("AWS_ENDPOINT_URL", &proxy.url);
    assert_eq!(names(&read.ok()), names(&archive));
    let listings = proxy.requests().iter().filter(|asked| asked.target.contains("list-type=2")).count();
    assert_eq!((listings, proxy.requests().len()), (1, 11), "one listing and a request for each object");
}

#[test]
fn the_next_shard_is_asked_for_before_this_one_is_read() {
    let first = (0..30).fold(Archive::new(), |archive, i| archive.file(&format!("f{i}.bin"), &noise(i, 2 << 20)));
    let first = first.whole();
    store().run("tarcat", ["-o", "s3://test/next/0.tar"]).stdin(first).ok();
    store().run("tarcat", ["-o", "s3://test/next/1.tar"]).stdin(Archive::of_samples(2).whole()).ok();
    for (tool, flags) in [("tarcat", "--count 100"), ("tarcat", "--select true"), ("tarcheck", "-p 1")] {
        let proxy = Proxy::start(store().endpoint(), |_, _| Act::Pass);
        let args = flags.split(' ').chain(["s3://test/next/{0..1}.tar"]);
        store().run(tool, args).env("AWS_ENDPOINT_URL", &proxy.url).ok();
        let order: Vec<bool> = proxy.requests().iter().map(|asked| asked.target.contains("/1.tar")).collect();
        let next = order.iter().position(|&is_next| is_next).unwrap();
        let last = order.iter().rposition(|&is_next| !is_next).unwrap();
        assert!(next < last, "{tool} {flags}: {order:?}");
        assert_eq!(order.iter().filter(|&&is_next| is_next).count(), 1, "{tool} {flags}: asked for twice");
    }
}

#[test]
fn a_shard_is_cut_while_the_last_one_is_sent() {
    let next_has_come = Arc::new(AtomicBool::new(false));
    let (seen, archive) = (Arc::clone(&next_has_come), Archive::of_samples(4).whole());
    // The first shard is not taken before the second is on its way. The listing before the run is.
    let proxy = Proxy::start(store().endpoint(), move |asked, _| {
        if !asked.target.contains(".tar") {
            return Act::Pass;
        }
        seen.fetch_or(asked.target.contains("/1.tar"), Ordering::SeqCst);
        let started = Instant::now();
        while !seen.load(Ordering::SeqCst) && started.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(10));
        }
        if seen.load(Ordering::SeqCst) {
            Act::Pass
        } else {
            Act::Answer("HTTP/1.1 400 Too Late\r\nContent-Length: 0\r\n\r\n")
        }
    });
    let split = store().run("tarsplit", ["-n", "2", "-o", "s3://test/while/{shard}.tar"]);
    split.env("AWS_ENDPOINT_URL", &proxy.url).stdin(archive.clone()).ok();
    assert_eq!(names(&store().run("tarcat", ["s3://test/while/{0..1}.tar"]).ok()), names(&archive));
}

#[test]
fn shards_in_a_store_are_checked_and_indexed() {
    store().put("test/check/0.tar", &Archive::of_samples(3).whole());
    store().put("test/check/1.tar", &Archive::new().file("s0001.jpg", b"again").whole());
    let done = store().run("tarcheck", ["s3://test/check/{0..1}.tar"]).done().status(1);
    done.stderr_has(
        "s3://test/check/1.tar: byte 0: sample s0001: duplicate of the key at byte 3584 of s3://test/check/0.tar",
    );
    store().run("tarcheck", ["--index", "s3://test/check/0.tar"]).ok();
    assert!(store().get("test/check/0.idx").is_some());
}

#[test]
fn tables_in_a_store_are_read() {
    store().put("test/tables/a.csv", b"url\nhttp://h/1\n");
    store().put("test/tables/b.csv", b"url\nhttp://h/2\n");
    let rows = store().run("urlcat", ["s3://test/tables/*.csv"]).done().status(0).stdout_text();
    assert!(rows.contains("http://h/1") && rows.contains("http://h/2"), "{rows}");
}

#[test]
fn a_site_s_own_client_goes_first() {
    let archive = Archive::of_samples(2).whole();
    let folder = dir();
    std::fs::write(folder.path().join("a.tar"), &archive).unwrap();
    let read = words("tarcat", "s3://nowhere/a.tar").cwd(folder.path()).env("GOPEN_S3", "u={}; cat \"${u##*/}\"");
    assert!(read.ok() == archive);
    let write =
        words("tarcat", "-o s3://nowhere/b.tar a.tar").cwd(folder.path()).env("GCREATE_S3", "cat > b.tar; : {}");
    write.ok();
    assert!(std::fs::read(folder.path().join("b.tar")).unwrap() == archive);
}
