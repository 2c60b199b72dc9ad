//! Ray with two nodes of two cores.

use super::{Engine, installed};

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
