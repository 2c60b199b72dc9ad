"""Shards on the Spark or Ray of the calling program. The engines themselves are used where TARPIPE_ENGINES says where they are
installed (scripts/test --engines); what workers do is tested without them."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from support import ROOT, InFolder, group_is_alive, png, serve, wait_for

from tarpipe import _program
from tarpipe.dropin import engines

ENGINES = os.environ.get("TARPIPE_ENGINES")
START = {
    "ray": """
import ray
ray.init(num_cpus=2, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
stop = ray.shutdown
""",
    "pyspark": """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local-cluster[2,1,512]").config("spark.executor.memory", "512m") \\
    .config("spark.ui.enabled", "false").config("spark.task.maxFailures", "100").appName("test").getOrCreate()
stop = spark.stop
""",
}
PROGRAM = """
import sys
sys.path.insert(0, {python!r})
{start}
from tarpipe.img2dataset import download
options = dict(output_format="webdataset", number_sample_per_shard=4, image_size=16, thread_count=1, allow_private=True)
download("urls.txt", output_folder="ours", distributor={engine!r}, **options)
stop()
"""


class Workers(InFolder):
    def worker(self, keeps):
        """A worker on a machine that has the executable, or has not."""
        shutil.copy(os.path.realpath(_program.tool("tarpipe")), "tarpipe")
        worker = engines.make_worker(str(self.folder / "tarpipe"), "digest")
        self.loads = []
        if not keeps:
            os.rename("tarpipe", "sent")

        def load(path):
            self.loads.append(path)
            shutil.copyfile("sent", path)

        before, tempfile.tempdir = tempfile.tempdir, str(self.folder)
        self.addCleanup(setattr, tempfile, "tempdir", before)
        return lambda pipeline: worker((7, pipeline), load)

    def test_a_worker_without_the_tools_gets_them_once(self):
        run = self.worker(keeps=False)
        for _ in range(2):
            self.assertEqual(run("tarcat --version | grep -q tarcat; tarsort --version >/dev/null"), (7, 0, ""))
        self.assertEqual(len(self.loads), 1)
        self.assertEqual(sorted(os.listdir()), ["sent", f"tarpipe-{os.getuid()}-digest"])

    def test_a_worker_that_has_the_executable_uses_it(self):
        run = self.worker(keeps=True)
        self.assertEqual(run("tarcat --version >/dev/null"), (7, 0, ""))
        self.assertEqual(self.loads, [])

    def test_a_folder_that_others_can_write_is_not_used(self):
        run = self.worker(keeps=False)
        os.mkdir(f"tarpipe-{os.getuid()}-digest")
        os.chmod(f"tarpipe-{os.getuid()}-digest", 0o777)
        with self.assertRaises(PermissionError):
            run("true")

    def test_the_failure_of_any_stage_is_told(self):
        run = self.worker(keeps=True)
        self.assertEqual(run("{ echo why >&2; exit 3; } | cat"), (7, 3, "why\n"))

    def test_a_pipeline_ends_with_the_process_that_started_it(self):
        program = f"""
import sys
sys.path.insert(0, {str(ROOT / 'python')!r})
from tarpipe.dropin import engines
worker = engines.make_worker({_program.tool('tarpipe')!r}, "digest")
worker((0, "ps -o pgid= -p $$ > new; mv new pid; sleep 1000 | cat"), None)
"""
        child = subprocess.Popen([sys.executable, "-c", program])
        wait_for(lambda: os.path.exists("pid"))
        child.send_signal(signal.SIGKILL)
        child.wait()
        wait_for(lambda: not group_is_alive(int(pathlib.Path("pid").read_text())))

    def test_without_an_engine_there_is_none(self):
        self.assertIsNone(engines.active_engine("multiprocessing", 1))
        self.assertIsNone(engines.active_engine("pyspark", 1))
        self.assertIsNone(engines.active_engine("ray", 1))


@unittest.skipUnless(ENGINES, "scripts/test --engines installs them")
class Engines(InFolder):
    """The same bytes as by the command line, on one machine."""

    def check(self, engine, folder):
        python = pathlib.Path(ENGINES, folder, "bin", "python")
        with serve({f"/{number}": png(4 + number % 5) for number in range(20)}) as address:
            self.write("urls.txt", "".join(f"{address}/{number}\n" for number in range(23)))
            program = PROGRAM.format(python=str(ROOT / "python"), start=START[engine], engine=engine)
            env = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "PYSPARK_PYTHON": str(python)}
            done = subprocess.run([python, "-c", program], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            words = "urls.txt --output_folder theirs --output_format webdataset --number_sample_per_shard 4 --image_size 16"
            command = [sys.executable, ROOT / "scripts" / "img2dataset", *words.split(), "--thread_count", "1", "--allow_private"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        self.assertIn("total   - success: 0.870", done.stdout)
        names = [path.name for path in pathlib.Path("theirs").iterdir() if path.suffix in (".tar", ".parquet")]
        self.assertEqual(len(names), 12)
        for name in names:
            self.assertEqual(pathlib.Path("ours", name).read_bytes(), pathlib.Path("theirs", name).read_bytes(), name)
        self.assertFalse(pathlib.Path("ours/.img2dataset/shardrun").exists(), "shardrun was not needed")

    def test_ray(self):
        self.check("ray", "ray")

    def test_pyspark(self):
        self.check("pyspark", "spark")
