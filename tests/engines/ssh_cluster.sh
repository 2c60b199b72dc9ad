# Clusters over ssh: start, add, status, remove, stop; a stranger is refused; a host that is not reached is named and
# stops nothing else; what is not ours is left alone.
# $REPOSITORY, $CACHE and $addresses are set; this network has only loopback.
set -euo pipefail
ip link set lo up
for address in $addresses; do ip address add "$address" dev lo; done
export SPARK_DAEMON_MEMORY=256m SPARK_DAEMON_JAVA_OPTS='-XX:TieredStopAtLevel=1 -XX:+UseSerialGC'

mkdir -p /run/sshd
ssh-keygen -q -t ed25519 -N '' -f host
ssh-keygen -q -t ed25519 -N '' -f user
printf '%s\n' 'ListenAddress 127.0.0.1:2222' "HostKey $PWD/host" "AuthorizedKeysFile $PWD/user.pub" 'StrictModes no' \
  'UsePAM no' 'PidFile none' "SetEnv SPARK_LOCAL_IP=127.0.0.1 SPARK_LOCAL_HOSTNAME=localhost TMPDIR=$PWD HOME=$PWD" >sshd_config
# As any ray.init without an address leaves it: Ray's head would ask for a token.
mkdir .ray
printf %064d 1 >.ray/auth_token
"$(command -v sshd || echo /usr/sbin/sshd)" -D -f "$PWD/sshd_config" 2>sshd.log &
sshd=$!
# Takes connections and never answers.
python3 -c 'import socket, time
listener = socket.create_server(("127.0.0.1", 2223))
open("listens", "w")
time.sleep(10000)' &
silent=$!
trap 'kill $sshd $silent' EXIT
for name in a b c gone stranger; do
  printf '%s\n' "Host $name" "HostKeyAlias $name"
  [[ $name != gone ]] || echo 'Port 1'
  [[ $name == stranger ]] || echo "$name $(cut -d' ' -f1,2 host.pub)" >>known
done >ssh_config
printf '%s\n' 'Host *' 'HostName 127.0.0.1' 'Port 2222' "IdentityFile $PWD/user" "UserKnownHostsFile $PWD/known" >>ssh_config
until ssh -F ssh_config a true 2>/dev/null && [[ -e listens ]]; do sleep 0.1; done

fail() { echo "FAILED: $1"; cat out err 2>/dev/null; exit 1; }
# folders HOST: those of its processes.
folders() { python3 - "$1" <<'PYTHON'
import json, sys
processes = json.load(open(".cluster/cluster.json"))["processes"]
print(*(process["folder"] for process in processes if process["host"] == sys.argv[1]))
PYTHON
}
cluster() { "$REPOSITORY/tools/shardrun/cluster/ssh-cluster" --ssh "ssh -F $PWD/ssh_config" "$@"; }
printf '%s\n' 'a 127.0.0.1' '# not this one' 'b 127.0.0.1' >hosts
echo 'stranger 127.0.0.1' >strange

cluster start spark strange 2>err && fail 'a stranger was let in'
grep -q '^ssh-cluster: stranger: .*Host key verification failed' err || fail "$(cat err)"
cluster --python "$CACHE/spark/bin/python" --cores 1 start spark hosts | grep -q '^spark://127.0.0.1:' || fail start
cluster status | cut -f1,2,4 | tail -n +2 | tr '\t\n' ' ,'
cluster add c 127.0.0.1 || fail add
cluster remove b || fail remove
cluster status | cut -f1,2,4 | tail -n +2 | tr '\t\n' ' ,'

# c falls silent; then it refuses. The others are handled all the same.
lost=$(cluster status | awk '$1 == "c" { print $3 }')
litter=$(folders c)
sed -i 's/^Host c$/&\nPort 2223/' ssh_config
cluster status >out 2>err && fail 'an unreachable host was not seen'
cut -f1,2,4 out | tail -n +2 | tr '\t\n' ' ,'
grep -q '^ssh-cluster: c: .*timed out' err || fail "$(cat err)"
sed -i 's/^Port 2223$/Port 1/' ssh_config
cluster add b 127.0.0.1 2>err || fail 'add, with c unreachable'
cluster remove c 2>err && fail 'an unreachable host was removed'
grep -q '^ssh-cluster: c: .*Connection refused' err || fail "$(cat err)"
cluster remove --force c 2>err || fail 'remove --force'
cluster status | cut -f1,2,4 | tail -n +2 | tr '\t\n' ' ,'
kill -9 "$lost"
rm -r "$litter"
left="$(folders a) $(folders b)"

kill -9 "$(cluster status | awk '$1 == "b" { print $3 }')"
cluster status >/dev/null && fail 'a dead worker was not seen'
# A process that has the pid of one of ours, but not its time of start, is somebody else's.
sleep 1000 &
sleeper=$!
python3 - $sleeper <<'PYTHON'
import json, sys
state = json.load(open(".cluster/cluster.json"))
state["processes"].append({"role": "worker", "host": "a", "pid": sys.argv[1], "start": "1", "folder": "x"})
json.dump(state, open(".cluster/cluster.json", "w"))
PYTHON
cluster stop || fail stop
kill $sleeper || fail 'a stranger was killed'
cluster status 2>err && fail 'there is something left'
grep -qx 'ssh-cluster: no cluster in .cluster' err || fail "$(cat err)"

for folder in $left; do [[ ! -e $folder ]] || fail "$folder is left"; done

printf '%s\n' 'a 127.0.0.1' 'gone 127.0.0.1' >hosts
cluster --python "$CACHE/ray/bin/python" --cores 1 start ray hosts >out 2>err && fail 'a missing host was not told'
grep -q '^127.0.0.1:' out || fail 'start ray'
grep -q '^ssh-cluster: gone: .*Connection refused' err || fail "$(cat err)"
cluster --cores 1 add b 127.0.0.1 2>err || fail 'add to ray'
cluster status | cut -f1,2,4 | tail -n +2 | tr '\t\n' ' ,'
left="$(folders a) $(folders b)"
cluster stop 2>err || fail 'stop ray'
for folder in $left; do [[ ! -e $folder ]] || fail "$folder is left"; done
for process in /proc/[0-9]*; do
  [[ $(readlink "$process/ns/net") == "$(readlink /proc/self/ns/net)" ]] || continue
  case $(cat "$process/comm") in java | raylet | gcs_server) fail "$(cat "$process/comm") is left" ;; esac
done 2>/dev/null
