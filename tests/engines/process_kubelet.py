#!/usr/bin/env python3
"""A Kubernetes node for tests that runs pods as processes of this machine.

    process_kubelet.py SERVER TOKENS NODE FOLDER

Joins the API server at SERVER as NODE, with the first token of the file TOKENS, and runs the containers
of the pods bound to it: each in a mount namespace of its own, with hostPath, emptyDir, ConfigMap and Secret
volumes bound in place, without image or network. It keeps restartPolicy Never and OnFailure, deletion
(TERM, then KILL after the grace period), active deadlines, exit codes and the environment (values and
fieldRef), the termination message. Logs are FOLDER/POD/CONTAINER.log: the API server has no kubelet to ask for them.
"""

import base64
import datetime
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
CAPACITY = {"cpu": "2", "memory": "8Gi", "pods": "110"}


def now(pattern="%Y-%m-%dT%H:%M:%SZ"):
    return datetime.datetime.now(datetime.timezone.utc).strftime(pattern)


class Api:
    """The API server."""

    def __init__(self, server, token):
        self.server, self.token = server, token
        # Its certificate is its own making.
        self.context = ssl._create_unverified_context()

    def open(self, method, path, body=None, kind="application/json", timeout=30):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": "Bearer " + self.token, "Content-Type": kind, "Accept": "application/json"}
        request = urllib.request.Request(self.server + path, data, headers, method=method)
        return urllib.request.urlopen(request, context=self.context, timeout=timeout)

    def call(self, *args, **options):
        with self.open(*args, **options) as answer:
            return json.load(answer)

    def insist(self, *args, **options):
        """Calls until the server answers; None when what is named is gone."""
        while True:
            try:
                return self.call(*args, **options)
            except urllib.error.HTTPError as err:
                if err.code in (404, 409):
                    return None
            except OSError:
                pass
            time.sleep(0.3)


class Node:
    """This node: its heartbeat, and the pods bound to it."""

    def __init__(self, api, name, folder):
        self.api, self.name, self.folder, self.pods = api, name, folder, {}

    def status(self):
        condition = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "runs processes",
            "lastHeartbeatTime": now(),
            "lastTransitionTime": now(),
        }
        names = (
            "machineID systemUUID bootID kernelVersion osImage containerRuntimeVersion kubeletVersion kubeProxyVersion"
        )
        about = dict.fromkeys(names.split(), "process") | {"operatingSystem": "linux", "architecture": "amd64"}
        return {"capacity": CAPACITY, "allocatable": CAPACITY, "conditions": [condition], "nodeInfo": about}

    def beat(self):
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        labels = {"kubernetes.io/hostname": self.name, "kubernetes.io/os": "linux"}
        self.api.insist("POST", "/api/v1/nodes", {"metadata": {"name": self.name, "labels": labels}})
        lease = {"holderIdentity": self.name, "leaseDurationSeconds": 10, "renewTime": now("%Y-%m-%dT%H:%M:%S.%fZ")}
        self.api.insist("POST", leases, {"metadata": {"name": self.name}, "spec": lease})
        while True:
            self.api.insist("PATCH", f"/api/v1/nodes/{self.name}/status", {"status": self.status()}, STRATEGIC)
            lease["renewTime"] = now("%Y-%m-%dT%H:%M:%S.%fZ")
            self.api.insist("PATCH", f"{leases}/{self.name}", {"spec": lease}, MERGE)
            time.sleep(3)

    def see(self, manifest):
        """Starts what is new and stops what is being deleted."""
        meta = manifest["metadata"]
        pod = self.pods.get(meta["uid"])
        over = manifest.get("status", {}).get("phase") in ("Succeeded", "Failed")
        if pod is None:
            pod = Pod(self, manifest)
            if over or "deletionTimestamp" in meta:
                return pod.forget() if "deletionTimestamp" in meta else None
            self.pods[meta["uid"]] = pod
            threading.Thread(target=pod.run, daemon=True).start()
        elif "deletionTimestamp" in meta:
            pod.stop(meta.get("deletionGracePeriodSeconds", 30))

    def watch(self):
        path = "/api/v1/pods?fieldSelector=spec.nodeName=" + self.name
        while True:
            try:
                pods = self.api.call("GET", path)
                for manifest in pods["items"]:
                    self.see(manifest)
                since = f"&watch=1&timeoutSeconds=300&resourceVersion={pods['metadata']['resourceVersion']}"
                with self.api.open("GET", path + since, timeout=320) as events:
                    for line in events:
                        event = json.loads(line)
                        if event["type"] in ("ADDED", "MODIFIED"):
                            self.see(event["object"])
                        elif event["type"] == "ERROR":
                            break
            except OSError as err:
                print("watch:", err, flush=True)
                time.sleep(0.5)


class Container:
    """One container of a pod: a process, started again as the pod's policy says."""

    def __init__(self, pod, spec):
        self.pod, self.spec, self.restarts, self.end = pod, spec, 0, None
        self.start()

    def start(self):
        env = self.environment()
        argv = [expand(word, env) for word in self.spec.get("command", []) + self.spec.get("args", [])]
        self.message = os.path.join(self.pod.folder, self.spec["name"] + ".message")
        open(self.message, "w").close()
        mounts = bind(self.message, self.spec.get("terminationMessagePath", "/dev/termination-log"))
        mounts += "".join(self.mount(mount) for mount in self.spec.get("volumeMounts", []))
        namespace = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", mounts + 'exec "$@"', "sh"]
        with open(os.path.join(self.pod.folder, self.spec["name"] + ".log"), "ab") as log:
            self.process = subprocess.Popen(
                namespace + argv,
                cwd=self.spec.get("workingDir", "/"),
                env=env,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self.started = now()

    def environment(self):
        meta = self.pod.meta
        env = {"PATH": os.environ["PATH"], "HOSTNAME": meta["name"], "HOME": "/root"}
        for entry in self.spec.get("envFrom", []):
            kind, name = (
                ("secrets", entry["secretRef"]) if "secretRef" in entry else ("configmaps", entry["configMapRef"])
            )
            env.update((key, value.decode()) for key, value in self.pod.stored(kind, name["name"]).items())
        for entry in self.spec.get("env", []):
            if "valueFrom" not in entry:
                env[entry["name"]] = expand(entry.get("value", ""), env)
            else:
                env[entry["name"]] = self.value_from(entry["valueFrom"])
        return env

    def value_from(self, reference):
        meta = self.pod.meta
        if "secretKeyRef" in reference or "configMapKeyRef" in reference:
            wanted = reference.get("secretKeyRef") or reference["configMapKeyRef"]
            return self.pod.stored("secrets" if "secretKeyRef" in reference else "configmaps", wanted["name"])[
                wanted["key"]
            ].decode()
        path = reference.get("fieldRef", {}).get("fieldPath", "")
        keyed = re.fullmatch(r"metadata\.(annotations|labels)\['(.*)'\]", path)
        if keyed:
            return meta.get(keyed[1], {}).get(keyed[2], "")
        return {
            "metadata.name": meta["name"],
            "metadata.namespace": meta["namespace"],
            "metadata.uid": meta["uid"],
            "spec.nodeName": self.pod.node.name,
        }.get(path, "")

    def mount(self, mount):
        volume = next(v for v in self.pod.spec.get("volumes", []) if v["name"] == mount["name"])
        source = self.pod.volume(volume)
        if "subPath" in mount:
            source = os.path.join(source, mount["subPath"])
        return bind(source, mount["mountPath"])

    def signal(self, number, group=False):
        """TERM goes to the first process alone, as to a container's."""
        try:
            (os.killpg if group else os.kill)(self.process.pid, number)
        except ProcessLookupError:
            pass

    def look(self, again):
        """Notes the end, or starts again; whether anything changed."""
        if self.end is not None or self.process.poll() is None:
            return False
        self.signal(signal.SIGKILL, group=True)  # a container ends with its first process
        code = self.process.returncode
        code = 128 - code if code < 0 else code
        if code and again:
            self.restarts += 1
            time.sleep(min(10, self.restarts))
            self.start()
        else:
            with open(self.message, errors="replace") as file:
                message = file.read()[-4096:]
            self.end = {
                "exitCode": code,
                "reason": "Error" if code else "Completed",
                "startedAt": self.started,
                "finishedAt": now(),
                "containerID": f"process://{self.process.pid}",
                "message": message,
            }
        return True

    def status(self):
        state = {"terminated": self.end} if self.end else {"running": {"startedAt": self.started}}
        return {
            "name": self.spec["name"],
            "image": self.spec["image"],
            "imageID": "",
            "ready": self.end is None,
            "containerID": f"process://{self.process.pid}",
            "restartCount": self.restarts,
            "state": state,
        }


class Pod:
    """A pod bound to this node."""

    def __init__(self, node, manifest):
        self.node, self.meta, self.spec = node, manifest["metadata"], manifest["spec"]
        self.folder = os.path.join(node.folder, self.meta["name"])
        self.path = f"/api/v1/namespaces/{self.meta['namespace']}/pods/{self.meta['name']}"
        self.containers, self.reason, self.over = [], None, False
        self.kill_at, self.deleted = None, False
        self.begun = now()

    def run(self):
        os.makedirs(self.folder, exist_ok=True)
        self.containers = [Container(self, spec) for spec in self.spec["containers"]]
        self.report("Running")
        deadline = time.monotonic() + self.spec.get("activeDeadlineSeconds", 10**9)
        while any(container.end is None for container in self.containers):
            if self.kill_at is None and time.monotonic() > deadline:
                self.reason = "DeadlineExceeded"
                self.terminate(self.spec.get("terminationGracePeriodSeconds", 30))
            if self.kill_at is not None and time.monotonic() > self.kill_at:
                self.signal(signal.SIGKILL, group=True)
            again = self.spec.get("restartPolicy") == "OnFailure" and self.kill_at is None
            if any([container.look(again) for container in self.containers]) and again:
                self.report("Running")
            time.sleep(0.05)
        self.report("Failed" if any(container.end["exitCode"] for container in self.containers) else "Succeeded")
        self.over = True
        if self.deleted:
            self.forget()

    def stop(self, grace):
        if self.over:
            self.forget()
        elif not self.deleted:
            self.deleted = True
            self.terminate(grace)

    def terminate(self, grace):
        self.kill_at = time.monotonic() + grace
        self.signal(signal.SIGTERM)

    def signal(self, number, group=False):
        for container in self.containers:
            if container.end is None:
                container.signal(number, group)

    def report(self, phase):
        ready = "True" if phase == "Running" else "False"
        conditions = [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": self.begun},
            {"type": "Ready", "status": ready, "lastTransitionTime": now()},
        ]
        status = {
            "phase": phase,
            "startTime": self.begun,
            "hostIP": "127.0.0.1",
            "podIP": "127.0.0.1",
            "conditions": conditions,
            "containerStatuses": [container.status() for container in self.containers],
        }
        if self.reason:
            status["reason"] = self.reason
        self.node.api.insist("PATCH", self.path + "/status", {"status": status}, MERGE)

    def forget(self):
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": self.meta["uid"]},
        }
        self.node.api.insist("DELETE", self.path, options)

    def stored(self, kind, name):
        """The entries of a ConfigMap or a Secret."""
        found = self.node.api.call("GET", f"/api/v1/namespaces/{self.meta['namespace']}/{kind}/{name}")
        entries = {key: value.encode() for key, value in found.get("data", {}).items() if kind == "configmaps"}
        coded = found.get("binaryData" if kind == "configmaps" else "data") or {}
        return entries | {key: base64.b64decode(value) for key, value in coded.items()}

    def volume(self, volume):
        """Where the content of a volume is on this machine."""
        if "hostPath" in volume:
            return volume["hostPath"]["path"]
        folder = os.path.join(self.folder, "volumes", volume["name"])
        os.makedirs(folder, exist_ok=True)
        if "configMap" in volume or "secret" in volume:
            map_ = "configMap" in volume
            name = volume["configMap"]["name"] if map_ else volume["secret"]["secretName"]
            for key, value in self.stored("configmaps" if map_ else "secrets", name).items():
                with open(os.path.join(folder, key), "wb") as file:
                    file.write(value)
        return folder


def bind(source, target):
    """Shell commands that show a file or folder at another place; a place that is not there is made on this machine."""
    make = (
        f"mkdir -p '{target}'" if os.path.isdir(source) else f"mkdir -p '{os.path.dirname(target)}'; touch '{target}'"
    )
    return f"{make}; mount --bind '{source}' '{target}'; "


def expand(text, env):
    return re.sub(r"\$\((\w+)\)", lambda found: env.get(found[1], found[0]), text)


def main():
    server, tokens, name, folder = sys.argv[1:5]
    with open(tokens) as file:
        token = file.readline().split(",")[0]
    node = Node(Api(server, token), name, folder)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    threading.Thread(target=node.beat, daemon=True).start()
    try:
        node.watch()
    finally:
        for pod in node.pods.values():  # nothing outlives its node
            pod.signal(signal.SIGKILL, group=True)


if __name__ == "__main__":
    main()
