# Clusters over ssh: start, add, status, remove, stop; a stranger is refused; what is not ours is left alone.
# $SCRIPTS, $CACHE and $addresses are set; this network has only loopback.
set -euo pipefail
ip link set lo up
for address in $addresses; do ip address add "$address" dev lo; done
export SPARK_DAEMON_MEMORY=256m SPARK_DAEMON_JAVA_OPTS='-XX:TieredStopAtLevel=1 -XX:+UseSerialGC'

mkdir -p /run/sshd
ssh-keygen -q -t ed25519 -N '' -f host
ssh-keygen -q -t ed25519 -N '' -f user
printf '%s\n' 'ListenAddress 127.0.0.1:2222' "HostKey $PWD/host" "AuthorizedKeysFile $PWD/user.pub" 'StrictModes no' \
  'UsePAM no' 'PidFile none' "SetEnv SPARK_LOCAL_IP=127.0.0.1 SPARK_LOCAL_HOSTNAME=localhost TMPDIR=$PWD" >sshd_config
"$(command -v sshd || echo /usr/sbin/sshd)" -D -f "$PWD/sshd_config" 2>sshd.log &
sshd=$!
trap 'kill $sshd' EXIT
for name in a b c stranger; do
  printf '%s\n' "Host $name" "HostKeyAlias $name"
  [[ $name == stranger ]] || echo "$name $(cut -d' ' -f1,2 host.pub)" >>known
done >ssh_config
printf '%s\n' 'Host *' 'HostName 127.0.0.1' 'Port 2222' "IdentityFile $PWD/user" "UserKnownHostsFile $PWD/known" >>ssh_config
until ssh -F ssh_config a true 2>/dev/null; do sleep 0.1; done

fail() { echo "FAILED: $1"; cat ssh-cluster-*.log 2>/dev/null | tail -n 20; exit 1; }
cluster() { "$SCRIPTS/ssh-cluster" --ssh "ssh -F $PWD/ssh_config" "$@"; }
printf '%s\n' 'a 127.0.0.1' '# not this one' 'b 127.0.0.1' >hosts
echo 'stranger 127.0.0.1' >strange

cluster start spark strange 2>err && fail 'a stranger was let in'
grep -q '^ssh-cluster: stranger: .*Host key verification failed' err || fail "$(cat err)"
cluster --python "$CACHE/spark/bin/python" --cores 1 start spark hosts | grep -q '^spark://127.0.0.1:' || fail start
cluster status | cut -f1,2,4 | tail -n +2 | tr '\t\n' ' ,'
cluster add c 127.0.0.1 || fail add
cluster remove b || fail remove
cluster status | cut -f1,2,4 | tail -n +2 | tr '\t\n' ' ,'
kill -9 "$(cluster status | awk '$1 == "c" { print $3 }')"
cluster status >/dev/null && fail 'a dead worker was not seen'
# A process that has the pid of one of ours, but not its time of start, is somebody else's.
sleep 1000 &
sleeper=$!
python3 - $sleeper <<'PYTHON'
import json, sys
state = json.load(open(".cluster/cluster.json"))
state["processes"].append({"role": "worker", "host": "a", "pid": sys.argv[1], "start": "1", "log": "x"})
json.dump(state, open(".cluster/cluster.json", "w"))
PYTHON
cluster stop || fail stop
kill $sleeper || fail 'a stranger was killed'
cluster status 2>err && fail 'there is something left'
grep -qx 'ssh-cluster: no cluster in .cluster' err || fail "$(cat err)"

cluster --python "$CACHE/ray/bin/python" --cores 1 start ray hosts | grep -q '^127.0.0.1:' || fail 'start ray'
cluster status | cut -f1,2,4 | tail -n +2 | tr '\t\n' ' ,'
cluster stop || fail 'stop ray'
for process in /proc/[0-9]*; do
  [[ $(readlink "$process/ns/net") == "$(readlink /proc/self/ns/net)" ]] || continue
  case $(cat "$process/comm") in java | raylet | gcs_server) fail "$(cat "$process/comm") is left" ;; esac
done 2>/dev/null
