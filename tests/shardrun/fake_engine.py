#!/usr/bin/env python3
"""Stands in for kubectl and for Slurm's commands, by the name it is called under: a cluster that keeps what it is handed in
the folder $CLUSTER, and counts its calls there. Nothing runs; tasks end well, one pod or task per item, once $CLUSTER/go exists. Every task that is
handed over is a line in $CLUSTER/starts."""

import fcntl
import json
import os
import sys
import urllib.parse

HOME = os.environ["CLUSTER"]
SAID = os.environ.get("SAID", "from")


def flag(name, default=""):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def path(*names):
    return os.path.join(HOME, *names)


def is_over():
    return os.path.exists(path("go"))


def start(tasks):
    with open(path("starts"), "a") as file:
        file.write("start\n" * tasks)


def load(name):
    try:
        with open(path(name)) as file:
            return json.load(file)
    except FileNotFoundError:
        return {}


def save(name, value):
    with open(path(name), "w") as file:
        json.dump(value, file)


def fail(text):
    sys.exit(text)


def pods_of(job, indexes):
    labels = dict(job["metadata"]["labels"], **{"job-name": job["metadata"]["name"]})
    for index in indexes:
        # A record as the worker leaves it, from a time when this run may not have existed.
        record = json.dumps({"item": index, "state": "done", "attempts": 1, "start": 1.0, "stderr": SAID and f"{SAID} {index}\n"})
        ended = {"terminated": {"reason": "Completed", "message": record + "\n"}}
        about = {
            "name": f"{job['metadata']['name']}-{index}",
            "uid": f"{job['metadata']['name']}-{index}",
            "labels": labels,
            "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
        }
        status = {"phase": "Pending", **json.loads(os.environ.get("POD_STATUS", "{}"))}
        if is_over():
            status = {"phase": "Succeeded", "containerStatuses": [{"state": ended}]}
        yield {"kind": "Pod", "metadata": about, "status": status}


def lists(objects, url):
    """A page of what the API server lists, and the objects that are selected."""
    url = urllib.parse.urlsplit(url)
    asked = dict(urllib.parse.parse_qsl(url.query))
    first, limit = int(asked.get("continue", 0)), int(asked["limit"])
    if limit > 2000:
        fail("the page is too long")
    selected = [o for o in objects.values() if f"shardrun={o['metadata']['labels']['shardrun']}" == asked["labelSelector"]]
    jobs = [dict(o) for o in selected if o["kind"] == "Job"]
    if url.path == "/apis/batch/v1/namespaces/ns/jobs":
        for job in jobs:
            job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]} if is_over() else {}
        jobs = [job for job in jobs if "looks" not in job]
        page, count = jobs[first : first + limit], len(jobs)
    elif url.path == "/api/v1/namespaces/ns/pods":
        page, count = [], 0
        for job in jobs:
            after = count + job["spec"]["completions"]
            page.extend(pods_of(job, range(max(first, count) - count, max(min(first + limit, after), count) - count)))
            count = after
    else:
        fail(f"unknown path {url.path}")
    about = {"continue": str(first + limit)} if count > first + limit else {}
    return selected, {"metadata": about, "items": page}


def kubectl():
    objects = load("objects")
    words = sys.argv[1:]
    chosen = [o for o in objects.values() if f"shardrun={o['metadata']['labels']['shardrun']}" == flag("-l")]
    if "version" in words:
        print('{"serverVersion":{"major":"1","minor":"31"}}')
    elif "config" in words:
        print('{"current-context":"test","contexts":[{"name":"test","context":{"namespace":"ns"}}]}')
    elif "create" in words or "apply" in words:
        for new in json.load(sys.stdin)["items"]:
            name = f"{new['kind']} {new['metadata']['name']}"
            if name in objects and "create" in words:
                fail(f"Error from server (AlreadyExists): {name} already exists")
            if name not in objects and new["kind"] == "Job":
                start(new["spec"]["completions"])
            objects.setdefault(name, new)
        save("objects", objects)
    elif "delete" in words and "--wait" in words:
        save("objects", {k: o for k, o in objects.items() if o not in chosen})
    elif "delete" in words:
        # The Jobs go at once, their pods after a few looks more.
        for name in [k for k, o in objects.items() if o in chosen]:
            objects[name]["looks"] = int(os.environ.get("LOOKS", "2"))
        save("objects", {k: o for k, o in objects.items() if o["kind"] == "Job" or "looks" not in o})
    elif "--raw" in words:
        selected, page = lists(objects, words[-1])
        going = [o for o in selected if "looks" in o]
        for job in going:
            job["looks"] -= 1
        if going:
            save("objects", {k: o for k, o in objects.items() if o.get("looks", 1) > 0})
        json.dump(page, sys.stdout)
    else:
        fail("unknown call")


def sbatch():
    jobs = load("jobs")
    limit = int(os.environ.get("MAX_JOBS", "1000"))
    if len(jobs) >= limit:
        print("sbatch: error: AssocMaxSubmitJobLimit", file=sys.stderr)
        fail("sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit)")
    script = sys.argv[-1] if os.path.isfile(sys.argv[-1]) else None
    text = open(script).read() if script else sys.stdin.read()
    array = next(line for line in text.splitlines() if line.startswith("#SBATCH --array=0-"))
    tasks = int(array.split("-")[-1].split("%")[0]) + 1
    identifier = str(int(os.environ.get("FIRST_JOB", "17")) + len(jobs))
    jobs[identifier] = {"script": script or "(null)", "tasks": tasks, "cluster": flag("-M")}
    save("jobs", jobs)
    start(tasks)
    if "DIE_BEFORE_ANSWER" in os.environ:
        os.kill(os.getppid(), 9)
    # Sent to another cluster of the site, it says which.
    print(identifier if "-M" not in sys.argv else identifier + ";" + flag("-M"))


def squeue():
    jobs = load("jobs")
    ids = flag("-j", ",".join(jobs)).split(",")
    live = {k: jobs[k] for k in ids if k in jobs and not is_over() and jobs[k]["cluster"] == flag("-M")}
    if "-j" in sys.argv and not live:
        fail("slurm_load_jobs error: Invalid job id specified")
    for identifier, job in live.items():
        job["looks"] = job.get("looks", 1 << 30) - 1
    save("jobs", {k: job for k, job in jobs.items() if job.get("looks", 1) > 0})
    for identifier, job in live.items():
        for index in range(job["tasks"]) if "-r" in sys.argv else [0]:
            line = flag("-o")
            values = {"%F": identifier, "%K": str(index), "%i": f"{identifier}_{index}", "%T": "PENDING"}
            values |= {"%o": job["script"], "%r": os.environ.get("REASON", "Resources")}
            for key, value in values.items():
                line = line.replace(key, value)
            print(line)


def scancel():
    # What is ended takes a moment: it is in the queue for two looks more.
    save("jobs", {k: dict(job, looks=2) if k in sys.argv and job["cluster"] == flag("-M") else job for k, job in load("jobs").items()})


def scontrol():
    if "requeue" in sys.argv:
        with open(path("requeued"), "a") as file:
            file.write("requeued\n")
    print(f"ClusterName = {os.environ.get('CLUSTER_NAME', 'one')}\nMaxArraySize = {os.environ.get('MAX_ARRAY', '1001')}")


with open(path(".lock"), "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    with open(path("calls"), "a") as calls:
        print(os.path.basename(sys.argv[0]), file=calls)
    {"kubectl": kubectl, "sbatch": sbatch, "squeue": squeue, "scancel": scancel, "scontrol": scontrol}.get(
        os.path.basename(sys.argv[0]), lambda: fail("unknown call")
    )()
