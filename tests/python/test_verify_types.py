# SPDX-License-Identifier: Apache-2.0
"""lowtide.verify of files whose element types, names or extents are not those of the ONNX model."""

import math
import subprocess
import sys
import time

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import lowtide
from lowtide import onnx_graph, pieces_verification, verify_command
from lowtide.tolerances import Tolerances
from tests.python import models
from tests.support import handmade

RNG = np.random.default_rng(3)


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


def quantized_net(path, kind="uint8", *, is_constant=False, before=None, after=None, real=np.float32):
    """A convolution of integers between scales, and one more node of integers."""
    numbers = {
        "s": real(0.02),
        "z": zero_point(kind),
        "t": real(0.03),
        "u": zero_point(kind),
        "w": RNG.integers(-100, 100, (4, 4, 1, 1)).astype(np.int8),
        "sw": real(0.01),
        "zw": np.int8(0),
    }
    weights = {} if is_constant else numbers
    nodes = []
    if is_constant:
        nodes += [
            helper.make_node("Constant", [], [n], value=numpy_helper.from_array(np.array(a)))
            for n, a in numbers.items()
        ]
    first, last = "r" if before else "x", "y" if after is None else "q"
    if before == "Slice":  # and its result is not read
        weights |= {"from": np.int64([0]), "to": np.int64([2]), "axis": np.int64([1]), "shape": np.int64([1, 4, 3, 3])}
        nodes.append(helper.make_node("Slice", ["x", "from", "to", "axis"], ["unread"]))
        nodes.append(helper.make_node("Reshape", ["x", "shape"], ["r"]))
    nodes += [
        helper.make_node("DequantizeLinear", [first, "s", "z"], ["f"]),
        helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["g"]),
        helper.make_node("Conv", ["f", "g"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "t", "u"], [last]),
    ]
    if after == "Slice":
        weights |= {"from": np.int64([0]), "to": np.int64([2]), "axis": np.int64([1])}
        nodes.append(helper.make_node("Slice", ["q", "from", "to", "axis"], ["y"]))
    elif after == "Concat":
        nodes.append(helper.make_node("Concat", ["q", "q"], ["y"], axis=1))
    elif after == "Where":
        weights |= {"mask": RNG.random((4, 3, 3)) < 0.5}
        nodes.append(helper.make_node("Transpose", ["q"], ["turned"], perm=[0, 1, 3, 2]))
        nodes.append(helper.make_node("Where", ["mask", "q", "turned"], ["y"]))
    elif after == "Resize":
        weights |= {"factors": np.float32([1, 1, 2, 3])}
        nodes.append(helper.make_node("Resize", ["q", "", "factors"], ["y"], mode="nearest"))
    x, y = models.value("x", kind, [1, 4, 3, 3]), models.value("y", kind, None)
    weights = {name: np.array(array) for name, array in weights.items()}
    return models.save(path, nodes, [x], [y], weights, opset=21)


def zero_point(kind):
    return np.array(128 if kind == "uint8" else 0, kind)


HOW = [{"is_constant": True}, {"kind": "int16"}, {"kind": "int8"}, {"real": np.float16}, {"before": "Slice"}]
HOW += [{"after": operator} for operator in ("Slice", "Concat", "Where", "Resize")]


@pytest.mark.parametrize("how", HOW)
def test_floats_in_place_of_integers_wherever_the_scale_is(tmp_path, how):
    path = quantized_net(tmp_path / "q.onnx", **how)
    assert lowtide.verify(path, models.converted(path, io="float"), random=2).passed


MICROSOFT = {
    "QLinearAdd": ["x", "s", "z", "x", "s", "z", "t", "u"],
    "QLinearConcat": ["t", "u", "x", "s", "z", "x", "s", "z"],
    "QLinearSigmoid": ["x", "s", "z", "t", "u"],
}


@pytest.mark.parametrize("operator", MICROSOFT)
def test_scales_of_operators_of_onnx_runtime(tmp_path, operator):
    extra = {"axis": 1} if operator == "QLinearConcat" else {}
    node = helper.make_node(operator, MICROSOFT[operator], ["y"], domain="com.microsoft", **extra)
    numbers = {"s": np.float32(0.02), "z": np.uint8(128), "t": np.float32(0.03), "u": np.uint8(100)}
    tensors = [numpy_helper.from_array(np.array(array), name) for name, array in numbers.items()]
    outputs = [models.value("y", "uint8", None)]
    graph = helper.make_graph([node], "g", [models.value("x", "uint8", [1, 4])], outputs, tensors)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    graph = onnx_graph.read_graph(str(path))
    assert graph.grid("x") == (np.float32(0.02), 128) and graph.grid("y") == (np.float32(0.03), 100)
    assert lowtide.verify(path, models.converted(path, io="float"), random=2).passed


def test_a_concat_of_several_scales_has_none(tmp_path):
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["a"]),
        helper.make_node("QuantizeLinear", ["x", "t", "z"], ["b"]),
        helper.make_node("Concat", ["a", "b"], ["y"], axis=0),
        helper.make_node("Concat", ["a", "a"], ["w"], axis=0),
    ]
    outputs = [models.value("y", "uint8", [6]), models.value("w", "uint8", [6])]
    numbers = {"s": np.float32(0.25), "t": np.float32(0.5), "z": np.uint8(7)}
    weights = {name: np.array(array) for name, array in numbers.items()}
    path = models.save(tmp_path / "c.onnx", nodes, [models.value("x", "float32", [3])], outputs, weights)
    graph = onnx_graph.read_graph(str(path))
    assert (graph.grid("y"), graph.grid("w")) == (None, (0.25, 7.0))


def test_scales_found_on_several_paths(tmp_path):
    """Dead ends, any output of a Split, and a Constant that is joined with integers of a scale."""
    nodes = [
        helper.make_node("MaxPool", ["x"], ["pooled"], kernel_shape=[2]),
        helper.make_node("Shape", ["pooled"], ["other"]),
        helper.make_node("Split", ["x"], ["a", "b"], axis=1, num_outputs=2),
        helper.make_node("DequantizeLinear", ["b", "s", "z"], ["f"]),
        helper.make_node("QuantizeLinear", ["f", "t", "z"], ["q"]),
        helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(np.zeros((1, 2, 5), np.uint8))),
        helper.make_node("Concat", ["k", "q"], ["y"], axis=1),
    ]
    outputs = [models.value("y", "uint8", [1, 4, 5]), models.value("other", "int64", [3])]
    weights = {"s": np.array(0.25, np.float32), "t": np.array(0.5, np.float32), "z": np.array(7, np.uint8)}
    path = models.save(tmp_path / "m.onnx", nodes, [models.value("x", "uint8", [1, 4, 5])], outputs, weights, opset=21)
    graph = onnx_graph.read_graph(str(path))
    assert (graph.grid("x"), graph.grid("pooled"), graph.grid("y")) == ((0.25, 7.0), (0.25, 7.0), (0.5, 7.0))


@pytest.mark.parametrize("is_taken", [False, True])
def test_scales_are_found_in_linear_time(is_taken):
    """Of a long chain after a Concat of many values, which a QLinearConcat reads too."""
    count = 1000
    leaves, chain = [f"i{k}" for k in range(count)], [f"m{k}" for k in range(count + 1)]
    nodes = [onnx_graph.Node("", "Concat", "", tuple(leaves), ("m0",))]
    nodes += [onnx_graph.Node("", "Identity", "", (before,), (after,)) for before, after in zip(chain, chain[1:])]
    taken = [each for name in leaves for each in (name, "s", "z")] if is_taken else []
    nodes.append(onnx_graph.Node("", "QLinearConcat", "", ("s", "z", *taken), ("y",)))
    numbers = {"s": onnx_graph.Initializer("s", 1, (), 0.5), "z": onnx_graph.Initializer("z", 2, (), 7.0)}
    graph = onnx_graph.Graph(nodes, leaves, chain, numbers)
    begin = time.process_time()
    assert {graph.grid(name) for name in leaves[:20] + chain[-60:]} == ({(0.5, 7.0)} if is_taken else {None})
    assert time.process_time() - begin < 0.5


def test_a_scale_that_is_not_found_in_the_onnx_model(tmp_path):
    x, y = models.value("x", "uint8", [4]), models.value("y", "uint8", [4])
    path = models.save(tmp_path / "i.onnx", [helper.make_node("Identity", ["x"], ["y"])], [x], [y])
    x, y = models.value("x", "float32", [4]), models.value("y", "float32", [4])
    other = models.save(tmp_path / "f.onnx", [helper.make_node("Identity", ["x"], ["y"])], [x], [y])
    with pytest.raises(
        lowtide.Usage, match="uint8 in the ONNX model: integers whose scale verify does not find in the ONNX model"
    ):
        lowtide.verify(path, models.converted(other))


@pytest.mark.parametrize("how", [{}, {"mean": 127.5}, {"std": 255}, {"mean": [123, 117, 104], "std": [58, 57, 56]}])
@pytest.mark.parametrize("first", ["Relu", "Clip", None])
def test_raw_images_whose_first_node_is_drawn_in(tmp_path, first, how):
    """Or that nothing reads."""
    inputs, outputs = [models.value("x", "float32", [1, 3, 4, 4])], [models.value("y", "float32", [1, 2, 4, 4])]
    weights = {"w": RNG.random((2, 3, 1, 1)).astype(np.float32)}
    if first is None:
        inputs.append(models.value("v", "float32", [1, 3, 4, 4]))
    elif first == "Clip":
        weights |= {"low": np.array(0, np.float32), "high": np.array(6, np.float32)}
    source = ["v"] if first is None else ["x", "low", "high"] if first == "Clip" else ["x"]
    nodes = [helper.make_node(first or "Relu", source, ["r"]), helper.make_node("Conv", ["r", "w"], ["y"])]
    path = models.save(tmp_path / "n.onnx", nodes, inputs, outputs, weights)
    tflite = models.converted(path, input_uint8="x", **how)
    for by in ({}, {"by_op": True}):
        assert lowtide.verify(path, tflite, random=2, **by).passed


IMAGES = [{}, {"std": 255}, {"mean": 127.5, "std": 127.5}, {"mean": [123, 117, 104], "std": [58, 57, 56]}]


@pytest.mark.parametrize("layout", [{}, {"layout": {"x": "nhwc"}}])
@pytest.mark.parametrize("how", IMAGES)
def test_raw_images(tmp_path, how, layout):
    path = models.image_net(tmp_path / "n.onnx")
    tflite = models.converted(path, input_uint8="x", **how, **layout)
    for by in ({}, {"by_op": True}, {"by_tensor": True}):
        assert lowtide.verify(path, tflite, random=2, **by, **layout).passed
    models.image_net(tmp_path / "other.onnx", scale=1.1)
    assert not lowtide.verify(tmp_path / "other.onnx", tflite, **layout).passed


def test_raw_images_that_are_given(tmp_path):
    path = models.image_net(tmp_path / "n.onnx")
    tflite = models.converted(path, input_uint8="x", mean=[123, 117, 104], std=[58, 57, 56])
    whole = RNG.integers(0, 256, (1, 3, 6, 6)).astype(np.float32)
    mean, std = (np.float32(numbers).reshape(3, 1, 1) for numbers in ([123, 117, 104], [58, 57, 56]))
    other_rounding = (whole / np.float32(255) - mean / 255) / (std / 255)
    for x in ((whole - mean) / std, other_rounding):
        assert lowtide.verify(path, tflite, inputs={"x": x.astype(np.float32)}).passed
    with pytest.raises(
        lowtide.Usage, match="accepts integers q from 0 to 255 .convert --input-uint8.; a sample has floats"
    ):
        lowtide.verify(path, tflite, inputs={"x": ((whole + 0.5 - mean) / std).astype(np.float32)})


def test_raw_images_that_are_given_and_not_read(tmp_path):
    """Any floats do."""
    inputs = [models.value(name, "float32", [1, 3, 4, 4]) for name in ("x", "v")]
    nodes = [helper.make_node("Relu", ["v"], ["y"])]
    path = models.save(tmp_path / "n.onnx", nodes, inputs, [models.value("y", "float32", [1, 3, 4, 4])])
    tflite = models.converted(path, input_uint8="x", mean=127.5, std=127.5)
    samples = {name: RNG.standard_normal((1, 3, 4, 4)).astype(np.float32) for name in ("x", "v")}
    assert lowtide.verify(path, tflite, inputs=samples).passed


def test_raw_images_whose_mean_is_not_in_the_file(tmp_path):
    path = models.image_net(tmp_path / "n.onnx")
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
