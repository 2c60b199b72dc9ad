# Spark and Ray inside of an allocation of three nodes: shardrun works on them, and nothing stays.
# $REPOSITORY, $CACHE, $HOME_OF_SLURM and $addresses are set; this network has only loopback.
set -euo pipefail
. "$REPOSITORY/tests/engines/slurm_network"

for kind in spark ray; do
  export CLUSTER_PYTHON=$CACHE/$kind/bin/python
  where='--address "$RAY_ADDRESS"'
  [[ $kind == ray ]] || where='--master "$SPARK_MASTER"'
  sbatch --wait --quiet --nodes=3 --mem=2500 --output="$kind.log" "$REPOSITORY/tools/shardrun/cluster/slurm-cluster" $kind \
    bash -c "shardrun --on $kind --launcher \"\$CLUSTER_PYTHON\" $where --run $kind-run -n 4 -o '$kind-out-{}' 'echo {}'; exit 7" ||
    status=$?
  [[ $status == 7 ]] || fail "status $status" "$kind.log"
  cat $kind-out-{0..3}
  nothing_stays
done
