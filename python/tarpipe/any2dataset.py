"""any2dataset on tarpipe's tools: from tables of URLs of any files to a dataset, as a command and as a function.

    any2dataset --url_list files.txt --output_folder sounds --output_format webdataset --thread_count 64

    from tarpipe.any2dataset import any2dataset

Flags, defaults and files are those that any2dataset documents: FOLDER/00000.tar with 000000000.flat, .json and .txt,
FOLDER/00000.parquet with one row per URL, FOLDER/00000_stats.json with counts. Files are stored unchanged, except that
--encode_format mp3, flac, wav or m4a encodes the sound of each file so, with ffmpeg; files without sound fail. New shards
are added to existing ones; --incremental_mode incremental resumes an interrupted run, and overwrite starts over.

In addition: --dry_run prints the pipeline, --max_size MB limits the size of a file (default 100), --allow_private,
--allow_file, --ignore_ssl_certificate, --max_shard_retry, and --distributor ray and slurm. --file_size, which any2dataset documents
but does not have, is missing here too.
"""

from __future__ import annotations

import sys
from typing import Optional

from . import dropin
from ._error import UsageError
from .dropin.dataset import Dataset
from .dropin.flags import Guessed
from .dropin.video import SOUNDS

__all__ = ["any2dataset", "download", "main"]


def any2dataset(
    url_list: str,
    output_folder: str = "files",
    processes_count: int = 1,
    output_format: str = "files",
    input_format: str = Guessed("txt"),
    url_col: str = "url",
    caption_col: Optional[str] = None,
    thread_count: int = 256,
    number_sample_per_shard: int = 10000,
    save_additional_columns: Optional[list[str]] = None,
    timeout: int = 10,
    enable_wandb: bool = False,
    wandb_project: str = "any2dataset",
    oom_shard_count: int = 5,
    compute_md5: bool = True,
    distributor: str = "multiprocessing",
    subjob_size: int = 1000,
    retries: int = 0,
    disable_all_reencoding: bool = False,
    *,
    incremental_mode: str = "extend",
    max_shard_retry: int = 1,
    max_size: int = 100,
    allow_private: bool = False,
    allow_file: bool = False,
    ignore_ssl_certificate: bool = False,
    dry_run: bool = False,
    master: Optional[str] = None,
    launcher: Optional[str] = None,
    conf: Optional[list[str]] = None,
    dns: Optional[str] = None,
    user_agent: Optional[str] = None,
    encode_format: str = "flat",
    output_dir: Optional[str] = None,
    num_proc: Optional[int] = None,
    master_node: Optional[str] = None,
) -> None:
    """Download the files of a table of URLs, of any kind, and store them unchanged as a dataset.

    The parameters up to ``disable_all_reencoding`` are those of any2dataset, whose function is called ``download``; so is
    this one.

    >>> any2dataset("urls.txt", output_format="webdataset", compute_md5=False, dry_run=True)  # doctest: +ELLIPSIS
    urlcat ...urls.txt ... |
      fetch ... |
      tardataset ...

    Args:
        url_list: A table of URLs, or a folder of tables; also several, by braces, wildcards or ``::``. Paths and all names that
            the tools read: http(s)://, s3://, gs://, az://, hf://.
        input_format: txt, csv, tsv, json, jsonl or parquet; all but parquet also as ``.gz``. By default what the suffix of
            `url_list` says, else txt.
        output_folder: Folder for the dataset: a path, or a prefix in a store, such as s3://bucket/sounds. If it has shards already, new ones are added.
        processes_count: Multiplies `thread_count`.
        output_format: webdataset, files, parquet, tfrecord or dummy.
        url_col, caption_col: Columns of URLs and captions.
        thread_count: Requests in flight per process.
        number_sample_per_shard: Rows per shard.
        save_additional_columns: Columns of the input to copy to the output.
        timeout: Seconds to wait for a connection, and for the next bytes.
        enable_wandb, wandb_project: Report to Weights & Biases.
        oom_shard_count: Digits of shard numbers.
        compute_md5: Write the MD5 sum of each file to the table.
        distributor: multiprocessing (this machine), pyspark, ray or slurm.
        subjob_size: Shards per job of a distributor.
        retries: Retries of a transient failure.
        disable_all_reencoding: Store all files unchanged; `encode_format` is only their suffix then.
        incremental_mode: extend, incremental (resume an interrupted run) or overwrite.
        max_shard_retry: Retries of a shard.
        max_size: Largest file in MB; larger ones fail.
        allow_private: Fetch from private and loopback addresses too.
        allow_file: Read local files too: ``file:`` URLs, and paths that begin with /, ./ or ../.
        ignore_ssl_certificate: Do not verify certificates.
        dry_run: Print the pipeline and do nothing.
        master: Spark cluster, such as spark://host:7077 or yarn; by default SPARK_MASTER, then what spark-defaults.conf or
            spark-submit say.
        launcher: Command that runs the Spark driver, such as ``spark-submit``; by default this Python.
        conf: Spark configuration, as a list of NAME=VALUE.
        dns: DNS servers to use instead of those of the system, such as ``127.0.0.1:53``.
        user_agent: User-Agent to send, instead of img2dataset's.
        encode_format: mp3, flac, wav or m4a to encode the sound of each file; flat to store files unchanged with this suffix;
            auto to store them unchanged with the suffix of their kind.
        output_dir, num_proc: Other names of `output_folder` and `processes_count`, as in any2dataset's cluster tools.
        master_node: Host of the Spark or Ray cluster, on its default port, as in any2dataset's cluster tools.

    Raises:
        ValueError: An argument is invalid.
        tarpipe.Error: Some shards failed, or the tools are not installed.
    """
    Any2dataset().call(locals())


download = any2dataset


class Any2dataset(Dataset):
    program, help, function = "any2dataset", __doc__, any2dataset
    reserved = Dataset.reserved + ("md5",)
    processed, noun = "subsample", "file"

    def prepare(self):
        flags = self.flags
        flags["output_folder"] = flags["output_dir"] or flags["output_folder"]
        flags["processes_count"] = int(flags["num_proc"] or flags["processes_count"])
        kind = flags["encode_format"]
        if not kind or any(not c.isalnum() for c in kind):
            raise UsageError(f"--encode_format: '{kind}' is not a suffix (use one such as mp3, or auto)")
        if kind == "auto" and flags["output_format"] in ("parquet", "tfrecord"):
            raise UsageError(f"--encode_format auto: {flags['output_format']} has one column for all files; name a suffix")
        if kind not in ("flat", "auto", *SOUNDS) and not flags["disable_all_reencoding"]:
            raise UsageError(
                f"--encode_format: cannot encode as {kind} (use {', '.join(SOUNDS)}; flat and auto store files unchanged; "
                f"with --disable_all_reencoding, {kind} is only the suffix)"
            )
        if not flags["master_node"]:
            return
        if flags["distributor"] == "pyspark" and not flags["master"]:
            flags["master"] = f"spark://{flags['master_node']}:7077"
        elif flags["distributor"] == "ray":
            flags["engine_words"] = ["--address", f"{flags['master_node']}:6379"]
        else:
            raise UsageError("--master_node: needs --distributor ray or pyspark, without --master")

    def field(self):
        return self.flags["encode_format"]

    def encodes(self):
        return self.field() in SOUNDS and not self.flags["disable_all_reencoding"]

    def fetched_field(self):
        """None leaves the suffix to fetch."""
        return None if self.field() == "auto" or self.encodes() else self.field()

    def stages(self):
        words = ["tarvideo", "--audio", self.field(), "--no-video", "--on-error", "pass", "-p", str(self.flags["processes_count"])]
        return [[*words, "--max-sample", "4G", "--max-failures", "100%", "-q"]] if self.encodes() else []

    def columns(self):
        return ["md5"] if self.flags["compute_md5"] else []

    def fetch_flags(self):
        hash_of = "md5" if self.flags["compute_md5"] else "none"
        return ["--hash", hash_of, "--max-bytes", f"{self.flags['max_size']}M", "--user-agent", self.user_agent(), "--agent", "any2dataset"]

    def dataset_flags(self):
        return ["--words", "any2dataset", *(["--max-sample", "4G"] if self.encodes() else [])]


def main() -> int:
    """Runs the command line and returns its exit status."""
    return dropin.main("any2dataset", Any2dataset().run)


if __name__ == "__main__":
    sys.exit(main())
