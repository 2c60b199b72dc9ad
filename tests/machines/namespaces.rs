//! Temporary names where process numbers and host names repeat: in containers that share a volume, on hosts whose short
//! names are equal, and after runs that were killed. Nobody takes what another one is writing, and nothing stays.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Archive, Run, TempDir, bash, dir, list, names};

/// How many containers run at the same time.
const MANY: usize = 30;

/// A folder with an archive of 3 samples, and a folder for scratch directories.
fn volume() -> TempDir {
    let folder = dir();
    std::fs::create_dir(folder.path().join("tmp")).unwrap();
    std::fs::write(folder.path().join("in.tar"), Archive::of_samples(3).whole()).unwrap();
    folder
}

/// Many containers on one volume, in each of which a tool is process 1 of the host `box`. `$i` counts them.
fn containers(command: &str) -> Run {
    let container = format!("unshare -r -u -p -f --mount-proc bash -c 'hostname box; exec {command}' &");
    // The status of each counts.
    let wait = "for one in ${all[@]}; do wait $one || exit; done";
    bash(&format!("export i; for i in {{1..{MANY}}}; do {container} all+=($!); done; {wait}"))
}

/// Two rounds of containers; every output must be whole, and nothing else may be there.
fn share_a_volume(command: &str) {
    let folder = volume();
    let whole = names(&Archive::of_samples(3).whole()).len();
    for _ in 0..2 {
        containers(command).cwd(folder.path()).ok();
        for i in 1..=MANY {
            let out = folder.path().join(format!("out-{i}.tar"));
            assert_eq!(names(&std::fs::read(&out).unwrap()).len(), whole);
            std::fs::remove_file(out).unwrap();
        }
        assert_eq!(list(folder.path()), ["in.tar", "tmp"]);
        assert_eq!(list(folder.path().join("tmp")), [""; 0]);
    }
}

#[test]
fn outputs_of_containers_on_one_volume_do_not_collide() {
    share_a_volume("tarcat in.tar -o out-$i.tar");
}

#[test]
fn scratch_directories_of_containers_on_one_volume_do_not_collide() {
    share_a_volume("tarproc -p 2 --tmpdir tmp -c true in.tar -o out-$i.tar");
}

#[test]
fn folders_of_containers_on_one_volume_do_not_collide() {
    let folder = volume();
    for i in 1..=MANY {
        let archive = Archive::new().file(&format!("{i:05}0000.txt"), b"text").whole();
        std::fs::write(folder.path().join(format!("in-{i}.tar")), archive).unwrap();
    }
    containers("tardataset -o out --format files --only-shard $i < in-$i.tar").cwd(folder.path()).ok();
    let shards = list(folder.path().join("out"));
    assert!(!shards.iter().any(|name| name.starts_with('.')), "{shards:?}");
    for i in 1..=MANY {
        assert!(folder.path().join(format!("out/{i:05}/{i:05}0000.json")).exists(), "{i}");
    }
}

/// A script on a file system that has no locks.
fn without_locks(script: &str) -> Run {
    let launcher = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/old_kernel.py");
    bash(&format!("exec python3 '{}' --without-flock bash -c \"$SCRIPT\"", launcher.display())).env("SCRIPT", script)
}

/// What tools of version 0.1 and of another machine leave behind.
const OTHERS: [&str; 2] = [".tarpipe-box-1-0.tmp", ".tarpipe-box-0123456789ab-4026531836.1.77-0123456789abcdef.tmp"];

fn leave(folder: &Path, age: &str) {
    let [old, other] = OTHERS;
    bash(&format!("touch -d '{age}' {old} {other}")).cwd(folder).ok();
}

#[test]
fn what_was_left_is_removed_by_its_lock() {
    let folder = volume();
    leave(folder.path(), "1 minute ago");
    // One of them is still being written.
    let mut holder =
        bash(&format!("exec 9< {}; flock 9; exec sleep 1000", OTHERS[0])).cwd(folder.path()).into_command();
    let mut holder = holder.stdout(Stdio::null()).spawn().unwrap();
    until("the lock", || bash(&format!("! flock -n {} true", OTHERS[0])).cwd(folder.path()).done().status_code() == 0);
    bash("tarcat in.tar -o out.tar").cwd(folder.path()).ok();
    assert_eq!(list(folder.path()), [OTHERS[0], "in.tar", "out.tar", "tmp"]);
    holder.kill().unwrap();
    holder.wait().unwrap();
    until("an end to the lock", || {
        bash(&format!("flock -n {} true", OTHERS[0])).cwd(folder.path()).done().status_code() == 0
    });
    bash("tarcat in.tar -o out.tar").cwd(folder.path()).ok();
    assert_eq!(list(folder.path()), ["in.tar", "out.tar", "tmp"]);
}

#[test]
fn without_locks_only_what_is_old_is_removed() {
    let folder = volume();
    leave(folder.path(), "1 hour ago");
    without_locks("tarcat in.tar -o out.tar").cwd(folder.path()).ok();
    assert_eq!(list(folder.path()).len(), 5, "what may be in use is kept: {:?}", list(folder.path()));
    leave(folder.path(), "2 days ago");
    without_locks("tarcat in.tar -o out.tar").cwd(folder.path()).ok();
    assert_eq!(list(folder.path()), ["in.tar", "out.tar", "tmp"]);
}

#[test]
fn without_locks_containers_on_one_volume_do_not_collide() {
    let folder = volume();
    let launcher = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/old_kernel.py");
    let tool = "tarproc --tmpdir tmp -c true in.tar -o out-$i.tar";
    containers(&format!("python3 {} --without-flock {tool}", launcher.display())).cwd(folder.path()).ok();
    assert_eq!(list(folder.path()).len(), MANY + 2);
    assert_eq!(list(folder.path().join("tmp")), [""; 0]);
}

#[test]
fn the_first_process_of_a_container_ends_what_leaves_its_session() {
    let folder = volume();
    let line = "[ $TARPROC_INDEX != 1 ] || { setsid sleep 1000 > /dev/null 2>&1 & }";
    let script = "unshare -r -p -f --mount-proc tarproc -p 2 --tmpdir tmp -c \"$LINE\" in.tar -o out.tar";
    let done = bash(script).env("LINE", line).cwd(folder.path()).done().status(3);
    done.stderr("tarproc: 2 samples; failed 1 (1 left_running)");
}

#[test]
fn folders_that_others_made_are_left_alone() {
    let folder = volume();
    bash("mkdir tmp/tarproc-run-1 tmp/tarproc-run-1-2 tmp/tarproc-kept-box-1-0").cwd(folder.path()).ok();
    bash("tarproc --tmpdir tmp -c true in.tar -o out.tar").cwd(folder.path()).ok();
    assert_eq!(list(folder.path().join("tmp")).len(), 3);
}

fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let started = Instant::now();
    while !ready() {
        assert!(started.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn temporary(folder: &Path) -> Vec<String> {
    list(folder).into_iter().filter(|name| name.starts_with(".tarpipe-") || name.starts_with("tarproc-")).collect()
}

fn start(folder: &Path, script: &str) -> Child {
    let mut command: Command = bash(&format!("exec {script}")).cwd(folder).into_command();
    command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// The end of a process takes a moment: some of its threads, and a child that it was about to start, hold its locks
/// while others see it dead already.
#[test]
fn the_next_run_removes_what_a_killed_one_left_however_soon_it_starts() {
    let folder = volume();
    let path = folder.path();
    std::fs::write(path.join("in.tar"), Archive::of_samples(40).whole()).unwrap();
    let script = "tarproc -p 4 --tmpdir . -c true in.tar -o out.tar";
    for round in 0..12 {
        let mut child = start(path, script);
        until("a temporary file or the end", || temporary(path).len() == 2 || path.join("out.tar").exists());
        std::thread::sleep(Duration::from_millis(3 * round));
        child.kill().unwrap();
        let mut next = start(path, script); // before anybody has waited for the first
        assert!(next.wait().unwrap().success());
        assert_eq!(temporary(path), [""; 0], "round {round}");
        child.wait().unwrap();
        std::fs::remove_file(path.join("out.tar")).unwrap();
    }
}
