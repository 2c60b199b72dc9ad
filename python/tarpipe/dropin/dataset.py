"""Makes a dataset from tables of URLs: plans the shards, resumes, and runs one pipeline here or one per shard elsewhere."""

from __future__ import annotations

import functools
import math
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
from typing import Callable, ClassVar, Optional

from .._error import Error, UsageError
from .._process import Stderr, exit_on_signals, shell, start, wait
from .._program import tool
from .engines import active_engine
from .flags import check_arguments, defaults_of, one_of, parse_flags, words_of
from .metrics import Metrics
from .plan import dataset_command, plan_shards, ranges, rows_command, rows_of
from .record import check_record, describe_inputs, done_shards, write_record
from .tables import column_types, input_files

TABLES = ("txt", "csv", "tsv", "json", "jsonl", "parquet")
OUTPUTS = {"webdataset": "tar", "files": "files", "parquet": "parquet", "tfrecord": "tfrecord", "dummy": "none"}
ENGINES = {"pyspark": "spark", "ray": "ray", "slurm": "slurm"}
# Columns that the tools add.
OURS = ("code", "tool", "final_url", "http_status", "mime", "bytes", "format")
# The User-Agent of img2dataset: some servers accept no other.
USER_AGENT = "Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:72.0) Gecko/20100101 Firefox/72.0"

# Flags that change the speed but not the dataset: a resumed run may use other values.
FREE = {
    "output_folder", "processes_count", "thread_count", "timeout", "enable_wandb", "wandb_project", "distributor",
    "subjob_size", "retries", "incremental_mode", "max_shard_retry", "dry_run", "url_list", "allow_private", "tmp_dir", "via", "engine_words", "worker_processes",
}  # fmt: skip


class Dataset:
    """One run of a program. Subclasses define the stages between download and storage."""

    program = ""
    help: ClassVar[Optional[str]] = ""
    # The Python function; its parameters are the flags.
    function: ClassVar[Callable[..., None]]
    lists: tuple[str, ...] = ("save_additional_columns",)
    # Columns that are always written.
    reserved: tuple[str, ...] = ("key", "caption", "url", "status", "error_message")
    processed, noun = "resize", "img"
    inputs: tuple[str, ...] = TABLES
    # MB of bodies in memory: the minimum, and the amount per process.
    window = (48, 24)
    # Whether Python called us, not a command line: then the messages of tools are kept for the exception.
    is_call = False
    messages = ""
    rows_of_shards = None

    def prepare(self):
        """Derives flags from other arguments before they are checked."""

    def check(self):
        """Refuses invalid flags."""

    def columns(self):
        """Columns of the output after status and error_message, with their types."""
        return []

    def kept(self):
        """Columns of the input to keep, NEW=OLD if renamed."""
        return self.flags["save_additional_columns"] or []

    def extra_columns(self):
        """Columns of the output between the kept ones and the caption."""
        return []

    def has_caption(self):
        return self.flags["caption_col"] is not None

    def requests(self):
        """The number of requests in flight."""
        return self.flags["thread_count"] * self.flags["processes_count"]

    def times(self):
        """Returns the time limits of a request."""
        pause = self.flags["timeout"]
        return ["--timeout", f"{2 * pause}s", "--connect-timeout", f"{pause}s", "--stall-time", f"{pause}s"]

    def fetch_flags(self):
        return []

    def stages(self):
        """The commands between fetch and tardataset."""
        return []

    def field(self):
        """The field of the media in the dataset."""
        return "jpg"

    def fetched_field(self):
        """The field in which fetch stores a body."""
        return self.field()

    def dataset_flags(self):
        return []

    # Entry points

    @functools.cached_property
    def defaults(self):
        return defaults_of(type(self).function)

    def run(self, words):
        """Runs a command line."""
        if "--help" in words or "-h" in words:
            flags = "\n".join(f"  --{name} {default}" for name, default in self.defaults.items())
            print(f"{self.help}\nFlags and their defaults:\n{flags}")
        else:
            self.execute(parse_flags(words, self.defaults, "url_list"))

    def call(self, arguments):
        """Runs the Python function."""
        self.is_call = True
        try:
            self.execute(check_arguments(arguments, self.defaults))
        except UsageError as error:
            raise ValueError(re.sub(r"^--(\w+)", r"\1", str(error))) from None

    def execute(self, flags):
        self.flags = flags
        if "://" in flags["output_folder"]:
            raise UsageError("--output_folder: must be a local path; mount the store, or upload the result yourself")
        self.folder = pathlib.Path(flags["output_folder"]).absolute()
        self.prepare()
        self.check_common()
        self.check()
        self.plan_and_work()

    def check_common(self):
        flags = self.flags
        if not flags["url_list"]:
            raise UsageError("--url_list: missing; give a table of URLs")
        for name in self.lists:
            flags[name] = words_of(name, flags[name])
        if flags["input_format"].removesuffix(".gz") not in self.inputs or flags["input_format"] == "parquet.gz":
            raise UsageError(f"Invalid input format {flags['input_format']} (use one of {', '.join(self.inputs)})")
        one_of("output_format", flags["output_format"], OUTPUTS)
        one_of("incremental_mode", flags["incremental_mode"], ("incremental", "overwrite", "extend"))
        one_of("distributor", flags["distributor"], ("multiprocessing", *ENGINES))
        for name in ("processes_count", "thread_count", "number_sample_per_shard", "timeout"):
            if not isinstance(flags[name], (int, float)) or flags[name] < 1:
                raise UsageError(f"--{name}: '{flags[name]}' is not a number of at least 1")
        if self.is_distributed():
            tool("shardrun")
        self.check_columns()

    def check_columns(self):
        kept = self.flags["save_additional_columns"] or []
        taken = sorted(set(kept) & set(self.reserved + OURS))
        if taken:
            raise UsageError(f"You cannot use in save_additional_columns the following columns: {', '.join(taken)}: these names are reserved")
        for name in [*kept, self.flags["url_col"], self.flags["caption_col"] or "caption"]:
            if not name or any(c.isspace() or c in ",:=" for c in name):
                raise UsageError(f"column '{name}': names with blanks, commas, colons or equals signs are not supported")

    def is_distributed(self):
        return self.flags["distributor"] != "multiprocessing"

    def table_format(self):
        return self.flags["input_format"].removesuffix(".gz")

    # Planning

    def plan_and_work(self):
        flags, folder, mode = self.flags, self.folder, self.flags["incremental_mode"]
        if mode == "overwrite" and folder.exists() and not flags["dry_run"]:
            shutil.rmtree(folder)
        first = max(done_shards(folder), default=-1) + 1 if mode == "extend" else 0
        inputs = self.make_plan(first)
        kept = {name: value if value != math.inf else None for name, value in flags.items() if name not in FREE}
        check_record(self.program, folder, kept, inputs, mode)
        if flags["dry_run"]:
            left = sorted(set(self.shards()) - done_shards(folder))
            print(self.pipeline(left) if left else "# every shard is done")
            return
        folder.mkdir(parents=True, exist_ok=True)
        write_record(self.program, folder, {"parameters": kept, "inputs": inputs})
        self.work()

    def files(self):
        return input_files(self.flags["url_list"], self.flags["input_format"])

    def make_plan(self, first):
        """Plans all shards from `first` on; returns a description of the inputs for the record."""
        files = self.files()
        self.plan = plan_shards(files, self.flags["number_sample_per_shard"], first, self.table_format())
        self.flags["types"] = column_types(files[0], self.table_format(), self.table_columns())
        return describe_inputs(self.plan)

    def table_columns(self):
        """The columns of the input that are written; none for a plain list of URLs."""
        flags = self.flags
        if self.table_format() == "txt":
            return []
        return [*(flags["save_additional_columns"] or []), *([flags["caption_col"]] if flags["caption_col"] else []), flags["url_col"]]

    def shards(self):
        """Returns all shards and their numbers of rows."""
        if self.rows_of_shards is None:
            self.rows_of_shards = rows_of(self.plan, self.flags["number_sample_per_shard"])
        return self.rows_of_shards

    # The pipeline

    def pipeline(self, numbers):
        """The pipeline that makes these shards."""
        flags = self.flags
        per_shard, digits = flags["number_sample_per_shard"], flags["oom_shard_count"]
        rows = rows_command(self.plan, numbers, per_shard, digits, self.rows())
        dataset = ["--columns", self.dataset_columns(), "--format", OUTPUTS[flags["output_format"]], "--field", self.field()]
        dataset += ["--types-from", self.plan[0]["file"]] if self.table_format() == "parquet" else []
        dataset += ["--caption"] if self.has_caption() else []
        dataset += [*self.dataset_flags(), "-o", str(self.folder)]
        last = dataset_command(self.shards(), numbers, per_shard, digits, dataset)
        return " |\n  ".join([rows, shlex.join(self.fetch()), *map(shlex.join, self.stages()), last])

    def rows(self):
        flags = self.flags
        words = ["--format", self.table_format()]
        if self.table_format() == "txt":
            return words
        words += ["--url-col", flags["url_col"], "--keep", " ".join(self.kept())]
        return words + (["--caption-col", flags["caption_col"]] if flags["caption_col"] else [])

    def dataset_columns(self):
        """The columns of the output with their types, in img2dataset's order, and our code."""
        flags, columns = self.flags, []
        if self.table_format() == "txt":
            columns += ["url"]
        else:
            types = flags["types"]
            columns += [f"{name}:{types[name]}" for name in flags["save_additional_columns"] or []]
            columns += self.extra_columns()
            columns += [f"caption:{types[flags['caption_col']]}"] if flags["caption_col"] else []
            columns += self.verified()
            columns += [f"url:{types[flags['url_col']]}"]
        columns += ["key", "status", "error_message"]
        columns += [column for column in self.columns() if column not in columns]
        return " ".join([*columns, "code"])

    def verified(self):
        """Returns the hash column of verify_hash."""
        return []

    def fetch(self):
        flags = self.flags
        words = ["fetch", "-j", str(self.requests()), "--unordered", "--pass-failed"]
        least, each = self.window
        words += ["--window-bytes", f"{max(least, each * flags['processes_count'])}M"]
        words += ["--retries", str(flags["retries"]), "--max-redirects", "10", "--ext", self.fetched_field(), *self.times()]
        words += ["--insecure"] if flags["ignore_ssl_certificate"] else []
        words += ["--allow-private"] if flags["allow_private"] else []
        return [*words, *self.fetch_flags(), "--max-failures", "100%", "-q"]

    # Running

    def work(self):
        """Makes all unfinished shards, and retries those that failed."""
        flags, shards, done = self.flags, self.shards(), done_shards(self.folder)
        project = flags["wandb_project"] if flags["enable_wandb"] else None
        config = {name: value for name, value in flags.items() if name != "types"}
        metrics = Metrics(self.program, self.folder, done, project, config, self.processed, self.noun)
        for attempt in range(flags["max_shard_retry"] + 1):
            left = sorted(set(shards) - done_shards(self.folder))
            if not left:
                break
            if attempt:
                print(f"Retrying {len(left)} shards, try {attempt}", flush=True)
            for part in self.parts_of(left):
                self.run_part(part, metrics.look)
        metrics.finish()
        left = sorted(set(shards) - done_shards(self.folder))
        if left:
            raise Error(f"{len(left)} shards still failed ({ranges(left)}). Run the same command to retry them.{self.last_words()}")

    def run_part(self, part, on_look):
        """Makes these shards: here, on the engine of the calling program, or on one that shardrun starts."""
        cores = self.flags.get("worker_processes", 1)
        engine = active_engine(self.flags["distributor"], cores) if self.is_call else None
        if engine:
            self.run_on_engine(engine, part, on_look)
        else:
            self.run_pipeline(self.distributed(part) if self.is_distributed() else self.pipeline(part), on_look)
        on_look()

    def run_pipeline(self, script, on_look):
        """Runs a pipeline and reports finished shards. After a failure, shards are missing."""
        process = start(shell(script), stderr=subprocess.PIPE if self.is_call else None)
        stderr, process.stderr = Stderr(process.stderr, forward=True) if self.is_call else None, None
        wait(process, on_look)
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
        """Yields the shards of each pipeline, or of each job: subjob_size of them."""
        size = max(int(self.flags["subjob_size"]), 1) if self.is_distributed() else len(left)
        return [left[at : at + size] for at in range(0, len(left), size)]

    def distributed(self, left):
        """The command that runs one item of shardrun for each shard: its pipeline, from a file that the workers see."""
        folder = self.folder / f".{self.program}"
        shutil.rmtree(folder / "shards", ignore_errors=True)
        (folder / "shards").mkdir()
        for number in left:
            (folder / "shards" / str(number)).write_text(self.worker_pipeline(number) + "\n")
        (folder / "items").write_text("".join(f"{number}\n" for number in left))
        words = ["shardrun", "--on", ENGINES[self.flags["distributor"]], "-T", str(folder / "items"), "--run", str(folder / "shardrun")]
        words += self.flags.get("engine_words", [])
        words += ["--redo", "--wait"] + (["-j", str(self.flags["processes_count"])] if self.flags["distributor"] == "pyspark" else [])
        return shlex.join([*words, shlex.join(["bash", "-o", "pipefail", str(folder / "shards")]) + "/{}"])

    def worker_pipeline(self, number):
        """The pipeline for one shard on a worker, which has one core unless the config says more."""
        given = self.flags
        self.flags = {**given, "processes_count": given.get("worker_processes", 1)}
        try:
            return self.pipeline([number])
        finally:
            self.flags = given
