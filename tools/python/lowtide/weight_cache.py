# SPDX-License-Identifier: Apache-2.0
"""Where XNNPACK's packed weights are kept in a file.

With a weight cache, LiteRT maps packed weights from a file in place of a copy in anonymous memory. A cache is trusted
without a look: one of another model with the same shapes is used, and gives the other model's numbers. So by default it
is a new file of one session, and in a folder that the user gives, its name is the digest of all that it depends on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import pathlib
import platform
import stat
import tempfile
from collections.abc import Iterator

from . import memory
from .errors import NoSpace, NotFound, UnsafePath
from .tflite_header import Header

# A cache file is as large as the packed weights, which kernels pad to their tiles; measured: at most 1.001 times.
_RATIO = 1.1
_ROOM = 1 << 20


def _version() -> str:
    import importlib.metadata

    try:
        return importlib.metadata.version("ai-edge-litert")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _cpu_features() -> str:
    """What kernels are chosen by: the architecture and the flags of the processor."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return platform.machine() + " " + " ".join(sorted(line.partition(":")[2].split()))
    return platform.machine() + " " + platform.processor()


def cache_name(path: str, header: Header) -> str:
    """Name of a cache file: the digest of the model with its other files, the package's version and the processor."""
    digest = hashlib.sha256(f"{_version()}\n{_cpu_features()}\n".encode())
    for name in [path, *(os.path.join(os.path.dirname(path), other) for other in header.external_files)]:
        try:
            with open(name, "rb") as file:
                digest.update(f"{os.fstat(file.fileno()).st_size}\n".encode())
                while True:
                    block = file.read(1 << 20)
                    if not block:
                        break
                    digest.update(block)
        except OSError as error:
            raise NotFound(f"{name}: cannot be read: {error.strerror}", file=name) from error
    return digest.hexdigest() + ".xnnpack"


def _own_folder(cache: str) -> pathlib.Path:
    """The user's cache folder; nobody else may write there, because a cache decides the numbers of a model."""
    folder = pathlib.Path(cache)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise NotFound(f"{folder}: the cache folder cannot be made: {error.strerror}", file=cache) from error
    if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UnsafePath(
            f"{folder}: the cache folder must be this user's, and writable by nobody else: chmod go-w", file=cache
        )
    return folder


def _places(path: str) -> Iterator[pathlib.Path]:
    """Folders for a private cache: on a disk, because pages of tmpfs are memory."""
    for folder in dict.fromkeys([tempfile.gettempdir(), "/var/tmp", os.path.dirname(os.path.abspath(path))]):
        if os.access(folder, os.W_OK) and memory.is_on_disk(pathlib.Path(folder)):
            yield pathlib.Path(folder)


@dataclasses.dataclass(frozen=True)
class CachePlace:
    """Where a cache goes: a folder with room for it, and its file if the user's folder keeps it."""

    folder: pathlib.Path
    kept: pathlib.Path | None


def cache_place(path: str, header: Header, cache: str | None) -> CachePlace | None:
    """The place for a model's cache; None if it fits on no disk.

    `cache` is the folder that the user gives. Then the model is read once for its digest.

    Raises
    ------
    NoSpace, NotFound, UnsafePath
        If it is given, and cannot be used.
    """
    need = int(_RATIO * header.constant_bytes) + _ROOM
    if cache is None:
        folder = next((folder for folder in _places(path) if memory.free_disk(folder) >= need), None)
        return None if folder is None else CachePlace(folder, None)
    folder = _own_folder(cache)
    kept = folder / cache_name(path, header)
    if not kept.exists() and memory.free_disk(folder) < need:
        raise NoSpace(f"{folder}: a weight cache of {memory.in_mib(need)} does not fit", file=cache)
    return CachePlace(folder, kept)
