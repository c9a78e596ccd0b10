# SPDX-License-Identifier: Apache-2.0
"""The program `lowtide`: where it is, what it offers, and running it as a child.

The conversion runs in a process of its own, because the program sets allocator options, signal handlers and limits for
its whole process. What a child must never do: outlive its parent, leave temporary files, or be waited for without end.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import os
import pathlib
import re
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Callable

from .errors import BY_STATUS, Error, Internal, Interrupted, Killed, ProgramMissing
from .events import Event, Failed, parse_event
from .held_signals import held_signals

# Seconds: for an interrupted child to remove its temporaries, and for `--version` of a file that may be anything.
_GRACE = 2.0
_VERSION_LIMIT = 20.0

_CHECKOUT = pathlib.Path(__file__).resolve().parents[3]


def find_program() -> pathlib.Path:
    """The program that the package runs.

    The first of: the file that the environment variable ``LOWTIDE`` names, ``bin/lowtide`` inside of the package (in a
    wheel), ``build/release/lowtide`` of the checkout that the package is in.

    Raises
    ------
    ProgramMissing
        With the places that were looked at.
    """
    named = os.environ.get("LOWTIDE")
    if named:
        path = pathlib.Path(named)
        if not path.is_file():
            raise ProgramMissing(f"{path}: the environment variable LOWTIDE names no file", file=str(path))
        return path.absolute()
    places = [pathlib.Path(__file__).resolve().parent / "bin" / "lowtide"]
    if (_CHECKOUT / "CMakePresets.json").is_file():
        places.append(_CHECKOUT / "build" / "release" / "lowtide")
    for path in places:
        if path.is_file():
            return path
    raise ProgramMissing(
        "the program lowtide was not found; looked at {}. Install the package from a wheel, build the program "
        "(cmake --preset release && cmake --build --preset release), or set LOWTIDE".format(", ".join(map(str, places)))
    )


@dataclasses.dataclass(frozen=True)
class Program:
    """A file that is known to be the program.

    Attributes
    ----------
    path : pathlib.Path
        Absolute.
    version : str
        What ``--version`` prints, without the name.
    options : frozenset of str
        The long options of ``convert``.
    """

    path: pathlib.Path
    version: str
    options: frozenset[str]


@functools.lru_cache(maxsize=8)
def _examined(path: str, identity: tuple[int, ...]) -> Program:
    def output_of(*arguments: str) -> str:
        try:
            done = subprocess.run(
                [path, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_VERSION_LIMIT,
            )
        except OSError as error:
            raise ProgramMissing(f"{path}: cannot be run: {error.strerror}", file=path) from error
        except subprocess.TimeoutExpired:
            raise ProgramMissing(f"{path}: does not answer --version in {_VERSION_LIMIT:g} s", file=path) from None
        return done.stdout if done.returncode == 0 else ""

    version = re.fullmatch(r"lowtide (\d\S*)\s*", output_of("--version"))
    if version is None:
        raise ProgramMissing(f"{path}: is not the program lowtide (by its answer to --version)", file=path)
    options = frozenset(re.findall(r"--([a-z][a-z0-9-]*)", output_of("convert", "--help")))
    return Program(pathlib.Path(path), version[1], options)


def examine(path: pathlib.Path) -> Program:
    """What the program is and offers; a file is run once for that, and again when it has changed."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise ProgramMissing(f"{path}: {error.strerror}", file=str(path)) from error
    return _examined(str(path), (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns))


def _die_with_parent() -> Callable[[], None] | None:
    """What the child does between fork and exec: ask the system for SIGTERM when the parent ends.

    All is looked up before the fork; the child only makes two system calls.
    """
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl
    set_death_signal, number, parent = ctypes.c_int(1), ctypes.c_ulong(signal.SIGTERM), os.getpid()

    def ask() -> None:
        prctl(set_death_signal, number, 0, 0, 0)
        if os.getppid() != parent:  # it ended before the call
            os._exit(1)

    return ask


@dataclasses.dataclass
class Finished:
    """What is left of a child: exit status (negative: minus the signal) and what it wrote."""

    status: int
    stdout: str
    stderr: str


class Child:
    """One run of the program. `interrupt` may be called from any thread."""

    def __init__(self, program: Program, arguments: Sequence[str]) -> None:
        self._program = program
        self._arguments = list(arguments)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._wake: int | None = None
        self._stopped = False

    def interrupt(self) -> None:
        """Ends the child as Ctrl-C does; `run` raises Interrupted soon after."""
        with self._lock:
            self._stopped = True
            if self._wake is not None:
                os.write(self._wake, b"x")

    def run(self, on_line: Callable[[bytes], None] | None = None) -> Finished:
        """Waits for the child.

        Parameters
        ----------
        on_line : callable, optional
            Takes each line that the child writes to ``--progress-fd``, which is added to the arguments.

        Raises
        ------
        ProgramMissing
            If the program cannot be started.
        BaseException
            What a signal handler or `on_line` raises, KeyboardInterrupt for instance: after the child has ended.
        """
        wake, self_wake = os.pipe()
        lines, lines_end = os.pipe() if on_line else (-1, -1)
        process = None
        try:
            with self._lock:
                self._wake = self_wake
                if self._stopped:
                    raise Interrupted("the conversion was cancelled before it began")
            with held_signals():  # or a child that has started would not be known here
                process = self._start(lines_end)
            if lines_end >= 0:
                os.close(lines_end)
                lines_end = -1
            return self._watch(process, wake, lines, on_line)
        except BaseException:
            if process is not None:
                _end(process)
            raise
        finally:
            with self._lock:
                self._wake = None
            for number in (wake, self_wake, lines, lines_end):
                if number >= 0:
                    os.close(number)

    def _start(self, lines_end: int) -> subprocess.Popen[bytes]:
        arguments = [str(self._program.path), *self._arguments]
        if lines_end >= 0:
            arguments.append(f"--progress-fd={lines_end}")
        try:
            return subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=[lines_end] if lines_end >= 0 else [],
                preexec_fn=_die_with_parent(),
            )
        except OSError as error:
            path = str(self._program.path)
            raise ProgramMissing(f"{path}: cannot be run: {error.strerror}", file=path) from error

    def _watch(
        self, process: subprocess.Popen[bytes], wake: int, lines: int, on_line: Callable[[bytes], None] | None
    ) -> Finished:
        assert process.stdout is not None and process.stderr is not None
        text: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray(), "lines": bytearray()}
        with process.stdout, process.stderr, selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ, "stdout")
            selector.register(process.stderr, selectors.EVENT_READ, "stderr")
            selector.register(wake, selectors.EVENT_READ, "wake")
            if on_line is not None:
                selector.register(lines, selectors.EVENT_READ, "lines")
            while len(selector.get_map()) > 1:
                for key, _ in selector.select():
                    if key.data == "wake":
                        raise Interrupted("the conversion was cancelled")
                    data = os.read(key.fd, 65536)
                    if not data:
                        selector.unregister(key.fileobj)
                    text[key.data] += data
                    if key.data == "lines" and on_line is not None:
                        *whole, rest = bytes(text["lines"]).split(b"\n")
                        text["lines"] = bytearray(rest)
                        for line in whole:
                            on_line(line)
            status = process.wait()
        return Finished(status, text["stdout"].decode("utf-8", "replace"), text["stderr"].decode("utf-8", "replace"))


def _end(process: subprocess.Popen[bytes]) -> None:
    """SIGINT, on which the child removes its temporaries; SIGKILL if it does not end soon."""
    for number, seconds in ((signal.SIGINT, _GRACE), (signal.SIGKILL, None)):
        process.send_signal(number)
        try:
            process.wait(seconds)
            return
        except subprocess.TimeoutExpired:
            continue


def _event(line: str) -> Event | None:
    try:
        return parse_event(line)
    except ValueError:
        return None


def failure(finished: Finished) -> Error:
    """The exception for a child that did not succeed.

    Of the text only what docs/errors.md promises is read: the line ends in the kind in brackets.
    """
    text = finished.stderr.strip()
    if finished.status < 0:
        number = -finished.status
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        why = "; the system does that when memory is short" if number == signal.SIGKILL else ""
        return Killed(f"the program was ended by {name}{why}" + (f": {text}" if text else ""), signal=number)
    *before, last = text.splitlines() or [""]
    if last.startswith("{"):
        event = _event(last)
        if isinstance(event, Failed):
            # Lines in front of it belong to it: what `check` has found.
            return dataclasses.replace(event, message="\n".join([*before, event.message])).exception()
    kind: type[Error] | None = BY_STATUS.get(finished.status)
    if kind is None:
        return Internal(f"the program ended with status {finished.status}" + (f": {text}" if text else ""))
    lines = []
    for line in text.splitlines():
        if line.startswith("lowtide: ") and line.endswith(f" [{kind.kind}]"):
            line = line[len("lowtide: ") : -len(f" [{kind.kind}]")]
        lines.append(line)
    return kind("\n".join(lines) or f"the program ended with status {finished.status}")


def child_of(program: Program, arguments: Sequence[str]) -> Child:
    """A run of the program that reports its error as JSON, where its version does."""
    return Child(program, [*arguments, "--errors=json"] if "errors" in program.options else arguments)


def run_child(child: Child, on_line: Callable[[bytes], None] | None = None) -> Finished:
    """`Child.run` for a child that must succeed.

    Raises
    ------
    Error
        What the program reported.
    """
    finished = child.run(on_line)
    if finished.status != 0:
        raise failure(finished)
    return finished


def run_program(arguments: Sequence[str]) -> Finished:
    """Finds the program and runs it once, as `run_child`."""
    return run_child(child_of(examine(find_program()), arguments))


__all__: list[str] = [
    "Child",
    "Finished",
    "Program",
    "child_of",
    "examine",
    "failure",
    "find_program",
    "run_child",
    "run_program",
]
