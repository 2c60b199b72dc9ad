"""The contents of a package: the files of an installation, and the path of each below its prefix."""

import dataclasses
import pathlib
import re
import subprocess

SUMMARY = "Turn URL lists and shards of files into training datasets with pipes"
EPOCH = 1577836800  # 2020-01-01: the same input gives the same bytes
DROPINS = ("img2dataset", "video2dataset", "any2dataset")
CLUSTERS = ("slurm-cluster", "ssh-cluster")


@dataclasses.dataclass(frozen=True)
class Entry:
    """A file of the installation: its path below the prefix, and its content or the target of a link."""

    path: str
    content: bytes = b""
    is_program: bool = False
    link: str = ""


class Package:
    """One version of tarpipe for one processor."""

    def __init__(self, root, program, arch):
        self.root, self.program, self.arch = root, program, arch
        self.version = re.search(r'(?m)^version = "(.+)"', (root / "Cargo.toml").read_text())[1]
        self.tools = self.tool_names()

    def tool_names(self):
        """The names of the tools, from the table in their source: the executable may be for another processor."""
        table = (self.root / "tools" / "lib.rs").read_text().split("pub const TOOLS", 1)[1]
        return re.findall(r"tool!\((\w+)\)", table)

    def python(self):
        """The files of the Python package, by their path in it."""
        folder = self.root / "python"
        found = [path for path in folder.rglob("*") if path.suffix in (".py", ".typed") and "__pycache__" not in path.parts]
        names = ((path.relative_to(folder).as_posix(), path) for path in found)
        return {name: path.read_bytes() for name, path in sorted(names) if name.startswith(("tarpipe/", "tarworker.py"))}

    def shared(self):
        """Manual and completions, below the prefix."""
        man = self.root / "man"
        for page in sorted(man.glob("*.[17]")):
            yield Entry(f"share/man/man{page.suffix[1]}/{page.name}", page.read_bytes())
        for tool in ["tarpipe", *self.tools, *DROPINS]:
            script = {shell: (man / "completions" / shell / tool).read_bytes() for shell in ("bash", "zsh", "fish")}
            yield Entry(f"share/bash-completion/completions/{tool}", script["bash"])
            yield Entry(f"share/zsh/site-functions/_{tool}", script["zsh"])
            yield Entry(f"share/fish/vendor_completions.d/{tool}.fish", script["fish"])

    def clusters(self):
        """The programs that start clusters, below the prefix."""
        for name in CLUSTERS:
            yield Entry(f"bin/{name}", (self.root / "tools" / "shardrun" / "cluster" / name).read_bytes(), True)

    def installation(self):
        """All files below a prefix such as /usr or ~/.local."""
        yield Entry("bin/tarpipe", self.program.read_bytes(), True)
        for tool in self.tools:
            yield Entry(f"bin/{tool}", link="tarpipe")
        yield from self.clusters()
        for name in DROPINS:
            yield Entry(f"bin/{name}", (self.root / "scripts" / name).read_bytes(), True)
        for name, content in self.python().items():
            yield Entry(f"lib/tarpipe/python/{name}", content)
        yield Entry("lib/tarpipe/python/tarpipe/bin", link="../../../../bin")
        yield from self.shared()


def glibc_of(program):
    """The oldest glibc that an executable runs with, as (2, 17)."""
    # Unlike objdump, readelf reads the executables of every processor.
    text = subprocess.run(["readelf", "-VW", program], check=True, stdout=subprocess.PIPE, text=True).stdout
    return max(tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_(2\.\d+)", text))


def commit(root):
    """The short name of the commit that a package is built from, with a mark if files differ from it; '' outside of git."""
    describe = ["git", "describe", "--always", "--dirty", "--exclude", "*"]
    done = subprocess.run(describe, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.strip()


def licenses(root):
    """The names and texts of the licences."""
    return {path.name: path.read_bytes() for path in sorted(pathlib.Path(root).glob("LICENSE*"))}
