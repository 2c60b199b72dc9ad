"""The cluster of a Python program that runs in an allocation: started when the program asks for it, ended with it."""

import argparse
import atexit
import os
import sys
import threading

from tarpipe.slurm_cluster.cluster import Cluster
from tarpipe.slurm_cluster.flags import CLUSTER_FLAGS, complete
from tarpipe.slurm_cluster.inside import job_id, log_folder
from tarpipe.slurm_cluster.site import Site
from tarpipe.slurm_cluster.slurm import Job

PAUSE = 1  # seconds between two looks at the workers

_clusters = {}


class OwnCluster(Cluster):
    """A cluster whose client is this program itself."""

    def authentication(self):
        if "ray" not in sys.modules:
            return super().authentication()
        # Ray has read its settings already.
        hint = "use slurm-cluster submit, or set RAY_AUTH_MODE and RAY_AUTH_TOKEN"
        problem = "Ray was imported before its cluster started, so the cluster has no token"
        print(f"slurm-cluster: {problem}; {hint}", file=sys.stderr)
        return {"RAY_AUTH_MODE": "disabled"}


def is_inside():
    """Whether this program runs on a node of an allocation, not beside it on the machine where salloc was called."""
    return bool(job_id() and os.environ.get("SLURMD_NODENAME"))


def start(kind, disconnect):
    """Starts Spark or Ray on all nodes of this allocation, the master beside this program, and returns its address.

    The flags of slurm-cluster are taken from the environment (CLUSTER_CORES …), which slurm-cluster submit sets, and
    the site files are read. The environment gets what clients need. At the end of the program, `disconnect` is called
    before the cluster ends. A second call returns the same cluster. Raises `slurm.Failure` or `site.SiteError`.
    """
    if kind in _clusters:
        return _clusters[kind].address
    options = argparse.Namespace(kind=kind, **{name: None for name, *_ in CLUSTER_FLAGS})
    options = complete(options)
    if not os.environ.get("CLUSTER_PYTHON"):
        options.python = sys.executable
    job, site = Job(job_id()), Site(options.config)
    job.nodes.sort(key=lambda name: name != os.environ["SLURMD_NODENAME"])
    cluster = OwnCluster(options, job, site, log_folder(job))
    try:
        cluster.start()
    except BaseException:
        cluster.stop()
        raise
    _clusters[kind] = cluster
    os.environ.update(cluster.env)
    ending = threading.Event()
    watcher = threading.Thread(target=watch, args=(cluster, ending), daemon=True)
    watcher.start()
    atexit.register(end, cluster, ending, watcher, disconnect)
    return cluster.address


def watch(cluster, ending):
    """Starts lost workers again for as long as the cluster lives; its clients notice the loss of the master."""
    while not ending.is_set() and cluster.tend() is None:
        ending.wait(PAUSE)


def end(cluster, ending, watcher, disconnect):
    ending.set()
    watcher.join()  # it could start a worker that nobody would end
    disconnect()
    cluster.stop()
