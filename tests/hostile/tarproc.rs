//! tarproc with misbehaving commands: each is a failure with a code, the run goes on, nothing hangs, and no directory is
//! left behind.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Archive, bash, dir, list, members, run, status, without_examples};

/// Runs a script on three samples; it misbehaves on the second.
fn second_fails(nasty: &str, flags: &[&str], code: &str) {
    let place = dir();
    let script = format!("[ $TARPROC_INDEX != 1 ] || {{ {nasty}; }}");
    let tmpdir = place.path().to_str().unwrap();
    let args = [&["-c", &script, "--tmpdir", tmpdir, "-o", "-"], flags].concat();
    let archive = Archive::of_samples(3).whole();
    let done = run("tarproc", args).stdin(archive).done().status(3);
    let done = done.stderr(&format!("tarproc: 2 samples; failed 1 (1 {code})"));
    let keys: Vec<String> = members(&done.stdout()).into_iter().map(|member| member.0).collect();
    assert_eq!(keys.iter().filter(|key| key.starts_with("s0001")).count(), 0, "{nasty}");
    assert_eq!(keys.len(), 6, "{nasty}");
    assert!(list(place.path()).is_empty(), "{nasty}: {:?}", list(place.path()));
}

/// Runs checks in parallel: they mostly wait.
fn side_by_side(checks: &[&(dyn Fn() + Sync)]) {
    std::thread::scope(|threads| checks.iter().for_each(|check| _ = threads.spawn(check)));
}

#[test]
fn a_command_that_dies_fails_its_sample() {
    second_fails("exit 3", &[], "exit_status");
    second_fails("kill -SEGV $$", &[], "signal");
    second_fails("ulimit -c unlimited; kill -ABRT $$", &[], "signal");
    second_fails("kill -KILL 0", &[], "signal");
}

#[test]
fn a_command_that_hangs_is_killed_with_everything_it_started() {
    // The other samples have the same limit, which must be enough on a busy machine.
    side_by_side(&[&|| second_fails("sleep 1000 & sleep 1000 | cat", &["--timeout", "8"], "timeout"), &|| {
        second_fails("trap '' TERM; while :; do sleep 1; done", &["--timeout", "8"], "timeout")
    }]);
}

#[test]
fn a_command_that_leaves_a_daemon_fails_its_sample() {
    let daemons =
        ["sleep 1000 & true", "(sleep 1000 &) ; true", "sleep 1000 >/dev/null 2>&1 & true", "setsid sleep 1000 & true"];
    let checks = daemons.map(|daemon| move || second_fails(daemon, &[], "left_running"));
    side_by_side(&checks.each_ref().map(|check| check as &(dyn Fn() + Sync)));
}

/// Starts a process in a new session; the file PID has its id when the line is done.
const LEAVE: &str =
    "setsid bash -c 'echo $$ > PID; exec sleep 1000' > /dev/null 2>&1 & until [ -s PID ]; do sleep 0.01; done";

/// Runs tarproc on three samples; the second starts a process that leaves its session through `line`. Returns the message
/// of tarproc, at whose end that process must be gone.
fn escape(line: &str, then: &str, flags: &[&str]) -> String {
    let folder = dir();
    let pid = folder.path().join("pid");
    let line = line.replace("PID", pid.to_str().unwrap());
    let script = format!("if [ $TARPROC_INDEX = 1 ]; then {line}\n{then}\nfi");
    let args = [&["--tmpdir", folder.path().to_str().unwrap(), "-o", "-", "-c", &script], flags].concat();
    let done = run("tarproc", args).stdin(Archive::of_samples(3).whole()).done().status(3);
    let pid = std::fs::read_to_string(pid).unwrap();
    until("the end of what it started", || !is_alive(pid.trim()));
    assert_eq!(list(folder.path()), ["pid"], "{flags:?}");
    without_examples(&done.stderr_text())
}

#[test]
fn processes_in_their_own_session_end_with_their_command() {
    let said = "tarproc: 2 samples; failed 1 (1 left_running)\n";
    let daemon = LEAVE.replace("exec sleep 1000", "sleep 1000 & sleep 0.1").replace("echo $$", "echo $BASHPID");
    // Without the environment variable that names its command, the only running command is blamed.
    let hidden = LEAVE.replace("setsid bash", "env -i PATH=$PATH setsid bash");
    let check = |line: &str, flags: &[&str]| assert_eq!(escape(line, "true", flags), said, "{flags:?}");
    side_by_side(&[
        &|| check(LEAVE, &[]),
        &|| check(LEAVE, &["-p", "3"]),
        &|| check(LEAVE, &["--fast-shell"]),
        &|| check(LEAVE, &["-p", "3", "--fast-shell"]),
        &|| check(LEAVE, &["--batch", "1"]),
        &|| check(&daemon, &["-p", "2"]),
        &|| check(&hidden, &[]),
    ]);
}

#[test]
fn processes_that_hide_their_origin_end_with_the_run() {
    let hidden = LEAVE.replace("setsid bash", "env -i PATH=$PATH setsid bash");
    let folder = dir();
    let hidden = hidden.replace("PID", folder.path().join("pid").to_str().unwrap());
    // The other commands run until it exists, and outlive its command.
    let wait = format!("until [ -s {}/pid ]; do sleep 0.01; done; sleep 1", folder.path().display());
    let script = format!("if [ $TARPROC_INDEX = 1 ]; then {hidden}\nelse {wait}\nfi");
    run("tarproc", ["-p", "3", "-c", &script, "-o", "-"]).stdin(Archive::of_samples(3).whole()).done().status(3);
    let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
    until("the end of what it started", || !is_alive(pid.trim()));
}

#[test]
fn processes_in_their_own_session_end_at_the_timeout() {
    let said = "tarproc: 2 samples; failed 1 (1 timeout)\n";
    let check = |line: &str, then: &str, flags: &[&str]| {
        assert_eq!(escape(line, then, &[&["--timeout", "8"], flags].concat()), said, "{flags:?}");
    };
    side_by_side(&[
        &|| check(LEAVE, "sleep 1000", &[]),
        &|| check(LEAVE, "sleep 1000", &["-p", "3"]),
        &|| check(LEAVE, "sleep 1000", &["--fast-shell"]),
        &|| check("setsid -w bash -c 'echo $$ > PID; exec sleep 1000'", "true", &[]),
    ]);
}

#[test]
fn processes_that_a_worker_started_end_with_it() {
    let folder = dir();
    let pid = folder.path().join("pid");
    let worker = format!("{}\nexec cat", LEAVE.replace("PID", pid.to_str().unwrap()));
    let archive = Archive::of_samples(3).whole();
    run("tarproc", ["--worker", &worker, "-o", "-"]).stdin(archive).ok();
    let pid = std::fs::read_to_string(pid).unwrap();
    until("the end of what it started", || !is_alive(pid.trim()));
}

#[test]
fn processes_that_a_shell_does_not_wait_for_have_time_to_end() {
    let script = "tee >(sleep 0.05; wc -c > sample.n) < sample.cls > /dev/null";
    let out = run("tarproc", ["-c", script, "-o", "-"]).stdin(Archive::of_samples(2).whole()).ok();
    assert!(members(&out).contains(&("s0001.n".to_owned(), b"1\n".to_vec())));
}

#[test]
fn a_command_that_breaks_its_directory_fails_its_sample() {
    second_fails("rm -rf \"$PWD\"", &[], "directory_gone");
    second_fails("mv \"$PWD\" ../elsewhere", &[], "directory_gone");
    second_fails("chmod 000 .", &[], "unreadable");
    second_fails("mkdir -p a/b/c; chmod -R 000 a; false", &[], "exit_status");
}

#[test]
fn only_regular_files_inside_are_packed() {
    second_fails("truncate -s 5G sample.big", &[], "too_large");
    second_fails("mkfifo sample.fifo", &[], "not_a_file");
    second_fails("mkdir sample.folder", &[], "not_a_file");
    second_fails("ln -s /etc/passwd sample.txt", &[], "link_outside");
    second_fails("ln -s ../000000000/sample.cls sample.txt", &[], "link_outside");
    second_fails("ln -s nothing sample.txt", &[], "link_outside");
    second_fails("ln -s /dev/zero sample.txt", &[], "link_outside");
    second_fails("mkfifo pipe; ln -s pipe sample.txt", &[], "not_a_file");
    second_fails("cp sample.cls sample.CLS", &[], "duplicate_field");
    second_fails("echo ../../x > __key__", &[], "bad_key");
    let inside = "ln -s sample.cls sample.txt";
    let out = run("tarproc", ["-c", inside, "-o", "-"]).stdin(Archive::of_samples(1).whole()).ok();
    assert!(members(&out).contains(&("s0000.txt".to_owned(), b"0".to_vec())));
}

#[test]
fn more_output_than_max_sample_fails() {
    let run = run("tarproc", ["-c", "yes", "--max-sample", "1M"]).stdin(Archive::of_samples(2).whole());
    run.fails(3, "tarproc: 0 samples; failed 2 (2 too_large)");
}

#[test]
fn a_full_disk_ends_the_run() {
    let folder = dir();
    let archive = Archive::new().file("a.bin", &vec![1; 3 << 20]).file("b.txt", b"small").whole();
    std::fs::write(folder.path().join("in.tar"), archive).unwrap();
    std::fs::create_dir(folder.path().join("disk")).unwrap();
    // A private disk of 1 MB.
    let script = "unshare -rm bash -c 'mount -t tmpfs -o size=1m none disk && exec tarproc -c true --tmpdir disk in.tar -o out.tar'";
    let done = bash(script).cwd(folder.path()).done().status(1);
    done.stderr_has("tarproc: in.tar: a: disk_full: cannot unpack: No space left on device; use --tmpdir");
    assert!(!folder.path().join("out.tar").exists());
    let fills = "unshare -rm bash -c 'mount -t tmpfs -o size=1m none disk && exec tarproc --slice 1: \
                 -c \"cat /dev/zero > sample.big\" --tmpdir disk in.tar -o out.tar'";
    bash(fills).cwd(folder.path()).done().status(3).stderr_has("tarproc: 0 samples; failed 1 (1 exit_status)");
}

fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let started = Instant::now();
    while !ready() {
        assert!(started.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap().success());
}

fn is_alive(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// tarproc with two running commands and their children, and the ids of these processes.
fn busy(folder: &std::path::Path, flags: &[&str]) -> (Child, Vec<String>) {
    std::fs::write(folder.join("in.tar"), Archive::of_samples(9).whole()).unwrap();
    std::fs::create_dir_all(folder.join("pids")).unwrap();
    std::fs::create_dir_all(folder.join("tmp")).unwrap();
    let script =
        "trap '' INT; sleep 1000 & touch $OLDPWD/pids/$!; setsid sh -c 'touch $OLDPWD/pids/$$; exec sleep 1000' &
                  touch $OLDPWD/pids/$$; sleep 1000; wait";
    let script = script.replace("$OLDPWD", folder.to_str().unwrap());
    let args = [&["-p", "2", "--tmpdir", "tmp", "in.tar", "-o", "out.tar"], flags, &[&script]].concat();
    let mut command = run("tarproc", args).cwd(folder).into_command();
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let pids = || list(folder.join("pids"));
    until("two commands", || pids().len() == 6);
    (child, pids())
}

#[test]
fn signals_end_every_child_and_leave_no_directory() {
    for (name, number) in [("INT", 2), ("TERM", 15)] {
        for way in
            [&["-c"][..], &["--worker"], &["--fast-shell", "-c"], &["--batch", "2", "-c"], &["--each", "jpg", "-c"]]
        {
            let folder = dir();
            let (mut child, pids) = busy(folder.path(), way);
            signal(&child, name);
            assert_eq!(status(child.wait().unwrap()), 128 + number, "{way:?}");
            until("the end of every child", || !pids.iter().any(|pid| is_alive(pid)));
            assert_eq!(list(folder.path()), ["in.tar", "pids", "tmp"], "{way:?}");
            assert!(list(folder.path().join("tmp")).is_empty(), "{way:?}");
        }
    }
}

#[test]
fn a_failed_run_ends_its_other_commands() {
    let folder = dir();
    let script = "if [ $TARPROC_INDEX = 0 ]; then while [ ! -s ../../../pid ]; do sleep 0.01; done; exit 1; fi; echo $$ > ../../../pid; exec sleep 1000";
    std::fs::create_dir(folder.path().join("tmp")).unwrap();
    let args = ["-p", "2", "-e", "abort", "--tmpdir", "tmp", "-c", script, "-o", "out.tar"];
    let run = run("tarproc", args).cwd(folder.path()).stdin(Archive::of_samples(4).whole());
    run.fails(1, "tarproc: stdin: s0000: exit_status: the command failed with exit status 1");
    let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
    until("the end of the other command", || !is_alive(pid.trim()));
    assert_eq!(list(folder.path()), ["pid", "tmp"]);
    assert!(list(folder.path().join("tmp")).is_empty());
}

#[test]
fn leftovers_of_a_killed_run_are_removed_by_the_next() {
    let folder = dir();
    let (mut child, pids) = busy(folder.path(), &["-c"]);
    signal(&child, "KILL");
    child.wait().unwrap();
    assert_eq!(list(folder.path().join("tmp")).len(), 1);
    for pid in pids {
        // Each shell leads a process group, which must end as a whole.
        _ = Command::new("kill").args(["-KILL", "--", &format!("-{pid}"), &pid]).stderr(Stdio::null()).status();
    }
    run("tarproc", ["-c", ":", "--tmpdir", "tmp", "in.tar"]).cwd(folder.path()).ok();
    assert!(list(folder.path().join("tmp")).is_empty());
}
