# SPDX-License-Identifier: Apache-2.0
"""The manifest of a divided model, as `lowtide partition` writes it (schemas/manifest.schema.json).

The folder may come from a stranger: names must stay in it, files must be what the manifest says, and every value must
be made before it is used. What is not as the schema says is an error, and nothing is guessed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from typing import Any

import numpy as np

from .errors import Io, Malformed, NotFound, UnsafePath, Unsupported
from .port import Extent, Port, dtype_of

NAME = "manifest.json"
VERSION = 1
MOST_BYTES = 64 << 20
# A larger file is known by samples of it (stream/file/sha256.h says why).
SAMPLED_ABOVE, SAMPLES, SAMPLE_BYTES = 64 << 20, 256, 8 << 10
RUNTIMES = ("tflite", "onnx")
_DTYPES = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    # Their bits, one element a byte: numpy has no such types (small_floats.py).
    "f8e4m3fn": "uint8",
    "f8e4m3fnuz": "uint8",
    "f8e5m2": "uint8",
    "f8e5m2fnuz": "uint8",
    "f8e8m0": "uint8",
    "f4e2m1": "uint8",
    "i2": "int2",
    "u2": "uint2",
    "i4": "int4",
    "u4": "uint4",
    "i8": "int8",
    "u8": "uint8",
    "i16": "int16",
    "u16": "uint16",
    "i32": "int32",
    "u32": "uint32",
    "i64": "int64",
    "u64": "uint64",
    "bool": "bool",
    "string": "object",
    "c64": "complex64",
    "c128": "complex128",
}


@dataclasses.dataclass(frozen=True)
class File:
    """A file of the folder, or one with weights in place; then the name counts from the folder that holds this one."""

    name: str
    bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True)
class Piece:
    """A model of the folder, with the names of the values that it takes and makes."""

    runtime: str
    in_target: bool
    file: File
    data: tuple[File, ...]
    nodes: int
    weight_bytes: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Value:
    """A value between pieces. `shape` is None where even the rank is not known."""

    dtype: np.dtype[Any]
    shape: tuple[Extent, ...] | None
    producer: int
    last_user: int


@dataclasses.dataclass(frozen=True)
class Manifest:
    """A folder of pieces in the order in which they run."""

    folder: str
    model: str
    inputs: Mapping[str, Port]
    outputs: Mapping[str, Port]
    pieces: tuple[Piece, ...]
    values: Mapping[str, Value]
    in_place: tuple[File, ...] = ()
    node_names: tuple[tuple[str, ...], ...] = ()  # of each piece


class _Reader:
    """The parts of a manifest, each checked."""

    def __init__(self, path: str) -> None:
        self._path = path

    def fail(self, text: str) -> Malformed:
        return Malformed(f"{self._path}: {text}", file=self._path)

    def fields(self, what: str, value: Any, names: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.fail(f"{what} is not an object")
        for name in names:
            if name not in value:
                raise self.fail(f"{what} has no field {name!r}")
        for name in value:
            if name not in names and name not in optional:
                raise self.fail(f"{what} has an unknown field {name!r}")
        return value

    def items(self, what: str, value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise self.fail(f"{what} is not a list")
        return value

    def text(self, what: str, value: Any) -> str:
        if not isinstance(value, str):
            raise self.fail(f"{what} is not a string")
        try:
            value.encode()
        except UnicodeEncodeError as error:  # half of a pair of surrogates, which JSON can spell and no file name has
            raise self.fail(f"{what} is not UTF-8: {value!r}") from error
        return value

    def number(self, what: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 62:
            raise self.fail(f"{what} is not a whole number from 0 on")
        return value

    def names(self, what: str, value: Any) -> tuple[str, ...]:
        names = tuple(self.text(f"a name in {what}", name) for name in self.items(what, value))
        if len(set(names)) < len(names):
            raise self.fail(f"{what} has a name twice")
        return names

    def shape(self, what: str, value: Any) -> tuple[Extent, ...] | None:
        if value is None:
            return None
        out: list[Extent] = []
        for extent in self.items(f"the shape of {what}", value):
            is_extent = isinstance(extent, int) and not isinstance(extent, bool) and 0 <= extent < 1 << 62
            if extent is not None and not is_extent and not (isinstance(extent, str) and extent):
                raise self.fail(f"the shape of {what} has {extent!r}, which is neither an extent, nor a name, nor null")
            out.append(self.text(f"an extent of {what}", extent) if isinstance(extent, str) else extent)
        return tuple(out)

    def type(self, what: str, entry: dict[str, Any]) -> tuple[np.dtype[Any], tuple[Extent, ...] | None]:
        name = self.text(f"the dtype of {what}", entry["dtype"])
        if name not in _DTYPES:
            raise self.fail(f"{what} has an unknown dtype {name!r}")
        if entry["axis_order"] != "onnx":
            raise self.fail(f"{what} has an unknown axis order {entry['axis_order']!r}")
        try:
            return dtype_of(_DTYPES[name], what), self.shape(what, entry["shape"])
        except Unsupported as error:
            raise Unsupported(f"{self._path}: {error}", file=self._path) from error

    def ports(self, what: str, value: Any) -> dict[str, Port]:
        out: dict[str, Port] = {}
        for item in self.items(what, value):
            entry = self.fields(f"an entry of {what}", item, ("name", "dtype", "shape", "axis_order"))
            name = self.text(f"a name in {what}", entry["name"])
            if name in out:
                raise self.fail(f"{what} has {name!r} twice")
            dtype, shape = self.type(repr(name), entry)
            out[name] = Port(name, dtype, shape)
        return out

    def file(self, what: str, name: Any, size: Any, digest: Any, is_plain: bool = True) -> File:
        name = self.text(f"the name of {what}", name)
        size = self.number(f"the size of {what}", size)
        digest = self.text(f"the digest of {what}", digest)
        if not re.fullmatch(r"[0-9a-f]{64}", digest):
            raise self.fail(f"the digest of {what} is not 64 hexadecimal digits")
        if is_plain and (name in ("", ".", "..", NAME) or re.search(r"[/\\\x00-\x1f]", name)):
            raise UnsafePath(f"{self._path}: {what} has the name {name!r}, which is no plain name", file=self._path)
        return File(name, size, digest)

    def in_place(self, value: Any) -> tuple[File, ...]:
        """Files beside the folder, or in folders there."""
        out: dict[str, File] = {}
        for item in self.items("in_place", value):
            entry = self.fields("an entry of in_place", item, ("file", "bytes", "sha256"))
            file = self.file("a file of in_place", entry["file"], entry["bytes"], entry["sha256"], is_plain=False)
            parts = file.name.split("/")
            if {"", ".", ".."} & set(parts) or re.search(r"[\\\x00-\x1f]", file.name):
                raise UnsafePath(
                    f"{self._path}: in_place has the name {file.name!r}, which is not below the folder of the pieces' folder",
                    file=self._path,
                )
            if file.name in out:
                raise self.fail(f"in_place has {file.name!r} twice")
            out[file.name] = file
        return tuple(out.values())

    def node_names(self, value: Any, count: int) -> tuple[tuple[str, ...], ...]:
        out: list[list[str]] = [[] for _ in range(count)]
        for item in self.items("nodes", value):
            entry = self.fields("an entry of nodes", item, ("name", "op", "piece", "reason"))
            if entry["piece"] is None:
                continue
            piece = self.number("the piece of a node", entry["piece"])
            if piece >= count:
                raise self.fail(f"a node is in piece {piece}, and there are {count}")
            out[piece].append(self.text("the name of a node", entry["name"]))
        return tuple(map(tuple, out))

    def piece(self, index: int, value: Any) -> Piece:
        what = f"piece {index}"
        fields = (
            "runtime",
            "in_target",
            "file",
            "bytes",
            "sha256",
            "data",
            "nodes",
            "weight_bytes",
            "inputs",
            "outputs",
        )
        entry = self.fields(what, value, fields)
        if entry["runtime"] not in RUNTIMES:
            raise self.fail(f"{what} has an unknown runtime {entry['runtime']!r}")
        if not isinstance(entry["in_target"], bool):
            raise self.fail(f"in_target of {what} is neither true nor false")
        data = []
        for item in self.items(f"the data of {what}", entry["data"]):
            some = self.fields(f"a data file of {what}", item, ("file", "bytes", "sha256"))
            data.append(self.file(f"a data file of {what}", some["file"], some["bytes"], some["sha256"]))
        file = self.file(what, entry["file"], entry["bytes"], entry["sha256"])
        if not file.name.endswith("." + entry["runtime"]):
            raise self.fail(f"{what} is for {entry['runtime']}, and its file is {file.name!r}")
        return Piece(
            entry["runtime"],
            entry["in_target"],
            file,
            tuple(data),
            self.number(f"the nodes of {what}", entry["nodes"]),
            self.number(f"the weight bytes of {what}", entry["weight_bytes"]),
            self.names(f"the inputs of {what}", entry["inputs"]),
            self.names(f"the outputs of {what}", entry["outputs"]),
        )

    def values(self, value: Any) -> dict[str, Value]:
        out: dict[str, Value] = {}
        for item in self.items("values", value):
            fields = ("name", "dtype", "shape", "axis_order", "producer", "last_user")
            entry = self.fields("an entry of values", item, fields)
            name = self.text("a name in values", entry["name"])
            if name in out:
                raise self.fail(f"values has {name!r} twice")
            dtype, shape = self.type(repr(name), entry)
            out[name] = Value(
                dtype,
                shape,
                self.number(f"the producer of {name!r}", entry["producer"]),
                self.number(f"the last user of {name!r}", entry["last_user"]),
            )
        return out

    def check_order(self, manifest: Manifest) -> None:
        """Each value is made once, before it is used, and the manifest says where."""
        made: dict[str, int] = {}
        last: dict[str, int] = {}
        for index, piece in enumerate(manifest.pieces):
            for name in piece.inputs:
                if name not in made and name not in manifest.inputs:
                    later = any(name in other.outputs for other in manifest.pieces[index:])
                    why = "which only a later piece makes" if later else "which nothing makes"
                    raise self.fail(f"piece {index} uses {name!r}, {why}")
                if name in made:
                    last[name] = index
            for name in piece.outputs:
                if name in made or name in manifest.inputs:
                    raise self.fail(f"piece {index} makes {name!r}, which is there already")
                made[name] = index
        for name, value in manifest.values.items():
            if made.get(name) != value.producer or last.get(name) != value.last_user:
                raise self.fail(f"the pieces that make and use {name!r} last are not those that values names")
        for name in last:
            if name not in manifest.values:
                raise self.fail(f"{name!r} is passed between pieces, and values does not have it")
        for name in manifest.outputs:
            if name not in made and name not in manifest.inputs:
                raise self.fail(f"no piece makes the output {name!r}")


def _regular_file(folder: str, name: str, what: str) -> os.stat_result:
    """What is at a name that has been checked, without following links."""
    path = os.path.join(folder, name)
    try:
        found = os.lstat(path)
    except OSError as error:
        raise NotFound(f"{path}: {what} cannot be opened: {error.strerror}", file=path) from error
    if stat.S_ISLNK(found.st_mode):
        raise UnsafePath(f"{path}: {what} is a symbolic link", file=path)
    if not stat.S_ISREG(found.st_mode):
        raise UnsafePath(f"{path}: {what} is not a regular file", file=path)
    return found


def check_file(folder: str, file: File) -> None:
    """That a file is the one that the manifest was written for.

    Raises
    ------
    NotFound, UnsafePath, Malformed
    """
    _check(os.path.join(folder, file.name), _regular_file(folder, file.name, "a file of the divided model"), file)


def check_in_place(folder: str, file: File) -> None:
    """The same of a file of the model that was divided, beside the folder. It may be a link, as in caches of models.

    Raises
    ------
    NotFound, UnsafePath, Malformed
    """
    path = os.path.join(folder, file.name)
    try:
        found = os.stat(path)
    except OSError as error:
        raise NotFound(
            f"{path}: the pieces read weights from this file of the model that was divided, and it cannot be opened: "
            f"{error.strerror}; keep it beside the folder of the pieces, or divide again with --weights copy",
            file=path,
        ) from error
    if not stat.S_ISREG(found.st_mode):
        raise UnsafePath(f"{path}: weights in place are in something that is not a regular file", file=path)
    _check(path, found, file)


def _check(path: str, found: os.stat_result, file: File) -> None:
    if found.st_size != file.bytes:
        raise Malformed(f"{path}: has {found.st_size} bytes, and the manifest says {file.bytes}", file=path)
    if digest_of_file(path, found.st_size) != file.sha256:
        raise Malformed(f"{path}: is not the file that the manifest was written for: another digest", file=path)


def digest_of_file(path: str, size: int) -> str:
    """SHA-256 of a file, or of its samples where it is larger than SAMPLED_ABOVE.

    Raises
    ------
    Io
    """
    if size > SAMPLED_ABOVE:
        begins = [i * (size - SAMPLE_BYTES) // (SAMPLES - 1) for i in range(SAMPLES)]
    else:
        begins = list(range(0, size, SAMPLE_BYTES))
    digest = hashlib.sha256()
    try:
        with open(path, "rb", buffering=0) as opened:
            for begin in begins:
                opened.seek(begin)
                digest.update(opened.read(SAMPLE_BYTES))
    except OSError as error:
        raise Io(f"{path}: cannot be read: {error.strerror}", file=path) from error
    return digest.hexdigest()


def read_manifest(folder: str) -> Manifest:
    """The manifest of a folder, checked; the files of its pieces are not looked at.

    Raises
    ------
    NotFound, UnsafePath, Malformed
    """
    path = os.path.join(folder, NAME)
    if _regular_file(folder, NAME, "the manifest of a divided model").st_size > MOST_BYTES:
        raise Malformed(f"{path}: is larger than {MOST_BYTES >> 20} MiB", file=path)
    reader = _Reader(path)
    try:
        with open(path, "rb") as file:
            text = file.read(MOST_BYTES + 1)
        whole = json.loads(text.decode("utf-8"), object_pairs_hook=_without_doubles)
    except OSError as error:
        raise Io(f"{path}: cannot be read: {error.strerror}", file=path) from error
    except (ValueError, RecursionError) as error:
        raise reader.fail(f"is not JSON: {' '.join(str(error).split())}") from error
    if not isinstance(whole, dict) or whole.get("format") != "lowtide-manifest":
        raise reader.fail("is not the manifest of a divided model")
    if whole.get("version") != VERSION:
        raise reader.fail(f"has version {whole.get('version')!r}; this lowtide reads version {VERSION}")
    fields = ("format", "version", "producer", "model", "target", "inputs", "outputs", "pieces", "values", "nodes")
    content = reader.fields("the manifest", whole, fields, ("in_place",))
    reader.text("target", content["target"])
    if content["pieces"] == []:
        raise reader.fail("there are no pieces")
    manifest = Manifest(
        folder,
        reader.text("model", content["model"]),
        reader.ports("inputs", content["inputs"]),
        reader.ports("outputs", content["outputs"]),
        tuple(reader.piece(i, piece) for i, piece in enumerate(reader.items("pieces", content["pieces"]))),
        reader.values(content["values"]),
        reader.in_place(content.get("in_place", [])),
        reader.node_names(content["nodes"], len(content["pieces"])),
    )
    if manifest.in_place and any(piece.data for piece in manifest.pieces):
        raise reader.fail("weights are both in place and in data of pieces")
    reader.check_order(manifest)
    return manifest


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        raise ValueError("an object has a field twice")
    return out
