//! shardrun with its outputs in a bucket: what is there is done, by one listing.

use serde_json::Value;

use super::proxy::{Act, Proxy, SLOW_DOWN};
use super::server::{bare, store};
use crate::support::dir;

const DENIED: &str = "HTTP/1.1 403 Forbidden\r\nContent-Type: application/xml\r\nConnection: close\r\n\
    Content-Length: 41\r\n\r\n<Error><Code>AccessDenied</Code></Error>\r\n";

/// How many of the items that a run has begun are in its file `ran`.
fn ran(folder: &std::path::Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("ran")).unwrap_or_default();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn what_is_in_the_bucket_is_done_and_a_listing_tells() {
    let folder = dir();
    let path = folder.path();
    // A key that has to be encoded, and one below another folder that is not ours.
    let output = "s3://test/runs/a b-ü/{:03}.txt";
    let flags = ["-n", "12", "-o", output, "echo {} >>ran; echo {}"];
    store().put("test/runs/a%20b-%C3%BC/004.txt", b"somebody else's\n");
    store().run("shardrun", flags).cwd(path).ok();
    assert_eq!(ran(path).len(), 11);
    assert_eq!(store().get("test/runs/a b-ü/004.txt").unwrap(), b"somebody else's\n");
    assert_eq!(store().get("test/runs/a b-ü/011.txt").unwrap(), b"11\n");
    // What was taken away is made again, whatever the job log says.
    store().delete("test/runs/a%20b-%C3%BC/007.txt");
    let status = |name: &str| {
        let said = store().run("shardrun", ["status", "--json"]).cwd(path).ok();
        serde_json::from_slice::<Value>(&said).unwrap()[name].as_u64().unwrap()
    };
    assert_eq!((status("done"), status("left")), (11, 1));
    let proxy = Proxy::start(store().endpoint(), |_, _| Act::Pass);
    store().run("shardrun", flags).cwd(path).env("AWS_ENDPOINT_URL", &proxy.url).ok();
    assert_eq!(ran(path).iter().filter(|item| *item == "7").count(), 2);
    assert_eq!(ran(path).len(), 12);
    let listings = proxy.requests().iter().filter(|asked| asked.target.contains("list-type=2")).count();
    assert_eq!((listings, proxy.requests().len()), (1, 2), "one listing, and what was missing");
    // Another run knows it too.
    let fresh = dir();
    store()
        .run("shardrun", ["-v"].iter().chain(&flags))
        .cwd(fresh.path())
        .done()
        .status(0)
        .stderr("shardrun: all 12 items are done\nshardrun: 0 items");
}

#[test]
fn items_that_name_their_buckets_take_a_listing_each() {
    let folder = dir();
    let path = folder.path();
    store().put("public/apart/y.out", b"");
    let proxy = Proxy::start(store().endpoint(), |_, _| Act::Pass);
    let flags = ["-o", "{dir}/{base}.out", "echo {base} >>ran"];
    let items = ["s3://test/apart/x.tar", "s3://test/apart/z.tar", "s3://public/apart/y.tar"];
    store().run("shardrun", flags.iter().chain(&items)).cwd(path).env("AWS_ENDPOINT_URL", &proxy.url).ok();
    assert_eq!(ran(path), ["x", "z"]);
    let listings = proxy.requests().iter().filter(|asked| asked.target.contains("list-type=2")).count();
    assert_eq!(listings, 2);
}

#[test]
fn a_bucket_that_cannot_be_listed_leaves_it_to_the_job_log() {
    let folder = dir();
    let path = folder.path();
    let proxy = Proxy::start(store().endpoint(), |asked, _| {
        if asked.target.contains("list-type=2") { Act::Answer(DENIED) } else { Act::Pass }
    });
    let run = || {
        let flags = ["-n", "2", "-o", "s3://test/hidden/{}.txt", "echo {} >>ran; echo {}"];
        store().run("shardrun", flags).cwd(path).env("AWS_ENDPOINT_URL", &proxy.url).done().status(0)
    };
    let said = "shardrun: s3://test/hidden/: cannot list: the server answers 403 Forbidden (AccessDenied); relying on the job log";
    run().stderr(said);
    run().stderr(said);
    assert_eq!(ran(path), ["0", "1"]);
    // A server that is only busy is asked again.
    let busy =
        Proxy::start(store().endpoint(), |_, before| if before == 0 { Act::Answer(SLOW_DOWN) } else { Act::Pass });
    let flags = ["-n", "2", "-o", "s3://test/hidden/{}.txt", "echo {} >>ran; echo {}"];
    store().run("shardrun", flags).cwd(path).env("AWS_ENDPOINT_URL", &busy.url).ok();
    assert_eq!(ran(path), ["0", "1"]);
}

#[test]
fn the_endpoint_goes_with_the_run() {
    let folder = dir();
    let path = folder.path();
    let flags = ["-n", "2", "--run", "r", "-o", "s3://public/with/{}.txt", "echo {}"];
    bare("shardrun", ["--endpoint", store().endpoint()].iter().chain(&flags)).cwd(path).ok();
    // Neither status nor a worker is told again.
    let nobody = |args: &[&str]| bare("shardrun", args).cwd(path);
    let said = String::from_utf8(nobody(&["status", "r"]).ok()).unwrap();
    assert!(said.contains("2 of 2 done"), "{said}");
    store().delete("public/with/1.txt");
    nobody(&["retry", "r"]).ok();
    assert_eq!(store().get("public/with/1.txt").unwrap(), b"1\n");
    let launcher = "#!/bin/bash\nhead=$(head -n 1 $3/000000.jsonl)\ntail -n +2 $3/000000.jsonl |\n\
        while read -r task; do printf '%s\\n%s\\n' \"$head\" \"$task\" | $7 item -; done | $7 record $5\n";
    std::fs::write(path.join("launcher"), launcher).unwrap();
    crate::support::bash("chmod +x launcher").cwd(path).ok();
    let driven = ["--endpoint", store().endpoint(), "--on", "ray", "--launcher", "./launcher", "--run", "d", "-n", "1"];
    nobody(&[&driven[..], &["-o", "s3://public/driven/{}.txt", "echo {}"]].concat()).ok();
    assert_eq!(store().get("public/driven/0.txt").unwrap(), b"0\n");
}

#[test]
fn a_task_looks_for_its_object_before_it_runs() {
    let folder = dir();
    let path = folder.path();
    store().put("test/late/0.txt", b"another copy's\n");
    let head = format!(
        r#"{{"shardrun":"","pipeline":"echo {{}} >>ran; echo {{}}","output":"s3://test/late/{{}}.txt","also":[],"count":2,"numbers":true,"sha256":"","cwd":"{}","retries":0,"timeout":null,"jitter":null,"redo":false,"max_failures":null}}"#,
        path.display()
    );
    let task =
        |head: &str| store().run("shardrun", ["item", "-"]).stdin(format!("{head}\n[[0,\"0\"],[1,\"1\"]]\n")).ok();
    task(&head);
    assert_eq!(ran(path), ["1"]);
    assert_eq!(store().get("test/late/0.txt").unwrap(), b"another copy's\n");
    task(&head.replace("\"redo\":false", "\"redo\":true"));
    assert_eq!(ran(path), ["0", "1", "1"]);
}
