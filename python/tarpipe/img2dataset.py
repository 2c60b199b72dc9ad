"""img2dataset on tarpipe's tools: the same arguments, files, columns and statuses, as a command and as a function.

    img2dataset --url_list urls.parquet --input_format parquet --url_col URL --caption_col TEXT \\
      --output_folder laion --output_format webdataset --image_size 256 --processes_count 16

    from tarpipe.img2dataset import download

Flags and defaults are those of img2dataset 1.47. In addition:

    --dry_run                 print the pipeline and exit
    --allow_private           fetch from private and loopback addresses too
    --allow_file              read local files too: file: URLs, and paths that begin with /, ./ or ../
    --ignore_ssl_certificate  do not verify certificates
    --distributor slurm       besides multiprocessing, pyspark and ray

All unfinished shards go through one pipeline: urlcat | fetch | tarresize | tardataset. processes_count is the number of
threads that resize; processes_count times thread_count is the number of requests in flight. A shard is finished when
its _stats.json exists, which is written last; every tar, table or folder that exists is complete.

The distributors run one pipeline per shard, through shardrun. A Python program that has an active SparkSession
(pyspark) or an initialised Ray (ray) uses that one instead; workers then get the tools sent along.

Differences from img2dataset:
  EXIF orientation is applied, and width and height are those of the upright image (img2dataset ignores it).
  16-bit images become 8-bit images (img2dataset fails or writes black images).
  ICC profiles are converted to sRGB (img2dataset drops them, which shifts colours).
  X-Robots-Tag is parsed as specified: lists, several agents, dates with a colon.
  Private and loopback addresses are refused; bodies over 100 MB and images over 179 million pixels fail.
  Formats that OpenCV reads and tarresize does not (avif, jp2, exr, hdr, ras) fail; of animated gif and webp, the first frame is kept.
  timeout limits connecting and each pause; a whole attempt may take twice as long.
  exif holds the tags of the main image by name, with numbers as numbers.
  The table has two more columns: code, a stable word for each reason, and url_host.
"""

from __future__ import annotations

import math
import sys
from typing import Optional

from . import dropin
from ._error import UsageError
from .dropin.dataset import Dataset
from .dropin.flags import Guessed, one_of

__all__ = ["download", "main"]

MODES = ("no", "keep_ratio", "center_crop", "border", "keep_ratio_largest")
FILTERS = {
    "nearest": "nearest", "linear": "linear", "bilinear": "linear", "cubic": "cubic", "bicubic": "cubic", "area": "area",
    "lanczos": "lanczos", "lanczos4": "lanczos",
}  # fmt: skip
SIDES = ("width", "height", "original_width", "original_height")
HASHES = ("md5", "sha256", "sha512")


def download(
    url_list: str,
    image_size: int = 256,
    output_folder: str = "images",
    processes_count: int = 1,
    resize_mode: str = "border",
    resize_only_if_bigger: bool = False,
    upscale_interpolation: str = "lanczos",
    downscale_interpolation: str = "area",
    encode_quality: int = 95,
    encode_format: str = "jpg",
    skip_reencode: bool = False,
    output_format: str = "files",
    input_format: str = Guessed("txt"),
    url_col: str = "url",
    caption_col: Optional[str] = None,
    bbox_col: Optional[str] = None,
    thread_count: int = 256,
    number_sample_per_shard: int = 10000,
    extract_exif: bool = True,
    save_additional_columns: Optional[list[str]] = None,
    timeout: int = 10,
    enable_wandb: bool = False,
    wandb_project: str = "img2dataset",
    oom_shard_count: int = 5,
    compute_hash: Optional[str] = "sha256",
    verify_hash: Optional[list[str]] = None,
    distributor: str = "multiprocessing",
    subjob_size: int = 1000,
    retries: int = 0,
    disable_all_reencoding: bool = False,
    min_image_size: int = 0,
    max_image_area: float = math.inf,
    max_aspect_ratio: float = math.inf,
    incremental_mode: str = "incremental",
    max_shard_retry: int = 1,
    user_agent_token: Optional[str] = None,
    disallowed_header_directives: Optional[list[str]] = None,
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
) -> None:
    """Download the images of a table of URLs, resize them and store them as a dataset.

    The parameters up to ``disallowed_header_directives`` are those of img2dataset 1.47, in its order and with its
    defaults; the files, columns and statuses that are written are the same too. What differs is listed in the
    description of the module (``help(tarpipe.img2dataset)``).

    >>> download("urls.txt", image_size=64, output_folder="images", output_format="webdataset", dry_run=True)
    ...     # doctest: +ELLIPSIS
    urlcat ...urls.txt ... |
      fetch ... |
      tarresize -m border -s 64 ... |
      tardataset ...

    After an interruption, or if shards failed, call it again to make the missing shards.

    Args:
        url_list: A table of URLs, or a folder of tables; also several, by braces, wildcards or ``::``. Paths and all names that
            the tools read: http(s)://, s3://, gs://, az://, hf://.
        input_format: txt, csv, tsv, json, jsonl or parquet; all but parquet also as ``.gz``. By default what the suffix of
            `url_list` says, else txt.
        image_size: Side of the images in pixels.
        output_folder: Folder for the dataset: a path, or a prefix in a store, such as s3://bucket/laion.
        processes_count: Threads that resize.
        resize_mode: no, keep_ratio, center_crop, border or keep_ratio_largest.
        resize_only_if_bigger: Do not enlarge images.
        upscale_interpolation, downscale_interpolation: nearest, linear, cubic, area or lanczos.
        encode_quality: Quality of JPEG and WebP (0 to 100), compression of PNG (0 to 9).
        encode_format: jpg, png or webp.
        skip_reencode: Store images that need no resizing unchanged.
        output_format: webdataset, files, parquet, tfrecord or dummy.
        url_col, caption_col, bbox_col: Columns of URLs, captions, and boxes to blur.
        thread_count: Requests in flight per process.
        number_sample_per_shard: Rows per shard.
        extract_exif: Write EXIF tags to the table.
        save_additional_columns: Columns of the input to copy to the output.
        timeout: Seconds to wait for a connection, and for the next bytes.
        enable_wandb, wandb_project: Report to Weights & Biases.
        oom_shard_count: Digits of shard numbers.
        compute_hash: md5, sha256, sha512 or None.
        verify_hash: A column with hashes and their kind, such as ``["digest", "sha256"]``.
        distributor: multiprocessing (this machine), pyspark, ray or slurm.
        subjob_size: Shards per job of a distributor.
        retries: Retries of a transient failure.
        disable_all_reencoding: Store images unchanged.
        min_image_size, max_image_area, max_aspect_ratio: Limits; other images fail.
        incremental_mode: incremental, overwrite or extend.
        max_shard_retry: Retries of a shard.
        user_agent_token: Name to add to the User-Agent, and to match in X-Robots-Tag.
        disallowed_header_directives: Directives of X-Robots-Tag that keep an image from being downloaded.
        allow_private: Fetch from private and loopback addresses too (not in img2dataset).
        allow_file: Read local files too: ``file:`` URLs, and paths that begin with /, ./ or ../.
        ignore_ssl_certificate: Do not verify certificates (not in img2dataset).
        dry_run: Print the pipeline and do nothing (not in img2dataset).
        master: Spark cluster, such as spark://host:7077 or yarn; by default SPARK_MASTER, then what spark-defaults.conf or
            spark-submit say.
        launcher: Command that runs the Spark driver, such as ``spark-submit``; by default this Python.
        conf: Spark configuration, as a list of NAME=VALUE.
        dns: DNS servers to use instead of those of the system, such as ``127.0.0.1:53``.
        user_agent: User-Agent to send, instead of img2dataset's.

    Raises:
        ValueError: An argument is invalid.
        tarpipe.Error: Some shards failed, or the tools are not installed.
    """
    Img2dataset().call(locals())


class Img2dataset(Dataset):
    program, help, function = "img2dataset", __doc__, download
    # The stages after fetch are the bottleneck: more pictures in memory would only wait.
    window = (10, 5)
    lists = ("save_additional_columns", "verify_hash", "disallowed_header_directives")
    reserved = Dataset.reserved + SIDES + ("exif",) + HASHES

    def check(self):
        flags = self.flags
        one_of("resize_mode", flags["resize_mode"], MODES)
        one_of("encode_format", flags["encode_format"], ("jpg", "png", "webp"))
        for name in ("upscale_interpolation", "downscale_interpolation"):
            flags[name] = one_of(name, flags[name].lower(), FILTERS)
        if flags["image_size"] < 1:
            raise UsageError(f"--image_size: {flags['image_size']} is less than 1")
        if flags["encode_format"] == "png" and not 0 <= flags["encode_quality"] <= 9:
            raise UsageError(f"For png, encode quality represents compression which must be between 0 and 9, got {flags['encode_quality']}")
        if flags["compute_hash"] not in (None, *HASHES):
            raise UsageError(f"Unsupported hash to compute: {flags['compute_hash']}")
        verify = flags["verify_hash"]
        if verify is not None and (len(verify) != 2 or verify[1] != flags["compute_hash"]):
            raise UsageError(f"--verify_hash: expected a column and the kind of compute_hash ({flags['compute_hash']})")
        if flags["bbox_col"] is not None:
            flags["save_additional_columns"] = [*(flags["save_additional_columns"] or []), flags["bbox_col"]]
            self.check_columns()

    def field(self):
        return self.flags["encode_format"]

    def columns(self):
        columns = [f"{side}:int32" for side in SIDES]
        columns += ["exif:json"] if self.flags["extract_exif"] else []
        return columns + ([self.flags["compute_hash"]] if self.flags["compute_hash"] else [])

    def verified(self):
        return (self.flags["verify_hash"] or [])[1:]

    def kept(self):
        return super().kept() + (self.flags["verify_hash"] or [])[:1]

    def fetch_flags(self):
        flags, directives, agent = self.flags, self.flags["disallowed_header_directives"], self.flags["user_agent_token"]
        directives = ["noai", "noimageai", "noindex", "noimageindex"] if directives is None else directives
        words = ["--hash", flags["compute_hash"] or "none", "--opt-out", ",".join(directives) or "none"]
        words += ["--user-agent", self.user_agent() + (f" (compatible; {agent}; +https://github.com/rom1504/img2dataset)" if agent else "")]
        words += ["--agent", agent or "img2dataset"]
        return words + (["--verify", flags["verify_hash"][0]] if flags["verify_hash"] else [])

    def stages(self):
        flags = self.flags
        if flags["disable_all_reencoding"]:
            return []
        words = ["tarresize", "-m", flags["resize_mode"]] + (["-s", str(flags["image_size"])] if flags["resize_mode"] != "no" else [])
        words += ["--up", FILTERS[flags["upscale_interpolation"]], "--down", FILTERS[flags["downscale_interpolation"]]]
        words += ["--format", flags["encode_format"], "--quality", str(flags["encode_quality"])]
        words += ["--background", "white"] if flags["encode_format"] != "jpg" else []
        words += ["--only-if-bigger"] if flags["resize_only_if_bigger"] else []
        words += ["--skip-reencode"] if flags["skip_reencode"] else ["--strip"]
        words += ["--min-side", str(flags["min_image_size"])] if flags["min_image_size"] else []
        words += ["--max-area", str(int(flags["max_image_area"]))] if flags["max_image_area"] != math.inf else []
        words += ["--max-aspect", str(flags["max_aspect_ratio"])] if flags["max_aspect_ratio"] != math.inf else []
        words += ["--blur", flags["bbox_col"]] if flags["bbox_col"] else []
        words += ["--exif"] if flags["extract_exif"] else []
        return [[*words, "--on-error", "pass", "-p", str(flags["processes_count"]), "--max-failures", "100%", "-q"]]


def main() -> int:
    """Runs the command line and returns its exit status."""
    return dropin.main("img2dataset", Img2dataset().run)


if __name__ == "__main__":
    sys.exit(main())
