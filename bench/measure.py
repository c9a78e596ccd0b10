# SPDX-License-Identifier: Apache-2.0
"""What several benchmarks use: the program, the state of the page cache, a timed run, the machine, a model's operators
and its latency in LiteRT."""

import json
import os
import pathlib
import resource
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
LOWTIDE = pathlib.Path(os.environ.get("LOWTIDE", ROOT / "build/release/lowtide")).resolve()


def drop_from_cache(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def warm(path):
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 22):
            pass


def run_once(command, outputs, inputs, cold):
    """Seconds of wall time and of CPU time (user and system) of a command that makes `outputs`. Before it the outputs
    are removed, the disk is left in peace, and the inputs are put into the page cache, or dropped from it."""
    for path in outputs:
        path.unlink(missing_ok=True)
    os.sync()
    for path in inputs:
        drop_from_cache(path) if cold else warm(path)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def seconds(command, outputs, inputs, cold):
    return run_once(command, outputs, inputs, cold)[0]


def first_line(path):
    try:
        return pathlib.Path(path).read_text().split("\n", 1)[0].strip()
    except OSError:
        return ""


def reports_free_pages():
    """Whether the system gives free memory back to a host, so that to use it again takes time (Linux as a guest)."""
    return pathlib.Path("/sys/module/page_reporting").is_dir()


class OthersWork:
    """The share of all processors that went elsewhere since it was made: other programs, the kernel, the host."""

    def __init__(self):
        self.begin = self.now()

    @staticmethod
    def now():
        # user nice system idle iowait irq softirq steal
        ticks = [int(word) for word in first_line("/proc/stat").split()[1:9]]
        used = (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
        own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return time.monotonic(), used - sum(usage.ru_utime + usage.ru_stime for usage in own)

    def __str__(self):
        (start, before), (end, after) = self.begin, self.now()
        return f"{max(0.0, (after - before) / (end - start) / os.cpu_count()):.0%}"


def machine(folder, with_load=True):
    """Cores, memory, the disk and file system of a folder, and what else runs: without them a time says nothing."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    found = subprocess.run(["findmnt", "-no", "SOURCE,FSTYPE,OPTIONS", "-T", folder], capture_output=True, text=True)
    source, kind, options = (found.stdout.split() + ["unknown"] * 3)[:3]
    device = os.stat(folder).st_dev
    block = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    queue = next((path / "queue" for path in (block, block.parent) if (path / "queue").is_dir()), block / "queue")
    turning = {"0": "no moving parts", "1": "turning"}.get(first_line(queue / "rotational"), "unknown kind")
    model = first_line(queue.parent / "device/model") or first_line(queue.parent / "device/vendor") or "no model named"
    limits = ", ".join(
        f"{name} {first_line(f'/proc/sys/vm/{name}')}" for name in ("dirty_background_ratio", "dirty_ratio")
    )
    return (
        f"{os.cpu_count()} cores, {memory / 2**30:.0f} GiB, Linux {os.uname().release} ({limits})\n"
        f"disk {source} ({model}, {turning}, read_ahead_kb {first_line(queue / 'read_ahead_kb')}), {kind} ({options})"
        + ("\nfree memory is reported to the host: sizes below 1 GiB are comparable" if reports_free_pages() else "")
        + (f"\n{load()}" if with_load else "")
    )


def load():
    running = first_line("/proc/loadavg").split()
    return f"load average {' '.join(running[:3])}, running tasks {running[3]}" if len(running) > 3 else "load unknown"


LATENCY = """
import sys, time, numpy as np
from ai_edge_litert.interpreter import Interpreter
files, rounds = sys.argv[2:], int(sys.argv[1])
runs = []
for file in files:
    try:
        it = Interpreter(file, num_threads=2)
        it.allocate_tensors()
        rng = np.random.default_rng(17)
        for d in it.get_input_details():
            it.set_tensor(d["index"], rng.random(d["shape"]).astype(d["dtype"]))
        it.invoke()
    except (RuntimeError, ValueError):
        it = None  # LiteRT does not run it
    runs.append((it, []))
for _ in range(rounds):
    for it, times in runs:
        start = time.monotonic()
        if it:
            it.invoke()
        times.append(time.monotonic() - start if it else float("nan"))
print(*(sorted(times)[len(times) // 2] for _, times in runs))
"""


def latencies(files, python, rounds):
    """Median seconds of each file in LiteRT, in turns; not a number where it does not run."""
    timing = subprocess.run([python, "-c", LATENCY, str(rounds), *files], capture_output=True, text=True)
    return [float(word) for word in timing.stdout.split()] or [float("nan")] * len(files)


def operators(tflite):
    listing = json.loads(subprocess.run([LOWTIDE, "inspect", "--json", tflite], check=True, capture_output=True).stdout)
    return listing["totals"]
