//! Spark and Ray brought up for users: inside of a Slurm allocation, and over ssh.

use super::{installed, scripts};
use crate::support::{Run, bash, dir};

/// A script in a network of its own that has only loopback: Ray listens wherever it can.
fn apart(script: &str) -> Run {
    bash("export addresses=$(hostname -I); exec unshare --net bash -c \"$SCRIPT\"")
        .env("SCRIPT", script)
        .env("SCRIPTS", &scripts().display().to_string())
        .env("CACHE", &installed(""))
}

#[test]
#[ignore = "needs Slurm, Spark and Ray: scripts/test --engines"]
fn spark_and_ray_live_inside_of_a_slurm_allocation_as_long_as_one_command() {
    let (home, work) = (dir(), dir());
    let done = apart(include_str!("slurm_cluster.sh")).cwd(work.path());
    let done = done.env("HOME_OF_SLURM", &home.path().display().to_string()).done().status(0);
    assert_eq!(done.stdout_text(), "0\n1\n2\n3\n0\n1\n2\n3\n");
}

#[test]
#[ignore = "needs Slurm and Spark: scripts/test --engines"]
fn a_worker_that_dies_in_an_allocation_is_replaced_and_the_job_ends_with_its_step() {
    let (home, work) = (dir(), dir());
    let done = apart(include_str!("slurm_cluster_faults.sh")).cwd(work.path());
    let done = done.env("HOME_OF_SLURM", &home.path().display().to_string()).done().status(0);
    assert_eq!(done.stdout_text(), "0\n1\n2\n3\nslurm-cluster: the workers of the cluster ended before the command \n");
}

#[test]
#[ignore = "needs Spark, Ray and sshd: scripts/test --engines"]
fn clusters_start_and_stop_over_ssh_and_touch_nothing_else() {
    let work = dir();
    let said = apart(include_str!("ssh_cluster.sh")).cwd(work.path()).done().status(0).stdout_text();
    let whole = "a master runs,a worker runs,b worker runs,";
    let changed = "a master runs,a worker runs,c worker runs,";
    let unreached = changed.replace("c worker runs", "c worker unreachable");
    assert_eq!(said, format!("{whole}{changed}{unreached}{whole}{}", whole.replace("master", "head")));
}
