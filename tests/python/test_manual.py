"""The manual page for those who come from the originals: its table of flags, and the commands of its tutorials."""

import inspect
import json
import os
import re
import shlex
import subprocess
import sys

from support import ROOT, InFolder, tar
from test_datasets import ANY2DATASET, IMG2DATASET, VIDEO2DATASET

from tarpipe import _program
from tarpipe.dropin.older import PLACES
from tarpipe.slurm_cluster import main as slurm_cluster
from tarpipe.ssh_cluster import main as ssh_cluster
from tarpipe.video2dataset import video2dataset

PAGE = (ROOT / "man" / "tarpipe-dropins.7").read_text()


def commands():
    """The commands of the page, one per line."""
    blocks = re.findall(r"^\.nf\n(.*?)^\.fi$", PAGE, re.S | re.M)
    return [line.replace("\\-", "-") for block in blocks for line in block.splitlines()]


class Flags(InFolder):
    def test_every_flag_of_the_originals_is_in_the_table_once(self):
        for heading, flags in [("IMG2DATASET 1.47", IMG2DATASET), ("VIDEO2DATASET 1.3", VIDEO2DATASET), ("ANY2DATASET", ANY2DATASET)]:
            table = re.search(rf"^\.SH FLAGS OF {heading}\n\.TS\n.*?\n(.*?)^\.TE$", PAGE, re.S | re.M)[1]
            rows = [line.split("\t") for line in table.splitlines() if "\t" in line]
            self.assertEqual([row[0] for row in rows], list(flags), heading)
            for row in rows:
                self.assertIn(row[1], ("same", "different", "refused"))
                self.assertTrue(row[1] == "same" or row[2:], f"{row[0]}: why?")

    def test_every_older_flag_of_video2dataset_is_named(self):
        older = [*PLACES, "video_size", "strict_resize", "precise_clipping"]
        text = PAGE[PAGE.index("The flags that video2dataset had") : PAGE.index(".SH FLAGS OF ANY2DATASET")]
        for name in older:
            self.assertRegex(text, rf"\b{name}\b")
            self.assertIn(name, inspect.signature(video2dataset).parameters)


class Commands(InFolder):
    def setUp(self):
        super().setUp()
        row = {"URL": "http://127.0.0.1/1.jpg", "TEXT": "a", "videoLoc": "http://127.0.0.1/1.mp4", "title": "b", "clip": "[[1, 2]]"}
        self.write("rows.tar", tar([("000000000.json", json.dumps(row).encode())]))
        columns = " ".join([*row, "status"])
        self.run_ok([_program.tool("tardataset"), "--only-shard", "0", "--columns", columns, "-o", "laion", "rows.tar"])
        os.unlink("laion/00000_stats.json")
        for name in ("laion", "videos"):
            os.link("laion/00000.parquet", f"{name}.parquet")
        self.write("sounds.txt", "http://127.0.0.1/1.mp3\n")

    def run_ok(self, words):
        env = {**os.environ, "PATH": f"{ROOT / 'scripts'}:{os.path.dirname(_program.tool('urlcat'))}:{os.environ['PATH']}"}
        done = subprocess.run(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stderr}")
        return done.stdout

    def test_every_command_plans_a_pipeline(self):
        """Those with stores run in tests/stores, and those with clusters in test_engines."""
        shown = {}
        for line in commands():
            if line.startswith(("ssh-cluster", "slurm-cluster")):
                continue
            if line.startswith("urlcat"):
                # There is no failed row yet.
                self.run_ok(["bash", "-c", line.replace("!=", "==").replace("--keep ''", "--url-col URL --keep ''")])
            elif "s3://" not in line:
                shown[line] = self.run_ok(["bash", "-c", f"exec {line} --dry_run"])
        self.assertEqual(len(shown), 8)
        for line, pipeline in shown.items():
            self.assertRegex(pipeline, r"(?s)^urlcat .*\n *fetch .*\n *tardataset ", line)
        older = next(pipeline for line, pipeline in shown.items() if "--video_size" in line)
        self.assertIn("--clip json.clips", older)
        self.assertIn("-n 100 ", older)

    def test_commands_for_all_hosts_reach_them(self):
        """Here they run through a stand-in for ssh with a folder here for each host; tests/engines has real hosts."""
        self.write("ssh", '#!/bin/bash\nwhile [[ $1 == -* ]]; do shift 2; done\nexport HOME=$HOME/$1\nmkdir -p $HOME && cd $HOME && shift\nexec bash -c "$1"\n')
        self.write("tarpipe", "an executable")
        self.write("setup.sh", "echo set up\n")
        self.write("ips.txt", "a\nb\n")
        self.write("hosts.csv", ",host,user,password,hostname,comment\n0,a,ubuntu\n1,b,ubuntu\n")
        os.chmod("ssh", 0o755)
        program = str(ROOT / "tools/shardrun/cluster/ssh-cluster")
        said = []
        for line in commands():
            words = shlex.split(line)
            if words[0] == "ssh-cluster" and words[1] in ("run", "setup", "install"):
                command = [sys.executable, program, "--ssh", os.path.abspath("ssh"), *words[1:]]
                done = subprocess.run(command, env={**os.environ, "HOME": os.getcwd()}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""), line)
                said += [text.split(": ")[-1] for text in sorted(done.stdout.splitlines()) if text.startswith("b: ")]
        self.assertEqual(said[1:], ["set up", "copied", "already there", "set up"])

    def test_commands_for_clusters_are_understood(self):
        """Those that start clusters run in tests/engines."""
        parsers = {"ssh-cluster": ssh_cluster.build_parser(), "slurm-cluster": slurm_cluster.build_parser()}
        lines = [shlex.split(line) for line in commands() if line.split()[0] in parsers]
        self.assertEqual(len(lines), 14)
        for words in lines:
            parsers[words[0]].parse_args(words[1:])

    def test_a_flag_that_is_lacking_is_refused(self):
        for line in ("img2dataset t --image_sise 3", "video2dataset t --video_sise 3", "any2dataset t --encode_format ."):
            done = subprocess.run([sys.executable, ROOT / "scripts" / shlex.split(line)[0], *shlex.split(line)[1:]], stderr=subprocess.PIPE)
            self.assertEqual(done.returncode, 2, line)


class OlderFlags(InFolder):
    def dry_run(self, **flags):
        self.write("v.txt", "http://127.0.0.1/1.mp4\n")
        program = f"import sys; sys.path.insert(0, {str(ROOT / 'python')!r}); from tarpipe.video2dataset import video2dataset; " \
            f"video2dataset('v.txt', dry_run=True, **{flags!r})"
        return subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout

    def test_they_do_what_they_did(self):
        flags = {"processes_count": 3, "thread_count": 4, "number_sample_per_shard": 7, "timeout": 9}
        shown = self.dry_run(**flags, video_size=64, strict_resize=True, video_fps=5, min_clip_length=1, precise_clipping=True)
        for part in ("fetch -j 12 ", "--connect-timeout 9s", "--scale x64", "--fps 5 ", " -p 3 ", "tardataset -n 7 "):
            self.assertIn(part, shown)
        self.assertNotIn("tarvideo", self.dry_run(video_size=64, strict_resize=False))


