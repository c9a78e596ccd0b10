# SPDX-License-Identifier: Apache-2.0
"""LiteRT behind a process boundary, with a time limit.

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
from multiprocessing.connection import Connection

ROOT = pathlib.Path(__file__).resolve().parents[2]


class RuntimeRefusal(Exception):
    """LiteRT does not load or run the model and says why."""


class RuntimeCrash(Exception):
    """LiteRT took the process down."""


class RuntimeTimeout(Exception):
    """LiteRT did not come back in time."""


class Litert:
    def __init__(self, time_limit=60.0):
        """`time_limit` in seconds for one run; the start of the child has a limit of its own."""
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
            pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
            env={**os.environ, "PYTHONPATH": str(ROOT)})
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
        lines = [line for line in self._log.read().decode("utf-8", "replace").splitlines()
                 if line.strip() and not line.startswith(("INFO:", "WARNING:"))]
        cause = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        return f"LiteRT died with {cause}" + (f": {lines[-1].strip()}" if lines else "")

    def run(self, path, inputs, backend):
        """Runs `path` on {input name: numpy array}; returns {output name: numpy array} by the signature's names.

        `backend`: whether the Interpreter takes XNNPACK, or the name of a kernel mode of CompiledModel.
        """
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._start()
        try:
            self._connection.send((str(path), inputs, backend))
            if not self._connection.poll(self.time_limit):
                self.close()
                raise RuntimeTimeout(f"LiteRT needs more than {self.time_limit:g} s")
            kind, value = self._connection.recv()
        except (EOFError, ConnectionError):
            text = self._death()
            self.close()
            raise RuntimeCrash(text) from None
        if kind == "error":
            raise RuntimeRefusal(value)
        return value
