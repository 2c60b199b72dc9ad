"""tarpipe.pipeline on real clusters of Ray and Spark, three nodes each, brought up on this machine.

Skipped unless TARPIPE_ENGINES names the folder into which tests/engines/install has installed them; Ray needs root.
"""

import json
import os
import subprocess
import tempfile
import textwrap
import time
import unittest
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
ENGINES = os.environ.get("TARPIPE_ENGINES")
#: A machine with other work still passes.
PATIENCE = 600

PEAKS = """
    pipeline = Pipeline(range(10000))
    pipeline.fetch("ip", lambda shot: {"data": [shot, -2 * shot]})

    @pipeline.map
    def calc_peak(rec):
        rec["peak"] = max(abs(value) for value in rec["ip"]["data"]) / (rec.shot % 1000)

    pipeline.keep(["peak"])
    expected = tell(pipeline.compute_serial())
    results = compute(pipeline)
    answer([len(results), len(results.failed), tell(results) == expected])
"""

# The first partitions wait until the test has taken a node away.
NODE_LOST = """
    pipeline = Pipeline(range(600))

    @pipeline.fetch_by
    def work(shot):
        Path(folder, f"began-{os.getpid()}").touch()
        while shot >= 60 and not Path(folder, "go").exists():
            time.sleep(0.05)
        return shot + 1

    results = compute(pipeline, numparts=60)
    answer([[rec["a"] for rec in results] == list(range(1, 601)), len(results.failed)])
"""

POISON = """
    pipeline = Pipeline(range(100))

    @pipeline.map
    def endanger(rec):
        rec["a"] = rec.shot
        if rec.shot == 42:
            os.kill(os.getpid(), 9)

    results = compute(pipeline, numparts=10, **options)
    told = [rec.shot for rec in results if rec.get("a") == rec.shot]
    answer([len(results), len(told), [[rec.shot, list(rec.errors)] for rec in results.failed]])
"""

STREAM = """
    pipeline = Pipeline([{"shot": shot, "gain": 2} for shot in range(1000)])
    pipeline.map(lambda rec: rec.__setitem__("a", rec.gain * rec.shot)).where(lambda rec: rec.shot % 2)
    stream = getattr(pipeline, f"stream_{backend}")(batch_size=250)
    answer([rec["a"] for rec in stream] == [2 * shot for shot in range(1, 1000, 2)])
"""

STAYS = """
    class Archive:
        opened = None

        def fetch(self, shot):
            self.opened = self.opened or (os.getpid(), time.time())
            return self.opened

    # The workers must not find tarpipe by this program's path.
    sys.path[:] = [path for path in sys.path if not Path(path, "tarpipe").exists()]
    pipeline = Pipeline(range(500)).fetch("a", Archive())
    pipeline.fetch("alone", lambda shot: importlib.util.find_spec("tarpipe") is None)
    results = compute(pipeline)
    opened = {rec["a"] for rec in results}
    alone = all(rec["alone"] for rec in results)
    answer([alone, len(opened) == len({pid for pid, _ in opened}), len(opened) <= 12])
"""

HEAD = """
    import importlib.util, json, os, sys, time
    from pathlib import Path
    from tarpipe.pipeline import Pipeline

    backend, folder = sys.argv[1:]
    options = {"retries": 1} if backend == "ray" else {}
    Pipeline.fetch_by = lambda self, function: self.fetch("a", function)

    def compute(pipeline, **options):
        return getattr(pipeline, f"compute_{backend}")(**options)

    def answer(value):
        Path(folder, "answer").write_text(json.dumps(value))

    def tell(records):
        return [(rec.shot, rec.get("peak"), sorted(rec.errors)) for rec in records]
"""


class Cluster:
    """What is the same for both engines."""

    name = ""
    node_to_lose = 0

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.home = Path(cls.temporary.name, "cluster")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.addClassCleanup(cls.control, "down")
        cls.up()

    @classmethod
    def up(cls):
        cls.control("up", f"{ENGINES}/{cls.name}", "3", "2")

    @classmethod
    def control(cls, verb, *words):
        script = REPOSITORY / "tests" / "engines" / cls.name
        subprocess.run([script, verb, cls.home, *words], check=True, timeout=PATIENCE)

    def begin(self, body):
        """Starts a script on the cluster; the folder it gets is self.folder."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        script = self.folder / "script.py"
        script.write_text(textwrap.dedent(HEAD) + textwrap.dedent(body))
        command = f'. "$1"/env; exec ${{enter-}} python "$2" {self.name} "$3"'
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "python")}
        words = ["bash", "-c", command, "bash", self.home, script, self.folder]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)

    def answer(self, process):
        """What the script answers, and the lines it prints."""
        output, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, errors.decode())
        return json.loads((self.folder / "answer").read_text()), output.decode().splitlines()

    def test_ten_thousand_items_give_what_serial_gives(self):
        answer, lines = self.answer(self.begin(PEAKS))
        self.assertEqual(answer, [10000, 10, True])
        for line in ("BATCH 1/1", "NUM CPUS: 6"):
            self.assertIn(line, lines)
        self.assertTrue(any(line.startswith("NUM PARTITIONS: ") for line in lines), lines)

    def test_results_are_streamed_in_batches(self):
        answer, lines = self.answer(self.begin(STREAM))
        self.assertTrue(answer)
        self.assertIn("BATCH 4/4", lines)

    def test_workers_need_no_tarpipe_and_what_their_sources_open_stays(self):
        self.assertEqual(self.answer(self.begin(STAYS))[0], [True, True, True])

    def test_an_item_that_kills_its_worker_costs_one_record(self):
        self.assertEqual(self.answer(self.begin(POISON))[0], [100, 99, [[42, ["worker"]]]])

    def test_z_a_lost_node_costs_no_result(self):
        process = self.begin(NODE_LOST)
        deadline = time.monotonic() + PATIENCE
        while len(list(self.folder.glob("began-*"))) < 5:
            self.assertLess(time.monotonic(), deadline)
            self.assertIsNone(process.poll(), "ended early")
            time.sleep(0.1)
        self.control("crash", str(self.node_to_lose))
        (self.folder / "go").touch()
        self.assertEqual(self.answer(process)[0], [True, 0])


@unittest.skipUnless(ENGINES, "needs TARPIPE_ENGINES")
class Ray(Cluster, unittest.TestCase):
    """The head is node 1."""

    name = "ray"
    node_to_lose = 2

    @classmethod
    def up(cls):
        # Of two nodes that start on one address at the same time, one often fails: the third comes after the second.
        cls.control("up", f"{ENGINES}/ray", "2", "2")
        words = "--block --disable-usage-stats --node-ip-address=127.0.0.1 --num-cpus=2 --object-store-memory=100000000"
        script = f"""
            dir=$1; . "$2/processes"; . "$dir/env"
            start node3 $enter ray start --address="$RAY_ADDRESS" {words}
            await 300 grep -q 'Ray runtime started' "$dir/log/node3.log"
        """
        folder = REPOSITORY / "tests" / "engines"
        subprocess.run(["bash", "-euc", script, "bash", cls.home, folder], check=True, timeout=PATIENCE)


@unittest.skipUnless(ENGINES, "needs TARPIPE_ENGINES")
class Spark(Cluster, unittest.TestCase):
    """Workers are numbered from 1."""

    name = "spark"
    node_to_lose = 1


if __name__ == "__main__":
    unittest.main()
