"""video2dataset on tarpipe's tools: the same arguments and configs, files, keys and statuses, as a command and as a function.

    video2dataset --url_list videos.csv --url_col url --caption_col caption --output_folder dataset \\
      --output_format webdataset --config downsample.yaml

    from tarpipe.video2dataset import video2dataset

Flags, defaults and the sections of a config (subsampling, reading, storage, distribution) are those of video2dataset 1.3.
The configs default and downsample_ml are built in; reading YAML needs PyYAML, JSON does not. In addition:

    --dry_run                 print the pipeline and exit
    --allow_private           fetch from private and loopback addresses too
    --allow_file              read local files too: file: URLs, and paths that begin with /, ./ or ../
    --ignore_ssl_certificate  do not verify certificates

All unfinished shards go through one pipeline: urlcat | fetch | tarvideo | tardataset. URLs that end in the extension of a
video or audio format are requested; all others are passed to yt-dlp. With --stage subset and --input_format webdataset,
url_list names shards, and each goes through tarvideo | tardataset and keeps its number.

Not supported, and refused before anything runs: optical flow, captioning, speech to text (the stages and their
subsamplers; python/examples has workers for them), samplers, cut_detection_mode longest, framerates, extract_keyframes,
downsample_method yt_subtitle.

Differences from video2dataset (see the manual page):
  A URL that answers 404, or with a page, is failed_to_download (video2dataset stores the page as a video).
  Failures are in the table and not in the tar (video2dataset writes samples without video, which break loaders).
  The stage download resizes and re-times too (in video2dataset every shard fails with an AttributeError).
  Clips that are too short have a row in the table, and their number is not reused.
  Where video is re-encoded anyway, clips are exact. Padding is equal on both sides (video2dataset pads right and below).
  Cuts are detected by ffmpeg, with threshold / 100 as the change.
"""

from __future__ import annotations

import shutil
import sys
from typing import Any, Optional

from . import dropin
from ._error import UsageError
from ._program import search_path
from .dropin.config import LACKING, check_config, literal, read_config, refuse_lacking, slurm_words, subsamplers
from .dropin.dataset import OUTPUTS, TABLES, Dataset
from .dropin.flags import Guessed, one_of
from .dropin.older import apply_older_flags
from .dropin.subset import plan_subset, subset_pipeline
from .dropin.tables import first_url
from .dropin.video import Plan

__all__ = ["main", "video2dataset"]

# URLs with these extensions are requested; all others are passed to yt-dlp.
DIRECT = ("mp4", "webm", "mov", "avi", "mkv", "mp3", "wav", "m4a")
# Defaults of keys that a config leaves out.
ABSENT = {
    "processes_count": 1, "thread_count": 256, "subjob_size": 1000, "distributor": "multiprocessing",
    "number_sample_per_shard": 10000, "oom_shard_count": 5,
}  # fmt: skip


def video2dataset(
    url_list: str,
    output_folder: str = "dataset",
    output_format: str = "files",
    input_format: str = Guessed("csv"),
    encode_formats: Optional[dict[str, str]] = None,
    stage: str = "download",
    url_col: str = "url",
    caption_col: Optional[str] = None,
    clip_col: Optional[str] = None,
    save_additional_columns: Optional[list[str]] = None,
    enable_wandb: bool = False,
    wandb_project: str = "video2dataset",
    incremental_mode: str = "incremental",
    max_shard_retry: int = 1,
    tmp_dir: str = "/tmp",
    config: Any = "default",
    *,
    allow_private: bool = False,
    allow_file: bool = False,
    ignore_ssl_certificate: bool = False,
    dry_run: bool = False,
    master: Optional[str] = None,
    launcher: Optional[str] = None,
    conf: Optional[list[str]] = None,
    dns: Optional[str] = None,
    user_agent: Optional[str] = None,
    video_size: Any = None,
    strict_resize: bool = False,
    processes_count: Any = None,
    thread_count: Any = None,
    number_sample_per_shard: Any = None,
    subjob_size: Any = None,
    oom_shard_count: Any = None,
    distributor: Any = None,
    timeout: Any = None,
    captions_are_subtitles: bool = False,
    yt_metadata_args: Any = None,
    audio_rate: Any = None,
    video_fps: Any = None,
    video_height: Any = None,
    video_width: Any = None,
    resize_mode: Any = None,
    min_clip_length: Any = None,
    max_clip_length: Any = None,
    max_clip_length_strategy: Any = None,
    precise_clipping: bool = False,
) -> None:
    """Download the videos of a table of URLs, cut, scale and re-time them, and store them as a dataset.

    The parameters up to ``config`` are those of video2dataset 1.3, in its order and with its defaults. What is not supported,
    and what differs, is listed in the description of the module (``help(tarpipe.video2dataset)``).

    >>> video2dataset("videos.txt", input_format="txt", dry_run=True)  # doctest: +ELLIPSIS
    urlcat ...videos.txt ... |
      fetch ... |
      tardataset ...

    Args:
        url_list: A table of URLs, or a folder of tables; also several, by braces, wildcards or ``::``. Paths and all names that
            the tools read: http(s)://, s3://, gs://, az://, hf://.
        input_format: txt, csv, tsv, json, jsonl or parquet; all but parquet also as ``.gz``. With ``webdataset``, url_list
            names shards. By default what the suffix of `url_list` says, else csv.
        output_folder: Folder for the dataset: a path, or a prefix in a store, such as s3://bucket/videos.
        output_format: webdataset, files, parquet, tfrecord or dummy.
        encode_formats: Extension by kind of media, such as ``{"video": "mp4", "audio": "mp3"}``.
        stage: download, or subset with ``input_format="webdataset"``.
        url_col, caption_col, clip_col: Columns of URLs, captions, and lists of clips.
        save_additional_columns: Columns of the input to copy to the output.
        enable_wandb, wandb_project: Report to Weights & Biases.
        incremental_mode: incremental or overwrite.
        max_shard_retry: Retries of a shard.
        tmp_dir: Folder for temporary files.
        config: Name of a built-in config (default, downsample_ml), a file in YAML or JSON, or the config as a dictionary.
        allow_private: Fetch from private and loopback addresses too (not in video2dataset).
        allow_file: Read local files too: ``file:`` URLs, and paths that begin with /, ./ or ../.
        ignore_ssl_certificate: Do not verify certificates (not in video2dataset).
        dry_run: Print the pipeline and do nothing (not in video2dataset).
        master: Spark cluster, such as spark://host:7077 or yarn; by default SPARK_MASTER, then what spark-defaults.conf or
            spark-submit say.
        launcher: Command that runs the Spark driver, such as ``spark-submit``; by default this Python.
        conf: Spark configuration, as a list of NAME=VALUE.
        dns: DNS servers to use instead of those of the system, such as ``127.0.0.1:53``.
        user_agent: User-Agent to send, instead of img2dataset's.
        video_size: Size to download from video platforms; with `strict_resize`, videos are scaled to it too. This flag and the
            following ones are those of video2dataset before 1.3; they change the config.
        strict_resize, video_height, video_width, resize_mode, video_fps, audio_rate, precise_clipping: See `video_size`.
        min_clip_length, max_clip_length, max_clip_length_strategy, captions_are_subtitles: See `video_size`.
        processes_count, thread_count, subjob_size, distributor, timeout, yt_metadata_args: See `video_size`.
        number_sample_per_shard, oom_shard_count: See `video_size`.

    Raises:
        ValueError: An argument or a part of the config is invalid or not supported.
        tarpipe.Error: Some shards failed, or the tools are not installed.
    """
    Video2dataset().call(locals())


class Video2dataset(Dataset):
    program, help, function = "video2dataset", __doc__, video2dataset
    reserved = Dataset.reserved + ("clips",)
    processed, noun = "subsample", "vid"
    inputs = (*TABLES, "webdataset")
    # A larger body waits until it can have all of the memory.
    window = (512, 64)

    def prepare(self):
        flags = self.flags
        stage = one_of("stage", flags["stage"], ("download", "subset", *LACKING))
        refuse_lacking(f"--stage {stage}", stage)
        if (stage == "subset") != (flags["input_format"] == "webdataset"):
            raise UsageError("--stage subset needs --input_format webdataset, and --stage download needs a table")
        if isinstance(flags["encode_formats"], str):
            flags["encode_formats"] = literal("encode_formats", flags["encode_formats"])
        if flags["encode_formats"] is None:
            flags["encode_formats"] = {"video": "mp4"}
        if not flags["encode_formats"]:
            raise UsageError("--encode_formats: {} names nothing to store; name video or audio, or use --output_format dummy")
        for modality, extension in flags["encode_formats"].items():
            one_of("encode_formats", modality, ("video", "audio"))
            if not isinstance(extension, str):
                raise UsageError(f"--encode_formats: {modality}: '{extension}' is not an extension (write {{\"video\": \"mp4\"}})")
        one_of("incremental_mode", flags["incremental_mode"], ("incremental", "overwrite"))
        config = read_config(flags["config"])
        apply_older_flags(config, flags)
        check_config(config)
        if config["reading"].get("sampler") is not None:
            raise UsageError("--config: reading.sampler is not supported; urlcat --sample makes a smaller table")
        distribution = config.pop("distribution")
        names = ("processes_count", "thread_count", "subjob_size", "distributor")
        flags |= {name: distribution.get(name, ABSENT[name]) for name in names}
        one_of("config: distributor", flags["distributor"], ("multiprocessing", "pyspark", "ray", "slurm"))
        flags["engine_words"] = slurm_words(distribution.get("distributor_args") or {}) if flags["distributor"] == "slurm" else []
        flags["worker_processes"] = (distribution.get("distributor_args") or {}).get("cpus_per_task") or 1
        flags |= {name: config["storage"].get(name, ABSENT[name]) for name in ("number_sample_per_shard", "oom_shard_count")}
        flags |= {"timeout": config["reading"].get("timeout", 60), "retries": 0, "config": config}
        self.plan_video()

    def plan_video(self):
        flags, config = self.flags, self.flags["config"]
        parts, cuts = subsamplers(config), config["subsampling"].get("CutDetectionSubsampler") or {}
        clips_from = "json.clips" if flags["clip_col"] else None
        if config["storage"].get("captions_are_subtitles"):
            if flags["clip_col"] or flags["caption_col"]:
                raise UsageError("--clip_col, --caption_col: cannot be combined with captions_are_subtitles")
            clips_from = "vtt"
        self.video = Plan(parts, cuts.get("cuts_are_clips", False), flags["encode_formats"], clips_from)

    def check(self):
        flags = self.flags
        if flags["clip_col"] and self.table_format() == "txt":
            raise UsageError("--clip_col: a txt list has no columns")
        flags["via"] = not self.is_subset() and self.needs_ytdlp()

    def is_subset(self):
        return self.flags["stage"] == "subset"

    def needs_ytdlp(self):
        """Returns whether URLs of pages are passed to yt-dlp. Fails if the table has any and yt-dlp is not installed."""
        if shutil.which("yt-dlp", path=search_path()):
            return True
        for file in self.files():
            page = first_url(file, self.rows(), is_page)
            if page is not None:
                raise UsageError(f"{page} is not a media file, and yt-dlp, which downloads from pages, is not on PATH (pip install yt-dlp)")
        return False

    def make_plan(self, first):
        if not self.is_subset():
            return super().make_plan(first)
        self.plan, self.flags["columns"] = plan_subset(self.flags["url_list"])
        return self.plan

    def shards(self):
        return {part["shard"]: part["file"] for part in self.plan} if self.is_subset() else super().shards()

    def pipeline(self, numbers):
        if not self.is_subset():
            return super().pipeline(numbers)
        dataset = ["--format", OUTPUTS[self.flags["output_format"]], "--field", self.field(), "--caption", *self.dataset_flags()]
        return subset_pipeline(self.plan, numbers, self.stages(), self.flags["columns"], [*dataset, "-o", self.storage.name])

    def field(self):
        return self.video.field()

    def table_columns(self):
        return super().table_columns() + ([self.flags["clip_col"]] if self.flags["clip_col"] else [])

    def kept(self):
        return super().kept() + ([f"clips={self.flags['clip_col']}"] if self.flags["clip_col"] else [])

    def extra_columns(self):
        return [f"clips:{self.flags['types'][self.flags['clip_col']]}"] if self.flags["clip_col"] else []

    def has_caption(self):
        return super().has_caption() or self.flags["config"]["storage"].get("captions_are_subtitles", False)

    def requests(self):
        flags = self.flags
        # A process per URL costs more than a connection.
        return flags["thread_count"] * (1 if flags["via"] else flags["processes_count"])

    def times(self):
        pause = f"{self.flags['timeout']}s"
        return ["--timeout", "1h", "--connect-timeout", pause, "--stall-time", pause]

    def fetch_flags(self):
        words = ["--hash", "none", "--max-bytes", "1G", "--user-agent", self.user_agent(), "--agent", "video2dataset"]
        if not self.flags["via"]:
            return words
        given = self.flags["config"]["reading"].get("yt_args") or {}
        about = given.get("yt_metadata_args") or {}
        words += ["--via", "yt-dlp", "--direct", ",".join(DIRECT)]
        words += ["--height", str(given["download_size"])] if given.get("download_size") else []
        words += ["--audio-rate", str(given["download_audio_rate"])] if (given.get("download_audio_rate") or 0) > 0 else []
        subtitles = about.get("writesubtitles") or self.flags["config"]["storage"].get("captions_are_subtitles")
        return words + (["--subtitles", ",".join(about.get("subtitleslangs") or ["en"])] if subtitles else [])

    def fetched_field(self):
        return self.flags["encode_formats"].get("video", "mp4")

    def stages(self):
        return self.video.stage(self.flags["processes_count"], self.flags["tmp_dir"]) + self.video.rename()

    def dataset_flags(self):
        return ["--words", "video2dataset", "--max-sample", "4G", "--json", " ".join(self.json_names())]

    def json_names(self):
        if self.is_subset():
            return ["*"]
        names = ["yt_meta_dict"] + (["video_metadata"] if self.video.has_probe else [])
        return names + (["cuts"] if self.video.has_cuts else []) + (["clips"] if self.video.clips_from else [])


def is_page(url):
    path = url.split("?")[0].split("#")[0].lower()
    if path.startswith(("/", "./", "../", "file:")):
        return False
    return not any(path.endswith(f".{ending}") for ending in DIRECT)


def main() -> int:
    """Runs the command line and returns its exit status."""
    return dropin.main("video2dataset", Video2dataset().run)


if __name__ == "__main__":
    sys.exit(main())
