# SPDX-License-Identifier: Apache-2.0
"""Arrays in .npz and .npy files of strangers: declared types and sizes are checked before anything is read or allocated."""

from __future__ import annotations

import lzma
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from typing import IO, Any

import numpy as np

from .errors import Malformed, NotFound
from .other_files import check_regular
from .port import Array, Port

# What zipfile and numpy raise for broken files, such as RuntimeError for encrypted ones and TokenError for headers that are
# no literals.
_BROKEN = (
    *(AttributeError, EOFError, LookupError, OSError, OverflowError),
    *(RuntimeError, SyntaxError, TypeError, ValueError),
    *(lzma.LZMAError, struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)


def _why(error: BaseException) -> str:
    """One short line. numpy's advice to allow what a stranger's file wants is no advice to follow."""
    text = " ".join(str(error).split()).partition(" To allow loading")[0]
    return (text[:200] + ("..." if len(text) > 200 else "")) or type(error).__name__


class ArrayMember:
    """An array in a file, read in pieces. `size`: of its header and its elements."""

    def __init__(self, path: str, name: str, file: IO[bytes], size: int) -> None:
        self._path, self.name, self._file = path, name, file
        try:
            self._read_header()
            self._check_size(size)
        except BaseException:
            self.close()
            raise

    def _read_header(self) -> None:
        try:
            version = np.lib.format.read_magic(self._file)
            readers: dict[tuple[int, int], Any] = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }
            if version not in readers:
                raise ValueError(f"version {version} of the array format")
            shape, self.by_column, dtype = readers[version](self._file)
            self.shape: tuple[int, ...] = shape
            self.dtype: np.dtype[Any] = dtype
        except (*_BROKEN, MemoryError) as error:  # Python's parser has no memory for deep headers
            raise self._malformed(error) from error

    def _check_size(self, size: int) -> None:
        if self.dtype.hasobject:
            raise Malformed(f"{self._path}: array {self.name!r} is of Python objects, not of numbers", file=self._path)
        if self.dtype.itemsize == 0:
            raise self._malformed(ValueError("its elements have no bytes"))
        if any(n < 0 for n in self.shape):
            raise self._malformed(ValueError(f"its shape {list(self.shape)} has a negative extent"))
        needed = math.prod(self.shape) * self.dtype.itemsize
        if needed > size:  # before anything of that size is allocated
            raise Malformed(
                f"{self._path}: array {self.name!r} ends early: its shape {list(self.shape)} needs {needed} bytes, and it "
                f"has at most {size}",
                file=self._path,
            )

    def take_type(self, port: Port) -> None:
        """Bytes without a type, as numpy stores the types of the package ml_dtypes, are of the input's type if that is one."""
        is_untyped = self.dtype.kind == "V" and self.dtype.names is None and self.dtype.subdtype is None
        if is_untyped and port.dtype.isbuiltin == 2 and port.dtype.itemsize == self.dtype.itemsize:
            self.dtype = port.dtype

    def _malformed(self, error: BaseException) -> Malformed:
        return Malformed(f"{self._path}: array {self.name!r} cannot be read: {_why(error)}", file=self._path)

    def read(self, shape: Sequence[int]) -> Array:
        """The next elements, as an array of a shape."""
        count = math.prod(shape) * self.dtype.itemsize
        try:
            data = self._file.read(count)
        except _BROKEN as error:
            raise self._malformed(error) from error
        if len(data) < count:
            raise Malformed(f"{self._path}: array {self.name!r} ends early", file=self._path)
        array: Array = np.frombuffer(data, self.dtype).reshape(shape, order="F" if self.by_column else "C")
        return array

    def close(self) -> None:
        self._file.close()


class ArrayZip:
    """The arrays of an .npz file by their names."""

    def __init__(self, path: str) -> None:
        self._path = path
        check_regular(path)
        try:
            self._zip = zipfile.ZipFile(path)
        except OSError as error:
            raise NotFound(f"{path}: cannot be read: {error.strerror or error}", file=path) from error
        except _BROKEN as error:
            raise Malformed(f"{path}: is not an .npz file: {_why(error)}", file=path) from error
        self.names = [name[: -len(".npy")] for name in self._zip.namelist() if name.endswith(".npy")]

    def member(self, name: str) -> ArrayMember:
        try:
            info = self._zip.getinfo(name + ".npy")
            file = self._zip.open(info)
        except _BROKEN as error:
            raise Malformed(f"{self._path}: array {name!r} cannot be read: {_why(error)}", file=self._path) from error
        return ArrayMember(self._path, name, file, info.file_size)

    def close(self) -> None:
        self._zip.close()
