# SPDX-License-Identifier: Apache-2.0
"""verify: what it measures, what it finds, and what it says."""

import json
import math
import os
import resource
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import lowtide
from lowtide import matching, onnx_graph, pieces_verification, run_command, tflite_graph, verify_command
from lowtide.__main__ import main
from lowtide.difference import Sum
from lowtide.output_path import check_output_path
from lowtide.tolerances import Tolerances
from tests.python import integer_models, models
from tests.raised.tflite_models import Model
from tests.support import handmade

RNG = np.random.default_rng(3)
KERNELS = ["xnnpack", "builtin", "reference"]


def image_net(path, *, scale=1.0):
    """Two convolutions in NCHW with an activation, and a mean: what settles layouts."""
    first, second = (RNG.random(shape).astype(np.float32) - 0.5 for shape in ((8, 3, 3, 3), (4, 8, 1, 1)))
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "b"], ["d"]),
        helper.make_node("Sigmoid", ["d"], ["s"]),
        helper.make_node("GlobalAveragePool", ["s"], ["y"]),
    ]
    value = models.value
    return models.save(
        path,
        nodes,
        [value("x", "float32", [1, 3, 6, 6])],
        [value("s", "float32", [1, 4, 6, 6]), value("y", "float32", [1, 4, 1, 1])],
        {"a": first * scale, "b": second},
    )


@pytest.fixture
def net(tmp_path):
    path = image_net(tmp_path / "net.onnx")
    return path, models.converted(path)


@pytest.fixture
def integers(tmp_path):
    return integer_models.onnx_model(tmp_path / "q.onnx")


# ---- Numbers ----------------------------------------------------------------------------------------------------------


def added(expected, got, **how):
    total = Sum()
    total.add(np.asarray(expected), np.asarray(got), **how)
    return total.result()


def test_errors_of_floats():
    of = added(np.array([[1.0, -4.0, 2.0]], np.float32), np.array([[1.0, -4.0, 2.5]], np.float32))
    assert (of.max_abs, of.mean_abs) == (0.5, 0.5 / 3) and (of.max_rel, of.mean_rel) == (0.125, 0.125 / 3)
    assert of.snr_db == pytest.approx(10 * math.log10(21 / 0.25)) and of.steps is None and of.argmax == 1.0


def test_equal_arrays_have_no_noise_and_json_no_infinity():
    of = added(np.ones(3, np.float32), np.ones(3, np.float32))
    assert of.snr_db == math.inf and of.values()["snr_db"] is None


def test_steps_of_integers_are_errors_in_real_numbers():
    of = added(np.array([[10, 20, 30, 40]], np.int8), np.array([[10, 21, 32, 37]], np.int8), scale=0.5, zero=10)
    assert (of.steps.equal, of.steps.within_1, of.steps.within_2, of.steps.largest) == (0.25, 0.5, 0.75, 3)
    assert of.max_abs == 1.5 and of.max_rel == 1.5 / 15


def test_extremes_of_integers_do_not_overflow():
    of = added(np.array([-128, 127], np.int8), np.array([127, -128], np.int8))
    assert of.steps.largest == 255


@pytest.mark.parametrize(
    "expected, got, dtype",
    [
        (-(2**63), 0, "int64"),
        (0, -(2**63), "int64"),
        (-(2**63), 2**63 - 1, "int64"),
        (2**63, 0, "uint64"),
        (0, 2**64 - 1, "uint64"),
        (-(2**31), 2**31 - 1, "int32"),
        (False, True, "bool"),
    ],
)
def test_distances_of_wide_integers_are_exact(expected, got, dtype):
    of = added(np.array([expected, 1], dtype), np.array([got, 1], dtype))
    distance = abs(int(got) - int(expected))
    assert of.steps.largest == distance and of.steps.equal == 0.5 and of.max_abs == pytest.approx(distance)
    assert of.mean_abs == pytest.approx(distance / 2) and of.snr_db < 10
    assert Tolerances().judge(of, dtype, False)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e-300, 1e-160, 1.0, 1e160, 1.7e308])
def test_noise_of_numbers_whose_squares_float64_does_not_hold(size):
    of = added(np.array([1, -0.5, 0.25]) * size, np.array([1, -0.5, 0.5]) * size)
    assert of.snr_db == pytest.approx(10 * math.log10(1.3125 / 0.0625))


def test_nan_and_infinity():
    nan, inf = math.nan, math.inf
    same = added(np.array([nan, inf, -inf, 1], np.float32), np.array([nan, inf, -inf, 1], np.float32))
    assert same.max_abs == 0 and same.not_finite == 0
    other = added(np.array([nan, inf, 1, 1], np.float32), np.array([1, -inf, 1, nan], np.float32))
    assert other.not_finite == 3 and other.max_abs == inf and other.snr_db == -inf


def test_samples_are_added_up():
    total = Sum()
    for shift in (0, 1):
        total.add(np.array([[1, 2]], np.uint8), np.array([[1 + shift, 2]], np.uint8))
    of = total.result()
    assert of.elements == 4 and of.steps.equal == 0.75 and of.argmax == 0.5


def test_each_sample_is_judged_by_its_own_magnitude():
    large, small = np.float32([1e3, -2e3]), np.float32([1e-6, 0])
    right, wrong = Sum(), Sum()
    for total, factor in ((right, 1.0), (wrong, 30.0)):
        total.add(large, large + np.float32(1))  # by rtol
        total.add(small, small + np.float32(factor * 5e-6))  # by atol: five times its magnitude, and one is nothing
        total.add(large, large)
    bounds = Tolerances()
    assert right.result().max_abs > bounds.atol and right.result().max_rel > bounds.rtol
    assert bounds.judge(right.result(), "float32", False) == ""
    assert "1.5e+02 of the largest magnitude" in bounds.judge(wrong.result(), "float32", False)
    # What a sample is off is not excused by the magnitude of another one.
    other = Sum()
    other.add(large, large)
    other.add(np.float32([1.0]), np.float32([1.5]))
    assert "0.5 of the largest magnitude" in bounds.judge(other.result(), "float32", False)


def test_extremes_of_samples():
    total = Sum()
    for magnitude, error in ((4, 1), (8, 1), (2, 0.5), (16, 3), (4, 2), (2, 0.5)):
        total.add(np.float32([magnitude]), np.float32([magnitude - error]))
    assert sorted(total.result().extremes) == [(0.5, 2.0), (2.0, 4.0), (3.0, 16.0)]


def test_integers_that_were_compared_as_floats_do_not_pass():
    bounds = Tolerances()
    assert "not compared in steps" in bounds.judge(
        added(np.ones(3, np.float32), np.ones(3, np.float32)), "int32", False
    )
    assert bounds.judge(added(np.ones(3, np.float32), np.ones(3, np.float32)), "bfloat16", False) == ""


def test_arg_max_of_images_is_along_channels():
    expected = np.zeros((1, 3, 2, 2), np.float32)
    got = expected.copy()
    expected[0, 1], got[0, 1], got[0, 2, 0, 0] = 1, 1, 2
    assert added(expected, got).argmax == 0.75


# ---- Orders of axes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source, target, expected",
    [
        ((1, 3, 4, 5), (1, 4, 5, 3), [(0, 2, 3, 1)]),
        ((1, 3, 4, 5), (1, 3, 4, 5), [(0, 1, 2, 3)]),
        ((2, 3), (1, 2, 1, 3), [(0, 1)]),
        ((1, 2, 3), (7,), []),
        ((2, 2), (2, 2), [(0, 1), (1, 0)]),
        ((1, 3, 4, 4), (16, 3), [(0, 1, 2, 3), (0, 2, 3, 1), (0, 3, 1, 2)]),
    ],
)
def test_orders(source, target, expected):
    assert matching.orders(source, target) == expected


def test_equal_axes_in_any_order():
    assert matching.has_same_axes((1, 3, 4, 4), (4, 1, 4, 3)) and matching.has_same_axes((1, 2), (2,))
    assert not matching.has_same_axes((1, 3, 4, 4), (16, 3)) and not matching.has_same_axes((48, 2, 2), (1, 24, 4, 2))


def test_rounding_is_that_of_quantize_linear():
    got = matching.quantized(np.array([0.5, 1.5, -0.5, 300, -300, np.nan], np.float32), 1.0, 3, np.dtype(np.int8))
    assert got.tolist() == [3, 5, 3, 127, -128, 3]


# ---- Whole models -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernels", KERNELS)
def test_a_conversion_passes(net, kernels):
    found = lowtide.verify(*net, random=3, kernels=kernels)
    assert found.passed and found.samples == 3 and kernels in found.tflite.lower()
    assert [of.name for of in found.outputs] == ["s", "y"]
    assert found.outputs[0].difference.elements == 3 * 144 and found.outputs[0].difference.snr_db > 100


def test_another_model_fails(net, tmp_path):
    other = models.converted(image_net(tmp_path / "other.onnx", scale=1.05))
    found = lowtide.verify(net[0], other)
    assert not found.passed and found.first_difference.name == "s"
    assert "of the largest magnitude" in found.first_difference.problem
    assert lowtide.verify(net[0], other, rtol=10).passed
    assert lowtide.verify(net[0], other, min_snr=1).passed and not lowtide.verify(net[0], other, min_snr=100).passed


@pytest.mark.parametrize("name", ["rtol", "atol", "min_snr", "max_steps", "min_equal"])
def test_bounds_that_everything_would_pass(name, net, tmp_path):
    other = models.converted(image_net(tmp_path / "other.onnx", scale=1.05))
    values = [-1] if name == "max_steps" else [math.nan, -1.0, math.inf]
    for value in [*values, *([1.5] if name == "min_equal" else [])]:
        with pytest.raises(lowtide.Usage, match=f"^{name} is {value}, but must be "):
            lowtide.verify(net[0], other, **{name: value})
    with pytest.raises(TypeError, match=f"{name} must be"):
        lowtide.verify(net[0], other, **{name: "1"})


@pytest.mark.parametrize("layout", [{"x": "nhwc"}, {"s": "nhwc"}, {"x": "nhwc", "s": "nhwc"}])
def test_layouts_at_the_border(net, layout):
    path = lowtide.convert(net[0], net[1].with_name("nhwc.tflite"), layout=layout).output
    for how in ({}, {"layout": layout}):
        assert lowtide.verify(net[0], path, by_op=True, **how).passed
        assert lowtide.verify(net[0], path, **how).passed


def test_a_layout_that_extents_do_not_say(tmp_path):
    path = models.save(
        tmp_path / "cube.onnx",
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        [models.value("x", "float32", [1, 4, 4, 4])],
        [models.value("y", "float32", [1, 4, 4, 4])],
        {"w": RNG.random((4, 4, 1, 1)).astype(np.float32)},
    )
    tflite = models.converted(path, layout={"x": "nhwc", "y": "nhwc"})
    assert not lowtide.verify(path, tflite).passed
    assert lowtide.verify(path, tflite, layout={"x": "nhwc", "y": "nhwc"}).passed
    with pytest.raises(lowtide.Usage, match="must be nhwc or nchw"):
        lowtide.verify(path, tflite, layout={"x": "hwc"})
    with pytest.raises(lowtide.Usage, match="no input or output is called 'z'"):
        lowtide.verify(path, tflite, layout={"z": "nhwc"})


def test_by_tensor_and_by_op_of_floats(net):
    for how in ({"by_tensor": True}, {"by_op": True}):
        found = lowtide.verify(*net, random=2, **how)
        assert found.passed, found
        values = {of.value for of in found.tensors}
        assert {"r", "s", "y"} <= values and found.uncompared < len(found.tensors)
        assert all(of.difference.max_rel < 1e-5 for of in found.tensors)


def test_by_tensor_names_the_first_that_differs(net, tmp_path):
    other = models.converted(image_net(tmp_path / "other.onnx", scale=1.05))
    found = lowtide.verify(net[0], other, by_tensor=True)
    assert not found.passed and found.first_difference.value in ("r", "d", "s")
    assert found.first_difference is next(of for of in found.tensors if of.problem)


def test_a_flattened_image_is_in_the_order_of_its_channels(tmp_path):
    first, second = RNG.random((8, 3, 3, 3)).astype(np.float32), RNG.random((8 * 4 * 4, 5)).astype(np.float32)
    path = models.save(
        tmp_path / "flat.onnx",
        [
            helper.make_node("Conv", ["x", "a"], ["c"]),
            helper.make_node("Flatten", ["c"], ["f"]),
            helper.make_node("MatMul", ["f", "b"], ["y"]),
        ],
        [models.value("x", "float32", [1, 3, 6, 6])],
        [models.value("y", "float32", [1, 5])],
        {"a": first - 0.5, "b": second - 0.5},
    )
    found = lowtide.verify(path, models.converted(path), by_op=True)
    assert found.passed and "FULLY_CONNECTED" in [of.operators for of in found.tensors], found


def square_net(path, scale=1.0):
    first, second = (RNG.standard_normal(shape).astype(np.float32) for shape in ((8, 3, 3, 3), (5, 8, 3, 3)))
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "b"], ["d"], pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["d"], ["y"]),
    ]
    x, y = models.value("x", "float32", [1, 3, 8, 8]), models.value("y", "float32", [1, 5, 8, 8])
    return models.save(path, nodes, [x], [y], {"a": first, "b": second * np.float32(scale)})


@pytest.mark.parametrize("by", [{"by_op": True}, {"by_tensor": True}])
@pytest.mark.parametrize(
    "kind", ["zeros", "the same in both directions", "zeros, and then the same in both directions"]
)
def test_the_first_sample_does_not_say_the_order(tmp_path, by, kind):
    path = square_net(tmp_path / "n.onnx")
    tflite = models.converted(path)
    zeros = np.zeros((1, 3, 8, 8), np.float32)
    flat = zeros + np.float32([0.5, 1, -1]).reshape(1, 3, 1, 1)
    poor = {"zeros": [zeros], "the same in both directions": [flat]}.get(kind, [zeros, zeros, flat])
    samples = [{"x": x} for x in (*poor, RNG.random((1, 3, 8, 8)).astype(np.float32))]
    found = lowtide.verify(path, tflite, inputs=samples, **by)
    assert found.passed and {tensor.value for tensor in found.tensors} >= {"r", "y"}
    other = models.converted(square_net(tmp_path / "o.onnx", scale=1.01))
    assert not lowtide.verify(path, other, inputs=samples, **by).passed


@pytest.mark.parametrize("by", [{"by_op": True}, {"by_tensor": True}])
def test_where_no_sample_says_the_order_it_is_that_of_what_comes_before(tmp_path, by):
    """More samples than are looked at have only zeros."""
    path = square_net(tmp_path / "n.onnx")
    tflite = models.converted(path, layout={"x": "nhwc", "y": "nhwc"})
    zeros = np.zeros((1, 3, 8, 8), np.float32)
    samples = [{"x": x} for x in (*[zeros] * 6, RNG.random((1, 3, 8, 8)).astype(np.float32))]
    assert lowtide.verify(path, tflite, inputs=samples, layout={"x": "nhwc", "y": "nhwc"}, **by).passed


# ---- Element types and extents ----------------------------------------------------------------------------------------


def cast_product(path, to, weights):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"])]
    nodes.append(helper.make_node("Cast", ["a"], ["y"], to=models.ELEMENTS[to]))
    x, y = models.value("x", "float32", [5, 2]), models.value("y", to, [5, 3])
    return models.save(path, nodes, [x], [y], {"w": np.float32(weights)})


@pytest.mark.parametrize("by", [{}, {"by_op": True}, {"by_tensor": True}])
@pytest.mark.parametrize(
    ("dtype", "other"),
    [
        ("float32", "int32"),
        ("float32", "int64"),
        ("float32", "uint8"),
        ("float32", "bool"),
        ("int64", "float32"),
        ("int64", "int32"),
    ],
)
def test_another_element_type_is_never_right(tmp_path, dtype, other, by):
    """Whatever the numbers are: these are equal in all types, and zero."""
    path = cast_product(tmp_path / "a.onnx", dtype, [[0, 0, 0], [0, 0, 0]])
    tflite = models.converted(cast_product(tmp_path / "b.onnx", other, [[0, 0, 0], [0, 0, 0]]))
    assert lowtide.verify(tmp_path / "b.onnx", tflite, **by).passed
    found = lowtide.verify(path, tflite, **by)
    assert not found.passed
    assert found.outputs[0].problem == f"{other} in the TFLite file, and {dtype} in the ONNX model"
    assert math.isinf(found.outputs[0].difference.max_abs) and found.values()["outputs"][0]["max_abs"] is None
    assert "OUTSIDE: " + found.outputs[0].problem in "\n".join(verify_command.text(found, False))


def test_an_input_of_another_element_type_cannot_be_given(tmp_path):
    models.identity(tmp_path / "a.onnx", "int64")
    tflite = models.converted(models.identity(tmp_path / "b.onnx", "int32"))
    with pytest.raises(lowtide.Usage, match="the input 'x' is int32 in the TFLite file, and int64 in the ONNX model"):
        lowtide.verify(tmp_path / "a.onnx", tflite)


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint32", "bool"]
)
def test_the_element_types_that_the_program_writes(tmp_path, dtype):
    path = models.identity(tmp_path / "a.onnx", dtype)
    tflite = models.converted(path)
    for by in ({}, {"by_op": True}, {"by_tensor": True}):
        assert lowtide.verify(path, tflite, random=2, **by).passed


@pytest.mark.parametrize("io", ["int8", "uint8", "float"])
@pytest.mark.parametrize("by", [{}, {"by_op": True}, {"by_tensor": True}])
def test_integers_with_a_scale_in_place_of_floats_and_the_other_way_round(integers, tmp_path, io, by):
    assert lowtide.verify(integers, models.converted(integers, io=io), random=2, **by).passed
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["a"]),
        helper.make_node("MatMul", ["a", "w"], ["m"]),
        helper.make_node("QuantizeLinear", ["m", "t", "z"], ["y"]),
    ]
    weights = {"s": np.float32(0.05), "z": np.uint8(120), "t": np.float32(0.1), "w": np.float32([[0.5, 1], [-0.5, 2]])}
    x, y = models.value("x", "uint8", [4, 2]), models.value("y", "uint8", [4, 2])
    path = models.save(tmp_path / "u8.onnx", nodes, [x], [y], weights)
    tflite = models.converted(path, io=io)
    assert lowtide.verify(path, tflite, random=2, **by).passed
    weights["t"] = np.float32(0.15)
    models.save(path, nodes, [x], [y], weights)
    assert not lowtide.verify(path, tflite, random=2, **by).passed


def test_scales_that_the_onnx_model_says(tmp_path):
    """In both encodings of an integer, and through operators that keep integers as they are."""
    nodes = [
        helper.make_node("Reshape", ["x", "to"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "s", "zero"], ["f"]),
        helper.make_node("QuantizeLinear", ["f", "t", "raw"], ["q"]),
        helper.make_node("Transpose", ["q"], ["y"]),
        helper.make_node("Abs", ["x"], ["other"]),
    ]
    tensors = [
        numpy_helper.from_array(np.int64([2, 3]), "to"),
        numpy_helper.from_array(np.float32(0.25), "s"),
        helper.make_tensor("zero", onnx.TensorProto.INT8, [], [-7]),
        helper.make_tensor("t", onnx.TensorProto.FLOAT, [], [0.5]),
        numpy_helper.from_array(np.int8(-9), "raw"),
    ]
    value = models.value
    outputs = [value("y", "int8", [3, 2]), value("other", "int8", [6])]
    graph = helper.make_graph(nodes, "g", [value("x", "int8", [6])], outputs, tensors)
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    graph = onnx_graph.read_graph(str(tmp_path / "m.onnx"))
    assert (graph.grid("x"), graph.grid("y"), graph.grid("other")) == ((0.25, -7.0), (0.5, -9.0), None)


IMAGES = [{}, {"std": 255}, {"mean": 127.5, "std": 127.5}, {"mean": [123, 117, 104], "std": [58, 57, 56]}]


@pytest.mark.parametrize("layout", [{}, {"layout": {"x": "nhwc"}}])
@pytest.mark.parametrize("how", IMAGES)
def test_raw_images(tmp_path, how, layout):
    path = image_net(tmp_path / "n.onnx")
    tflite = models.converted(path, input_uint8="x", **how, **layout)
    for by in ({}, {"by_op": True}, {"by_tensor": True}):
        assert lowtide.verify(path, tflite, random=2, **by, **layout).passed
    image_net(tmp_path / "other.onnx", scale=1.1)
    assert not lowtide.verify(tmp_path / "other.onnx", tflite, **layout).passed


def test_raw_images_that_are_given(tmp_path):
    path = image_net(tmp_path / "n.onnx")
    tflite = models.converted(path, input_uint8="x", mean=[123, 117, 104], std=[58, 57, 56])
    whole = RNG.integers(0, 256, (1, 3, 6, 6)).astype(np.float32)
    mean, std = (np.float32(numbers).reshape(3, 1, 1) for numbers in ([123, 117, 104], [58, 57, 56]))
    other_rounding = (whole / np.float32(255) - mean / 255) / (std / 255)
    for x in ((whole - mean) / std, other_rounding):
        assert lowtide.verify(path, tflite, inputs={"x": x.astype(np.float32)}).passed
    with pytest.raises(
        lowtide.Usage, match="takes integers from 0 to 255 .convert --input-uint8., and a sample has floats"
    ):
        lowtide.verify(path, tflite, inputs={"x": ((whole + 0.5 - mean) / std).astype(np.float32)})


def test_raw_images_whose_mean_is_not_in_the_file(tmp_path):
    path = image_net(tmp_path / "n.onnx")
    nodes = [
        helper.make_node("Cast", ["x"], ["f"], to=models.ELEMENTS["float32"]),
        helper.make_node("Relu", ["f"], ["s"]),
    ]
    nodes.append(helper.make_node("GlobalAveragePool", ["s"], ["y"]))
    value = models.value
    outputs = [value("s", "float32", [1, 3, 6, 6]), value("y", "float32", [1, 3, 1, 1])]
    tflite = models.converted(models.save(tmp_path / "o.onnx", nodes, [value("x", "uint8", [1, 3, 6, 6])], outputs))
    with pytest.raises(lowtide.Usage, match="uint8 without a scale, and float32 in the ONNX model; .*--input-uint8"):
        lowtide.verify(path, tflite)


def test_names_that_the_onnx_model_does_not_have(tmp_path):
    x, z = models.value("x", "float32", [3]), models.value("z", "float32", [3])
    y, w = models.value("y", "float32", [3]), models.value("w", "float32", [3])
    relu, neg = helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["w"])
    path = models.save(tmp_path / "a.onnx", [relu], [x], [y])
    more_inputs = models.save(tmp_path / "i.onnx", [helper.make_node("Add", ["x", "z"], ["y"])], [x, z], [y])
    more_outputs = models.save(tmp_path / "o.onnx", [relu, neg], [x], [y, w])
    for other, words in (
        (more_inputs, "the inputs 'z' are not in the"),
        (more_outputs, "the outputs 'w' are not in the"),
    ):
        with pytest.raises(lowtide.Unsupported, match=words):
            lowtide.verify(path, models.converted(other))


@pytest.mark.parametrize("by", [{}, {"by_op": True}, {"by_tensor": True}])
def test_data_dependent_extents_that_differ(environment, tmp_path, by):
    def net(path, factor):
        nodes = [
            helper.make_node("Mul", ["x", "k"], ["a"]),
            helper.make_node("Greater", ["a", "t"], ["g"]),
            helper.make_node("NonZero", ["g"], ["z"]),
            helper.make_node("Cast", ["z"], ["zf"], to=models.ELEMENTS["float32"]),
            helper.make_node("Exp", ["zf"], ["y"]),
        ]
        x, y = models.value("x", "float32", [40]), models.value("y", "float32", [1, "n"])
        return models.save(path, nodes, [x], [y], {"k": np.float32(factor), "t": np.float32(0.5)})

    path, tflite = net(tmp_path / "a.onnx", 1), models.converted(net(tmp_path / "b.onnx", 1.05))
    same = np.float32([0] * 20 + [1] * 20)  # in the first sample the counts are equal
    other = np.float32(np.linspace(0, 1, 40))
    found = lowtide.verify(path, tflite, inputs=[{"x": same}, {"x": other}], **by)
    assert not found.passed and "not the same extents" in found.outputs[0].problem
    np.savez(tmp_path / "s.npz", x=np.stack([same, other]))
    options = [f"--{name.replace('_', '-')}" for name in by]
    command = [sys.executable, "-m", "lowtide", "verify", path, tflite, "--inputs", tmp_path / "s.npz", *options]
    done = subprocess.run([*map(str, command)], env=environment, capture_output=True, text=True)
    assert done.returncode == 12 and "Traceback" not in done.stderr


class _Gives:
    """A model in the place of a Runner, which gives one array in each run."""

    def __init__(self, *arrays):
        self._arrays = iter(arrays)

    def run(self, sample, names):
        return {"y": next(self._arrays)}


def test_extents_of_pieces_that_differ(tmp_path):
    reference, tested = (_Gives(np.ones(3, np.float32), np.ones(n, np.float32)) for n in (3, 4))
    dtype, difference = pieces_verification.compare(reference, tested, ["y"], [{}, {}])["y"]
    assert Tolerances().judge(difference, dtype, False) == "[3] in the model and [4] in the pieces"


def test_an_output_that_no_operator_computes_is_judged_by_itself(tmp_path):
    nodes = [helper.make_node("Relu", ["w"], ["a"]), helper.make_node("Relu", ["x"], ["y"])]
    x = models.value("x", "float32", [3])
    outputs = [models.value("a", "float32", [2]), models.value("y", "float32", [3])]
    path = models.save(tmp_path / "a.onnx", nodes, [x], outputs, {"w": np.float32([1, -2])})
    tflite = models.converted(path)
    other = models.converted(models.save(tmp_path / "b.onnx", nodes, [x], outputs, {"w": np.float32([3, -2])}))
    assert lowtide.verify(path, tflite, by_op=True).passed
    found = lowtide.verify(path, other, by_op=True)
    assert not found.passed and found.first_difference.value == "a"


def test_memory_limits_divide_the_tensors(net):
    whole = lowtide.verify(*net, by_op=True, random=2)
    parts = lowtide.verify(*net, by_op=True, random=2, max_rss="300M")
    assert [of.value for of in whole.tensors] == [of.value for of in parts.tensors]


def test_dynamic_extents(tmp_path):
    path = models.product(tmp_path / "p.onnx", RNG.random((4, 5)).astype(np.float32), rows="n")
    tflite = models.converted(path)
    assert lowtide.verify(path, tflite, shape={"x": [3, 4]}, by_op=True).outputs[0].difference.elements == 15
    with pytest.raises(lowtide.Usage, match=r"input 'x' is float32\[n, 4\], not \[3, 5\]"):
        lowtide.verify(path, tflite, shape={"x": [3, 5]})


def test_models_with_other_names(net, tmp_path):
    other = handmade.write(
        tmp_path / "o.tflite",
        [("a", handmade.F32, (1, 2)), ("b", handmade.F32, (1, 2))],
        [handmade.op("ADD", [0, 0], [1])],
        [0],
        [1],
    )
    with pytest.raises(lowtide.Unsupported, match="the inputs 'x' of the ONNX model are not there; its inputs are 'a'"):
        lowtide.verify(net[0], other)


# ---- Integers ---------------------------------------------------------------------------------------------------------

LABELS = ("q0", "Conv_c1/CONV_2D", "QuantizeLinear_q2/CONV_2D")


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("names", [("q0", "q1", "q2"), LABELS])
def test_integer_operators(integers, tmp_path, kernels, names):
    tflite = integer_models.tflite_model(tmp_path / "q.tflite", names=names)
    found = lowtide.verify(integers, tflite, by_op=True, random=3, kernels=kernels, min_equal=0.99)
    assert found.passed, found
    assert [(of.operators, of.value) for of in found.tensors] == [
        ("QUANTIZE", "q0"),
        ("TRANSPOSE+CONV_2D", "q1"),
        ("CONV_2D", "q2"),
        ("TRANSPOSE+DEQUANTIZE", "y"),
    ]
    steps = [of.difference.steps for of in found.tensors[:3]]
    assert steps[0].equal == 1.0
    if kernels == "xnnpack":  # facts: it rounds as ONNX Runtime does
        assert [of.equal for of in steps] == [1.0, 1.0, 1.0] and found.integers()["equal"] == 1.0


def test_a_wrong_weight_is_found_where_it_is(integers, tmp_path):
    weights = integer_models.W1.copy()
    weights[2] += 3
    tflite = integer_models.tflite_model(tmp_path / "q.tflite", weights=weights)
    found = lowtide.verify(integers, tflite, by_op=True)
    assert [of.name for of in found.tensors if of.problem] == ["q1"]
    assert "6 steps off, more than 1" in found.first_difference.problem


def test_a_bias_that_is_half_a_step_off(integers, tmp_path):
    tflite = integer_models.tflite_model(tmp_path / "q.tflite", bias=integer_models.B1 + 400)
    assert lowtide.verify(integers, tflite, by_op=True).passed
    found = lowtide.verify(integers, tflite, by_op=True, min_equal=0.95)
    assert found.first_difference.name == "q1" and "of the elements equal" in found.first_difference.problem


def test_a_wrong_operator_without_a_name_is_in_the_next_group(integers, tmp_path):
    weights = -integer_models.W1
    tflite = integer_models.tflite_model(tmp_path / "q.tflite", weights=weights, names=("q0", "Conv_c1/CONV_2D", "q2"))
    found = lowtide.verify(integers, tflite, by_op=True)
    assert found.first_difference.name == "q2" and found.first_difference.operators == "TRANSPOSE+CONV_2D+CONV_2D"


def rounded(source, quantized, target, scale):
    """Nodes that round a value to uint8 and back, and their constants."""
    names = [f"{quantized}_scale", f"{quantized}_zero"]
    nodes = [
        helper.make_node("QuantizeLinear", [source, *names], [quantized]),
        helper.make_node("DequantizeLinear", [quantized, *names], [target]),
    ]
    return nodes, dict(zip(names, (np.array(scale, np.float32), np.array(0, np.uint8))))


def near(shape):
    """Numbers so near to each other that between any two arrays of them, in any order, the signal-to-noise ratio is above 20 dB."""
    return (0.7 + 0.05 * np.random.default_rng(1).random(shape)).astype(np.float32)


def test_which_output_of_an_operator_is_which_value_is_not_guessed(tmp_path):
    """Two Gathers become one UNPACK, which has the label of the first."""
    nodes, tensors = rounded("x", "q", "d", 1 / 200)
    tensors["axes"] = np.array([1])
    for i, scale in enumerate((1 / 200, 1 / 150)):
        tensors[f"i{i}"] = np.array(i)
        nodes.append(helper.make_node("Gather", ["d", f"i{i}"], [f"g{i}"], axis=1, name=f"gather{i}"))
        nodes.append(helper.make_node("Unsqueeze", [f"g{i}", "axes"], [f"u{i}"], name=f"unsqueeze{i}"))
        more, constants = rounded(f"u{i}", f"q{i}", f"y{i}", scale)
        nodes += more
        tensors |= constants
    path = models.save(
        tmp_path / "gathers.onnx",
        nodes,
        [models.value("x", "float32", [1, 2, 4, 6])],
        [models.value(f"y{i}", "float32", [1, 1, 4, 6]) for i in (0, 1)],
        tensors,
    )
    found = lowtide.verify(path, models.converted(path), inputs={"x": near((1, 2, 4, 6))}, by_op=True)
    assert found.passed, found
    assert [(of.operators, of.value) for of in found.tensors if "UNPACK" in of.operators] == [
        ("UNPACK+RESHAPE", "q0"),
        ("UNPACK+RESHAPE+MUL", "q1"),
    ]


def test_values_whose_axes_were_split_are_not_guessed(tmp_path):
    """What stands behind a Transpose of the parts has as many elements, in another order."""
    more, tensors = rounded("e", "q", "y", 1 / 200)
    path = models.save(
        tmp_path / "split.onnx",
        [
            helper.make_node("Sqrt", ["x"], ["n"]),
            helper.make_node("Reshape", ["n", "to"], ["r"], name="reshape"),
            helper.make_node("Transpose", ["r"], ["t"], perm=[0, 2, 1, 3], name="transpose"),
            helper.make_node("Reshape", ["t", "back"], ["e"], name="reshape_back"),
            *more,
        ],
        [models.value("x", "float32", [1, 6, 4, 4])],
        [models.value("y", "float32", [1, 6, 4, 4])],
        {"to": np.array([12, 2, 2, 2]), "back": np.array([1, 6, 4, 4]), **tensors},
    )
    found = lowtide.verify(path, models.converted(path), inputs={"x": near((1, 6, 4, 4))}, by_op=True)
    assert found.passed, found
    values = {of.name: of.value for of in found.tensors}
    assert values["reshape/RESHAPE"] == "r" and values["q"] == "q"
    assert all(of.difference.steps.equal == 1 for of in found.tensors if of.difference.steps is not None)


def test_integers_of_a_model_of_floats(tmp_path):
    """As after a calibration: the ONNX model has no integers, and its values are quantized for the comparison."""
    first, second = (
        w.astype(np.float32) * s.reshape(-1, 1, 1, 1)
        for w, s in ((integer_models.W1, integer_models.S1), (integer_models.W2, integer_models.S2))
    )
    scales = [scale for scale, _ in integer_models.ACTIVATIONS]
    path = models.save(
        tmp_path / "f.onnx",
        [
            helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1], name="conv1"),
            helper.make_node("Relu", ["c1"], ["r1"]),
            helper.make_node("Conv", ["r1", "w2", "b2"], ["y"], name="conv2"),
        ],
        [models.value("x", "float32", [1, 3, 8, 8])],
        [models.value("y", "float32", [1, 5, 8, 8])],
        {
            "w1": first,
            "w2": second,
            "b1": (integer_models.B1 * integer_models.S1 * scales[0]).astype(np.float32),
            "b2": (integer_models.B2 * integer_models.S2 * scales[1]).astype(np.float32),
        },
    )
    names = ("conv1/QUANTIZE", "conv1/CONV_2D", "conv2/CONV_2D")
    tflite = integer_models.tflite_model(tmp_path / "q.tflite", names=names)
    found = lowtide.verify(path, tflite, by_op=True, min_snr=20)
    assert found.passed and ("TRANSPOSE+CONV_2D" in found.tensors[0].operators), found
    # Quantized at zero point -128, c1 and its Relu are the same.
    assert [of.value for of in found.tensors] == ["c1", "y"]
    assert lowtide.verify(path, tflite, by_tensor=True, min_snr=15).passed


# ---- Whole files of integers ------------------------------------------------------------------------------------------


def test_floats_behind_a_dequantize_count_in_steps(integers, tmp_path):
    """A bias that is half a step off moves some elements by one step: as much as any two runtimes are apart."""
    found = lowtide.verify(
        integers, integer_models.tflite_model(tmp_path / "q.tflite", bias=integer_models.B1 + 400), random=2
    )
    (y,) = found.outputs
    assert found.passed and not found.spread and y.dtype == "float32" and found.tensors == []
    assert y.difference.max_rel > 1e-3 and (y.difference.steps.largest, y.problem) == (1, "")
    assert y.difference.max_abs == pytest.approx(float(integer_models.ACTIVATIONS[2][0]), rel=1e-4)
    stated = lowtide.verify(integers, tmp_path / "q.tflite", random=2, max_steps=0)
    assert stated.first_difference.problem == "1 steps off, more than 0"


def chain(path, *, scale=1.0):
    """Twelve convolutions that ONNX Runtime's tool has quantized: of its rounding, little is left at the end."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    rng = np.random.default_rng(5)
    nodes, tensors, last = [], {}, "x"
    for i in range(12):
        channels = 3 if i == 0 else 8
        tensors[f"w{i}"] = (rng.normal(size=(8, channels, 3, 3)) * np.sqrt(2 / (9 * channels))).astype(np.float32)
        tensors[f"b{i}"] = (rng.normal(size=8) * 0.1).astype(np.float32)
        nodes.append(helper.make_node("Conv", [last, f"w{i}", f"b{i}"], [f"c{i}"], name=f"conv{i}", pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"], name=f"relu{i}"))
        last = f"r{i}"
    shape = [1, 3, 12, 15]
    values = [models.value("x", "float32", shape)], [models.value(last, "float32", [1, 8, 12, 15])]
    models.save(path.with_suffix(".float.onnx"), nodes, *values, tensors)

    class Reader(CalibrationDataReader):
        left = [{"x": rng.random(shape).astype(np.float32)} for _ in range(4)]

        def get_next(self):
            return self.left.pop() if self.left else None

    how = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "per_channel": True}
    quantize_static(path.with_suffix(".float.onnx"), path, Reader(), quant_format=QuantFormat.QDQ, **how)
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if tensor.name == "w5_scale":  # a fault in the middle
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(scale), tensor.name))
    onnx.save(model, path)
    return path


def test_rounding_that_spreads_is_judged_by_operator(tmp_path):
    path = chain(tmp_path / "chain.onnx")
    tflite = models.converted(path)
    found = lowtide.verify(path, tflite, kernels="builtin", random=2)
    assert found.outputs[0].difference.steps.largest > 1
    assert found.passed and found.spread and found.values()["spread"] and len(found.tensors) > 12
    assert max(of.difference.steps.largest for of in found.tensors if of.difference.steps) == 1
    # Who says what is enough is taken at their word.
    assert not lowtide.verify(path, tflite, kernels="builtin", random=2, max_steps=1).passed
    assert not lowtide.verify(path, tflite, kernels="builtin", random=2, rtol=1e-3, max_steps=1).passed


def test_a_fault_is_not_taken_for_rounding(tmp_path):
    """One operator of twelve is 4 % off. At the end, that is less than some good files are apart."""
    path, other = chain(tmp_path / "chain.onnx"), chain(tmp_path / "other.onnx", scale=1.04)
    found = lowtide.verify(path, models.converted(other), random=2)
    assert found.outputs[0].difference.snr_db > 15
    assert not found.passed and not found.spread
    assert "CONV_2D" in found.first_difference.operators and found.first_difference.value.startswith("r5")


def test_integers_of_a_model_of_floats_are_judged_by_their_noise(tmp_path):
    path = chain(tmp_path / "chain.onnx")
    floats = path.with_suffix(".float.onnx")
    tflite = models.converted(path)
    found = lowtide.verify(floats, tflite, random=2)
    assert found.passed and not found.spread and found.outputs[0].difference.steps.largest > 1
    assert 15 < found.outputs[0].difference.snr_db < 60
    assert lowtide.verify(floats, tflite, by_op=True, random=2).passed
    assert not lowtide.verify(floats, tflite, random=2, rtol=1e-3).passed
    wrong = lowtide.verify(floats, models.converted(chain(tmp_path / "other.onnx", scale=1.5)), random=2)
    assert not wrong.passed and "steps off, more than 1; signal-to-noise" in wrong.first_difference.problem


# ---- Cutting ----------------------------------------------------------------------------------------------------------


def test_where_a_model_is_quantized(tmp_path):
    """In bodies, in bodies of those, and in functions; but a body or a function alone does not say it."""
    value, node = models.value("o", "float32", [3]), helper.make_node

    def body(*nodes):
        return helper.make_graph(list(nodes), "b", [], [value])

    def is_quantized(*nodes, function="Relu"):
        inside = [node(function, ["a", "s"] if "Quantize" in function else ["a"], ["b"])]
        called = helper.make_function("own", "F", ["a", "s"], ["b"], inside, [helper.make_opsetid("", 17)])
        graph = helper.make_graph(list(nodes), "g", [], [value])
        onnx.save(helper.make_model(graph, functions=[called]), tmp_path / "m.onnx")
        return onnx_graph.read_graph(str(tmp_path / "m.onnx")).is_quantized

    def branch(inner):
        return node("If", ["c"], ["o"], then_branch=body(node("Relu", ["x"], ["o"])), else_branch=body(inner))

    quantizes = node("QuantizeLinear", ["x", "s"], ["o"])
    call = node("F", ["x", "s"], ["o"], domain="own")
    assert not is_quantized(branch(node("Neg", ["x"], ["o"]))) and not is_quantized(call)
    assert not is_quantized(node("QuickGelu", ["x"], ["o"], domain="com.microsoft"))
    assert is_quantized(quantizes) and is_quantized(branch(quantizes)) and is_quantized(branch(branch(quantizes)))
    assert is_quantized(call, function="QuantizeLinear")


def test_a_calibrated_model_with_a_branch(tmp_path):
    """It computes in floats, so integers of it are judged by their noise."""
    value = models.value
    weights = {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in (("u", (4, 24)), ("v", (24, 24)))}
    branches = {
        name: helper.make_graph([helper.make_node(kind, ["b"], [name])], name, [], [value(name, "float32", [3, 24])])
        for name, kind in (("then_branch", "Abs"), ("else_branch", "Neg"))
    }
    nodes = [
        helper.make_node("MatMul", ["x", "u"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["r"], name="relu"),
        helper.make_node("MatMul", ["r", "v"], ["b"], name="second"),
        helper.make_node("If", ["c"], ["y"], name="if", **branches),
    ]
    inputs = [value("x", "float32", [3, 4]), value("c", "bool", [])]
    path = models.save(tmp_path / "m.onnx", nodes, inputs, [value("y", "float32", [3, 24])], weights)
    samples = [{"x": RNG.random((3, 4)).astype(np.float32), "c": np.array(True)} for _ in range(4)]
    lowtide.calibrate(path, tmp_path / "r.json", samples=samples)
    tflite = models.converted(path, quantize="int8", ranges=tmp_path / "r.json")
    found = lowtide.verify(path, tflite, inputs=samples)
    assert found.passed and 15 < found.outputs[0].difference.snr_db < 60
    assert not lowtide.verify(path, tflite, inputs=samples, rtol=1e-4).passed


@pytest.mark.parametrize("external", [False, True])
def test_a_cut_has_the_constants_that_it_needs(tmp_path, external):
    weights = [RNG.random((256, 256)).astype(np.float32) for _ in range(2)]
    path = models.two_products(tmp_path / "m.onnx", *weights)
    tflite = models.converted(path, external_buffers=external)
    x = np.ones((2, 256), np.float32)
    with tflite_graph.TfliteGraph(str(tflite)) as graph:
        for op in graph.operators:
            inputs = [i for i in dict.fromkeys(op.inputs) if i >= 0 and not graph.values[i].constant]
            cut = tmp_path / f"{op.index}.tflite"
            graph.cut(str(cut), [op.index], inputs, list(op.outputs))
            assert cut.stat().st_blocks * 512 < graph.constant_bytes([op.index]) + 32768
            with lowtide.Runner(cut, kernels="builtin") as runner:
                got = runner.run(dict.fromkeys(runner.inputs, x))
            if op.kind == "FULLY_CONNECTED":
                sums = [w.sum(axis=0) for w in weights]
                array = next(iter(got.values()))[0]
                assert any(np.allclose(array, np.maximum(of, 0), rtol=1e-4) or np.allclose(array, of) for of in sums)


def test_large_weights_are_not_copied(python, program, tmp_path):
    subprocess.run(
        [program, "make-model", "conv-stack", "--size", "256M", "--plain", "-o", tmp_path / "m.onnx", "--quiet"],
        check=True,
    )
    tflite = models.converted(tmp_path / "m.onnx")
    script = (
        "import sys, threading, lowtide; from lowtide.run_command import _Samples\n"
        "with _Samples() as samples: found = lowtide.verify(*sys.argv[1:3], kernels='builtin', max_rss='128M')\n"
        "print(found.passed, samples.anonymous)"
    )
    passed, anonymous = python(script, tmp_path / "m.onnx", tflite).split()
    assert passed == "True" and int(anonymous) < 150 << 20


# ---- The command ------------------------------------------------------------------------------------------------------


def command(environment, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "lowtide", "verify", *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_command(environment, net, tmp_path):
    done = command(environment, *net, "--random", "2", "--by-op", "--json", tmp_path / "v.json")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert "0 outside of the tolerances" in done.stdout
    values = json.loads((tmp_path / "v.json").read_text())
    assert values["passed"] and values["samples"] == 2 and values["first_difference"] is None
    assert {of["name"] for of in values["outputs"]} == {"s", "y"}


@pytest.mark.parametrize(
    "path, reason", [("none/v.json", "the folder 'none' does not exist"), (".", "cannot be written: Is a directory")]
)
@pytest.mark.parametrize("name, option", [("verify", "--json"), ("run", "--save")])
def test_an_output_that_cannot_be_written_is_found_before_the_runs(
    net, tmp_path, monkeypatch, name, option, path, reason
):
    module = {"verify": verify_command, "run": run_command}[name]
    monkeypatch.setattr(module, {"verify": "verify", "run": "Runner"}[name], lambda *_, **__: pytest.fail("it has run"))
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    models_of = {"verify": net, "run": net[:1]}[name]
    with pytest.raises((lowtide.Io, lowtide.NotFound), match=f"{path}: {reason}"):
        module.main([*map(str, models_of), option, path])
    assert sorted(tmp_path.iterdir()) == before


def test_where_outputs_can_be_written(tmp_path):
    """What is there is kept; a link would be replaced; a pipe is not opened, which would wait for its reader."""
    (tmp_path / "old").write_text("old")
    os.symlink("new", tmp_path / "link")
    os.mkfifo(tmp_path / "pipe")
    before = sorted(tmp_path.iterdir())
    for name in ("old", "link", "pipe", "another"):
        check_output_path(str(tmp_path / name))
    check_output_path("/dev/null")
    assert sorted(tmp_path.iterdir()) == before and (tmp_path / "old").read_text() == "old"


@pytest.mark.parametrize("by", ["by_op", "by_tensor"])
def test_signatures_of_a_merged_file(net, tmp_path, by):
    product = models.product(tmp_path / "product.onnx", RNG.random((8, 5), dtype=np.float32), rows="n")
    both = lowtide.merge({"net": net[0], "product": product}, tmp_path / "both.tflite").output
    with pytest.raises(lowtide.Usage, match="has 2 signatures, name one: 'net', 'product'"):
        lowtide.verify(net[0], both)
    assert lowtide.verify(net[0], both, signature="net", **{by: True}).passed
    assert lowtide.verify(product, both, signature="product", shape={"x": (3, 8)}).passed
    assert verify_command.main([str(product), str(both), "--signature", "product"]) == 0
    with pytest.raises(lowtide.Usage, match="did you mean 'net'"):
        lowtide.verify(net[0], both, signature="nett")
    with pytest.raises(lowtide.Usage, match="only the main subgraph gives inner tensors, not signature 'product'"):
        lowtide.verify(product, both, signature="product", **{by: True})
    with pytest.raises((lowtide.Usage, lowtide.Unsupported)):
        lowtide.verify(net[0], both, signature="product")


def test_no_samples(net, tmp_path):
    folder = lowtide.partition(net[0], tmp_path / "pieces", exclude_op="Relu", prefer="coverage").output
    for tested in (net[1], folder):
        with pytest.raises(lowtide.Usage, match="inputs has no samples"):
            lowtide.verify(net[0], tested, inputs=[])


def test_the_command_fails_with_its_own_status(environment, net, tmp_path):
    other = models.converted(image_net(tmp_path / "other.onnx", scale=1.05))
    done = command(environment, net[0], other)
    assert done.returncode == 12 and "OUTSIDE" in done.stdout
    assert done.stderr.startswith(f"lowtide: {other}: 's' (float32): largest error")
    assert done.stderr.endswith("[different]\n") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--random", "0"], "--random: '0' is not a whole number of at least 1"),
        (["--kernels", "gpu"], "--kernels: 'gpu' is not one of xnnpack, builtin, reference"),
        (["--by-op", "--by-tensor"], "options '--by-op' and '--by-tensor' exclude each other"),
        (["--shape", "x=a"], "--shape: 'x=a' is not INPUT=EXTENTS such as x=1,3,512,512"),
        (["--layout", "nhwc"], "--layout: 'nhwc' is not NAME=LAYOUT such as x=nhwc"),
        (["--inputs", "missing.npz"], "missing.npz: cannot be read: No such file"),
        (["--inputs", "missing.npz", "--random", "2"], "two kinds of samples"),
        (["--max-rss", "1X"], "is not a size"),
        (["--min-snr", "nan"], "--min-snr: 'nan' is not a number of at least 0"),
        (["--rtol", "-1"], "--rtol: '-1' is not a number of at least 0"),
        (["--max-steps", "-1"], "--max-steps: '-1' is not a whole number of at least 0"),
        (["--min-equal", "nan"], "--min-equal: 'nan' is not a number from 0 to 1"),
    ],
)
def test_errors_of_the_command(capsys, net, arguments, message):
    assert main(["verify", *map(str, net), *arguments]) in (2, 3)
    text = capsys.readouterr().err
    assert message in text and text.startswith("lowtide: ") and text.count("\n") == 1, text


def limited_writes(count):
    """For a child: its files have at most so many bytes, as on a full disk."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (count, count))

    return limit


def test_a_cut_that_does_not_fit_on_the_disk(environment, tmp_path):
    path = models.product(tmp_path / "m.onnx", RNG.random((600, 600)).astype(np.float32))
    done = subprocess.run(
        [sys.executable, "-m", "lowtide", "verify", path, models.converted(path), "--by-op"],
        env={**environment, "TMPDIR": str(tmp_path)},
        preexec_fn=limited_writes(1 << 20),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 4 and "cannot be written: File too large [io]" in done.stderr, done
    assert done.stderr.count("\n") == 1 and not list(tmp_path.glob("lowtide-*"))


def test_states_that_the_file_keeps_are_not_compared(tmp_path):
    """Of an operator with states that came from TFLite: they are outputs of the ONNX model only."""
    m = Model()
    inputs = [m.input((2, 5)), m.constant(RNG.random((3, 5)) - 0.5), m.constant(RNG.random((3, 3)) - 0.5)]
    inputs += [m.constant(RNG.random(3)), m.variable((2, 3))]
    m.write(
        tmp_path / "first.tflite", [m.op("RNN", inputs, (2, 3), options=("RNNOptions", {"fusedActivationFunction": 4}))]
    )
    lowtide.convert(tmp_path / "first.tflite", tmp_path / "m.onnx")
    lowtide.convert(tmp_path / "m.onnx", tmp_path / "m.tflite")
    assert [port.name for port in onnx.load(tmp_path / "m.onnx").graph.output][1:] == ["s4_out"]
    result = lowtide.verify(tmp_path / "m.onnx", tmp_path / "m.tflite", random=3)
    assert result.passed and [of.name for of in result.outputs] == ["t5"]
    # A file that lost another output is refused as before.
    lowtide.convert(tmp_path / "m.onnx", tmp_path / "less.tflite", outputs=["s4_out"])
    with pytest.raises(lowtide.Unsupported, match="'t5' of the ONNX model are not there"):
        lowtide.verify(tmp_path / "m.onnx", tmp_path / "less.tflite")
