# Spark inside of an allocation: workers offer its memory, one that dies or loses its step comes back, and the job ends
# with the master.
# $REPOSITORY, $CACHE, $HOME_OF_SLURM and $addresses are set; this network has only loopback.
set -euo pipefail
. "$REPOSITORY/tests/engines/slurm_network"
export CLUSTER_PYTHON=$CACHE/spark/bin/python

workers() { pids '^[^ ]*java .*deploy.worker.Worker .*--memory 1476m '; }
are_two() { [[ $(workers | wc -l) == 2 ]]; }
are_three() { [[ $(workers | wc -l) == 3 ]]; }
is_over() { [[ -z $(squeue -h -j "$job" -t running,pending,completing 2>/dev/null) ]]; }

job=$(sbatch --parsable --nodes=3 --mem=2500 --output=job.log "$REPOSITORY/tools/shardrun/cluster/slurm-cluster" spark \
  bash -c 'echo "$SPARK_MASTER" >up; until [ -e go ]; do sleep 0.1; done')
until_true 'the cluster is up' test -s up
are_three || fail 'not three workers with the memory of the allocation'
first=$(workers | sed -n 1p)
kill -9 "$first"
until_true 'the worker is gone' test ! -e "/proc/$first/maps"
until_true 'another comes' are_three
shardrun --on spark --launcher "$CLUSTER_PYTHON" --master "$(cat up)" --run run -n 4 -o 'out-{}' 'echo {}' || fail shardrun job.log
cat out-{0..3}
kill -9 "$(pids '^srun .*cluster-spark-worker-n2' | sed -n 1p)"
until_true 'the worker goes with its step' are_two
until_true 'its step is started again' are_three
kill -9 "$(pids '^srun .*cluster-spark-master' | sed -n 1p)"
until_true 'the job ends without its master' is_over
[[ $(scontrol show job -o "$job") == *JobState=FAILED* ]] || fail "$(scontrol show job -o "$job")"
grep '^slurm-cluster: the master of the cluster ended before the command' job.log | cut -d'(' -f1
nothing_stays
