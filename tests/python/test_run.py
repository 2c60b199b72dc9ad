"""tarpipe.run, and where the tools are found."""

import contextlib
import io
import os
import pathlib
import shutil
import signal
import subprocess
import sys

from support import ROOT, InFolder, group_is_alive, tar, wait_for

import tarpipe
from tarpipe import _program


class Run(InFolder):
    def test_a_pipeline_has_the_tools_on_its_path(self):
        self.write("a.tar", tar([("a.txt", b"1")]))
        done = tarpipe.run("tarcat a.tar | tarcat --rekey 'x{key}' -o b.tar")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, None, b""))
        self.assertEqual([sample["__key__"] for sample in tarpipe.samples("b.tar")], ["xa"])

    def test_input_output_environment_and_folder(self):
        os.mkdir("sub")
        done = tarpipe.run("cat; echo $X; pwd", input=b"in\n", capture_output=True, env={"X": "5", "PATH": "/bin"}, cwd="sub")
        self.assertEqual(done.stdout.decode(), f"in\n5\n{self.folder}/sub\n")
        self.assertEqual(tarpipe.run("cat", capture_output=True).stdout, b"")

    def test_the_failure_of_any_stage_raises(self):
        with self.assertRaises(tarpipe.Error) as caught, contextlib.redirect_stderr(io.StringIO()) as said:
            tarpipe.run("{ echo first >&2; exit 3; } | cat")
        self.assertEqual((str(caught.exception), caught.exception.status, said.getvalue()), ("first", 3, "first\n"))
        self.assertEqual(tarpipe.run("kill -9 $$", check=False).returncode, 137)

    def test_a_signal_ends_the_whole_pipeline(self):
        program = "import sys; sys.path.insert(0, sys.argv[1]); import tarpipe; tarpipe.run('echo $$ > pid.new; mv pid.new pid; sleep 1000 | cat')"
        for number, status in [(signal.SIGTERM, 143), (signal.SIGINT, -signal.SIGINT)]:
            child = subprocess.Popen([sys.executable, "-c", program, str(ROOT / "python")], stderr=subprocess.DEVNULL)
            wait_for(lambda: os.path.exists("pid"))
            child.send_signal(number)
            self.assertEqual(child.wait(), status)
            leader = int(pathlib.Path("pid").read_text())
            wait_for(lambda: not group_is_alive(leader))
            os.remove("pid")


class Program(InFolder):
    """A copy of the package, and a lone executable in different places."""

    def setUp(self):
        super().setUp()
        shutil.copytree(ROOT / "python", self.folder / "home" / "python", ignore=shutil.ignore_patterns("__pycache__", "bin"))
        self.executable = os.path.realpath(_program.tool("tarpipe"))

    def ask(self, path="/usr/bin:/bin"):
        program = "import tarpipe, os; from tarpipe._program import tool; print(tool('tarcat')); print(len(list(tarpipe.samples('pipe:cat a.tar'))))"
        self.write("a.tar", tar([("a.txt", b"1")]))
        env = {"PATH": path, "PYTHONPATH": str(self.folder / "home" / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run([sys.executable, "-c", program], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return done.stdout, done.stderr

    def put(self, place):
        (self.folder / place).mkdir(parents=True)
        os.symlink(self.executable, self.folder / place / "tarpipe")
        return self.folder / place

    def check_lone(self, stdout, stderr):
        self.assertEqual(stderr, "")
        found, count = stdout.split()
        self.assertEqual(count, "1")
        self.assertIn("/tarpipe-", found)
        self.assertFalse(os.path.exists(found), "the links are gone")

    def test_in_the_package(self):
        self.put("home/python/tarpipe/bin")
        self.check_lone(*self.ask())

    def test_on_the_path(self):
        self.check_lone(*self.ask(f"{self.put('somewhere')}:/usr/bin:/bin"))

    def test_in_a_release_build(self):
        self.check_lone(*self.ask(path=f"/usr/bin:/bin:{self.put('home/target/release')}"))
        self.check_lone(*self.ask())

    def test_the_package_comes_before_the_path(self):
        self.put("home/python/tarpipe/bin")
        other = self.put("other")
        for name in ("tarcat", "urlcat"):
            os.symlink("/bin/false", other / name)
        self.check_lone(*self.ask(f"{other}:/usr/bin:/bin"))

    def test_before_programs_of_the_same_name(self):
        other = self.folder / "other"
        other.mkdir()
        os.symlink("/bin/false", other / "tarcat")
        self.put("home/target/release")
        self.check_lone(*self.ask(f"{other}:/usr/bin:/bin"))

    def test_nowhere_or_in_a_debug_build(self):
        self.put("home/target/debug")
        _, stderr = self.ask()
        self.assertIn("tarpipe._error.NotInstalled: tarcat not found: install the tools (scripts/install), build them", stderr)
