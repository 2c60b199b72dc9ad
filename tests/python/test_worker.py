"""tarpipe.worker under tarproc. tests/tarproc.rs has more, under the name tarworker."""

import subprocess
import sys

from support import ROOT, InFolder, tar

import tarpipe

PROGRAM = """
import sys
sys.path.insert(0, {path!r})
from tarpipe import worker
for sample in worker.samples():
    print("hello")
    if sample["__key__"] == "b":
        worker.fail("no")
        continue
    sample["n"] = str(len(sample["bin"]))
    worker.write(sample)
"""


class Worker(InFolder):
    def test_samples_go_through_a_worker(self):
        self.write("worker.py", PROGRAM.format(path=str(ROOT / "python")))
        sizes = {"a": 0, "b": 3, "c" * 150: 100_000, "d": 3_000_000}
        self.write("in.tar", tar([(f"{key}.bin", bytes(size)) for key, size in sizes.items()], format=2))
        done = tarpipe.run(f"tarproc --max-failures 1 --worker '{sys.executable} worker.py' in.tar -o out.tar 2>err")
        self.assertEqual(done.returncode, 0)
        found = {sample["__key__"]: (len(sample["bin"]), int(sample["n"])) for sample in tarpipe.samples("out.tar")}
        self.assertEqual(found, {key: (size, size) for key, size in sizes.items() if key != "b"})
        self.assertIn("failed 1 (1 worker_error)", (self.folder / "err").read_text())

    def test_to_import_it_changes_nothing(self):
        ask = f"import sys; sys.path.insert(0, {str(ROOT / 'python')!r}); from tarpipe import worker; print('out'); help(worker)"
        done = subprocess.run([sys.executable, "-c", ask], stdout=subprocess.PIPE, text=True, check=True)
        self.assertTrue(done.stdout.startswith("out\n"))
        self.assertIn("for sample in worker.samples():", done.stdout)
