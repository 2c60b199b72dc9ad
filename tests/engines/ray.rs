//! Ray with two nodes of two cores.

use std::fs;

use super::{Engine, HELD, installed};

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
    let waiting = ray.begin("", HELD);
    // One node has room for two: something runs on either.
    ray.until_begun(&[2, 3, 4]);
    ray.control("crash", "2");
    fs::write(ray.path("go"), "").unwrap();
    waiting.ends(0);
    assert!(ray.begun() > 6, "nothing began again");
    ray.complete();
}
