# SPDX-License-Identifier: Apache-2.0
"""What a .tflite file says of its signatures, tensors and constants, read without any runtime.

A flatbuffer is read where it is, in a mapped file: only pages of the header are touched, and of each inline constant
the one with its length. Positions come from the file, so each is checked against its size (by struct, which raises).
"""

from __future__ import annotations

import dataclasses
import mmap
import os
import struct
from collections.abc import Iterable, Iterator
from typing import Any

from .errors import Malformed, NotFound
from .other_files import check_name, check_regular, open_regular

# TensorType (schemas/tflite.fbs): numpy's name, or ml_dtypes' name; None where Python has no such array.
TYPE_NAMES: dict[int, str | None] = {
    0: "float32",
    1: "float16",
    2: "int32",
    3: "uint8",
    4: "int64",
    5: "object",
    6: "bool",
    7: "int16",
    8: "complex64",
    9: "int8",
    10: "float64",
    11: "complex128",
    12: "uint64",
    13: None,
    14: None,
    15: "uint32",
    16: "uint16",
    17: "int4",
    18: "bfloat16",
    19: "int2",
    20: "uint4",
    21: "float8_e4m3fn",
    22: "float8_e5m2",
}
_FLOAT16 = 1
# The limit of the runtimes' verifiers, and of the program's (stream/tflite/flatbuffer_verifier.h).
_MOST_TABLES = 1_000_000


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A tensor of a subgraph; None in `shape` is a dimension that only the run knows."""

    index: int
    name: str
    type: int
    shape: tuple[int | None, ...]


@dataclasses.dataclass(frozen=True)
class Signature:
    """Names for inputs and outputs of a subgraph: (name, tensor), in the order of the file."""

    key: str
    subgraph: int
    inputs: tuple[tuple[str, Tensor], ...]
    outputs: tuple[tuple[str, Tensor], ...]


@dataclasses.dataclass(frozen=True)
class Header:
    """The parts of a file that running it needs.

    Attributes
    ----------
    signatures : list of Signature
        At least one: a file without any has one with the empty key and the names of the tensors.
    tensors : list of list of Tensor
        By subgraph.
    constant_bytes : int
        Bytes of all constants, half floats counted as floats: the size of XNNPACK's packed copy.
    external_files : list of str
        Names of other files with constants, which are below the file's folder.
    has_state : bool
        True if a variable tensor keeps its value from one run to the next.
    """

    signatures: list[Signature]
    tensors: list[list[Tensor]]
    constant_bytes: int
    external_files: list[str]
    has_state: bool


class Table:
    """A table of the flatbuffer at a position."""

    def __init__(self, data: mmap.mmap, at: int) -> None:
        self._data, self.at = data, at
        self._fields = at - number_at(data, "<i", at)
        self._size = number_at(data, "<H", self._fields)

    def place(self, slot: int) -> int:
        """Where a field is; 0 if it is absent."""
        entry = 4 + 2 * slot
        if entry + 2 > self._size:
            return 0
        offset = number_at(self._data, "<H", self._fields + entry)
        return self.at + offset if offset else 0

    def number(self, slot: int, form: str) -> int:
        at = self.place(slot)
        return number_at(self._data, form, at) if at else 0

    def _target(self, slot: int) -> int:
        at = self.place(slot)
        return at + number_at(self._data, "<I", at) if at else 0

    def vector(self, slot: int, width: int) -> tuple[int, int]:
        """Where the first element of a vector is, and how many there are; 0, 0 without it."""
        at = self._target(slot)
        if not at:
            return 0, 0
        count = number_at(self._data, "<I", at)
        if at + 4 + count * width > len(self._data):
            raise struct.error("a vector ends behind the file")
        return at + 4, count

    def length(self, slot: int) -> int:
        return self.vector(slot, 1)[1]

    def text(self, slot: int, errors: str = "replace") -> str:
        at, count = self.vector(slot, 1)
        return self._data[at : at + count].decode("utf-8", errors) if count else ""

    def numbers(self, slot: int, form: str) -> tuple[Any, ...]:
        """A vector of numbers of struct's form, such as "f"."""
        at, count = self.vector(slot, struct.calcsize("<" + form))
        return struct.unpack_from(f"<{count}{form}", self._data, at) if count else ()

    def integers(self, slot: int) -> tuple[int, ...]:
        return self.numbers(slot, "i")

    def children(self, slot: int) -> list[Table]:
        """The table in a field, if it is there."""
        at = self._target(slot)
        return [Table(self._data, at)] if at else []

    def tables(self, slot: int) -> Iterator[Table]:
        at, count = self.vector(slot, 4)
        for i in range(count):
            place = at + 4 * i
            yield Table(self._data, place + number_at(self._data, "<I", place))


def number_at(data: mmap.mmap, form: str, at: int) -> int:
    if at < 0:  # struct would count from the end
        raise struct.error("a position in front of the file")
    value: int = struct.unpack_from(form, data, at)[0]
    return value


def tensor_of(index: int, table: Table) -> Tensor:
    """The tensor in a table of the file."""
    shape = table.integers(7) or table.integers(0)
    return Tensor(index, table.text(3), table.number(1, "<b"), tuple(n if n >= 0 else None for n in shape))


def root_table(path: str, data: mmap.mmap) -> Table:
    """The model in a file.

    Raises
    ------
    Malformed
        If it is none, or if it has so many tables that the runtimes refuse it: a small file can refer to one table many times.
    struct.error
        If it is damaged.
    """
    if data[4:8] != b"TFL3":
        raise Malformed(f"{path}: not a TFLite file", file=path)
    model = Table(data, number_at(data, "<I", 0))
    count = sum(model.vector(slot, 4)[1] for slot in (1, 2, 4, 6, 7, 8, 9))
    # Of subgraphs the tensors and operators, of signatures the inputs and outputs.
    for slots, parent in (((0, 3), 2), ((0, 1), 7)):
        for table in model.tables(parent) if count <= _MOST_TABLES else ():
            count += sum(table.vector(slot, 4)[1] for slot in slots)
    if count > _MOST_TABLES:
        raise Malformed(
            f"{path}: the flatbuffer has more than {_MOST_TABLES} tables, the limit of the runtimes", file=path
        )
    return model


def different(tables: Iterable[Table]) -> Iterable[Table]:
    """Each table once: a file that was cut (tflite_graph.py) has one for all tensors that it does not use."""
    return {table.at: table for table in tables}.values()


def _tensors(tables: Iterable[Table]) -> list[Tensor]:
    known: dict[int, Tensor] = {}
    out = []
    for i, table in enumerate(tables):
        tensor = known.get(table.at)
        if tensor is None:
            tensor = known[table.at] = tensor_of(i, table)
        out.append(tensor if tensor.index == i else Tensor(i, tensor.name, tensor.type, tensor.shape))
    return out


def _constant_bytes(model: Table, graphs: list[Table]) -> int:
    sizes = [buffer.length(0) or buffer.number(2, "<Q") for buffer in model.tables(4)]
    external = {entry.number(0, "<I"): entry.number(3, "<Q") for entry in model.tables(9)}
    seen = set()
    total = 0
    for graph in different(graphs):
        for tensor in different(graph.tables(0)):
            buffer, outside = tensor.number(2, "<I"), tensor.number(10, "<I")
            if (buffer, outside) in seen or buffer >= len(sizes):
                continue
            seen.add((buffer, outside))
            count = external.get(outside, 0) if outside else sizes[buffer]
            total += 2 * count if tensor.number(1, "<b") == _FLOAT16 else count
    return total


def _signatures(model: Table, graphs: list[Table], tensors: list[list[Tensor]]) -> list[Signature]:
    def ports(entries: Iterator[Table], tensors: list[Tensor]) -> tuple[tuple[str, Tensor], ...]:
        return tuple((entry.text(0), tensors[entry.number(1, "<I")]) for entry in entries)

    tables = list(model.tables(7))
    found = {}
    for table in different(tables):
        graph = table.number(4, "<I")
        found[table.at] = Signature(
            table.text(2), graph, ports(table.tables(0), tensors[graph]), ports(table.tables(1), tensors[graph])
        )
    if found:
        return [found[table.at] for table in tables]
    sides = [tuple((tensors[0][i].name, tensors[0][i]) for i in graphs[0].integers(slot)) for slot in (1, 2)]
    return [Signature("", 0, *sides)]


def read_header(path: str, files: frozenset[str] | None = None) -> Header:
    """Reads the header of a .tflite file.

    Parameters
    ----------
    path : str
        The file.
    files : frozenset of str or None
        The only other files that it may name; None lets it name any below its folder.

    Raises
    ------
    NotFound, Malformed
        If there is no such file, or if it is not a TFLite file.
    UnsafePath
        If it has constants in a file that it must not name. LiteRT opens whatever name it finds.
    """
    try:
        with open(open_regular(path), "rb") as file:
            if os.fstat(file.fileno()).st_size < 16:
                raise Malformed(f"{path}: not a TFLite file", file=path)
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise NotFound(f"{path}: cannot be opened: {error.strerror}", file=path) from error
    with data:
        try:
            model = root_table(path, data)
            graphs = list(model.tables(2))
            by_place = {graph.at: _tensors(graph.tables(0)) for graph in different(graphs)}
            tensors = [by_place[graph.at] for graph in graphs]
            # A name that is not UTF-8 stays what it is, and the name of that file alone.
            others = [group.text(0, "surrogateescape") for group in model.tables(8)]
            for name in others:
                check_name(path, name, files)
                check_regular(os.path.join(os.path.dirname(path), name))
            return Header(
                _signatures(model, graphs, tensors),
                tensors,
                _constant_bytes(model, graphs),
                others,
                any(tensor.number(5, "<b") for graph in different(graphs) for tensor in different(graph.tables(0))),
            )
        except (struct.error, IndexError) as error:
            raise Malformed(f"{path}: the flatbuffer is damaged: {error}", file=path) from error
