"""tarpipe.img2dataset, video2dataset and any2dataset as functions: their signatures, results and exceptions."""

import contextlib
import inspect
import io
import json
import math
import os
import pathlib
import subprocess
import sys
import threading
import wave

from support import ROOT, InFolder, png, serve

import tarpipe
from tarpipe.any2dataset import any2dataset
from tarpipe.any2dataset import download as download_files
from tarpipe.img2dataset import download
from tarpipe.video2dataset import video2dataset

# The parameters of img2dataset.download in version 1.47.0.
IMG2DATASET = {
    "url_list": inspect.Parameter.empty, "image_size": 256, "output_folder": "images", "processes_count": 1,
    "resize_mode": "border", "resize_only_if_bigger": False, "upscale_interpolation": "lanczos",
    "downscale_interpolation": "area", "encode_quality": 95, "encode_format": "jpg", "skip_reencode": False,
    "output_format": "files", "input_format": "txt", "url_col": "url", "caption_col": None, "bbox_col": None,
    "thread_count": 256, "number_sample_per_shard": 10000, "extract_exif": True, "save_additional_columns": None,
    "timeout": 10, "enable_wandb": False, "wandb_project": "img2dataset", "oom_shard_count": 5, "compute_hash": "sha256",
    "verify_hash": None, "distributor": "multiprocessing", "subjob_size": 1000, "retries": 0,
    "disable_all_reencoding": False, "min_image_size": 0, "max_image_area": math.inf, "max_aspect_ratio": math.inf,
    "incremental_mode": "incremental", "max_shard_retry": 1, "user_agent_token": None,
    "disallowed_header_directives": None,
}  # fmt: skip
# Those of video2dataset.video2dataset in version 1.3.0.
VIDEO2DATASET = {
    "url_list": inspect.Parameter.empty, "output_folder": "dataset", "output_format": "files", "input_format": "csv",
    "encode_formats": None, "stage": "download", "url_col": "url", "caption_col": None, "clip_col": None,
    "save_additional_columns": None, "enable_wandb": False, "wandb_project": "video2dataset",
    "incremental_mode": "incremental", "max_shard_retry": 1, "tmp_dir": "/tmp", "config": "default",
}  # fmt: skip
# Those of any2dataset.download.
ANY2DATASET = {
    "url_list": inspect.Parameter.empty, "output_folder": "files", "processes_count": 1, "output_format": "files",
    "input_format": "txt", "url_col": "url", "caption_col": None, "thread_count": 256, "number_sample_per_shard": 10000,
    "save_additional_columns": None, "timeout": 10, "enable_wandb": False, "wandb_project": "any2dataset",
    "oom_shard_count": 5, "compute_md5": True, "distributor": "multiprocessing", "subjob_size": 1000, "retries": 0,
    "disable_all_reencoding": False,
}  # fmt: skip


def parameters(function):
    """The parameters that can be given by position, in order, with their defaults."""
    found = inspect.signature(function).parameters.values()
    return [(each.name, each.default) for each in found if each.kind is not each.KEYWORD_ONLY]


class Signatures(InFolder):
    def test_they_are_those_of_the_originals(self):
        self.assertEqual(parameters(download), list(IMG2DATASET.items()))
        self.assertEqual(parameters(video2dataset), list(VIDEO2DATASET.items()))
        self.assertEqual(parameters(any2dataset), list(ANY2DATASET.items()))
        self.assertIs(download_files, any2dataset)

    def test_they_are_those_of_the_real_img2dataset(self):
        python = ROOT / "target" / "peers" / "venv" / "bin" / "python"
        if not python.exists():
            self.skipTest("scripts/test --peers installs it")
        ask = "import inspect, img2dataset; print([(p.name, repr(p.default)) for p in inspect.signature(img2dataset.download).parameters.values()])"
        env = {**os.environ, "NO_ALBUMENTATIONS_UPDATE": "1"}
        done = subprocess.run([python, "-W", "ignore", "-c", ask], stdout=subprocess.PIPE, text=True, check=True, env=env)
        self.assertEqual(done.stdout.strip(), str([(name, repr(default)) for name, default in parameters(download)]))

    def test_every_parameter_is_typed_and_documented(self):
        for function in (download, video2dataset, any2dataset, tarpipe.samples, tarpipe.run):
            for each in inspect.signature(function).parameters.values():
                self.assertIsNot(each.annotation, each.empty, f"{function.__name__}: {each.name}")
                self.assertIn(each.name, function.__doc__)


class Calls(InFolder):
    def call(self, function, *args, **options):
        """What a call prints."""
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertIsNone(function(*args, **options))
        return said.getvalue()

    def test_download_writes_what_the_command_writes(self):
        with serve({"/a": png(), "/b": b"no picture"}) as address:
            self.write("urls.txt", "".join(f"{address}/{name}\n" for name in "abc"))
            options = {"image_size": 8, "output_format": "webdataset", "number_sample_per_shard": 2, "encode_format": "png", "encode_quality": 3, "thread_count": 1}
            said = self.call(download, "urls.txt", output_folder=pathlib.Path("ours"), allow_private=True, **options)
            words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
            command = [sys.executable, ROOT / "scripts" / "img2dataset", "urls.txt", "--output_folder", "theirs", "--allow_private"]
            subprocess.run([*command, *words], check=True, stdout=subprocess.DEVNULL)
        self.assertIn("total   - success: 0.333 - failed to download: 0.333 - failed to resize: 0.333", said)
        names = sorted(path.name for path in pathlib.Path("ours").iterdir())
        self.assertEqual(names, sorted(path.name for path in pathlib.Path("theirs").iterdir()))
        self.assertIn("00000.tar", names)
        for name in names:
            if not name.startswith(".") and not name.endswith("_stats.json"):
                self.assertEqual(pathlib.Path("ours", name).read_bytes(), pathlib.Path("theirs", name).read_bytes(), name)
        self.assertEqual([sample["__key__"] for sample in tarpipe.samples("ours/*.tar")], ["000000"])

    def test_any2dataset_runs_in_a_thread(self):
        with serve({"/a": b"anything"}) as address:
            self.write("urls.txt", f"{address}/a\n")
            run = lambda: any2dataset("urls.txt", output_format="webdataset", allow_private=True)  # noqa: E731
            with contextlib.redirect_stdout(io.StringIO()):
                thread = threading.Thread(target=run)
                thread.start()
                thread.join()
        self.assertEqual(next(tarpipe.samples("files/00000.tar"))["flat"], b"anything")

    def test_any2dataset_takes_the_flags_of_its_cluster_tools(self):
        with serve({"/a": png()}) as address:
            self.write("urls.txt", f"{address}/a\n")
            for kind, field in [("auto", "png"), ("mp3", "mp3")]:
                unchanged = kind == "mp3"
                self.call(any2dataset, "urls.txt", output_dir=kind, num_proc=2, encode_format=kind, disable_all_reencoding=unchanged, output_format="webdataset", allow_private=True)
                self.assertEqual(next(tarpipe.samples(f"{kind}/00000.tar"))[field], png())
        with self.assertRaisesRegex(ValueError, "encode_format: cannot encode as pdf"):
            any2dataset("urls.txt", encode_format="pdf")

    def test_any2dataset_encodes_sounds(self):
        sound = io.BytesIO()
        with wave.open(sound, "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes(bytes(16000))
        with serve({"/a.wav": sound.getvalue(), "/b.png": png()}) as address:
            self.write("urls.txt", f"{address}/a.wav\n{address}/b.png\n")
            self.call(any2dataset, "urls.txt", encode_format="mp3", output_format="webdataset", allow_private=True)
        (sample,) = tarpipe.samples("files/00000.tar")
        self.assertEqual(set(sample) - {"__key__"}, {"json", "mp3"})
        self.assertTrue(sample["mp3"].startswith((b"ID3", b"\xff\xfb", b"\xff\xf3")))
        with open("files/00000_stats.json") as stats:
            self.assertEqual(json.load(stats)["failed_to_subsample"], 1)

    def test_old_versions_of_python_are_refused_with_a_sentence(self):
        program = f"import sys; sys.path.insert(0, {str(ROOT / 'python')!r}); sys.version_info = (3, 8, 1); import tarpipe"
        done = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
        self.assertIn("ImportError: tarpipe needs Python 3.9 or later, and this is 3.8", done.stderr)

    def test_video2dataset_takes_a_config_as_a_dictionary(self):
        self.write("urls.txt", "http://127.0.0.1/1.mp4\n")
        config = {
            "subsampling": {"FrameSubsampler": {"args": {"frame_rate": 5}}},
            "reading": {"timeout": 20, "sampler": None},
            "storage": {"number_sample_per_shard": 10, "oom_shard_count": 3},
            "distribution": {"processes_count": 3, "thread_count": 4},
        }
        before = json.dumps(config)
        said = self.call(video2dataset, "urls.txt", input_format="txt", config=config, dry_run=True)
        self.assertIn("tarvideo --fps 5 ", said)
        self.assertEqual(json.dumps(config), before)

    def test_what_makes_no_sense_raises_value_error(self):
        self.write("urls.txt", "http://127.0.0.1/\n")
        for function, options, expected in [
            (download, {"image_size": "big"}, "image_size: 'big' is not a number"),
            (download, {"image_size": 0}, "image_size: 0 is less than 1"),
            (download, {"skip_reencode": "yes"}, "skip_reencode: 'yes' is not True or False"),
            (download, {"url_list": "none.txt"}, "url_list: none.txt: no such file"),
            (download, {"resize_mode": "crop"}, "resize_mode: 'crop' is not one of no, keep_ratio, center_crop, border, keep_ratio_largest"),
            (download, {"output_folder": 7}, "output_folder: 7 is not a string"),
            (any2dataset, {"distributor": "dask"}, "distributor: 'dask' is not one of multiprocessing, pyspark, ray, slurm"),
            (video2dataset, {"encode_formats": {}}, "encode_formats: {} names nothing to store; name video or audio, or use --output_format dummy"),
            (download, {"master": "local"}, "master: only for --distributor pyspark"),
            (any2dataset, {"master_node": "h"}, "master_node: needs --distributor ray or pyspark, without --master"),
            (video2dataset, {"stage": "caption"}, "stage caption: captioning is not supported, since it needs a model; run yours with tarproc --worker (see python/examples/video_captions.py)"),
            (video2dataset, {"config": {"reading": {}}, "input_format": "txt"}, "config: the argument has no section 'subsampling'"),
        ]:
            with self.assertRaises(ValueError) as caught:
                function(**{"url_list": "urls.txt", **options})
            self.assertEqual(str(caught.exception), expected)
        self.assertEqual(os.listdir(), ["urls.txt"])

    def test_a_failed_run_raises_with_the_last_message(self):
        self.write("urls.txt", "http://127.0.0.1:9/a\n")
        pathlib.Path("out/00000.tar").mkdir(parents=True)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            with self.assertRaises(tarpipe.Error) as caught:
                download("urls.txt", output_folder="out", output_format="webdataset", allow_private=True)
        self.assertRegex(str(caught.exception), r"^1 shards still failed \(0\)\. .*The last message was: \w+: .")

    def test_a_table_that_cannot_be_read_raises(self):
        self.write("urls.parquet", "no parquet")
        with self.assertRaisesRegex(tarpipe.Error, "^urlcat: .*urls.parquet"):
            download("urls.parquet", input_format="parquet", output_folder="out")
