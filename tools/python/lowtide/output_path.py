# SPDX-License-Identifier: Apache-2.0
"""Where results go: whether a file can be written, asked before the work whose result it gets, and what a failed write is called."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO

from .errors import Io, NotFound, UnsafePath, Usage


def check_output_path(path: str, inputs: Iterable[str] = ()) -> None:
    """Whether `replacing` can write to a path, asked before the work; everything stays as it is.

    A pipe or a device is not opened: that could wait, or be seen at its other end.

    Parameters
    ----------
    path : str
        The output.
    inputs : iterable of str
        The files that are read. They are only looked at if the output is there already.

    Raises
    ------
    NotFound, Io
        If it cannot be written.
    UnsafePath
        If it is a name in a folder of the system.
    Usage
        If it is one of the inputs, by whatever name.
    """
    with writing(path):
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if _is_special(path):
            return
        is_there = os.path.lexists(path)
        if os.path.exists(path) and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        trial = _new_name(path)
        os.close(os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.unlink(trial)
    for name in inputs if is_there else ():
        if _is_one_file(path, name):
            raise Usage(f"{path}: is an input ({name}), which the output would replace; give another name", file=path)


def _is_one_file(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:  # one is not there, or leads nowhere
        return False


def _is_special(path: str) -> bool:
    """Whether something is there that is written itself: a pipe or a device."""
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return False


def _new_name(path: str) -> str:
    """A name in the folder of a file, as short as any; the file's own may be as long as names can be."""
    folder = os.path.dirname(path)
    where = os.path.realpath(folder or ".")
    if where in ("/dev", "/proc") or where.startswith("/proc/"):
        raise UnsafePath(f"{path}: no file is put into {where}, a folder of the system", file=path)
    return os.path.join(folder, f".lowtide-{os.getpid()}-{secrets.token_hex(4)}")


@contextlib.contextmanager
def replacing(path: str) -> Iterator[IO[bytes]]:
    """A new file that gets the name `path` when the block has ended; an error in it leaves the old file as it was.

    A link is replaced, and not what it leads to. A pipe or a device is opened and written. Errors of the system in the
    block are about `path`.

    Raises
    ------
    NotFound, Io, UnsafePath
        As `check_output_path`.
    """
    with writing(path):
        if _is_special(path):
            with open(path, "wb") as file:
                yield file
            return
        temporary = _new_name(path)
        try:
            with open(temporary, "xb") as file:
                with contextlib.suppress(FileNotFoundError):  # what only its owner may read stays so
                    os.fchmod(file.fileno(), stat.S_IMODE(os.stat(path).st_mode))
                yield file
            os.replace(temporary, path)  # once it is closed, which on some file systems is what tells of a full disk
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


@contextlib.contextmanager
def writing(path: str) -> Iterator[None]:
    """Every error of the system in the block is an error about `path`: NotFound without its folder, else Io."""
    try:
        yield
    except OSError as error:
        folder = os.path.dirname(path)
        if error.errno == errno.ENOENT and folder and not os.path.isdir(folder):
            raise NotFound(f"{path}: the folder {folder!r} does not exist", file=path) from error
        kind = NotFound if error.errno == errno.ENAMETOOLONG else Io
        raise kind(f"{path}: cannot be written: {error.strerror or error}", file=path) from error


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
