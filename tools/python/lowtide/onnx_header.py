# SPDX-License-Identifier: Apache-2.0
"""The graph of an .onnx file without its weights.

ONNX Runtime loads weights that are inside of the .onnx file into anonymous memory, twice for a while; weights in
another file it maps. So a large
file is run by a skeleton: the same model, in which each large initializer is external data at its own place in the
original file. The file is walked by the headers of its fields; bytes of weights are never read.

ONNX Runtime reads the skeleton's external data from the root folder, whoever names it: an initializer, the body of an If
or a Loop, an attribute, a function. So each place is checked and spelled anew, wherever in the model a tensor can be.

Wire format (protobuf): a field is a varint key (number << 3 | type), then a varint (type 0), 8 bytes (1), a varint
length and so many bytes (2), or 4 bytes (5). A message may be given in parts, which are to be joined.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence

from .errors import Malformed, NotFound, Unsupported, Usage
from .other_files import check_name, check_regular, open_regular

# Tensors below this stay in the skeleton: a mapping each costs more.
SMALL = 16 * 1024
# protobuf's own limit, less some room.
_LARGEST = (1 << 31) - (1 << 20)
_WINDOW = 64 * 1024

# Field numbers of schemas/onnx.proto.
_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_INITIALIZER, _GRAPH_INPUT, _GRAPH_OUTPUT = 1, 5, 11, 12
_NODE_OUTPUT, _NODE_OPERATOR, _NODE_ATTRIBUTE, _NODE_DOMAIN = 2, 4, 5, 7
_ATTRIBUTE_NAME, _ATTRIBUTE_TENSOR = 1, 5
_TENSOR_TYPE, _TENSOR_FLOATS, _TENSOR_NAME, _TENSOR_RAW, _TENSOR_DOUBLES = 2, 4, 8, 9, 10
_TENSOR_EXTERNAL, _TENSOR_LOCATION = 13, 14
_ENTRY_KEY, _ENTRY_VALUE = 1, 2
_VALUE_NAME, _VALUE_TYPE = 1, 2
_TYPE_TENSORS, _TENSOR_TYPE_SHAPE = (1, 8), 2  # tensor_type, sparse_tensor_type
_HALVES = (10, 16)  # FLOAT16, BFLOAT16

# Message -> the messages in it, by field, through which a tensor is reached. An "entry" is one of TensorProto.external_data.
_INSIDE: Mapping[str, Mapping[int, str]] = {
    "model": {_MODEL_GRAPH: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {_GRAPH_NODE: "node", _GRAPH_INITIALIZER: "tensor", 15: "sparse"},
    "node": {_NODE_ATTRIBUTE: "attribute"},
    "attribute": {_ATTRIBUTE_TENSOR: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {_TENSOR_EXTERNAL: "entry"},
}
_LOCATION = b"location"  # the key of the entry that names a file
_DEEPEST = 100  # messages in each other: protobuf's own limit


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
    ranked : frozenset of str
        Inputs and outputs whose shape the model declares. ONNX Runtime reports the others as scalars.
    files : frozenset of str
        The other files that it reads weights from: absolute paths without links.
    """

    model: bytes
    tensors: list[str]
    weight_bytes: int
    ranked: frozenset[str]
    files: frozenset[str]


@dataclasses.dataclass(frozen=True)
class Places:
    """Where the external data of a model is, if not beside it: a folder, and the files of it that may be read."""

    folder: str
    files: frozenset[str]


class Reader:
    """The bytes of a file through one window."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = open_regular(path)
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
            # protobuf keeps 32 bits of a key: what is above would hide a field from us that it sees.
            if key >> 3 == 0 or key >> 32:
                raise self.malformed(at, f"{key} is not the key of a field")
            if stop > end:
                raise self.malformed(at, f"field {key >> 3} ends after the message that it is in")
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
        self._ranked: set[str] = set()
        self._files: set[str] = set()
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
                self._parts.append(self._part("model", field))
        if not graph_found:
            raise reader.malformed(0, "there is no graph")
        for name in self._wanted:
            if name not in self._outputs:
                self._graph.append(message(_GRAPH_OUTPUT, message(_VALUE_NAME, _bytes(name))))
        graph = b"".join(self._graph)
        self._graph.clear()
        return Skeleton(
            b"".join([*self._parts, message(_MODEL_GRAPH, graph)]),
            self._tensors,
            self._weight_bytes,
            frozenset(self._ranked),
            frozenset(self._files),
        )

    def _copied(self, begin: int, end: int) -> bytes:
        self._size += end - begin
        if self._size > _LARGEST:
            raise Unsupported(
                f"{self._reader.path}: more than 2 GiB are not in weights of graphs; ONNX Runtime cannot load that",
                file=self._reader.path,
            )
        return self._reader.range(begin, end)

    # ---- Any part of the model ----

    def _part(self, parent: str, field: Field) -> bytes:
        """A field of a message as the skeleton has it."""
        changed = self._changed(parent, field, 0)
        return self._copied(field.begin, field.end) if changed is None else changed

    def _changed(self, parent: str, field: Field, depth: int) -> bytes | None:
        """A field in which weights have other places; None if it stays as it is.

        Runs of bytes without weights are copied as they are, so what is not known here is kept.
        """
        kind = _INSIDE[parent].get(field.number)
        if kind is None or field.kind != 2 or not self._may_change(field):
            return None
        if kind == "entry":
            return self._located(field)
        if depth > _DEEPEST:
            raise self._reader.malformed(field.begin, f"more than {_DEEPEST} messages are in each other")
        if parent == "graph" and kind == "tensor" and (initializer := self._initializer(field)) is not None:
            return initializer
        pieces: list[bytes] = []
        begin = field.value
        for part in self._reader.fields(field.value, field.end):
            changed = self._changed(kind, part, depth + 1)
            if changed is not None:
                pieces += [self._copied(begin, part.begin), changed]
                begin = part.end
        if not pieces:
            return None
        pieces.append(self._copied(begin, field.end))
        return message(field.number, b"".join(pieces))

    def _may_change(self, field: Field) -> bool:
        """Whether a place of external data, or a large weight, may be in a field: most fields are short and have none."""
        return field.end - field.begin >= SMALL or _LOCATION in self._reader.range(field.begin, field.end)

    def _located(self, entry: Field) -> bytes | None:
        key, value = self._key_and_value(entry)
        return _entry(key, self._location(value)) if key == _LOCATION.decode() else None

    def _key_and_value(self, entry: Field) -> tuple[str, str]:
        texts = {
            part.number: self._reader.text(part)
            for part in self._reader.fields(entry.value, entry.end)
            if part.kind == 2
        }
        return texts.get(_ENTRY_KEY, ""), texts.get(_ENTRY_VALUE, "")

    def _location(self, location: str) -> str:
        check_name(self._reader.path, location, None if self._places is None else self._places.files)
        path = os.path.realpath(os.path.join(self._folder, location))
        check_regular(path)
        self._files.add(path)
        return _from_root(path)

    # ---- The main graph ----

    def _add_to_graph(self, field: Field) -> None:
        hoisted = None
        if field.kind == 2 and field.number == _GRAPH_NODE:
            hoisted = self._constant(field) if self._may_change(field) else None
            for part in self._reader.fields(field.value, field.end):
                # An output without a name is an optional one that nobody wants.
                if part.number == _NODE_OUTPUT and hoisted is None and part.end > part.value:
                    self._tensors.append(self._reader.text(part))
        elif field.kind == 2 and field.number in (_GRAPH_INPUT, _GRAPH_OUTPUT):
            self._add_port(field)
        self._graph.append(self._part("graph", field) if hoisted is None else hoisted)

    def _add_port(self, field: Field) -> None:
        name, has_shape = "", False
        for part in self._reader.fields(field.value, field.end):
            if part.number == _VALUE_NAME and part.kind == 2:
                name = self._reader.text(part)
            elif part.number == _VALUE_TYPE and part.kind == 2:
                has_shape = has_shape or self._has_shape(part)
        if field.number == _GRAPH_OUTPUT:
            self._outputs.add(name)
        if has_shape:
            self._ranked.add(name)

    def _has_shape(self, of: Field) -> bool:
        return any(
            part.number == _TENSOR_TYPE_SHAPE and part.kind == 2
            for tensor in self._reader.fields(of.value, of.end)
            if tensor.number in _TYPE_TENSORS and tensor.kind == 2
            for part in self._reader.fields(tensor.value, tensor.end)
        )

    def _constant(self, node: Field) -> bytes | None:
        """A Constant node with a large or an external tensor as an initializer; None if it is not one."""
        name, operator, domain = "", "", ""
        tensors: list[Field] = []
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
                        tensors.append(inner)
        if operator != "Constant" or domain not in ("", "ai.onnx") or len(tensors) != 1:  # several: one in parts
            return None
        return self._initializer(tensors[0], name)

    # ---- Weights ----

    def _initializer(self, tensor: Field, name: str | None = None) -> bytes | None:
        """A large tensor as external data in the file itself, or one in another file; None if it stays as it is.

        `name` replaces the tensor's own.
        """
        rest: list[Field] = []
        payloads: list[Field] = []
        external: dict[str, str] = {}
        elements = 0
        for part in self._reader.fields(tensor.value, tensor.end):
            if part.number in (_TENSOR_RAW, _TENSOR_FLOATS, _TENSOR_DOUBLES) and part.kind == 2:
                payloads.append(part)
            elif part.number == _TENSOR_EXTERNAL and part.kind == 2:
                key, value = self._key_and_value(part)
                external[key] = value
            else:
                if part.number == _TENSOR_TYPE:
                    elements = part.varint
                if part.number != _TENSOR_LOCATION and not (part.number == _TENSOR_NAME and name is not None):
                    rest.append(part)
        factor = 2 if elements in _HALVES else 1
        if external:
            if payloads:
                raise self._reader.malformed(tensor.begin, "a tensor that is inside and outside of the file")
            length = external.get("length", "")
            self._weight_bytes += factor * int(length) if length.isdecimal() and len(length) < 20 else 0
            external["location"] = self._location(external.get("location", ""))
        elif len(payloads) != 1 or payloads[0].end - payloads[0].value < SMALL:  # several: one in parts
            return None
        else:
            count = payloads[0].end - payloads[0].value
            self._weight_bytes += factor * count
            external = {"location": self._own, "offset": str(payloads[0].value), "length": str(count)}
        pieces = [self._copied(part.begin, part.end) for part in rest]
        if name is not None:
            pieces.append(message(_TENSOR_NAME, _bytes(name)))
        pieces += [_entry(key, value) for key, value in external.items()]
        pieces.append(varint(_TENSOR_LOCATION << 3) + b"\x01")
        return message(_GRAPH_INITIALIZER, b"".join(pieces))


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
