# SPDX-License-Identifier: Apache-2.0
"""Inputs of a model, one sample at a time: from .npz files, or random.

A FILE.npz has an array for each input, of the input's shape (one sample) or with one axis more in front (samples). In a
folder each .npz file is a sample, in the order of their names; for a model with one input each .npy file as well. Files
are read sample by sample: memory does not grow with their number.
"""

from __future__ import annotations

import contextlib
import dataclasses
import lzma
import math
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any, Union

import numpy as np
import numpy.random  # noqa: F401 - numpy would load it at its first use, when an interrupt may come, which its C code loses

from . import small_floats
from .errors import Malformed, NotFound, Usage
from .other_files import check_regular
from .output_path import writing
from .port import Array, Port, Typed, check_types, checked_inputs, unknown_name
from .stored_arrays import write_arrays

PathLike = Union[str, "os.PathLike[str]"]
Sample = dict[str, Array]
_MOST_ELEMENTS = 2**60 - 1  # of 8 bytes
# What zipfile and numpy raise for broken files, such as RuntimeError for encrypted ones and TokenError for headers that are
# no literals.
_BROKEN = (
    *(AttributeError, EOFError, LookupError, OSError, OverflowError),
    *(RuntimeError, SyntaxError, TypeError, ValueError),
    *(lzma.LZMAError, struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)


def random_sample(ports: Mapping[str, Port], shapes: Mapping[str, Sequence[int]], rng: np.random.Generator) -> Sample:
    """Floats from 0 to 1, 8-bit integers of the whole range, other integers 0 and 1.

    Raises
    ------
    Usage
        For an input of strings.
    """
    out = {}
    for name, port in ports.items():
        shape = tuple(shapes[name])
        _check_random_shape(name, shape)
        if port.dtype.kind in "OSU":
            raise Usage(f"input {name!r} is of strings, which have no random values: give arrays", input=name)
        if port.bits_of:
            out[name] = small_floats.random_bits(port.bits_of, shape, rng)
        elif port.dtype.name in ("int8", "uint8"):
            limits = np.iinfo(port.dtype)
            out[name] = rng.integers(limits.min, limits.max + 1, shape, port.dtype)
        elif port.dtype.kind in "biu":
            out[name] = rng.integers(0, 2, shape).astype(port.dtype)
        else:
            out[name] = np.asarray(rng.random(shape)).astype(port.dtype)
    return out


def generator(seed: int) -> np.random.Generator:
    """Random numbers.

    Raises
    ------
    Usage
    """
    if seed < 0:
        raise Usage(f"seed: {seed} is negative; give 0 or more")
    return np.random.default_rng(seed)


def resolved_shapes(
    ports: Mapping[str, Port], given: Mapping[str, Sequence[int]] | None, model: str
) -> tuple[dict[str, tuple[int, ...]], list[str]]:
    """Shapes for random inputs, and lines on dynamic extents that became 1.

    Raises
    ------
    Usage
        For a name that is no input, or a shape that does not fit.
    """
    given = {} if given is None else given
    for name in given:
        if name not in ports:
            raise unknown_name("input", name, ports)
    shapes, lines = {}, []
    for name, port in ports.items():
        if port.shape is None:
            if name not in given:
                raise Usage(
                    f"{model}: input {name!r} is {port}: the model does not say how many dimensions it has; give its shape "
                    f"(--shape {name}=EXTENTS), or arrays",
                    input=name,
                )
            shapes[name] = tuple(given[name])
            continue
        shape = tuple(given.get(name, [n if isinstance(n, int) else 1 for n in port.shape]))
        if len(shape) != len(port.shape) or any(isinstance(n, int) and n != m for n, m in zip(port.shape, shape)):
            raise Usage(f"{model}: input {name!r} is {port}, not {list(shape)}", input=name)
        if name not in given and shape != port.shape:
            lines.append(f"input {name!r} is {port}; dynamic dimensions are 1 here, see --shape")
        shapes[name] = shape
    return shapes, lines


def _check_random_shape(name: str, shape: Sequence[int]) -> None:
    """That numpy can count the bytes; whether there is memory for them shows when they are made.

    Raises
    ------
    Usage
    """
    if math.prod(max(n, 1) for n in shape) > _MOST_ELEMENTS:
        raise Usage(f"input {name!r}: no array has as many elements as {list(shape)}; give a smaller shape", input=name)


@contextlib.contextmanager
def _arguments_file(path: str) -> Iterator[_Zip]:
    """An .npz file that is an argument: what is wrong with it is a wrong argument."""
    try:
        with contextlib.closing(_Zip(path)) as archive:
            yield archive
    except Malformed as error:
        raise Usage(str(error), file=path) from error


def array_names(path: str) -> list[str]:
    """Names of the arrays of an .npz file.

    Raises
    ------
    NotFound, Usage
    """
    with _arguments_file(path) as archive:
        return archive.names


def read_arrays(path: str, ports: Mapping[str, Port]) -> dict[str, Array]:
    """The arrays of an .npz file, one for each input of a model, by their names.

    Raises
    ------
    NotFound, Usage
        Usage: an array whose name, element type or shape does not fit, of which no element is read then; strings that are
        not Unicode.
    """
    with _arguments_file(path) as archive, contextlib.ExitStack() as stack:
        members = {name: stack.enter_context(contextlib.closing(archive.member(name))) for name in archive.names}
        for name, member in members.items():
            if name in ports:
                member.take_type(ports[name])
        _check_types(path, ports, members)
        return _checked(path, ports, {name: member.read(member.shape) for name, member in members.items()})


def _why(error: BaseException) -> str:
    """One short line. numpy's advice to allow what a stranger's file wants is no advice to follow."""
    text = " ".join(str(error).split()).partition(" To allow loading")[0]
    return (text[:200] + ("..." if len(text) > 200 else "")) or type(error).__name__


class _Member:
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


def sample_files(source: PathLike) -> list[str]:
    """The files that samples are read from: a file, or what is in a folder."""
    path = os.fspath(source)
    try:
        return [os.path.join(path, name) for name in os.listdir(path)]
    except OSError:  # a file, or nothing: reading it reports that
        return [path]


class Samples:
    """Samples for a model.

    Parameters
    ----------
    source : path
        A folder or an .npz file.
    ports : mapping of str to Port
        The model's inputs.

    Raises
    ------
    NotFound, Malformed, Usage
        Usage: an array whose name, element type or shape does not fit; the message names the file, the input and both
        shapes. Each file of a folder is checked when its turn comes.
    """

    def __init__(self, source: PathLike, ports: Mapping[str, Port]) -> None:
        self._source, self._ports = os.fspath(source), ports
        if os.path.isdir(self._source):
            try:
                names = sorted(os.listdir(self._source))
            except OSError as error:
                raise NotFound(f"{self._source}: cannot be read: {error.strerror}", file=self._source) from error
            ends = (".npz", ".npy") if len(ports) == 1 else (".npz",)
            self._files = [os.path.join(self._source, name) for name in names if name.endswith(ends)]
            if not self._files:
                raise NotFound(
                    f"{self._source}: has no file {' or '.join('*' + end for end in ends)}", file=self._source
                )
            self.count = len(self._files)
        else:
            self._files = []
            with contextlib.closing(_Archive(self._source, ports)) as archive:
                self.count = archive.count

    def __iter__(self) -> Iterator[Sample]:
        if not self._files:
            with contextlib.closing(_Archive(self._source, self._ports)) as archive:
                yield from archive
            return
        for path in self._files:
            yield self._of_file(path)

    def _of_file(self, path: str) -> Sample:
        if path.endswith(".npy"):
            return _checked(path, self._ports, {next(iter(self._ports)): _array_in(path, self._ports)})
        with contextlib.closing(_Archive(path, self._ports)) as archive:
            if archive.count != 1 or archive.stacked:
                name = next(iter(self._ports))
                raise Usage(
                    f"{path}: input {name!r} is {self._ports[name]}, not {list(archive.shape_of(name))}: each file of "
                    "the folder is one sample",
                    file=path,
                    input=name,
                )
            return next(iter(archive))


def _array_in(path: str, ports: Mapping[str, Port]) -> Array:
    """The array in an .npy file, for the only input."""
    check_regular(path)
    try:
        file = open(path, "rb")  # noqa: SIM115
        size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise NotFound(f"{path}: cannot be read: {error.strerror or error}", file=path) from error
    with contextlib.closing(_Member(path, os.path.basename(path), file, size)) as member:
        member.take_type(next(iter(ports.values())))
        _check_types(path, ports, {next(iter(ports)): member})
        return member.read(member.shape)


class _Zip:
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

    def member(self, name: str) -> _Member:
        try:
            info = self._zip.getinfo(name + ".npy")
            file = self._zip.open(info)
        except _BROKEN as error:
            raise Malformed(f"{self._path}: array {name!r} cannot be read: {_why(error)}", file=self._path) from error
        return _Member(self._path, name, file, info.file_size)

    def close(self) -> None:
        self._zip.close()


class _Archive:
    """An .npz file with one sample or more."""

    def __init__(self, path: str, ports: Mapping[str, Port]) -> None:
        self._path, self._ports = path, ports
        self._zip = _Zip(path)
        self._members: dict[str, _Member] = {}
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        given = self._zip.names
        for name in given:
            if name not in self._ports:
                raise Usage(
                    f"{self._path}: array {name!r} is no input of the model; its inputs are "
                    f"{', '.join(map(repr, self._ports))}",
                    file=self._path,
                    input=name,
                )
        for name in self._ports:
            if name not in given:
                raise Usage(f"{self._path}: no array for input {name!r}", file=self._path, input=name)
            self._members[name] = self._zip.member(name)
            self._members[name].take_type(self._ports[name])
        self.stacked, self.count = False, 1
        counts: dict[str, int] = {}
        for name, port in self._ports.items():
            shape = self.shape_of(name)
            if port.shape is not None and len(shape) == len(port.shape) + 1:
                counts[name] = shape[0]
        if counts:
            # The others tell it of inputs that may have any number of dimensions; without others there is one sample.
            for name, port in self._ports.items():
                if port.shape is None and self.shape_of(name):
                    counts[name] = self.shape_of(name)[0]
            self.stacked = True
            for name, port in self._ports.items():
                if name not in counts or len(set(counts.values())) > 1:
                    shapes = ", ".join(f"{other!r} {list(self.shape_of(other))}" for other in self._ports)
                    raise Usage(
                        f"{self._path}: the inputs do not have the same number of samples in front: {shapes}; input "
                        f"{name!r} is {port}",
                        file=self._path,
                        input=name,
                    )
                if self._members[name].by_column and counts[name] > 1:
                    raise Usage(
                        f"{self._path}: array {name!r} is in column-major order, so that its samples are not one behind "
                        "the other; write it with numpy.ascontiguousarray",
                        file=self._path,
                        input=name,
                    )
            self.count = next(iter(counts.values()))
            if self.count == 0:
                raise Usage(f"{self._path}: has no samples", file=self._path)
        shapes_of_one = {
            name: _OfOneSample(member.dtype, member.shape[1:] if self.stacked else member.shape)
            for name, member in self._members.items()
        }
        _check_types(self._path, self._ports, shapes_of_one)

    def shape_of(self, name: str) -> tuple[int, ...]:
        return tuple(self._members[name].shape)

    def __iter__(self) -> Iterator[Sample]:
        for _ in range(self.count):
            arrays = {
                name: member.read(member.shape[1:] if self.stacked else member.shape)
                for name, member in self._members.items()
            }
            yield _checked(self._path, self._ports, arrays)

    def close(self) -> None:
        for member in self._members.values():
            member.close()
        self._zip.close()


@dataclasses.dataclass(frozen=True)
class _OfOneSample:
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


def _check_types(path: str, ports: Mapping[str, Port], given: Mapping[str, Typed]) -> None:
    """Before the elements are read: a small packed file may declare any number of them."""
    try:
        check_types(ports, given)
    except Usage as error:
        raise Usage(f"{path}: {error}", file=path, input=error.input) from error


def _checked(path: str, ports: Mapping[str, Port], arrays: Sample) -> Sample:
    try:
        return checked_inputs(ports, arrays)
    except Usage as error:
        raise Usage(f"{path}: {error}", file=path, input=error.input) from error


class RandomSamples:
    """The same random samples each time that they are gone through."""

    def __init__(self, count: int, seed: int, ports: Mapping[str, Port], shapes: Mapping[str, Sequence[int]]) -> None:
        generator(seed)  # for its error
        self.count, self._seed, self._ports, self._shapes = count, seed, ports, shapes

    def __iter__(self) -> Iterator[Sample]:
        rng = generator(self._seed)
        for _ in range(self.count):
            yield random_sample(self._ports, self._shapes, rng)


class GivenSamples:
    """Samples that are in memory."""

    def __init__(self, arrays: Sequence[Mapping[str, Array]], ports: Mapping[str, Port]) -> None:
        self._arrays = [checked_inputs(ports, given) for given in arrays]
        self.count = len(self._arrays)

    def __iter__(self) -> Iterator[Sample]:
        return iter(self._arrays)


class StoredSamples:
    """Samples that a run of something else makes, on disk: memory does not grow with their number.

    Parameters
    ----------
    folder : str
        A folder of temporaries, which is made.
    names : sequence of str
        The inputs that each sample has.
    """

    def __init__(self, folder: str, names: Sequence[str]) -> None:
        self._folder, self.names, self.count = folder, names, 0
        with writing(folder):
            os.mkdir(folder)

    def _path(self, i: int) -> str:
        return os.path.join(self._folder, f"{i}.npz")

    def add(self, values: Mapping[str, Array]) -> None:
        """The next sample; `values` may have more than its inputs.

        Raises
        ------
        Io
            If it cannot be written.
        """
        # By number: a name may be one that the format cannot hold.
        write_arrays(self._path(self.count), {str(j): values[name] for j, name in enumerate(self.names)})
        self.count += 1

    def __iter__(self) -> Iterator[Sample]:
        for i in range(self.count):
            with np.load(self._path(i), allow_pickle=False) as file:
                yield {name: file[str(j)] for j, name in enumerate(self.names)}


class ChangedSamples:
    """Other samples, each changed when its turn comes."""

    def __init__(self, samples: AnySamples, change: Callable[[Sample], Sample]) -> None:
        self.count: int = samples.count
        self._samples, self._change = samples, change

    def __iter__(self) -> Iterator[Sample]:
        return map(self._change, self._samples)


AnySamples = Union[Samples, RandomSamples, GivenSamples, StoredSamples, ChangedSamples]
