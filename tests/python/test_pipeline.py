"""tarpipe.pipeline: its steps, its workers on one machine, and what it says without a cluster.

Plain unittest, without numpy. test_pipeline_io.py tests sources and outputs, test_pipeline_engines.py Ray and Spark.
"""

import doctest
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import types
import unittest
from pathlib import Path
from unittest import mock

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "python"))

from tarpipe.pipeline import InvalidItem, Pipeline, PipelineError, on_ray, on_spark  # noqa: E402

MODULES = ["", ".core", ".partition", ".record", ".results", ".shards", ".sources"]


def signal_of(shot):
    """A source: fails for every tenth shot."""
    if shot % 10 == 9:
        raise OSError(f"no data for {shot}")
    return {"data": [shot, -2 * shot], "times": [0.0, 0.1]}


def peaks(shots):
    """The pipeline of the tutorial."""
    pipeline = Pipeline(shots)
    pipeline.fetch("ip", signal_of)

    @pipeline.map
    def calc_peak(rec):
        rec["peak"] = max(abs(value) for value in rec["ip"]["data"])

    pipeline.keep(["peak"])
    return pipeline


def fields(records):
    """The fields of records without tracebacks, to compare."""
    messages = [{step: error["message"] for step, error in rec.errors.items()} for rec in records]
    return [(rec.shot, rec.get("peak"), errors) for rec, errors in zip(records, messages)]


class Documentation(unittest.TestCase):
    def test_examples_in_docstrings_are_right(self):
        for name in MODULES:
            with self.subTest(name):
                module = importlib.import_module(f"tarpipe.pipeline{name}")
                result = doctest.testmod(module, optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
                self.assertEqual(result.failed, 0)


class Steps(unittest.TestCase):
    def test_a_failing_source_leaves_none_and_the_next_step_fails_by_itself(self):
        record = peaks([9]).compute_serial()[0]
        self.assertEqual(list(record.errors), ["ip", "calc_peak"])
        self.assertEqual(record.errors["ip"]["message"], "no data for 9")
        self.assertEqual(record.errors["ip"]["type"], "<class 'OSError'>")
        self.assertIn("in signal_of", record.errors["ip"]["traceback"])
        self.assertNotIn("peak", record)

    def test_a_failing_source_stores_none(self):
        record = Pipeline([9]).fetch("ip", signal_of).compute_serial()[0]
        self.assertIsNone(record["ip"])

    def test_the_second_error_of_a_step_gets_a_number(self):
        def fail(rec):
            raise ValueError("no")

        record = Pipeline([1]).map(fail).map(fail).compute_serial()[0]
        self.assertEqual(list(record.errors), ["fail", "fail_1"])

    def test_where_selects_and_later_steps_do_not_run(self):
        seen = []
        pipeline = Pipeline(range(6))

        @pipeline.where
        def is_even(rec):
            return rec.shot % 2 == 0

        pipeline.map(lambda rec: seen.append(rec.shot))
        self.assertEqual([rec.shot for rec in pipeline.compute_serial()], [0, 2, 4])
        self.assertEqual(seen, [0, 2, 4])

    def test_where_that_raises_removes_the_record_and_warns(self):
        pipeline = Pipeline(range(4)).where(lambda rec: 1 / (rec.shot % 2))
        with self.assertWarnsRegex(RuntimeWarning, r"removed the record of 0: ZeroDivisionError: .*failures: 2\)"):
            self.assertEqual([rec.shot for rec in pipeline.compute_serial()], [1, 3])

    def test_keep_and_discard_leave_shot_and_errors(self):
        pipeline = Pipeline([{"shot": 1, "a": 1, "b": 2, "c": 3}]).keep(["a", "b"]).discard(["b", "shot", "unknown"])
        self.assertEqual(pipeline.compute_serial()[0].fields(), {"shot": 1, "a": 1, "errors": {}})
        with self.assertRaisesRegex(TypeError, r"\['a'\]"):
            pipeline.keep("a")

    def test_a_field_is_an_item_and_an_attribute(self):
        record = Pipeline([7]).map(lambda rec: rec.__setitem__("gain", rec.shot + rec["shot"])).compute_serial()[0]
        self.assertEqual((record.gain, record["gain"], record.item), (14, 14, 7))
        with self.assertRaises(KeyError):
            del record["shot"]

    def test_a_pipeline_continues_another_or_its_results(self):
        parent = Pipeline(range(3)).map(lambda rec: rec.__setitem__("a", 1))
        child = Pipeline(parent).keep([])
        self.assertNotIn("a", child.compute_serial()[0])
        results = parent.compute_serial()
        again = Pipeline(results).map(lambda rec: rec.__setitem__("b", rec["a"] + 1)).compute_serial()
        self.assertEqual(again[0]["b"], 2)
        self.assertNotIn("b", results[0])

    def test_errors_stay_when_results_are_continued(self):
        results = peaks([9]).compute_serial()
        self.assertEqual(len(Pipeline(results).where(lambda rec: rec.errors).compute_serial()), 1)

    def test_one_shot_can_be_tried(self):
        self.assertEqual(peaks([]).compute_shot(4)["peak"], 8)
        self.assertIsNone(Pipeline([]).where(lambda rec: False).compute_shot(4))

    def test_invalid_items_are_refused_at_once(self):
        with self.assertRaisesRegex(InvalidItem, "no field 'shot'"):
            Pipeline([{"a": 1}])
        with self.assertRaisesRegex(InvalidItem, "reserved"):
            Pipeline([{"shot": 1, "errors": {}}])

    def test_sources_are_cleaned_up_after_each_item_and_at_the_end(self):
        calls = []
        source = types.SimpleNamespace(fetch=str, cleanup_shot=calls.append, cleanup=lambda: calls.append("end"))
        Pipeline([1, 2]).fetch("a", source).compute_serial()
        self.assertEqual(calls, [1, 2, "end"])


class Multiprocessing(unittest.TestCase):
    def test_gives_what_serial_gives_in_order(self):
        pipeline = peaks(range(500))
        expected = fields(pipeline.compute_serial())
        self.assertEqual(fields(pipeline.compute_multiprocessing(num_workers=3)), expected)
        self.assertEqual(fields(pipeline.compute_multiprocessing(num_workers=2, batch_size=7)), expected)
        self.assertEqual(fields(list(pipeline.stream_multiprocessing(num_workers=3, window=2))), expected)

    def test_no_items_give_no_results(self):
        self.assertEqual(len(Pipeline([]).compute_multiprocessing()), 0)

    def test_a_killed_worker_costs_one_record(self):
        pipeline = Pipeline(range(50))

        @pipeline.map
        def endanger(rec):
            if rec.shot == 20:
                os.kill(os.getpid(), signal.SIGKILL)
            if rec.shot == 30:
                os._exit(7)

        results = pipeline.compute_multiprocessing(num_workers=2)
        self.assertEqual([rec.shot for rec in results], list(range(50)))
        errors = {rec.shot: rec.errors["worker"]["message"] for rec in results.failed}
        self.assertRegex(errors[20], "killed by signal 9; the machine may be out of memory")
        self.assertRegex(errors[30], "ended with exit status 7")
        self.assertEqual(len(errors), 2)

    def test_every_worker_killed_ends_with_errors_not_a_hang(self):
        results = Pipeline(range(9)).map(lambda rec: os._exit(1)).compute_multiprocessing(num_workers=3)
        self.assertEqual(len(results.failed), 9)

    def test_workers_and_what_their_sources_open_stay(self):
        class Archive:
            opened = 0

            def fetch(self, shot):
                self.opened = self.opened or os.getpid() * 1000 + 1
                time.sleep(0.001)
                return (os.getpid(), self.opened)

        results = Pipeline(range(200)).fetch("a", Archive()).compute_multiprocessing(num_workers=2)
        self.assertLessEqual(len({rec["a"] for rec in results}), 2)

    def test_results_that_cannot_be_sent_are_errors_of_their_record(self):
        pipeline = Pipeline(range(3)).map(lambda rec: rec.__setitem__("f", lambda: 0) if rec.shot == 1 else None)
        results = pipeline.compute_multiprocessing(num_workers=1)
        self.assertEqual([list(rec.errors) for rec in results], [[], ["f"], []])
        self.assertIsNone(results[1]["f"])

    def test_workers_run_ahead_by_the_window_at_most(self):
        with tempfile.TemporaryDirectory() as folder:
            touch = lambda shot: Path(folder, str(shot)).touch()  # noqa: E731
            with Pipeline(range(1000)).fetch("a", touch).stream_multiprocessing(num_workers=2, window=16) as stream:
                for _ in range(10):
                    next(stream)
                time.sleep(0.3)
                self.assertLessEqual(len(os.listdir(folder)), 10 + 16)

    def test_workers_pause_while_results_take_too_much_memory(self):
        def large(shot):
            Path(folder, str(shot)).touch()
            time.sleep(1 if shot == 0 else 0)
            return bytes(1 << 20)

        with tempfile.TemporaryDirectory() as folder:
            with Pipeline(range(300)).fetch("a", large).stream_multiprocessing(
                num_workers=2, batch_size=1, memory=8 << 20
            ) as stream:
                next(stream)
                self.assertLessEqual(len(os.listdir(folder)), 16)
                self.assertEqual(len(list(stream)), 299)

    def test_closing_a_stream_ends_the_workers(self):
        stream = Pipeline(range(1000)).fetch("pid", lambda shot: os.getpid()).stream_multiprocessing(num_workers=2)
        pids = {next(stream)["pid"] for _ in range(40)}
        stream.close()
        for pid in pids:
            self.assertRaises(ProcessLookupError, os.kill, pid, 0)
        self.assertEqual(list(stream), [])

    def test_workers_end_with_the_main_process(self):
        script = """
            import os, sys, time
            from tarpipe.pipeline import Pipeline
            def tell(shot):
                os.write(1, b"%d\\n" % os.getpid()); time.sleep(0.1)
            Pipeline(range(10000)).fetch("a", tell).compute_multiprocessing(num_workers=2)
        """
        command = [sys.executable, "-c", textwrap.dedent(script)]
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "python")}
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as main:
            main.stdout.readline()
            main.kill()
            # The end of the pipe: nobody has it open any more.
            main.stdout.read()

    def test_ctrl_c_ends_the_run(self):
        script = """
            import time
            from tarpipe.pipeline import Pipeline
            print("begun", flush=True)
            Pipeline(range(100)).fetch("a", lambda shot: time.sleep(60)).compute_multiprocessing(num_workers=2)
        """
        command = [sys.executable, "-c", textwrap.dedent(script)]
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "python")}
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment, "start_new_session": True}
        with subprocess.Popen(command, **options) as main:
            main.stdout.readline()
            time.sleep(0.5)
            os.killpg(main.pid, signal.SIGINT)
            _, errors = main.communicate(timeout=60)
        self.assertEqual(errors.count(b"Traceback"), 1, errors.decode())
        self.assertIn(b"KeyboardInterrupt", errors)

    def test_invalid_arguments_are_refused(self):
        for arguments in ({"num_workers": 0}, {"batch_size": 0}, {"batch_size": "many"}):
            with self.subTest(arguments), self.assertRaises(ValueError):
                Pipeline([1]).compute_multiprocessing(**arguments)


class NoCluster(unittest.TestCase):
    """Without a cluster, the cluster's backends fail instead of running here."""

    def ray(self, initialized=False, init=None):
        return types.SimpleNamespace(is_initialized=lambda: initialized, init=init)

    def test_without_ray_the_message_says_so(self):
        with mock.patch.dict(sys.modules, ray=None), self.assertRaisesRegex(PipelineError, "pip install ray"):
            Pipeline([1]).compute_ray()

    def test_without_spark_the_message_says_so(self):
        with mock.patch.dict(sys.modules, pyspark=None), self.assertRaisesRegex(PipelineError, "pip install pyspark"):
            Pipeline([1]).compute_spark()

    def test_without_a_ray_cluster_none_is_started(self):
        init = mock.Mock(side_effect=ConnectionError("none"))
        with mock.patch.dict(sys.modules, ray=self.ray(init=init)), mock.patch.dict(os.environ):
            os.environ.pop("RAY_ADDRESS", None)
            with self.assertRaisesRegex(PipelineError, "no Ray cluster found: set RAY_ADDRESS"):
                Pipeline([1]).compute_ray()
            self.assertEqual(init.call_args.kwargs["address"], "auto")
            os.environ["RAY_ADDRESS"] = "head:6379"
            with self.assertRaisesRegex(PipelineError, "cannot connect to the Ray cluster at head:6379: none"):
                Pipeline([1]).compute_ray()

    def test_arguments_that_come_too_late_for_ray_are_refused(self):
        with mock.patch.dict(sys.modules, ray=self.ray(initialized=True)):
            with self.assertRaisesRegex(PipelineError, "cannot apply num_cpus"):
                on_ray.connect({"num_cpus": 2})

    def test_the_spark_master_comes_from_the_environment_or_the_defaults(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, SPARK_CONF_DIR=folder):
            for name in ("MASTER", "PYSPARK_SUBMIT_ARGS"):
                os.environ.pop(name, None)
            self.assertIsNone(on_spark.configured_master())
            Path(folder, "spark-defaults.conf").write_text("# spark.master a\nspark.master  spark://b:7077\n")
            self.assertEqual(on_spark.configured_master(), "spark://b:7077")
            os.environ["MASTER"] = "spark://c:7077"
            self.assertEqual(on_spark.configured_master(), "spark://c:7077")
            os.environ["PYSPARK_SUBMIT_ARGS"] = "--master spark://d:7077 pyspark-shell"
            self.assertEqual(on_spark.configured_master(), "spark://d:7077")


if __name__ == "__main__":
    unittest.main()
