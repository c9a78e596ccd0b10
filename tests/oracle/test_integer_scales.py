# SPDX-License-Identifier: Apache-2.0
"""Scales that are far apart, in LiteRT's three modes against ONNX Runtime's floats: integers that move from one scale to another,
all 256 of them, equal with XNNPACK and within a step in the other modes; operators that compute, within a step."""

import itertools

import numpy as np
import onnx
import onnxruntime
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from onnx import helper, numpy_helper

from tests.support import converter

MODES = {
    "XNNPACK": OpResolverType.BUILTIN,
    "built-in": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    "reference": OpResolverType.BUILTIN_REF,
}
TYPES = {"int8": (np.int8, -128), "uint8": (np.uint8, 0)}
# Of the data and of the result: scale and zero point in u8. Halves and quarters make ties; factors are from 1/300 to 300.
GRIDS = [
    ((0.0471, 121), (0.0513, 93)),
    ((0.0513, 0), (0.0471, 255)),
    ((0.0196914970874786, 128), (0.0235, 17)),
    ((0.25, 100), (0.5, 60)),
    ((0.125, 128), (0.5, 128)),
    ((0.75, 3), (0.5, 130)),
    ((0.0021, 128), (0.63, 128)),
    ((0.63, 127), (0.0021, 128)),
    ((0.5, 77), (0.25, 128)),
    ((0.03, 77), (0.03, 128)),
    ((0.0171, 0), (0.0001, 255)),
    ((0.0171, 255), (0.0001, 0)),
    ((0.0171, 255), (0.0001, 128)),
]


def rescaled(path, source, target):
    """q [8,32] -> y, for each of GRIDS."""
    nodes, constants = [], {}
    for i, grids in enumerate(GRIDS):
        for name, of, (scale, zero) in zip("st", (source, target), grids, strict=True):
            kind, least = TYPES[of]
            constants |= {f"{name}{i}": np.float32(scale), f"z{name}{i}": np.array(zero + least, kind)}
        nodes += [
            helper.make_node("DequantizeLinear", ["q", f"s{i}", f"zs{i}"], [f"x{i}"]),
            helper.make_node("QuantizeLinear", [f"x{i}", f"t{i}", f"zt{i}"], [f"y{i}"]),
        ]

    def value(name, of):
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(TYPES[of][0])), [8, 32])

    outputs = [value(f"y{i}", target) for i in range(len(GRIDS))]
    tensors = [numpy_helper.from_array(np.asarray(of), name) for name, of in constants.items()]
    graph = helper.make_graph(nodes, "g", [value("q", source)], outputs, tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def of_onnxruntime(path, inputs):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options)
    return dict(zip([of.name for of in session.get_outputs()], session.run(None, inputs), strict=True))


def of_litert(path, mode, inputs):
    interpreter = Interpreter(str(path), experimental_op_resolver_type=MODES[mode], num_threads=1)
    return interpreter.get_signature_runner()(**inputs)


@pytest.mark.parametrize("source", TYPES)
@pytest.mark.parametrize("target", TYPES)
def test_all_integers(source, target, tmp_path):
    path = rescaled(tmp_path / "m.onnx", source, target)
    kind, least = TYPES[source]
    integers = (np.arange(256) + least).astype(kind).reshape(8, 32)
    expected = of_onnxruntime(path, {"q": integers})
    converter.convert(path, tmp_path / "m.tflite")
    for mode in MODES:
        found = of_litert(tmp_path / "m.tflite", mode, {"q": integers})
        for i, grids in enumerate(GRIDS):
            steps = np.abs(found[f"y{i}"].astype(int) - expected[f"y{i}"])
            assert steps.max() <= (0 if mode == "XNNPACK" else 1), (mode, grids, np.count_nonzero(steps))


@pytest.mark.parametrize("of", TYPES)
@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul"])
@pytest.mark.parametrize("factor", [1.01, 70, 130, 250])  # of sums and of products
@pytest.mark.parametrize("result", [0, 128, 255])
def test_results_of_more_than_16_bits(kind, of, factor, result, tmp_path):
    """All pairs of integers, zero points at both ends. The built-in kernels have results in 16 bits before they saturate to 8."""
    dtype, least = TYPES[of]
    zeros = (0, 128, 255)
    pairs = np.meshgrid(*[(np.arange(256) + least).astype(dtype)] * 2, indexing="ij")
    # An input for each zero point: one of several grids would be a tensor of plain integers.
    inputs = {
        f"{name}{zero}": np.ascontiguousarray(array) for name, array in zip("ab", pairs, strict=True) for zero in zeros
    }
    constants = {f"z{zero}": np.array(zero + least, dtype) for zero in zeros}
    constants |= {"s": np.float32(0.02), "t": np.float32((0.02**2 if kind == "Mul" else 0.02) / factor)}
    nodes = [helper.make_node("DequantizeLinear", [name, "s", f"z{name[1:]}"], [f"x{name}"]) for name in inputs]
    outputs = []
    for first, second in itertools.product(zeros, repeat=2):
        floats, integers = f"r{first}_{second}", f"y{first}_{second}"
        nodes.append(helper.make_node(kind, [f"xa{first}", f"xb{second}"], [floats]))
        nodes.append(helper.make_node("QuantizeLinear", [floats, "t", f"z{result}"], [integers]))
        outputs.append(integers)

    def value(name):
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), [256, 256])

    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", [*map(value, inputs)], [*map(value, outputs)], tensors)
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    expected = of_onnxruntime(path, inputs)
    converter.convert(path, tmp_path / "m.tflite")
    for mode in ("XNNPACK", "built-in"):  # the reference kernels have no ROUND, which models of floats alone need
        found = of_litert(tmp_path / "m.tflite", mode, inputs)
        worst = {name: int(np.abs(found[name].astype(int) - expected[name]).max()) for name in outputs}
        assert max(worst.values()) <= 1, (mode, {name: steps for name, steps in worst.items() if steps > 1})


@pytest.mark.parametrize("factor, integers", [(0.9, True), (2, False)])
def test_products_of_more_than_32_bits(factor, integers, tmp_path):
    """Of 16 bits: the largest product is 2^30 steps."""
    corners = np.int16([-32768, -32767, -30000, 0, 1, 30000, 32767])
    inputs = dict(zip("ab", map(np.ascontiguousarray, np.meshgrid(corners, corners)), strict=True))
    nodes = [helper.make_node("DequantizeLinear", [name, "s"], [f"x{name}"]) for name in "ab"]
    nodes += [helper.make_node("Mul", ["xa", "xb"], ["r"]), helper.make_node("QuantizeLinear", ["r", "t", "z"], ["y"])]
    constants = {"s": np.float32(2**-8), "t": np.float32(2**-16 / factor), "z": np.int16(0)}
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.INT16, [7, 7]) for name in "aby"]
    tensors = [numpy_helper.from_array(np.asarray(of), name) for name, of in constants.items()]
    graph = helper.make_graph(nodes, "g", values[:2], values[2:], tensors)
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    expected = of_onnxruntime(path, inputs)["y"]
    converter.convert(path, tmp_path / "m.tflite")
    for mode in MODES if integers else ("XNNPACK", "built-in"):
        found = of_litert(tmp_path / "m.tflite", mode, inputs)["y"]
        assert np.abs(found.astype(int) - expected).max() <= 1, mode


@pytest.mark.parametrize("of", ["int8", "int16"])
@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("factor", [0.4, 60, 200])
def test_sums_that_leave_32_bits(factor, weights, of, tmp_path):
    """Long rows of large numbers, times a factor: kernels shift a sum to the left in 32 bits before they multiply it."""
    if of == "int16" and not weights:
        pytest.skip("BATCH_MATMUL has no such kernel with another type on the right")
    dtype, long = np.dtype(of).type, 4096
    random = np.random.default_rng(3)
    info = np.iinfo(dtype)
    inputs = {"a": random.integers(info.max // 2, info.max, (2, long), endpoint=True).astype(dtype)}
    inputs["a"][1] = -inputs["a"][1]
    right = random.integers(60, 127, (long, 3), endpoint=True).astype(np.int8)
    if not weights:
        inputs["b"] = right
    scale = 2.0**-8 if of == "int8" else 2.0**-16
    constants = {"s": np.float32(scale), "u": np.float32(0.5), "t": np.float32(scale / 2 / factor), "z": dtype(0)}
    if weights:
        constants["b"] = right
    nodes = [
        helper.make_node("DequantizeLinear", ["a", "s"], ["xa"]),
        helper.make_node("DequantizeLinear", ["b", "u"], ["xb"]),
        helper.make_node("MatMul", ["xa", "xb"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "t", "z"], ["y"]),
    ]

    def value(name, array_type, shape):
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(array_type)), shape)

    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    given = [value(name, array.dtype, list(array.shape)) for name, array in inputs.items()]
    graph = helper.make_graph(nodes, "g", given, [value("y", dtype, [2, 3])], tensors)
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    expected = of_onnxruntime(path, inputs)["y"]
    converter.convert(path, tmp_path / "m.tflite")
    for mode in ("XNNPACK", "built-in"):
        found = of_litert(tmp_path / "m.tflite", mode, inputs)["y"]
        assert np.abs(found.astype(int) - expected).max() <= 1, (mode, found, expected)


# Products of more than 32767 steps; HARD_SWISH does not load for factors of 128 and more.
@pytest.mark.parametrize("of", TYPES)
@pytest.mark.parametrize(
    "kind, scales, result",
    [
        ("Mul", (4, 9), 0.5),
        ("Mul", (4, 0.3), 0.02),
        ("Mul", (0.05, 0.04), 0.005),
        ("HardSwish", (4,), 0.02),
        ("HardSwish", (4,), 0.04),
    ],
)
def test_large_factors(kind, scales, result, of, tmp_path):
    dtype, least = TYPES[of]
    rng = np.random.default_rng(5)
    inputs = dict(zip("ab", (rng.integers(0, 256, (3, 5, 70)) + least for _ in scales), strict=False))
    inputs = {name: array.astype(dtype) for name, array in inputs.items()}
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), [3, 5, 70])
        for name in [*inputs, "y"]
    ]
    nodes = [helper.make_node("DequantizeLinear", [name, f"s{name}", "z"], [f"x{name}"]) for name in inputs]
    nodes += [
        helper.make_node(kind, [f"x{name}" for name in inputs], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "s", "z"], ["y"]),
    ]
    tensors = {f"s{name}": np.float32(scale) for name, scale in zip(inputs, scales, strict=True)}
    tensors |= {"s": np.float32(result), "z": np.array(128 + least, dtype)}
    graph = helper.make_graph(
        nodes,
        "g",
        values[:-1],
        values[-1:],
        [numpy_helper.from_array(np.asarray(t), name) for name, t in tensors.items()],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8), path)
    assert converter.convert(path, tmp_path / "m.tflite").status == "converted"
    expected = of_onnxruntime(path, inputs)["y"]
    modes = [mode for mode in MODES if mode != "reference" or kind != "HardSwish"]  # it has no HARD_SWISH of floats
    for mode in modes:
        found = of_litert(tmp_path / "m.tflite", mode, inputs)["y"]
        assert np.abs(found.astype(int) - expected).max() <= 1, mode
