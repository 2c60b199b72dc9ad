# Clusters over ssh on three hosts, each with a network, mounts and a sshd of its own: commands and files for all hosts,
# start, add and remove while a job runs, status, stop; a stranger is refused; a host that is not reached is named and
# stops nothing else; what is not ours is left alone.
# $REPOSITORY, $CACHE and $addresses are set; this network has only loopback.
set -euo pipefail
mkdir -p /run/sshd mnt own store
ssh-keygen -q -t ed25519 -N '' -f key
# As any ray.init without an address leaves it: Ray's head would ask for a token.
mkdir .ray
printf %064d 1 >.ray/auth_token
export SPARK_DAEMON_MEMORY=256m SPARK_DAEMON_JAVA_OPTS='-XX:TieredStopAtLevel=1 -XX:+UseSerialGC'

# The machine from which the cluster is controlled has 10.77.0.254; that of the storage is this one, too.
ip link set lo up
for address in $addresses; do ip address add "$address" dev lo; done
ip link add hub type bridge
ip address add 10.77.0.254/24 dev hub
ip link set hub up
pids=()
serve() { # ADDRESS COMMAND...: sshd, with what leads to its place
  printf '%s\n' "ListenAddress $1:2222" "HostKey $PWD/key" "AuthorizedKeysFile $PWD/key.pub" 'StrictModes no' 'UsePAM no' \
    'PidFile none' 'Subsystem sftp internal-sftp' "SetEnv SPARK_LOCAL_IP=$1 TMPDIR=$PWD HOME=$PWD ME=$1" >"sshd-$1"
  "${@:2}" "$(command -v sshd || echo /usr/sbin/sshd)" -D -f "$PWD/sshd-$1" 2>"sshd-$1.log" &
  pids+=($!)
}
spaces=()
for number in 1 2 3; do
  unshare --net --mount sleep 100000 &
  space=$!
  pids+=($space) spaces+=($space)
  until [[ $(readlink /proc/$space/ns/mnt) != "$(readlink /proc/self/ns/mnt)" && $(cat /proc/$space/comm) == sleep ]]; do sleep 0.05; done
  ip link add "port$number" type veth peer name eth0 netns $space
  ip link set "port$number" master hub up
  nsenter -t $space -n bash -c "ip link set lo up; ip link set eth0 up; ip address add 10.77.0.$number/24 dev eth0
    for address in $addresses; do ip address add \$address dev lo; done"
  nsenter -t $space -m mount -t tmpfs none "$PWD/own"
  serve 10.77.0.$number nsenter -t $space -n -m
done
serve 10.77.0.254
# Takes connections and never answers.
python3 -c 'import socket, time
listener = socket.create_server(("127.0.0.1", 2223))
open("listens", "w")
time.sleep(10000)' &
pids+=($!)
finish() {
  for space in "${spaces[@]}"; do nsenter -t $space -m umount -l "$PWD/mnt" 2>/dev/null || true; done
  kill "${pids[@]}"
}
trap finish EXIT

for name in a=1 b=2 c=3 stranger=1 storage=254 10.77.0.1=1 10.77.0.2=2 10.77.0.3=3; do
  printf '%s\n' "Host ${name%=*}" "HostKeyAlias $([[ $name == stranger=* ]] && echo stranger || echo ours)" "HostName 10.77.0.${name#*=}"
done >ssh_config
printf '%s\n' 'Host gone' 'HostName 127.0.0.1' 'Port 1' 'Host *' 'Port 2222' "IdentityFile $PWD/key" "UserKnownHostsFile $PWD/known" >>ssh_config
echo "ours $(cut -d' ' -f1,2 key.pub)" >known
for name in a b c storage; do until ssh -F ssh_config $name true 2>/dev/null && [[ -e listens ]]; do sleep 0.1; done; done

fail() { echo "FAILED: $1"; cat out err 2>/dev/null; exit 1; }
until_true() {
  local deadline=$((SECONDS + 300))
  until "${@:2}"; do
    ((SECONDS < deadline)) || fail "never: $1"
    sleep 0.2
  done
}
# folders HOST: those of its processes.
folders() { python3 - "$1" <<'PYTHON'
import json, sys
processes = json.load(open(".cluster/cluster.json"))["processes"]
print(*(process["folder"] for process in processes if process["host"] == sys.argv[1]))
PYTHON
}
cluster() { "$REPOSITORY/tools/shardrun/cluster/ssh-cluster" --ssh "ssh -F $PWD/ssh_config" "$@"; }
shown() { cluster status | tail -n +4 | cut -f1,2,4 | tr '\t\n' ' ,'; }
printf '%s\n' 10.77.0.1 '# not this one' 10.77.0.2 10.77.0.3 >ips.txt
printf '%s\n' ',host,user,password,hostname,comment,address,port,key' "0,a,root,,,the first,10.77.0.1,2222,key" \
  1,b,,,,,10.77.0.2 2,c,,,,,10.77.0.3 >hosts.csv
echo 'stranger 10.77.0.1' >strange

echo '--- all hosts'
cluster run --hosts ips.txt 'echo "on $ME"; exit 0' | LC_ALL=C sort
cluster run --hosts ips.txt '[[ $ME == *.2 ]] || exit 4' 2>err && fail 'a command failed'
sort err
head -c 3000000 /dev/urandom >payload
chmod +x payload
echo "sshfs -o reconnect -F $PWD/ssh_config storage:$PWD/store $PWD/mnt && ls -l $PWD/own/payload | cut -c1-10" >mount.sh
cluster install --hosts hosts.csv --to "$PWD/own" payload --setup mount.sh | sed "s,$PWD/,," | LC_ALL=C sort
cluster install --hosts hosts.csv --to "$PWD/own" payload | sed "s,$PWD/,," | LC_ALL=C sort
[[ $(cluster run --hosts hosts.csv "sha256sum <$PWD/own/payload" | cut -d' ' -f2 | sort -u) == $(sha256sum <payload | cut -d' ' -f1) ]] || fail 'the copies'
sed 's/,root,,/,root,secret,/' hosts.csv >secret.csv
cluster run --hosts secret.csv true 2>&1 && fail 'a password'

echo '--- spark'
cluster start spark strange 2>err && fail 'a stranger was let in'
grep -q '^ssh-cluster: stranger: .*Host key verification failed' err || fail "$(cat err)"
python=$CACHE/spark/bin/python
cluster --python "$python" --cores 1 --memory 1100M start spark hosts.csv --workers 2 --port 7077 --web-port 8080 2>err
cat err | sed "s,$PWD/,,g; s/ssh -F ssh_config/ssh/"
shown
curl --silent --noproxy '*' --output /dev/null --write-out 'dashboard: %{http_code}\n' http://10.77.0.1:8080/
# While a job runs, c comes and b goes. The results go through the storage.
cat >job.py <<'PYTHON'
import os, sys, time
from pyspark import SparkConf, SparkContext
folder = sys.argv[1]
def work(i):
    me = os.environ["SPARK_LOCAL_IP"]
    open(f"{folder}/works-{me}", "w").close()
    while not os.path.exists(f"{folder}/go"):
        time.sleep(0.1)
    with open(f"{folder}/mnt/part-{i}", "w") as part:
        part.write(f"{i} {me}\n")
    return me
conf = SparkConf().setMaster("spark://10.77.0.1:7077").set("spark.ui.enabled", "false").set("spark.executor.memory", "600m")
found = SparkContext(conf=conf).parallelize(range(12), 12).map(work).collect()
print(len(found), *sorted(set(found)))
PYTHON
SPARK_LOCAL_IP=10.77.0.254 PYSPARK_PYTHON=$python "$python" job.py "$PWD" >job.out 2>job.err &
job=$!
until_true 'b works' test -e works-10.77.0.2
cluster add 1 2>err || fail add
until_true 'c works' test -e works-10.77.0.3
cluster remove b || fail remove
shown
touch go
wait $job || fail "$(tail job.err)"
cat job.out
[[ -z $(ls mnt) ]] || fail 'the storage was not mounted'
cat store/part-* | sort -n | cut -d' ' -f1 | tr '\n' ' '

# c falls silent; then it refuses. The others are handled all the same.
lost=$(cluster status | awk '$1 == "c" { print $3 }')
litter=$(folders c)
sed -i 's/^Host c$/&\nHostName 127.0.0.1\nPort 2223/' ssh_config
sed -i 's/"port": "2222"/"port": ""/' .cluster/cluster.json
shown 2>err && fail 'an unreachable host was not seen'
grep -q '^ssh-cluster: c: .*timed out' err || fail "$(cat err)"
sed -i 's/^Port 2223$/Port 1/' ssh_config
cluster add b 2>err || fail 'add, with c unreachable'
cluster remove c 2>err && fail 'an unreachable host was removed'
grep -q '^ssh-cluster: c: .*Connection refused' err || fail "$(cat err)"
cluster remove --force c 2>err || fail 'remove --force'
shown
kill -9 "$lost"
rm -r "$litter"
left="$(folders a) $(folders b)"

kill -9 "$(cluster status | awk '$1 == "b" && $2 == "worker" { print $3 }')"
cluster status >/dev/null && fail 'a dead worker was not seen'
# A process that has the pid of one of ours, but not its time of start, is somebody else's.
sleep 1000 &
sleeper=$!
python3 - $sleeper <<'PYTHON'
import json, sys
state = json.load(open(".cluster/cluster.json"))
state["processes"].append({"role": "worker", "host": "a", "address": "10.77.0.1", "pid": sys.argv[1], "start": "1", "folder": "x"})
json.dump(state, open(".cluster/cluster.json", "w"))
PYTHON
sed -i '/^Port 1$/d; s/^HostName 127.0.0.1$/HostName 10.77.0.3/' ssh_config
cluster stop || fail stop
kill $sleeper || fail 'a stranger was killed'
cluster status 2>err && fail 'there is something left'
grep -qx 'ssh-cluster: no cluster in .cluster' err || fail "$(cat err)"
for folder in $left; do [[ ! -e $folder ]] || fail "$folder is left"; done

echo '--- ray'
printf 'Host gone\nHostName 127.0.0.1\nPort 1\n' | cat - ssh_config >with_gone && mv with_gone ssh_config
printf '%s\n' 10.77.0.1 'gone 127.0.0.1' >hosts
cluster --python "$CACHE/ray/bin/python" --cores 1 --memory 1G start ray hosts >out 2>err && fail 'a missing host was not told'
grep -q '^10.77.0.1:' out || fail 'start ray'
grep -q '^ssh-cluster: gone: .*Connection refused' err || fail "$(cat err)"
grep -Eq '^ssh-cluster: tunnel: ssh .* -N -L ([0-9]+):localhost:\1 root@10.77.0.1 ' err || fail "$(cat err)"
cluster add 10.77.0.2 2>err || fail 'add to ray'
shown
left="$(folders 10.77.0.1) $(folders 10.77.0.2)"
cluster stop 2>err || fail 'stop ray'
for folder in $left; do [[ ! -e $folder ]] || fail "$folder is left"; done
for process in /proc/[0-9]*; do
  for space in "${spaces[@]}"; do
    [[ $(readlink "$process/ns/net") == "$(readlink /proc/$space/ns/net)" ]] || continue
    case $(cat "$process/comm") in java | raylet | gcs_server) fail "$(cat "$process/comm") is left" ;; esac
  done
done 2>/dev/null
