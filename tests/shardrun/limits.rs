//! Limits of sites, servers and time apply to the whole run, and are reported while shardrun waits.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::live::{Cluster, K8S, SLURM, until, with};
use super::{log, read, shardrun};
use crate::support::{Run, dir, status};

#[test]
fn a_reader_that_has_enough_is_explained() {
    let folder = dir();
    let path = folder.path();
    std::fs::write(path.join("big"), vec![0; 1 << 20]).unwrap();
    let hint = "could not write all of its output, as happens if the next stage stops reading early; if that is intended, write";
    for (run, pipeline, status) in [("r", "cat big | head -c 1", 141), ("s", "curl -s file://$PWD/big | head -c 1", 23)]
    {
        let done = shardrun(path, ["--run", run, "-n", "1", "-o", "{}.out", pipeline]).done().status(3);
        done.stderr_has(hint).stderr_has(&format!("{{ STAGE || [ $? = {status} ]; }} |"));
    }
    // What it says helps.
    let mended = "{ cat big || [ $? = 141 ]; } | head -c 1";
    shardrun(path, ["--run", "t", "-n", "1", "-o", "{}.out", mended]).ok();
    // Another failure is not explained so.
    let other = shardrun(path, ["--run", "u", "-n", "1", "-o", "{}.u", "false | cat"]).done().status(3);
    assert!(!other.stderr_text().contains("reading early"));
}

/// One start of the first task of the run `r`, as Slurm makes it, interrupted by the warning before its time is over.
fn interrupted(cluster: &Cluster, folder: &Path, restarts: usize) {
    let worker = cluster.shardrun(folder, ["item", "r/submit-000", "0"]);
    let worker = worker.env("SLURM_JOB_ID", "17").env("SHARDRUN_REQUEUE", "1");
    let mut command = worker.env("SLURM_RESTART_COUNT", &restarts.to_string()).into_command();
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let begun = || std::fs::read_to_string(folder.join("began-1")).map_or(0, |text| text.lines().count());
    until(|| begun() == restarts + 1);
    assert!(Command::new("kill").args(["-USR1", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(status(child.wait().unwrap()), 128 + 10);
}

#[test]
fn an_item_longer_than_its_time_limit_is_requeued_a_few_times() {
    let cluster = Cluster::new();
    let folder = dir();
    let path = folder.path();
    let pipeline = "echo x >>began-{}; [ {} != 1 ] || sleep 1000";
    cluster.shardrun(path, with(&SLURM, &["--run", "r", "--chunk", "3", pipeline])).done().status(0);
    for restarts in 0..3 {
        interrupted(&cluster, path, restarts);
    }
    let failed: Vec<Value> = log(path).into_iter().filter(|record| record["state"] == "failed").collect();
    assert_eq!((failed.len(), &failed[0]["item"], &failed[0]["code"]), (1, &1.into(), &"timeout".into()));
    assert!(failed[0]["message"].as_str().unwrap().starts_with("interrupted 3 times by Slurm's time limit"));
    // The rest of the task still runs, and only that.
    assert_eq!(std::fs::read_to_string(cluster.path("requeued")).unwrap().lines().count(), 3);
    let last = cluster.shardrun(path, ["item", "r/submit-000", "0"]).env("SLURM_RESTART_COUNT", "3").done();
    last.status(0);
    assert_eq!((read(path, "began-0"), read(path, "began-2")), ("x\n".to_owned(), "x\n".to_owned()));
}

#[test]
fn an_interrupted_redo_is_not_done_by_what_was_done_before() {
    let cluster = Cluster::new();
    let folder = dir();
    let path = folder.path();
    shardrun(path, ["--run", "r", "-n", "3", "echo x >>ran-{}"]).ok();
    let flags = with(&SLURM, &["--run", "r", "--redo", "--chunk", "3", "echo x >>ran-{}"]);
    cluster.shardrun(path, flags).done().status(0);
    cluster.shardrun(path, ["item", "r/submit-000", "0"]).env("SLURM_RESTART_COUNT", "1").done().status(0);
    assert_eq!(read(path, "ran-0"), "x\nx\n");
}

#[test]
fn failures_are_counted_over_all_tasks() {
    let cluster = Cluster::new();
    let folder = dir();
    let path = folder.path();
    let flags = with(&SLURM, &["--run", "r", "--max-failures", "1", "echo x >>ran; false"]);
    cluster.shardrun(path, flags).done().status(0);
    for (task, expected) in [("0", 3), ("1", 3), ("2", 0)] {
        cluster.shardrun(path, ["item", "r/submit-000", task]).done().status(expected);
    }
    assert_eq!(read(path, "ran"), "x\nx\n");
}

#[test]
fn an_item_that_fails_again_after_its_task_was_killed_counts_once() {
    let cluster = Cluster::new();
    let folder = dir();
    let path = folder.path();
    let flags = with(&SLURM, &["--run", "r", "--max-failures", "1", "echo x >>ran; false"]);
    cluster.shardrun(path, flags).done().status(0);
    let item = |task: &str| cluster.shardrun(path, ["item", "r/submit-000", task]).done();
    item("0").status(3);
    // Killed between the count and the job log, so that Slurm runs it again.
    std::fs::remove_dir_all(path.join("r/log")).unwrap();
    item("0").status(3);
    item("1").status(3);
    item("2").status(0);
    assert_eq!(read(path, "ran"), "x\nx\nx\n");
}

#[test]
fn what_a_site_refuses_is_named_and_what_it_took_goes_on() {
    let cluster = Cluster::new();
    let folder = dir();
    let flags = with(&SLURM, &["--run", "r", "true"]);
    let limited = || cluster.shardrun(folder.path(), &flags).env("MAX_ARRAY", "2").env("MAX_JOBS", "1").done();
    let refused = limited().status(1);
    refused.stderr_has("shardrun: tasks 2 to 2 were not submitted; the others are on Slurm as 17 (").stderr_has(
        "sbatch: AssocMaxSubmitJobLimit; Batch job submission failed: Job violates accounting/QOS policy (job submit limit)",
    );
    limited().status(0).stderr_has("already running on slurm as 17");
    assert_eq!(cluster.starts(), 2);
}

#[test]
fn status_tells_why_nothing_starts() {
    let folder = dir();
    let path = folder.path();
    let cluster = Cluster::new();
    cluster.shardrun(path, with(&SLURM, &["--run", "s", "true"])).done().status(0);
    let shown =
        |reason: &str| cluster.shardrun(path, ["status", "s"]).env("REASON", reason).done().status(0).stdout_text();
    assert!(shown("PartitionTimeLimit").contains("\nwaiting: 3 tasks: PartitionTimeLimit\n"));
    assert!(!shown("Priority").contains("waiting: "));
    cluster.shardrun(path, with(&K8S, &["--run", "k", "true"])).done().status(0);
    for (pod, said) in [
        (
            r#"{"containerStatuses":[{"state":{"waiting":{"reason":"ImagePullBackOff","message":"Back-off pulling image \"x\""}}}]}"#,
            "waiting: 3 pods: ImagePullBackOff: Back-off pulling image \"x\"\n",
        ),
        (
            r#"{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/2 nodes"}]}"#,
            "waiting: 3 pods: Unschedulable: 0/2 nodes\n",
        ),
    ] {
        let shown = cluster.shardrun(path, ["status", "k"]).env("POD_STATUS", pod).done().status(0).stdout_text();
        assert!(shown.contains(said), "{shown}");
    }
}

#[test]
fn what_an_item_said_is_in_its_pods_message_whatever_became_of_it() {
    let folder = dir();
    let path = folder.path();
    let head = |pipeline: &str| {
        format!(
            r#"{{"shardrun":"","pipeline":"{pipeline}","output":null,"also":[],"count":20,"numbers":true,"sha256":"","cwd":null,"retries":0,"timeout":null,"jitter":null,"redo":false,"max_failures":null}}"#
        )
    };
    let message = |pipeline: &str, items: u64| {
        let task: Vec<(u64, String)> = (0..items).map(|item| (item, item.to_string())).collect();
        let bundle = format!("{}\n{}\n", head(pipeline), serde_json::to_string(&task).unwrap());
        shardrun(path, ["item", "-"]).env("SHARDRUN_MESSAGE", "message").stdin(bundle).done().status(0);
        read(path, "message")
    };
    let records: Vec<Value> =
        message("echo said {}", 2).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&records[0]["stderr"], &records[1]["stderr"]), (&"said 0\n".into(), &"said 1\n".into()));
    // However much they say, there is room for a record of each.
    let long = message("seq 10000", 8);
    assert!(long.len() <= 4096 && long.lines().count() == 8 && long.contains("9999"), "{long}");
}

#[test]
fn limits_hold_over_all_jobs_together() {
    let folder = dir();
    let path = folder.path();
    let names: String =
        (0..30_000).map(|i| format!("s3://bucket/{:016x}/train-{i:06}.tar\n", i * 0x9e37_79b9_7f4a_u64)).collect();
    std::fs::write(path.join("names"), names).unwrap();
    let flags = ["--on", "k8s", "--image", "x", "--dry-run", "-T", "names", "-o", "/out/{base}"];
    let parallelism = |more: &[&str]| -> Vec<u64> {
        let shown = shardrun(path, flags.iter().chain(more).chain(&["true"])).done().status(0).stdout_text();
        let documents = shown.split("\n---\n").map(|text| serde_json::from_str::<Value>(text).unwrap());
        documents.filter_map(|document| document["spec"]["parallelism"].as_u64()).collect()
    };
    let jobs = parallelism(&[]);
    assert!(jobs.len() > 2 && jobs.iter().sum::<u64>() <= 256, "{jobs:?}");
    assert!(parallelism(&["-j", "50"]).iter().sum::<u64>() <= 50);
    let few = shardrun(path, flags.iter().chain(&["-j", "2", "true"])).done().status(2);
    few.stderr_has("shardrun: -j 2: these tasks take ");
    let failures = shardrun(path, flags.iter().chain(&["--max-failures", "5", "true"])).done().status(2);
    failures.stderr_has("shardrun: --max-failures requires --wait here");
}

/// What the submission of a run costs.
#[derive(Debug)]
struct Cost {
    calls: usize,
    files: usize,
    bytes: u64,
    /// Peak memory in KiB of shardrun or of a program that it called.
    memory: u64,
}

/// Runs a command, and returns its peak memory in KiB or that of a program that it called.
fn peak_of(run: Run, folder: &Path) -> u64 {
    const PEAK: &str = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); \
        print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";
    let command = run.into_command();
    let mut measured = Command::new("python3");
    measured.args(["-c", PEAK]).arg(command.get_program()).args(command.get_args()).current_dir(folder);
    measured.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = measured.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

fn cost_of(engine: &[&str], items: usize) -> Cost {
    let (cluster, folder) = (Cluster::new(), dir());
    let items = items.to_string();
    let run = cluster.shardrun(folder.path(), with(engine, &["--run", "r", "-n", &items, "true {}"]));
    let memory = peak_of(run.env("MAX_ARRAY", "10001"), folder.path());
    let calls = std::fs::read_to_string(cluster.path("calls")).unwrap().lines().count();
    let (mut files, mut bytes, mut folders) = (0, 0, vec![folder.path().join("r")]);
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap().map(Result::unwrap) {
            let about = entry.metadata().unwrap();
            match about.is_dir() {
                true => folders.push(entry.path()),
                false => (files, bytes) = (files + 1, bytes + about.len()),
            }
        }
    }
    Cost { calls, files, bytes, memory }
}

#[test]
fn a_hundred_thousand_items_cost_at_most_ten_times_as_much_as_ten_thousand() {
    for engine in [&["--on", "slurm", "-j", "64"][..], &["--on", "k8s", "--image", "x"]] {
        let (small, large) = (cost_of(engine, 10_000), cost_of(engine, 100_000));
        let within = large.calls <= 10 * small.calls.max(4)
            && large.files <= 10 * small.files
            && large.bytes <= 12 * small.bytes
            && large.memory < 100 << 10;
        assert!(within, "{engine:?}: {small:?} {large:?}");
        // Nothing is written per task.
        assert!(large.files < 200 && large.calls < 50, "{engine:?}: {large:?}");
    }
}

#[test]
fn pods_are_listed_in_pages() {
    let peak = |items: usize| {
        let (cluster, folder) = (Cluster::new(), dir());
        let (count, path) = (items.to_string(), folder.path());
        cluster.shardrun(path, with(&K8S[..4], &["--run", "r", "-n", &count, "true {}"])).done().status(0);
        cluster.finish();
        let peak = peak_of(cluster.shardrun(path, ["status", "r"]).env("SAID", ""), path);
        let done = log(path).iter().filter(|record| record["state"] == "done").count();
        assert_eq!(done, items);
        peak
    };
    let (small, large) = (peak(2_000), peak(20_000));
    // The 12 MB of JSON about the pods are never in memory together: as generic values they would take 80 MB.
    assert!(large < small + (24 << 10), "{small} KiB, {large} KiB");
}
