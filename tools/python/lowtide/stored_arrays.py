# SPDX-License-Identifier: Apache-2.0
"""Arrays as an .npz file, whatever their names are.

numpy.savez takes names as keywords, two of which are its own, and stores strings by pickle, which is unsafe to read from
an untrusted file.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping

import numpy as np

from .errors import Unsupported
from .output_path import replacing
from .port import Array

_LONGEST_NAME = 60_000  # bytes: a zip file counts them in 16 bits


def write_arrays(path: str, arrays: Mapping[str, Array]) -> None:
    """Writes arrays by their names; an old file is replaced when the new one is complete.

    Types of the package ml_dtypes, which the format does not know, are stored as their bytes: `array.view(dtype)`
    restores them if the type is known, as samples.py does.

    Raises
    ------
    Io
        If the file cannot be written.
    Unsupported
        For a name or a string that the format cannot hold.
    """
    stored = {_checked_name(path, name): _without_objects(path, name, array) for name, array in arrays.items()}
    with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in stored.items():
            with archive.open(name + ".npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _checked_name(path: str, name: str) -> str:
    if "\0" in name or len(name.encode("utf-8", "surrogatepass")) > _LONGEST_NAME or not _is_utf8(name):
        raise Unsupported(f"{path}: no array of an .npz file can be called {name[:100]!r}", file=path)
    return name


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _without_objects(path: str, name: str, array: Array) -> Array:
    """Strings as numpy's own type, which has no zero at the end of a string."""
    if array.dtype.kind != "O":
        return array
    try:
        texts = [text.decode() if isinstance(text, bytes) else str(text) for text in array.reshape(-1).tolist()]
    except UnicodeDecodeError as error:
        raise Unsupported(f"{path}: array {name!r} has strings that are not UTF-8", file=path) from error
    if any(text.endswith("\0") for text in texts):
        raise Unsupported(
            f"{path}: array {name!r} has a string that ends in a zero byte, which an .npz file does not keep", file=path
        )
    out: Array = np.array(texts, str).reshape(array.shape)
    return out
