# SPDX-License-Identifier: Apache-2.0
"""Files that are read: only regular ones, and of the files that a model names, only those in its own folder."""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from .errors import NotFound, UnsafePath


def open_regular(path: str) -> int:
    """A descriptor for reading. A pipe is refused, and not waited for.

    Raises
    ------
    NotFound
        If it cannot be opened.
    UnsafePath
        If it is a folder, a pipe or a device.
    """
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise _not_regular(path) from error
        raise NotFound(f"{path}: cannot be opened: {error.strerror}", file=path) from error
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise _not_regular(path)
    return number


def check_regular(path: str) -> None:
    """That a file which a runtime will open is none that would make it wait. A folder, or nothing, is its to report.

    Raises
    ------
    UnsafePath
    """
    with contextlib.suppress(OSError):
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise _not_regular(path)


def _not_regular(path: str) -> UnsafePath:
    return UnsafePath(f"{path}: {'a folder, not a file' if os.path.isdir(path) else 'not a regular file'}", file=path)


def check_name(path: str, name: str, listed: frozenset[str] | None) -> None:
    """Checks where a model says that its external data is. A link is followed, as caches of models need it.

    Parameters
    ----------
    path : str
        The model.
    name : str
        What it gives.
    listed : frozenset of str or None
        The only names that it may give.

    Raises
    ------
    UnsafePath
        For a name that is not below a folder, or not listed.
    """
    if not name or "\0" in name or name.startswith("/") or ".." in name.replace("\\", "/").split("/"):
        raise UnsafePath(f"{path}: external data in {name!r}, which is not below the model's folder", file=path)
    if listed is not None and name not in listed:
        raise UnsafePath(f"{path}: external data in {name!r}, which the manifest does not list", file=path)
