# Spark inside of an allocation: workers offer its memory, one that dies comes back, and the job ends with its step.
# $SCRIPTS, $CACHE, $HOME_OF_SLURM and $addresses are set; this network has only loopback.
set -euo pipefail
ip link set lo up
for address in $addresses; do ip address add "$address" dev lo; done
"$SCRIPTS/engines/slurm" up "$HOME_OF_SLURM" 3 2 2>/dev/null
trap '"$SCRIPTS/engines/slurm" down "$HOME_OF_SLURM"' EXIT
. "$HOME_OF_SLURM/env"
export CLUSTER_ADDRESS=127.0.0.1 SPARK_LOCAL_IP=127.0.0.1 SPARK_LOCAL_HOSTNAME=localhost TMPDIR=$PWD
export SPARK_DAEMON_MEMORY=256m SPARK_DAEMON_JAVA_OPTS='-XX:TieredStopAtLevel=1 -XX:+UseSerialGC'
export CLUSTER_PYTHON=$CACHE/spark/bin/python

fail() { echo "FAILED: $1"; cat job.log cluster-*/*.log; exit 1; }

# until_true WHAT COMMAND...
until_true() {
  local deadline=$((SECONDS + 300))
  until "${@:2}"; do
    ((SECONDS < deadline)) || fail "never: $1"
    sleep 0.2
  done
}

# The processes of this network whose words match.
pids() {
  local process
  for process in /proc/[0-9]*; do
    [[ $(readlink "$process/ns/net") == "$(readlink /proc/self/ns/net)" ]] || continue
    if tr '\0' ' ' <"$process/cmdline" | grep -Eq -- "$1"; then echo "${process#/proc/}"; fi
  done 2>/dev/null
}
workers() { pids '^[^ ]*java .*deploy.worker.Worker .*--memory 1476m '; }
are_two() { [[ $(workers | wc -l) == 2 ]]; }
is_over() { [[ -z $(squeue -h -j "$job" -t running,pending,completing 2>/dev/null) ]]; }

job=$(sbatch --parsable --nodes=3 --mem=2500 --output=job.log "$SCRIPTS/slurm-cluster" spark \
  bash -c 'echo "$SPARK_MASTER" >up; until [ -e go ]; do sleep 0.1; done')
until_true 'the cluster is up' test -s up
are_two || fail 'not two workers with the memory of the allocation'
first=$(workers | sed -n 1p)
kill -9 "$first"
until_true 'the worker is gone' test ! -e "/proc/$first/maps"
until_true 'another comes' are_two
shardrun --on spark --launcher "$CLUSTER_PYTHON" --master "$(cat up)" --run run -n 4 -o 'out-{}' 'echo {}' || fail shardrun
cat out-{0..3}
kill -9 "$(pids '^srun ' | sed -n 1p)"
until_true 'the job ends without its workers' is_over
[[ $(scontrol show job -o "$job") == *JobState=FAILED* ]] || fail "$(scontrol show job -o "$job")"
grep '^slurm-cluster: the workers of the cluster ended before the command' job.log | cut -d'(' -f1
[[ ! -e $(echo spark-[0-9]*) ]] || fail "temporary folders are left: $(echo spark-[0-9]*)"
