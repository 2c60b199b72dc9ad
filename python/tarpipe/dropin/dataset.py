"""Makes a dataset from tables of URLs: plans the shards, resumes, and runs one pipeline here or one per shard elsewhere."""

from __future__ import annotations

import functools
import json
import math
import re
import shlex
import sys
from typing import Callable, ClassVar, Optional

from .._error import UsageError
from .._program import tool
from .engines import launch_words
from .flags import Guessed, check_arguments, defaults_of, help_of, one_of, parse_flags, words_of
from .plan import dataset_command, plan_shards, rows_command, rows_of
from .record import describe_inputs, is_resumable, record_name
from .running import ENGINES, Running
from .storage import open_storage
from .tables import column_types, input_files

TABLES = ("txt", "csv", "tsv", "json", "jsonl", "parquet")
OUTPUTS = {"webdataset": "tar", "files": "files", "parquet": "parquet", "tfrecord": "tfrecord", "dummy": "none"}
# Columns that the tools add.
OURS = ("code", "url_host", "tool", "final_url", "http_status", "mime", "bytes", "format")
# The User-Agent of img2dataset: some servers accept no other.
USER_AGENT = "Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:72.0) Gecko/20100101 Firefox/72.0"

# Flags that change the speed but not the dataset: a resumed run may use other values.
FREE = {
    "output_folder", "processes_count", "thread_count", "timeout", "enable_wandb", "wandb_project", "distributor",
    "subjob_size", "retries", "incremental_mode", "max_shard_retry", "dry_run", "url_list", "allow_private", "allow_file", "tmp_dir", "via", "engine_words", "worker_processes",
    "master", "launcher", "conf", "dns", "user_agent", "output_dir", "num_proc", "master_node",
}  # fmt: skip


class Dataset(Running):
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

    def user_agent(self):
        return self.flags["user_agent"] or USER_AGENT

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
            print(self.help, "Flags:", *help_of(type(self).function), sep="\n")
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
        self.guess_format()
        self.prepare()
        self.storage = open_storage(flags["output_folder"])
        self.check_common()
        self.check()
        self.plan_and_work()

    def guess_format(self):
        """The format of the tables by the suffix of --url_list, if --input_format is not given."""
        flags = self.flags
        name = flags["url_list"].removesuffix(".gz")
        suffix = name.rsplit(".", 1)[-1] if "." in name.rsplit("/", 1)[-1] else ""
        if isinstance(flags["input_format"], Guessed) and suffix in self.inputs and suffix != flags["input_format"]:
            flags["input_format"] = suffix + flags["url_list"][len(name) :]
            print(f"{self.program}: {flags['url_list']}: reading it as {suffix}, since --input_format is not given", file=sys.stderr)

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
        flags["conf"] = words_of("conf", flags["conf"])
        if self.is_distributed():
            tool("shardrun")
        launch_words(flags["distributor"], flags)
        self.check_columns()

    def check_columns(self):
        kept = self.flags["save_additional_columns"] or []
        taken = sorted(set(kept) & set(self.reserved + OURS))
        if taken:
            raise UsageError(f"You cannot use in save_additional_columns the following columns: {', '.join(taken)}: these names are reserved")
        for name in [*kept, self.flags["url_col"], self.flags["caption_col"] or "caption"]:
            if not name or any(c.isspace() or c in ",:=" for c in name):
                raise UsageError(f"column '{name}': names with blanks, commas, colons or equals signs are not supported")

    def table_format(self):
        return self.flags["input_format"].removesuffix(".gz")

    # Planning

    def plan_and_work(self):
        flags, storage, mode = self.flags, self.storage, self.flags["incremental_mode"]
        done = storage.done_shards() if mode != "overwrite" else set()
        first = max(done, default=-1) + 1 if mode == "extend" else 0
        inputs = self.make_plan(first)
        kept = {name: value if value != math.inf else None for name, value in flags.items() if name not in FREE}
        # Nothing is removed before the inputs are known to be good.
        start_over = mode == "overwrite" or not is_resumable(self.program, storage, kept, inputs, mode, done)
        done = set() if start_over else done
        if flags["dry_run"]:
            left = sorted(set(self.shards()) - done)
            print(self.pipeline(left) if left else "# every shard is done")
            return
        if start_over and storage.exists():
            storage.remove()
        storage.create()
        storage.write(record_name(self.program), json.dumps({"parameters": kept, "inputs": inputs}, indent=1) + "\n")
        self.work(done)

    def files(self):
        return input_files(self.flags["url_list"], self.flags["input_format"])

    def make_plan(self, first):
        """Plans all shards from `first` on; returns a description of the inputs for the record."""
        files = self.files()
        self.flags["types"] = column_types(files, self.table_format(), self.table_columns())
        self.plan = plan_shards(files, self.flags["number_sample_per_shard"], first, self.table_format())
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
        dataset += [*self.dataset_flags(), "-o", self.storage.name]
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
        """The columns of the output with their types, in img2dataset's order, and ours."""
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
        return " ".join([*columns, "code", "url_host"])

    def verified(self):
        """Returns the hash column of verify_hash."""
        return []

    def fetch(self):
        flags = self.flags
        words = ["fetch", "-j", str(self.requests()), "--unordered", "--pass-failed"]
        least, each = self.window
        words += ["--window-bytes", f"{max(least, each * flags['processes_count'])}M"]
        words += ["--retries", str(flags["retries"]), "--max-redirects", "10", *self.times()]
        words += ["--ext", self.fetched_field()] if self.fetched_field() else []
        words += ["--dns", flags["dns"]] if flags["dns"] else []
        words += ["--insecure"] if flags["ignore_ssl_certificate"] else []
        words += ["--allow-private"] if flags["allow_private"] else []
        words += ["--allow-file"] if flags["allow_file"] else []
        return [*words, *self.fetch_flags(), "--max-failures", "100%", "-q"]
