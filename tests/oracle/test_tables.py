# SPDX-License-Identifier: Apache-2.0
"""convert --tables: functions of 8-bit integers, for all 256 of them, equal to ONNX Runtime's floats between
DequantizeLinear and QuantizeLinear to the last step, in LiteRT's three modes and without a float operator."""

import json
import re

import numpy as np
import onnx
import onnxruntime
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from onnx import TensorProto, helper, numpy_helper

from tests.support import converter

# What an exporter writes between DequantizeLinear and QuantizeLinear: x is the argument, the last call gives the result,
# and a, b, ... are the calls before it.
FUNCTIONS = {
    "acos": "Acos(x)",
    "asin": "Asin(x)",
    "asinh": "Asinh(x)",
    "atan": "Atan(x)",
    "ceil": "Ceil(x)",
    "celu": "Celu<alpha=0.7>(x)",
    "clip_between_steps": "Clip(x, low, high)",
    "cos": "Cos(x)",
    "cosh": "Cosh(x)",
    "cube": "Pow(x, three)",
    "distance_from_one": "Sub(one, x); Abs(a)",
    "elu": "Elu(x)",
    "elu_alpha": "Elu<alpha=0.7>(x)",
    "erf": "Erf(x)",
    "floor": "Floor(x)",
    "gate": "Less(x, one); Neg(x); Where(a, x, b)",
    "hard_sigmoid": "HardSigmoid<alpha=0.2,beta=0.5>(x)",
    "line": "Add(x, one); Div(a, three)",
    "log": "Log(x)",
    "mish": "Mish(x)",
    "negative": "Neg(x)",
    "reciprocal": "Reciprocal(x)",
    "relu_of_sine": "Sin(x); Relu(a)",
    "round": "Round(x)",
    "selu": "Selu(x)",
    "shrink": "Shrink<lambd=0.4,bias=0.1>(x)",
    "sigmoid": "Sigmoid(x)",
    "sign": "Sign(x)",
    "silu": "Sigmoid(x); Mul(x, a)",
    "sine": "Sin(x)",
    "sinh": "Sinh(x)",
    "softplus": "Softplus(x)",
    "softsign": "Softsign(x)",
    "sqrt": "Sqrt(x)",
    "square": "Mul(x, x)",
    "tan": "Tan(x)",
    "thresholded_relu": "ThresholdedRelu<alpha=0.3>(x)",
}
# Of the argument and of the result: scale and zero point in u8. Powers of two make ties.
GRIDS = {
    "usual": ((0.0471, 121), (0.00783, 93)),
    "powers_of_two": ((0.03125, 128), (0.015625, 128)),
    "narrow": ((0.0079, 3), (0.0041, 0)),
    "wide": ((0.25, 100), (0.5, 60)),
}
MODES = {
    "XNNPACK": OpResolverType.BUILTIN,
    "built-in": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    "reference": OpResolverType.BUILTIN_REF,
}
SHAPE = (2, 32, 4)
# A MUL and a LOG of 8 bits, and a rescale with limits: within a step, as all kernels.
WITH_A_KERNEL = {"clip_between_steps", "log", "square"}


def quantized_model(functions, grids, signed, shape=SHAPE):
    """x, dequantized from q, and each function of it, as floats (f_NAME) and quantized (NAME)."""
    (x_scale, x_zero), (y_scale, y_zero) = grids
    kind, shift = (np.int8, 128) if signed else (np.uint8, 0)
    constants = {
        "sx": np.float32(x_scale),
        "zx": np.array(x_zero - shift, kind),
        "sy": np.float32(y_scale),
        "zy": np.array(y_zero - shift, kind),
        "one": np.float32(1),
        "three": np.float32(3),
        "low": np.float32(-0.3371),
        "high": np.float32(0.7123),
        "axis": np.int64(1),
        "slopes": np.float32([1, 2, 3, 4]),
        "whole": np.int32(7),
    }
    type_name = "int8" if signed else "uint8"
    dims = f"[{','.join(map(str, shape))}]" if shape else ""
    body = "x = DequantizeLinear(q, sx, zx) "
    for name, text in functions.items():
        calls = text.split("; ")
        results = [f"{letter}_{name}" for letter in "ab"[: len(calls) - 1]] + [f"f_{name}"]
        for result, call in zip(results, calls, strict=True):
            body += f"{result} = " + re.sub(r"\b([ab])\b", rf"\1_{name}", call) + " "
        body += f"{name} = QuantizeLinear(f_{name}, sy, zy) "
    results = ", ".join(f"{type_name}{dims} {name}" for name in functions)
    graph = onnx.parser.parse_graph(f"g ({type_name}{dims} q) => ({results}) {{ {body}}}")
    graph.initializer.extend(
        numpy_helper.from_array(value, name) for name, value in constants.items() if re.search(rf"\b{name}\b", body)
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    return model


def all_integers(signed):
    return (
        np.arange(-128 if signed else 0, 128 if signed else 256).astype(np.int8 if signed else np.uint8).reshape(SHAPE)
    )


def of_onnxruntime(model, integers, floats=()):
    """Without fusions, which are free to compute otherwise."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in floats)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(copy.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, {"q": integers}), strict=True))


def of_litert(path, integers, mode):
    interpreter = Interpreter(str(path), experimental_op_resolver_type=MODES[mode], num_threads=1)
    return interpreter.get_signature_runner("serving_default")(q=integers)


def convert(model, folder, *options):
    """The .tflite file and what its report says of integers."""
    onnx.save(model, folder / "m.onnx")
    report = folder / "r.json"
    done = converter.run("convert", folder / "m.onnx", "-o", folder / "m.tflite", "--report", report, *options)
    assert done.returncode == 0, done.stderr
    return folder / "m.tflite", json.loads(report.read_text())["integers"]


def is_at_a_tie(floats, scale):
    """Where the last bit of a float decides to which step it is rounded; that bit depends on the processor."""
    with np.errstate(over="ignore", invalid="ignore"):
        steps = floats.astype(np.float64) / scale
        return np.abs(np.abs(steps - np.floor(steps)) - 0.5) <= 2.0**-22 * np.abs(steps)


@pytest.mark.parametrize("signed", [True, False], ids=["int8", "uint8"])
@pytest.mark.parametrize("grids", GRIDS.values(), ids=GRIDS)
def test_every_function_is_equal_for_every_integer(grids, signed, tmp_path):
    model = quantized_model(FUNCTIONS, grids, signed)
    path, report = convert(model, tmp_path, "--tables", "--require-integer")
    integers = all_integers(signed)
    expected = of_onnxruntime(model, integers, [f"f_{name}" for name in FUNCTIONS])
    wrong = {}
    for mode in MODES:
        made = of_litert(path, integers, mode)
        for name in FUNCTIONS:
            steps = np.abs(made[name].astype(int) - expected[name].astype(int))
            allowed = is_at_a_tie(expected[f"f_{name}"], np.float32(grids[1][0])) | (name in WITH_A_KERNEL)
            if (steps > allowed).any():
                at = int(np.argmax(steps - allowed))
                wrong[name, mode] = f"{np.count_nonzero(steps)} of 256, {steps.max()} at {integers.flat[at]}"
    assert not wrong
    assert report["float_islands"] == []
    assert report["tables"] == len(FUNCTIONS) - len(WITH_A_KERNEL)


@pytest.mark.parametrize("shape", [(), (7,), (2, 3), (2, 3, 1, 2, 4, 2), ("n", 3)], ids=str)
def test_ranks(shape, tmp_path):
    model = quantized_model({"sine": "Sin(x)"}, GRIDS["usual"], True, shape)
    path, report = convert(model, tmp_path, "--tables", "--require-integer")
    assert report["tables"] == 1
    integers = np.random.default_rng(3).integers(-128, 128, [5 if of == "n" else of for of in shape]).astype(np.int8)
    expected = of_onnxruntime(model, integers)["sine"]
    for mode in MODES:
        assert np.array_equal(of_litert(path, integers, mode)["sine"], expected), mode


def test_a_scale_of_the_kernel_needs_no_table(tmp_path):
    model = quantized_model({"sigmoid": "Sigmoid(x)"}, ((0.05, 100), (1 / 256, 0)), False)
    _, report = convert(model, tmp_path, "--tables")
    assert (report["operators"], report["tables"]) == (1, 0)


def test_without_the_option_floats_stay(tmp_path):
    model = quantized_model({"sine": "Sin(x)"}, GRIDS["usual"], True)
    _, report = convert(model, tmp_path)
    assert report["tables"] == 0 and [of["operator"] for of in report["float_islands"]] == ["SIN"]


@pytest.mark.parametrize(
    "text", ["CumSum(x, axis)", "Softmax(x)", "Mul(x, slopes); Sin(a)"], ids=["sum", "softmax", "slope_by_channel"]
)
def test_what_is_no_function_of_one_integer_stays_float(text, tmp_path):
    model = quantized_model({"y": text}, GRIDS["usual"], True)
    path, report = convert(model, tmp_path, "--tables")
    assert report["tables"] == 0 and report["float_islands"]
    integers = all_integers(True)
    steps = of_litert(path, integers, "XNNPACK")["y"].astype(int) - of_onnxruntime(model, integers)["y"]
    assert np.abs(steps).max() <= 1


def test_for_gpu_excludes_tables(tmp_path):
    onnx.save(quantized_model({"sine": "Sin(x)"}, GRIDS["usual"], True), tmp_path / "m.onnx")
    done = converter.run("convert", tmp_path / "m.onnx", "-o", tmp_path / "m.tflite", "--tables", "--for=gpu")
    assert done.returncode != 0 and "--for gpu and --tables exclude each other" in str(done.stderr)


@pytest.mark.parametrize("divides", ["Div", "Mod"])
@pytest.mark.parametrize("by_data", [True, False], ids=["by_data", "by_constant"])
def test_integers_divided_by_zero(divides, by_data, tmp_path):
    """A table has entries for all integers, and the data may have no 0 among them."""
    operands = "a, whole" if not by_data else "whole, a"
    text = f"Cast<to=6>(x); {divides}({operands}); Cast<to=1>(b)"
    model = quantized_model({"y": text}, GRIDS["wide"], True)
    path, report = convert(model, tmp_path, "--tables")
    assert report["tables"] == (0 if by_data else 1)
    integers = all_integers(True)
    if by_data:  # where the divisor is not 0
        zero = GRIDS["wide"][0][1] - 128
        integers = np.where(np.abs(integers.astype(int) - zero) < 4, np.int8(zero - 4), integers)
    steps = of_litert(path, integers, "built-in")["y"].astype(int) - of_onnxruntime(model, integers)["y"]
    assert np.abs(steps).max() <= 1
