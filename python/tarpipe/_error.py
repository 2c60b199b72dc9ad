"""The exceptions of the package."""

from __future__ import annotations


class Error(Exception):
    """A pipeline, a tool or a run failed.

    The text of the exception is what the failing program wrote to stderr (its last lines) or what went wrong here.
    """

    #: Exit status of the process that failed, 128+N if signal N ended it; None if no process was involved.
    status: int | None
    #: The captured stderr: at least its last 64 KB.
    stderr: str

    def __init__(self, message: str, *, status: int | None = None, stderr: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.stderr = stderr


class UsageError(ValueError):
    """An invalid argument or flag; the command lines print it and exit with status 2."""


class NotInstalled(Error):
    """The tools were not found in any place where the package looks for them."""
