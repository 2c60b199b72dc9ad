# Submits the scripts of tarpipe-slurm(7) as they are in the manual. $REPOSITORY, $CACHE, $HOME_OF_SLURM and $addresses are set;
# this network has only loopback.
set -euo pipefail
. "$REPOSITORY/tests/engines/slurm_network"

# The text of each script, in a file of its name; the commands that follow it, in that file with .sh.
python3 - "$REPOSITORY/man/tarpipe-slurm.7" <<'PYTHON'
import re, sys
page = open(sys.argv[1]).read()
for name, script, commands in re.findall(r"^(\w+\.sbatch):\n\.RS 4\n\.nf\n(.*?)\.fi\n\.RE\n\.PP\n\.RS 4\n\.nf\n(.*?)\.fi", page, re.M | re.S):
    for file, text in ((name, script), (name.replace(".sbatch", ".sh"), commands)):
        open(file, "w").write(text.replace("\\-", "-").replace("\\e", "\\"))
PYTHON
for number in {00..19}; do
  echo "text $number" >"$number.txt"
  tar cf "in-$number.tar" "$number.txt"
done
is_idle() { [[ -z $(squeue -h) ]]; }

echo '--- an array, and one after it'
bash check.sh >/dev/null
until_true 'both arrays end' is_idle
for task in {0..9}; do tar xOf small-$task.tar --wildcards '*.up'; done | sort | uniq -c | wc -l
ls check.sbatch-*.log | wc -l
grep -c ' 0  small-' check.sbatch-*.log | cut -d: -f2 | sort | uniq -c | tr -s ' '
[[ ! -s resize.sbatch-0.log ]] || fail "$(cat resize.sbatch-0.log)"
bash resize.sh >/dev/null
until_true 'nothing is left to do' is_idle
tar xOf small-3.tar --wildcards '*.up'

echo '--- a warning before the time limit'
# The first attempt at the second shard waits to be ended.
cat >slow.sh <<SLOW
#!/bin/sh
[ -e "$PWD/warned" ] || ! grep -q 'text 02' sample.txt || { touch "$PWD/waits"; sleep 1000; }
SLOW
chmod +x slow.sh
sed -i "s,'./slow.sh','$PWD/slow.sh'," long.sbatch
job=$(bash long.sh | grep -o '[0-9]*')
until_true 'the second shard waits' test -e waits
[[ -e long-0.tar && ! -e long-2.tar ]] || fail 'the first shard'
touch warned
scancel --batch --signal=USR1 "${job}_0"
is_queued() { [[ $(scontrol show job -o "${job}_0") == *JobState=PENDING*Restarts=1\ * ]]; }
until_true 'it is queued again' is_queued
sleep 2.5
scontrol update jobid="${job}_0" StartTime=now
until_true 'it ends' is_idle
for shard in {0..5}; do tar xOf long-$shard.tar; done
nothing_stays
