# SPDX-License-Identifier: Apache-2.0
"""Rules of ONNX Runtime's optimiser that are wrong for some models. Seen with onnxruntime 1.31.1:

* ReluQuantRewrite ("extended" and "all") takes a Relu in front of a QuantizeLinear for superfluous whose zero point is a constant of
  another type than 8-bit and 16-bit integers, such as f8 and 4-bit integers: results are those without the Relu.
* ClipQuantRewrite fails for such models with Clip: they are not loaded.
* WeightBiasQuantization ("basic" and above) rounds weights of floats to 8 bits in a convolution between DequantizeLinear and
  QuantizeLinear, even if the convolution's result is an output. In the whole of a model something else may use that result, which keeps
  the rule away; in a piece of it nothing does.
"""

from __future__ import annotations

from .onnx_graph import OPERATORS, WITH_BODIES, Graph, Node, read_graph

_ACTIVATIONS = ("ReluQuantRewrite", "ClipQuantRewrite")
_WEIGHTS = ("WeightBiasQuantization",)
# ONNX's numbers of the types for which the first two are right: UINT8, INT8, UINT16, INT16.
_RIGHT = (2, 3, 4, 5)
_WITH_WEIGHTS = {"Conv", "ConvTranspose", "Gemm"}


def unsafe_rules(path: str, model: bytes) -> list[str]:
    """Names of the rules that may be wrong for a model; `model` is its skeleton (onnx_header.py).

    Without them results are right for any model. QuantizeLinear in bodies and functions may be anything.
    """
    if b"QuantizeLinear" not in model:
        return []
    graph = read_graph(path)
    if any(node.operator in WITH_BODIES or node.domain not in OPERATORS for node in graph.nodes):
        return [*_ACTIVATIONS, *_WEIGHTS]
    activations = any(not _is_right(graph, node) for node in graph.nodes if node.operator == "QuantizeLinear")
    weights = any(_has_float_weights(graph, node) for node in graph.nodes if node.operator in _WITH_WEIGHTS)
    return [*(_ACTIVATIONS if activations else ()), *(_WEIGHTS if weights else ())]


def _is_right(graph: Graph, node: Node) -> bool:
    if len(node.inputs) < 3 or not node.inputs[2]:
        return True
    zero = graph.initializers.get(node.inputs[2])
    return zero is not None and zero.type in _RIGHT


def _has_float_weights(graph: Graph, node: Node) -> bool:
    """Whether the data come from DequantizeLinear, and the weights do not."""
    makers = [graph.producer.get(name) for name in node.inputs[:2]]
    dequantizes = [maker is not None and maker.operator == "DequantizeLinear" for maker in makers]
    return dequantizes == [True, False]
