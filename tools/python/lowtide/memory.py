# SPDX-License-Identifier: Apache-2.0
"""Memory of this process and of the machine, in bytes.

What counts is anonymous memory: the system cannot take it back. Pages of a mapped file it drops when memory is short.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import re
import resource
from collections.abc import Iterable, Iterator
from typing import TypeVar

from .errors import Usage

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_IN_MEMORY = {"tmpfs", "ramfs"}


def size(name: str, value: int | str) -> int:
    """Bytes of a size such as 67108864, "64M" or "0.5G"; K, M, G are powers of 1024, as for the program.

    Raises
    ------
    TypeError, Usage
        If it is not a size above 0.
    """
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError(f"{name} must be an int or a str, not {type(value).__name__}")
    found = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)([KMGT]?)(i?B?)", str(value), re.IGNORECASE)
    count = int(float(found[1]) * _UNITS[found[2].upper()]) if found else 0
    if count < 1:
        raise Usage(f"{name}: {value!r} is not a size such as '64M' or '0.5G'")
    return count


def in_mib(count: int) -> str:
    """ "12.3 MiB"."""
    return f"{count / 2**20:.1f} MiB"


_Key = TypeVar("_Key")


def in_groups(sizes: Iterable[tuple[_Key, int]], limit: int) -> list[list[_Key]]:
    """Keys in their order, in groups whose sizes add up to at most `limit`; one that is larger is alone."""
    groups: list[list[_Key]] = []
    left = 0
    for key, size in sizes:
        if not groups or size > left:
            groups.append([])
            left = limit
        groups[-1].append(key)
        left -= size
    return groups


def _kib_lines(path: str) -> dict[str, int]:
    values = {}
    with contextlib.suppress(OSError):
        for line in pathlib.Path(path).read_text().splitlines():
            name, _, rest = line.partition(":")
            number = rest.split()
            if number and number[0].isdigit():
                values[name] = int(number[0]) * 1024
    return values


def resident() -> tuple[int, int, int]:
    """Anonymous and file-backed resident memory of this process, and the highest sum that there was."""
    status = _kib_lines("/proc/self/status")
    return status.get("RssAnon", 0), status.get("RssFile", 0) + status.get("RssShmem", 0), status.get("VmHWM", 0)


def _cgroup_room() -> int | None:
    """What is left of the limits of the version-2 control groups that this process is in."""
    room = None
    try:
        lines = pathlib.Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    paths = [line[3:] for line in lines if line.startswith("0::")]
    for path in paths:
        folder = pathlib.Path("/sys/fs/cgroup") / path.lstrip("/")
        for level in (folder, *folder.parents):
            with contextlib.suppress(OSError, ValueError):
                limit = int((level / "memory.max").read_text())
                stat = dict(line.split() for line in (level / "memory.stat").read_text().splitlines())
                here = limit - int(stat.get("anon", 0))
                room = here if room is None else min(room, here)
            if str(level) == "/sys/fs/cgroup":
                break
    return room


def available() -> int:
    """What this process may still take without pushing others out."""
    of_machine = _kib_lines("/proc/meminfo").get("MemAvailable", 1 << 62)
    of_group = _cgroup_room()
    return of_machine if of_group is None else min(of_machine, max(of_group, 0))


def trim() -> None:
    """Gives freed blocks of the C heap back to the system; without it, a runtime that is closed keeps its memory."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


_DONTNEED = 4  # of <sys/mman.h>


def release_mapped(paths: Iterable[str]) -> None:
    """Lets the pages of mapped files go; they stay in the system's cache, and come back when they are read again.

    ONNX Runtime maps weights so that it could write to them. Mappings in which a page was written are left alone: such
    a page is no longer the file's, and would be lost.
    """
    files = {os.path.realpath(path) for path in paths}
    with contextlib.suppress(AttributeError, OSError):
        advise = ctypes.CDLL(None).madvise
        advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        for begin, end in _clean_mappings(files):
            advise(begin, end - begin, _DONTNEED)


def _clean_mappings(files: set[str]) -> Iterator[tuple[int, int]]:
    """Addresses of private mappings of files, none of whose pages was written."""
    place: tuple[int, int] | None = None
    for line in pathlib.Path("/proc/self/smaps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        if not fields[0].endswith(":"):  # a mapping begins: its addresses, rights, and so on
            is_one = len(fields) == 6 and fields[1].endswith("p") and fields[5] in files
            begin, end = (int(number, 16) for number in fields[0].split("-"))
            place = (begin, end) if is_one else None
        elif fields[0] == "Anonymous:" and place is not None and fields[1] == "0":
            yield place


def _file_systems() -> Iterator[tuple[str, str]]:
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
            before, _, after = line.partition(" - ")
            point = before.split()[4].encode().decode("unicode_escape", "replace")
            yield point, after.split()[0]


def is_on_disk(folder: pathlib.Path) -> bool:
    """False where files of a folder are memory themselves (tmpfs)."""
    path = os.path.realpath(folder)
    best, kind = "", ""
    for point, name in _file_systems():
        if (path == point or path.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
            best, kind = point, name
    return kind not in _IN_MEMORY


def free_disk(folder: pathlib.Path) -> int:
    """Bytes that a file in a folder can take."""
    try:
        system = os.statvfs(folder)
    except OSError:
        return 0
    largest = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    free = system.f_bavail * system.f_frsize
    return free if largest == resource.RLIM_INFINITY else min(free, largest)
