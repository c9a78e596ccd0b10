# SPDX-License-Identifier: Apache-2.0
"""Integers that are moved between two integer kernels, along more axes than most kernels have, keep their scale: the numbers are
ONNX Runtime's, no tensor of a kernel with scales is without one, and the file goes back to ONNX."""

import numpy as np
import onnx
import onnxruntime
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from onnx import helper, numpy_helper

from tests.support import converter

TYPES = {"int8": (np.int8, 4), "uint8": (np.uint8, 120)}
SCALE, RESULT = 0.03, 0.2
# Reshape, Transpose, Reshape: a detector's boxes, channels that are mixed, patches that become an image.
MOVES = {
    "boxes": ([1, 3, 7, 8, 6], [0, 1, 3, 4, 2], [1, 144, 7]),
    "shuffled": ([1, 3, 7, 4, 2, 6], [0, 2, 1, 4, 5, 3], [1, 144, 7]),
    "image": ([1, 8, 6, 3, 7], [0, 3, 1, 4, 2], [1, 144, 7]),
}
# The type and zero point of the second weights: zero points beside 0 want u8 data, others i8.
WEIGHTS = {"int8": (np.int8, 0), "uint8": (np.uint8, 119)}


def moved_between_products(path, dtype, move, weights):
    """x -> Conv -> MOVES -> MatMul -> y, with QuantizeLinear and DequantizeLinear around each."""
    kind, zero = TYPES[dtype]
    second, second_zero = WEIGHTS[weights]
    first, order, last = MOVES[move]
    rng = np.random.default_rng(5)
    constants = {
        "s": np.float32(SCALE),
        "z": np.array(zero, kind),
        "t": np.float32(RESULT),
        "wq": rng.integers(-127, 128, (21, 3, 1, 1)).astype(np.int8),
        "ws": np.linspace(0.01, 0.02, 21, dtype=np.float32),
        "wz": np.zeros(21, np.int8),
        "vq": rng.integers(np.iinfo(second).min, np.iinfo(second).max + 1, (7, 5)).astype(second),
        "vs": np.float32(0.02),
        "vz": np.array(second_zero, second),
        "first": np.array(first, np.int64),
        "last": np.array(last, np.int64),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["wq", "ws", "wz"], ["w"], axis=0),
        helper.make_node("DequantizeLinear", ["vq", "vs", "vz"], ["v"]),
    ]

    def quantized(name, scale="s"):
        nodes.append(helper.make_node("QuantizeLinear", [name, scale, "z"], [f"{name}_q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", scale, "z"], [f"{name}_d"]))
        return f"{name}_d"

    nodes.append(helper.make_node("Conv", [quantized("x"), "w"], ["c"]))
    nodes.append(helper.make_node("Reshape", [quantized("c"), "first"], ["r"]))
    nodes.append(helper.make_node("Transpose", [quantized("r")], ["p"], perm=order))
    nodes.append(helper.make_node("Reshape", [quantized("p"), "last"], ["l"]))
    nodes.append(helper.make_node("MatMul", [quantized("l"), "v"], ["m"]))
    output = quantized("m", "t")
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, 8, 6])],
        [helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, [1, 144, 5])],
        [numpy_helper.from_array(np.asarray(of), name) for name, of in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def of_onnxruntime(path, x):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options).run(None, {"x": x})[0]


def without_scale(path):
    """Operators of which some tensors of 8 bits have a scale, and others none."""
    resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(str(path), experimental_op_resolver_type=resolver)
    small = {t["index"]: t for t in interpreter.get_tensor_details() if np.dtype(t["dtype"]).itemsize == 1}
    found = []
    for op in interpreter._get_ops_details():
        tensors = [small[i] for i in [*op["inputs"], *op["outputs"]] if i in small]
        if len({len(t["quantization_parameters"]["scales"]) > 0 for t in tensors}) > 1:
            found.append((op["op_name"], [t["name"] for t in tensors]))
    return found


@pytest.mark.parametrize("options", [(), ("--tables",), ("--io", "int8"), ("--for", "gpu")], ids=" ".join)
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("dtype", TYPES)
def test_of_more_than_four_axes(dtype, move, weights, options, tmp_path):
    path, out, back = moved_between_products(tmp_path / "m.onnx", dtype, move, weights), "m.tflite", "back.onnx"
    done = converter.convert(path, tmp_path / out, options)
    assert done.status == "converted", done
    assert without_scale(tmp_path / out) == []
    done = converter.convert(tmp_path / out, tmp_path / back)
    assert done.status == "converted", done
    if "--io" in options:  # the operators are the same, with other borders
        return
    x = np.random.default_rng(7).uniform(-3.4, 3.4, (1, 3, 8, 6)).astype(np.float32)
    expected = of_onnxruntime(path, x)
    for resolver in (OpResolverType.BUILTIN, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES):
        interpreter = Interpreter(str(tmp_path / out), experimental_op_resolver_type=resolver, num_threads=1)
        (found,) = interpreter.get_signature_runner()(x=x).values()
        assert np.abs(found - expected).max() <= 2.01 * RESULT, resolver  # a step of Conv is up to one of MatMul
    np.testing.assert_allclose(of_onnxruntime(tmp_path / back, x), expected, atol=2.01 * RESULT)
