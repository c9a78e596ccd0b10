# SPDX-License-Identifier: Apache-2.0
"""convert --quantize: numbers that are far from all others, such as masks, must not take the steps of the others."""

import numpy as np
import pytest
from onnx import helper

import lowtide
from tests.python import models

node = helper.make_node


def quantized(folder, nodes, inputs, outputs, tensors, samples, runs=(), **options):
    """Decibels of each output, the worst of two samples, or of `runs`, and both kinds of kernels, and the conversion."""
    used = {name for one in nodes for name in one.input}
    tensors = {name: np.asarray(array) for name, array in tensors.items() if name in used}
    ports = [[models.value(name, *rest) for name, *rest in group] for group in (inputs, outputs)]
    model = models.save(folder / "m.onnx", nodes, *ports, tensors)
    lowtide.calibrate(model, folder / "r.json", samples=samples, choose="none")
    done = lowtide.convert(model, folder / "m.tflite", ranges=folder / "r.json", **({"quantize": "int8"} | options))
    found = {}
    with lowtide.Runner(model) as reference:
        for kernels in ("xnnpack", "builtin"):
            with lowtide.Runner(done.output, kernels=kernels) as tested:
                for sample in runs or samples[:2]:
                    expected, got = reference.run(sample), tested.run(sample)
                    for name, array in expected.items():
                        found[name] = min(found.get(name, np.inf), models.decibels(array, got[name]))
    return found, done


def attention(folder, nodes, outputs=(), length=7, width=0.3, tensors=(), **options):
    """Scores s -> what `nodes` make of them, a -> Softmax -> y."""
    weights = {f"w{name}": width * np.random.default_rng(i).normal(size=(16, 16)) for i, name in enumerate("qkv")}
    weights["wv"] *= 0.3 / width
    causal = np.tril(np.ones((length, length), bool))[None]
    numbers = {
        "mask": -1e4,
        "added": np.where(causal, 0, -1e4),
        "taken": np.where(causal, np.linspace(3, -1, length), 1e4),
        "shifted": np.random.default_rng(8).uniform(-3, 3, (1, length, length)) - np.where(causal, 0, 100),
        "quarter": 0.25,
        "negative": -0.25,
        "above": 1e4,
        "zero": 0,
        **weights,
        **dict(tensors),
    }
    numbers = {name: np.float32(array) for name, array in numbers.items()}
    numbers |= {"causal": causal, "last": np.array([-1])}
    whole = [node("MatMul", ["x", f"w{name}"], [name]) for name in "qkv"]
    whole += [node("Transpose", ["k"], ["t"], perm=[0, 2, 1]), node("MatMul", ["q", "t"], ["s"]), *nodes]
    whole += [node("Softmax", ["a"], ["p"], axis=-1), node("MatMul", ["p", "v"], ["y"])]
    samples = [{"x": np.random.default_rng(i).normal(size=(1, length, 16)).astype(np.float32)} for i in range(6)]
    ports = [("y", "float32", [1, length, 16]), *outputs]
    return quantized(folder, whole, [("x", "float32", [1, length, 16])], ports, numbers, samples, **options)


SCORES = [1, 7, 7]
READERS = {
    "scores are an output": ([node("Where", ["causal", "s", "mask"], ["a"])], [("s", SCORES)]),
    "mean of the scores": (
        [node("Where", ["causal", "s", "mask"], ["a"]), node("ReduceMean", ["s"], ["mean"], axes=[-1])],
        [("mean", [1, 7, 1])],
    ),
    "scaled": ([node("Where", ["causal", "s", "mask"], ["b"]), node("Mul", ["b", "quarter"], ["a"])], []),
    "divided": ([node("Where", ["causal", "s", "mask"], ["b"]), node("Div", ["b", "quarter"], ["a"])], []),
    "minus the largest": (
        [
            node("Add", ["s", "added"], ["b"]),
            node("ReduceMax", ["b"], ["largest"], axes=[-1]),
            node("Sub", ["b", "largest"], ["a"]),
        ],
        [],
    ),
    "plus a bias": ([node("Add", ["s", "shifted"], ["a"])], []),
    "minus a bias": ([node("Sub", ["s", "taken"], ["a"])], []),
    "of the opposite sign": (
        [node("Where", ["causal", "s", "above"], ["b"]), node("Mul", ["b", "negative"], ["a"])],
        [],
    ),
    "taken from 0": (
        [
            node("Where", ["causal", "s", "above"], ["b"]),
            node("Sub", ["zero", "b"], ["a"]),
        ],
        [],
    ),
    # In floats: the masks are needed as they are.
    "an output": ([node("Add", ["s", "added"], ["a"])], [("a", SCORES)]),
    "an output of the opposite sign": (
        [node("Where", ["causal", "s", "above"], ["b"]), node("Mul", ["b", "negative"], ["a"])],
        [("s", SCORES), ("b", SCORES)],
    ),
    "exponentials": (
        [node("Add", ["s", "added"], ["a"]), node("Exp", ["a"], ["e"]), node("ReduceSum", ["e", "last"], ["sum"])],
        [("sum", [1, 7, 1])],
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_what_reads_masked_scores(tmp_path, name):
    nodes, outputs = READERS[name]
    found, _ = attention(tmp_path, nodes, [(output, "float32", shape) for output, shape in outputs])
    assert min(found.values()) > 20, found


def test_one_entry_in_a_long_row(tmp_path):
    """2047 masks of e^-8 each would be a quarter of the row."""
    hidden = np.where(np.arange(2048) < 1, 0, -1e4)[None, None]
    found, _ = attention(tmp_path, [node("Add", ["s", "hidden"], ["a"])], (), 2048, 0.05, {"hidden": hidden})
    assert found["y"] > 25


@pytest.mark.parametrize(
    "nodes, output",
    [
        ([node("Where", ["ok", "l", "mask"], ["a"]), node("ArgMax", ["a"], ["y"], axis=-1, keepdims=0)], "int64"),
        (
            [
                node("Where", ["ok", "zero", "mask"], ["m"]),
                node("Add", ["l", "m"], ["a"]),
                node("ArgMax", ["a"], ["y"], axis=-1, keepdims=0),
            ],
            "int64",
        ),
        (
            [node("Where", ["ok", "l", "mask"], ["a"]), node("ReduceMax", ["a"], ["y"], axes=[-1], keepdims=0)],
            "float32",
        ),
        (
            [
                node("Where", ["ok", "l", "mask"], ["a"]),
                node("LogSoftmax", ["a"], ["b"], axis=-1),
                node("Where", ["ok", "b", "zero"], ["c"]),
                node("ReduceSum", ["c", "last"], ["y"], keepdims=0),
            ],
            "float32",
        ),
        (
            [
                node("Where", ["ok", "l", "mask"], ["a"]),
                node("Sigmoid", ["a"], ["b"]),
                node("ReduceSum", ["b", "last"], ["y"], keepdims=0),
            ],
            "float32",
        ),
    ],
)
def test_heads_with_classes_that_are_not_allowed(tmp_path, nodes, output):
    rng = np.random.default_rng(1)
    tensors = {"w": (rng.normal(size=(16, 12)) / 4).astype(np.float32), "mask": np.float32(-1e4)}
    tensors |= {"zero": np.float32(0), "last": np.array([-1])}
    samples = [
        {"x": rng.normal(size=(9, 16)).astype(np.float32), "ok": (rng.random((9, 12)) < 0.7) | (np.arange(12) == 0)}
        for _ in range(6)
    ]
    inputs = [("x", "float32", [9, 16]), ("ok", "bool", [9, 12])]
    nodes = [node("MatMul", ["x", "w"], ["l"]), *nodes]
    found, _ = quantized(tmp_path, nodes, inputs, [("y", output, [9])], tensors, samples)
    assert found["y"] > 28


PADDING = {
    "chosen": [node("Cast", ["there"], ["c"], to=9), node("Where", ["c", "s", "mask"], ["a"])],
    "added": [
        node("Cast", ["there"], ["c"], to=1),
        node("Sub", ["one", "c"], ["hidden"]),
        node("Mul", ["hidden", "mask"], ["m"]),
        node("Add", ["s", "m"], ["a"]),
    ],
    "added choice": [
        node("Cast", ["there"], ["c"], to=9),
        node("Where", ["c", "zero", "mask"], ["m"]),
        node("Add", ["s", "m"], ["a"]),
    ],
}


@pytest.mark.parametrize(
    "how, mask",
    [
        (how, mask)
        for how in PADDING
        for mask in (-1e4, np.finfo(np.float32).min, -np.inf)
        if how != "added" or np.isfinite(mask)  # 0 * -inf is NaN
    ],
)
def test_padding_that_no_sample_had(tmp_path, how, mask):
    rng = np.random.default_rng(6)
    weights = {f"w{name}": width * rng.normal(size=(16, 16)) for name, width in (("q", 0.3), ("k", 0.3), ("v", 0.3))}
    tensors = {name: np.float32(array) for name, array in ({"mask": mask, "one": 1, "zero": 0} | weights).items()}
    nodes = [node("MatMul", ["x", f"w{name}"], [name]) for name in "qkv"]
    nodes += [node("Transpose", ["k"], ["t"], perm=[0, 2, 1]), node("MatMul", ["q", "t"], ["s"]), *PADDING[how]]
    nodes += [node("Softmax", ["a"], ["p"], axis=-1), node("MatMul", ["p", "v"], ["y"])]
    whole = np.ones((1, 1, 13), np.int64)
    samples = [{"x": rng.normal(size=(1, 13, 16)).astype(np.float32), "there": whole} for _ in range(8)]
    inputs = [("x", "float32", [1, 13, 16]), ("there", "int64", [1, 1, 13])]
    for length in (13, 8):
        runs = [sample | {"there": (np.arange(13) < length).astype(np.int64)[None, None]} for sample in samples[:2]]
        found, done = quantized(tmp_path, nodes, inputs, [("y", "float32", [1, 13, 16])], tensors, samples, runs)
        assert found["y"] > 20
    notes = [note for note in done.report["notes"] if "0 in all samples" in note]
    assert bool(notes) == (how != "chosen")


def test_a_guard_that_no_sample_needed(tmp_path):
    rng = np.random.default_rng(7)
    tensors = {"w": rng.normal(size=(16, 16)) / 4, "v": rng.normal(size=(16, 5)) / 4, "most": 1000}
    tensors = {name: np.float32(array) for name, array in tensors.items()}
    nodes = [node("MatMul", ["x", "w"], ["q"]), node("Abs", ["q"], ["size"]), node("Less", ["size", "most"], ["fits"])]
    nodes += [node("Where", ["fits", "q", "most"], ["r"]), node("MatMul", ["r", "v"], ["y"])]
    samples = [{"x": rng.normal(size=(9, 16)).astype(np.float32)} for _ in range(6)]
    found, done = quantized(tmp_path, nodes, [("x", "float32", [9, 16])], [("y", "float32", [9, 5])], tensors, samples)
    assert found["y"] > 30
    assert any("no sample chose its constant 1000" in note for note in done.report["notes"])


@pytest.mark.parametrize("number", [-9999, 9999, 1e20])
def test_numbers_that_say_no_data(tmp_path, number):
    rng = np.random.default_rng(8)
    tensors = {"w": rng.normal(size=(6, 5)) / 2, "number": number, "instead": 0.5}
    tensors = {name: np.float32(array) for name, array in tensors.items()}
    nodes = [node("Equal", ["x", "number"], ["none"]), node("Where", ["none", "instead", "x"], ["c"])]
    nodes += [node("MatMul", ["c", "w"], ["y"])]
    samples = []
    for _ in range(6):
        x = rng.normal(size=(14, 6))
        x[rng.random(x.shape) < 0.1] = number
        samples.append({"x": x.astype(np.float32)})
    ports = [("x", "float32", [14, 6])], [("y", "float32", [14, 5])]
    found, _ = quantized(tmp_path, nodes, *ports, tensors, samples)
    assert found["y"] > 30


@pytest.mark.parametrize(
    "last, output",
    [
        (node("ArgMin", ["a"], ["y"], axis=-1, keepdims=0), "int64"),
        (node("ReduceMin", ["a"], ["y"], axes=[-1], keepdims=0), "float32"),
        (node("TopK", ["a", "one"], ["smallest", "y"], axis=-1, largest=0), "int64"),
        (node("TopK", ["a", "one"], ["y", "place"], axis=-1, largest=0), "float32"),
    ],
)
@pytest.mark.parametrize("mask", [1e4, 1e9])
def test_the_nearest_of_those_that_are_allowed(tmp_path, last, output, mask):
    rng = np.random.default_rng(9)
    tensors = {"w": (rng.normal(size=(16, 12)) / 4).astype(np.float32), "mask": np.float32(mask)}
    tensors["one"] = np.array([1])
    samples = [
        {"x": rng.normal(size=(9, 16)).astype(np.float32), "ok": (rng.random((9, 12)) < 0.7) | (np.arange(12) == 0)}
        for _ in range(6)
    ]
    nodes = [node("MatMul", ["x", "w"], ["l"]), node("Where", ["ok", "l", "mask"], ["a"]), last]
    shape = [9, 1] if last.op_type == "TopK" else [9]
    ports = [("x", "float32", [9, 16]), ("ok", "bool", [9, 12])], [("y", output, shape)]
    found, _ = quantized(tmp_path, nodes, *ports, tensors, samples)
    assert found["y"] > 28


@pytest.mark.parametrize("mask", [-1e4, -np.inf])
def test_log_probabilities_of_masks_that_are_an_output(tmp_path, mask):
    rng = np.random.default_rng(10)
    tensors = {"w": (rng.normal(size=(16, 12)) / 4).astype(np.float32), "mask": np.float32(mask)}
    tensors["hidden"] = np.arange(12) % 5 == 3
    nodes = [node("MatMul", ["x", "w"], ["l"]), node("Where", ["hidden", "mask", "l"], ["a"])]
    nodes += [node("LogSoftmax", ["a"], ["y"], axis=-1)]
    samples = [{"x": rng.normal(size=(9, 16)).astype(np.float32)} for _ in range(6)]
    with np.errstate(invalid="ignore"):
        _, done = quantized(tmp_path, nodes, [("x", "float32", [9, 16])], [("y", "float32", [9, 12])], tensors, samples)
    with lowtide.Runner(tmp_path / "m.onnx") as reference, lowtide.Runner(done.output) as tested:
        expected, got = reference.run(samples[0])["y"], tested.run(samples[0])["y"]
    assert np.array_equal(np.isinf(expected), np.isinf(got))
    for some in (tensors["hidden"], ~tensors["hidden"]):
        if np.isfinite(expected[:, some]).all():
            assert models.decibels(expected[:, some], got[:, some]) > 28


@pytest.mark.parametrize("mask", [-1e4, np.finfo(np.float32).min, -np.inf])
def test_added_masks_without_floats(tmp_path, mask):
    added = np.where(np.tril(np.ones((7, 7), bool)), 0, mask)[None]
    nodes = [node("Add", ["s", "hidden"], ["a"])]
    found, _ = attention(tmp_path, nodes, tensors={"hidden": added}, require_integer=True)
    assert found["y"] > 20


@pytest.mark.parametrize("scale", [10, 30])
def test_clip_to_a_small_part(tmp_path, scale):
    rng = np.random.default_rng(11)
    tensors = {"w": scale * rng.normal(size=(8, 3, 3, 3)) / 5, "v": rng.normal(size=(5, 8, 1, 1)) / 3}
    tensors |= {"low": -2, "high": 2.5}
    tensors = {name: np.float32(array) for name, array in tensors.items()}
    nodes = [node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), node("Clip", ["c", "low", "high"], ["r"])]
    nodes += [node("Conv", ["r", "v"], ["y"])]
    samples = [{"x": rng.normal(size=(1, 3, 8, 6)).astype(np.float32)} for _ in range(8)]
    ports = [("x", "float32", [1, 3, 8, 6])], [("y", "float32", [1, 5, 8, 6])]
    found, done = quantized(tmp_path, nodes, *ports, tensors, samples)
    assert found["y"] > {10: 33, 30: 29}[scale] and done.report["integers"]["float_islands"] == []


@pytest.mark.parametrize("mask", [-1e4, -1e9])
@pytest.mark.parametrize("how", ["added", "bias"])
def test_suppressed_classes_of_low_logits(tmp_path, how, mask):
    """The histogram has all other logits in a few bins."""
    rng = np.random.default_rng(1)
    masks = np.where(np.arange(12) == 3, mask, 0)
    bias = np.full(12, -20.0) + (masks if how == "bias" else 0)
    tensors = {"w": 1.5 * rng.normal(size=(16, 12)), "bias": bias, "masks": masks}
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "bias"], ["l"])]
    nodes += [node("Add", ["l", "masks"], ["a"])] if how == "added" else []
    nodes += [node("Softmax", [nodes[-1].output[0]], ["y"], axis=-1)]
    samples = [{"x": rng.normal(size=(9, 16)).astype(np.float32)} for _ in range(12)]
    ports = [("x", "float32", [9, 16])], [("y", "float32", [9, 12])]
    tensors = {name: array.astype(np.float32) for name, array in tensors.items()}
    found, _ = quantized(tmp_path, nodes, *ports, tensors, samples)
    assert found["y"] > 25


@pytest.mark.parametrize("number", [-1e4, np.finfo(np.float32).min])
def test_pads_around_the_windows_of_a_pool(tmp_path, number):
    rng = np.random.default_rng(2)
    tensors = {"w": rng.normal(size=(8, 4, 3, 3)) / 6, "v": rng.normal(size=(5, 8, 1, 1)) / 3, "number": number}
    tensors = {name: np.asarray(array, np.float32) for name, array in tensors.items()}
    tensors["pads"] = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        node("Pad", ["c", "pads", "number"], ["p"]),
        node("MaxPool", ["p"], ["m"], kernel_shape=[3, 3], strides=[2, 2]),
        node("Conv", ["m", "v"], ["y"]),
    ]
    samples = [{"x": rng.normal(size=(1, 4, 9, 8)).astype(np.float32)} for _ in range(4)]
    ports = [("x", "float32", [1, 4, 9, 8])], [("y", "float32", [1, 5, 5, 4])]
    found, done = quantized(tmp_path, nodes, *ports, tensors, samples)
    assert found["y"] > 28 and done.report["integers"]["float_islands"] == []


@pytest.mark.parametrize("method", ["mse", "percentile:99.9"])
def test_a_mask_that_is_rare(tmp_path, method):
    """A percentile does not cut it away."""
    rng = np.random.default_rng(3)
    tensors = {"w": rng.normal(size=(16, 16)).astype(np.float32) / 3, "one": np.float32(1), "mask": np.float32(-1e4)}
    nodes = [
        node("MatMul", ["x", "w"], ["q"]),
        node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
        node("MatMul", ["q", "t"], ["s"]),
        node("Sub", ["one", "there"], ["hidden"]),
        node("Mul", ["hidden", "mask"], ["m"]),
        node("Add", ["s", "m"], ["a"]),
        node("Softmax", ["a"], ["p"], axis=-1),
        node("MatMul", ["p", "x"], ["y"]),
    ]
    there = np.ones((40, 1, 1, 30), np.float32)
    there[0, 0, 0, 11] = 0
    samples = [{"x": rng.normal(size=(1, 30, 16)).astype(np.float32), "there": each} for each in there]
    inputs = [("x", "float32", [1, 30, 16]), ("there", "float32", [1, 1, 30])]
    found, _ = quantized(tmp_path, nodes, inputs, [("y", "float32", [1, 30, 16])], tensors, samples, range=method)
    assert found["y"] > 20


BOXES = [
    node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
    node("Split", ["c", "sizes"], ["b", "s"], axis=1),
    node("Sigmoid", ["b"], ["unit"]),
    node("Mul", ["unit", "pixels"], ["boxes"]),
    node("Sigmoid", ["s"], ["scores"]),
    node("Concat", ["boxes", "scores"], ["all"], axis=1),
    node("Reshape", ["all", "shape"], ["y"]),
]


def head(folder, **options):
    rng = np.random.default_rng(4)
    tensors = {"w": rng.normal(size=(10, 4, 3, 3)).astype(np.float32) / 3, "pixels": np.float32(640)}
    tensors |= {"sizes": np.array([4, 6]), "shape": np.array([1, 10, 48])}
    samples = [{"x": rng.normal(size=(1, 4, 8, 6)).astype(np.float32)} for _ in range(4)]
    ports = [("x", "float32", [1, 4, 8, 6])], [("y", "float32", [1, 10, 48])]
    found, done = quantized(folder, BOXES, *ports, tensors, samples, **options)
    with lowtide.Runner(folder / "m.onnx") as reference, lowtide.Runner(done.output) as tested:
        expected, got = reference.run(samples[0])["y"], tested.run(samples[0])["y"]
    return models.decibels(expected[:, 4:], np.asarray(got).reshape(expected.shape)[:, 4:]), done


def test_boxes_and_scores_in_one_tensor(tmp_path):
    of_scores, done = head(tmp_path)
    assert of_scores > 28
    reasons = {island["operator"]: island["reason"] for island in done.report["integers"]["float_islands"]}
    assert reasons["CONCATENATION"].startswith("the common scale of its parts has ")


def test_boxes_and_scores_in_one_tensor_of_integers(tmp_path):
    _, done = head(tmp_path, require_integer=True)
    assert any(
        note.startswith("CONCATENATION 'all': the common scale of its parts has ") for note in done.report["notes"]
    )


def test_values_of_constants_alone_are_not_observed(tmp_path):
    """Such as the position embedding of DETR, of which calibration says nothing."""
    rng = np.random.default_rng(5)
    tensors = {"ones": np.ones((5, 8)), "steps": np.linspace(1, 100, 8), "w": rng.normal(size=(8, 8)) / 3}
    tensors = {name: array.astype(np.float32) for name, array in tensors.items()} | {"axis": np.array(0)}
    nodes = [
        node("CumSum", ["ones", "axis"], ["places"]),
        node("Div", ["places", "steps"], ["angles"]),
        node("Sin", ["angles"], ["waves"]),
        node("MatMul", ["x", "w"], ["c"]),
        node("Add", ["c", "waves"], ["s"]),
        node("MatMul", ["s", "w"], ["y"]),
    ]
    samples = [{"x": rng.normal(size=(5, 8)).astype(np.float32)} for _ in range(4)]
    found, _ = quantized(tmp_path, nodes, [("x", "float32", [5, 8])], [("y", "float32", [5, 8])], tensors, samples)
    assert found["y"] > 28


def test_large_numbers_where_floats_are_refused(tmp_path):
    """The largest results of a layer may be few."""
    rng = np.random.default_rng(12)
    tensors = {"w": rng.normal(size=(16, 16)) / 4, "large": np.where(np.arange(16) == 3, 900, 0)}
    tensors = {name: array.astype(np.float32) for name, array in tensors.items()}
    nodes = [node("MatMul", ["x", "w"], ["h"]), node("Mul", ["first", "large"], ["l"]), node("Add", ["h", "l"], ["r"])]
    nodes += [node("MatMul", ["r", "w"], ["y"])]
    first = (np.arange(9) == 0).astype(np.float32)[:, None]
    samples = [{"x": rng.normal(size=(9, 16)).astype(np.float32), "first": first} for _ in range(6)]
    ports = [("x", "float32", [9, 16]), ("first", "float32", [9, 1])], [("y", "float32", [9, 16])]
    _, done = quantized(tmp_path, nodes, *ports, tensors, samples, require_integer=True)
    assert any("'l': its result has masks up to 900" in note for note in done.report["notes"]), done.report["notes"]
    found, _ = quantized(tmp_path, nodes, *ports, tensors, samples)
    assert found["y"] > 28


def test_a_dead_layer_has_no_masks(tmp_path):
    rng = np.random.default_rng(13)
    tensors = {"w": rng.normal(size=(16, 16)) / 4, "low": np.full(16, -50)}
    tensors = {name: array.astype(np.float32) for name, array in tensors.items()}
    nodes = [node("MatMul", ["x", "w"], ["h"]), node("Add", ["h", "low"], ["b"]), node("Relu", ["b"], ["dead"])]
    nodes += [node("Add", ["x", "dead"], ["z"]), node("Sigmoid", ["z"], ["g"]), node("Mul", ["z", "g"], ["s"])]
    nodes += [node("MatMul", ["s", "w"], ["y"])]
    samples = [{"x": rng.normal(size=(9, 16)).astype(np.float32)} for _ in range(6)]
    found, done = quantized(tmp_path, nodes, [("x", "float32", [9, 16])], [("y", "float32", [9, 16])], tensors, samples)
    assert found["y"] > 33 and done.report["notes"] == []
