# slurm-cluster submit on three nodes: the two runs of a site's users by one command each, a terminal, a batch job, an
# allocation that is used again, a lost node. Nothing stays. $REPOSITORY, $CACHE, $HOME_OF_SLURM and $addresses are set;
# this network has only loopback.
set -euo pipefail
. "$REPOSITORY/tests/engines/slurm_network"
export XDG_CONFIG_HOME=$PWD/config TARPIPE_CLUSTER_SITE=$PWD/site.yaml

cat >site.yaml <<'YAML'
# The site's defaults.
batch:
    sbatch:
      - --time=1:00:00
      - --mem=2500

interactive:
    salloc:
      - --time=1:00:00
      - --mem=1000      # replaced by the user's file
    srun:
      - --overlap

spark:
    master:
        srun:
            - --overlap
    worker:
        srun:
            - --overlap
        start:
            - -c
            - 2
            - -m
            - 1300M
ray:
    master:
        srun:
            - --overlap
            - --propagate
        #start:
          #- --memory=80000000000
    worker:
        srun: [--overlap, --propagate]
        start:
            - '--object-store-memory=90000000'
YAML
mkdir -p config/tarpipe
printf 'interactive:\n  salloc:\n  - --time=1:00:00\n  - --mem=2500\n' >config/tarpipe/cluster.yaml
cat >compute.py <<'PYTHON'
import os, sys, time
from tarpipe.pipeline import Pipeline
def square(i):
    time.sleep(0.5)
    return os.environ["SLURMD_NODENAME"], i * i
name = sys.stdin.readline().strip()
pipeline = Pipeline(range(12)).fetch("found", square)
records = pipeline.compute_ray(numparts=12) if name == "ray" else pipeline.compute_spark(numparts=12)
nodes, squares = zip(*(record["found"] for record in records))
print(f"{name} {sys.argv[1:]}: {len(records)} results, {len(set(nodes))} nodes, {sum(squares)}")
sys.exit(7)
PYTHON

# The program asks for its cluster by itself; no flag says which.
for kind in ray spark; do
  status=0
  echo "$kind" | PATH=$CACHE/$kind/bin:$PATH PYTHONPATH=$REPOSITORY/python slurm-cluster submit -N 3 --dashboard-host 127.0.0.1 \
    python compute.py -- a 'b c' >$kind.out 2>$kind.err || status=$?
  [[ $status == 7 ]] || fail "$kind: status $status" $kind.err
  grep -E '^(NUM|[a-z]+ )' $kind.out
  grep -q "^salloc -N 3 --exclusive --time=1:00:00 --mem=2500 srun -u --quit-on-interrupt -N 1 --propagate --overlap python compute.py a 'b c'$" $kind.err ||
    fail 'no line of salloc' $kind.err
  grep -q '^STARTING CLUSTER on n1 n2 n3$' $kind.err || fail 'no list of nodes' $kind.err
  grep -q '^srun --jobid=.* -w n3 .*--overlap .*deploy.worker.Worker -c 2 -m 1300M spark://' $kind.err || [[ $kind == ray ]] || fail 'no line of srun' $kind.err
  grep -q '^slurm-cluster: tunnel: ssh -J ' $kind.err || fail 'no tunnel' $kind.err
  nothing_stays
done

echo '--- batch'
status=0
slurm-cluster submit -N 2 --batch --slurm-arg=--wait --slurm-arg=--output=batch.log sh -c 'echo "$SLURM_JOB_NUM_NODES $1"; exit 3' x 'a  b' 2>batch.err >batch.out || status=$?
cat batch.log
[[ $status == 3 ]] || fail "batch: status $status" batch.err
grep -qF "sbatch -N 2 --exclusive --time=1:00:00 --mem=2500 --wait --output=batch.log --wrap 'exec sh -c " batch.err || fail 'no line of sbatch' batch.err

echo '--- one allocation, two commands, nothing on this machine'
export CLUSTER_PYTHON=$CACHE/spark/bin/python
echo 'from stdin' | salloc --quiet -N 2 --mem=2500 sh -c '
  slurm-cluster submit sh -c "echo \$SLURMD_NODENAME" </dev/null
  slurm-cluster spark --port-range 23000-23100 --interface lo --dashboard-host 0.0.0.0 sh -c "cat; echo \$SLURMD_NODENAME \$SPARK_MASTER
    curl --silent --output /dev/null --write-out \"dashboard from outside: %{http_code}\n\" http://${addresses%% *}:23001/; exit 5"; echo $?' 2>two.err ||
  fail 'two commands' two.err
nothing_stays

echo '--- the terminal'
export CLUSTER_PYTHON=$CACHE/ray/bin/python
status=0
python3 "$REPOSITORY/tests/engines/terminal.py" 'is ready' '\x03' slurm-cluster submit -N 3 --with ray \
  python3 -c 'import os, time; print(*os.get_terminal_size(), "is", "ready", flush=True); time.sleep(10000)' >screen || status=$?
grep -o '111 33 is ready' screen || fail 'no terminal' screen
[[ $status != 0 && $status != 137 ]] || fail "Ctrl-C: status $status" screen
nothing_stays
# 3 s after TERM, what is left is killed; a busy machine needs longer for the rest.
(($(<seconds) < 60)) || fail "Ctrl-C takes $(<seconds) s" screen
status=0
python3 "$REPOSITORY/tests/engines/terminal.py" '$ ' 'stty size; exit 9\r' slurm-cluster submit env PS1='$ ' bash --norc -i >screen || status=$?
grep -o '33 111' screen || fail 'no size of the terminal' screen
[[ $status == 9 ]] || fail "shell: status $status" screen

echo '--- a lost node'
slurm-cluster submit -N 3 --with ray sh -c 'touch up; sleep 10000' </dev/null >lost.log 2>&1 &
until_true 'the cluster is up' test -e up
"$REPOSITORY/tests/engines/slurm" crash "$HOME_OF_SLURM" n3
wait $! && fail 'a lost node is no failure' lost.log
nothing_stays
"$REPOSITORY/tests/engines/slurm" revive "$HOME_OF_SLURM" n3
cat >hold.py <<'PYTHON'
import os, sys, time
from pathlib import Path
from tarpipe.pipeline import Pipeline
folder = Path.cwd()
def hold(i):
    (folder / f"works-{os.environ['SLURMD_NODENAME']}").touch()
    while i >= 60 and not (folder / "go").exists():
        time.sleep(0.05)
    return i
records = Pipeline(range(600)).fetch("i", hold).compute_spark(numparts=60)
print(f"{sum(record['i'] == i for i, record in enumerate(records))} results, {len(records.failed)} with errors")
PYTHON
is_back() { [[ $(sinfo -h -N -n n3 -o %T) == idle ]]; }
until_true 'the node is back' is_back
PATH=$CACHE/spark/bin:$PATH PYTHONPATH=$REPOSITORY/python CLUSTER_PYTHON=$CACHE/spark/bin/python \
  slurm-cluster submit -N 3 --slurm-arg=--no-kill python hold.py </dev/null >held 2>held.log &
until_true 'the third node works' test -e works-n3
"$REPOSITORY/tests/engines/slurm" crash "$HOME_OF_SLURM" n3
touch go
wait $! || fail 'a lost node ends a job without --no-kill only' held.log
grep results held || fail 'no results' held held.log
nothing_stays

echo '--- mistakes'
printf 'spark:\n  wroker:\n    srun: []\n' >bad.yaml
printf 'batch:\n  sbtach:\n  - --time=1\n' >worse.yaml
printf 'batch:\n  sbatch: [--time=1\n' >worst.yaml
for file in bad worse worst none; do
  status=0
  slurm-cluster submit --config $file.yaml true 2>&1 || status=$?
  [[ $status == 2 ]] || fail "$file: status $status"
done | sed "s,$PWD/,,"
