"""The container image, built without a Docker engine: Debian with the packages of image-packages and tarpipe's own.

mmdebstrap makes the root file system, umoci the image, skopeo the archive. The Dockerfile makes the same from the same list.
"""

import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

from contents import EPOCH, SUMMARY
from debian import deb

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = ("mmdebstrap", "umoci", "skopeo")
# As in Debian's own slim images: no documentation, but every copyright notice.
LEFT_OUT = ("path-exclude=/usr/share/doc/*", "path-include=/usr/share/doc/*/copyright", "path-exclude=/usr/share/locale/*")
SETTINGS = (
    "--config.cmd=bash",
    "--config.env=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "--config.env=LANG=C.UTF-8",
    f"--config.label=org.opencontainers.image.description={SUMMARY}",
)


def image(package, dist):
    """tarpipe-VERSION-ARCH-image.tar, an OCI archive"""
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    if missing:
        sys.exit(f"package: image: missing {', '.join(missing)} (Debian packages of these names)")
    if package.arch != platform.machine():
        sys.exit(f"package: image: an image for {package.arch} is built on {package.arch}")
    path = dist / f"tarpipe-{package.version}-{package.arch}-image.tar"
    with tempfile.TemporaryDirectory(prefix="tarpipe-image-") as name:
        folder = pathlib.Path(name)
        root = make_root(deb(package, folder), folder)
        layout = f"{folder}/oci"
        run(["umoci", "init", "--layout", layout])
        run(["umoci", "new", "--image", f"{layout}:{package.version}"])
        run(["umoci", "raw", "add-layer", "--image", f"{layout}:{package.version}", root])
        run(["umoci", "config", "--image", f"{layout}:{package.version}", *SETTINGS])
        path.unlink(missing_ok=True)
        run(["skopeo", "--insecure-policy", "copy", f"oci:{layout}:{package.version}", f"oci-archive:{path}:{package.version}"])
    return path


def make_root(package, folder):
    """An archive of the root file system, with our Debian package installed."""
    root = folder / "root.tar"
    command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(packages())}"]
    command += [f"--dpkgopt={option}" for option in LEFT_OUT]
    command += [f"--customize-hook=copy-in {package} /tmp"]
    command += ['--customize-hook=chroot "$1" sh -c "dpkg -i /tmp/*.deb && rm /tmp/*.deb"']
    run([*command, suite(), root])
    return root


def packages():
    """The names in image-packages."""
    lines = (line.split("#")[0].strip() for line in (HERE / "image-packages").read_text().splitlines())
    return [line for line in lines if line]


def suite():
    """The release of Debian, from the Dockerfile."""
    return re.search(r"(?m)^ARG BASE=debian:(\w+)-slim$", (HERE / "Dockerfile").read_text())[1]


def run(command):
    """Runs a command; what it says is shown if it fails."""
    env = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"package: image: {command[0]} failed\n{done.stdout.strip()}")
