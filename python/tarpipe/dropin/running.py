"""How the shards of a run are made: by one pipeline on this machine, or by one per shard on an engine."""

from __future__ import annotations

import shlex
import subprocess
import sys

from .._error import Error
from .._process import Stderr, exit_on_signals, start, wait
from .engines import GUARDED, active_engine, launch_words
from .metrics import Metrics
from .plan import ranges

ENGINES = {"pyspark": "spark", "ray": "ray", "slurm": "slurm"}


def items_of(numbers):
    """Shards as names for shardrun: {0..2} 5."""
    parts = (part.split("-") for part in ranges(numbers).split(","))
    return [f"{{{part[0]}..{part[1]}}}" if len(part) > 1 else part[0] for part in parts]


class Running:
    """The part of a dataset that runs pipelines."""

    # Whether Python called us, not a command line: then the messages of tools are kept for the exception.
    is_call = False
    messages = ""

    def is_distributed(self):
        return self.flags["distributor"] != "multiprocessing"

    def work(self, done):
        """Makes all unfinished shards, and retries those that failed."""
        flags, shards = self.flags, self.shards()
        if not set(shards) - done:
            return self.show_what_is_there(done)
        project = flags["wandb_project"] if flags["enable_wandb"] else None
        config = {name: value for name, value in flags.items() if name != "types"}
        metrics = Metrics(self.program, self.storage, done, project, config, self.processed, self.noun)
        for attempt in range(flags["max_shard_retry"] + 1):
            left = sorted(set(shards) - done)
            if not left:
                break
            if attempt:
                print(f"Retrying {len(left)} shards, try {attempt}", flush=True)
            for part in self.parts_of(left):
                self.run_part(part, metrics.look_again)
            done = metrics.look()
        metrics.finish()
        left = sorted(set(shards) - done)
        if left:
            raise Error(f"{len(left)} shards still failed ({ranges(left)}). Run the same command to retry them.{self.last_words()}")

    def show_what_is_there(self, done):
        """The line of a run that has nothing to do."""
        found = self.storage.stats_files()
        all_stats = self.storage.read_all_json([found[number] for number in sorted(set(self.shards()) & done)])
        count, successes = (sum(stats[name] for stats in all_stats) for name in ("count", "successes"))
        print(
            f"{self.storage.name}: all {len(all_stats)} shards are done: {count} rows, {successes} successes, {count - successes} failures. "
            "To start over, use --incremental_mode overwrite; to add the failed rows to it as new shards, use --incremental_mode extend "
            "with a table of them (see tarpipe-dropins(7))",
            flush=True,
        )

    def run_part(self, part, on_look):
        """Makes these shards: here, on the engine of the calling program, or on one that shardrun starts."""
        cores = self.flags.get("worker_processes", 1)
        engine = active_engine(self.flags["distributor"], cores) if self.is_call else None
        if engine:
            self.run_on_engine(engine, part, on_look)
        else:
            self.run_pipeline(self.distributed(part) if self.is_distributed() else self.pipeline(part), on_look)

    def run_pipeline(self, script, on_look):
        """Runs a pipeline and reports finished shards. After a failure, shards are missing. The pipeline ends with this process,
        even if that is killed."""
        process = start(["bash", "-c", GUARDED, self.program, script], stdin=subprocess.PIPE, stderr=subprocess.PIPE if self.is_call else None)
        stderr, process.stderr = Stderr(process.stderr, forward=True) if self.is_call else None, None
        try:
            wait(process, on_look)
        finally:
            process.stdin.close()
        self.messages = stderr.text() if stderr else ""

    def run_on_engine(self, engine, part, on_look):
        """Runs one task per shard on an engine, and prints the stderr of failed tasks."""
        with exit_on_signals():
            for _, status, said in engine([(number, self.worker_pipeline(number)) for number in part], on_look):
                if status != 0:
                    self.messages = said
                    print(said.rstrip(), file=sys.stderr)

    def last_words(self):
        """Returns the last message of a tool, for the exception; a command line has printed it already."""
        lines = self.messages.strip().splitlines()
        return f" The last message was: {lines[-1]}" if lines else ""

    def parts_of(self, left):
        """Returns the shards of each pipeline, or of each job: subjob_size of them."""
        size = max(int(self.flags["subjob_size"]), 1) if self.is_distributed() else len(left)
        return [left[at : at + size] for at in range(0, len(left), size)]

    def distributed(self, left):
        """The command that runs one item of shardrun for each shard. Workers find its pipeline in a file beside the dataset."""
        lines = (f"{number}\t{self.worker_pipeline(number)}".replace("\n", " ") + "\n" for number in left)
        plan = self.storage.write(f".{self.program}/pipelines", "".join(lines))
        words = ["shardrun", "--on", ENGINES[self.flags["distributor"]], "--run", self.run_folder(), "--redo", "--wait"]
        words += [*self.flags.get("engine_words", []), *launch_words(self.flags["distributor"], self.flags)]
        find = f"pipeline=$(tarpipe names read {shlex.quote(plan)} | sed -n 's/^'{{}}'\\t//p')"
        return shlex.join([*words, f'{find}; bash -o pipefail -c "$pipeline"', *items_of(left)])

    def run_folder(self):
        """Where shardrun keeps its plan and its log: workers of some engines must see it, so it is never in a store."""
        if self.storage.is_local:
            return str(self.storage.path / f".{self.program}" / "shardrun")
        return f".{self.program}-runs/{self.storage.name.replace('://', '-').replace('/', '-')}"

    def worker_pipeline(self, number):
        """The pipeline for one shard on a worker, which has one core unless the config says more."""
        given = self.flags
        self.flags = {**given, "processes_count": given.get("worker_processes", 1)}
        try:
            return self.pipeline([number])
        finally:
            self.flags = given
