//! Spark standalone with two workers of two cores, and Spark's local mode.

use super::{Engine, installed, until};
use crate::support::list;

fn spark() -> Engine {
    Engine::up("spark", &installed("spark"), "--on spark --launcher $PYSPARK_PYTHON --master $SPARK_MASTER")
}

#[test]
#[ignore = "needs Spark: scripts/test --engines"]
fn spark_gives_the_bytes_of_local_and_resumes_what_failed_or_was_cancelled() {
    let mut spark = spark();
    let temporary = spark.home.path().join("tmp");
    spark.gives_the_bytes_of_local();
    // Each worker has one of its own.
    until("the run's temporary folders are gone", || list(&temporary).len() <= 2);
    spark.cancels_and_resumes();
    spark.flags = "--on spark --launcher 'spark-submit --master local[2]'".into();
    spark.retries_fails_and_resumes();
}

#[test]
#[ignore = "needs Spark: scripts/test --engines"]
fn spark_workers_that_die_lose_nothing_but_time() {
    let spark = spark();
    spark.takes_a_worker_away_and_goes_on();
    spark.takes_a_node_away_and_goes_on();
}

#[test]
#[ignore = "needs Spark: scripts/test --engines"]
fn a_spark_driver_ends_with_its_shardrun_and_status_knows_what_runs() {
    let mut spark = spark();
    spark.ends_with_shardrun_and_resumes();
    spark.shows_items_on_a_terminal();
    // The driver is a child of the JVM.
    spark.flags = "--on spark --launcher 'spark-submit --master local[4]'".into();
    spark.ends_with_shardrun_and_resumes();
    spark.is_cancelled_without_shardrun();
}
