"""The peak plasma current of many shots, as a TokSearch script has it: fetch a signal, map, keep.

    slurm-cluster ray python3 peak_current.py ray
    python3 peak_current.py multiprocessing --shots 200 --table peaks.parquet

Needs numpy on all nodes. Where MDSplus is not installed, --synthetic computes a signal instead of reading one.
"""

import argparse
import time

import numpy as np

from tarpipe.pipeline import MdsSignal, Pipeline


class SyntheticSignal:
    """A signal that needs no archive: a plasma current with its ramps, and some noise."""

    def fetch(self, shot):
        """Returns what MdsSignal returns, the same for a shot on every node."""
        times = np.linspace(0.0, 6.0, 6000)
        flat_top = 1e6 + 1e3 * (shot % 997)
        data = -flat_top * np.clip(np.minimum(times, 6.0 - times), 0.0, 1.0)
        noise = np.random.default_rng(shot).normal(scale=1e3, size=times.size)
        return {"data": data + noise, "times": times, "units": {"data": "A"}}


def create_pipeline(shots, signal):
    """Makes the pipeline: one field is fetched, one is computed and kept."""
    pipeline = Pipeline(shots)
    pipeline.fetch("ipmhd", signal)

    @pipeline.map
    def calc_max_ipmhd(rec):
        rec["max_ipmhd"] = np.max(np.abs(rec["ipmhd"]["data"]))

    pipeline.keep(["max_ipmhd"])
    return pipeline


def main():
    """Runs the pipeline on the backend that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("backend", choices=["serial", "multiprocessing", "ray", "spark"])
    parser.add_argument("--shots", type=int, default=10000, metavar="N", help="number of shots (default: 10000)")
    parser.add_argument("--synthetic", action="store_true", help="compute the signal instead of reading it")
    parser.add_argument("--table", metavar="FILE", help="write the results to FILE (.parquet, .csv, .tsv, .jsonl)")
    args = parser.parse_args()

    signal = SyntheticSignal() if args.synthetic else MdsSignal(r"\ipmhd", "efit01")
    shots = list(range(165920, 165920 + args.shots))
    pipeline = create_pipeline(shots, signal)

    start = time.monotonic()
    results = getattr(pipeline, f"compute_{args.backend}")()
    rate = len(results) / (time.monotonic() - start)
    print(f"Got {len(results)} results using {args.backend} ({len(results.failed)} with errors, {rate:.0f} per second)")
    if args.table:
        results.to_table(args.table)


if __name__ == "__main__":
    main()
