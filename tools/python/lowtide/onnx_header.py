# SPDX-License-Identifier: Apache-2.0
"""The graph of an .onnx file without its weights.

ONNX Runtime loads weights that are inside of the .onnx file into anonymous memory, twice for a while; weights in
another file it maps. So a large
file is run by a skeleton: the same model, in which each large initializer is external data at its own place in the
original file. The file is walked by the headers of its fields; bytes of weights are never read.

Wire format (protobuf): a field is a varint key (number << 3 | type), then a varint (type 0), 8 bytes (1), a varint
length and so many bytes (2), or 4 bytes (5). A message may be given in parts, which are to be joined.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence

from .errors import Malformed, NotFound, Unsupported, Usage
from .other_files import check_name

# Tensors below this stay in the skeleton: a mapping each costs more.
SMALL = 16 * 1024
# protobuf's own limit, less some room.
_LARGEST = (1 << 31) - (1 << 20)
_WINDOW = 64 * 1024

# Field numbers of schemas/onnx.proto.
_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_INITIALIZER, _GRAPH_OUTPUT = 1, 5, 12
_NODE_OUTPUT, _NODE_OPERATOR, _NODE_ATTRIBUTE, _NODE_DOMAIN = 2, 4, 5, 7
_ATTRIBUTE_NAME, _ATTRIBUTE_TENSOR = 1, 5
_TENSOR_TYPE, _TENSOR_FLOATS, _TENSOR_NAME, _TENSOR_RAW, _TENSOR_DOUBLES = 2, 4, 8, 9, 10
_TENSOR_EXTERNAL, _TENSOR_LOCATION = 13, 14
_ENTRY_KEY, _ENTRY_VALUE = 1, 2
_HALVES = (10, 16)  # FLOAT16, BFLOAT16


@dataclasses.dataclass(frozen=True)
class Field:
    """A field of a message: its number, its wire type, and where it is in the file."""

    number: int
    kind: int
    begin: int  # of the key
    value: int  # of the content
    end: int
    varint: int = 0


@dataclasses.dataclass
class Skeleton:
    """A model without its large weights.

    Attributes
    ----------
    model : bytes
        The skeleton as an .onnx file. Its external data is relative to the root folder, and free of links: ONNX Runtime
        refuses a link that leads out of the folder that it is given, and caches of models are made of such links.
    tensors : list of str
        Outputs of the nodes of the main graph, in their order.
    weight_bytes : int
        Bytes of the large weights, those in other files included, half floats counted as floats.
    """

    model: bytes
    tensors: list[str]
    weight_bytes: int


@dataclasses.dataclass(frozen=True)
class Places:
    """Where the external data of a model is, if not beside it: a folder, and the files of it that may be read."""

    folder: str
    files: frozenset[str]


class Reader:
    """The bytes of a file through one window."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise NotFound(f"{path}: cannot be opened: {error.strerror}", file=path) from error
        self.size = os.fstat(self._fd).st_size
        self._window, self._begin = b"", 0

    def close(self) -> None:
        os.close(self._fd)

    def range(self, begin: int, end: int) -> bytes:
        if end - begin > _WINDOW:
            return self._read(begin, end - begin)
        if begin < self._begin or end > self._begin + len(self._window):
            self._window, self._begin = self._read(begin, min(_WINDOW, self.size - begin)), begin
        return self._window[begin - self._begin : end - self._begin]

    def _read(self, begin: int, count: int) -> bytes:
        try:
            data = os.pread(self._fd, count, begin)
            while data and len(data) < count:
                more = os.pread(self._fd, count - len(data), begin + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise NotFound(f"{self.path}: cannot be read: {error.strerror}", file=self.path) from error
        return data

    def malformed(self, at: int, what: str) -> Malformed:
        return Malformed(f"{self.path}: byte {at}: {what}; is it an ONNX model?", file=self.path, byte=at)

    def varint(self, at: int, end: int) -> tuple[int, int]:
        """A number, and where it ends."""
        value = 0
        for i, byte in enumerate(self.range(at, min(at + 10, end))):
            value |= (byte & 127) << (7 * i)
            if byte < 128:
                return value, at + i + 1
        raise self.malformed(at, "a number does not end")

    def fields(self, begin: int, end: int) -> Iterator[Field]:
        """The fields of the message in a range."""
        at = begin
        while at < end:
            key, value = self.varint(at, end)
            kind, varint = key & 7, 0
            if kind == 0:
                varint, stop = self.varint(value, end)
            elif kind == 2:
                length, value = self.varint(value, end)
                stop = value + length
            elif kind in (1, 5):
                stop = value + (8 if kind == 1 else 4)
            else:
                raise self.malformed(at, f"a field of the unknown type {kind}")
            if stop > end or key >> 3 == 0:
                raise self.malformed(at, f"field {key >> 3} ends behind what it is in")
            yield Field(key >> 3, kind, at, value, stop, varint)
            at = stop

    def text(self, field: Field) -> str:
        return self.range(field.value, field.end).decode("utf-8", "surrogateescape")


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def message(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def _entry(key: str, value: str) -> bytes:
    return message(_TENSOR_EXTERNAL, message(_ENTRY_KEY, _bytes(key)) + message(_ENTRY_VALUE, _bytes(value)))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


class _Builder:
    def __init__(self, reader: Reader, outputs: Sequence[str], places: Places | None) -> None:
        self._reader = reader
        self._wanted = list(dict.fromkeys(outputs))
        self._parts: list[bytes] = []
        self._graph: list[bytes] = []
        self._tensors: list[str] = []
        self._outputs: set[str] = set()
        self._weight_bytes = 0
        self._size = 0
        self._places = places
        self._folder = os.path.dirname(os.path.abspath(reader.path)) if places is None else places.folder
        self._own = _from_root(reader.path)

    def build(self) -> Skeleton:
        reader = self._reader
        graph_found = False
        for field in reader.fields(0, reader.size):
            if field.number == _MODEL_GRAPH and field.kind == 2:
                graph_found = True
                for inner in reader.fields(field.value, field.end):
                    self._add_to_graph(inner)
            else:
                self._parts.append(self._copied(field))
        if not graph_found:
            raise reader.malformed(0, "there is no graph")
        for name in self._wanted:
            if name not in self._outputs:
                self._graph.append(message(_GRAPH_OUTPUT, message(1, _bytes(name))))
        graph = b"".join(self._graph)
        self._graph.clear()
        return Skeleton(b"".join([*self._parts, message(_MODEL_GRAPH, graph)]), self._tensors, self._weight_bytes)

    def _copied(self, field: Field) -> bytes:
        self._size += field.end - field.begin
        if self._size > _LARGEST:
            raise Unsupported(
                f"{self._reader.path}: more than 2 GiB are not in weights of the main graph; ONNX Runtime "
                "cannot load that",
                file=self._reader.path,
            )
        return self._reader.range(field.begin, field.end)

    def _add_to_graph(self, field: Field) -> None:
        if field.number == _GRAPH_INITIALIZER and field.kind == 2:
            self._graph.append(self._initializer(field) or self._copied(field))
            return
        if field.number == _GRAPH_NODE and field.kind == 2:
            hoisted = self._constant(field) if field.end - field.value >= SMALL else None
            for part in self._reader.fields(field.value, field.end):
                if part.number == _NODE_OUTPUT and hoisted is None:
                    self._tensors.append(self._reader.text(part))
            self._graph.append(hoisted or self._copied(field))
            return
        if field.number == _GRAPH_OUTPUT and field.kind == 2:
            for part in self._reader.fields(field.value, field.end):
                if part.number == 1:
                    self._outputs.add(self._reader.text(part))
        self._graph.append(self._copied(field))

    def _constant(self, node: Field) -> bytes | None:
        """A large Constant node as an initializer; None if it is not one."""
        name, operator, domain = "", "", ""
        tensor: Field | None = None
        for part in self._reader.fields(node.value, node.end):
            if part.number == _NODE_OUTPUT:
                name = self._reader.text(part)
            elif part.number == _NODE_OPERATOR:
                operator = self._reader.text(part)
            elif part.number == _NODE_DOMAIN:
                domain = self._reader.text(part)
            elif part.number == _NODE_ATTRIBUTE and part.kind == 2:
                for inner in self._reader.fields(part.value, part.end):
                    if inner.number == _ATTRIBUTE_TENSOR and inner.kind == 2:
                        tensor = inner
        if operator != "Constant" or domain not in ("", "ai.onnx") or tensor is None:
            return None
        return self._initializer(tensor, name)

    def _initializer(self, tensor: Field, name: str | None = None) -> bytes | None:
        """A large tensor as external data in the file itself; None if it stays as it is.

        `name` replaces the tensor's own.
        """
        rest: list[Field] = []
        payload: Field | None = None
        external: dict[str, str] = {}
        elements = 0
        for part in self._reader.fields(tensor.value, tensor.end):
            if part.number in (_TENSOR_RAW, _TENSOR_FLOATS, _TENSOR_DOUBLES) and part.kind == 2:
                if payload is not None:
                    return None  # in parts
                payload = part
            elif part.number == _TENSOR_EXTERNAL and part.kind == 2:
                fields = {
                    entry.number: self._reader.text(entry)
                    for entry in self._reader.fields(part.value, part.end)
                    if entry.kind == 2
                }
                external[fields.get(_ENTRY_KEY, "")] = fields.get(_ENTRY_VALUE, "")
            else:
                if part.number == _TENSOR_TYPE:
                    elements = part.varint
                if part.number != _TENSOR_LOCATION and not (part.number == _TENSOR_NAME and name is not None):
                    rest.append(part)
        factor = 2 if elements in _HALVES else 1
        if external:
            if payload is not None:
                raise self._reader.malformed(tensor.begin, "a tensor that is inside and outside of the file")
            length = external.get("length", "")
            self._weight_bytes += factor * int(length) if length.isdigit() else 0
            external["location"] = self._location(external.get("location", ""))
        elif payload is None or payload.end - payload.value < SMALL:
            return None
        else:
            count = payload.end - payload.value
            self._weight_bytes += factor * count
            external = {"location": self._own, "offset": str(payload.value), "length": str(count)}
        pieces = [self._copied(part) for part in rest]
        if name is not None:
            pieces.append(message(_TENSOR_NAME, _bytes(name)))
        pieces += [_entry(key, value) for key, value in external.items()]
        pieces.append(varint(_TENSOR_LOCATION << 3) + b"\x01")
        return message(_GRAPH_INITIALIZER, b"".join(pieces))

    def _location(self, location: str) -> str:
        check_name(self._reader.path, location, None if self._places is None else self._places.files)
        return _from_root(os.path.join(self._folder, location))


def _from_root(path: str) -> str:
    return os.path.relpath(os.path.realpath(path), "/")


def read_skeleton(path: str, outputs: Sequence[str] = (), places: Places | None = None) -> Skeleton:
    """Walks an .onnx file.

    Parameters
    ----------
    path : str
        The file.
    outputs : sequence of str
        Tensors of the main graph that become outputs of the skeleton, behind the model's own.
    places : Places or None
        Where its external data is, if not beside it.

    Raises
    ------
    NotFound, Malformed, UnsafePath, Unsupported, Usage
        Usage: an output that no node of the main graph has.
    """
    reader = Reader(path)
    try:
        if reader.range(0, min(4, reader.size)) == b"\x28\xb5\x2f\xfd":
            raise Unsupported(
                f"{path}: is compressed (Zstandard), which ONNX Runtime does not read; unpack it with zstd -d",
                file=path,
            )
        skeleton = _Builder(reader, outputs, places).build()
    finally:
        reader.close()
    known = set(skeleton.tensors)
    for name in outputs:
        if name not in known:
            raise Usage(f"{path}: no node of the main graph has an output {name!r}", file=path)
    return skeleton
