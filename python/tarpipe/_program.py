"""Finds the tools. No other module of the package looks for them."""

from __future__ import annotations

import atexit
import functools
import os
import pathlib
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Mapping
from types import MappingProxyType

from ._error import Error, NotInstalled

PACKAGE = pathlib.Path(__file__).resolve().parent


def search_path() -> str:
    """Returns the PATH for pipelines: the folder of our tools, then PATH. Ours come first, since GNU tar has a tarcat too."""
    program = find_program()
    path = os.environ.get("PATH", os.defpath)
    return path if program is None else tools_folder(program) + os.pathsep + path


def find_program() -> str | None:
    """Returns the executable that contains all tools: in the package, where pip installed it, on PATH, or in
    the release build of a checkout. Debug builds are not considered: they are ten times slower."""
    release = PACKAGE.parent.parent / "target" / "release"
    path = [str(PACKAGE / "bin"), *pip_folders(), os.environ.get("PATH", os.defpath), str(release)]
    return shutil.which("tarpipe", path=os.pathsep.join(path))


def pip_folders() -> list[str]:
    """Yields the folder in which pip installs programs of this package's environment; nothing if pip did not install it."""
    schemes = [sysconfig.get_paths(), sysconfig.get_paths("posix_user")]
    return [paths["scripts"] for paths in schemes if str(PACKAGE.parent) in (paths["purelib"], paths["platlib"])]


def tools_folder(program: str) -> str:
    """Returns a folder with all tools by their names: that of the executable, or a temporary one."""
    folder = os.path.dirname(os.path.abspath(program))
    return folder if os.path.exists(os.path.join(folder, "urlcat")) else links_to(program)


@functools.lru_cache(maxsize=None)
def links_to(program: str) -> str:
    """Returns a temporary folder in which every tool is a link to the executable; removed when this process ends."""
    folder, owner = tempfile.mkdtemp(prefix="tarpipe-"), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # a forked child runs this too, while we still need the links
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    done = subprocess.run([program, "link", folder], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Error(done.stderr.strip() or f"{program} link failed", status=done.returncode, stderr=done.stderr)
    return folder


def environment(extra: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Returns the environment for pipelines: ours and `extra`, with the tools on PATH."""
    path = [extra["PATH"]] if "PATH" in extra else []
    return {**os.environ, **extra, "PATH": os.pathsep.join([*path, search_path()])}


def tool(name: str) -> str:
    """Returns the path of one tool."""
    program = find_program()
    found = program and shutil.which(name, path=tools_folder(program))
    if not found:
        raise NotInstalled(f"{name} not found: install the tools (scripts/install), build them (cargo build --release), or put them on the PATH")
    return found
