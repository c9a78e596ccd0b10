# SPDX-License-Identifier: Apache-2.0
"""LiteRT behind a process boundary, with a limit of CPU time.

`Litert` keeps one child alive and starts another when it dies. A model that aborts, crashes or hangs is an answer
like any other: `RuntimeCrash` or `RuntimeTimeout`.
"""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection

from tests.support import limits

ROOT = pathlib.Path(__file__).resolve().parents[2]


class RuntimeRefusal(Exception):
    """LiteRT does not load or run the model and says why."""


class RuntimeCrash(Exception):
    """LiteRT took the process down."""


class RuntimeTimeout(Exception):
    """LiteRT did not come back in time."""


class Litert:
    def __init__(self, time_limit=60.0):
        """`time_limit` in seconds of the child's CPU time for one run."""
        self.time_limit = time_limit
        self._process = None
        self._connection = None
        self._log = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _start(self):
        ours, theirs = socket.socketpair()
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.litert_child", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        theirs.close()
        self._connection = Connection(ours.detach())

    def close(self):
        if self._process is None:
            return
        self._connection.close()
        self._process.kill()
        self._process.wait()
        self._log.close()
        self._process = self._connection = self._log = None

    def _death(self):
        code = self._process.wait()
        self._log.seek(0)
        lines = [
            line
            for line in self._log.read().decode("utf-8", "replace").splitlines()
            if line.strip() and not line.startswith(("INFO:", "WARNING:"))
        ]
        cause = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        return f"LiteRT died with {cause}" + (f": {lines[-1].strip()}" if lines else "")

    def _cpu_seconds(self):
        """Of the child, all of its threads; its start, before the first run, included."""
        try:
            fields = pathlib.Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _wait(self):
        """Until the child answers or dies."""
        begin, hang = self._cpu_seconds(), limits.hang(self.time_limit)
        start = time.monotonic()
        while not self._connection.poll(0.5):
            if self._cpu_seconds() - begin > self.time_limit:
                limit = f"{self.time_limit:g} s of CPU time"
            elif time.monotonic() - start > hang:
                limit = f"{hang:g} s"
            else:
                continue
            self.close()
            raise RuntimeTimeout(f"LiteRT needs more than {limit}")

    def run(self, path, inputs, backend):
        """Runs `path` on {input name: numpy array}; returns {output name: numpy array} by the signature's names.

        `backend`: whether the Interpreter takes XNNPACK, or the name of a kernel mode of CompiledModel.
        """
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._start()
        try:
            self._connection.send((str(path), inputs, backend))
            self._wait()
            kind, value = self._connection.recv()
        except (EOFError, ConnectionError):
            text = self._death()
            self.close()
            raise RuntimeCrash(text) from None
        if kind == "error":
            raise RuntimeRefusal(value)
        return value
