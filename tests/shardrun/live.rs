//! Runs that an engine still works on, and runs of others: nothing is taken for done that did not run here, nothing runs
//! twice, and cancel ends what it says. The engine is a stand-in that keeps what it is handed and runs nothing.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use super::{counts, is_gone, shardrun};
use crate::support::{Run, TempDir, dir, run, status};

/// A fake cluster, and folders to use it from.
pub struct Cluster {
    home: TempDir,
}

impl Cluster {
    pub fn new() -> Self {
        let home = dir();
        let fake = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shardrun/fake_engine.py");
        std::fs::create_dir(home.path().join("bin")).unwrap();
        for name in ["kubectl", "sbatch", "squeue", "scancel", "scontrol", "sacct"] {
            std::os::unix::fs::symlink(&fake, home.path().join("bin").join(name)).unwrap();
        }
        Cluster { home }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// shardrun with the cluster's programs, in a folder.
    pub fn shardrun<S: AsRef<str>>(&self, folder: &Path, args: impl IntoIterator<Item = S>) -> Run {
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        run("shardrun", args).cwd(folder).env("PATH", &path).env("CLUSTER", self.home.path().to_str().unwrap())
    }

    /// How many tasks were ever handed over.
    pub fn starts(&self) -> usize {
        std::fs::read_to_string(self.path("starts")).map_or(0, |text| text.lines().count())
    }

    pub fn finish(&self) {
        std::fs::write(self.path("go"), "").unwrap();
    }
}

pub const K8S: [&str; 6] = ["--on", "k8s", "--image", "x", "-n", "3"];
pub const SLURM: [&str; 4] = ["--on", "slurm", "-n", "3"];

pub fn with<'a>(flags: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [flags, more].concat()
}

#[test]
fn jobs_of_another_folder_are_not_taken_for_ours() {
    let cluster = Cluster::new();
    let (one, two) = (dir(), dir());
    let flags = with(&K8S, &["true"]);
    cluster.shardrun(one.path(), &flags).done().status(0).stderr_has("3 items submitted to k8s as shardrun-");
    cluster.shardrun(two.path(), &flags).done().status(0).stderr_has("3 items submitted to k8s as shardrun-");
    assert_eq!(cluster.starts(), 6, "the second command ran nothing");
    // Nor are they ended for ours.
    cluster.shardrun(two.path(), ["cancel"]).done().status(0).stderr_has("ended k8s shardrun-");
    let left = std::fs::read_to_string(cluster.path("objects")).unwrap();
    assert_eq!(left.matches("\"kind\": \"Job\"").count(), 1, "{left}");
}

#[test]
fn the_same_command_joins_a_live_run() {
    for (flags, engine) in [(&K8S[..], "k8s"), (&SLURM, "slurm")] {
        let cluster = Cluster::new();
        let folder = dir();
        let command = with(flags, &["--run", "r", "true"]);
        cluster.shardrun(folder.path(), &command).done().status(0);
        let again = cluster.shardrun(folder.path(), &command).done().status(0);
        again.stderr_has(&format!("shardrun: r: already running on {engine} as "));
        cluster.shardrun(folder.path(), ["retry", "r"]).done().status(0).stderr_has(", nothing submitted");
        assert_eq!(cluster.starts(), 3, "{engine}: items were handed over twice");
        let refused = format!("shardrun: r: still running on {engine} as ");
        for other in [with(flags, &["--run", "r", "--redo", "true"]), vec!["--run", "r", "-n", "3", "true"]] {
            cluster.shardrun(folder.path(), other).done().status(1).stderr_has(&refused);
        }
        assert_eq!(cluster.starts(), 3, "{engine}: items were handed over twice");
    }
}

#[test]
fn cancel_deletes_all_that_a_run_has_left_and_keeps_its_results() {
    let cluster = Cluster::new();
    let (one, two) = (dir(), dir());
    for folder in [&one, &two] {
        cluster.shardrun(folder.path(), with(&K8S, &["--run", "r", "true"])).done().status(0);
    }
    cluster.finish();
    cluster
        .shardrun(one.path(), ["cancel", "--delete", "r"])
        .done()
        .status(0)
        .stderr_has("r: nothing was running; deleted 1 submission");
    let left = std::fs::read_to_string(cluster.path("objects")).unwrap();
    for kind in ["Job", "ConfigMap"] {
        assert_eq!(left.matches(&format!("\"kind\": \"{kind}\"")).count(), 1, "{left}");
    }
    let status = cluster.shardrun(one.path(), ["status", "r"]).done().status(0).stdout_text();
    assert!(status.contains("3 of 3 done"), "{status}");
    cluster.shardrun(one.path(), ["--run", "here", "-n", "1", "true"]).done().status(0);
    cluster
        .shardrun(one.path(), ["cancel", "--delete", "here"])
        .done()
        .status(2)
        .stderr_has("--delete: here was not submitted to k8s");
}

#[test]
fn pods_that_outlive_their_job_are_still_at_work() {
    let cluster = Cluster::new();
    let folder = dir();
    let command = with(&K8S, &["--run", "r", "true"]);
    cluster.shardrun(folder.path(), &command).done().status(0);
    let label = std::fs::read_to_string(folder.path().join("r/submit-000/engine.json")).unwrap();
    let label: serde_json::Value = serde_json::from_str(&label).unwrap();
    let label = label["parts"][0]["id"].as_str().unwrap().rsplit_once('-').unwrap().0.to_owned();
    // Somebody deletes the Job; its pods have time to end.
    let mut delete = Command::new(cluster.path("bin/kubectl"));
    delete.args(["delete", "jobs", "-l", &format!("shardrun={label}")]);
    assert!(delete.env("CLUSTER", cluster.path("")).env("LOOKS", "4").status().unwrap().success());
    cluster.shardrun(folder.path(), &command).done().status(0).stderr_has("already running on k8s as ");
    cluster.shardrun(folder.path(), ["cancel", "r"]).done().status(0).stderr_has("r: ended k8s ");
    assert_eq!(std::fs::read_to_string(cluster.path("objects")).unwrap(), "{}", "cancel returned before they ended");
    assert_eq!(cluster.starts(), 3);
}

#[test]
fn whoever_joins_waits_for_the_results() {
    let cluster = Cluster::new();
    let folder = dir();
    let command = with(&K8S, &["--run", "r", "--wait", "true"]);
    let mut first = cluster.shardrun(folder.path(), &command).into_command().spawn().unwrap();
    until(|| cluster.starts() == 3);
    until(|| !folder.path().join("r/lock").exists() || !is_locked(&folder.path().join("r")));
    first.kill().unwrap();
    first.wait().unwrap();
    let mut second = cluster.shardrun(folder.path(), &command).into_command().spawn().unwrap();
    until(|| cluster.starts() == 3);
    cluster.finish();
    assert_eq!(status(second.wait().unwrap()), 0);
    assert_eq!((cluster.starts(), counts(folder.path())), (3, [3, 0, 0, 0]));
}

#[test]
fn results_of_a_run_that_nobody_waited_for_are_not_made_again() {
    let cluster = Cluster::new();
    let folder = dir();
    let command = with(&K8S, &["--run", "r", "true"]);
    cluster.shardrun(folder.path(), &command).done().status(0);
    cluster.finish();
    cluster.shardrun(folder.path(), &command).done().status(0).stderr("");
    assert_eq!(cluster.starts(), 3, "the finished run was handed over again");
    // What succeeded said something too.
    let said = cluster.shardrun(folder.path(), ["logs", "r"]).done().status(0).stdout_text();
    assert_eq!(said, "==> item 0 (0)\nfrom 0\n==> item 1 (1)\nfrom 1\n==> item 2 (2)\nfrom 2\n");
}

#[test]
fn an_array_is_found_whose_submitter_died_before_it_heard_of_it() {
    let cluster = Cluster::new();
    let folder = dir();
    let command = with(&SLURM, &["--run", "r", "true"]);
    cluster.shardrun(folder.path(), &command).env("DIE_BEFORE_ANSWER", "1").done().status(128 + 9);
    assert_eq!(cluster.starts(), 3);
    cluster.shardrun(folder.path(), &command).done().status(0).stderr_has("already running on slurm as 17");
    assert_eq!(cluster.starts(), 3);
    cluster.shardrun(folder.path(), ["cancel", "r"]).done().status(0).stderr("shardrun: r: ended slurm 17");
}

#[test]
fn a_cluster_that_cannot_be_asked_may_still_run_it() {
    let cluster = Cluster::new();
    let folder = dir();
    let command = with(&SLURM, &["--run", "r", "true"]);
    cluster.shardrun(folder.path(), &command).done().status(0);
    let other = cluster.shardrun(folder.path(), &command).env("CLUSTER_NAME", "two").done().status(1);
    other
        .stderr_has("still runs on slurm")
        .stderr_has("it was submitted to the cluster one, but this machine uses two");
    assert_eq!(cluster.starts(), 3);
}

#[test]
fn another_cluster_of_the_site_is_asked() {
    let cluster = Cluster::new();
    let folder = dir();
    let command = with(&SLURM, &["--run", "r", "--slurm-arg=-M", "--slurm-arg=far", "true"]);
    cluster.shardrun(folder.path(), &command).done().status(0);
    cluster.shardrun(folder.path(), &command).done().status(0).stderr_has("already running on slurm as 17");
    cluster.shardrun(folder.path(), ["cancel", "r"]).done().status(0).stderr("shardrun: r: ended slurm 17");
    assert_eq!((cluster.starts(), std::fs::read_to_string(cluster.path("jobs")).unwrap()), (3, "{}".to_owned()));
}

#[test]
fn a_stranger_with_our_job_number_is_left_alone() {
    let cluster = Cluster::new();
    let folder = dir();
    cluster.shardrun(folder.path(), with(&SLURM, &["--run", "r", "true"])).done().status(0);
    // The controller has lost its state and counts from the beginning.
    std::fs::write(cluster.path("jobs"), r#"{"17": {"script": "/home/stranger/train.sh", "tasks": 1, "cluster": ""}}"#)
        .unwrap();
    cluster.shardrun(folder.path(), ["cancel", "r"]).done().status(0).stderr("shardrun: r: nothing was running");
    assert!(std::fs::read_to_string(cluster.path("jobs")).unwrap().contains("stranger"), "a stranger's job was ended");
}

#[test]
fn cancel_without_a_name_ends_the_run_that_is_live() {
    for flags in [&K8S[..], &SLURM] {
        let cluster = Cluster::new();
        let folder = dir();
        let path = folder.path();
        cluster.shardrun(path, with(flags, &["true"])).done().status(0);
        // Used later, and over.
        cluster.shardrun(path, ["-n", "1", "true"]).done().status(0);
        cluster.shardrun(path, ["cancel"]).done().status(0).stderr_has(": ended ");
        let jobs = std::fs::read_to_string(cluster.path("jobs")).unwrap_or("{}".into());
        assert_eq!(jobs, "{}", "cancel returned before they ended");
        cluster.shardrun(path, ["cancel"]).done().status(0).stderr_has(": nothing was running");
        cluster.shardrun(path, with(flags, &["echo 1"])).done().status(0);
        cluster.shardrun(path, with(flags, &["echo 2"])).done().status(0);
        cluster.shardrun(path, ["cancel"]).done().status(2).stderr_has("several runs are active; name one of them: ");
    }
}

#[test]
fn the_run_used_last_may_be_on_an_engine() {
    let cluster = Cluster::new();
    let folder = dir();
    let path = folder.path();
    cluster.shardrun(path, ["-n", "1", "true"]).done().status(0);
    cluster.shardrun(path, with(&SLURM, &["true"])).done().status(0);
    let shown = cluster.shardrun(path, ["status"]).done().status(0).stdout_text();
    assert!(shown.contains(": 0 of 3 done"), "{shown}");
}

pub fn until(mut ready: impl FnMut() -> bool) {
    let started = Instant::now();
    while !ready() {
        assert!(started.elapsed() < Duration::from_secs(120), "it never happened");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether somebody holds the lock of a run.
fn is_locked(run: &Path) -> bool {
    !Command::new("flock").args(["-n", "-s"]).arg(run.join("lock")).arg("true").status().unwrap().success()
}

/// A process that holds the lock of the run `r`, whose signature is this.
fn hold(path: &Path, signature: &str) -> Child {
    let lock = path.join("r/lock");
    std::fs::write(&lock, signature).unwrap();
    let mut command = Command::new("flock");
    let child = command
        .arg("--no-fork")
        .arg(&lock)
        .args(["sh", "-c", "touch held; exec sleep 1000"])
        .current_dir(path)
        .spawn()
        .unwrap();
    until(|| path.join("held").exists());
    std::fs::remove_file(path.join("held")).unwrap();
    child
}

#[test]
fn cancel_from_elsewhere_ends_no_stranger() {
    let folder = dir();
    let path = folder.path();
    shardrun(path, ["--run", "r", "-n", "1", "cp r/lock signature"]).ok();
    let signature = std::fs::read_to_string(path.join("signature")).unwrap();
    let mut stranger = Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = stranger.id().to_string();
    let value: serde_json::Value = serde_json::from_str(&signature).unwrap();
    // HOST-MACHINE-NAMESPACE.PID.START-RANDOM
    let parts: Vec<&str> = value["process"].as_str().unwrap().split(['-', '.']).collect();
    let [host, machine, namespace, _, start, random] = parts[..] else { panic!("{signature}") };
    let signed = |machine: &str, namespace: &str, start: &str| {
        let mut signed = value.clone();
        signed["process"] = format!("{host}-{machine}-{namespace}.{pid}.{start}-{random}").into();
        signed.to_string()
    };
    for (signed, said) in [
        (signed("0123456789ab", namespace, start), format!("process {pid} on ")),
        (signed(machine, "1", start), format!("process {pid} in another container on ")),
        // The id of an ended process was reused by another.
        (signed(machine, namespace, "1"), "an unidentified process".into()),
        (pid.clone(), "an unidentified process".into()),
    ] {
        let mut holder = hold(path, &signed);
        let done = shardrun(path, ["cancel", "r"]).done().status(1);
        done.stderr_has(&format!("shardrun: r: {said}")).stderr_has("cannot be ended from here");
        let started = shardrun(path, ["--run", "r", "-n", "1", "--redo", "true"]).done().status(1);
        started.stderr_has("another shardrun is working on this run");
        holder.kill().unwrap();
        holder.wait().unwrap();
        until(|| !is_locked(&path.join("r")));
    }
    assert!(!is_gone_process(&pid), "a stranger was ended");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    shardrun(path, ["cancel", "r"]).done().status(0).stderr("shardrun: r: nothing was running");
}

/// Gone, or a zombie.
fn is_gone_process(pid: &str) -> bool {
    !std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn cancel_returns_when_nothing_runs_any_more() {
    let folder = dir();
    let path = folder.path();
    let pipeline = "echo $$ > pid; sleep 1000";
    let mut first = shardrun(path, ["--run", "r", "-n", "1", pipeline]).into_command().spawn().unwrap();
    until(|| std::fs::read_to_string(path.join("pid")).is_ok_and(|pid| pid.ends_with('\n')));
    let said = format!("shardrun: r: ended process {}", first.id());
    shardrun(path, ["cancel", "r"]).done().status(0).stderr(&said);
    assert!(is_gone(std::fs::read_to_string(path.join("pid")).unwrap().trim()), "something of it is left");
    assert_eq!(status(first.wait().unwrap()), 143);
}
