//! Spark and Ray brought up for users: inside of a Slurm allocation, and over ssh.

use super::{installed, repository};
use crate::support::{Run, bash, dir};

/// A script in its own network namespace with only loopback, because Ray listens on all interfaces.
fn apart(script: &str) -> Run {
    bash("export addresses=$(hostname -I); exec unshare --net bash -c \"$SCRIPT\"")
        .env("SCRIPT", script)
        .env("REPOSITORY", &repository().display().to_string())
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
fn a_worker_that_dies_in_an_allocation_is_replaced_and_the_job_ends_with_its_master() {
    let (home, work) = (dir(), dir());
    let done = apart(include_str!("slurm_cluster_faults.sh")).cwd(work.path());
    let done = done.env("HOME_OF_SLURM", &home.path().display().to_string()).done().status(0);
    assert_eq!(done.stdout_text(), "0\n1\n2\n3\nslurm-cluster: the master of the cluster ended before the command \n");
}

#[test]
#[ignore = "needs Slurm, Spark and Ray: scripts/test --engines"]
fn a_submitted_command_has_a_cluster_and_the_terminal_and_leaves_nothing() {
    let (home, work) = (dir(), dir());
    let done = apart(include_str!("slurm_submit.sh")).cwd(work.path());
    let done = done.env("HOME_OF_SLURM", &home.path().display().to_string()).done().status(0);
    let expected = "NUM CPUS: 6
NUM PARTITIONS: 12
ray ['a', 'b c']: 12 results, 3 nodes, 506
NUM CPUS: 6
NUM PARTITIONS: 12
spark ['a', 'b c']: 12 results, 3 nodes, 506
--- batch
2 a  b
--- one allocation, two commands, nothing on this machine
n1
from stdin
n1 spark://127.0.0.1:23000
dashboard from outside: 200
5
--- the terminal
111 33 is ready
33 111
--- a lost node
600 results, 0 with errors
--- mistakes
slurm-cluster: bad.yaml: unknown key spark.wroker; did you mean spark.worker?
slurm-cluster: worse.yaml: unknown key batch.sbtach; did you mean batch.sbatch?
slurm-cluster: worst.yaml: line 2: expected , or ]
slurm-cluster: none.yaml: No such file or directory
";
    assert_eq!(done.stdout_text(), expected);
}

#[test]
#[ignore = "needs Slurm, Spark and Ray: scripts/test --engines"]
fn a_cluster_beside_a_running_job_leaves_the_job_alone() {
    let (home, work) = (dir(), dir());
    let done = apart(include_str!("slurm_attach.sh")).cwd(work.path());
    let done = done.env("HOME_OF_SLURM", &home.path().display().to_string()).done().status(0);
    let spark = "spark ['n1', 'n2', 'n3'] [19] 30
spark master n1
spark workers n[1-3]
slurm-cluster: job 1 has an attached cluster already
slurm-cluster: job 1 has no attached cluster
";
    // Ray's head is a worker, too.
    let ray = spark.replace("n[1-3]", "n[2-3]").replace("spark", "ray");
    let end = "JobState=COMPLETED\nslurm-cluster: job 1 does not run (it is completed)\n";
    assert_eq!(done.stdout_text(), format!("{spark}{ray}{end}"));
}

#[test]
#[ignore = "needs Slurm: scripts/test --engines"]
fn the_scripts_of_the_manual_run_on_slurm() {
    let (home, work) = (dir(), dir());
    let done = apart(include_str!("slurm_arrays.sh")).cwd(work.path());
    let done = done.env("HOME_OF_SLURM", &home.path().display().to_string()).done().status(0);
    let expected = "--- an array, and one after it
20
10
 10 1
TEXT 03
TEXT 13
--- a warning before the time limit
text 00
text 01
text 02
text 03
text 04
text 05
";
    assert_eq!(done.stdout_text(), expected);
}

#[test]
#[ignore = "needs Spark, Ray and sshd: scripts/test --engines"]
fn clusters_start_and_stop_over_ssh_and_touch_nothing_else() {
    let work = dir();
    let said = apart(include_str!("ssh_cluster.sh")).cwd(work.path()).done().status(0).stdout_text();
    let expected = "--- all hosts
10.77.0.1: on 10.77.0.1
10.77.0.2: on 10.77.0.2
10.77.0.3: on 10.77.0.3
ssh-cluster: 10.77.0.1: exit status 4
ssh-cluster: 10.77.0.3: exit status 4
a: -rwxr-xr-x
a: own/payload: copied
b: -rwxr-xr-x
b: own/payload: copied
c: -rwxr-xr-x
c: own/payload: copied
a: own/payload: already there
b: own/payload: already there
c: own/payload: already there
ssh-cluster: secret.csv: line 2: passwords are not supported; use a key (ssh-copy-id HOST) and leave the column empty
--- spark
spark://10.77.0.1:7077
ssh-cluster: dashboard: http://10.77.0.1:8080
ssh-cluster: tunnel: ssh -p 2222 -i key -N -L 8080:10.77.0.1:8080 root@a   then http://localhost:8080
a master runs,a worker runs,b worker runs,c free,dashboard: 200
a master runs,a worker runs,c worker runs,b free,12 10.77.0.1 10.77.0.3
0 1 2 3 4 5 6 7 8 9 10 11 a master runs,a worker runs,c worker unreachable,b free,\
a master runs,a worker runs,b worker runs,c free,--- ray
10.77.0.1 head runs,10.77.0.1 worker runs,10.77.0.2 worker runs,gone free,";
    assert_eq!(said, expected);
}
