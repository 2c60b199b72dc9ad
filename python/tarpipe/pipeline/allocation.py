"""Starts the cluster of a Slurm allocation for a pipeline that finds none."""

from __future__ import annotations

from typing import Callable, Optional

from .partition import PipelineError


def cluster_of_allocation(kind: str, disconnect: Callable[[], None]) -> Optional[str]:
    """Returns the address of a Ray or Spark cluster on all nodes of this allocation; None outside of Slurm.

    `disconnect` is called at the end of the program, before the cluster ends.
    """
    from tarpipe.slurm_cluster import allocation
    from tarpipe.slurm_cluster.site import SiteError
    from tarpipe.slurm_cluster.slurm import Failure

    if not allocation.is_inside():
        return None
    try:
        return str(allocation.start(kind, disconnect))
    except (Failure, SiteError) as error:
        raise PipelineError(f"cannot start {kind.title()} in this allocation: {error}") from error
