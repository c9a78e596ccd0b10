# SPDX-License-Identifier: Apache-2.0
"""Broken ONNX nodes: attributes and inputs that contradict each other, subgraphs of the wrong form, sizes that no machine
has. A row is one node, and the words that its error must have beside the node's name."""

import numpy as np
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from tests.hostile.good_model import attribute, good_model, initializer
from tests.hostile.refusal import BrokenFiles, refuse, refuse_model, run

F, I64, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
HUGE = 2**62

# Of the good model: Conv, Reshape, Gemm.

changes = BrokenFiles()


@changes("malformed", "the_conv", "kernel_shape")
def kernel_shape_that_is_not_the_kernels(m):
    attribute(m, "the_conv", "kernel_shape", [3, 3])


@changes("malformed", "the_conv", "kernel_shape")
def kernel_shape_of_another_rank(m):
    attribute(m, "the_conv", "kernel_shape", [3])


@changes("malformed", "the_conv", "strides")
def zero_stride(m):
    attribute(m, "the_conv", "strides", [0, 1])


@changes("malformed", "the_conv", "strides")
def negative_stride(m):
    attribute(m, "the_conv", "strides", [-1, 1])


@changes("malformed", "the_conv", "strides")
def huge_stride(m):
    attribute(m, "the_conv", "strides", [HUGE, 1])


@changes("malformed", "the_conv", "pads")
def huge_pads(m):
    attribute(m, "the_conv", "pads", [HUGE] * 4)


@changes("malformed", "the_conv", "pads")
def pads_of_wrong_length(m):
    attribute(m, "the_conv", "pads", [1, 1])


@changes("malformed", "the_conv", "pads")
def pads_that_take_all_away(m):
    attribute(m, "the_conv", "pads", [-7, 0, -7, 0])


@changes("malformed", "the_conv", "dilations")
def zero_dilation(m):
    attribute(m, "the_conv", "dilations", [0, 0])


@changes("malformed", "the_conv", "dilations")
def huge_dilation(m):
    attribute(m, "the_conv", "dilations", [HUGE, HUGE])


@changes("malformed", "the_conv", "group")
def zero_group(m):
    attribute(m, "the_conv", "group", 0)


@changes("malformed", "the_conv", "group")
def group_that_does_not_divide(m):
    attribute(m, "the_conv", "group", 2)


@changes("malformed", "the_conv", "group")
def negative_group(m):
    attribute(m, "the_conv", "group", -1)


@changes("malformed", "the_conv", "SAME_MIDDLE")
def auto_pad_that_is_none(m):
    attribute(m, "the_conv", "auto_pad", "SAME_MIDDLE")


def weights(m, name, shape):
    initializer(m, name).CopyFrom(numpy_helper.from_array(np.zeros(shape, np.float32), name))


@changes("malformed", "the_conv", "channels")
def channels_that_do_not_fit(m):
    weights(m, "the_kernel", (4, 2, 3, 2))


@changes("malformed", "the_conv")
def kernel_of_wrong_rank(m):
    weights(m, "the_kernel", (4, 3))


@changes("malformed", "the_conv")
def kernel_that_is_a_number(m):
    weights(m, "the_kernel", ())


@changes("malformed", "the_conv")
def kernel_larger_than_the_image(m):
    weights(m, "the_kernel", (4, 3, 30, 20))
    attribute(m, "the_conv", "kernel_shape", [30, 20])


@changes("malformed", "the_conv", "inputs")
def too_few_inputs(m):
    del m.graph.node[0].input[1:]


@changes("malformed", "the_conv", "inputs")
def too_many_inputs(m):
    m.graph.node[0].input.extend(["the_bias"] * 3)


@changes("malformed", "the_conv", "outputs")
def too_many_outputs(m):
    m.graph.node[0].output.extend(["more", "and_more"])


@changes("malformed", "the_conv")
def required_input_that_is_absent(m):
    m.graph.node[0].input[1] = ""


@changes("malformed", "the_conv")
def bias_of_wrong_length(m):
    m.graph.node[0].input.append("the_bias")


def shape(m, *values):
    initializer(m, "shape").CopyFrom(numpy_helper.from_array(np.array(values, np.int64), "shape"))


@changes("malformed", "the_reshape")
def reshape_that_does_not_fit(m):
    shape(m, 7, 11)


@changes("malformed", "the_reshape")
def reshape_that_overflows(m):
    shape(m, HUGE, HUGE)


@changes("malformed", "the_reshape")
def reshape_to_the_right_number_in_64_bits(m):
    shape(m, 2**60, 16, 10)


@changes("malformed", "the_reshape")
def reshape_with_two_unknowns(m):
    shape(m, -1, -1)


@changes("malformed", "the_reshape")
def reshape_with_minus_two(m):
    shape(m, -2, 80)


@changes("malformed", "the_reshape")
def reshape_with_an_unknown_beside_zero(m):
    shape(m, -1, 0, 0, 0, 0, 0)


@changes("malformed", "the_gemm")
def matrix_that_does_not_fit(m):
    weights(m, "the_matrix", (5, 161))


@changes("malformed", "the_gemm")
def matrix_of_three_dimensions(m):
    weights(m, "the_matrix", (5, 160, 1))


@changes("malformed", "the_gemm")
def addend_that_does_not_fit(m):
    weights(m, "the_bias", (7,))


@pytest.mark.parametrize("damage, kind, words", changes.rows, ids=changes.ids())
def test_good_model_changed(damage, kind, words, tmp_path, record_property):
    model = good_model()
    damage(model)
    refuse_model(model, tmp_path, kind, words)
    record_property("hostile files refused", 1)


# Single nodes: operator, inputs (an array is a constant, a tuple the shape of a float input, "" none), attributes. What is
# wrong with each is its name.


def ints(*values):
    return np.array(values, np.int64)


def floats(*values):
    return np.array(values, np.float32)


X = (2, 3, 5, 7)
NODES = {
    "transpose with one axis twice": ("Transpose", [X], {"perm": [0, 1, 1, 3]}),
    "transpose of too few axes": ("Transpose", [X], {"perm": [0, 1]}),
    "transpose with an axis beyond": ("Transpose", [X], {"perm": [0, 1, 2, 4]}),
    "transpose with a negative axis": ("Transpose", [X], {"perm": [0, 1, 2, -1]}),
    "transpose with an axis beyond 32 bits": ("Transpose", [X], {"perm": [0, 1, 2**32 + 3, 2]}),
    "bit cast of halves to a wider type": ("BitCast", [np.ones(3, np.float16)], {"to": TensorProto.INT32}),
    "concat along no axis": ("Concat", [X, X], {"axis": 4}),
    "concat along the least axis": ("Concat", [X, X], {"axis": -(2**63)}),
    "concat of ranks": ("Concat", [X, (2, 3, 5)], {"axis": 0}),
    "concat of sizes": ("Concat", [X, (2, 3, 6, 7)], {"axis": 0}),
    "concat of sizes with an empty one": ("Concat", [(2, 0, 5, 7), (2, 3, 6, 7), (2, 3, 6, 7)], {"axis": 1}),
    "concat without an axis": ("Concat", [X, X], {}),
    "split into other sizes": ("Split", [X, ints(1, 3)], {"axis": 1}, 2),
    "split into negative sizes": ("Split", [X, ints(-1, 4)], {"axis": 1}, 2),
    "split that overflows": ("Split", [X, ints(2**63 - 1, 2**63 - 1, 5)], {"axis": 1}, 3),
    "split into too many": ("Split", [X, ints(1, 2)], {"axis": 1}, 3),
    "split along no axis": ("Split", [X], {"axis": 9}, 3),
    "slice without a step": ("Slice", [X, ints(0), ints(2), ints(1), ints(0)], {}),
    "slice of one axis twice": ("Slice", [X, ints(0, 0), ints(2, 2), ints(1, 1)], {}),
    "slice of no axis": ("Slice", [X, ints(0), ints(2), ints(7)], {}),
    "slice of lengths": ("Slice", [X, ints(0, 0), ints(2), ints(1)], {}),
    "slice from a matrix": ("Slice", [X, np.zeros((2, 2), np.int64), ints(2), ints(1)], {}),
    "gather of what is not there": ("Gather", [X, ints(3)], {"axis": 1}),
    "gather of what is before the first": ("Gather", [X, ints(-4)], {"axis": 1}),
    "gather along no axis": ("Gather", [X, ints(0)], {"axis": 4}),
    "gather nd beyond the rank": ("GatherND", [X, np.zeros((1, 5), np.int64)], {}),
    "gather nd of what is not there": ("GatherND", [X, ints(0, 3).reshape(1, 2)], {}),
    "scatter nd of shapes": ("ScatterND", [X, np.zeros((2, 1), np.int64), np.zeros((2, 3), np.float32)], {}),
    "scatter nd to what is not there": (
        "ScatterND",
        [X, ints(5).reshape(1, 1), np.zeros((1, 3, 5, 7), np.float32)],
        {},
    ),
    "squeeze of what is not one": ("Squeeze", [X, ints(1)], {}),
    "squeeze of no axis": ("Squeeze", [X, ints(4)], {}),
    "unsqueeze of one axis twice": ("Unsqueeze", [X, ints(1, 1)], {}),
    "unsqueeze of no axis": ("Unsqueeze", [X, ints(9)], {}),
    "expand that does not fit": ("Expand", [X, ints(2, 3, 4, 7)], {}),
    "expand to negative sizes": ("Expand", [X, ints(2, 3, 5, -7)], {}),
    "expand that overflows": ("Expand", [(1, 1), ints(HUGE, HUGE)], {}),
    "tile a negative time": ("Tile", [X, ints(1, 1, 1, -1)], {}),
    "tile of another rank": ("Tile", [X, ints(1, 1)], {}),
    "tile that overflows": ("Tile", [X, ints(HUGE, 1, 1, HUGE)], {}),
    "pad of another rank": ("Pad", [X, ints(1, 1)], {}),
    "pad that overflows": ("Pad", [X, ints(2**63 - 1, 0, 0, 0, 2**63 - 1, 0, 0, 0)], {}),
    "pad that takes all away": ("Pad", [X, ints(-2, 0, 0, 0, -2, 0, 0, 0)], {}),
    "pad in no mode": ("Pad", [X, ints(0, 0, 1, 0, 0, 0, 1, 0)], {"mode": "sideways"}),
    "fill with negative sizes": ("ConstantOfShape", [ints(-2, 3)], {}),
    "fill that overflows": ("ConstantOfShape", [ints(HUGE, HUGE)], {}),
    "range without a step": ("Range", [np.float32(0), np.float32(5), np.float32(0)], {}),
    "range that is endless": ("Range", [np.float32(0), np.float32(np.inf), np.float32(1)], {}),
    "range over nan": ("Range", [np.float32(np.nan), np.float32(5), np.float32(1)], {}),
    "range up to nan in f64": ("Range", [np.float64(0), np.float64(np.nan), np.float64(1)], {}),
    "range that overflows": ("Range", [np.int64(-(2**63)), np.int64(2**63 - 1), np.int64(1)], {}),
    "one hot of a negative depth": ("OneHot", [ints(1, 2), ints(-3), floats(0, 1)], {}),
    "one hot of a huge depth": ("OneHot", [ints(1, 2), ints(2**63 - 1), floats(0, 1)], {}),
    "one hot of three values": ("OneHot", [ints(1, 2), ints(3), floats(0, 1, 2)], {}),
    "top of more than there are": ("TopK", [X, ints(8)], {"axis": 3}, 2),
    "top of a negative number": ("TopK", [X, ints(-1)], {"axis": 3}, 2),
    "top along no axis": ("TopK", [X, ints(1)], {"axis": 4}, 2),
    "matrices of two types": ("MatMul", [(3, 5), np.ones((5, 7), np.int64)], {}),
    "addend of another type": ("Gemm", [(3, 5), np.ones((5, 7), np.float32), np.ones(7, np.int32)], {}),
    "sum of two types": ("Add", [(3, 5), np.ones((3, 5), np.int64)], {}),
    "choice of two types": ("Where", [np.ones(5, bool), (3, 5), np.ones((3, 5), np.int64)], {}),
    "matrices that do not fit": ("MatMul", [(3, 5), (7, 11)], {}),
    "matrices of batches": ("MatMul", [(2, 3, 5), (3, 5, 11)], {}),
    "empty matrices of batches": ("MatMul", [(2, 3, 0), (4, 0, 5)], {}),
    "matrix times a number": ("MatMul", [(3, 5), ()], {}),
    "sum that does not broadcast": ("Add", [(3, 5), (3, 6)], {}),
    "where that does not broadcast": ("Where", [np.ones((2, 2), bool), (3, 5), (3, 5)], {}),
    "softmax along no axis": ("Softmax", [X], {"axis": 4}),
    "argmax along no axis": ("ArgMax", [X], {"axis": -5}),
    "mean along no axis": ("ReduceMean", [X], {"axes": [4]}),
    "flatten at no axis": ("Flatten", [X], {"axis": 5}),
    "depth to space that does not divide": ("DepthToSpace", [X], {"blocksize": 2}),
    "depth to space of no blocks": ("DepthToSpace", [X], {"blocksize": 0}),
    "depth to space of negative blocks": ("DepthToSpace", [X], {"blocksize": -1}),
    "depth to space of huge blocks": ("DepthToSpace", [X], {"blocksize": 2**32}),
    "space to depth that does not divide": ("SpaceToDepth", [X], {"blocksize": 2}),
    "pool without a window": ("MaxPool", [X], {"kernel_shape": [0, 2]}),
    "pool of a negative window": ("AveragePool", [X], {"kernel_shape": [-1, 2]}),
    "pool of a huge window": ("AveragePool", [X], {"kernel_shape": [HUGE, HUGE]}),
    "pool of another rank": ("MaxPool", [X], {"kernel_shape": [2]}),
    "pool with wide pads": ("MaxPool", [X], {"kernel_shape": [2, 2], "pads": [5, 5, 5, 5]}),
    "normalization of other lengths": (
        "BatchNormalization",
        [X, floats(1, 1), floats(0, 0), floats(0, 0), floats(1, 1)],
        {},
    ),
    "normalization of a number": ("BatchNormalization", [(), floats(1), floats(0), floats(0), floats(1)], {}),
    "normalization of a vector": ("BatchNormalization", [(3,), *[floats(1, 1)] * 4], {}),
    "one factor for all channels": ("InstanceNormalization", [X, floats(1), floats(0)], {}),
    "statistics of other lengths": ("BatchNormalization", [X, floats(1), floats(0), floats(0), floats(1)], {}),
    "instances of other lengths": ("InstanceNormalization", [X, floats(1, 1), floats(0, 0)], {}),
    "one factor for all channels of groups": (
        "com.microsoft.GroupNorm",
        [X, floats(1), floats(0)],
        {"groups": 7, "activation": 0},
    ),
    "layers along no axis": ("LayerNormalization", [X, floats(1)], {"axis": 4}),
    "responses of an even size": ("LRN", [X], {"size": 0}),
    "resize without scales or sizes": ("Resize", [X], {}),
    "resize by nothing": ("Resize", [X, floats(), floats(1, 1, 0, 0)], {}),
    "resize by a negative number": ("Resize", [X, floats(), floats(1, 1, -2, 2)], {}),
    "resize by nan": ("Resize", [X, floats(), floats(1, 1, np.nan, 2)], {}),
    "resize by infinity": ("Resize", [X, floats(), floats(1, 1, np.inf, 2)], {}),
    "resize by what overflows": ("Resize", [X, floats(), floats(1, 1, 3e38, 3e38)], {}),
    "resize of a region beyond f32": (
        "Resize",
        [X, np.array([0, 0, 0, 0, 1, 1, 1, 1e300]), floats(1, 1, 2, 2)],
        {"coordinate_transformation_mode": "tf_crop_and_resize"},
    ),
    "resize of another rank": ("Resize", [X, floats(), floats(2, 2)], {}),
    "resize to negative sizes": ("Resize", [X, floats(), floats(), ints(2, 3, -5, 7)], {}),
    "quantize by scales of another length": (
        "QuantizeLinear",
        [X, floats(1, 1), np.array([1, 1], np.uint8)],
        {"axis": 1},
    ),
    "quantize along no axis": ("QuantizeLinear", [X, floats(1, 1, 1), np.array([1, 1, 1], np.uint8)], {"axis": 4}),
    "cast to an unknown type": ("Cast", [X], {"to": 99}),
    "cast to no type": ("Cast", [X], {"to": 0}),
    "einsum of another rank": ("Einsum", [X], {"equation": "ij->ji"}),
    "einsum of sizes": ("Einsum", [(2, 3), (4, 5)], {"equation": "ij,jk->ik"}),
    "einsum of what is given nowhere": ("Einsum", [(2, 3)], {"equation": "ij->k"}),
    "einsum that is noise": ("Einsum", [(2, 3)], {"equation": "->->,,..i.j"}),
    "eye of a vector": ("EyeLike", [(3,)], {}),
    "lstm of other weights": (
        "LSTM",
        [(5, 2, 3), np.zeros((1, 16, 4), np.float32), np.zeros((1, 16, 4), np.float32)],
        {"hidden_size": 4},
    ),
    "lstm of a negative size": (
        "LSTM",
        [(5, 2, 3), np.zeros((1, 16, 3), np.float32), np.zeros((1, 16, 4), np.float32)],
        {"hidden_size": -4},
    ),
    "lstm that goes sideways": (
        "LSTM",
        [(5, 2, 3), np.zeros((1, 16, 3), np.float32), np.zeros((1, 16, 4), np.float32)],
        {"hidden_size": 4, "direction": "sideways"},
    ),
    "gru of other weights": (
        "GRU",
        [(5, 2, 3), np.zeros((1, 12, 3), np.float32), np.zeros((1, 11, 4), np.float32)],
        {"hidden_size": 4},
    ),
    "sequences longer than there are": ("ReverseSequence", [(5, 2, 3), ints(9, 1)], {}),
    "sums along two axes": ("CumSum", [X, ints(1, 2)], {}),
    "sums along no axis": ("CumSum", [X, ints(4)], {}),
    "slopes that do not broadcast": ("PRelu", [X, floats(1, 2)], {}),
    "columns of other sizes": ("Col2Im", [(1, 5, 5), ints(5, 5), ints(1, 4)], {}),
    "grid of three numbers": ("GridSample", [X, (2, 4, 4, 3)], {}),
    "columns of no axes": ("Col2Im", [(1, 5, 5), ints(), ints()], {}),
    "crop from beyond the end": ("Crop", [X], {"border": [2**63 - 1, 0, 0, 0], "scale": [5, 7]}),
    "grids of another batch": ("GridSample", [X, (4, 5, 7, 2)], {}),
    "gather nd of other batches": ("GatherND", [X, np.zeros((4, 1), np.int64)], {"batch_dims": 1}),
    "addend larger than the product": ("Gemm", [(1, 3), (3, 4), (5, 4)], {}),
    "mean and variance along no axis": ("MeanVarianceNormalization", [X], {"axes": []}),
    "losses of a vector": ("NegativeLogLikelihoodLoss", [(3,), np.int64(1)], {}),
    "targets of another shape": ("SoftmaxCrossEntropyLoss", [X, np.zeros((2, 7, 5), np.int64)], {}),
    "frames longer than the signal": ("STFT", [(2, 4, 1), np.int64(5), floats(*[1] * 8)], {}),
    "peepholes of two directions": (
        "LSTM",
        [(5, 2, 3), *[np.zeros((1, 16, n), np.float32) for n in (3, 4)], *[""] * 4, np.zeros((2, 12), np.float32)],
        {"hidden_size": 4},
    ),
    "crop along no axis": ("CenterCropPad", [X, ints(4)], {"axes": [4]}),
    "constant without a value": ("Constant", [], {}),
    "constant of two values": ("Constant", [], {"value_int": 1, "value_float": 1.0}),
    "concatenation of nothing": ("Concat", [], {"axis": 0}),
    "sum of nothing": ("Sum", [], {}),
}
OPSETS = {
    "Col2Im": 18,
    "BitCast": 26,
    "CenterCropPad": 18,
    "Crop": 9,
    "DeformConv": 19,
    "GridSample": 16,
    "LayerNormalization": 17,
    "STFT": 17,
}


def single(operator, inputs, attributes, outputs=1, opset=None):
    names, given, constants = [], [], []
    for i, value in enumerate(inputs):
        names.append(f"in{i}" if not isinstance(value, str) else "")
        if isinstance(value, str):
            continue
        if isinstance(value, tuple):
            given.append(helper.make_tensor_value_info(names[-1], F, value))
        else:
            constants.append(numpy_helper.from_array(np.asarray(value), names[-1]))
    if not given:
        given.append(helper.make_tensor_value_info("unused", F, [1]))
    made = [f"out{i}" for i in range(outputs)]
    domain, _, name = operator.rpartition(".")
    node = helper.make_node(name, names, made, name="the_node", domain=domain)
    node.attribute.extend(
        helper.make_attribute(key, value, attr_type=AttributeProto.INTS if value == [] else None)
        for key, value in attributes.items()
    )
    graph = helper.make_graph(
        [node], "g", given, [helper.make_tensor_value_info(name, F, None) for name in made], initializer=constants
    )
    return helper.make_model(
        graph,
        opset_imports=[
            helper.make_opsetid("", opset or OPSETS.get(operator, 13)),
            helper.make_opsetid("com.microsoft", 1),
        ],
        ir_version=8,
    )


@pytest.mark.parametrize("case", NODES)
def test_single_node(case, tmp_path, record_property):
    kinds = ("malformed", "unsupported") if case == "range that is endless" else "malformed"
    refuse_model(single(*NODES[case]), tmp_path, kinds, ["the_node"])
    record_property("hostile files refused", 1)


# Right by their form, but of a size that no machine has: refused for whatever reason, or written as the operator that they
# are, which takes no space here and fails where it runs.
BOMBS = {
    "tile": ("Tile", [np.ones((2, 2), np.float32), ints(2**25, 2**25)], {}),
    "tile of an input": ("Tile", [(2, 2), ints(2**25, 2**25)], {}),
    "expand": ("Expand", [np.float32(3), ints(2**40, 2**10)], {}),
    "fill": ("ConstantOfShape", [ints(2**40, 2**10)], {}),
    "range": ("Range", [np.int64(0), np.int64(2**50), np.int64(1)], {}),
    "one hot": ("OneHot", [np.arange(5), ints(2**50), floats(0, 1)], {}),
    "pad": ("Pad", [np.ones(3, np.float32), ints(2**40, 2**50)], {}),
    "resize": ("Resize", [(1, 1, 5, 7), floats(), floats(1, 1, 2e7, 2e7)], {"mode": "nearest"}),
    "columns": ("Col2Im", [(1, 5, 5), ints(5, 5), ints(2**63 - 1, 1)], {"dilations": [2**31 - 1, 1]}),
    "places of a convolution": (
        "DeformConv",
        [(1, 1, 2**30, 3), np.ones((1, 1, 1, 1), np.float32), ("n", 2, "h", "w")],
        {"pads": [2**31 - 1] * 4},
    ),
    "unpooled": (
        "MaxUnpool",
        [(1, 0, 2**40), np.zeros((1, 0, 2**40), np.int64)],
        {"kernel_shape": [1], "strides": [2**31 - 1]},
    ),
    "outer product": ("MatMul", [np.ones((200_000, 1), np.float32), np.ones((1, 200_000), np.float32)], {}),
    "loop of very many turns": lambda: loops_in_loops(),
    "loop of loops over nothing": lambda: loops_over_nothing(),
    "products of constants": lambda: products_of_constants(),
    "maxima of elements taken three times": lambda: repeated_maxima(),
}


def products_of_constants(count=1000):
    """2 MB that ask for `count` products of 2^24 multiplications each, before the model runs."""
    nodes = []
    for i in range(count):
        nodes += [
            helper.make_node("MatMul", ["a", "b"], [f"product{i}"]),
            helper.make_node("Add", [f"product{i}", f"sum{i - 1}" if i else "x"], [f"sum{i}"]),
        ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", F, [64, 64])],
        [helper.make_tensor_value_info(f"sum{count - 1}", F, [64, 64])],
        initializer=[
            numpy_helper.from_array(np.random.rand(64, 4096).astype(np.float32), "a"),
            numpy_helper.from_array(np.random.rand(4096, 64).astype(np.float32), "b"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def repeated_maxima(count=31):
    """3^31 readings of a constant of 257 columns: too long a row to be computed at each step."""
    nodes = []
    for i in range(count):
        nodes.append(helper.make_node("Gather", [f"x{i}", "three"], [f"c{i}"], axis=0))
        nodes.append(helper.make_node("ReduceMax", [f"c{i}"], [f"x{i + 1}"], axes=[0], keepdims=1))
    nodes.append(helper.make_node("Add", ["x", f"x{count}"], ["y"]))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", F, [1, 257])],
        [helper.make_tensor_value_info("y", F, [1, 257])],
        initializer=[
            numpy_helper.from_array(np.random.rand(1, 257).astype(np.float32), "x0"),
            numpy_helper.from_array(np.array([0, 0, 0], np.int64), "three"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def loops_over_nothing():
    nothing = body(nodes=[helper.make_node("Constant", [], ["unused"], value_int=1)])
    del nothing.node[:]
    nothing.output[0].name, nothing.output[1].name = "c", "s"
    around = body(
        nodes=[
            helper.make_node("Loop", ["n", "", "s"], ["s_out"], name="the_loop", body=nothing),
            helper.make_node("Identity", ["c"], ["c_out"]),
        ]
    )
    return loop(around, initializers=[numpy_helper.from_array(np.array(9000, np.int64), "n")], inputs=("n", "", "x"))


def loops_in_loops():
    def around(inner, turns):
        return body(
            nodes=[
                helper.make_node("Constant", [], ["n2"], value_int=turns),
                helper.make_node("Identity", ["c"], ["c_out"]),
                helper.make_node("Loop", ["n2", "", "s"], ["s_out"], name="the_loop", body=inner),
            ]
        )

    return loop(
        around(around(body(), 2**40), 1000),
        initializers=[numpy_helper.from_array(np.array(1000, np.int64), "n")],
        inputs=("n", "", "x"),
    )


@pytest.mark.parametrize("case", BOMBS)
def test_bomb(case, tmp_path, record_property):
    path = tmp_path / "bomb.onnx"
    path.write_bytes((BOMBS[case]() if callable(BOMBS[case]) else single(*BOMBS[case])).SerializeToString())
    done = run(["convert", path, "-o", tmp_path / "m.tflite"])
    if done.returncode == 0:
        assert (tmp_path / "m.tflite").stat().st_size < 4_000_000
    else:
        refuse(path, ("malformed", "unsupported", "no-space", "budget"))
    record_property("hostile files refused", int(done.returncode != 0))


# Subgraphs. What is wrong inside of a branch makes the If unsupported: for other shapes it may be right.

controls = BrokenFiles()


def scalar(name, kind):
    return helper.make_tensor_value_info(name, kind, [])


def vector(name):
    return helper.make_tensor_value_info(name, F, [3])


def branch(source="x", outputs=("t",), kind=None, nodes=None, inputs=()):
    nodes = nodes or [helper.make_node("Neg", [source], [name]) for name in outputs]
    return helper.make_graph(nodes, "branch", list(inputs), [kind or vector(name) for name in outputs])


def conditional(then=None, otherwise=None, condition=None, outputs=("y",)):
    attributes = {"then_branch": then or branch(), "else_branch": otherwise or branch()}
    nodes = [
        helper.make_node(
            "If", ["c"], list(outputs), name="the_if", **{k: v for k, v in attributes.items() if v != "absent"}
        )
    ]
    graph = helper.make_graph(
        nodes, "g", [condition or scalar("c", B), vector("x")], [vector(name) for name in outputs]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def body(inputs=("i", "c", "s"), outputs=("c_out", "s_out"), nodes=None):
    kinds = {"i": scalar("i", I64), "c": scalar("c", B), "c_out": scalar("c_out", B)}
    nodes = nodes or [helper.make_node("Identity", ["c"], ["c_out"]), helper.make_node("Neg", ["s"], ["s_out"])]
    return helper.make_graph(
        nodes, "body", [kinds.get(n) or vector(n) for n in inputs], [kinds.get(n) or vector(n) for n in outputs]
    )


def loop(the_body=None, inputs=("n", "go", "x"), outputs=("y",), initializers=(), **attributes):
    nodes = [
        helper.make_node(
            "Loop",
            list(inputs),
            list(outputs),
            name="the_loop",
            **({} if the_body == "absent" else {"body": the_body or body()}),
            **attributes,
        )
    ]
    given = [helper.make_tensor_value_info("n", I64, []), helper.make_tensor_value_info("go", B, []), vector("x")]
    given = [g for g in given if g.name not in {t.name for t in initializers}]
    graph = helper.make_graph(
        nodes,
        "g",
        given,
        [helper.make_tensor_value_info(name, F, None) for name in outputs],
        initializer=list(initializers),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def scan(inputs=("s", "e"), outputs=("s_out", "e_out"), count=1, given=("x", "xs"), **attributes):
    nodes = [helper.make_node("Add", ["s", "e"], ["s_out"]), helper.make_node("Neg", ["e"], ["e_out"])]
    graph = helper.make_graph(nodes, "body", [vector(n) for n in inputs], [vector(n) for n in outputs])
    node = helper.make_node(
        "Scan", list(given), ["y", "ys"], name="the_scan", body=graph, num_scan_inputs=count, **attributes
    )
    whole = helper.make_graph(
        [node],
        "g",
        [vector("x"), helper.make_tensor_value_info("xs", F, [4, 3])],
        [vector("y"), helper.make_tensor_value_info("ys", F, None)],
    )
    return helper.make_model(whole, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@controls("malformed", "the_if", "else_branch")
def if_without_else():
    return conditional(otherwise="absent")


@controls("unsupported", "the_if")
def branches_of_unequal_numbers_of_outputs():
    return conditional(then=branch(outputs=("t", "u")))


@controls("malformed", "the_if")
def branches_with_fewer_outputs_than_the_node():
    return conditional(outputs=("y", "z"))


@controls("unsupported", "the_if")
def branch_with_inputs():
    return conditional(then=branch(inputs=[vector("p")]))


@controls("unsupported", "the_if", "nowhere")
def branch_that_uses_what_is_not_there():
    return conditional(then=branch(source="nowhere"))


@controls("unsupported", "the_if")
def branch_that_uses_the_output_of_its_node():
    return conditional(then=branch(source="y"))


@controls("unsupported", "the_if")
def branch_that_gives_nothing():
    return conditional(then=branch(nodes=[helper.make_node("Neg", ["x"], ["another"])]))


@controls("unsupported", "the_if", "cycle")
def branch_with_a_cycle():
    return conditional(
        then=branch(nodes=[helper.make_node("Add", ["x", "u"], ["t"]), helper.make_node("Neg", ["t"], ["u"])])
    )


@controls("unsupported", "the_if")
def branch_with_one_name_twice():
    return conditional(
        then=branch(nodes=[helper.make_node("Neg", ["x"], ["t"]), helper.make_node("Abs", ["x"], ["t"])])
    )


@controls("malformed", "the_if")
def condition_that_is_a_float():
    return conditional(condition=scalar("c", F))


@controls("malformed", "the_if")
def condition_that_is_a_matrix():
    return conditional(condition=helper.make_tensor_value_info("c", B, [2, 2]))


@controls("unsupported", "the_if")
def branches_of_unequal_types():
    cast = [helper.make_node("Cast", ["x"], ["t"], to=I64)]
    return conditional(then=branch(nodes=cast, kind=helper.make_tensor_value_info("t", I64, [3])))


@controls("malformed", "the_loop", "body")
def loop_without_a_body():
    return loop("absent")


@controls("malformed", "the_loop")
def body_with_too_few_inputs():
    return loop(
        body(
            inputs=("i", "c"),
            nodes=[helper.make_node("Identity", ["c"], ["c_out"]), helper.make_node("Identity", ["x"], ["s_out"])],
        )
    )


@controls("malformed", "the_loop")
def body_with_too_many_inputs():
    return loop(body(inputs=("i", "c", "s", "more")))


@controls("malformed", "the_loop")
def body_with_too_few_outputs():
    return loop(body(outputs=("c_out",)))


@controls("malformed", "the_loop")
def body_without_outputs():
    return loop(body(outputs=()))


@controls("unsupported", "the_loop")
def loop_with_too_many_outputs():
    return loop(outputs=("y", "z", "w"))


@controls("unsupported", "the_loop")
def loop_over_a_state_that_changes_its_type():
    nodes = [helper.make_node("Identity", ["c"], ["c_out"]), helper.make_node("Cast", ["s"], ["s_out"], to=I64)]
    return loop(body(nodes=nodes))


@controls("malformed", "the_loop")
def trip_count_that_is_a_vector():
    return loop(initializers=[numpy_helper.from_array(np.array([1, 2, 3], np.int64), "n")])


@controls("malformed", "the_loop")
def attribute_of_a_loop_that_is_not_a_graph():
    made = loop("absent")
    made.graph.node[0].attribute.append(helper.make_attribute("body", 3))
    return made


@controls("malformed", "the_scan")
def scan_of_more_inputs_than_there_are():
    return scan(count=3)


@controls("malformed", "the_scan")
def scan_of_no_inputs():
    return scan(count=0)


@controls("malformed", "the_scan")
def scan_of_a_negative_number_of_inputs():
    return scan(count=-1)


@controls("malformed", "the_scan")
def scan_whose_body_has_fewer_inputs():
    return scan(inputs=("s",))


@controls("unsupported", "the_scan")
def scan_whose_body_has_fewer_outputs():
    return scan(outputs=("s_out",))


@controls("malformed", "the_scan")
def scan_along_no_axis():
    return scan(scan_input_axes=[5])


@controls("malformed", "the_scan")
def scan_in_no_direction():
    return scan(scan_input_directions=[7])


@pytest.mark.parametrize("make, kind, words", controls.rows, ids=controls.ids())
def test_subgraphs(make, kind, words, tmp_path, record_property):
    path = tmp_path / "control.onnx"
    path.write_bytes(make().SerializeToString())
    refuse(path, kind, words)
    record_property("hostile files refused", 1)
