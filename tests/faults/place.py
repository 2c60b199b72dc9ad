"""The folders of a run, at the same paths in every run."""

import os
import pathlib
import shutil
import struct
import subprocess


class Place:
    """disk/out has the shards, disk/side their sidecars, tmp temporary files, err the messages."""

    here = pathlib.Path(__file__).resolve().parent

    def __init__(self, home, corpus, web_port):
        self.home, self.corpus, self.web_port = home, corpus, web_port
        self.disk, self.tmp, self.state = home / "disk", home / "tmp", home / "state"
        self.out, self.side = self.disk / "out", self.disk / "side"

    def renew(self, disturbance=None):
        self.remove()
        self.disk.mkdir(parents=True)
        if disturbance and disturbance.disk:
            mount = ["mount", "-t", "tmpfs", "-o", f"size={disturbance.disk},mode=755", "faults", self.disk]
            subprocess.run(mount, check=True)
        for folder in [self.out, self.side, self.state]:
            folder.mkdir()
        if disturbance and disturbance.small_tmp:
            (self.disk / "tmp").mkdir()
            self.tmp.symlink_to(self.disk / "tmp")
        else:
            self.tmp.mkdir()
        if disturbance and disturbance.user:
            for path in [self.home, self.out, self.side, self.tmp]:
                os.chown(path, disturbance.user, disturbance.user)

    def heal(self, disturbance):
        """Room on the disk, and permission to write there."""
        if disturbance.disk:
            subprocess.run(["mount", "-o", "remount,size=256m", self.disk], check=True)
        os.chmod(self.out, 0o755)

    def errors(self, name):
        folder = self.home / f"err-{name}"
        folder.mkdir()
        os.chmod(folder, 0o777)
        return folder

    def remove(self):
        if os.path.ismount(self.disk):
            subprocess.run(["umount", "--lazy", self.disk], check=True)
        shutil.rmtree(self.home, ignore_errors=True)

    def watch(self, tools):
        """Lets the shim count the calls of these tools."""
        for tool in tools:
            path = self.state / tool
            path.write_bytes(bytes(16))
            os.chmod(path, 0o666)

    def counts(self):
        return {path.name: struct.unpack("QQ", path.read_bytes()) for path in self.state.iterdir()}

    def disk_used(self):
        """What a disk of pages holds."""
        return sum(4096 * (-(-path.stat().st_size // 4096) + 1) for path in self.disk.rglob("*"))
