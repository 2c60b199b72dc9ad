"""Wheels and the portable archive: each function writes one file and returns its path."""

import base64
import gzip
import hashlib
import io
import shutil
import tarfile
import zipfile

from contents import DROPINS, EPOCH, SUMMARY, glibc_of, licenses

# Wheels cannot contain links, so the tools are scripts that start the one executable.
LAUNCHER = """#!/bin/sh
here=${0%/*}
[ -x "$here/tarpipe" ] || { here=$(readlink -f "$0"); here=${here%/*}; }
exec "$here/tarpipe" TOOL "$@"
"""


class Wheel:
    """A wheel under construction: files, and the record of their hashes."""

    def __init__(self, name, version, tag, metadata):
        self.stem, self.tag, self.metadata = f"{name}-{version}", tag, metadata
        self.version, self.files = version, {}

    def add(self, path, content, is_program=False):
        self.files[path] = (content, is_program)

    def write(self, dist):
        info = f"{self.stem}.dist-info"
        pure = "true" if self.tag.endswith("-any") else "false"
        tags = "".join(f"Tag: py3-none-{platform}\n" for platform in self.tag.split("-")[-1].split("."))
        self.add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: tarpipe\nRoot-Is-Purelib: {pure}\n{tags}".encode())
        self.add(f"{info}/METADATA", self.metadata.encode())
        record = "".join(f"{path},sha256={digest(content)},{len(content)}\n" for path, (content, _) in self.files.items())
        self.add(f"{info}/RECORD", (record + f"{info}/RECORD,,\n").encode())
        path = dist / f"{self.stem}-{self.tag}.whl"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name, (content, is_program) in self.files.items():
                entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = (0o100755 if is_program else 0o100644) << 16
                archive.writestr(entry, content)
        return path


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def metadata(name, package, summary, more=""):
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {package.version}\nSummary: {summary}\nLicense: MIT OR Apache-2.0\n"
    text += f"Requires-Python: >=3.9\n{more}Description-Content-Type: text/markdown\n\n"
    return text + (package.root / "python" / "README.md").read_text()


def wheel(package, dist):
    """tarpipe-VERSION-py3-none-PLATFORM.whl"""
    major, minor = glibc_of(package.program)
    platform = f"manylinux_{major}_{minor}_{package.arch}"
    platform += f".manylinux2014_{package.arch}" if (major, minor) == (2, 17) else ""
    made = Wheel("tarpipe", package.version, f"py3-none-{platform}", metadata("tarpipe", package, SUMMARY))
    for name, content in package.python().items():
        made.add(name, content)
    data = f"{made.stem}.data"
    made.add(f"{data}/scripts/tarpipe", package.program.read_bytes(), True)
    for tool in package.tools:
        made.add(f"{data}/scripts/{tool}", LAUNCHER.replace("TOOL", tool).encode(), True)
    for entry in package.clusters():
        # pip makes this line the Python of its environment, which has the package.
        content = entry.content.replace(b"#!/usr/bin/env python3", b"#!python", 1)
        made.add(f"{data}/scripts/{entry.path.removeprefix('bin/')}", content, True)
    for entry in package.shared():
        made.add(f"{data}/data/{entry.path}", entry.content)
    for name, content in licenses(package.root).items():
        made.add(f"{made.stem}.dist-info/{name}", content)
    return made.write(dist)


def compat(package, dist):
    """tarpipe_compat-VERSION-py3-none-any.whl: the names of the programs that ours replace."""
    summary = "Modules and commands img2dataset, video2dataset and any2dataset that run tarpipe"
    needs = f"Requires-Dist: tarpipe=={package.version}\n"
    made = Wheel("tarpipe_compat", package.version, "py3-none-any", metadata("tarpipe-compat", package, summary, needs))
    folder = package.root / "python" / "compat"
    for path in sorted(folder.rglob("*.py")):
        made.add(path.relative_to(folder).as_posix(), path.read_bytes())
    commands = "".join(f"{name} = tarpipe.{name}:main\n" for name in DROPINS)
    made.add(f"{made.stem}.dist-info/entry_points.txt", f"[console_scripts]\n{commands}".encode())
    return made.write(dist)


def tree(package, dist):
    """tarpipe-VERSION-ARCH-linux: the folder that the archive contains"""
    folder = dist / f"tarpipe-{package.version}-{package.arch}-linux"
    shutil.rmtree(folder, ignore_errors=True)
    for name, content, is_program, link in portable(package):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if link:
            path.symlink_to(link)
            continue
        path.write_bytes(content)
        path.chmod(0o755 if is_program else 0o644)
    return folder


def portable(package):
    """An installation with the script that installs it: names, contents, whether it is a program, targets of links."""
    for entry in package.installation():
        yield entry.path, entry.content, entry.is_program, entry.link
    yield "install.sh", (package.root / "scripts" / "packaging" / "install.sh").read_bytes(), True, ""
    for name, content in licenses(package.root).items():
        yield name, content, False, ""


def archive(package, dist):
    """tarpipe-VERSION-ARCH-linux.tar.gz, and its checksum beside it"""
    stem = f"tarpipe-{package.version}-{package.arch}-linux"
    path = dist / f"{stem}.tar.gz"
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, EPOCH) as packed, tarfile.open(fileobj=packed, mode="w") as made:
        for name, content, is_program, link in portable(package):
            add(made, f"{stem}/{name}", content, is_program, link)
    path.with_name(path.name + ".sha256").write_text(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n")
    return path


def add(made, name, content, is_program, link):
    member = tarfile.TarInfo(name)
    member.mtime, member.mode = EPOCH, 0o755 if is_program else 0o644
    member.uname = member.gname = "root"
    if link:
        member.type, member.linkname, member.mode = tarfile.SYMTYPE, link, 0o777
    else:
        member.size = len(content)
    made.addfile(member, None if link else io.BytesIO(content))
