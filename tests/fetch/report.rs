//! fetch's report: a row is a success when its sample is kept, and what is not kept can be fetched again.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::web::{Web, reply};
use crate::support::{Run, bash, dir, list, names, run, status};

const JPEG: &[u8] = b"\xff\xd8\xff\xe0 a small picture";

fn fetch(args: &str) -> Run {
    run("fetch", args.split_whitespace().chain(["--allow-private", "--retries", "0"])).env("no_proxy", "*")
}

fn web() -> Web {
    Web::start(|asked, wire| match asked.path.as_str() {
        "/missing" => reply(wire, "404 Not Found", "", b"no"),
        _ => reply(wire, "200 OK", "", JPEG),
    })
}

fn rows(web: &Web, count: usize) -> String {
    (0..count).map(|i| format!("{}/{i}.jpg\n", web.url)).collect()
}

/// How many rows of the report have each status and code.
fn counts(path: &Path) -> BTreeMap<String, usize> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        *counts.entry(format!("{} {}", text("status"), text("code")).trim().to_owned()).or_default() += 1;
    }
    counts
}

fn expect(path: &Path, expected: &[(&str, usize)]) {
    assert_eq!(counts(path), expected.iter().map(|&(name, count)| (name.to_owned(), count)).collect());
}

/// Waits until `ready` holds; a test that waits for ever fails.
fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let started = Instant::now();
    while !ready() {
        assert!(started.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn end(child: &mut Child, signal: Signal) -> i32 {
    kill_process(Pid::from_child(child), signal).unwrap();
    status(child.wait().unwrap())
}

#[test]
fn a_sample_in_a_finished_file_is_a_success_and_one_in_a_pipe_is_handed_on() {
    let (web, folder) = (web(), dir());
    let rows = format!("{}{}/missing\n", rows(&web, 3), web.url);
    let fifo = "mkfifo fifo; cat fifo > /dev/null & fetch --allow-private --report r.jsonl -o fifo; wait";
    bash(fifo).env("no_proxy", "*").cwd(folder.path()).stdin(rows.clone()).done().status(0);
    expect(&folder.path().join("r.jsonl"), &[("failed http_4xx", 1), ("handed_on", 3)]);
    for (args, status) in [("-o out.tar", "success"), ("", "handed_on"), ("-o pipe:cat", "success")] {
        for report in ["r.jsonl", "pipe:cat>r.jsonl"] {
            let args = format!("{args} --report {report}");
            fetch(&args).cwd(folder.path()).stdin(rows.clone()).done().status(0);
            expect(&folder.path().join("r.jsonl"), &[("failed http_4xx", 1), (status, 3)]);
            std::fs::remove_file(folder.path().join("r.jsonl")).unwrap();
        }
    }
}

#[test]
fn a_disk_that_is_full_leaves_no_success_and_all_rows_to_fetch_again() {
    let (web, folder) = (web(), dir());
    let rows = rows(&web, 200);
    let limited = "trap '' XFSZ; ulimit -f 64; exec fetch --allow-private --stats s.json --report r.jsonl -o out.tar";
    let done = bash(limited).env("no_proxy", "*").cwd(folder.path()).stdin(rows.clone()).done().status(1);
    done.stderr("fetch: out.tar: File too large");
    assert_eq!(list(folder.path()), ["r.jsonl", "s.json"]);
    let found = counts(&folder.path().join("r.jsonl"));
    assert_eq!(found.values().sum::<usize>(), 200, "{found:?}");
    assert!(found["failed not_kept"] > 0 && found["failed interrupted"] > 0 && found.len() == 2, "{found:?}");
    let stats: Value = serde_json::from_slice(&std::fs::read(folder.path().join("s.json")).unwrap()).unwrap();
    assert_eq!((&stats["success"], &stats["failed"]), (&0.into(), &200.into()));
    let again = fetch("--resume r.jsonl").cwd(folder.path()).stdin(rows).ok();
    assert_eq!(names(&again).len(), 400);
}

#[test]
fn an_output_that_fails_at_its_end_leaves_no_success() {
    let (web, folder) = (web(), dir());
    let args = ["--allow-private", "--report", "r.jsonl", "-o", "pipe:cat > /dev/null; exit 3"];
    run("fetch", args).env("no_proxy", "*").cwd(folder.path()).stdin(rows(&web, 5)).done().status(1);
    expect(&folder.path().join("r.jsonl"), &[("failed not_kept", 5)]);
}

#[test]
fn the_archive_is_there_before_the_report_of_it() {
    let (web, folder) = (web(), dir());
    let args = ["--allow-private", "--report", "pipe:cat > r; test -e out.tar && mv r r.jsonl", "-o", "out.tar"];
    run("fetch", args).env("no_proxy", "*").cwd(folder.path()).stdin(rows(&web, 5)).ok();
    expect(&folder.path().join("r.jsonl"), &[("success", 5)]);
}

#[test]
fn a_reader_that_leaves_keeps_nothing_for_sure() {
    let (web, folder) = (web(), dir());
    let rows = rows(&web, 3000);
    let script = "fetch --allow-private --report r.jsonl | head -c 3000 | wc -c";
    let said = bash(script).env("no_proxy", "*").cwd(folder.path()).stdin(rows).done().status(0).stdout_text();
    assert_eq!(said, "3000\n");
    let found = counts(&folder.path().join("r.jsonl"));
    assert!(found.keys().all(|kind| kind.starts_with("failed") || kind.starts_with("unread")), "{found:?}");
}

#[test]
fn a_table_that_breaks_off_leaves_a_report_that_says_so() {
    let (web, folder) = (web(), dir());
    let table = format!("pipe:printf '{0}/1\\n{0}/2\\n'; exit 3", web.url);
    run("fetch", [&table, "--allow-private", "--report", "r.jsonl", "-o", "out.tar"])
        .env("no_proxy", "*")
        .cwd(folder.path())
        .done()
        .status(1);
    expect(&folder.path().join("r.jsonl"), &[("failed not_kept", 2), ("unread unread", 1)]);
    assert_eq!(list(folder.path()), ["r.jsonl"]);
    // The rest of the table was never read: it is fetched too.
    let again = fetch("--resume r.jsonl").cwd(folder.path()).stdin(rows(&web, 7)).ok();
    assert_eq!(names(&again).len(), 14);
}

#[test]
fn rows_that_an_interrupted_run_has_not_read_are_fetched_again_in_every_format() {
    let web = web();
    for name in ["r.jsonl", "r.csv", "r.parquet", "r.csv.gz"] {
        let folder = dir();
        let mut command = fetch(&format!("--report {name} -o out.tar")).cwd(folder.path()).into_command();
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let before = web.seen().len();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(rows(&web, 5).as_bytes()).unwrap();
        until("five requests", || web.seen().len() == before + 5);
        assert_eq!(end(&mut child, Signal::INT), 130);
        assert_eq!(list(folder.path()), [name]);
        let again = fetch(&format!("--resume {name}")).cwd(folder.path()).stdin(rows(&web, 9)).ok();
        assert_eq!(names(&again).len(), 18, "{name}");
    }
}

#[test]
fn a_signal_gets_its_report_though_nobody_reads_the_output() {
    let folder = dir();
    let body = vec![7; 1 << 20];
    let web = Web::start(move |_, wire| reply(wire, "200 OK", "", &body));
    let rows = rows(&web, 60);
    let args = "--window-bytes 4M --per-host 4 --report r.jsonl --stats s.json";
    for signal in [Signal::TERM, Signal::INT] {
        let mut command = fetch(args).cwd(folder.path()).into_command();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(rows.as_bytes()).unwrap();
        let mut stdout = child.stdout.take().unwrap();
        // The first byte is there, and the rest of a megabyte fits into no pipe.
        stdout.read_exact(&mut [0]).unwrap();
        let mut held = 0;
        until("a full pipe", || {
            let now = rustix::io::ioctl_fionread(&stdout).unwrap();
            std::mem::replace(&mut held, now) == now && now > 0
        });
        assert_eq!(end(&mut child, signal), 128 + signal.as_raw());
        let found = counts(&folder.path().join("r.jsonl"));
        assert_eq!(found.values().sum::<usize>(), 60, "{found:?}");
        assert!(
            found.keys().all(|kind| ["failed interrupted", "failed not_kept"].contains(&kind.as_str())),
            "{found:?}"
        );
        let stats: Value = serde_json::from_slice(&std::fs::read(folder.path().join("s.json")).unwrap()).unwrap();
        assert_eq!((&stats["success"], &stats["failed"]), (&0.into(), &60.into()));
        std::fs::remove_file(folder.path().join("r.jsonl")).unwrap();
    }
}

#[test]
fn a_key_that_returns_at_once_fails_its_row_and_not_the_run() {
    let (web, folder) = (web(), dir());
    let row = |key: &str, path: &str| format!("{{\"key\":\"{key}\",\"url\":\"{}/{path}\"}}\n", web.url);
    let table = [("a", "1"), ("a", "2"), ("b", "3"), ("c", "missing"), ("b", "4"), ("a", "5"), ("a", "6"), ("d", "7")];
    let table: String = table.iter().map(|(key, path)| row(key, path)).collect();
    let fetched = |flags: &str| {
        let done = fetch(&format!("{flags} --report r.jsonl")).cwd(folder.path()).stdin(table.clone()).done().status(0);
        done.stderr("fetch: 4 samples; failed 4 (3 duplicate_key, 1 http_4xx)").stdout()
    };
    let archive = fetched("-j 1");
    assert_eq!(names(&archive), ["a.jpg", "a.json", "b.jpg", "b.json", "a.jpg", "a.json", "d.jpg", "d.json"]);
    assert!(archive == fetched("-j 64"));
    let kinds = [("failed duplicate_key", 3), ("failed http_4xx", 1), ("handed_on", 4)];
    expect(&folder.path().join("r.jsonl"), &kinds);
    // What --pass-failed writes has a key too.
    let table = row("a", "missing") + &row("a", "1") + &row("a", "missing") + &row("b", "2");
    let done = fetch("--pass-failed").stdin(table).done().status(0);
    let archive = done.stderr("fetch: 1 sample; failed 3 (1 duplicate_key, 2 http_4xx)").stdout();
    assert_eq!(names(&archive), ["a.json", "b.jpg", "b.json"]);
}
