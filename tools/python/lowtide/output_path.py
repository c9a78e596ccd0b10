# SPDX-License-Identifier: Apache-2.0
"""Where results go: whether a file can be written, asked before the work whose result it gets, and what a failed write is called."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator

from .errors import Io, NotFound


def check_output_path(path: str) -> None:
    """Raises NotFound or Io where `path` cannot be written, and leaves everything as it is.

    A pipe or a device is not opened: that could wait, or be seen at its other end.
    """
    with writing(path):
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if os.path.exists(path):
            if not os.access(path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return
        # A link to nowhere is written through, so the trial is made where it points to.
        trial = f"{os.path.realpath(path)}.{os.getpid()}.tmp"
        os.close(os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.unlink(trial)


@contextlib.contextmanager
def writing(path: str) -> Iterator[None]:
    """Every error of the system in the block is an error about `path`: NotFound without its folder, else Io."""
    try:
        yield
    except OSError as error:
        folder = os.path.dirname(path)
        if error.errno == errno.ENOENT and folder and not os.path.isdir(folder):
            raise NotFound(f"{path}: the folder {folder!r} does not exist", file=path) from error
        raise Io(f"{path}: cannot be written: {error.strerror or error}", file=path) from error


def temporary_folder(prefix: str = "lowtide-", beside: str | None = None) -> tempfile.TemporaryDirectory[str]:
    """A new folder in `beside`, or where temporary files belong, which goes when it is closed.

    Raises
    ------
    Io
        If none can be made.
    """
    try:
        return tempfile.TemporaryDirectory(prefix=prefix, dir=beside)
    except OSError as error:
        where = error.filename or beside or "TMPDIR"
        raise Io(f"{where}: no temporary folder can be made: {error.strerror or error}", file=beside) from error


def print_output(text: str) -> None:
    """Prints to standard output, at once.

    Raises
    ------
    Io
        If it cannot be written, as where it is a file on a full disk.
    BrokenPipeError
        If its reader has closed the pipe.
    """
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        # What is left in the buffer would be written once more at the end of the process, and fail behind the message.
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), 1)
        raise Io(f"standard output cannot be written: {error.strerror or error}") from error
