"""Shards on the Spark or Ray of the calling program. The engines themselves are used where TARPIPE_ENGINES says where they are
installed (scripts/test --engines); what workers do is tested without them."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from support import ROOT, InFolder, group_is_alive, png, serve, tar, wait_for

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


# Writes its node beside what it was asked to do: the folder of a Spark executor, or the name of a Slurm node.
TELLING = """#!/bin/bash
node=${SPARK_LOCAL_DIRS-${SLURMD_NODENAME-driver}}
echo "$node" "$*" >>LOG
exec -a tardataset BIN/tarpipe "$@"
"""
RECIPE = """
import sys
sys.path.insert(0, PYTHON)
START
from tarpipe.img2dataset import download
download(
    processes_count=1, thread_count=32, retries=0, url_list="s3://test/tables", image_size=384, resize_only_if_bigger=True,
    resize_mode="keep_ratio", skip_reencode=True, output_folder="s3://test/laion", output_format="webdataset",
    input_format="parquet", url_col="json.URL", caption_col="json.TEXT", enable_wandb=False, number_sample_per_shard=4,
    distributor=DISTRIBUTOR, save_additional_columns=["json.NSFW", "json.similarity"], allow_private=True,
)
"""
# Workers do not have the keys of the driver, unless it sends them.
SESSION = """
import os
from pyspark.sql import SparkSession
builder = SparkSession.builder.config("spark.submit.deployMode", "client").config("spark.executor.memory", "512m")
for name in filter(lambda name: name.startswith("AWS_"), os.environ):
    builder = builder.config(f"spark.executorEnv.{name}", os.environ[name])
spark = builder.config("spark.task.maxFailures", "100").master(os.environ["SPARK_MASTER"]).appName("spark-stats").getOrCreate()
"""
WORDS = ["urls.txt", "--output_format", "webdataset", "--number_sample_per_shard", "4", "--image_size", "16", "--allow_private"]


@unittest.skipUnless(ENGINES, "scripts/test --engines installs them")
class Nodes(InFolder):
    """On which node of a cluster each shard is made, however the program is told of the cluster."""

    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)  # munged wants to be reached by all
        self.bin, self.log = self.folder / "bin", self.folder / "log"
        self.bin.mkdir()
        # Not a link: the tools look for each other beside the executable.
        shutil.copy(os.path.realpath(_program.tool("tarpipe")), self.bin / "tarpipe")
        subprocess.run([self.bin / "tarpipe", "link", self.bin], check=True, stdout=subprocess.DEVNULL)
        (self.bin / "tardataset").unlink()
        (self.bin / "tardataset").write_text(TELLING.replace("LOG", str(self.log)).replace("BIN", str(self.bin)))
        (self.bin / "tardataset").chmod(0o755)
        self.enter = []

    def pages(self):
        """Serves pictures where the engine is."""
        (self.folder / "pages").mkdir()
        for number in range(20):
            self.write(f"pages/{number}", png(4 + number % 5))
        command = [*self.enter, sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", "pages"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(lambda: (server.kill(), server.wait(), server.stdout.close()))
        address = re.search(r"http://[^/]*", server.stdout.readline())[0]
        self.urls = [f"{address}/{number}" for number in range(23)]
        self.write("urls.txt", "".join(url + "\n" for url in self.urls))

    def engine(self, name, *words):
        """Brings an engine up; the environment that its users have."""
        script, home = ROOT / "tests" / "engines" / name, self.folder / "engine"
        self.addCleanup(subprocess.run, [script, "down", home], stderr=subprocess.DEVNULL)
        subprocess.run([script, "up", home, *words], check=True, stderr=subprocess.DEVNULL)
        shown = subprocess.run(["bash", "-c", f'. {home}/env; echo "${{enter-}}"; env -0'], check=True, stdout=subprocess.PIPE)
        shown_enter, _, variables = shown.stdout.decode().partition("\n")
        env = dict(entry.split("=", 1) for entry in variables.split("\0") if entry)
        self.enter = shown_enter.split()
        self.pages()
        return {**env, "PATH": f"{self.bin}:{env['PATH']}", "no_proxy": "*", "RAY_USAGE_STATS_ENABLED": "0"}

    def store(self):
        """A real S3 server, and the variables that its clients need."""
        command = [*self.enter, ROOT / "tests" / "stores" / "s3-serve", self.folder / "s3"]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (server.stdin.close(), server.wait(), server.stdout.close()))
        variables = {}
        while "FILER" not in variables:
            name, _, value = server.stdout.readline().strip().partition("=")
            variables[name] = value
        return variables

    def run_ok(self, command, env):
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def nodes(self, least):
        """Forgets and returns the nodes of each shard; all six were made, on at least so many nodes."""
        lines = self.log.read_text().splitlines()
        self.log.unlink()
        self.assertEqual(len(lines), 6, lines)
        nodes = {line.split()[0] for line in lines}
        self.assertGreaterEqual(len(nodes), least, lines)
        self.assertTrue(nodes.isdisjoint({"driver", f"{self.folder}/engine/tmp"}), "made by the driver")
        return nodes

    def command_line(self, folder, *words):
        return [sys.executable, ROOT / "scripts" / "img2dataset", *WORDS, "--output_folder", folder, *words]

    def compare(self, names, read):
        """Compares datasets with that of this machine alone."""
        self.run_ok(self.command_line("here"), {**os.environ, "no_proxy": "*"})
        found = sorted(path.name for path in pathlib.Path("here").iterdir() if path.suffix in (".tar", ".parquet"))
        self.assertEqual(len(found), 12)
        for folder in names:
            for name in found:
                self.assertEqual(read(folder, name), pathlib.Path("here", name).read_bytes(), f"{folder}/{name}")

    def recipe(self, python, distributor, start, env, least):
        """The published recipe for LAION-5B: a Python call, tables and dataset in S3."""
        env = {**env, **self.store()}
        rows = ({"URL": url, "TEXT": f"a {i}", "NSFW": "UNLIKELY", "similarity": i / 7} for i, url in enumerate(self.urls))
        self.write("rows.tar", tar([(f"{i:04}.json", json.dumps(row).encode()) for i, row in enumerate(rows)]))
        fields = "json.URL json.TEXT json.NSFW json.similarity"
        self.run_ok([*self.enter, self.bin / "tarshow", "-f", fields, "--parquet", "s3://test/tables/0.parquet", "rows.tar"], env)
        program = RECIPE.replace("PYTHON", repr(str(ROOT / "python"))).replace("START", start).replace("DISTRIBUTOR", repr(distributor))
        done = self.run_ok([*self.enter, python, "-c", program], env)
        self.assertIn("total   - success: 0.870", done.stdout)
        self.nodes(least)
        again = self.run_ok([*self.enter, python, "-c", program], env)
        self.assertIn("all 6 shards are done: 23 rows, 20 successes, 3 failures", again.stdout)
        names = self.run_ok([*self.enter, self.bin / "tarpipe", "names", "list", "s3://test/laion/"], env).stdout
        self.assertEqual(len(re.findall(r"_stats.json|[0-9]+\.tar|[0-9]+\.parquet", names)), 18)

    def test_spark(self):
        venv = pathlib.Path(ENGINES, "spark")
        env = self.engine("spark", venv, "3", "1")
        self.recipe(venv / "bin" / "python", "pyspark", SESSION, env, 2)
        spark = ["--distributor", "pyspark", "--launcher", str(venv / "bin" / "python"), "--processes_count", "1"]
        self.run_ok(self.command_line("variable", *spark), env)
        self.nodes(2)
        master = env.pop("SPARK_MASTER")
        self.run_ok(self.command_line("flag", *spark, "--master", master, "--conf", "spark.executor.memory=600m"), env)
        self.nodes(2)
        with open(pathlib.Path(env["SPARK_CONF_DIR"], "spark-defaults.conf"), "a") as file:
            file.write(f"spark.master {master}\n")
        self.run_ok(self.command_line("defaults", *spark), env)
        self.nodes(2)
        self.compare(["variable", "flag", "defaults"], lambda folder, name: pathlib.Path(folder, name).read_bytes())

    def test_slurm(self):
        env = self.engine("slurm")
        self.run_ok(self.command_line("slurm", "--distributor", "slurm"), env)
        self.nodes(2)
        self.compare(["slurm"], lambda folder, name: pathlib.Path(folder, name).read_bytes())


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
