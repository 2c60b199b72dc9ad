//! A Kubernetes 1.20 control plane with two nodes that run pods as processes: a single-pod Job a task.

use std::fs;

use super::{Engine, HELD, installed, is_alive, until};

fn k8s() -> Engine {
    Engine::up("k8s", &installed("k8s"), "--on k8s --wait --image none --chdir \"$PWD\"")
}

impl Engine {
    /// The pods that there are: the item (which is the task), the name and the node of each.
    fn pods(&self) -> Vec<(u64, String, String)> {
        let columns = "custom-columns=POD:.metadata.name,NODE:.spec.nodeName";
        let pods = self.bash(&format!("kubectl get pods --no-headers -o {columns}")).done().status(0).stdout_text();
        let words = pods.lines().map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        // NAME-FIRST-TASK-RANDOM
        let item = |pod: &str| pod.rsplit('-').nth(1).unwrap().parse().unwrap();
        words.map(|words| (item(&words[0]), words[0].clone(), words[1].clone())).collect()
    }

    fn pod_of(&self, item: u64) -> Option<(u64, String, String)> {
        self.pods().into_iter().find(|(its, ..)| *its == item)
    }
}

#[test]
#[ignore = "needs Kubernetes: scripts/test --engines"]
fn kubernetes_gives_the_bytes_of_local_and_resumes_what_failed_or_was_cancelled() {
    let k8s = k8s();
    k8s.gives_the_bytes_of_local();
    k8s.retries_fails_and_resumes();
    k8s.cancels_and_resumes();
}

#[test]
#[ignore = "needs Kubernetes: scripts/test --engines"]
fn kubernetes_pods_and_nodes_that_go_lose_nothing_but_time() {
    let k8s = k8s();
    let waiting = k8s.begin("", HELD);
    k8s.until_begun(&[2, 3, 4, 5]);
    let (_, pod, _) = k8s.pod_of(2).unwrap();
    k8s.bash(&format!("kubectl delete pod {pod} --wait=false")).done().status(0);
    until("it begins again", || k8s.begun() == 7 && k8s.pods().len() == 6);
    // Item 0 is done; its pod, and the result in it, go with the node. What else is there begins again.
    until("a quick one ends", || k8s.path("out-0").exists());
    let (.., node) = k8s.pod_of(0).unwrap();
    let there = k8s.pods().iter().filter(|(item, _, on)| *item > 1 && *on == node).count();
    k8s.control("crash", node.trim_start_matches("node"));
    until("its pods go", || k8s.pod_of(0).is_none());
    until("they begin again elsewhere", || k8s.begun() == 7 + there);
    fs::write(k8s.path("go"), "").unwrap();
    waiting.ends(0);
    k8s.complete();
}

#[test]
#[ignore = "needs Kubernetes: scripts/test --engines"]
fn kubernetes_runs_nothing_twice_and_takes_nobody_elses_results() {
    let k8s = k8s();
    // The process that waits is killed, and the same command takes its place.
    let mut waiting = k8s.begin("", HELD);
    k8s.until_begun(&[2, 3, 4, 5]);
    until("all is handed over", || k8s.status().contains("0 failed"));
    waiting.child.kill().unwrap();
    waiting.child.wait().unwrap();
    let again = k8s.begin("", HELD);
    until("it joins", || fs::read_to_string(&again.errors).unwrap().contains("already running on k8s as "));
    fs::write(k8s.path("go"), "").unwrap();
    again.ends(0);
    k8s.complete();
    assert_eq!(k8s.begun(), 6, "items ran twice");
    // The same command in a fresh run finds the Jobs of the first, and does not take them for its own.
    for name in ["run", "out-0", "out-1", "out-2", "out-3", "out-4", "out-5"] {
        let path = k8s.path(name);
        if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
    }
    k8s.shardrun("", HELD).done().status(0);
    k8s.complete();
    assert_eq!(k8s.begun(), 12, "the second run did not run");
}

#[test]
#[ignore = "needs Kubernetes: scripts/test --engines"]
fn kubernetes_cancels_the_live_run_and_tells_what_does_not_start() {
    let k8s = k8s();
    let live = "shardrun --on k8s --image none --chdir \"$PWD\" -n 2 'echo $$ >>pid-{}; echo said {}; sleep 1000'";
    k8s.bash(live).done().status(0);
    until("it begins", || k8s.path("pid-0").exists() && k8s.path("pid-1").exists());
    k8s.bash("shardrun -n 1 true").done().status(0);
    k8s.bash("shardrun cancel").done().status(0).stderr_has(": ended k8s shardrun-");
    assert!(k8s.pods().is_empty(), "{:?}", k8s.pods());
    for item in 0..2 {
        let pid = fs::read_to_string(k8s.path(&format!("pid-{item}"))).unwrap();
        assert!(!is_alive(pid.trim()), "item {item} runs on");
    }
    k8s.clear();
    fs::write(k8s.path("site.toml"), "[k8s]\npod = { nodeSelector = { disk = \"none\" } }\n").unwrap();
    let waiting = k8s.begin("--config site.toml", "echo {}");
    let started = std::time::Instant::now();
    until("it says why", || {
        let said = fs::read_to_string(&waiting.errors).unwrap();
        said.contains("waiting for k8s: 6 pods: Unschedulable: 0/2 nodes are available")
    });
    assert!(started.elapsed().as_secs() < 60, "it took {:?}", started.elapsed());
    k8s.bash("shardrun cancel run").done().status(0);
    waiting.ends_badly();
}

#[test]
#[ignore = "needs Kubernetes: scripts/test --engines"]
fn kubernetes_keeps_nothing_of_a_deleted_run_and_everything_of_others() {
    let k8s = k8s();
    let left = |selector: &str| {
        let names = format!("kubectl get jobs,pods,configmaps -o name -l '{selector}'");
        let text = k8s.bash(&names).done().status(0).stdout_text();
        let mut kinds: Vec<String> = text.lines().map(|name| name.split('/').next().unwrap().to_owned()).collect();
        kinds.sort();
        kinds
    };
    let foreign = "kubectl create configmap foreign --from-literal=a=b && kubectl label configmap foreign owner=other";
    k8s.bash(foreign).done().status(0);
    let other = "shardrun --on k8s --wait --image none --label owner=other --run other -n 1 'echo {}'";
    k8s.bash(other).done().status(0);
    let others = left("owner=other");
    assert_eq!(others, ["configmap", "configmap", "job.batch", "pod"]);
    let flags = "--label team=data --annotation note=x --cpu 100m --memory 64Mi";
    let done = k8s.shardrun(&format!("{flags} --retries 0"), "[ {} != 2 ]; echo {}").done().status(3);
    done.stderr_has("item 2 (2): the command failed with exit status 1");
    assert_eq!(left("team=data").iter().filter(|kind| *kind == "pod").count(), 6);
    let requested = "kubectl get pods -l team=data -o jsonpath='{.items[0].spec.containers[0].resources}'";
    let requested = k8s.bash(requested).done().status(0).stdout_text();
    assert_eq!(requested, r#"{"limits":{"memory":"64Mi"},"requests":{"cpu":"100m","memory":"64Mi"}}"#);
    k8s.bash("shardrun cancel --delete run")
        .done()
        .status(0)
        .stderr_has("run: nothing was running; deleted 1 submission");
    assert!(left("team=data").is_empty(), "{:?}", left("team=data"));
    assert_eq!(left("owner=other"), others, "objects of others were deleted");
    // Results and state outlive the objects.
    assert!(k8s.status().contains("5 of 6 done (83 %), 0 running, 1 failed, 0 left"), "{}", k8s.status());
    // A live run is ended first.
    let live = "shardrun --on k8s --image none --label team=data --run live -n 2 'sleep 1000'";
    k8s.bash(live).done().status(0);
    until("its pods start", || left("team=data").iter().filter(|kind| *kind == "pod").count() == 2);
    k8s.bash("shardrun cancel --delete live").done().status(0).stderr_has("live: ended k8s shardrun-");
    assert!(left("team=data").is_empty(), "{:?}", left("team=data"));
    assert_eq!(left("owner=other"), others, "objects of others were deleted");
}

#[test]
#[ignore = "needs Kubernetes: scripts/test --engines"]
fn kubernetes_stops_a_run_with_too_many_failures() {
    let k8s = k8s();
    // One at a time: the third failure is one too many, and most items never start.
    let flags = "--on k8s --wait --image none --chdir \"$PWD\" --run run -n 40 -j 1 --max-failures 2";
    let done = k8s.bash(&format!("shardrun {flags} 'echo x >>began-{{}}; false'")).done().status(3);
    done.stderr_has("items have failed; ending shardrun-");
    let begun = (0..40).filter(|item| k8s.path(&format!("began-{item}")).exists()).count();
    assert!((3..20).contains(&begun), "{begun} items began");
    assert!(k8s.pods().is_empty(), "{:?}", k8s.pods());
    k8s.bash("shardrun cancel run").done().status(0).stderr_has("run: nothing was running");
}

#[test]
#[ignore = "needs Kubernetes: scripts/test --engines"]
fn kubernetes_takes_names_that_fill_a_config_map() {
    let k8s = k8s();
    // Incompressible, and more than the annotation of `kubectl apply` has room for.
    k8s.bash("head -c 320000 /dev/urandom | od -An -v -tx1 -w64 | tr -d ' ' >names").done().status(0);
    let flags = "--on k8s --image none --chdir \"$PWD\" --chunk 5000 --run run -T names";
    let done = k8s.bash(&format!("shardrun {flags} 'sleep 1000; true $SHARD'")).done().status(0);
    done.stderr_has("5000 items submitted to k8s as ");
    until("it begins", || k8s.status().contains("1 running"));
    k8s.bash("shardrun cancel run").done().status(0).stderr_has("run: ended k8s ");
}
