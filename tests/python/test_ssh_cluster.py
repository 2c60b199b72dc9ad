"""Lists of hosts that ssh-cluster reads, and its dealings with a stand-in for ssh that runs everything here."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "python"))

from tarpipe.ssh_cluster import hosts  # noqa: E402
from tarpipe.ssh_cluster.remote import Failure  # noqa: E402

# Skips the options and the host, as ssh does, and fails the first copy of a file.
SSH = """#!/bin/bash
while [[ $1 == -* ]]; do shift 2; done
echo "$1" >>asked
shift
if [[ $1 == *mktemp* && ! -e cut ]]; then touch cut; head -c 10 | bash -c "$1"; exit; fi
exec bash -c "$1"
"""


class Hosts(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name).resolve()

    def read(self, name, text):
        (self.folder / name).write_text(text)
        return hosts.read(self.folder / name)

    def problem(self, name, text):
        with self.assertRaises(Failure) as raised:
            self.read(name, text)
        return str(raised.exception).replace(f"{self.folder}/", "")

    def test_a_line_is_a_name_and_an_address(self):
        found = self.read("ips.txt", "# all\n10.0.0.1\n\nubuntu@b 10.0.0.2\n")
        read = [(host.name, host.address, host.user) for host in found]
        self.assertEqual(read, [("10.0.0.1", "10.0.0.1", ""), ("b", "10.0.0.2", "ubuntu")])

    def test_a_row_has_what_ssh_needs(self):
        text = ",host,user,password,hostname,comment,port,key\n0,192.0.2.1\n1,b,ubuntu,,,second,2222,keys/b.pem\n"
        first, second = self.read("hosts.csv", text)
        self.assertEqual((first.name, first.ssh_flags()), ("192.0.2.1", []))
        key = str(self.folder / "keys/b.pem")
        self.assertEqual(second.ssh_flags(), ["-l", "ubuntu", "-p", "2222", "-i", key])

    def test_mistakes_are_named(self):
        self.assertEqual(self.problem("a.csv", "host,usr\na,b\n"), "a.csv: unknown column usr; did you mean user?")
        said = self.problem("a.csv", "host,password\na,secret\n")
        self.assertIn("a.csv: line 2: passwords are not supported; use a key", said)
        self.assertEqual(self.problem("a.csv", "name\na\n"), "a.csv: no column host")
        self.assertEqual(self.problem("a.csv", "host,port\na,ssh\n"), "a.csv: line 2: 'ssh' is not a port")
        self.assertEqual(self.problem("a", "a\na\n"), "a: a appears twice")
        self.assertEqual(self.problem("a", "-oProxyCommand=x\n"), "a: '-oProxyCommand=x' is not the name of a host")
        self.assertEqual(self.problem("a", "# none\n"), "a: no hosts")

    def call(self, *words):
        program = REPOSITORY / "tools" / "shardrun" / "cluster" / "ssh-cluster"
        command = [sys.executable, str(program), "--ssh", str(self.folder / "ssh"), *words]
        return subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_commands_files_and_scripts_reach_all_hosts(self):
        (self.folder / "ssh").write_text(SSH)
        (self.folder / "ssh").chmod(0o755)
        (self.folder / "hosts").write_text("a\nb\n")
        done = self.call("run", "--hosts", "hosts", "echo hello; exit 3")
        self.assertEqual((done.returncode, sorted(done.stdout.splitlines())), (1, ["a: hello", "b: hello"]))
        self.assertEqual(sorted(done.stderr.splitlines()), [f"ssh-cluster: {name}: exit status 3" for name in "ab"])
        (self.folder / "hosts").write_text("a\n")
        (self.folder / "tool").write_bytes(os.urandom(100000))
        (self.folder / "setup.sh").write_text('echo "$(wc -c <there/tool) bytes"\n')
        for said in ("copied", "already there"):
            done = self.call("install", "--hosts", "hosts", "--to", "there", "tool", "--setup", "setup.sh")
            expected = f"a: there/tool: {said}\na: 100000 bytes\n"
            self.assertEqual((done.returncode, done.stdout), (0, expected), done.stderr)
        self.assertEqual((self.folder / "there/tool").read_bytes(), (self.folder / "tool").read_bytes())
        self.assertEqual(os.listdir(self.folder / "there"), ["tool"])
        done = self.call("setup", "--hosts", "hosts", "setup.sh")
        self.assertEqual((done.returncode, done.stdout), (0, "a: 100000 bytes\n"))


if __name__ == "__main__":
    unittest.main()
