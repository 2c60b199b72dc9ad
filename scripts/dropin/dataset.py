"""A run from tables of URLs to a dataset: planned, resumed, done by one pipeline or by many on other machines."""

import json
import math
import pathlib
import shlex
import shutil
import sys

from . import Mistake
from .flags import one_of, parse_flags, words_of
from .metrics import Metrics
from .plan import dataset_command, plan_shards, ranges, rows_command, rows_of
from .record import check_record, describe_inputs, done_shards, write_record
from .run import run_pipeline
from .tables import column_types, input_files, tool

TABLES = ("txt", "csv", "tsv", "json", "jsonl", "parquet")
OUTPUTS = {"webdataset": "tar", "files": "files", "parquet": "parquet", "tfrecord": "tfrecord", "dummy": "none"}
ENGINES = {"pyspark": "spark", "ray": "ray", "slurm": "slurm"}
# Columns that our own tools write.
OURS = ("code", "tool", "final_url", "http_status", "mime", "bytes", "format")
# The name that img2dataset gives itself: servers that answer it answer us.
USER_AGENT = "Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:72.0) Gecko/20100101 Firefox/72.0"

# Flags that all have, and those that only we have.
COMMON = {
    "url_list": "",
    "processes_count": 1,
    "output_format": "files",
    "input_format": "txt",
    "url_col": "url",
    "caption_col": None,
    "thread_count": 256,
    "number_sample_per_shard": 10000,
    "save_additional_columns": None,
    "timeout": 10,
    "enable_wandb": False,
    "oom_shard_count": 5,
    "distributor": "multiprocessing",
    "subjob_size": 1000,
    "retries": 0,
    "incremental_mode": "incremental",
    "max_shard_retry": 1,
    "ignore_ssl_certificate": False,
    "allow_private": False,
    "dry_run": False,
    "run_shards": None,
}
# Flags that change how fast a dataset is made, not what is in it: a resumed run may have others.
FREE = {
    "output_folder", "processes_count", "thread_count", "timeout", "enable_wandb", "wandb_project", "distributor",
    "subjob_size", "retries", "incremental_mode", "max_shard_retry", "dry_run", "url_list", "allow_private", "run_shards",
    "tmp_dir", "via", "engine_words", "worker_processes",
}  # fmt: skip


class Dataset:
    """A command line. Those that derive from it say what is done between download and storage."""

    program = ""
    help = ""
    defaults = {}
    lists = ("save_additional_columns",)
    # Columns that are written, whatever the table has.
    reserved = ("key", "caption", "url", "status", "error_message")
    processed, noun = "resize", "img"
    inputs = TABLES
    # MB of bodies that are held, at least and for each process.
    window = (48, 24)

    def prepare(self):
        """Makes flags of what is not one, before they are looked at."""

    def restore(self):
        """Makes what follows from flags, here and on a worker that reads them from the plan."""

    def check(self):
        """Refuses flags that make no sense."""

    def columns(self):
        """Columns of the output after status and error_message, with their types."""
        return []

    def kept(self):
        """Columns of the table that go on, NEW=OLD where they are renamed."""
        return self.flags["save_additional_columns"] or []

    def extra_columns(self):
        """Columns of the output that stand between those that are kept and the caption."""
        return []

    def has_caption(self):
        return self.flags["caption_col"] is not None

    def requests(self):
        """How many run at once."""
        return self.flags["thread_count"] * self.flags["processes_count"]

    def times(self):
        """What a request may take."""
        pause = self.flags["timeout"]
        return ["--timeout", f"{2 * pause}s", "--connect-timeout", f"{pause}s", "--stall-time", f"{pause}s"]

    def fetch_flags(self):
        return []

    def stages(self):
        """What is done with what was downloaded."""
        return []

    def field(self):
        """The field of a file in the dataset."""
        return "jpg"

    def fetched_field(self):
        """Its field when it has been downloaded."""
        return self.field()

    def dataset_flags(self):
        return []

    def run(self, words):
        if "--help" in words or "-h" in words:
            flags = "\n".join(f"  --{name} {default}" for name, default in self.defaults.items() if name != "run_shards")
            print(f"{self.help}\nFlags and their defaults:\n{flags}")
            return 0
        self.flags = flags = parse_flags(words, self.defaults, "url_list")
        if "://" in flags["output_folder"]:
            raise Mistake("--output_folder: a path, please: mount the store, or upload what --dry_run shows by hand")
        self.folder = pathlib.Path(flags["output_folder"]).absolute()
        if flags["run_shards"] is not None:
            return self.run_planned(flags["run_shards"])
        self.prepare()
        self.restore()
        self.check_common()
        self.check()
        return self.plan_and_work()

    def check_common(self):
        flags = self.flags
        if not flags["url_list"]:
            raise Mistake("--url_list: the table of URLs, please")
        for name in self.lists:
            flags[name] = words_of(name, flags[name])
        if flags["input_format"].removesuffix(".gz") not in self.inputs or flags["input_format"] == "parquet.gz":
            raise Mistake(f"Invalid input format {flags['input_format']} (there are: {', '.join(self.inputs)})")
        one_of("output_format", flags["output_format"], OUTPUTS)
        one_of("incremental_mode", flags["incremental_mode"], ("incremental", "overwrite", "extend"))
        one_of("distributor", flags["distributor"], ("multiprocessing", *ENGINES))
        for name in ("processes_count", "thread_count", "number_sample_per_shard", "timeout"):
            if not isinstance(flags[name], (int, float)) or flags[name] < 1:
                raise Mistake(f"--{name}: '{flags[name]}' is no number from 1 on")
        if self.is_distributed():
            tool("shardrun")
        self.check_columns()

    def check_columns(self):
        kept = self.flags["save_additional_columns"] or []
        taken = sorted(set(kept) & set(self.reserved + OURS))
        if taken:
            raise Mistake(f"You cannot use in save_additional_columns the following columns: {', '.join(taken)}: they are written here")
        for name in [*kept, self.flags["url_col"], self.flags["caption_col"] or "caption"]:
            if not name or any(c.isspace() or c in ",:=" for c in name):
                raise Mistake(f"column '{name}': a name with blanks, commas, colons or equals signs cannot be passed on")

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
            return 0
        folder.mkdir(parents=True, exist_ok=True)
        write_record(self.program, folder, {"parameters": kept, "inputs": inputs})
        return self.work()

    def files(self):
        return input_files(self.flags["url_list"], self.flags["input_format"])

    def make_plan(self, first):
        """Plans all shards from `first` on; what is to be recorded of the inputs."""
        files = self.files()
        self.plan = plan_shards(files, self.flags["number_sample_per_shard"], first, self.table_format())
        self.flags["types"] = column_types(files[0], self.table_format(), self.table_columns())
        return describe_inputs(self.plan)

    def table_columns(self):
        """The columns of the input that are written, under their names there; a list of URLs has one."""
        flags = self.flags
        if self.table_format() == "txt":
            return []
        return [*(flags["save_additional_columns"] or []), *([flags["caption_col"]] if flags["caption_col"] else []), flags["url_col"]]

    def shards(self):
        return rows_of(self.plan, self.flags["number_sample_per_shard"])

    # The pipeline

    def pipeline(self, numbers):
        """The commands that do these shards."""
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
        """The column of a hash that the table has already."""
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
        """Does what is not done, and once more what failed."""
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
                run_pipeline(self.distributed(part) if self.is_distributed() else self.pipeline(part), metrics.look)
        metrics.finish()
        left = sorted(set(shards) - done_shards(self.folder))
        if left:
            print(f"{self.program}: {len(left)} shards still failed ({ranges(left)}). Run the same command to retry them.", file=sys.stderr)
        return 1 if left else 0

    def parts_of(self, left):
        """The shards of one pipeline, or of one job: as many as subjob_size says."""
        size = max(int(self.flags["subjob_size"]), 1) if self.is_distributed() else len(left)
        return [left[at : at + size] for at in range(0, len(left), size)]

    def distributed(self, left):
        """The command that runs one item of shardrun for each shard: a pipeline on one worker."""
        # A worker is one core there, and so it is here, unless it says more.
        flags = {**self.flags, "processes_count": self.flags.get("worker_processes", 1)}
        write_record(self.program, self.folder, {"flags": flags, "plan": self.plan}, "plan.json")
        place = self.folder / f".{self.program}"
        (place / "items").write_text("".join(f"{number}\n" for number in left))
        script = str(pathlib.Path(sys.argv[0]).resolve())
        words = ["shardrun", "--on", ENGINES[self.flags["distributor"]], "-T", str(place / "items"), "--run", str(place / "shardrun")]
        words += self.flags.get("engine_words", [])
        words += ["--redo", "--wait"] + (["-j", str(self.flags["processes_count"])] if self.flags["distributor"] == "pyspark" else [])
        return shlex.join([*words, shlex.join([script, "--output_folder", str(self.folder), "--run_shards"]) + " {}"])

    def run_planned(self, numbers):
        """What a worker does: the shards it was given, by the plan of the run."""
        planned = json.loads((self.folder / f".{self.program}" / "plan.json").read_text())
        self.flags, self.plan = planned["flags"], planned["plan"]
        self.restore()
        return run_pipeline(self.pipeline([int(number) for number in str(numbers).split(",")]), lambda: None)
