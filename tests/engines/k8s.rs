//! A Kubernetes 1.20 control plane with two nodes that run pods as processes: a single-pod Job a task.

use std::fs;

use super::{Engine, HELD, installed, until};

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
