"""The programs that ssh-cluster runs on hosts, in bash and Python."""

# Each runs under bash on a host. The start time distinguishes a process from a later one with the same pid.
# The folder contains logs and temporary files. A long TMPDIR is not used, because Ray's sockets have long names.
LAUNCH = """
temp=${TMPDIR:-/tmp}
(( ${#temp} <= 20 )) || temp=/tmp
folder=$(mktemp -d "$temp/cluster-XXXXXX") || exit 1
export SPARK_LOCAL_DIRS=${SPARK_LOCAL_DIRS:-$folder} SPARK_WORKER_DIR=$folder/work
setsid nohup "${@//@FOLDER@/$folder}" >"$folder/log" 2>&1 </dev/null &
stat=$(cat /proc/$!/stat)
set -- ${stat##*) }
echo "$! ${20} $folder"
"""
LIVES = """
lives() { stat=$(cat /proc/$pid/stat 2>/dev/null) && set -- ${stat##*) } && [[ $1 != Z && ${20} == "$start" ]]; }
pid=$1 start=$2
"""
LOOK = LIVES + "lives"
# Ray gives its tasks 30 s. The rest of the process group is killed too.
END = (
    LIVES
    + """
lives || exit 0
kill -TERM $pid
for i in {1..600}; do lives || break; sleep 0.1; done
kill -KILL -- -$pid 2>/dev/null
for i in {1..100}; do lives || exit 0; sleep 0.1; done
exit 1
"""
)
# Only folders made by LAUNCH.
CLEAR = '''for folder in "$@"; do [[ $folder != */cluster-?????? ]] || rm -rf -- "$folder"; done'''
# Each runs in Python on a host.
PORTS = """import socket, sys
held = []
for port in map(int, sys.argv[1:]):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        s.bind(("", port))
    except OSError:
        sys.exit(f"port {port} is in use")
    held.append(s)
print(*(s.getsockname()[1] for s in held))"""
SPARK_CLASS = """import os, sys, pyspark
home = os.environ.get("SPARK_HOME") or os.path.dirname(pyspark.__file__)
os.execv(home + "/bin/spark-class", ["spark-class", *sys.argv[1:]])"""
# The number of workers at an address that the master lists as alive.
SPARK_COUNT = """import json, sys, urllib.request
state = json.load(urllib.request.urlopen(sys.argv[1] + "/json/", timeout=5))
print(sum(worker["state"] == "ALIVE" and worker["host"] == sys.argv[2] for worker in state["workers"]))"""
RAY_COUNT = """import socket, sys, ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
where = {sys.argv[2], socket.gethostbyname(sys.argv[2])}
workers = [node for node in ray.nodes() if node["Alive"] and "node:__internal_head__" not in node["Resources"]]
print(sum(node["NodeManagerAddress"] in where for node in workers))"""
