//! Tools killed at any moment: existing outputs are complete, leftovers are recognized and removed, the pipeline fails.

mod shardrun;
#[cfg(feature = "stores")]
mod stores;

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Archive, bash, dir, list, members, run, status, tool};

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Waits until `ready` holds, for at most a minute.
fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let started = Instant::now();
    while !ready() {
        assert!(started.elapsed() < Duration::from_secs(60), "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn has_temporary(folder: &Path) -> bool {
    list(folder).iter().any(|name| name.starts_with(".tarpipe-"))
}

/// Starts a tool and stops feeding it in the middle of an archive.
fn half_way(mut command: Command, folder: &Path) -> Child {
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let archive = Archive::of_samples(300).whole();
    child.stdin.as_mut().unwrap().write_all(&archive[..archive.len() / 2]).unwrap();
    until("a temporary file", || has_temporary(folder));
    child
}

#[test]
fn a_temporary_file_of_a_live_run_is_not_removed_as_garbage() {
    let folder = dir();
    std::fs::write(folder.path().join("in.tar"), Archive::of_samples(2).whole()).unwrap();
    // Each run removes garbage from the folder while the others start.
    let many =
        "for i in {1..80}; do tarcat in.tar -o out-$i.tar & done; for i in {1..80}; do wait -n; done; ls out-* | wc -l";
    for _ in 0..3 {
        assert_eq!(String::from_utf8(bash(many).cwd(folder.path()).ok()).unwrap(), "80\n");
        bash("rm out-*").cwd(folder.path()).ok();
    }
    assert_eq!(list(folder.path()), ["in.tar"]);
}

#[test]
fn signals_leave_no_files_and_the_status_names_the_signal() {
    for (name, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
        let folder = dir();
        let command = run("tarcat", ["-o", "out.tar"]).cwd(folder.path()).into_command();
        let mut child = half_way(command, folder.path());
        let _stdin_stays_open = child.stdin.take();
        signal(&child, name);
        assert_eq!(status(child.wait().unwrap()), 128 + number);
        assert!(list(folder.path()).is_empty(), "{:?}", list(folder.path()));
    }
}

/// A thread that opens the next shard while another cleans up must not leave it behind.
#[test]
fn term_leaves_no_files_at_any_moment() {
    let folder = dir();
    std::fs::write(folder.path().join("in.tar"), Archive::of_samples(2000).whole()).unwrap();
    for round in 0..25 {
        let args = ["-n", "1", "-o", "out/%04d.tar", "in.tar"];
        let mut child = run("tarsplit", args).cwd(folder.path()).into_command().spawn().unwrap();
        until("a shard", || folder.path().join("out/0000.tar").exists());
        std::thread::sleep(Duration::from_millis(round));
        signal(&child, "TERM");
        assert_eq!(status(child.wait().unwrap()), 143);
        assert!(!has_temporary(&folder.path().join("out")), "round {round}");
        std::fs::remove_dir_all(folder.path().join("out")).unwrap();
    }
}

#[test]
fn a_signal_ends_the_commands_of_pipe_sources_and_outputs() {
    let folder = dir();
    let script = "pipe:echo $$ > feeder; sleep 1000";
    let mut child = run("tarcat", [script, "-o", "|echo $$ > taker; sleep 1000"]).cwd(folder.path()).into_command();
    let mut child = child.stderr(Stdio::null()).spawn().unwrap();
    let pid = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default().trim().to_owned();
    until("both commands", || !pid("feeder").is_empty() && !pid("taker").is_empty());
    signal(&child, "TERM");
    assert_eq!(status(child.wait().unwrap()), 143);
    for name in ["feeder", "taker"] {
        let stat = format!("/proc/{}/stat", pid(name));
        // Gone, or a zombie that nobody has reaped yet.
        until("its end", || !std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")));
    }
}

#[test]
fn a_kill_leaves_garbage_that_the_next_run_removes() {
    let folder = dir();
    let command = || run("tarcat", ["-o", "out.tar"]).cwd(folder.path());
    let mut child = half_way(command().into_command(), folder.path());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(has_temporary(folder.path()) && !folder.path().join("out.tar").exists());
    // Another live run in the same folder keeps its temporary file.
    let mut alive = half_way(run("tarcat", ["-o", "other.tar"]).cwd(folder.path()).into_command(), folder.path());
    until("the garbage to go", || list(folder.path()).len() == 1);
    command().stdin(Archive::of_samples(2).whole()).ok();
    assert_eq!(list(folder.path()).len(), 2, "{:?}", list(folder.path()));
    assert!(has_temporary(folder.path()));
    alive.kill().unwrap();
    alive.wait().unwrap();
}

/// Kills one stage of a pipeline at many different moments.
#[test]
fn killing_any_stage_leaves_complete_shards_and_fails_the_pipeline() {
    let folder = dir();
    std::fs::write(folder.path().join("in.tar"), Archive::of_samples(4000).whole()).unwrap();
    for round in 0..30 {
        let victim = ["tarcat", "tarsplit"][round % 2];
        let delay = Duration::from_micros(500 * round as u64);
        let mut pipe = Pipe::start(folder.path());
        std::thread::sleep(delay);
        let killed = pipe.kill(victim);
        let statuses = pipe.wait();
        for name in list(folder.path()).iter().filter(|name| name.ends_with(".tar") && *name != "in.tar") {
            let path = folder.path().join(name);
            assert!(!members(&std::fs::read(&path).unwrap()).is_empty(), "{name} after {victim} died");
            std::fs::remove_file(path).unwrap();
        }
        if killed && victim == "tarcat" && statuses.0 == 137 {
            assert_eq!(statuses.1, 1, "tarsplit took a truncated stream for a complete one");
        }
    }
}

struct Pipe {
    tarcat: Child,
    tarsplit: Child,
}

impl Pipe {
    fn start(folder: &Path) -> Self {
        let mut tarcat = Command::new(tool("tarcat"));
        let mut tarcat =
            tarcat.arg("in.tar").current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut tarsplit = Command::new(tool("tarsplit"));
        tarsplit.args(["-n", "100", "-o", "out-%04d.tar"]).current_dir(folder).stderr(Stdio::null());
        let tarsplit = tarsplit.stdin(tarcat.stdout.take().unwrap()).spawn().unwrap();
        Pipe { tarcat, tarsplit }
    }

    /// False if the stage has already ended.
    fn kill(&mut self, victim: &str) -> bool {
        let child = if victim == "tarcat" { &mut self.tarcat } else { &mut self.tarsplit };
        child.try_wait().unwrap().is_none() && child.kill().is_ok()
    }

    fn wait(mut self) -> (i32, i32) {
        (status(self.tarcat.wait().unwrap()), status(self.tarsplit.wait().unwrap()))
    }
}

#[test]
fn a_pipeline_with_a_killed_stage_fails() {
    let folder = dir();
    std::fs::write(folder.path().join("in.tar"), Archive::of_samples(50).whole()).unwrap();
    let script = "(head -c 60000 in.tar; kill -9 $BASHPID) | tarcat | tarsplit -n 1000 -o 'x-%d.tar'";
    let done = bash(script).cwd(folder.path()).done();
    assert_ne!(done.status_code(), 0);
    assert_eq!(list(folder.path()), ["in.tar"]);
}
