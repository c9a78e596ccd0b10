# SPDX-License-Identifier: Apache-2.0
"""A program under a limit of the kernel's: its memory, and the page cache of what it reads and writes.

    with MemoryLimit(64 << 20) as limit:
        subprocess.run(command, preexec_fn=limit.enter)
        print(limit.figures())

Cgroups of version 1 and 2, beside or below the one that this process is in. The trap: a cached page is charged to who
touched it first, so files that stand in the cache cost the limited program nothing: evict() them.
"""

import os
import pathlib


class Unavailable(Exception):
    """No cgroup can be made here; the text says why."""


def evict(*paths):
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def _mounted():
    """(version, the folder of this process's cgroup, the root of its hierarchy) where memory is controlled."""
    own = {}
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        own[controllers] = path.lstrip("/")
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        fields, (kind, _, options) = line.split(" - ")[0].split(), line.split(" - ")[1].split()
        root = pathlib.Path(fields[4])
        if kind == "cgroup" and "memory" in options.split(","):
            controllers = next(key for key in own if "memory" in key.split(","))
            return 1, root / own[controllers], root
        if kind == "cgroup2" and "memory" in (root / "cgroup.controllers").read_text().split():
            return 2, root / own[""], root
    raise Unavailable("no memory controller is mounted")


def _parent():
    """(version, the folder that a limited cgroup can be made in)."""
    version, own, root = _mounted()
    if version == 1:
        return version, own
    # In version 2 a cgroup with processes cannot hand the controller on, so the first ancestor is taken that does.
    for folder in [own, *own.parents]:
        if "memory" in (folder / "cgroup.subtree_control").read_text().split():
            return version, folder
        if folder == root:
            break
    raise Unavailable("no cgroup above this process hands the memory controller on")


class MemoryLimit:
    _FILES = {1: ("memory.limit_in_bytes", "memory.max_usage_in_bytes"), 2: ("memory.max", "memory.peak")}

    def __init__(self, limit):
        """Bytes, or None: counted, not limited."""
        self._limit = limit

    def __enter__(self):
        try:
            self._version, parent = _parent()
            self._folder = parent / f"lowtide-{os.getpid()}"
            self._folder.mkdir()
        except OSError as error:
            raise Unavailable(f"a cgroup cannot be made here: {error}") from None
        try:
            if self._limit is not None:
                (self._folder / self._FILES[self._version][0]).write_text(str(self._limit))
        except OSError as error:
            self._folder.rmdir()
            raise Unavailable(f"the limit cannot be set: {error}") from None
        return self

    def procs(self):
        """The file that a process writes its number to when it comes in."""
        return self._folder / "cgroup.procs"

    def enter(self):
        """To be called in the child, before it becomes the program."""
        self.procs().write_text(str(os.getpid()))

    def figures(self):
        """(the most bytes that were ever charged, how often the limit was met)"""
        most = int((self._folder / self._FILES[self._version][1]).read_text())
        if self._version == 1:
            return most, int((self._folder / "memory.failcnt").read_text())
        events = dict(line.split() for line in (self._folder / "memory.events").read_text().splitlines())
        return most, int(events["max"])

    def __exit__(self, *_):
        if self._version == 1:  # what is still cached would go on being charged
            (self._folder / "memory.force_empty").write_text("0")
        self._folder.rmdir()
