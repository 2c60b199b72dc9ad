//! The Python package: its own tests, run with the tools of this build.

use crate::support::bash;

fn run_tests(words: &str) {
    let run = bash(&format!("exec python3 -W error::ResourceWarning -m unittest {words}"));
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python");
    let done = run.cwd(folder).env("PYTHONDONTWRITEBYTECODE", "1").done().status(0);
    assert!(done.stderr_text().contains("\nOK"), "{}", done.stderr_text());
}

#[test]
fn the_python_package_passes_its_tests() {
    run_tests("discover");
}

mod engines {
    #[test]
    #[ignore = "needs Spark: scripts/test --engines"]
    fn spark_sessions_of_the_caller_are_used() {
        super::run_tests("test_engines.Engines.test_pyspark");
    }

    #[test]
    #[ignore = "needs Ray: scripts/test --engines"]
    fn ray_connections_of_the_caller_are_used() {
        super::run_tests("test_engines.Engines.test_ray");
    }

    #[test]
    #[ignore = "needs Spark: scripts/test --engines"]
    fn spark_makes_shards_on_its_nodes_however_it_is_named() {
        super::run_tests("test_engines.Nodes.test_spark");
    }

    #[test]
    #[ignore = "needs Slurm: scripts/test --engines"]
    fn slurm_makes_shards_on_its_nodes() {
        super::run_tests("test_engines.Nodes.test_slurm");
    }

    mod pipelines {
        #[test]
        #[ignore = "needs Ray and Spark: scripts/test --engines pipelines"]
        fn records_survive_lost_nodes_of_ray_and_spark() {
            super::super::run_tests("test_pipeline_engines");
        }
    }
}
