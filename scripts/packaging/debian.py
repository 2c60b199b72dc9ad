"""The Debian package."""

import gzip
import os
import pathlib
import subprocess
import tempfile

from contents import EPOCH, SUMMARY, glibc_of

MODULES = "lib/python3/dist-packages"
# Debian's tar has a tarcat too, in /usr/sbin, which comes first on root's PATH. It moves out of the way while tarpipe is
# installed, as its manual page does.
DIVERTED = {"/usr/sbin/tarcat": "/usr/sbin/tarcat.gnutar", "/usr/share/man/man1/tarcat.1.gz": "/usr/share/man/man1/tarcat.gnutar.1.gz"}
ADD = "".join(f"  dpkg-divert --quiet --package tarpipe --add --rename --divert {new} {old}\n" for old, new in DIVERTED.items())
REMOVE = "".join(f"  dpkg-divert --quiet --package tarpipe --remove --rename {old}\n" for old in DIVERTED)
SCRIPTS = {
    "preinst": f"if [ $1 = install ] || [ $1 = upgrade ]; then\n{ADD}fi\n",
    # What Python has compiled beside our modules.
    "prerm": f"""cd "$DPKG_ROOT/usr/{MODULES}"
find tarpipe -name __pycache__ -type d -prune -exec rm -rf {{}} +
rm -f __pycache__/tarworker.*.pyc
rmdir __pycache__ 2>/dev/null || true
""",
    "postrm": f"if [ $1 = remove ] || [ $1 = abort-install ]; then\n{REMOVE}fi\n",
}


def deb(package, dist):
    """tarpipe_VERSION_ARCH.deb"""
    arch = {"x86_64": "amd64", "aarch64": "arm64"}[package.arch]
    path = dist / f"tarpipe_{package.version}_{arch}.deb"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        size = add_files(package, folder)
        write(folder / "DEBIAN/control", control_text(package, arch, size).encode())
        for script, lines in SCRIPTS.items():
            write(folder / "DEBIAN" / script, f"#!/bin/sh\nset -e\n{lines}".encode(), True)
        os.utime(folder, (EPOCH, EPOCH))
        command = ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", folder, path]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)})
    return path


def add_files(package, folder):
    """Puts the installation below /usr; its size."""
    size = 0
    for entry in package.installation():
        place = debian_path(entry.path)
        if place is None:
            continue
        target = folder / "usr" / place
        if entry.link:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(entry.link)
            continue
        content = gzip.compress(entry.content, 9, mtime=EPOCH) if place.endswith(".gz") else entry.content
        write(target, content, entry.is_program)
        size += len(content)
    return size


def debian_path(path):
    """Where Debian has a file of an installation: modules where every python3 finds them. None for the link from the modules
    to the executable, which is on PATH."""
    if path == "lib/tarpipe/python/tarpipe/bin":
        return None
    path = path.replace("lib/tarpipe/python", MODULES).replace("share/zsh/site-functions", "share/zsh/vendor-completions")
    return f"{path}.gz" if path.startswith("share/man/") else path


def write(path, content, is_program=False):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o755 if is_program else 0o644)


def control_text(package, arch, size):
    major, minor = glibc_of(package.program)
    return f"""Package: tarpipe
Version: {package.version}
Architecture: {arch}
Maintainer: The tarpipe developers <tarpipe@localhost>
Installed-Size: {size // 1024}
Depends: libc6 (>= {major}.{minor})
Recommends: python3 (>= 3.9)
Suggests: ffmpeg, imagemagick | graphicsmagick
Section: utils
Priority: optional
Description: {SUMMARY}
 Small programs that each do one thing to a stream of samples in tar archives:
 list and fetch URLs, resize images, run commands, cut video, split into shards,
 check, sort and show them, and run pipelines on clusters.
 .
 While it is installed, the tarcat of GNU tar is called tarcat.gnutar.
"""
