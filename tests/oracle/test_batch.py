# SPDX-License-Identifier: Apache-2.0
"""--shape with another batch than the file's: the result is what the model exported with that batch computes."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.oracle.test_interface import value
from tests.oracle.test_interface_options import agree, real_model, refusal
from tests.support import converter, judge
from tests.support.tflite_file import read_tflite


def weights(**shapes):
    rng = np.random.default_rng(3)
    return {name: rng.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}


def numbers(*values):
    return np.array(values, np.int64)


def model(path, nodes, x_shape, constants, outputs=("y",), opset=17):
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", x_shape)],
        [value(name, None) for name in outputs],
        initializer=[numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return path


def node(kind, inputs, output, **attributes):
    return helper.make_node(kind, inputs, [output], name=f"the_{output}", **attributes)


# Each takes the batch and gives the nodes, the shape of x and the constants, as an exporter would write them for it.


def classifier(n):
    return (
        [
            node("Conv", ["x", "w"], "c", pads=[1, 1, 1, 1]),
            node("Relu", ["c"], "r"),
            node("MaxPool", ["r"], "p", kernel_shape=[2, 2], strides=[2, 2]),
            node("Reshape", ["p", "flat"], "f"),
            node("Gemm", ["f", "v"], "g"),
            node("Softmax", ["g"], "y", axis=1),
        ],
        [n, 3, 8, 6],
        {"flat": numbers(n, -1)} | weights(w=(5, 3, 3, 3), v=(60, 7)),
    )


def attention(n):
    def heads(name, w):
        return [
            node("MatMul", ["rows", w], name + "0"),
            node("Reshape", [name + "0", "divided"], name + "1"),
            node("Transpose", [name + "1"], name, perm=[0, 2, 1, 3]),
        ]

    return (
        [
            node("Reshape", ["x", "merged"], "rows"),
            *heads("q", "wq"),
            *heads("k", "wk"),
            *heads("v", "wv"),
            node("Transpose", ["k"], "kt", perm=[0, 1, 3, 2]),
            node("MatMul", ["q", "kt"], "s"),
            node("Softmax", ["s"], "a", axis=-1),
            node("MatMul", ["a", "v"], "o"),
            node("Transpose", ["o"], "ot", perm=[0, 2, 1, 3]),
            node("Reshape", ["ot", "back"], "y"),
        ],
        [n, 5, 12],
        {"merged": numbers(-1, 12), "divided": numbers(n, 5, 3, 4), "back": numbers(n, 5, 12)}
        | weights(wq=(12, 12), wk=(12, 12), wv=(12, 12)),
    )


def shapes_computed(n):
    return (
        [
            node("Shape", ["x"], "s"),
            node("Gather", ["s", "zero"], "b"),
            node("Concat", ["b", "rest"], "target", axis=0),
            node("Reshape", ["x", "target"], "r"),
            node("Reshape", ["r", "copies"], "y"),
        ],
        [n, 4, 6],
        {"zero": numbers(0), "rest": numbers(-1, 2), "copies": numbers(0, 3, -1)},
    )


def resized(n):
    return (
        [
            node("Conv", ["x", "w"], "c"),
            node("Resize", ["c", "", "", "sizes"], "r", mode="linear", coordinate_transformation_mode="half_pixel"),
            node("Slice", ["r", "starts", "ends", "axes"], "y"),
        ],
        [n, 3, 5, 7],
        {"sizes": numbers(n, 2, 10, 14), "starts": numbers(1), "ends": numbers(9), "axes": numbers(2)}
        | weights(w=(2, 3, 1, 1)),
    )


def flattened(n):
    return (
        [
            node("Flatten", ["x"], "f", axis=1),
            node("MatMul", ["f", "w"], "m"),
            node("Unsqueeze", ["m", "last"], "u"),
            node("Squeeze", ["u", "last"], "s"),
            node("ReduceMean", ["s"], "mean", axes=[1], keepdims=1),
            node("Sub", ["s", "mean"], "y"),
        ],
        [n, 3, 4],
        {"last": numbers(2)} | weights(w=(12, 5)),
    )


def one_step(n):
    """An axis before the batch, of which a recurrence is a step; the shape is written out, and once with -1."""
    return (
        [
            node("Reshape", ["x", "step"], "t"),
            helper.make_node("GRU", ["t", "w", "r"], ["h", ""], name="the_h", hidden_size=5),
            node("Reshape", ["h", "rows"], "y"),
        ],
        [n, 3, 4],
        {"step": numbers(1, n, 12), "rows": numbers(-1, n, 5)} | weights(w=(1, 15, 12), r=(1, 15, 5)),
    )


MAKERS = [classifier, attention, shapes_computed, resized, flattened]


@pytest.mark.parametrize(
    "make, before, batch",
    [(make, *extents) for make in MAKERS for extents in [(1, 4), (1, 2), (2, 3), (4, 1)]]
    + [(one_step, 2, 6), (one_step, 6, 2)],
)
def test_the_batch_is_changed(make, before, batch, tmp_path, litert, lowtide):
    path = model(tmp_path / "m.onnx", *make(before))
    exported = model(tmp_path / "exported.onnx", *make(batch))
    extents = [batch, *make(batch)[1][1:]]
    done = converter.convert(path, tmp_path / "m.tflite", ["--shape=x=" + ",".join(map(str, extents))])
    assert done.status == "converted", done
    arrays = {"x": np.random.default_rng(0).uniform(-1, 1, extents).astype(np.float32)}
    expected = judge.reference(exported, arrays)
    assert read_tflite(tmp_path / "m.tflite").outputs[0].shape == expected["y"].shape
    agree(tmp_path / "m.tflite", arrays, expected, litert)
    # The same bytes as the conversion of that export.
    assert converter.run("check", exported, tmp_path / "m.tflite").returncode == 0


@pytest.mark.parametrize("kind", ["Reshape", "Resize"])
def test_a_batch_that_depends_on_another_input(kind, tmp_path, litert, lowtide):
    """x [1] becomes [3]: behind one row come those of z [N,4,5] as often as x has more elements than one."""

    def make(path, length, rows):
        shape = numbers(rows, 20) if kind == "Reshape" else numbers(rows, 8, 5)
        nodes = [
            node("Shape", ["x"], "s"),
            node("Sub", ["s", "one"], "more"),
            node("Concat", ["more", "ones"], "times", axis=0),
            node("Tile", ["z", "times"], "t"),
            node("Concat", ["c", "t"], "a", axis=0),
            node("Reshape", ["a", "k"], "y")
            if kind == "Reshape"
            else node("Resize", ["a", "", "", "k"], "y", mode="nearest"),
        ]
        constants = {"one": numbers(1), "ones": numbers(1, 1), "k": shape} | weights(c=(1, 4, 5))
        model(path, nodes, [length], constants)
        changed = onnx.load(path)
        changed.graph.input.append(value("z", ["N", 4, 5]))
        onnx.save(changed, path)
        return path

    path = make(tmp_path / "m.onnx", 1, 1)
    done = converter.convert(path, tmp_path / "m.tflite", ["--shape=x=3"])
    assert done.status == "converted", done
    rng = np.random.default_rng(0)
    arrays = {"x": np.zeros(3, np.float32), "z": rng.uniform(-1, 1, (2, 4, 5)).astype(np.float32)}
    expected = judge.reference(make(tmp_path / "exported.onnx", 3, 5), arrays)
    agree(tmp_path / "m.tflite", arrays, expected, litert)


def test_the_batch_after_an_open_axis(tmp_path, litert, lowtide):
    """The axis that the shape leaves open is T: the number after it is the batch's."""

    def make(path, batch):
        nodes = [node("Add", ["x", "z"], "a"), node("Reshape", ["a", "k"], "y")]
        changed = onnx.load(model(path, nodes, [batch, 12], {"k": numbers(-1, batch * 12)}))
        changed.graph.input.append(value("z", ["T", 1, 1]))
        onnx.save(changed, path)
        return path

    done = converter.convert(make(tmp_path / "m.onnx", 2), tmp_path / "m.tflite", ["--shape=x=4,12"])
    assert done.status == "converted", done
    rng = np.random.default_rng(0)
    arrays = {key: rng.uniform(-1, 1, shape).astype(np.float32) for key, shape in [("x", (4, 12)), ("z", (5, 1, 1))]}
    agree(tmp_path / "m.tflite", arrays, judge.reference(make(tmp_path / "exported.onnx", 4), arrays), litert)


# What a batch of 1 hides: (nodes, constants, a word of the refusal); x is [1, 3, 4].
REFUSED = {
    "merged into another axis": ([node("Reshape", ["x", "s"], "y")], {"s": numbers(3, 4)}, "constant and holds the batch"),
    "a transpose by reshape": ([node("Reshape", ["x", "s"], "y")], {"s": numbers(3, 1, 4)}, "constant and holds the batch"),
    "moved behind": (
        [node("Transpose", ["x"], "t", perm=[1, 0, 2]), node("Reshape", ["t", "s"], "y")],
        {"s": numbers(-1, 4)},
        "constant and holds the batch",
    ),
    "a one behind": ([node("Reshape", ["x", "s"], "y")], {"s": numbers(-1, 1, 4)}, "constant and holds the batch"),
    "squeezed": ([node("Squeeze", ["x", "s"], "y")], {"s": numbers(0)}, "does not follow the new batch"),
    "squeezed without axes": ([node("Squeeze", ["x"], "y")], {}, "with the batch of the file"),
    "a token of the batch": (
        [node("Concat", ["t", "x"], "y", axis=1)],
        weights(t=(1, 1, 4)),
        "does not follow the new batch",
    ),
    "the first of the batch": ([node("Gather", ["x", "i"], "y", axis=0)], {"i": np.array(0)}, "constant indices along the batch"),
    "a slice of the batch": (
        [node("Slice", ["x", "z", "o", "z"], "y")],
        {"z": numbers(0), "o": numbers(1)},
        "stays 1 along the batch",
    ),
    "steps or a batch of a recurrence": (
        [
            node("Slice", ["x", "z", "o", "one"], "row"),
            node("Reshape", ["row", "flat"], "f"),
            node("Reshape", ["f", "s"], "t"),
            helper.make_node("LSTM", ["t", "w", "r"], ["", "y"], name="the_y", hidden_size=2),
        ],
        {"z": numbers(0), "o": numbers(1), "one": numbers(1), "flat": numbers(1, 4), "s": numbers(1, 1, 4)}
        | weights(w=(1, 8, 4), r=(1, 8, 2)),
        "the batch would become its steps, axis 0",
    ),
    "weights of each sample": (
        [
            node("ReduceMean", ["x"], "m", axes=[2], keepdims=0),
            node("Reshape", ["m", "s"], "t"),
            node("Mul", ["w", "t"], "v"),
            node("Reshape", ["v", "o"], "k"),
            node("Reshape", ["x", "i"], "c"),
            node("Conv", ["c", "k"], "y", group=1),
        ],
        {"s": numbers(-1, 1, 3, 1), "o": numbers(-1, 3, 2), "i": numbers(1, -1, 4)} | weights(w=(1, 5, 3, 2)),
        "its groups are the batch, which its weights follow at axis 0",
    ),
    "flattened with what is before": (
        [node("Transpose", ["x"], "t", perm=[1, 0, 2]), node("Flatten", ["t"], "y", axis=2)],
        {},
        "merges the batch, axis 1, with the axes before it",
    ),
    "the state of a recurrence": (
        [
            node("Transpose", ["x"], "t", perm=[1, 0, 2]),
            helper.make_node("GRU", ["t", "w", "r", "", "", "h"], ["y", ""], name="the_y", hidden_size=2),
        ],
        weights(w=(1, 6, 4), r=(1, 6, 2), h=(1, 1, 2)),
        "does not follow the new batch",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_a_batch_in_a_constant_is_refused_with_its_node(what, tmp_path, lowtide):
    nodes, constants, words = REFUSED[what]
    path = model(tmp_path / "m.onnx", nodes, [1, 3, 4], constants)
    assert converter.convert(path, tmp_path / "m.tflite").status == "converted"
    text = refusal(path, tmp_path, "--shape=x=4,3,4")
    assert words in text and "node 'the_" in text and "[unsupported]" in text, text


# The batch is 2 and becomes the last number; x is [2, 3, 4].
REFUSED_OF_TWO = {
    "rows divided where either axis may be the batch": (
        [node("Reshape", ["x", "rows"], "r"), node("Reshape", ["r", "divided"], "y")],
        {"rows": numbers(-1, 6), "divided": numbers(2, 2, 6)},
        "its shape [2,2,6] is constant and holds the batch: its input is [8,6], and was [4,6]",
        4,
    ),
    "elements of two samples": (
        [node("GatherElements", ["x", "i"], "y", axis=1)],
        {"i": np.ones((2, 5, 4), np.int64)},
        "stays 2 along the batch",
        4,
    ),
    "samples by indices": (
        [node("GatherND", ["x", "i"], "y")],
        {"i": numbers([0, 2], [1, 0], [1, 1])},
        "constant indices along the batch",
        4,
    ),
    "elements put into two samples": (
        [node("ScatterElements", ["x", "i", "u"], "y", axis=1)],
        {"i": np.ones((2, 1, 4), np.int64)} | weights(u=(2, 1, 4)),
        "its indices stay 2 along the batch",
        4,
    ),
    "samples replaced": (
        [node("ScatterND", ["x", "i", "u"], "y")],
        {"i": numbers([1])} | weights(u=(1, 3, 4)),
        "constant indices along the batch",
        4,
    ),
    "a mask of the samples": (
        [node("Compress", ["x", "m"], "y", axis=0)],
        {"m": np.array([True, True])},
        "constant indices along the batch",
        4,
    ),
    "cropped to the batch": (
        [node("CenterCropPad", ["x", "s"], "y", axes=[0])],
        {"s": numbers(2)},
        "stays 2 along the batch",
        4,
    ),
    "the largest of the batch": (
        [helper.make_node("TopK", ["x", "k"], ["y", ""], name="the_y", axis=0)],
        {"k": numbers(2)},
        "stays 2 along the batch",
        4,
    ),
    "the second sample": (
        [node("Slice", ["x", "one", "two"], "y")],
        {"one": numbers(1), "two": numbers(2)},
        "constant places along the batch, axis 0: 1 from 1",
        4,
    ),
    "the first sample, counted from far before the end": (
        [node("Slice", ["x", "far", "one"], "y")],
        {"far": numbers(-9), "one": numbers(1)},
        "constant places along the batch, axis 0: 1 from -9",
        4,
    ),
    "rows of the first sample": (
        [node("Reshape", ["x", "s"], "r"), node("Slice", ["r", "zero", "three", "zero"], "y")],
        {"s": numbers(-1, 4), "zero": numbers(0), "three": numbers(3)},
        "constant places along the batch, axis 0: 3 from 0",
        4,
    ),
    "one sample and a constant of two": ([node("Add", ["x", "c"], "y")], weights(c=(2, 1, 4)), "stays 2 along the batch", 1),
    "one sample made two": ([node("Expand", ["x", "s"], "y")], {"s": numbers(2, 3, 4)}, "stays 2 along the batch", 1),
    "a sum over one sample and a constant of two": (
        [node("Einsum", ["x", "w"], "y", equation="...j,...jk->k")],
        weights(w=(2, 3, 4, 5)),
        "its operand 1 stays 2 along the batch",
        1,
    ),
    "the second of a list of samples": (
        [node("SplitToSequence", ["x"], "l", axis=0), node("SequenceAt", ["l", "p"], "y")],
        {"p": np.array(1)},
        "constant indices along the batch",
        4,
    ),
    "one sample and products of two": ([node("MatMul", ["x", "w"], "y")], weights(w=(2, 4, 5)), "stays 2 along the batch", 1),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED_OF_TWO)
def test_a_batch_of_two_in_a_constant_is_refused_with_its_node(what, tmp_path, lowtide):
    nodes, constants, words, batch = REFUSED_OF_TWO[what]
    path = model(tmp_path / "m.onnx", nodes, [2, 3, 4], constants, opset=18)
    assert converter.convert(path, tmp_path / "m.tflite").status == "converted"
    text = refusal(path, tmp_path, f"--shape=x={batch},3,4")
    assert words in text and "node 'the_" in text and "[unsupported]" in text, text


# A number in the shape may be the batch as well as what it leaves open. x is [2, *rows], and its batch becomes 4.
OPEN_OF_TWO = {
    "samples before open steps": ([6, 3], (-1, 3), (2, -1, 3)),
    "samples of open steps and heads": ([8, 6], (-1, 6), (2, -1, 2, 3)),
    "samples after open steps": ([6, 3], (-1, 3), (-1, 2, 3)),
    "samples before an open end": ([4, 6], (-1,), (2, 4, -1)),
}


@pytest.mark.parametrize("what", OPEN_OF_TWO)
def test_a_number_next_to_an_open_axis_is_refused(what, tmp_path, lowtide):
    rows, flat, divided = OPEN_OF_TWO[what]
    nodes = [node("Reshape", ["x", "s"], "f"), node("Relu", ["f"], "r"), node("Reshape", ["r", "t"], "y")]
    path = model(tmp_path / "m.onnx", nodes, [2, *rows], {"s": numbers(*flat), "t": numbers(*divided)})
    assert converter.convert(path, tmp_path / "m.tflite").status == "converted"
    text = refusal(path, tmp_path, "--shape=x=" + ",".join(map(str, [4, *rows])))
    assert "node 'the_y'" in text and "constant and holds the batch" in text, text


# The same with one reading, as an export with a batch of 4 has it.
OPEN_AND_CLEAR = {
    "open samples": ([6, 3], (-1, 3), (-1, 6, 3), (-1, 6, 3)),
    "an odd number of open steps": ([7, 3], (-1, 3), (2, -1, 3), (4, -1, 3)),
    "open samples and heads": ([7, 12], (-1, 12), (-1, 7, 4, 3), (-1, 7, 4, 3)),
}


@pytest.mark.parametrize("what", OPEN_AND_CLEAR)
def test_an_open_axis_next_to_numbers_follows(what, tmp_path, litert, lowtide):
    rows, flat, *targets = OPEN_AND_CLEAR[what]
    nodes = [node("Reshape", ["x", "s"], "f"), node("Relu", ["f"], "r"), node("Reshape", ["r", "t"], "y")]
    for name, batch, target in zip(("m", "exported"), (2, 4), targets, strict=True):
        constants = {"s": numbers(*flat), "t": numbers(*target)}
        model(tmp_path / f"{name}.onnx", nodes, [batch, *rows], constants)
    extents = [4, *rows]
    done = converter.convert(tmp_path / "m.onnx", tmp_path / "m.tflite", ["--shape=x=" + ",".join(map(str, extents))])
    assert done.status == "converted", done
    arrays = {"x": np.random.default_rng(0).uniform(-1, 1, extents).astype(np.float32)}
    agree(tmp_path / "m.tflite", arrays, judge.reference(tmp_path / "exported.onnx", arrays), litert)


# Another axis has the extent of the batch, or the batch vanishes: nothing of it is in a constant. x is [2, 2, 4].
FOLLOWS = {
    "moved to the axis of equal extent": [node("Transpose", ["x"], "y", perm=[1, 0, 2])],
    "a sum of the samples": [node("ReduceSum", ["x", "zero"], "y", keepdims=0)],
    "samples in a product": [
        node("Flatten", ["x"], "f"),
        node("Transpose", ["f"], "t"),
        node("MatMul", ["t", "f"], "y"),
    ],
    "rows of each": [node("Gather", ["x", "both"], "y", axis=1)],
    "elements of the other axis": [node("Slice", ["x", "zero", "two", "one"], "y")],
    "the last sample": [node("Slice", ["x", "minus", "far"], "y")],
    "the samples, the last one first": [node("Slice", ["x", "minus", "begin", "zero", "minus"], "y")],
    "the last sample, by its number": [
        node("Shape", ["x"], "s"),
        node("Gather", ["s", "zero"], "n"),
        node("Sub", ["n", "one"], "last"),
        node("Gather", ["x", "last"], "y", axis=0),
    ],
}


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("what", FOLLOWS)
def test_extents_that_happen_to_equal_the_batch(what, batch, tmp_path, litert, lowtide):
    constants = {"zero": numbers(0), "one": numbers(1), "two": numbers(2), "both": numbers(1, 0)}
    constants |= {"minus": numbers(-1), "far": numbers(2**62), "begin": numbers(-(2**62))}
    path = model(tmp_path / "m.onnx", FOLLOWS[what], [2, 2, 4], constants)
    exported = model(tmp_path / "exported.onnx", FOLLOWS[what], [batch, 2, 4], constants)
    done = converter.convert(path, tmp_path / "m.tflite", [f"--shape=x={batch},2,4"])
    assert done.status == "converted", done
    arrays = {"x": np.random.default_rng(0).uniform(-1, 1, [batch, 2, 4]).astype(np.float32)}
    agree(tmp_path / "m.tflite", arrays, judge.reference(exported, arrays), litert)


def test_only_the_batch_of_a_fixed_shape_can_change(tmp_path, lowtide):
    path = model(tmp_path / "m.onnx", *classifier(1))
    assert "axis 2 is 8 in the model and cannot become 9; only the batch, axis 0" in refusal(
        path, tmp_path, "--shape=x=1,3,9,6"
    )
    assert "axis 0 is 1 in the model and cannot become 0" in refusal(path, tmp_path, "--shape=x=0,3,8,6")


def test_a_branch_follows(tmp_path, litert, lowtide):
    def make(n):
        then = helper.make_graph([node("Reshape", ["x", "flat"], "t")], "then", [], [value("t", None)])
        other = helper.make_graph([node("Flatten", ["x"], "e", axis=1)], "else", [], [value("e", None)])
        return (
            [
                node("ReduceSum", ["x"], "sum", keepdims=0),
                node("Greater", ["sum", "zero"], "c"),
                node("If", ["c"], "y", then_branch=then, else_branch=other),
            ],
            [n, 3, 4],
            {"flat": numbers(n, 12), "zero": np.array(0, np.float32)},
        )

    path = model(tmp_path / "m.onnx", *make(1))
    done = converter.convert(path, tmp_path / "m.tflite", ["--shape=x=4,3,4"])
    assert done.status == "converted", done
    exported = model(tmp_path / "exported.onnx", *make(4))
    for sign in (1, -1):
        arrays = {"x": sign * np.random.default_rng(0).uniform(0, 1, (4, 3, 4)).astype(np.float32)}
        agree(tmp_path / "m.tflite", arrays, judge.reference(exported, arrays), litert)


# Of models that treat samples one by one, ONNX Runtime's answers to the samples are the answer to the batch.
REAL = [
    "dtln__model_1",
    "hyperlpr__y5fu_320x_sim",
    "ipne__AGLLNet_256x256",
    "ipne__LightWeightPersonDetector",
    "ipne__deeplab_v3_1_default_1",
    "ipne__sci_180x320",
    "onnx2tf__GroupNormalization_21",
    "onnx__light_squeezenet",
    "ort__mnist",
    "portrait__deeplab_dm05_513",
    "ultraface__version-RFB-320",
    "ultraface__version-RFB-320_simplified",
]


@pytest.mark.parametrize("name", REAL)
def test_real_models(name, tmp_path, litert, lowtide):
    path = real_model(name + ".onnx")
    graph = onnx.load(path).graph
    constants = {tensor.name for tensor in graph.initializer}
    arrays, rng = {}, np.random.default_rng(0)
    for info in graph.input:
        if info.name not in constants:
            extents = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
            arrays[info.name] = rng.uniform(0, 1, [3, *extents[1:]]).astype(np.float32)
    options = [f"--shape={key}=" + ",".join(map(str, array.shape)) for key, array in arrays.items()]
    done = converter.convert(path, tmp_path / "m.tflite", options)
    assert done.status == "converted", done
    samples = [judge.reference(path, {key: array[i : i + 1] for key, array in arrays.items()}) for i in range(3)]
    expected = {key: np.concatenate([sample[key] for sample in samples]) for key in samples[0]}
    agree(tmp_path / "m.tflite", arrays, expected, litert)
