//! Death in the middle of an upload: nothing under its name, and nothing that stays.

use std::io::Write;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::stores::round_trips::large;
use crate::stores::server::store;
use crate::support::{Archive, TempDir, bash, dir, list, status};

/// Waits until `ready` holds; a test that waits for ever fails.
fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let started = Instant::now();
    while !ready() {
        assert!(started.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A tool that has sent some parts of an object and waits for more input.
fn half_way(key: &str, scratch: &TempDir) -> Child {
    let run = store().run("tarcat", ["-o", &format!("s3://test/{key}")]);
    let mut command = run.env("TMPDIR", scratch.path().to_str().unwrap()).into_command();
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let archive = large();
    child.stdin.as_mut().unwrap().write_all(&archive[..archive.len() * 3 / 4]).unwrap();
    until("an upload under way", || store().unfinished(key) == 1);
    child
}

#[test]
fn signals_abort_the_upload() {
    for (name, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
        let (key, scratch) = (format!("signals/{name}.tar"), dir());
        let mut child = half_way(&key, &scratch);
        let _stdin_stays_open = child.stdin.take();
        bash(&format!("kill -{name} {}", child.id())).ok();
        assert_eq!(status(child.wait().unwrap()), 128 + number);
        assert!(store().get(&format!("test/{key}")).is_none());
        assert_eq!(store().unfinished(&key), 0, "after {name}");
        assert!(list(scratch.path()).is_empty(), "{:?}", list(scratch.path()));
    }
}

#[test]
fn an_input_that_breaks_off_aborts_the_upload() {
    let archive = large();
    let run = store().run("tarcat", ["-o", "s3://test/broken/a.tar"]).stdin(&archive[..archive.len() - 1024]);
    run.done().status(1).stderr_has("stdin: byte");
    assert!(store().get("test/broken/a.tar").is_none());
    assert_eq!(store().unfinished("broken/a.tar"), 0);
}

#[test]
fn a_kill_leaves_no_object_and_the_next_run_removes_its_parts() {
    let (key, scratch) = ("killed/a.tar", dir());
    let mut child = half_way(key, &scratch);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(store().get("test/killed/a.tar").is_none());
    assert_eq!(store().unfinished(key), 1, "what the next run has to find");
    // Had it died a moment earlier, its note of the upload would not have had its name yet.
    let note = list(scratch.path()).into_iter().find(|name| name.ends_with(".upload")).unwrap();
    std::fs::write(scratch.path().join(note.replace(".upload", ".new")), "").unwrap();
    // A live run's upload is not taken for garbage.
    let mut alive = half_way("killed/alive.tar", &scratch);
    let run = store().run("tarcat", ["-o", "s3://test/killed/b.tar"]).stdin(Archive::of_samples(2).whole());
    run.env("TMPDIR", scratch.path().to_str().unwrap()).ok();
    assert_eq!((store().unfinished(key), store().unfinished("killed/alive.tar")), (0, 1));
    assert_eq!(list(scratch.path()).len(), 1, "that of the live one: {:?}", list(scratch.path()));
    let all = store().run("tarcheck", ["--json", "s3://test/killed/"]).done().status(0).stdout_text();
    assert!(all.contains("killed/b.tar") && !all.contains("a.tar"), "{all}");
    alive.kill().unwrap();
    alive.wait().unwrap();
}

#[test]
fn shards_before_a_failure_are_whole_and_none_is_left_half_sent() {
    let archive = large();
    let split = ["-s", "9M", "-o", "s3://test/halves/%d.tar"];
    let run = store().run("tarsplit", split).stdin(&archive[..archive.len() - 1_000_000]);
    run.done().status(1).stderr_has("stdin: byte");
    let checked = store().run("tarcheck", ["s3://test/halves/*.tar"]).done();
    checked.status(0).stderr("");
    assert_eq!((0..5).map(|i| store().unfinished(&format!("halves/{i}.tar"))).sum::<usize>(), 0);
}
