# Clusters in the background of a running job, which must not notice. $REPOSITORY, $CACHE, $HOME_OF_SLURM and $addresses are
# set; this network has only loopback.
set -euo pipefail
. "$REPOSITORY/tests/engines/slurm_network"

cat >job.sh <<'JOB'
#!/bin/bash
bash -c 'exec -a java sleep 10000' &   # what pkill java would end
until [ -e finish ]; do sleep 0.2; done
kill -0 $! && kill $!
JOB
job=$(sbatch --parsable --nodes=3 --mem=2500 --exclusive job.sh)
is_running() { [[ $(squeue -h -j "$job" -o %T) == RUNNING ]]; }
until_true 'the job runs' is_running
cat >compute.py <<'PYTHON'
import os, sys, time
def double(i):
    time.sleep(0.5)
    return os.environ["SLURMD_NODENAME"], os.getpriority(os.PRIO_PROCESS, 0), 2 * i
if sys.argv[1] == "ray":
    import ray
    ray.init(log_to_driver=False)
    each = ray.remote(double).options(scheduling_strategy="SPREAD")
    results = ray.get([each.remote(i) for i in range(6)])
else:
    from pyspark import SparkConf, SparkContext
    conf = SparkConf().setMaster(os.environ["SPARK_MASTER"]).set("spark.scheduler.minRegisteredResourcesRatio", "1")
    conf.set("spark.scheduler.maxRegisteredResourcesWaitingTime", "300s").set("spark.ui.enabled", "false")
    results = SparkContext(conf=conf).parallelize(range(6), 6).map(double).collect()
nodes, priorities, values = map(set, zip(*results))
print(sys.argv[1], sorted(nodes), sorted(priorities), sum(values))
PYTHON

for kind in spark ray; do
  export CLUSTER_PYTHON=$CACHE/$kind/bin/python
  set_up=$(slurm-cluster attach --job "$job" start $kind --cores 1 --memory 1200M --local-dir "$PWD/scratch" 2>attach.err) ||
    fail "attach $kind" attach.err
  (
    eval "$set_up"
    "$CLUSTER_PYTHON" compute.py $kind 2>compute.err
  ) || fail "$kind" compute.err
  slurm-cluster attach --job "$job" status | cut -f1,2,4 | tr '\t' ' '
  slurm-cluster attach --job "$job" start $kind --cores 1 --memory 1200M 2>again.err && fail 'a second cluster'
  cut -d';' -f1 again.err
  slurm-cluster attach --job "$job" stop || fail 'stop' attach.err
  [[ -z $(pids '^[^ ]*(java .*(deploy[.](master|worker)|CoarseGrained)|raylet |gcs_server )') ]] || fail "$kind is left"
  [[ -z $(ls scratch 2>/dev/null) ]] || fail "temporary folders are left: $(ls scratch)"
  slurm-cluster attach --job "$job" status 2>&1 && fail 'status of nothing'
  is_running || fail 'the job is gone'
  [[ $(pids '^java 10000') ]] || fail 'a process of the job is gone'
done
touch finish
is_over() { [[ -z $(squeue -h -j "$job" -t running,pending,completing 2>/dev/null) ]]; }
until_true 'the job ends' is_over
scontrol show job -o "$job" | grep -o 'JobState=[A-Z]*'
slurm-cluster attach --job "$job" start spark --cores 1 --memory 1G 2>over.err && fail 'a job that is over'
cat over.err
nothing_stays
