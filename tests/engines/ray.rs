//! Ray with two nodes of two cores.

use super::{Engine, installed};
use crate::support::list;

fn ray() -> Engine {
    Engine::up("ray", &installed("ray"), "--on ray --launcher python")
}

#[test]
#[ignore = "needs Ray: scripts/test --engines"]
fn ray_gives_the_bytes_of_local_and_resumes_what_failed_or_was_cancelled() {
    let mut ray = ray();
    ray.gives_the_bytes_of_local();
    ray.cancels_and_resumes();
    ray.flags = "--on ray --launcher 'ray job submit -- python'".into();
    ray.retries_fails_and_resumes();
}

#[test]
#[ignore = "needs Ray: scripts/test --engines"]
fn ray_nodes_and_workers_that_die_lose_nothing_but_time() {
    let ray = ray();
    ray.takes_a_worker_away_and_goes_on();
    ray.takes_a_node_away_and_goes_on();
}

#[test]
#[ignore = "needs Ray: scripts/test --engines"]
fn a_ray_for_one_run_leaves_no_folder() {
    let mut ray = ray();
    ray.flags = "--on ray --launcher \"env -u RAY_ADDRESS RAY_TMPDIR=$PWD/t python\"".into();
    ray.shardrun("", "echo {}").done().status(0);
    ray.complete();
    let left: Vec<String> = list(ray.path("t/ray")).into_iter().filter(|name| name.starts_with("session_2")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
#[ignore = "needs Ray: scripts/test --engines"]
fn a_ray_driver_ends_with_its_shardrun_and_status_knows_what_runs() {
    let mut ray = ray();
    ray.ends_with_shardrun_and_resumes();
    ray.shows_items_on_a_terminal();
    // The driver is a process of the cluster, not ours.
    ray.flags = "--on ray --launcher 'ray job submit -- python'".into();
    ray.ends_with_shardrun_and_resumes();
    ray.is_cancelled_without_shardrun();
}
