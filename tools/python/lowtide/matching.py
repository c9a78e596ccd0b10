# SPDX-License-Identifier: Apache-2.0
"""Which value of an ONNX model a tensor of a .tflite file is, and in which order of axes.

The file says it by names (emit/tensor_names.cc): a tensor has the name of its ONNX value, or else the label of the node
that it came from and its builtin, "conv_17/CONV_2D". In the second case the value is an output of that node, or, where
an activation or a quantization was drawn into the operator, a value behind it: such values are candidates, and the
closest is taken if it is close. Else the tensor stays without a value, and is inside of what is compared.

The order of axes is not in the file. Where extents leave a choice, it is the order in which the numbers are closest.
Where the axes of a value were merged or split on the way to the tensor, extents say nothing of the order of its elements: then
the numbers must show it, being nearly all equal (ByOperator).
Inputs and outputs are not chosen by numbers: theirs are the model's, so a wrong order in between shows at the latest there.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .element_types import SHIFTS, shifted
from .errors import Unsupported, Usage
from .onnx_graph import Graph, Node
from .port import Array, Extent
from .tflite_graph import Operator, TfliteGraph, Value
from .tflite_header import Signature

Order = tuple[int, ...]
# Names of values, and of each whether a Reshape stands before it: then equal extents are not the same axes.
Found = dict[str, bool]

# What an operator may have taken in from behind its node: its output is the input of these, computed on.
_TAKEN_IN = {
    *("BatchNormalization", "Relu", "Clip", "LeakyRelu", "PRelu", "Sigmoid", "Tanh", "HardSwish", "Min", "Max"),
    *("Add", "Sub", "Mul", "Div", "Cast", "Identity", "Dropout"),
    *("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"),
}
# Of these, what may merge or split axes.
_RESHAPES = {"Reshape", "Flatten"}
_QUANTIZES = {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"}
_DEPTH = 6
_ORDERS = 24
# Elementwise operators between a computation and a QuantizeLinear, which ONNX Runtime computes as one.
_BEFORE_QUANTIZE = {"Relu", "Clip", "LeakyRelu"}


def channels_last(rank: int) -> Order:
    """NCHW to NHWC, for any rank."""
    return (0, *range(2, rank), 1)


def channels_first(rank: int) -> Order:
    """NHWC to NCHW."""
    return (0, rank - 1, *range(1, rank - 1))


def _matching_orders(source: Sequence[int], target: Sequence[int]) -> Iterator[Order]:
    """Orders in which the extents of `source` that are not 1 are those of `target`; the axes of extent 1 go first."""
    ones = tuple(i for i, n in enumerate(source) if n == 1)
    axes = [i for i, n in enumerate(source) if n != 1]
    wanted = [n for n in target if n != 1]
    if len(axes) != len(wanted):
        return

    def extend(chosen: Order) -> Iterator[Order]:
        if len(chosen) == len(axes):
            yield ones + chosen
            return
        for axis in axes:
            if axis not in chosen and source[axis] == wanted[len(chosen)]:
                yield from extend((*chosen, axis))

    yield from extend(())


def has_same_axes(source: Sequence[int], target: Sequence[int]) -> bool:
    """Whether a shape has the extents of another one, in any order; those of 1 do not count."""
    return sorted(n for n in source if n != 1) == sorted(n for n in target if n != 1)


def orders(source: Sequence[int], target: Sequence[int]) -> list[Order]:
    """Orders of axes in which an array of shape `source` can be stored as `target`; empty if there is none.

    Axes of extent 1 do not count. Where axes were merged or split, these are guesses: ONNX's order, and those with
    channels last and first.
    """
    source, target = tuple(source), tuple(target)
    if math.prod(source) != math.prod(target):
        return []
    found = []
    for order in _matching_orders(source, target):
        found.append(order)
        if len(found) == _ORDERS:
            break
    if not found:
        rank = len(source)
        found = [tuple(range(rank))]
        if rank >= 3:
            found += [channels_last(rank), channels_first(rank)]
    return found


def border_order(name: str, source: Sequence[int], target: Sequence[Extent], layout: str | None) -> Order | None:
    """The order in which an input or output is stored, by its extents and the layout that the user gives for it.

    None if the extents do not fit in any order.

    Raises
    ------
    Usage
        If they do not fit in the layout that is given.
    """
    rank = len(source)
    own = tuple(range(rank))
    if layout is not None:
        order = channels_last(rank) if layout == "nhwc" else channels_first(rank)
        if rank != len(target) or not _fits([source[i] for i in order], target):
            raise Usage(f"--layout {name}={layout}: {list(source)} in this order is not {_shown(target)}", input=name)
        return order
    for order in (own, channels_last(rank), channels_first(rank)) if rank >= 3 else (own,):
        if _fits([source[i] for i in order], target):
            return order
    return None


def other_extents(source: Sequence[int], target: Sequence[Extent]) -> str:
    """That two shapes are not the same in any order."""
    return (
        f"{list(source)} in the ONNX model and {_shown(target)} in the TFLite file: not the same extents in any layout"
    )


def _fits(source: Sequence[int], target: Sequence[Extent]) -> bool:
    return len(source) == len(target) and all(not isinstance(b, int) or a == b for a, b in zip(source, target))


def _shown(shape: Sequence[Extent]) -> str:
    return "[" + ", ".join("?" if n is None else str(n) for n in shape) + "]"


def quantized(array: Array, scale: Any, zero: Any, dtype: np.dtype[Any]) -> Array:
    """As QuantizeLinear: division in float32, halves to even, clamped."""
    limits = np.iinfo(dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        steps = np.rint(array.astype(np.float32) / np.asarray(scale, np.float32)) + np.asarray(zero, np.float32)
    clamped: Array = np.nan_to_num(np.clip(steps, limits.min, limits.max), nan=float(np.max(zero))).astype(dtype)
    return clamped


def stored(array: Array, order: Order, shape: Sequence[int], value: Value, dtype: np.dtype[Any]) -> Array:
    """An array of ONNX Runtime as a tensor of the TFLite model has it: order of axes, element type, quantization.

    The types are two that element_types.py lets stand for each other.
    """
    moved = np.ascontiguousarray(array.transpose(order)).reshape(tuple(shape))
    if moved.dtype == dtype:
        return moved
    if (moved.dtype.name, dtype.name) in SHIFTS:
        return shifted(moved, dtype.name).astype(dtype)
    if moved.dtype.kind == "f" and dtype.kind in "iu" and value.quantization is not None:
        return quantized(moved, *value.quantization.over(moved.ndim), dtype)
    return moved.astype(dtype)


def unstored(array: Array, order: Order, shape: Sequence[int]) -> Array:
    """A tensor of the TFLite model in ONNX's order of axes; `shape` is that of ONNX Runtime's array."""
    moved = array.reshape([shape[i] for i in order])
    return moved.transpose([int(i) for i in np.argsort(np.array(order, np.int64))])


class Candidates:
    """For the tensors of a .tflite file: the ONNX values that they may be.

    Attributes
    ----------
    border : dict of int to str
        Inputs and outputs of the signature: index of the tensor -> name.
    """

    def __init__(self, graph: Graph, tflite: TfliteGraph, signature: Signature) -> None:
        self._graph, self._tflite = graph, tflite
        self.border = {tensor.index: name for name, tensor in (*signature.inputs, *signature.outputs)}
        labels = Counter(node.label for node in graph.nodes)
        self._nodes = {node.label: node for node in graph.nodes if labels[node.label] == 1}
        self._named = {value.name for value in tflite.values}
        self._operator_of: dict[int, Operator] = {}
        self._users: dict[int, list[Operator]] = {}
        for operator in tflite.operators:
            for i in operator.outputs:
                self._operator_of[i] = operator
            for i in operator.inputs:
                self._users.setdefault(i, []).append(operator)

    def _node_of(self, operator: Operator) -> Node | None:
        """The node that an operator came from, by the name of one of its outputs."""
        for i in operator.outputs:
            name = self._tflite.values[i].name if i >= 0 else ""
            if name in self._graph.producer:
                return self._graph.producer[name]
            found = re.fullmatch(rf"(.*)/{re.escape(operator.kind)}(?:_\d+)?", name, re.DOTALL)
            if found and found[1] in self._nodes:
                return self._nodes[found[1]]
        return None

    def _is_in(self, node: Node, operator: Operator) -> bool:
        """Whether an operator computes what a node does, with or without the QuantizeLinear behind it."""
        made = self._node_of(operator)
        while made is not None and made is not node and made.operator in _BEFORE_QUANTIZE | {"QuantizeLinear"}:
            made = self._graph.producer.get(made.inputs[0])
        return made is node

    def is_named(self, index: int, value: str) -> bool:
        """Whether the tensor has the name of the value, or quantizes the one of its name."""
        name = self._tflite.values[index].name
        return name in self._graph.producer and value in self._as_integers({name: False})

    def behind_name(self, index: int) -> Found:
        """Values behind the one whose name the tensor has."""
        name = self._tflite.values[index].name
        if index in self.border or name not in self._graph.producer:
            return {}
        found = self._forward([name], _TAKEN_IN)
        return {
            value: reshaped for value, reshaped in found.items() if value != name and not self._before_quantize(value)
        }

    def of(self, index: int) -> Found:
        """Values, the likeliest first; empty if the tensor is inside of what a node became, or if it is not known which output it is."""
        if index in self.border:
            return {self.border[index]: False}
        value = self._tflite.values[index]
        if index not in self._operator_of or value.variable:
            return {}
        integers = value.quantization is not None and value.tensor.type not in (0, 1)
        taken_in = _TAKEN_IN | _QUANTIZES if integers else _TAKEN_IN
        found = {value.name: False} if value.name in self._graph.producer else self._behind(index, taken_in)
        if integers:
            found = {
                name: reshaped for name, reshaped in self._as_integers(found).items() if self._is_on_scale(name, value)
            }
        return {name: reshaped for name, reshaped in found.items() if not self._before_quantize(name)}

    def _behind(self, index: int, taken_in: set[str]) -> Found:
        operator = self._operator_of[index]
        node = self._node_of(operator)
        if node is None or any(self._is_in(node, user) for user in self._users.get(index, ())):
            return {}
        own = node.outputs
        if len(operator.outputs) > 1:
            # An UNPACK may be several Gathers, and has the label of one of them.
            same = len(node.outputs) == len(operator.outputs)
            own = (node.outputs[operator.outputs.index(index)],) if same else ()
        return self._forward([name for name in own if name and name not in self._named], taken_in)

    def _forward(self, level: list[str], taken_in: set[str]) -> Found:
        """Values, and those that operators which may have been drawn in compute from them."""
        found = dict.fromkeys(level, False)
        for _ in range(_DEPTH - 1):
            behind: Found = {}
            for before in level:
                for user in self._graph.users.get(before, ()):
                    if user.operator in taken_in:
                        reshaped = found[before] or user.operator in _RESHAPES
                        for name in user.outputs:
                            if name and name not in self._named and name not in found:
                                behind[name] = behind.get(name, False) or reshaped
            found.update(behind)
            level = list(behind)
        return found

    def _as_integers(self, names: Found) -> Found:
        """The integers that values are quantized to or came from, in front of the values."""
        found: Found = {}
        for name, reshaped in names.items():
            producer = self._graph.producer.get(name)
            if producer is not None and producer.operator == "DequantizeLinear":
                found[producer.inputs[0]] = reshaped
            if producer is not None and producer.operator in ("QuantizeLinear", "DynamicQuantizeLinear"):
                found[name] = reshaped
            for user in self._graph.users.get(name, ()):
                if user.operator == "QuantizeLinear":
                    found[user.outputs[0]] = reshaped
        return {name: reshaped for name, reshaped in {**found, **names}.items() if name in self._graph.producer}

    def _is_on_scale(self, name: str, value: Value) -> bool:
        """False if a value has another scale than a tensor: a choice of integers may come before they are rescaled."""
        producer = self._graph.producer.get(name)
        if (
            producer is None
            or producer.operator not in _QUANTIZES
            or len(producer.inputs) < 2
            or value.quantization is None
        ):
            return True
        scale = self._graph.initializers.get(producer.inputs[1])
        if scale is None or scale.number is None or value.quantization.scale.size != 1:
            return True
        return math.isclose(scale.number, float(value.quantization.scale[0]), rel_tol=1e-5)

    def _before_quantize(self, name: str, depth: int = 4) -> bool:
        """Whether a value is only quantized: as an output it would keep ONNX Runtime from computing in integers."""
        users = self._graph.users.get(name, [])
        if not users or depth == 0 or name in self._graph.outputs:
            return False
        return all(
            user.operator == "QuantizeLinear"
            or (user.operator in _BEFORE_QUANTIZE and self._before_quantize(user.outputs[0], depth - 1))
            for user in users
        )


def group_of(tflite: TfliteGraph, output: int, known: Mapping[int, Any]) -> tuple[list[int], list[int]] | None:
    """The operators between known tensors and a tensor, and those known tensors.

    None if it needs a tensor that nothing gives, such as an input that is not known.
    """
    operators: set[int] = set()
    inputs: dict[int, None] = {}
    pending = [output]
    while pending:
        index = pending.pop()
        maker = tflite.makers.get(index)
        if maker is None:
            return None
        if maker.index in operators:
            continue
        operators.add(maker.index)
        for i in maker.inputs:
            if i < 0 or tflite.values[i].constant or tflite.values[i].variable:
                continue
            if i in known:
                inputs[i] = None
            else:
                pending.append(i)
    return sorted(operators), sorted(inputs)


def check_names(path: str, signature: Signature, graph: Graph) -> None:
    """Checks that a signature has the names of the ONNX model, and no others.

    Raises
    ------
    Unsupported
        If it does not; the message has the names that are there.
    """
    for what, ports, names in (
        ("inputs", signature.inputs, graph.inputs),
        ("outputs", signature.outputs, graph.outputs),
    ):
        own = [name for name, _ in ports]
        missing = [name for name in names if name not in own and name not in graph.kept_states]
        if missing:
            raise Unsupported(
                f"{path}: the {what} {', '.join(map(repr, missing))} of the ONNX model are not there; its {what} are "
                f"{', '.join(map(repr, own)) or 'none'}",
                file=path,
            )
        others = [name for name in own if name not in names]
        if others:
            raise Unsupported(
                f"{path}: the {what} {', '.join(map(repr, others))} are not in the ONNX model; its {what} are "
                f"{', '.join(map(repr, names)) or 'none'}",
                file=path,
            )
