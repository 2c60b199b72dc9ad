//! A Kubernetes 1.20 control plane with two nodes that run pods as processes: a single-pod Job a task.

use std::fs;

use super::{Engine, HELD, installed, until};

fn k8s() -> Engine {
    Engine::up("k8s", &installed("k8s"), "--on k8s --wait --image none --chdir \"$PWD\"")
}

impl Engine {
    /// The pod that has the task of an item, and its node.
    fn pod_of(&self, item: u64) -> (String, String) {
        let columns = "custom-columns=POD:.metadata.name,NODE:.spec.nodeName";
        let pods = self.bash(&format!("kubectl get pods --no-headers -o {columns}")).done().status(0).stdout_text();
        // NAME-FIRST-TASK-RANDOM
        let is_its =
            |line: &&str| line.split_whitespace().next().unwrap().rsplit('-').nth(1) == Some(&item.to_string());
        let (pod, node) = pods.lines().find(is_its).expect(&pods).split_once(' ').unwrap();
        (pod.to_owned(), node.trim().to_owned())
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
    let (pod, _) = k8s.pod_of(2);
    k8s.bash(&format!("kubectl delete pod {pod} --wait=false")).done().status(0);
    until("it begins again", || k8s.begun() == 7);
    let (_, node) = k8s.pod_of(4);
    k8s.control("crash", node.trim_start_matches("node"));
    until("it begins again elsewhere", || fs::read_to_string(k8s.path("began-4")).unwrap().lines().count() == 2);
    fs::write(k8s.path("go"), "").unwrap();
    waiting.ends(0);
    k8s.complete();
}
