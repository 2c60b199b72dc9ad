"""What img2dataset, any2dataset and video2dataset have in common."""

from __future__ import annotations

import sys
from typing import Callable

from .._error import Error, NotInstalled, UsageError


def main(program: str, run: Callable[[list[str]], None]) -> int:
    """Runs a command line, prints errors, and returns the exit status."""
    try:
        run(sys.argv[1:])
        return 0
    except (UsageError, NotInstalled) as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    except Error as error:
        # The message of a tool is printed unchanged.
        print(error.stderr.rstrip() or f"{program}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 0
    except OSError as err:
        print(f"{program}: {f'{err.filename}: ' if err.filename else ''}{err.strerror or err}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
