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
from lowtide import by_operator, onnx_graph, run_command, tflite_graph, verify_command
from lowtide.__main__ import main
from lowtide.output_path import check_output_path
from tests.python import integer_models, models
from tests.raised.tflite_models import Model

RNG = np.random.default_rng(3)
KERNELS = ["xnnpack", "builtin", "reference"]


# ---- Whole models -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernels", KERNELS)
def test_a_conversion_passes(net, kernels):
    found = lowtide.verify(*net, random=3, kernels=kernels)
    assert found.passed and found.samples == 3 and kernels in found.tflite.lower()
    assert [of.name for of in found.outputs] == ["s", "y"]
    assert found.outputs[0].difference.elements == 3 * 144 and found.outputs[0].difference.snr_db > 100


def test_another_model_fails(net, tmp_path):
    other = models.converted(models.image_net(tmp_path / "other.onnx", scale=1.05))
    found = lowtide.verify(net[0], other)
    assert not found.passed and found.first_difference.name == "s"
    assert "of the largest magnitude" in found.first_difference.problem
    assert lowtide.verify(net[0], other, rtol=10).passed
    assert lowtide.verify(net[0], other, min_snr=1).passed and not lowtide.verify(net[0], other, min_snr=100).passed


@pytest.mark.parametrize("name", ["rtol", "atol", "min_snr", "max_steps", "min_equal"])
def test_bounds_that_everything_would_pass(name, net, tmp_path):
    other = models.converted(models.image_net(tmp_path / "other.onnx", scale=1.05))
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
    other = models.converted(models.image_net(tmp_path / "other.onnx", scale=1.05))
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


@pytest.mark.parametrize("count", [6, 12])
def test_other_samples_are_run_once_for_all_tensors(tmp_path, monkeypatch, count):
    """The whole ONNX model was run again for each tensor of zeros."""
    nodes = [helper.make_node("Mul", ["x", "zero"], ["0"])]
    nodes += [helper.make_node("Sin" if i % 2 else "Neg", [str(i)], [str(i + 1)]) for i in range(count)]
    nodes.append(helper.make_node("Add", [str(count), "x"], ["y"]))
    x, y = models.value("x", "float32", [3, 4]), models.value("y", "float32", [3, 4])
    path = models.save(tmp_path / "z.onnx", nodes, [x], [y], {"zero": np.zeros(1, np.float32)})
    tflite = models.converted(path)
    runs = []
    fetch = by_operator.Reference.fetch
    monkeypatch.setattr(
        by_operator.Reference,
        "fetch",
        lambda self, sample, names: runs.append({*names} - {*sample}) or fetch(self, sample, names),
    )
    found = lowtide.verify(path, tflite, by_op=True, random=3)
    assert found.passed and len(found.tensors) == count + 2
    # Each sample to find the tensors, and each to compare them.
    assert len([names for names in runs if names]) == 6


@pytest.mark.parametrize("rows", [1, 6])
def test_a_multiple_of_a_value_is_none_whatever_the_first_sample_is(tmp_path, rows):
    """A scale that was drawn into weights that come earlier does not show in zeros."""
    w = np.float32([[-0.5]]) if rows == 1 else RNG.standard_normal((8, 8)).astype(np.float32)
    x, y = (models.value(name, "float32", [rows, len(w)]) for name in "xy")
    before = [helper.make_node("MatMul", ["x", "w"], ["a"])]
    scaled = [helper.make_node("Neg", ["a"], ["b"]), helper.make_node("Mul", ["b", "k"], ["c"])]
    last = [helper.make_node("Sin", ["c"], ["y"])]
    path = models.save(tmp_path / "m.onnx", before + scaled + last, [x], [y], {"w": w, "k": np.float32([2])})
    nodes = [*before, helper.make_node("Neg", ["a"], ["c"]), *last]
    tflite = models.converted(models.save(tmp_path / "drawn.onnx", nodes, [x], [y], {"w": 2 * w}))
    good = RNG.standard_normal((rows, len(w))).astype(np.float32)
    for samples in ([good, 2 * good], [0 * good, good]):
        found = lowtide.verify(path, tflite, inputs=[{"x": each} for each in samples], by_op=True)
        assert found.passed and [tensor.value for tensor in found.tensors] == ["c", "y"]


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


def test_classes_from_quantized_numbers(tmp_path):
    """Steps between classes say nothing, so the share that is equal is what can be bounded."""
    value = models.value
    weights = {"w": RNG.standard_normal((7, 9)).astype(np.float32)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["s"]),
        helper.make_node("ArgMax", ["s"], ["c"], axis=1, keepdims=0),
        helper.make_node("Cast", ["c"], ["small"], to=onnx.TensorProto.UINT8),
        helper.make_node("Shape", ["s"], ["n"]),
    ]
    outputs = [value("c", "int64", [500]), value("small", "uint8", [500]), value("n", "int64", [2])]
    path = models.save(tmp_path / "m.onnx", nodes, [value("x", "float32", [500, 7])], outputs, weights)
    samples = [{"x": RNG.standard_normal((500, 7)).astype(np.float32)} for _ in range(4)]
    lowtide.calibrate(path, tmp_path / "r.json", samples=samples)
    tflite = models.converted(path, quantize="int8", ranges=tmp_path / "r.json")
    found = lowtide.verify(path, tflite, inputs=samples, min_equal=0.9)
    assert found.passed and 0.9 < found.outputs[0].difference.steps.equal < 1
    assert not lowtide.verify(path, tflite, inputs=samples).passed
    assert not lowtide.verify(path, tflite, inputs=samples, max_steps=8).passed
    found = lowtide.verify(path, tflite, inputs=samples, min_equal=0.9999)
    assert [output.name for output in found.outputs if output.problem] == ["c", "small"]
    assert "of the elements equal, less than 99.9900%" in found.first_difference.problem
    assert lowtide.verify(path, tflite, inputs=samples, by_op=True, min_equal=0.7).passed
    with tflite_graph.TfliteGraph(str(tflite)) as graph:
        rounded = {graph.values[i].name: graph.is_rounded(i) for op in graph.operators for i in op.outputs}
    assert rounded["c"] and rounded["small"] and not rounded.get("n")


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
    other = models.converted(models.image_net(tmp_path / "other.onnx", scale=1.05))
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
        (["--shape", "x=1,2", "--shape", "x=1,2"], "--shape x is given twice"),
        (["--layout", "x=nhwc", "--layout=x=nchw"], "--layout x is given twice"),
        (["--rtol", "1", "--rtol", "1"], "option '--rtol' is given more than once"),
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
