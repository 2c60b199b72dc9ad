//! What engines are given, without the engines: scripts, manifests, bundles, and programs that are missing.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use super::{counts, log, read, shardrun};
use crate::support::{bash, dir, list, run, status, tool, venv};

const SITE: &str = r#"
[batch]
partition = "cpu"
exclusive = true
[interactive]
time = "1:00"
[worker]
setup = "module load ffmpeg"
env = { OMP_NUM_THREADS = "1" }
shardrun = "/opt/bin/shardrun"
[k8s]
image = "registry/tools:1"
service_account = "runner"
secrets = ["s3"]
env = { AWS_REGION = "eu" }
grace = 60
resources = { requests = { cpu = "1", memory = "1Gi" }, limits = { memory = "2Gi" } }
labels = { team = "data", "kueue.x-k8s.io/queue-name" = "slow" }
annotations = { owner = "me" }
volumes = [
  { name = "data", mount = "/data", persistentVolumeClaim = { claimName = "data" } },
  { name = "host", mount = "/host", read_only = true, sub_path = "x", hostPath = { path = "/mnt" } },
]
pod = { nodeSelector = { disk = "ssd" }, tolerations = [{ key = "spot", operator = "Exists" }] }
container = { imagePullPolicy = "IfNotPresent" }
"#;

/// The same, as people write it who have files for Kubernetes already.
const YAML: &str = r#"
batch:
  exclusive: true
  partition: cpu
interactive: {time: "1:00"}
worker:
  setup: module load ffmpeg
  env: {OMP_NUM_THREADS: "1"}
  shardrun: /opt/bin/shardrun
k8s:
  image: registry/tools:1
  service_account: runner
  secrets: [s3]
  env: {AWS_REGION: eu}
  grace: 60
  resources:
    requests: {cpu: "1", memory: 1Gi}
    limits: {memory: 2Gi}
  labels: {team: data, kueue.x-k8s.io/queue-name: slow}
  annotations: {owner: me}
  volumes:
    - {name: data, mount: /data, persistentVolumeClaim: {claimName: data}}
    - name: host
      mount: /host
      read_only: true
      sub_path: x
      hostPath: {path: /mnt}
  pod:
    nodeSelector: {disk: ssd}
    tolerations: [{key: spot, operator: Exists}]
  container: {imagePullPolicy: IfNotPresent}
  version: "1.29"
"#;

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_script_for_slurm_has_the_sites_flags() {
    let folder = dir();
    let path = folder.path();
    std::fs::write(path.join("site.toml"), SITE).unwrap();
    let flags = ["--on", "slurm", "--dry-run", "--config", "site.toml", "-n", "100", "--chunk", "7", "-j", "4"];
    let more = ["--after", "17,18", "--slurm-arg=--qos=low", "--run", "r", "-o", "{}", "true"];
    let script = text(shardrun(path, flags.iter().chain(&more)).ok());
    for line in [
        "# 15 tasks in 1 arrays: sbatch --parsable --exclusive --partition=cpu --dependency=afterok:17:18 --kill-on-invalid-dep=yes --qos=low",
        "#SBATCH --array=0-14%4",
        "#SBATCH --signal=B:USR1@60",
        "export OMP_NUM_THREADS=1",
        "module load ffmpeg",
        "exec /opt/bin/shardrun item r/submit-NNN $((0 + SLURM_ARRAY_TASK_ID))",
    ] {
        assert!(script.lines().any(|found| found == line), "no line {line:?} in\n{script}");
    }
    let inside = text(shardrun(path, flags.iter().chain(&["--interactive"]).chain(&more)).ok());
    assert!(inside.contains("seq 0 14 | xargs -P 4 -I@ srun --quiet --exact"), "{inside}");
    assert_eq!(list(path), ["site.toml"]);
}

#[test]
fn a_sites_file_is_toml_or_yaml() {
    let folder = dir();
    let path = folder.path();
    std::fs::write(path.join("site.toml"), format!("{SITE}version = \"1.29\"\n")).unwrap();
    std::fs::write(path.join("site.yaml"), YAML).unwrap();
    let shown = |engine: &str, file: &str| {
        let flags = ["--on", engine, "--dry-run", "--config", file, "-n", "3", "--run", "r", "true"];
        text(shardrun(path, flags).ok())
    };
    assert_eq!(shown("slurm", "site.yaml"), shown("slurm", "site.toml"));
    let objects = |file: &str| -> Vec<Value> {
        shown("k8s", file).split("\n---\n").map(|document| serde_json::from_str(document).unwrap()).collect()
    };
    assert_eq!(objects("site.yaml"), objects("site.toml"));
}

#[test]
fn a_mistake_in_the_sites_file_says_where() {
    let folder = dir();
    let path = folder.path();
    for (name, file, said) in [
        ("site.toml", "[batch]\npartition = \n", "site.toml: line 2: "),
        ("site.toml", "[bacth]\npartition = 'x'\n", "site.toml: line 1: unknown field `bacth`"),
        (
            "site.toml",
            "[batch]\nx = { y = 1 }\n",
            "--config: x: the value of a flag must be a string, a number, true, or a list of these",
        ),
        ("site.yaml", "batch:\n  a: 1\n  a: 2\n", "site.yaml: line 3: duplicate key a"),
        ("site.yaml", "worker: {}\nbacth:\n  partition: x\n", "site.yaml: unknown field `bacth`"),
        (
            "site.yaml",
            "worker: {setup: [a, b]}\n",
            "site.yaml: worker.setup: invalid type: sequence, expected a string",
        ),
        (
            "site.yml",
            "batch:\n  x: {y: 1}\n",
            "--config: x: the value of a flag must be a string, a number, true, or a list of these",
        ),
    ] {
        std::fs::write(path.join(name), file).unwrap();
        let flags = ["--on", "slurm", "--dry-run", "--config", name, "-n", "1", "true"];
        shardrun(path, flags).done().status(2).stderr_has(&format!("shardrun: {said}"));
    }
    shardrun(path, ["--on", "slurm", "--config", "none.toml", "-n", "1", "true"])
        .fails(2, "shardrun: none.toml: No such file or directory");
}

#[test]
fn programs_that_are_missing_say_how_to_get_them() {
    let folder = dir();
    let path = folder.path();
    let program = tool("shardrun");
    std::os::unix::fs::symlink(&program, path.join("shardrun")).unwrap();
    for (flags, said) in [
        ("--on slurm", "scontrol: not found on this machine; install it from the Debian package slurm-client"),
        (
            "--on k8s --image x",
            "kubectl: not found on this machine; install it from https://kubernetes.io/docs/tasks/tools or the Debian package kubernetes-client",
        ),
        ("--on ray", "python3: not found on this machine; install it from the Debian package python3"),
    ] {
        let script = format!("PATH={} ./shardrun {flags} -n 1 true", path.join("empty").display());
        bash(&script).cwd(path).fails(1, &format!("shardrun: {said}"));
    }
    for (engine, package) in [("spark", "pyspark"), ("ray", "ray")] {
        std::fs::write(path.join("python"), "#!/bin/sh\nexit 4\n").unwrap();
        let script = format!("chmod +x python; ./shardrun --on {engine} --launcher ./python -n 1 true");
        let said = format!("shardrun: {engine} is not installed for ./python; run pip install {package}");
        bash(&script).cwd(path).fails(1, &said);
    }
}

/// A driver in a few lines of shell, which does what the contract asks.
#[test]
fn a_driver_takes_bundles_to_workers_and_results_back() {
    let folder = dir();
    let path = folder.path();
    let driver = r#"#!/bin/bash
shift; submission=$2 run=$5 shardrun=$7
[ "$1 $3 $4 $6 $8 $9 ${10} ${11} ${12}" = "spark extra --run --shardrun -j 2 --master local[2] --owned" ] || exit 9
for bundle in "$submission"/*.jsonl; do
  head=$(head -n 1 "$bundle")
  tail -n +2 "$bundle" | while read -r task; do
    printf '%s\n%s\n' "$head" "$task" | $shardrun item - || [ $? = 3 ]
  done
done | $shardrun record "$run"
"#;
    std::fs::write(path.join("launcher"), driver).unwrap();
    bash("chmod +x launcher").cwd(path).ok();
    let flags = ["--on", "spark", "--launcher", "./launcher", "--master", "local[2]", "--engine-arg=extra", "-j", "2"];
    let more = ["--run", "r", "-n", "5", "--chunk", "2", "-o", "o-{}", "echo said {} >&2; [ {} != 3 ]; echo {}"];
    let done = shardrun(path, flags.iter().chain(&more)).done().status(3);
    done.stderr_has(
        "shardrun: item 3 (3): the command failed with exit status 1\nshardrun: 4 items; failed 1 (1 exit_status)",
    );
    assert_eq!(counts(path), [4, 0, 1, 0]);
    assert_eq!(log(path)[3]["code"], "exit_status");
    let said = text(shardrun(path, ["logs", "r", "--failed"]).ok());
    assert_eq!(said, "==> item 3 (3): the command failed with exit status 1\nsaid 3\n");
    assert!(list(path.join("r/submit-000")).contains(&"driver.py".to_owned()));
}

/// A driver that shardrun has no hold on but by the locks, as one in a cluster: it ends half a second after its owner.
#[test]
fn a_driver_outlives_no_shardrun_and_nothing_runs_beside_it() {
    let folder = dir();
    let path = folder.path();
    let driver = r#"#!/bin/bash
submission=$3
[ ! -e ended ] || exit 0
setsid bash -c 'exec 8>>"$1/driver.lock"; flock 8; touch at-work
  until [ -e "$1/cancel" ] || flock -sn "$1/shardrun.lock" true; do sleep 0.1; done
  sleep 0.5; touch ended "$1/finished"' - "$submission" &
until [ -e "$submission/finished" ]; do sleep 0.1; done
"#;
    std::fs::write(path.join("launcher"), driver).unwrap();
    bash("chmod +x launcher").cwd(path).ok();
    let words = ["--on", "ray", "--launcher", "./launcher", "--run", "r", "-n", "1", "true"];
    let begin = || {
        let child = shardrun(path, words).into_command().stderr(Stdio::null()).spawn().unwrap();
        bash("for i in {1..6000}; do [ ! -e at-work ] || exit 0; sleep 0.05; done; exit 1").cwd(path).ok();
        child
    };
    let clear = || ["at-work", "ended"].iter().for_each(|name| std::fs::remove_file(path.join(name)).unwrap());

    let mut killed = begin();
    let busy = shardrun(path, ["status", "r", "--json"]).ok();
    assert!(text(busy).contains(r#""live":true"#));
    shardrun(path, words).done().status(1).stderr_has("another shardrun is working on this run");
    killed.kill().unwrap();
    killed.wait().unwrap();
    let done = shardrun(path, words).done().status(1);
    done.stderr_has("waiting for the driver of an earlier shardrun to end").stderr_has("1 item not run");
    assert!(path.join("ended").exists());
    clear();

    let mut killed = begin();
    killed.kill().unwrap();
    killed.wait().unwrap();
    shardrun(path, ["cancel", "r"]).done().status(0).stderr_has("ended the ray driver");
    assert!(path.join("ended").exists());
    clear();

    let mut ended = begin();
    bash(&format!("kill {}", ended.id())).ok();
    ended.wait().unwrap();
    assert!(path.join("ended").exists(), "shardrun did not wait for its driver");
}

#[test]
fn a_worker_needs_nothing_but_its_bundle() {
    let folder = dir();
    let path = folder.path();
    let head = |cwd: &str| {
        format!(
            r#"{{"shardrun":"0.1.0","pipeline":"echo e-{{}} >&2; [ {{}} != b ]; echo {{}}","output":"{{i}}.txt","also":[],"count":9,"numbers":false,"sha256":"","cwd":"{cwd}","retries":1,"timeout":null,"jitter":null,"redo":false,"max_failures":null}}"#
        )
    };
    let bundle = format!("{}\n[[4,\"a\"],[5,\"b\"]]\n[[6,\"c\"]]\n", head(&path.display().to_string()));
    let done = run("shardrun", ["item", "-"]).stdin(bundle.clone()).done().status(3);
    let lines: Vec<Value> = done.stdout_text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (&lines[0]["item"], &lines[0]["state"], &lines[0]["stderr"]),
        (&4.into(), &"done".into(), &"e-a\n".into())
    );
    assert_eq!((&lines[1]["state"], &lines[1]["attempts"]), (&"failed".into(), &2.into()));
    assert_eq!(read(path, "4.txt"), "a\n");
    // Again: what is there is not made anew. As a compressed file, with a number and a place for the message.
    std::fs::write(path.join("b.jsonl"), bundle).unwrap();
    bash("gzip b.jsonl").cwd(path).ok();
    let again = shardrun(path, ["item", "--final", "b.jsonl.gz"]).env("SHARDRUN_MESSAGE", "message").done().status(0);
    assert!(again.stdout_text().contains(r#""attempts":0"#));
    let message = read(path, "message");
    assert!(message.lines().count() == 2 && message.contains(r#""stderr":"e-b\n""#), "{message}");
    shardrun(path, ["item", "b.jsonl.gz"]).env("JOB_COMPLETION_INDEX", "1").done().status(0);
    assert_eq!(read(path, "6.txt"), "c\n");
    shardrun(path, ["item", "b.jsonl.gz", "2"]).fails(1, "shardrun: b.jsonl.gz: no task 2");
    let lost = format!("{}\n[[1,\"x\"]]\n", head("/no/such/folder"));
    run("shardrun", ["item", "-"])
        .stdin(lost)
        .done()
        .status(1)
        .stderr_has("/no/such/folder: cannot change to this folder on ");
    run("shardrun", ["item", "-"]).fails(1, "shardrun: stdin: empty file: expected a plan");
    // One that stays: an empty line after the results of each task.
    let here = head(&path.display().to_string());
    let tasks = format!("{here}\n[[7,\"x\"]]\n{here}\n[[5,\"b\"],[8,\"y\"]]\n");
    assert_eq!(served(&tasks), (["done", "", "failed", "done", ""].map(str::to_owned).to_vec(), 0));
    assert_eq!((read(path, "7.txt"), read(path, "8.txt")), ("x\n".to_owned(), "y\n".to_owned()));
    assert_eq!(served(&format!("{here}\n[[7,\"x\"]]\nrubbish\n[]\n")), (vec!["done".to_owned(), String::new()], 1));
}

#[test]
fn what_an_item_leaves_behind_keeps_nobody_from_hearing_the_next() {
    let pipeline = r#"echo $SHARD >&2; [ $SHARD = b ] || setsid sleep 1000 &"#;
    let head = format!(
        r#"{{"shardrun":"0.1.0","pipeline":{},"output":null,"also":[],"count":9,"numbers":false,"sha256":"","cwd":null,"retries":0,"timeout":null,"jitter":null,"redo":false,"max_failures":null}}"#,
        Value::from(pipeline)
    );
    let mut command = run("shardrun", ["item", "--serve"]).into_command();
    let mut worker = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(worker.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut said = |task: &str| {
        write!(worker.stdin.as_ref().unwrap(), "{head}\n{task}\n").unwrap();
        let result: Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
        assert_eq!((&result["state"], lines.next().unwrap().as_str()), (&"done".into(), ""));
        result["stderr"].clone()
    };
    // The pipe of the first is held open until its process is ended.
    assert_eq!(
        (said(r#"[[0,"a"]]"#), said(r#"[[1,"b"]]"#), said(r#"[[1,"b"]]"#)),
        ("a\n".into(), "b\n".into(), "b\n".into())
    );
    drop(worker.stdin.take());
    assert_eq!(status(worker.wait().unwrap()), 0);
}

/// What `shardrun item --serve` says about two tasks, the state of each line, and its exit status.
fn served(tasks: &str) -> (Vec<String>, i32) {
    let mut command = run("shardrun", ["item", "--serve"]).into_command();
    let mut worker = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    worker.stdin.as_ref().unwrap().write_all(tasks.as_bytes()).unwrap();
    let lines = BufReader::new(worker.stdout.take().unwrap()).lines();
    let mut states = Vec::new();
    for line in lines {
        states.push(state(&line.unwrap()).unwrap_or_default());
        if states.iter().filter(|state| state.is_empty()).count() == 2 {
            drop(worker.stdin.take());
        }
    }
    (states, status(worker.wait().unwrap()))
}

/// What a line of results says; an empty line says nothing.
fn state(line: &str) -> Option<String> {
    let result: Value = serde_json::from_str(line).ok()?;
    result["state"].as_str().map(str::to_owned)
}

/// A server as kubectl shows it, after the node of the first pod has gone, and the pod with it.
const GONE: &str = r#"#!/bin/bash
id=$(grep -o '"id":"[^"]*' r/submit-000/engine.json 2>/dev/null | cut -d'"' -f4)
pod() { echo '{"kind":"Pod","metadata":{"name":"p'$1'","uid":"u'$1'","labels":{"job-name":"'$id'"},
  "annotations":{"batch.kubernetes.io/job-completion-index":"'$1'"}},"status":{"phase":"'$2'","containerStatuses":
  [{"state":{"terminated":{"reason":"'$3'","message":"'"$4"'"}}}]}}'; }
case "$*" in
  *version*) echo '{"serverVersion":{"major":"1","minor":"31"}}' ;;
  *create*) cat >/dev/null ;;
  *get\ --raw\ *jobs*)
    echo '{"items":[{"metadata":{"name":"'$id'"},"spec":{"backoffLimitPerIndex":3},"status":
      {"completedIndexes":"0-1","failedIndexes":"2","conditions":[{"type":"Failed","status":"True"}]}}]}' ;;
  *get\ --raw\ *pods*continue=page%202*)
    echo '{"items":['
    pod 2 Failed Error '{\"item\":4,\"start\":4000000000,\"state\":\"failed\",\"code\":\"exit_status\",\"message\":\"bad\"}\n'
    echo ']}' ;;
  *get\ --raw\ *pods*)
    echo '{"metadata":{"continue":"page 2"},"items":['
    pod 1 Succeeded Completed '{\"item\":2,\"start\":4000000000,\"state\":\"done\",\"bytes\":5}\n{\"item\":3,\"start\":4000000000,\"state\":\"done\"}\n'
    echo ']}' ;;
  *) exit 1 ;;
esac
"#;

#[test]
fn results_that_went_with_their_pods_are_known_by_the_job() {
    let folder = dir();
    let path = folder.path();
    std::fs::create_dir(path.join("bin")).unwrap();
    std::fs::write(path.join("bin/kubectl"), GONE).unwrap();
    bash("chmod +x bin/kubectl").cwd(path).ok();
    let path_with = format!("{}:{}", path.join("bin").display(), std::env::var("PATH").unwrap());
    let flags =
        ["--on", "k8s", "--wait", "--image", "x", "--run", "r", "-n", "5", "--chunk", "2", "-o", "/o/{}", "true"];
    let done = shardrun(path, flags).env("PATH", &path_with).done().status(3);
    done.stderr("shardrun: item 4 (4): bad\nshardrun: 4 items; failed 1 (1 exit_status)");
    let states: Vec<Value> = log(path).iter().map(|line| line["state"].clone()).collect();
    assert_eq!(states, ["done", "done", "done", "done", "failed"]);
    assert_eq!((&log(path)[0]["bytes"], &log(path)[2]["bytes"]), (&Value::Null, &5.into()));
    // Once is enough.
    shardrun(path, ["status", "r"]).env("PATH", &path_with).ok();
    assert_eq!(log(path).len(), 5);
}

fn manifests(path: &Path, version: &str, more: &[&str]) -> Vec<Value> {
    std::fs::write(path.join("site.toml"), format!("{SITE}version = \"{version}\"\n")).unwrap();
    let flags = ["--on", "k8s", "--dry-run", "--config", "site.toml", "-n", "3", "-j", "2", "-o", "/data/{}", "true"];
    let shown = text(shardrun(path, flags.iter().chain(more)).ok());
    shown.split("\n---\n").map(|document| serde_json::from_str(document).unwrap()).collect()
}

#[test]
fn manifests_use_what_a_server_has() {
    let folder = dir();
    let path = folder.path();
    let spec = |version: &str| manifests(path, version, &[])[1]["spec"].clone();
    let recent = spec("1.29");
    assert_eq!(
        (&recent["completionMode"], &recent["completions"], &recent["parallelism"]),
        (&"Indexed".into(), &3.into(), &2.into())
    );
    assert_eq!(recent["backoffLimitPerIndex"], 3);
    assert_eq!(recent["podFailurePolicy"]["rules"][0]["action"], "FailIndex");
    let middle = spec("1.26");
    assert_eq!((&middle["backoffLimitPerIndex"], &middle["backoffLimit"]), (&Value::Null, &9.into()));
    assert_eq!(middle["podFailurePolicy"]["rules"][0]["action"], "Ignore");
    assert_eq!(spec("1.21")["podFailurePolicy"], Value::Null);
    for plain in [manifests(path, "1.20", &[]), manifests(path, "1.31", &["--plain-jobs", "--wait"])] {
        assert_eq!(plain.len(), 4, "a ConfigMap and three Jobs");
        let pod = &plain[3]["spec"]["template"];
        assert_eq!(pod["spec"]["containers"][0]["env"][1]["value"], "2");
        assert_eq!(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"], "2");
    }
    let container = &recent["template"]["spec"]["containers"][0];
    assert_eq!(container["volumeMounts"][2]["subPath"], "x");
    assert_eq!(container["envFrom"][0]["secretRef"]["name"], "s3");
    let flags = ["--on", "k8s", "--dry-run", "-n", "3", "true"];
    shardrun(path, flags).fails(2, "shardrun: --on k8s requires --image, or image in the section k8s of --config");
    let flags = ["--on", "k8s", "--image", "x", "--plain-jobs", "-j", "2", "--dry-run", "-n", "3", "true"];
    shardrun(path, flags)
        .fails(2, "shardrun: --plain-jobs with -j requires --wait: only shardrun can limit the number of Jobs");
}

#[test]
fn a_users_file_has_the_defaults_of_pods_and_flags_replace_them() {
    let folder = dir();
    let path = folder.path();
    std::fs::create_dir_all(path.join("home/tarpipe")).unwrap();
    let user = "k8s:\n  image: registry/user:1\n  memory: 4G\n  cpu: 1\n  labels: {team: data, app: x}\n";
    std::fs::write(path.join("home/tarpipe/cluster.yaml"), user).unwrap();
    std::fs::write(path.join("site.yaml"), "k8s:\n  cpu: 2\n  namespace: batch\n").unwrap();
    let objects = |more: &[&str]| -> Vec<Value> {
        let flags = ["--on", "k8s", "--dry-run", "--plain-jobs", "--wait", "-n", "1", "true"];
        let run = shardrun(path, flags.iter().chain(more)).env("XDG_CONFIG_HOME", path.join("home").to_str().unwrap());
        text(run.ok()).split("\n---\n").map(|document| serde_json::from_str(document).unwrap()).collect()
    };
    let user = objects(&[]);
    let container = |objects: &[Value]| objects[1]["spec"]["template"]["spec"]["containers"][0].clone();
    let resources = |cpu: &str, memory: &str| serde_json::json!({"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}});
    assert_eq!(container(&user)["image"], "registry/user:1");
    assert_eq!(container(&user)["resources"], resources("1", "4G"));
    assert_eq!(container(&objects(&["--config", "site.yaml"]))["resources"], resources("2", "4G"));
    let pair = ["--label", "app=y", "--annotation", "note=a=b", "--memory", "500Mi", "--label", "shardrun=z"];
    let flags = objects(&[&pair[..], &["--image", "other"]].concat());
    assert_eq!(
        (&container(&flags)["image"], &container(&flags)["resources"]),
        (&"other".into(), &resources("1", "500Mi"))
    );
    let job = &flags[1];
    for about in [&flags[0]["metadata"], &job["metadata"], &job["spec"]["template"]["metadata"]] {
        assert_eq!((&about["labels"]["team"], &about["labels"]["app"]), (&"data".into(), &"y".into()));
        assert!(about["labels"]["shardrun"].as_str().unwrap().starts_with("shardrun-"), "ours is replaced: {about}");
    }
    assert_eq!(
        (&job["metadata"]["annotations"]["note"], &job["spec"]["template"]["metadata"]["annotations"]["note"]),
        (&"a=b".into(), &"a=b".into())
    );
    shardrun(path, ["--on", "k8s", "--label", "x", "-n", "1", "true"])
        .done()
        .status(2)
        .stderr_has("expected KEY=VALUE");
    shardrun(path, ["--label", "x=y", "-n", "1", "true"]).fails(2, "shardrun: --label requires --on k8s");
    std::fs::write(path.join("home/tarpipe/cluster.yaml"), "k8s: {cpu: [1]}\n").unwrap();
    let wrong = shardrun(path, ["--on", "k8s", "--dry-run", "-n", "1", "true"]);
    let wrong = wrong.env("XDG_CONFIG_HOME", path.join("home").to_str().unwrap()).done().status(2);
    wrong.stderr_has("cluster.yaml: k8s.cpu: expected a quantity such as 2, 500m or 4Gi");
}

#[test]
fn manifests_fit_the_schemas_of_every_version() {
    let folder = dir();
    let path = folder.path();
    let check = "import json, sys, kubernetes_validate\n\
        for version, document in json.load(sys.stdin):\n    kubernetes_validate.validate(document, version, strict=True)";
    let mut all = Vec::new();
    for minor in 25..=37 {
        let version = format!("1.{minor}");
        let kueue = "--label=kueue.x-k8s.io/queue-name=fast";
        let flags: [&[&str]; 2] = [
            &["--max-failures", "1", "--wait", "--cpu", "500m", "--memory", "4Gi"],
            &["--plain-jobs", "--wait", kueue, "--annotation", "kueue.x-k8s.io/job-min-parallelism=1"],
        ];
        for more in flags {
            all.extend(manifests(path, &version, more).into_iter().map(|document| (version.clone(), document)));
        }
    }
    let validate = |documents: &[(String, Value)]| {
        let mut python = bash("\"$PYTHON\" -c \"$CHECK\"");
        python = python.env("PYTHON", venv(&["kubernetes-validate"]).to_str().unwrap()).env("CHECK", check);
        python.stdin(serde_json::to_vec(documents).unwrap()).done()
    };
    validate(&all).status(0);
    // The check can fail.
    all[1].1["spec"]["complettions"] = 3.into();
    validate(&all[..2]).status(1).stderr_has("complettions");
}

#[test]
fn half_a_million_items_are_cut_into_jobs_that_fit() {
    let folder = dir();
    let path = folder.path();
    let names: String =
        (0..30_000).map(|i| format!("s3://bucket/{:016x}/train-{i:06}.tar\n", i * 0x9e37_79b9_7f4a_u64)).collect();
    std::fs::write(path.join("names"), names).unwrap();
    let flags = ["--on", "k8s", "--image", "x", "--dry-run", "-T", "names", "-o", "/out/{base}", "true"];
    let shown = text(shardrun(path, flags).ok());
    let documents: Vec<Value> =
        shown.split("\n---\n").map(|document| serde_json::from_str(document).unwrap()).collect();
    let tasks: u64 = documents.iter().filter_map(|document| document["spec"]["completions"].as_u64()).sum();
    assert_eq!(tasks, 30_000);
    for document in documents.iter().filter(|document| document["kind"] == "ConfigMap") {
        assert!(document.to_string().len() < 1 << 20, "a ConfigMap is larger than its limit");
    }
}
