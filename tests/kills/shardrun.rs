//! Signals and kills: partial outputs are removed, finished ones stay, and a resumed run completes.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::shardrun::{counts, is_gone, log, read, shardrun};
use crate::support::{bash, dir, list, status};

const FLAGS: [&str; 8] = ["--run", "r", "-n", "4", "-j", "2", "-o", "out/{}"];
/// Items 0 and 1 are quick; the others wait in the middle of their output until there is a file `go`.
const PIPELINE: &str =
    "echo $$ >> pids; echo part; [ {} -lt 2 ] || { touch at-{}; while [ ! -e go ]; do sleep 0.05; done; }; echo whole";

/// A run whose last two items are in the middle of their work.
fn half_way(path: &Path) -> Child {
    let child = shardrun(path, FLAGS.iter().chain(&[PIPELINE])).into_command().spawn().unwrap();
    bash("while [ ! -e at-2 ] || [ ! -e at-3 ]; do sleep 0.02; done").cwd(path).ok();
    child
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap().success());
}

fn resume(path: &Path) {
    std::fs::write(path.join("go"), "").unwrap();
    shardrun(path, FLAGS.iter().chain(&[PIPELINE])).ok();
    assert_eq!(counts(path), [4, 0, 0, 0]);
    for i in 0..4 {
        assert_eq!(read(path, &format!("out/{i}")), "part\nwhole\n");
    }
}

#[test]
fn a_signal_ends_a_run_and_the_next_completes_it() {
    for (name, number) in [("INT", 2), ("TERM", 15), ("USR1", 10)] {
        let folder = dir();
        let path = folder.path();
        let mut child = half_way(path);
        assert_eq!(counts(path), [2, 2, 0, 0]);
        signal(&child, name);
        assert_eq!(status(child.wait().unwrap()), 128 + number);
        assert_eq!(list(path.join("out")), ["0", "1"], "{name}");
        assert_eq!(counts(path), [2, 0, 0, 2]);
        for pid in read(path, "pids").lines() {
            assert!(is_gone(pid), "something of it is left");
        }
        resume(path);
    }
}

#[test]
fn cancel_is_such_a_signal() {
    let folder = dir();
    let path = folder.path();
    let mut child = half_way(path);
    let said = format!("shardrun: r: ended process {}", child.id());
    shardrun(path, ["cancel", "r"]).done().status(0).stderr(&said);
    assert_eq!(status(child.wait().unwrap()), 143);
    assert_eq!(counts(path), [2, 0, 0, 2]);
    shardrun(path, ["cancel", "r"]).done().status(0).stderr("shardrun: r: nothing was running");
    resume(path);
}

#[test]
fn kill_9_loses_nothing_but_time() {
    let folder = dir();
    let path = folder.path();
    let mut child = half_way(path);
    signal(&child, "KILL");
    child.wait().unwrap();
    let visible = list(path.join("out")).into_iter().filter(|name| !name.starts_with(".tarpipe-")).collect::<Vec<_>>();
    assert_eq!(visible, ["0", "1"]);
    assert_eq!(counts(path), [2, 0, 0, 2]);
    assert_eq!(log(path).len(), 2);
    resume(path);
    assert_eq!(list(path.join("out")), ["0", "1", "2", "3"]);
}

#[test]
fn after_kill_9_the_pipelines_end_without_another_run() {
    let folder = dir();
    let path = folder.path();
    // A stage in a session of its own, and one that does not heed TERM.
    let stages = "(trap '' TERM; echo $BASHPID >pid-0; while :; do sleep 0.1; done) | \
        setsid bash -c 'echo $$ >pid-1; sleep 1000' | { echo $$ >pid-2; sleep 1000; }";
    let mut child = shardrun(path, ["--run", "r", "-n", "1", stages]).into_command().spawn().unwrap();
    bash("until [ -s pid-0 ] && [ -s pid-1 ] && [ -s pid-2 ]; do sleep 0.02; done").cwd(path).ok();
    // Another run here is not its business.
    let mut other =
        shardrun(path, ["--run", "s", "-n", "1", "echo $$ >other; sleep 1000"]).into_command().spawn().unwrap();
    bash("until [ -s other ]; do sleep 0.02; done").cwd(path).ok();
    signal(&child, "KILL");
    child.wait().unwrap();
    let started = Instant::now();
    for name in ["pid-0", "pid-1", "pid-2"] {
        let pid = read(path, name);
        while runs(&pid) {
            assert!(started.elapsed() < Duration::from_secs(60), "the process of {name} still runs");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    assert!(runs(&read(path, "other")), "a pipeline of another run was ended");
    signal(&other, "TERM");
    assert_eq!(status(other.wait().unwrap()), 143);
}

#[test]
fn after_kill_9_a_run_inside_a_pipeline_ends_too() {
    let folder = dir();
    let path = folder.path();
    let inner = "shardrun --run inner -n 1 'echo $$ >pid; sleep 1000'";
    let mut driver = shardrun(path, ["--run", "r", "-n", "1", inner]).into_command().spawn().unwrap();
    bash("until [ -s pid ]; do sleep 0.02; done").cwd(path).ok();
    signal(&driver, "KILL");
    driver.wait().unwrap();
    let (pid, started) = (read(path, "pid"), Instant::now());
    while runs(&pid) {
        assert!(started.elapsed() < Duration::from_secs(60), "the inner pipeline still runs");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_worker_that_stays_ends_with_its_stdin() {
    let folder = dir();
    let path = folder.path();
    let head = format!(
        r#"{{"shardrun":"","pipeline":"echo $$ >pid; sleep 1000","output":null,"also":[],"count":1,"numbers":true,"sha256":"","cwd":"{}","retries":0,"timeout":null,"jitter":null,"redo":false,"max_failures":null}}"#,
        path.display()
    );
    let mut command = shardrun(path, ["item", "--serve"]).into_command();
    let mut worker = command.stdin(Stdio::piped()).spawn().unwrap();
    worker.stdin.as_ref().unwrap().write_all(format!("{head}\n[[0,\"0\"]]\n").as_bytes()).unwrap();
    bash("until [ -s pid ]; do sleep 0.02; done").cwd(path).ok();
    drop(worker.stdin.take()); // as when the engine's process is killed
    assert_eq!(status(worker.wait().unwrap()), 143);
    assert!(is_gone(read(path, "pid").trim()), "the item outlived its engine");
}

/// Starts a process in a new session; its number is in `left` when the line is done.
const LEAVE: &str =
    "setsid bash -c 'echo $$ > left; exec sleep 1000' > /dev/null 2>&1 & until [ -s left ]; do sleep 0.01; done";

fn runs(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Waits until the process whose id is in `left` has ended, which takes a moment on a busy machine.
fn expect_end(path: &Path) {
    let (pid, started) = (read(path, "left"), Instant::now());
    while runs(&pid) {
        assert!(started.elapsed() < Duration::from_secs(60), "it still runs");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::remove_file(path.join("left")).unwrap();
}

#[test]
fn what_leaves_its_session_is_ended_with_its_item() {
    let folder = dir();
    let path = folder.path();
    shardrun(path, ["--run", "a", "-n", "1", LEAVE]).ok();
    expect_end(path);
    let late = format!("{LEAVE}\nsleep 1000");
    shardrun(path, ["--run", "b", "-n", "1", "--timeout", "8", &late]).done().status(3).stderr_has("timeout");
    expect_end(path);
    let mut child = shardrun(path, ["--run", "c", "-n", "1", &late]).into_command().spawn().unwrap();
    bash("until [ -s left ]; do sleep 0.02; done").cwd(path).ok();
    signal(&child, "TERM");
    assert_eq!(status(child.wait().unwrap()), 143);
    expect_end(path);
}

#[test]
fn what_an_item_leaves_running_is_ended() {
    let folder = dir();
    let path = folder.path();
    shardrun(path, ["--run", "r", "-n", "1", "sleep 1000 > /dev/null 2>&1 & echo $! > left"]).ok();
    expect_end(path);
}

/// The shell of a pipeline ends at once; a stage of it that cleans up takes longer, and has the time.
const SLOW_TO_END: &str =
    "bash -c 'trap \"sleep 0.4; touch cleaned; exit 1\" TERM; touch at; while :; do echo part; sleep 0.02; done'; true";

/// What shardrun gives them. On a machine that is too slow for it they are ended by force, as they should be.
const LAST_WORDS: Duration = Duration::from_secs(3);

#[test]
fn the_stages_of_a_pipeline_have_time_to_clean_up() {
    let folder = dir();
    let path = folder.path();
    let started = Instant::now();
    // The output is full at the first byte.
    shardrun(path, ["--run", "r", "-n", "1", "--redo", "-o", "/dev/full", SLOW_TO_END]).done().status(3);
    let in_time = path.join("cleaned").exists();
    assert!(in_time || started.elapsed() >= LAST_WORDS, "after an output that failed");
    for name in ["at", "cleaned"] {
        _ = std::fs::remove_file(path.join(name));
    }
    let mut child = shardrun(path, ["--run", "s", "-n", "1", SLOW_TO_END]).into_command().spawn().unwrap();
    bash("while [ ! -e at ]; do sleep 0.02; done").cwd(path).ok();
    let started = Instant::now();
    signal(&child, "TERM");
    assert_eq!(status(child.wait().unwrap()), 143);
    assert!(path.join("cleaned").exists() || started.elapsed() >= LAST_WORDS, "after a signal");
}
