# SPDX-License-Identifier: Apache-2.0
"""Inputs of a model, one sample at a time: from .npz files, or random.

A FILE.npz has an array for each input, of the input's shape (one sample) or with one axis more in front (samples). In a
folder each .npz file is a sample, in the order of their names; for a model with one input each .npy file as well. Files
are read sample by sample: memory does not grow with their number.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Union

import numpy as np

from .array_files import ArrayMember, ArrayZip
from .errors import Malformed, NotFound, Usage
from .other_files import check_regular
from .output_path import writing
from .port import Array, Port, Typed, check_types, checked_inputs
from .random_samples import RandomSamples
from .stored_arrays import write_arrays

PathLike = Union[str, "os.PathLike[str]"]
Sample = dict[str, Array]


@contextlib.contextmanager
def _arguments_file(path: str) -> Iterator[ArrayZip]:
    """An .npz file that is an argument: what is wrong with it is a wrong argument."""
    try:
        with contextlib.closing(ArrayZip(path)) as archive:
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
    with contextlib.closing(ArrayMember(path, os.path.basename(path), file, size)) as member:
        member.take_type(next(iter(ports.values())))
        _check_types(path, ports, {next(iter(ports)): member})
        return member.read(member.shape)


class _Archive:
    """An .npz file with one sample or more."""

    def __init__(self, path: str, ports: Mapping[str, Port]) -> None:
        self._path, self._ports = path, ports
        self._zip = ArrayZip(path)
        self._members: dict[str, ArrayMember] = {}
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
