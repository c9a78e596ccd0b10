# SPDX-License-Identifier: Apache-2.0
"""The nodes of an .onnx file's main graph, and where values go. Of weights, only single floats and bytes are read."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from .onnx_header import Field, Reader

# Field numbers of schemas/onnx.proto.
_MODEL_GRAPH, _MODEL_FUNCTION, _FUNCTION_NODE = 7, 25, 7
_GRAPH_NODE, _GRAPH_INITIALIZER, _GRAPH_INPUT, _GRAPH_OUTPUT = 1, 5, 11, 12
_NODE_INPUT, _NODE_OUTPUT, _NODE_NAME, _NODE_OPERATOR, _NODE_ATTRIBUTE, _NODE_DOMAIN = 1, 2, 3, 4, 5, 7
_ATTRIBUTE_NAME, _ATTRIBUTE_INTEGER, _ATTRIBUTE_GRAPH, _ATTRIBUTE_INTEGERS, _ATTRIBUTE_GRAPHS = 1, 3, 6, 8, 11
_ATTRIBUTE_FLOAT, _ATTRIBUTE_TENSOR = 2, 5
_TENSOR_DIMS, _TENSOR_TYPE, _TENSOR_FLOATS, _TENSOR_INT32, _TENSOR_NAME, _TENSOR_RAW = 1, 2, 4, 5, 8, 9
_FLOAT, _UINT8, _INT8, _UINT16, _INT16, _FLOAT16 = 1, 2, 3, 4, 5, 10
_SPARSE_INITIALIZER, _SPARSE_VALUES = 15, 1
_FORMS = {_FLOAT: "<f", _UINT8: "<B", _INT8: "<b", _UINT16: "<H", _INT16: "<h", _FLOAT16: "<e"}
_FLOATS = (_FLOAT, _FLOAT16)

_WITH_INTEGERS = {"Gemm", "Transpose"}
WITH_BODIES = {"If", "Loop", "Scan"}
OPERATORS = {"", "ai.onnx", "ai.onnx.ml", "com.microsoft"}  # a node of another domain may call a function of the model
# Operators that keep integers on their scale: Resize too, which takes each from one place or computes it from several of the same scale.
_MOVES = {
    *("Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Slice", "Split", "Concat", "Gather"),
    *("Expand", "Tile", "MaxPool", "DepthToSpace", "SpaceToDepth", "Where", "Resize"),
}
# Their inputs that are such integers, if it is not the first one alone.
_MOVED = {"Concat": slice(None), "Where": slice(1, 3)}
# Which input of an operator is the scale of its result; the zero point is the next one.
_MAKES = {
    "QuantizeLinear": 1,
    "QLinearConcat": 0,
    "QLinearWhere": 7,
    "QGemm": 7,
    **dict.fromkeys(("QLinearConv", "QLinearMatMul", "QLinearAdd", "QLinearMul"), 6),
    **dict.fromkeys(("QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax", "QLinearReduceMean"), 3),
    **dict.fromkeys(("QLinearAveragePool", "QLinearGlobalAveragePool"), 3),
}
# Which inputs of an operator are followed by their scale and zero point. QLinearConcat has any number of such inputs.
_TAKES: dict[str, Sequence[int]] = {
    **dict.fromkeys(_MAKES.keys() - {"QuantizeLinear", "QLinearConcat"}, (0,)),
    **dict.fromkeys(("QLinearConv", "QLinearMatMul", "QLinearAdd", "QLinearMul", "QGemm"), (0, 3)),
    "DequantizeLinear": (0,),
    "QLinearWhere": (1, 4),
}
_Grid = tuple[float, float]
_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True)
class Node:
    """A node; an optional input that is not given is empty.

    `integers` are attributes of a few operators alone: those of `_WITH_INTEGERS`.
    """

    name: str
    operator: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    integers: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict, compare=False)

    @property
    def label(self) -> str:
        """What the program calls it: its name, or else its first output."""
        return self.name or next((name for name in self.outputs if name), "")


@dataclasses.dataclass(frozen=True)
class Initializer:
    """A weight: its name, ONNX's number of its element type, its shape, and its value if it is one float of 16 or 32 bits or one integer of 8 or 16 bits."""

    name: str
    type: int
    shape: tuple[int, ...]
    number: float | None = None


@dataclasses.dataclass
class Graph:
    """The main graph.

    Attributes
    ----------
    nodes : list of Node
        In the file's order.
    inputs, outputs : list of str
        Names; `inputs` without those of initializers.
    initializers : dict of str to Initializer
        Without sparse ones.
    inner_operators : frozenset of str
        Those of the bodies of its nodes, and of the model's functions, however deep.
    constants : mapping of str to Initializer
        What its Constant nodes give, if it is a tensor that is not sparse or one float.
    """

    nodes: list[Node]
    inputs: list[str]
    outputs: list[str]
    initializers: dict[str, Initializer]
    inner_operators: frozenset[str] = frozenset()
    constants: Mapping[str, Initializer] = dataclasses.field(default_factory=dict)

    @property
    def kept_states(self) -> set[str]:
        """New states of operators that came from TFLite as calls of functions: a TFLite file may keep them itself."""
        return {name for node in self.nodes if node.domain == "lowtide.tflite" for name in node.outputs[1:]}

    @property
    def is_quantized(self) -> bool:
        """Whether it may compute integers of scales itself, in a body or a function too."""
        return any(
            "Quantize" in operator or operator.startswith(("QLinear", "QGemm", "QAttention"))
            for operator in {*(node.operator for node in self.nodes), *self.inner_operators}
        )

    def grid(self, name: str) -> tuple[float, float] | None:
        """Scale and zero point of a value of integers, by the nodes that make it or by those that take it; None if they do not say it.

        What is found of a value is kept, so that the grids of all values take a time that is linear in the graph.
        """
        found = _folded(name, self._made, self._moved_from, self._made_on)
        if found:
            return next(iter(found)) if len(found) == 1 else None
        return self._taken_grid(name)

    def _moved_from(self, name: str) -> list[str]:
        """The values whose integers the node that makes a value moves to it."""
        maker = self.producer.get(name)
        if maker is None or maker.operator not in _MOVES or not (maker.outputs[0] == name or maker.operator == "Split"):
            return []
        return [each for each in _moved(maker) if each]

    def _moved_to(self, name: str) -> list[str]:
        """The values to which nodes move the integers of a value."""
        return [
            to
            for user in self.users.get(name, ())
            if user.operator in _MOVES and (user.operator == "Concat" or name in _moved(user))
            for to in (user.outputs if user.operator == "Split" else user.outputs[:1])
            if to
        ]

    def _made_on(self, name: str, before: list[frozenset[_Grid | None]]) -> frozenset[_Grid | None]:
        """The grids that a value is made on, `before` being those of the values that are moved to it: at most two; None is one that is not found.

        Constants are on the grid of what they are joined with.
        """
        maker = self.producer.get(name)
        if self._moved_from(name):
            return frozenset(itertools.islice({grid for grids in before for grid in grids}, 2))
        if maker is not None and maker.operator != "Constant":
            return frozenset({self._numbers(maker, _MAKES.get(maker.operator))})
        taken = None if maker is not None or name in self.initializers else self._taken_grid(name)
        return frozenset() if taken is None else frozenset({taken})

    def _taken_grid(self, name: str) -> _Grid | None:
        """Scale and zero point by the nodes that take a value, or else by those that take what it is moved to."""

        def following(name: str) -> list[str]:
            return [] if name in self._takers else self._moved_to(name)

        def taken(name: str, grids: list[_Grid | None]) -> _Grid | None:
            return self._takers.get(name) or next((grid for grid in grids if grid is not None), None)

        return _folded(name, self._taken, following, taken)

    @functools.cached_property
    def _takers(self) -> dict[str, _Grid]:
        """Scale and zero point that the first node says which takes a value and has them as inputs."""
        found: dict[str, _Grid] = {}
        for node in self.nodes:
            is_concat = node.operator == "QLinearConcat"
            for at in range(2, len(node.inputs), 3) if is_concat else _TAKES.get(node.operator, ()):
                grid = self._numbers(node, at + 1)
                if grid is not None:
                    found.setdefault(node.inputs[at], grid)
        return found

    def _constant(self, name: str) -> Initializer | None:
        return self.initializers.get(name) or self.constants.get(name)

    def _numbers(self, node: Node, at: int | None) -> _Grid | None:
        """The scale and the zero point at an input of a node and the next one."""
        if at is None or len(node.inputs) <= at:
            return None
        scale = self._constant(node.inputs[at])
        if scale is None or scale.type not in _FLOATS or scale.number is None or not scale.number > 0:
            return None
        if len(node.inputs) <= at + 1 or not node.inputs[at + 1]:
            return scale.number, 0.0
        zero = self._constant(node.inputs[at + 1])
        return None if zero is None or zero.number is None or zero.type in _FLOATS else (scale.number, zero.number)

    def __post_init__(self) -> None:
        self._made: dict[str, frozenset[_Grid | None]] = {}
        self._taken: dict[str, _Grid | None] = {}
        self.producer: dict[str, Node] = {}
        self.users: dict[str, list[Node]] = defaultdict(list)
        for node in self.nodes:
            for name in node.outputs:
                if name:
                    self.producer[name] = node
            for name in dict.fromkeys(node.inputs):
                if name:
                    self.users[name].append(node)


def _moved(node: Node) -> tuple[str, ...]:
    """The inputs of an operator of `_MOVES` that it moves to its outputs."""
    return node.inputs[_MOVED.get(node.operator, slice(1))]


def _folded(
    name: str, known: dict[str, _T], neighbours: Callable[[str], Sequence[str]], fold: Callable[[str, list[_T]], _T]
) -> _T:
    """`fold` of a value and of the results for its neighbours, found first. The results of all values on the way are kept in `known`.

    Without recursion; in a malformed graph with a cycle, a neighbour that is not finished is left out.
    """
    begun: set[str] = set()
    left = [name]
    while left:
        at = left[-1]
        if at in known:
            left.pop()
        elif at in begun:
            known[at] = fold(at, [known[each] for each in neighbours(at) if each in known])
        else:
            begun.add(at)
            left += (each for each in neighbours(at) if each not in begun)
    return known[name]


def _node(reader: Reader, field: Field) -> Node:
    inputs: list[str] = []
    outputs: list[str] = []
    attributes: list[Field] = []
    texts = {_NODE_NAME: "", _NODE_OPERATOR: "", _NODE_DOMAIN: ""}
    for part in reader.fields(field.value, field.end):
        if part.kind != 2:
            continue
        if part.number == _NODE_INPUT:
            inputs.append(reader.text(part))
        elif part.number == _NODE_OUTPUT:
            outputs.append(reader.text(part))
        elif part.number == _NODE_ATTRIBUTE:
            attributes.append(part)
        elif part.number in texts:
            texts[part.number] = reader.text(part)
    operator = texts[_NODE_OPERATOR]
    integers = dict(_integers(reader, part) for part in attributes) if operator in _WITH_INTEGERS else {}
    return Node(texts[_NODE_NAME], operator, texts[_NODE_DOMAIN], tuple(inputs), tuple(outputs), integers)


def _integers(reader: Reader, field: Field) -> tuple[str, tuple[int, ...]]:
    """The name of an attribute, and its integers if it has any."""
    name = ""
    numbers: list[int] = []
    for part in reader.fields(field.value, field.end):
        if part.number == _ATTRIBUTE_NAME and part.kind == 2:
            name = reader.text(part)
        elif part.number in (_ATTRIBUTE_INTEGER, _ATTRIBUTE_INTEGERS) and part.kind in (0, 2):
            numbers += _varints(reader, part)
    return name, tuple(numbers)


def _bodies(reader: Reader, node: Field) -> Iterator[Field]:
    """The nodes of the graphs that a node has as attributes."""
    for attribute in reader.fields(node.value, node.end):
        if attribute.number != _NODE_ATTRIBUTE or attribute.kind != 2:
            continue
        for graph in reader.fields(attribute.value, attribute.end):
            if graph.number in (_ATTRIBUTE_GRAPH, _ATTRIBUTE_GRAPHS) and graph.kind == 2:
                inner = reader.fields(graph.value, graph.end)
                yield from (field for field in inner if field.number == _GRAPH_NODE and field.kind == 2)


def _operators_of(reader: Reader, nodes: Iterable[Field]) -> Iterator[str]:
    """The operators of nodes and of their bodies."""
    pending = list(nodes)  # no recursion: a file may nest bodies as deep as it likes
    while pending:
        node = pending.pop()
        yield _node(reader, node).operator
        pending += _bodies(reader, node)


def _constant_values(reader: Reader, node: Field, name: str) -> Iterator[Initializer]:
    """The value of a Constant, as an initializer of that name."""
    for attribute in reader.fields(node.value, node.end):
        if attribute.number != _NODE_ATTRIBUTE or attribute.kind != 2:
            continue
        for part in reader.fields(attribute.value, attribute.end):
            if part.number == _ATTRIBUTE_TENSOR and part.kind == 2:
                yield dataclasses.replace(_initializer(reader, part), name=name)
            elif part.number == _ATTRIBUTE_FLOAT and part.kind == 5:
                yield Initializer(name, _FLOAT, (), struct.unpack("<f", reader.range(part.value, part.end))[0])


def _varints(reader: Reader, field: Field) -> Iterator[int]:
    """A repeated number: one, or packed ones."""
    if field.kind == 0:
        yield field.varint
        return
    at = field.value
    while at < field.end:
        value, at = reader.varint(at, field.end)
        yield value


def _initializer(reader: Reader, field: Field) -> Initializer:
    name, kind = "", 0
    shape: list[int] = []
    content, integers = b"", list[int]()
    for part in reader.fields(field.value, field.end):
        if part.number == _TENSOR_NAME and part.kind == 2:
            name = reader.text(part)
        elif part.number == _TENSOR_TYPE and part.kind == 0:
            kind = part.varint
        elif part.number == _TENSOR_DIMS and part.kind in (0, 2):
            shape += _varints(reader, part)
        elif (
            part.number in (_TENSOR_FLOATS, _TENSOR_RAW) and part.kind in (2, 5) and part.end - part.value in (1, 2, 4)
        ):
            content = reader.range(part.value, part.end)
        elif part.number == _TENSOR_INT32 and part.kind in (0, 2) and len(integers) < 2:
            integers += itertools.islice(_varints(reader, part), 2)  # more than one is not kept: it may be a weight
    form = _FORMS.get(kind)
    if form is not None and kind != _FLOAT and len(integers) == 1:
        size = struct.calcsize(form)
        content = (integers[0] % (1 << 8 * size)).to_bytes(size, "little")  # whatever the sign
    is_one = form is not None and math.prod(shape) == 1 and struct.calcsize(form) == len(content)
    number = float(struct.unpack(form, content)[0]) if form is not None and is_one else None
    return Initializer(name, kind, tuple(shape), number)


def _value_name(reader: Reader, field: Field) -> str:
    return next((reader.text(part) for part in reader.fields(field.value, field.end) if part.number == 1), "")


def read_graph(path: str) -> Graph:
    """Reads the main graph of an .onnx file.

    Raises
    ------
    NotFound, Malformed
        If there is no such file, or if it is not an ONNX model.
    """
    reader = Reader(path)
    nodes: list[Node] = []
    inputs: list[str] = []
    outputs: list[str] = []
    initializers: dict[str, Initializer] = {}
    sparse: set[str] = set()
    inner_nodes: list[Field] = []
    values: dict[str, Initializer] = {}  # of Constants
    try:
        for field in reader.fields(0, reader.size):
            if field.number == _MODEL_FUNCTION and field.kind == 2:
                inside = reader.fields(field.value, field.end)
                inner_nodes += (part for part in inside if part.number == _FUNCTION_NODE and part.kind == 2)
            if field.number != _MODEL_GRAPH or field.kind != 2:
                continue
            for inner in reader.fields(field.value, field.end):
                if inner.kind != 2:
                    continue
                if inner.number == _GRAPH_NODE:
                    nodes.append(node := _node(reader, inner))
                    if node.operator == "Constant" and node.outputs:
                        values.update((value.name, value) for value in _constant_values(reader, inner, node.outputs[0]))
                    inner_nodes += _bodies(reader, inner)
                elif inner.number == _GRAPH_INITIALIZER:
                    tensor = _initializer(reader, inner)
                    initializers[tensor.name] = tensor
                elif inner.number == _SPARSE_INITIALIZER:
                    for part in reader.fields(inner.value, inner.end):
                        if part.number == _SPARSE_VALUES and part.kind == 2:
                            sparse.add(_initializer(reader, part).name)
                elif inner.number == _GRAPH_INPUT:
                    inputs.append(_value_name(reader, inner))
                elif inner.number == _GRAPH_OUTPUT:
                    outputs.append(_value_name(reader, inner))
        operators = frozenset(_operators_of(reader, inner_nodes))
    finally:
        reader.close()
    constants = {*initializers, *sparse}
    return Graph(nodes, [name for name in inputs if name not in constants], outputs, initializers, operators, values)


def graph_hash(graph: Graph) -> str:
    """Digest of a graph without its weights, as a ranges file has it (docs/ranges-file.md has the format).

    FNV-1a of 64 bits: it tells models apart, and is no protection against anybody.
    """
    fields: list[str] = []
    for node in graph.nodes:
        domain = "" if node.domain == "ai.onnx" else node.domain
        fields += ["N", node.name, domain, node.operator, str(len(node.inputs)), *node.inputs]
        fields += [str(len(node.outputs)), *node.outputs]
    for tensor in sorted(graph.initializers.values(), key=lambda each: _utf8(each.name)):
        fields += ["W", tensor.name, str(tensor.type), str(len(tensor.shape)), *map(str, tensor.shape)]
    fields += ["I", str(len(graph.inputs)), *graph.inputs, "O", str(len(graph.outputs)), *graph.outputs]
    value = 0xCBF29CE484222325
    for field in fields:
        for byte in (*_utf8(field), 0):
            value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
