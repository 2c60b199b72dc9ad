//! Slurm with three nodes of two cores.

use std::fs;

use super::{Engine, FLAKY, HELD, is_alive, repository, until};
use crate::support::list;
use crate::support::web::{Web, reply};

fn slurm() -> Engine {
    Engine::up("slurm", "", "--on slurm --wait")
}

impl Engine {
    /// What runs: the item (which is the index in the array), the node and the job of each.
    fn running(&self) -> Vec<(u64, String, String)> {
        let queue = self.bash("squeue -h -r -t running -o '%K %N %F_%K'").done().status(0).stdout_text();
        let words = queue.lines().map(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        words.map(|words| (words[0].parse().unwrap(), words[1].clone(), words[2].clone())).collect()
    }

    /// A requeued job waits for two minutes, unless one moves it; within a second or so of its end it can't start.
    fn hasten(&self, job: &str, restarts: usize) {
        let show = format!("scontrol show job -o {job}");
        until("it is queued again", || {
            let shown = self.bash(&show).done().stdout_text();
            shown.contains("JobState=PENDING") && shown.contains(&format!("Restarts={restarts} "))
        });
        self.bash(&format!("sleep 2.5; scontrol update jobid={job} StartTime=now")).done().status(0);
    }
}

#[test]
#[ignore = "needs Slurm: scripts/test --engines"]
fn slurm_gives_the_bytes_of_local_and_resumes_what_failed() {
    let slurm = slurm();
    slurm.gives_the_bytes_of_local();
    slurm.retries_fails_and_resumes();
}

#[test]
#[ignore = "needs Slurm: scripts/test --engines"]
fn slurm_cancels_and_resumes() {
    slurm().cancels_and_resumes();
}

#[test]
#[ignore = "needs Slurm: scripts/test --engines"]
fn a_slurm_node_that_dies_loses_nothing_but_time() {
    let slurm = slurm();
    let waiting = slurm.begin("", HELD);
    slurm.until_begun(&[2, 3, 4, 5]);
    let running = slurm.running();
    let node = running.iter().find(|(item, ..)| *item == 4).unwrap().1.clone();
    slurm.control("crash", &node);
    // Slurm would notice by itself in half a minute.
    slurm.bash(&format!("scontrol update nodename={node} state=down reason=crash")).done().status(0);
    assert!(slurm.status().contains("0 failed"), "{}", slurm.status());
    fs::write(slurm.path("go"), "").unwrap();
    for (.., job) in running.iter().filter(|(_, on, _)| *on == node) {
        slurm.hasten(job, 1);
    }
    waiting.ends(0);
    assert_ne!(slurm.record(4)["host"], node.as_str());
    slurm.complete();
}

#[test]
#[ignore = "needs Slurm: scripts/test --engines"]
fn a_warned_slurm_task_goes_back_into_the_queue() {
    let slurm = slurm();
    let waiting = slurm.begin("", HELD);
    slurm.until_begun(&[3]);
    let (.., job) = &slurm.running().into_iter().find(|(item, ..)| *item == 3).unwrap();
    slurm.bash(&format!("scancel --batch --signal=USR1 {job}")).done().status(0);
    slurm.hasten(job, 1);
    fs::write(slurm.path("go"), "").unwrap();
    waiting.ends(0);
    assert_eq!(fs::read_to_string(slurm.path("began-3")).unwrap().lines().count(), 2);
    slurm.complete();
}

#[test]
#[ignore = "needs Slurm: scripts/test --engines"]
fn slurm_runs_what_it_is_handed_when_nobody_waits() {
    let mut slurm = slurm();
    slurm.flags = "--on slurm -j 2 --chunk 2".into();
    slurm.shardrun("--retries 2", FLAKY).done().status(0).stderr_has("6 items submitted to slurm as ");
    until("it is over", || slurm.status().contains("5 of 6 done (83 %), 0 running, 1 failed"));
    fs::write(slurm.path("mended"), "").unwrap();
    slurm.bash("shardrun retry --failed run").done().status(0);
    until("it is done", || slurm.status().contains("6 of 6 done"));
    slurm.complete();
}

#[test]
#[ignore = "needs Slurm: scripts/test --engines"]
fn slurm_holds_several_arrays_steps_of_an_allocation_and_dependencies() {
    let mut slurm = Engine::up("slurm", "3 2 4", "--on slurm --wait");
    slurm.shardrun("-j 2", "echo {}").done().status(0);
    slurm.complete();
    let arrays = fs::read_to_string(slurm.path("run/submit-000/engine.json")).unwrap();
    assert_eq!(arrays.matches("\"id\"").count(), 2, "{arrays}");
    slurm.clear();
    slurm.flags = "--on slurm --interactive -j 3".into();
    slurm.shardrun("", "echo {}").done().status(0);
    slurm.complete();
    slurm.clear();
    let first =
        slurm.bash("sbatch --parsable -o /dev/null --wrap 'sleep 1; touch first'").done().status(0).stdout_text();
    slurm.flags = format!("--on slurm --wait --after {}", first.trim());
    slurm.shardrun("", "[ -e first ]; echo {}").done().status(0);
    slurm.complete();
}

#[test]
#[ignore = "needs Slurm: scripts/test --engines"]
fn an_array_gives_its_tasks_their_ranks_only_when_it_is_whole() {
    let slurm = slurm();
    slurm.bash("for i in 0 1 2 3; do echo $i >$i.txt; done; tar cf in.tar *.txt; rm *.txt").ok();
    let array = |tasks: &str| {
        let task =
            "tarcat --shard env in.tar 2>said-$SLURM_ARRAY_TASK_ID | tar t | tr '\\n' ' ' >got-$SLURM_ARRAY_TASK_ID";
        let script = format!(
            "sbatch --wait --quiet -o /dev/null --array={tasks} --wrap \"$TASK\" || true; tail -n +1 got-*; rm got-*"
        );
        slurm.bash(&script).env("TASK", task).done().status(0).stdout_text()
    };
    let whole = "==> got-1 <==\n0.txt 3.txt \n==> got-2 <==\n1.txt \n==> got-3 <==\n2.txt ";
    assert_eq!(array("1-3"), whole);
    assert_eq!(array("2,3"), "==> got-2 <==\n\n==> got-3 <==\n");
    let said = fs::read_to_string(slurm.path("said-3")).unwrap();
    assert!(said.contains("an array of 2 tasks from 2 to 3 does not tell how many parts"), "{said}");
}

#[test]
#[ignore = "needs Slurm: scripts/test --engines"]
fn a_dataset_is_made_by_jobs_of_so_many_shards_each() {
    let slurm = slurm();
    let web = Web::start(|asked, wire| match asked.path.as_str() {
        "/3" => reply(wire, "404 Not Found", "", b""),
        _ => reply(wire, "200 OK", "", b"a file"),
    });
    let urls: String = (0..10).map(|n| format!("{}/{n}\n", web.url)).collect();
    fs::write(slurm.path("urls.txt"), urls).unwrap();
    let flags = "urls.txt --output_folder out --output_format webdataset --number_sample_per_shard 2 --subjob_size 3";
    let script = repository().join("scripts/any2dataset");
    let words = format!("exec {} {flags} --distributor slurm --allow_private", script.display());
    slurm.bash(&words).env("no_proxy", "*").done().status(0).stderr("");
    let made = list(slurm.path("out"));
    assert_eq!(made.iter().filter(|name| name.ends_with("_stats.json")).count(), 5, "{made:?}");
    // The second job had what the first left.
    let pipelines = fs::read_to_string(slurm.path("out/.any2dataset/pipelines")).unwrap();
    let shards: Vec<&str> = pipelines.lines().filter_map(|line| Some(line.split_once('\t')?.0)).collect();
    assert_eq!(shards, ["3", "4"]);
    let stats = fs::read_to_string(slurm.path("out/00001_stats.json")).unwrap();
    assert!(stats.contains("\"failed_to_download\": 1"), "{stats}");
}

/// How often the items of this run have begun, by name.
fn begun(slurm: &Engine, item: u64) -> usize {
    fs::read_to_string(slurm.path(&format!("began-{item}"))).map_or(0, |text| text.lines().count())
}

#[test]
#[ignore = "needs Slurm: scripts/test --engines"]
fn slurm_runs_nothing_twice_and_cancel_ends_what_is_live() {
    let slurm = slurm();
    // The process that waits is killed, and the same command takes its place.
    let mut waiting = slurm.begin("", HELD);
    slurm.until_begun(&[2, 3, 4, 5]);
    waiting.child.kill().unwrap();
    waiting.child.wait().unwrap();
    let again = slurm.begin("", HELD);
    until("it joins", || fs::read_to_string(&again.errors).unwrap().contains("already running on slurm as "));
    slurm.bash("shardrun --on local --run run -n 6 -o 'out-{}' \"$PIPELINE\"").env("PIPELINE", HELD).done().status(1);
    fs::write(slurm.path("go"), "").unwrap();
    again.ends(0);
    slurm.complete();
    assert_eq!((0..6).map(|item| begun(&slurm, item)).sum::<usize>(), 6, "items ran twice");
    slurm.clear();
    // Without a name: the one that is live, not the one used last.
    let live = "shardrun --on slurm -n 2 'echo $$ >>pid-{}; sleep 1000'";
    slurm.bash(live).done().status(0);
    until("it begins", || slurm.path("pid-0").exists() && slurm.path("pid-1").exists());
    slurm.bash("shardrun -n 1 true").done().status(0);
    slurm.bash("shardrun cancel").done().status(0).stderr_has(": ended slurm ");
    assert_eq!(slurm.bash("squeue -h").done().status(0).stdout_text(), "");
    for item in 0..2 {
        let pid = fs::read_to_string(slurm.path(&format!("pid-{item}"))).unwrap();
        assert!(!is_alive(pid.trim()), "item {item} runs on");
    }
    slurm.bash("shardrun cancel").done().status(0).stderr_has(": nothing was running");
}

#[test]
#[ignore = "needs Slurm: scripts/test --engines"]
fn an_interactive_slurm_run_is_seen_and_cancelled() {
    let mut slurm = slurm();
    slurm.flags = "--on slurm --interactive -j 2".into();
    for kill in [false, true] {
        let mut waiting = slurm.begin("", HELD);
        slurm.until_begun(&[2, 3]);
        until("the quick ones end", || slurm.status().contains("2 of 6 done (33 %), 2 running"));
        if kill {
            waiting.child.kill().unwrap();
            waiting.child.wait().unwrap();
        }
        slurm.bash("shardrun cancel run").done().status(0).stderr_has("run: ended ");
        assert_eq!(slurm.bash("squeue -h").done().status(0).stdout_text(), "");
        for pid in slurm.held() {
            until("items end with their allocation", || !is_alive(pid.lines().last().unwrap()));
        }
        drop(waiting);
        slurm.clear();
    }
}

#[test]
#[ignore = "needs Slurm: scripts/test --engines"]
fn an_item_longer_than_its_time_limit_fails_and_says_so() {
    let slurm = slurm();
    // The second item of each task is the one that takes too long.
    let waiting = slurm.begin("--chunk 3", "echo $$ >>began-{}; [ {} != 1 ] || sleep 1000; echo {}");
    for round in 1..=3 {
        until("it begins", || begun(&slurm, 1) == round);
        let (.., job) = &slurm.running().into_iter().find(|(task, ..)| *task == 0).unwrap();
        slurm.bash(&format!("scancel --batch --signal=USR1 {job}")).done().status(0);
        slurm.hasten(job, round);
    }
    waiting.ends(3);
    let record = slurm.record(1);
    assert_eq!(record["code"], "timeout", "{record}");
    assert!(record["message"].as_str().unwrap().contains("by Slurm's time limit"), "{record}");
    // The others of its task are done, and ran once.
    assert_eq!(slurm.status().split(": ").nth(1).unwrap(), "5 of 6 done (83 %), 0 running, 1 failed, 0 left");
    assert_eq!((begun(&slurm, 0), begun(&slurm, 1), begun(&slurm, 2)), (1, 3, 1));
}

#[test]
#[ignore = "needs Slurm: scripts/test --engines"]
fn what_slurm_does_not_start_is_explained() {
    let slurm = slurm();
    let waiting = slurm.begin("--slurm-arg=--hold", "echo {}");
    let said = || fs::read_to_string(&waiting.errors).unwrap();
    let started = std::time::Instant::now();
    until("it says why", || said().contains("waiting for slurm: 6 tasks: JobHeldUser"));
    assert!(started.elapsed().as_secs() < 60, "it took {:?}", started.elapsed());
    let shown = slurm.bash("shardrun status run").done().status(0).stdout_text();
    assert!(shown.contains("waiting: 6 tasks: JobHeldUser"), "{shown}");
    slurm.bash("shardrun cancel run").done().status(0);
    waiting.ends_badly();
    slurm.clear();
    let refused = slurm.shardrun("--slurm-arg=--partition=none", "echo {}").done().status(1);
    refused.stderr_has("tasks 0 to 5 were not submitted: sbatch: ").stderr_has("invalid partition specified");
}
