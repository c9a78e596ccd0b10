# SPDX-License-Identifier: Apache-2.0
"""Runs the built program as a user does.

The program is $LOWTIDE, or build/release/lowtide. What it must do whatever happens: end in time, never die by a
signal, say something when it fails, and leave no file behind when it fails.
"""

import dataclasses
import functools
import os
import pathlib
import re
import signal
import subprocess
import time

from tests.support import limits

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Exit statuses that are bugs of ours: 1 is what crashes and libraries use, 11 is lowtide's own "internal".
_BUGS = (1, 11)

_UNITS = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_PEAK = re.compile(r"peak RSS[^0-9]*([0-9.]+)\s*([KMG]?i?B)", re.IGNORECASE)


def program():
    path = pathlib.Path(os.environ.get("LOWTIDE", ROOT / "build/release/lowtide")).resolve()
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not built: cmake --preset release && cmake --build --preset release")
    return path


@functools.cache
def _slowdown(path):
    """What limits are multiplied by: a program with AddressSanitizer takes six to eight times as long, measured."""
    return 4 if b"__asan_init" in path.read_bytes() else 1


def run(*arguments, cpu_seconds=60, address_space=None, **how):
    """Runs `lowtide ARGUMENTS` as subprocess.run does, with its output captured as text unless `how` says otherwise."""
    how = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True} | how
    if "stdout" in how or "stderr" in how:
        del how["capture_output"]
    cpu_seconds *= _slowdown(program())
    command = [*limits.limited(cpu_seconds, address_space), str(program()), *map(str, arguments)]
    return subprocess.run(command, timeout=limits.hang(cpu_seconds), **how)


@dataclasses.dataclass
class Conversion:
    """`status`: converted, refused (an error with a reason), broken (a crash, a hang, an error that breaks the rules)."""

    status: str
    reason: str = ""
    exit_status: int = 0
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0

    @property
    def peak_rss(self):
        """Bytes, as lowtide prints it; None when it does not."""
        found = _PEAK.search(self.stdout) or _PEAK.search(self.stderr)
        return int(float(found[1]) * _UNITS[found[2].upper()]) if found else None


def _leftovers(output, before):
    return sorted(p.name for p in output.parent.iterdir() if p not in before)


def convert(model, output, options=(), cpu_seconds=60):
    model, output = pathlib.Path(model), pathlib.Path(output)
    before = set(output.parent.iterdir())
    start = time.monotonic()
    try:
        done = run("convert", model, "-o", output, *options, cpu_seconds=cpu_seconds, errors="replace")
    except subprocess.TimeoutExpired as error:
        return Conversion("broken", f"lowtide needs more than {error.timeout:g} s", seconds=error.timeout)
    result = Conversion("converted", "", done.returncode, done.stdout, done.stderr, time.monotonic() - start)
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    if done.returncode == 0:
        if not output.is_file():
            result.status, result.reason = "broken", "exit status 0 without an output file"
        return result
    result.status, result.reason = "refused", " | ".join(lines)
    left = _leftovers(output, before)
    if done.returncode == -signal.SIGXCPU:
        result.status, result.reason = "broken", f"lowtide needs more than {cpu_seconds:g} s of CPU time"
    elif done.returncode < 0:
        result.status = "broken"
        result.reason = f"lowtide died with {signal.Signals(-done.returncode).name}: {result.reason}"
    elif done.returncode in _BUGS:
        result.status, result.reason = "broken", f"exit status {done.returncode}: {result.reason}"
    elif not lines:
        result.status, result.reason = "broken", f"exit status {done.returncode} without an error message"
    elif left:
        result.status, result.reason = "broken", f"failed ({result.reason}) and left {', '.join(left)} behind"
    return result
