# SPDX-License-Identifier: Apache-2.0
"""What runtimes write to file descriptor 2 goes to the logger "lowtide.runtime".

Both runtimes print from C++, which Python's sys.stderr does not see. While one of them works, file descriptor 2 is a
file in memory; what any other thread writes to it meanwhile goes to the log as well. Calls may overlap: the first one
redirects, the last one restores.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import threading
from typing import Callable

LOGGER = logging.getLogger("lowtide.runtime")

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_ORT_LEVEL = re.compile(r"^\d{4}-\d\d-\d\d \S+ \[([VIWEF]):")
_LEVELS = {
    "V": logging.DEBUG,
    "I": logging.DEBUG,
    "W": logging.WARNING,
    "E": logging.ERROR,
    "F": logging.ERROR,
    "INFO": logging.DEBUG,
    "VERBOSE": logging.DEBUG,
    "WARNING": logging.WARNING,
    "ERROR": logging.ERROR,
}
# What LiteRT says on each load of a CompiledModel on a machine without the accelerators that its package has code for.
_OF_NO_INTEREST = re.compile(r"NPU accelerator could not be loaded|Failed to load plugin at")


class _Redirection:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.saved = -1
        self.file = -1

    def enter(self) -> int:
        """Where in the file the caller's part begins."""
        with self.lock:
            self.users += 1
            if self.users == 1:
                self._begin()
                return 0
            return self._size()

    def _begin(self) -> None:
        try:
            self.saved = os.dup(2)
        except OSError:
            return  # there is none
        self.file = os.memfd_create("lowtide-stderr", os.MFD_CLOEXEC)
        os.dup2(self.file, 2)

    def leave(self) -> bytes:
        with self.lock:
            self.users -= 1
            if self.users > 0 or self.saved < 0:
                return b""
            os.dup2(self.saved, 2)
            data = self._written()
            saved, file = self.saved, self.file
            self.saved = self.file = -1  # first: an interrupt after a close would leave a number that is no descriptor
            os.close(saved)
            os.close(file)
            return data

    def _written(self) -> bytes:
        return os.pread(self.file, self._size(), 0)

    def _size(self) -> int:
        return os.fstat(self.file).st_size if self.file >= 0 else 0

    def so_far(self) -> bytes:
        with self.lock:
            return self._written() if self.file >= 0 else b""

    def abandon(self) -> None:
        """File descriptor 2 is standard error again, whoever still uses the file."""
        if self.saved >= 0:
            os.dup2(self.saved, 2)

    def after_fork(self) -> None:
        """A child that was forked meanwhile has its stderr back."""
        self.lock = threading.Lock()
        self.abandon()
        self.users, self.saved, self.file = 0, -1, -1


_redirection = _Redirection()
os.register_at_fork(after_in_child=_redirection.after_fork)


def restore() -> None:
    """For the last words of a process: an interrupt may come when file descriptor 2 is redirected already, and the
    context that would restore it has not begun."""
    _redirection.abandon()


def end_of_output() -> None:
    """Closes standard error: when the process ends, after the last Python code, LiteRT writes lines about its accelerators."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 2)


def _lines(data: bytes) -> list[str]:
    return [line for line in _COLOURS.sub("", data.decode("utf-8", "replace")).splitlines() if line.strip()]


def _level(line: str) -> int | None:
    ort = _ORT_LEVEL.match(line)
    return _LEVELS[ort[1]] if ort else _LEVELS.get(line.partition(":")[0])


def _log(data: bytes) -> None:
    level = logging.WARNING
    for line in _lines(data):
        own = _level(line)
        if own is not None:
            level = logging.DEBUG if _OF_NO_INTEREST.search(line) else own
        LOGGER.log(level, "%s", line)  # a line without a level continues the one before


def _errors(data: bytes) -> list[str]:
    """The lines of errors, without their level."""
    return [line.partition(":")[2].strip() for line in _lines(data) if line.startswith("ERROR:")]


class captured:
    """
    Redirects file descriptor 2 into the log for as long as the context lasts; gives the errors written so far. Without
    `log_failures` nothing is logged of a context that an exception ends: another attempt follows.
    """

    # A class, because a generator takes longer than a small piece: each run of each session is in such a context.
    def __init__(self, *, log_failures: bool = True) -> None:
        self._log_failures = log_failures
        self._begin = 0

    def __enter__(self) -> Callable[[], list[str]]:
        self._begin = _redirection.enter()
        return self._errors

    def _errors(self) -> list[str]:
        return _errors(_redirection.so_far()[self._begin :])

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        data = _redirection.leave()
        if data and (kind is None or self._log_failures):
            _log(data)
