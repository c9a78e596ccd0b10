# SPDX-License-Identifier: Apache-2.0
"""Along which axis a tensor has the channels that layers sum over: that of its means in a ranges file.

A list of means says nothing of the order of axes that a conversion chose, so all layers that read a tensor must have
the same ONNX axis as channels, also those that read it after a Transpose. Where they do not, there are no means.
"""

from __future__ import annotations

from collections.abc import Collection

from .onnx_graph import Graph, Node

# Operators whose first input has a mean by channel: axis of the channels.
_LAYERS = {
    "Conv": 1,
    "ConvTranspose": 1,
    "DeformConv": 1,
    "Gemm": -1,
    "GRU": -1,
    "LSTM": -1,
    "MatMul": -1,
    "RNN": -1,
}
# Transposes in a row that are followed; exporters write two at most.
_MOST_TRANSPOSES = 8


def channel_axes(graph: Graph, moving: Collection[str]) -> dict[str, int]:
    """By tensor; from the end where it is below 0.

    Parameters
    ----------
    graph : Graph
    moving : collection of str
        The tensors that are not constant. A product of two of them has no bias to correct: its axis counts only where no
        layer with weights reads the tensor.
    """
    out: dict[str, int | None] = {}
    names = dict.fromkeys(node.inputs[0] for node in graph.nodes if _axis(node) is not None)
    for with_weights in (True, False):
        for name in names:
            direct = [_axis(node) for node in graph.users[name] if _is_layer(node, name, moving, with_weights)]
            if direct:
                axes = {*direct, *_after_transposes(graph, name, moving, with_weights, _MOST_TRANSPOSES)}
                out.setdefault(name, axes.pop() if len(axes) == 1 else None)
    return {name: axis for name, axis in out.items() if axis is not None}


def _axis(node: Node) -> int | None:
    if node.operator not in _LAYERS or not node.inputs:
        return None
    return 0 if node.operator == "Gemm" and any(node.integers.get("transA", ())) else _LAYERS[node.operator]


def _is_layer(node: Node, name: str, moving: Collection[str], with_weights: bool) -> bool:
    if _axis(node) is None or node.inputs[0] != name:
        return False
    return (len(node.inputs) < 2 or node.inputs[1] not in moving) == with_weights


def _after_transposes(
    graph: Graph, name: str, moving: Collection[str], with_weights: bool, most: int
) -> list[int | None]:
    """Axes of `name` that layers mean which read a transposed form of it."""
    out: list[int | None] = []
    for node in graph.users[name]:
        if node.operator != "Transpose" or not node.outputs or most == 0:
            continue
        moved = node.outputs[0]
        axes = [_axis(user) for user in graph.users[moved] if _is_layer(user, moved, moving, with_weights)]
        axes += _after_transposes(graph, moved, moving, with_weights, most - 1)
        out += [None if axis is None else _before(node, axis) for axis in axes]
    return out


def _before(transpose: Node, axis: int) -> int | None:
    """The axis of a Transpose's data that became `axis`, counted from the same end where it can be."""
    order = transpose.integers.get("perm")
    if order is None:  # the reverse
        return -1 - axis
    if not -len(order) <= axis < len(order):
        return None
    moved = order[axis]
    return moved - len(order) if moved == len(order) - 1 else moved
