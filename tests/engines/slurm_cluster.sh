# Spark and Ray inside of an allocation of three nodes: shardrun works on them, and nothing stays.
# $SCRIPTS, $CACHE, $HOME_OF_SLURM and $addresses are set; this network has only loopback.
set -euo pipefail
ip link set lo up
for address in $addresses; do ip address add "$address" dev lo; done
"$SCRIPTS/engines/slurm" up "$HOME_OF_SLURM" 3 2 2>/dev/null
trap '"$SCRIPTS/engines/slurm" down "$HOME_OF_SLURM"' EXIT
. "$HOME_OF_SLURM/env"
export CLUSTER_ADDRESS=127.0.0.1 SPARK_LOCAL_IP=127.0.0.1 SPARK_LOCAL_HOSTNAME=localhost TMPDIR=$PWD
# As any ray.init without an address leaves it: Ray's head then asks for a token.
mkdir .ray
printf %064d 1 >.ray/auth_token
export HOME=$PWD
export SPARK_DAEMON_MEMORY=256m SPARK_DAEMON_JAVA_OPTS='-XX:TieredStopAtLevel=1 -XX:+UseSerialGC'

gone() { # no process of the clusters is left in this network
  local process
  for process in /proc/[0-9]*; do
    [[ $(readlink "$process/ns/net") == "$(readlink /proc/self/ns/net)" ]] || continue
    case $(cat "$process/comm" 2>/dev/null) in java | raylet | gcs_server | ray*) return 1 ;; esac
  done
}

for kind in spark ray; do
  export CLUSTER_PYTHON=$CACHE/$kind/bin/python
  where='--address "$RAY_ADDRESS"'
  [[ $kind == ray ]] || where='--master "$SPARK_MASTER"'
  sbatch --wait --quiet --nodes=3 --mem=2500 --output="$kind.log" "$SCRIPTS/slurm-cluster" $kind \
    bash -c "shardrun --on $kind --launcher \"\$CLUSTER_PYTHON\" $where --run $kind-run -n 4 -o '$kind-out-{}' 'echo {}'; exit 7" ||
    status=$?
  [[ $status == 7 ]] || { cat "$kind.log" cluster-*/*.log; exit 1; }
  cat $kind-out-{0..3}
  for _ in {1..100}; do gone 2>/dev/null && break; sleep 0.1; done
  gone 2>/dev/null || { echo "$kind is left"; ps -ef; exit 1; }
  for left in "$kind"-[0-9]* pymp-*; do [[ ! -e $left ]] || { echo "$left is left"; exit 1; }; done
done
