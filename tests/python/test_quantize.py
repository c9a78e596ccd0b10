# SPDX-License-Identifier: Apache-2.0
"""convert --quantize: calibrated networks run in integers and are near ONNX Runtime's floats; wrong ranges files."""

import json

import numpy as np
import pytest
from onnx import helper

import lowtide
from tests.python import models

RNG = np.random.default_rng(11)


def weights(*shape, spread=1.0, rng=RNG):
    return (spread * rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def net(path):
    """Convolutions (one in groups by channel), sums, a concatenation, pools, a product and a softmax; no two alike."""
    rng = np.random.default_rng(11)  # whichever tests ran before
    by_channel = np.array([1, 0.01, 4, 0, 2, 0.5, 1, 0.1], np.float32).reshape(8, 1, 1, 1)
    tensors = {
        "w1": weights(8, 3, 3, 3, rng=rng) * by_channel,
        "b1": rng.normal(size=8).astype(np.float32),
        "w2": weights(8, 1, 3, 3, spread=2, rng=rng),
        "b2": np.zeros(8, np.float32),
        "w3": weights(8, 8, 1, 1, rng=rng),
        "w4": weights(5, 16, 3, 3, rng=rng),
        "b4": rng.normal(size=5).astype(np.float32),
        "w5": weights(45, 7, rng=rng),
        "b5": rng.normal(size=7).astype(np.float32),
        "k": np.linspace(-0.5, 0.5, 8, dtype=np.float32).reshape(8, 1, 1),
        "flat": np.array([1, 45]),
    }
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], name="conv1", pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"]),
        node("Conv", ["r1", "w2", "b2"], ["c2"], name="conv2", group=8, pads=[1, 1, 1, 1]),
        node("Clip", ["c2", "zero", "six"], ["r2"]),
        node("Conv", ["r2", "w3"], ["c3"], name="conv3"),
        node("Add", ["c3", "r1"], ["s"], name="sum"),
        node("Mul", ["s", "k"], ["m"], name="times"),
        node("Concat", ["m", "r2"], ["cat"], name="cat", axis=1),
        node("MaxPool", ["cat"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p", "w4", "b4"], ["c4"], name="conv4", pads=[1, 1, 1, 1]),
        node("AveragePool", ["c4"], ["a"], kernel_shape=[2, 4], strides=[2, 4]),
        node("Reshape", ["a", "flat"], ["f"]),
        node("Gemm", ["f", "w5", "b5"], ["g"], name="product"),
        node("Softmax", ["g"], ["y"], name="softmax"),
    ]
    tensors |= {"zero": np.float32(0), "six": np.float32(6)}
    inputs = [models.value("x", "float32", [1, 3, 12, 24])]
    outputs = [models.value("y", "float32", [1, 7]), models.value("c4", "float32", [1, 5, 6, 12])]
    return models.save(path, nodes, inputs, outputs, tensors)


def sample(seed):
    return {"x": np.random.default_rng(seed).normal(size=(1, 3, 12, 24)).astype(np.float32)}


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibrated")
    model = net(folder / "m.onnx")
    lowtide.calibrate(model, folder / "ranges.json", samples=[sample(i) for i in range(6)])
    return model, folder / "ranges.json"


def snr(model, tflite, kernels):
    """Of the worst output, in dB; samples that calibration did not see."""
    signal, noise = {}, {}
    with lowtide.Runner(model) as reference, lowtide.Runner(tflite, kernels=kernels) as tested:
        for seed in range(100, 108):
            expected = reference.run(sample(seed))
            for name, got in tested.run(sample(seed)).items():
                error = expected[name].astype(np.float64) - got.reshape(expected[name].shape)
                signal[name] = signal.get(name, 0) + np.square(expected[name]).sum()
                noise[name] = noise.get(name, 0) + np.square(error).sum()
    return min(10 * np.log10(signal[name] / noise[name]) for name in signal)


@pytest.mark.parametrize("kernels", ["xnnpack", "builtin", "reference"])
@pytest.mark.parametrize(
    "options, least",
    [
        ({}, 25),
        ({"range": "minmax"}, 25),
        ({"range": "percentile:99.99"}, 25),
        ({"per_tensor": True}, 18),
        ({"equalize": "none"}, 25),
        ({"correct": "none"}, 25),
    ],
)
def test_a_network_in_eight_bits(calibrated, tmp_path, options, least, kernels):
    model, ranges = calibrated
    done = lowtide.convert(model, tmp_path / "m.tflite", quantize="int8", ranges=ranges, **options)

    assert done.report["integers"]["float_islands"] == []
    found = snr(model, done.output, kernels)
    print(options, kernels, found)
    assert found >= least


@pytest.fixture(scope="module")
def between_convolutions(tmp_path_factory):
    """A model, its ranges, and the name of a tensor whose channels are equalized."""
    folder = tmp_path_factory.mktemp("between")
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["between"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["between", "b"], ["y"]),
    ]
    tensors = {"a": weights(5, 3, 3, 3), "b": weights(7, 5, 2, 2)}
    ports = [models.value("x", "float32", [1, 3, 12, 24])], [models.value("y", "float32", [1, 7, 11, 23])]
    model = models.save(folder / "m.onnx", nodes, *ports, tensors)
    lowtide.calibrate(model, folder / "r.json", samples=[sample(i) for i in range(4)])
    return model, folder / "r.json", "between"


def test_a_tensor_between_two_convolutions_keeps_its_range(between_convolutions, tmp_path):
    model, ranges, _ = between_convolutions
    done = lowtide.convert(model, tmp_path / "m.tflite", quantize="int8", ranges=ranges)
    assert done.report["integers"]["float_islands"] == []
    assert snr(model, done.output, "xnnpack") > 30


def chain_of_one_dimension(path):
    """Convolutions over time, one strided, with a sum around the second, and a mean at the end."""
    tensors = {"w1": weights(8, 5, 3), "w2": weights(8, 8, 5), "w3": weights(12, 8, 3), "b": weights(8, 2)[:, 0].copy()}
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1", "b"], ["c1"], pads=[1, 1]),
        node("Relu", ["c1"], ["r1"]),
        node("Conv", ["r1", "w2", "b"], ["c2"], pads=[2, 2]),
        node("Add", ["c2", "r1"], ["s"]),
        node("Relu", ["s"], ["r2"]),
        node("Conv", ["r2", "w3"], ["c3"], strides=[2], pads=[1, 1]),
        node("Relu", ["c3"], ["r3"]),
        node("GlobalAveragePool", ["r3"], ["y"]),
    ]
    inputs, outputs = [models.value("x", "float32", [1, 5, 42])], [models.value("y", "float32", [1, 12, 1])]
    return models.save(path, nodes, inputs, outputs, tensors)


@pytest.mark.parametrize("form, least", [("int8", 28), ("int16x8", 40)])
def test_convolutions_of_one_dimension(tmp_path, form, least):
    """TFLite computes them in four dimensions: their values keep their names, and so their ranges."""
    model = chain_of_one_dimension(tmp_path / "m.onnx")
    samples = [{"x": np.random.default_rng(i).normal(size=(1, 5, 42)).astype(np.float32)} for i in range(12)]
    lowtide.calibrate(model, tmp_path / "r.json", samples=samples, choose="none")
    done = lowtide.convert(model, tmp_path / "m.tflite", quantize=form, ranges=tmp_path / "r.json")
    assert done.report["integers"]["float_islands"] == []
    found = lowtide.verify(model, done.output, inputs=samples, min_snr=least)
    assert found.passed, found.first_difference


@pytest.mark.parametrize("equalize", ["channels", "none"])
def test_tensors_of_scaled_channels_are_not_compared(between_convolutions, tmp_path, equalize):
    """With the name of ONNX's value, verify --by-op said that they were wrong."""
    model, ranges, name = between_convolutions
    out = lowtide.convert(model, tmp_path / "m.tflite", quantize="int8", ranges=ranges, equalize=equalize).output
    with lowtide.Runner(out) as runner:
        assert {name, f"{name}/scaled"}.intersection(runner.tensors) == {
            f"{name}/scaled" if equalize == "channels" else name
        }
    found = lowtide.verify(model, out, inputs=[sample(i) for i in range(4)], by_op=True)
    assert found.passed, found.first_difference
    assert (name in {tensor.value for tensor in found.tensors}) == (equalize == "none")


def test_sixteen_bits(calibrated, tmp_path):
    model, ranges = calibrated
    done = lowtide.convert(model, tmp_path / "m.tflite", quantize="int16x8", ranges=ranges)
    assert [island["operator"] for island in done.report["integers"]["float_islands"]] == ["SOFTMAX"]
    for kernels in ("xnnpack", "builtin", "reference"):
        assert snr(model, done.output, kernels) >= 35, kernels


def converted_net(folder, nodes, tensors, shapes, quantize, samples):
    """A network from x to y, calibrated with the samples and quantized."""
    ports = [[models.value(name, "float32", shape)] for name, shape in zip("xy", shapes, strict=True)]
    model = models.save(folder / "m.onnx", nodes, *ports, tensors)
    lowtide.calibrate(model, folder / "r.json", samples=[{"x": x} for x in samples], choose="none")
    done = lowtide.convert(model, folder / "m.tflite", quantize=quantize, ranges=folder / "r.json", correct="none")
    return model, done


def noise(model, tflite, kernels, x):
    with lowtide.Runner(model) as reference, lowtide.Runner(tflite, kernels=kernels) as tested:
        return models.decibels(reference.run({"x": x})["y"], tested.run({"x": x})["y"])


BEHIND = np.random.default_rng(5).random((1, 8, 6, 5)) > 0.5
BESIDE_CONSTANTS = {
    # Limits that nothing reaches; exporters write them for "none".
    "upper limit": ([helper.make_node("Clip", ["c", "zero", "far"], ["y"])], {"far": np.float32(1000)}),
    "lower limit": ([helper.make_node("Max", ["c", "far"], ["y"])], {"far": np.float32(-1e6)}),
    "lower limits": ([helper.make_node("Max", ["c", "far"], ["y"])], {"far": np.full((8, 1, 1), -1e6, np.float32)}),
    "limit of a limit": (
        [helper.make_node("Min", ["c", "far"], ["m"]), helper.make_node("Max", ["m", "zero"], ["y"])],
        {"far": np.float32(1e30)},
    ),
    "limit that is the result": ([helper.make_node("Max", ["c", "far"], ["y"])], {"far": np.float32(7)}),
    # Constants that are not on the scale that the function before always has.
    "concatenation": (
        [helper.make_node("Sigmoid", ["c"], ["s"]), helper.make_node("Concat", ["s", "k"], ["y"], axis=1)],
        {"k": np.full((1, 2, 6, 5), 5, np.float32)},
    ),
    "selection": (
        [helper.make_node("Sigmoid", ["c"], ["s"]), helper.make_node("Where", ["where", "s", "k"], ["y"])],
        {"k": np.float32(-1), "where": BEHIND},
    ),
    "border": (
        [helper.make_node("Softmax", ["c"], ["s"], axis=1), helper.make_node("Pad", ["s", "pads", "k"], ["y"])],
        {"k": np.float32(2), "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1])},
    ),
    "limit of a softmax": (
        [helper.make_node("Softmax", ["c"], ["s"], axis=1), helper.make_node("Max", ["s", "k"], ["y"])],
        {"k": np.float32(3)},
    ),
}


@pytest.mark.parametrize("form", ["int8", "int16x8"])
@pytest.mark.parametrize("name", BESIDE_CONSTANTS)
def test_constants_beside_data(tmp_path, name, form):
    nodes, tensors = BESIDE_CONSTANTS[name]
    of_conv = np.random.default_rng(3).normal(size=(8, 4, 3, 3), scale=1 / 6).astype(np.float32)
    tensors = {"w": of_conv, "zero": np.float32(0)} | tensors
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), *nodes]
    samples = [np.random.default_rng(i).normal(size=(1, 4, 6, 5)).astype(np.float32) for i in range(3)]
    model, done = converted_net(tmp_path, nodes, tensors, ([1, 4, 6, 5], [1, None, None, None]), form, samples)
    for kernels in ("xnnpack", "builtin"):
        assert noise(model, done.output, kernels, samples[0]) > 30, kernels


CAUSAL = np.tril(np.ones((7, 7), bool))[None]


def attention(how, mask):
    """Nodes and tensors of an attention from x, with masked scores; `how` they are masked, and with which number."""
    node = helper.make_node
    tensors = {f"w{name}": (0.3 * np.random.default_rng(i).normal(size=(16, 16))) for i, name in enumerate("qkv")}
    tensors = {name: array.astype(np.float32) for name, array in tensors.items()}
    nodes = [node("MatMul", ["x", f"w{name}"], [name]) for name in "qkv"]
    nodes += [node("Transpose", ["k"], ["t"], perm=[0, 2, 1]), node("MatMul", ["q", "t"], ["s"])]
    mask = np.float32(mask)
    with np.errstate(invalid="ignore"):
        tensors |= {"causal": CAUSAL, "mask": mask, "added": np.where(CAUSAL, np.float32(0), mask), "far": -mask}
    tensors |= {"seen": CAUSAL.astype(np.float32), "one": np.float32(1), "zero": np.float32(0)}
    tensors |= {"bias": np.where(CAUSAL, np.linspace(-3, 1, 7, dtype=np.float32), mask)}
    with np.errstate(over="ignore"):
        tensors |= {"levels": mask * np.linspace(1, 4.2, 7, dtype=np.float32)}
    # One for what x's first number says is there, so that the mask is computed: never of the first element.
    there = [
        node("Slice", ["x", "from", "to", "last"], ["first"]),
        node("Transpose", ["first"], ["flat"], perm=[0, 2, 1]),
        node("Greater", ["flat", "zero"], ["is_there"]),
        node("Or", ["is_there", "is_first"], ["kept"]),
    ]
    tensors |= {"from": np.array([0]), "to": np.array([1]), "last": np.array([2]), "is_first": np.arange(7) == 0}
    factor = [node("Cast", ["kept"], ["m"], to=1), node("Sub", ["one", "m"], ["hidden"])]
    ways = {
        "add": [node("Add", ["s", "added"], ["a"])],
        "add to a bias": [node("Add", ["s", "bias"], ["a"])],
        "select": [node("Where", ["causal", "s", "mask"], ["a"])],
        "select, then add": [node("Where", ["causal", "s", "mask"], ["b"]), node("Add", ["b", "added"], ["a"])],
        "add a product": [*there, *factor, node("Mul", ["hidden", "mask"], ["p"]), node("Add", ["s", "p"], ["a"])],
        "subtract": [*there, *factor, node("Mul", ["hidden", "far"], ["p"]), node("Sub", ["s", "p"], ["a"])],
        "add a selection": [*there, node("Where", ["kept", "zero", "mask"], ["p"]), node("Add", ["s", "p"], ["a"])],
        "add levels": [*there, *factor, node("Mul", ["hidden", "levels"], ["p"]), node("Add", ["s", "p"], ["a"])],
        "select a computed number": [
            node("Slice", ["x", "from", "to", "last"], ["first"]),
            node("ReduceMax", ["first"], ["largest"]),
            node("Mul", ["largest", "zero"], ["nothing"]),
            node("Add", ["nothing", "mask"], ["computed"]),
            node("Where", ["causal", "s", "computed"], ["a"]),
        ],
        "select what is there": [*there, node("Where", ["kept", "s", "mask"], ["a"])],
    }
    nodes += [*ways[how], node("Softmax", ["a"], ["y1"], axis=-1), node("MatMul", ["y1", "v"], ["y"])]
    used = {name for one in nodes for name in one.input}
    return nodes, {name: array for name, array in tensors.items() if name in used}


WAYS = [
    "add",
    "add to a bias",
    "select",
    "select, then add",
    "add a product",
    "subtract",
    "add a selection",
    "select what is there",
]


@pytest.mark.parametrize("form, least", [("int8", 20), ("int16x8", 30)])
@pytest.mark.parametrize(
    "how, mask",
    [
        *((how, mask) for how in WAYS for mask in (-1e4, np.finfo(np.float32).min)),
        *((how, -np.inf) for how in WAYS if how not in ("add a product", "subtract")),  # 0 times infinity
        *((how, mask) for how in ("add", "select", "add a product") for mask in (-100, -1e9)),
        *((how, mask) for how in ("add levels", "select a computed number") for mask in (-100, -1e4, -1e9)),
    ],
)
def test_masked_attention(tmp_path, how, mask, form, least):
    """A scale of the masks had no steps left for the scores."""
    nodes, tensors = attention(how, mask)
    samples = [np.random.default_rng(i).normal(size=(1, 7, 16)).astype(np.float32) for i in range(8)]
    model, done = converted_net(tmp_path, nodes, tensors, ([1, 7, 16], [1, 7, 16]), form, samples)
    for kernels in ("xnnpack", "builtin"):
        assert min(noise(model, done.output, kernels, x) for x in samples[:3]) > least, kernels


@pytest.mark.parametrize("form, least", [("int8", 20), ("int16x8", 30)])
def test_a_large_constant_mask_with_a_bias(tmp_path, form, least):
    """Of more elements than are kept in memory."""
    rng = np.random.default_rng(0)
    bias = np.where(np.tril(np.ones((300, 300), bool)), rng.uniform(-3, 1, (300, 300)), -1e4).astype(np.float32)
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "w"], ["q"]),
        node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
        node("MatMul", ["q", "t"], ["s"]),
        node("Add", ["s", "bias"], ["a"]),
        node("Softmax", ["a"], ["p"], axis=-1),
        node("MatMul", ["p", "x"], ["y"]),
    ]
    tensors = {"w": 0.4 * rng.normal(size=(16, 16)).astype(np.float32), "bias": bias}
    samples = [rng.normal(size=(1, 300, 16)).astype(np.float32) for _ in range(3)]
    model, done = converted_net(tmp_path, nodes, tensors, ([1, 300, 16], [1, 300, 16]), form, samples)
    for kernels in ("xnnpack", "builtin"):
        assert noise(model, done.output, kernels, samples[0]) > least, kernels


@pytest.mark.parametrize("rows, apart", [(32, 3), (1, 3), (32, 18)])
@pytest.mark.parametrize("how", ["subtract", "add", "alone"])
def test_distances_are_no_masks(tmp_path, how, rows, apart):
    """Softmax of negative distances: they are as far below 0 as masks, and leave gaps where they are few or clustered."""
    node = helper.make_node
    rng = np.random.default_rng(5)
    centres = (apart * (rng.normal(size=(1, 1, 8, 16)) if apart < 18 else np.eye(8, 16)[None, None])).astype(np.float32)
    tensors = {"centres": centres, "bias": np.linspace(-1, 1, 8, dtype=np.float32), "last": np.array([-1], np.int64)}
    ends = {
        "subtract": [node("Sub", ["bias", "distance"], ["d"])],
        "add": [node("Neg", ["distance"], ["n"]), node("Add", ["n", "bias"], ["d"])],
        "alone": [node("Neg", ["distance"], ["d"])],
    }
    nodes = [
        node("Sub", ["x", "centres"], ["off"]),
        node("Mul", ["off", "off"], ["square"]),
        node("ReduceSum", ["square", "last"], ["distance"], keepdims=0),
        *ends[how],
        node("Softmax", ["d"], ["y"], axis=-1),
    ]
    samples = []
    for i in range(8):
        rng = np.random.default_rng(i)
        near = centres[0, 0, rng.integers(0, 8, rows)] + rng.normal(size=(rows, 16))
        samples.append(near.reshape(1, rows, 1, 16).astype(np.float32))
    model, done = converted_net(tmp_path, nodes, tensors, ([1, rows, 1, 16], [1, rows, 8]), "int8", samples)
    for kernels in ("xnnpack", "builtin"):
        assert noise(model, done.output, kernels, samples[0]) > 25, kernels


@pytest.mark.parametrize("form", ["int8", "int16x8"])
def test_a_clip_to_one_is_computed_in_integers(tmp_path, form):
    of_conv = np.random.default_rng(3).normal(size=(8, 4, 3, 3), scale=1 / 6).astype(np.float32)
    tensors = {"w": of_conv, "v": of_conv[:3, :, :1, :1].repeat(2, axis=1), "zero": np.float32(0), "one": np.float32(1)}
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        node("Clip", ["c", "zero", "one"], ["l"]),
        node("Conv", ["l", "v"], ["d"]),
        node("Clip", ["d", "zero", "one"], ["y"]),
    ]
    samples = [np.random.default_rng(i).normal(size=(1, 4, 6, 5)).astype(np.float32) for i in range(3)]
    model, done = converted_net(tmp_path, nodes, tensors, ([1, 4, 6, 5], [1, 3, 6, 5]), form, samples)
    assert done.report["integers"]["float_islands"] == []
    for kernels in ("xnnpack", "builtin"):
        assert noise(model, done.output, kernels, samples[0]) > 30, kernels


def test_a_model_of_half_floats(tmp_path):
    """Its inputs have a range, and what is made of them as f32 has it too."""
    of_conv = np.random.default_rng(3).normal(size=(8, 4, 3, 3), scale=1 / 6).astype(np.float16)
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])]
    ports = [models.value("x", "float16", [1, 4, 6, 5])], [models.value("y", "float16", [1, 8, 6, 5])]
    model = models.save(tmp_path / "m.onnx", nodes, *ports, {"w": of_conv})
    samples = [{"x": np.random.default_rng(i).normal(size=(1, 4, 6, 5)).astype(np.float16)} for i in range(3)]
    lowtide.calibrate(model, tmp_path / "r.json", samples=samples, choose="none")
    done = lowtide.convert(model, tmp_path / "m.tflite", quantize="int8", ranges=tmp_path / "r.json")
    assert "CONV_2D" not in {island["operator"] for island in done.report["integers"]["float_islands"]}
    assert lowtide.verify(model, done.output, inputs=samples, min_snr=28).passed


def test_saturated_masks_are_not_compared(tmp_path):
    nodes, tensors = attention("add", -1e4)
    samples = [np.random.default_rng(i).normal(size=(1, 7, 16)).astype(np.float32) for i in range(4)]
    model, done = converted_net(tmp_path, nodes, tensors, ([1, 7, 16], [1, 7, 16]), "int8", samples)
    with lowtide.Runner(done.output) as runner:
        assert "a/limited" in runner.tensors and "a" not in runner.tensors
    found = lowtide.verify(model, done.output, inputs=[{"x": x} for x in samples], by_op=True, min_snr=18)
    assert found.passed, found.first_difference


@pytest.mark.parametrize("kernels", ["xnnpack", "builtin", "reference"])
def test_long_sums_of_sixteen_bits_without_a_bias(tmp_path, kernels):
    """4096 products of positive numbers take more than 32 bits."""
    samples = [np.abs(np.random.default_rng(i).normal(1, 0.3, (2, 4096))).astype(np.float32) for i in range(4)]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    tensors = {"w": np.abs(RNG.normal(1, 0.3, (4096, 3))).astype(np.float32)}
    model, done = converted_net(tmp_path, nodes, tensors, ([2, 4096], [2, 3]), "int16x8", samples)
    assert done.report["integers"]["float_islands"] == []
    assert noise(model, done.output, kernels, samples[0]) > 35


def test_a_mean_in_two_steps_is_computed_in_integers(tmp_path):
    """A long mean of floats is a mean of means, of which the inner one has no name in ONNX."""
    samples = [np.random.default_rng(i).normal(1, 1, (1, 3, 300, 301)).astype(np.float32) for i in range(3)]
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("GlobalAveragePool", ["c"], ["y"])]
    shapes = [1, 3, 300, 301], [1, 5, 1, 1]
    model, done = converted_net(tmp_path, nodes, {"w": weights(5, 3, 1, 1)}, shapes, "int8", samples)
    assert done.report["integers"]["float_islands"] == []
    assert noise(model, done.output, "xnnpack", samples[0]) > 15


def test_what_stays_float_has_its_floats(calibrated, tmp_path):
    model, ranges = calibrated
    done = lowtide.convert(model, tmp_path / "m.tflite", quantize="int8", ranges=ranges, keep_float=["conv4", "c3"])
    islands = {island["node"]: island["reason"] for island in done.report["integers"]["float_islands"]}
    assert islands == {"conv4": "--keep-float names it", "conv3": "--keep-float names it"}
    assert snr(model, done.output, "xnnpack") > 24
    everything = lowtide.convert(model, tmp_path / "f.tflite", quantize="int8", ranges=ranges, keep_float="*")
    assert snr(model, everything.output, "xnnpack") > 100


def test_integers_at_the_border(calibrated, tmp_path):
    model, ranges = calibrated
    done = lowtide.convert(
        model, tmp_path / "m.tflite", quantize="int8", ranges=ranges, range="minmax", io="int8", require_integer=True
    )
    with lowtide.Runner(done.output) as runner, lowtide.Runner(model) as reference:
        ports = [*runner.inputs.values(), *runner.outputs.values()]
        assert [port.dtype for port in ports] == [np.int8] * 3
        x = sample(100)["x"]
        # Softmax has the scale 1/256; that of the input is told by the largest value of the samples.
        scale = (max(sample(i)["x"].max() for i in range(6)) - min(sample(i)["x"].min() for i in range(6))) / 255
        zero = np.round(-128 - min(sample(i)["x"].min() for i in range(6)) / scale)
        y = runner.run({"x": np.clip(np.round(x / scale) + zero, -128, 127).astype(np.int8)})["y"]
        assert np.abs((y.astype(np.int32) + 128) / 256 - reference.run({"x": x})["y"]).max() < 0.05


def test_a_tensor_that_no_sample_reached(tmp_path):
    model = net(tmp_path / "m.onnx")
    nothing = {"x": np.full((1, 3, 12, 24), np.nan, np.float32)}
    lowtide.calibrate(model, tmp_path / "r.json", samples=[nothing])
    with pytest.raises(lowtide.Malformed, match="the tensor 'x' had no finite value in any sample"):
        lowtide.convert(model, tmp_path / "m.tflite", quantize="int8", ranges=tmp_path / "r.json")
    assert not (tmp_path / "m.tflite").exists()


def test_channels_near_the_largest_float(between_convolutions, tmp_path):
    """Factors would make some infinite, so the pair stays as it is."""
    model, ranges, name = between_convolutions
    content = json.loads(ranges.read_text())
    tensor, largest = content["tensors"][name], float(np.finfo(np.float32).max)
    tensor.update(channel_max=[largest] * len(tensor["channel_max"]), max=largest)

    def converted(equalize):
        given = {"quantize": "int8", "ranges": tmp_path / "r.json", "range": "minmax", "equalize": equalize}
        return lowtide.convert(model, tmp_path / "m.tflite", **given).output.read_bytes()

    (tmp_path / "r.json").write_text(ranges.read_text())
    assert converted("channels") != converted("none")
    (tmp_path / "r.json").write_text(json.dumps(content))
    assert converted("channels") == converted("none")


def test_more_channels_than_a_list_of_biases_has(tmp_path):
    model = models.save(
        tmp_path / "m.onnx",
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [models.value("x", "float32", [2, 3])],
        [models.value("y", "float32", [2, 70000])],
        {"w": weights(3, 70000)},
    )
    samples = [{"x": np.random.default_rng(i).normal(1, 1, (2, 3)).astype(np.float32)} for i in range(4)]
    lowtide.calibrate(model, tmp_path / "r.json", samples=samples)
    for per_tensor in (False, True):
        done = lowtide.convert(
            model, tmp_path / "m.tflite", quantize="int8", ranges=tmp_path / "r.json", per_tensor=per_tensor
        )
        assert done.report["integers"]["float_islands"] == []


def changed(change):
    """A wrong file: the right one after `change`, or the text that it returns."""

    def write(path, content):
        content = json.loads(json.dumps(content))
        text = change(content)
        path.write_text(text if isinstance(text, str) else json.dumps(content))

    return write


def in_tensor(**fields):
    return changed(lambda c: c["tensors"]["r1"].update(fields))


def in_histogram(**fields):
    return changed(lambda c: c["tensors"]["r1"]["histogram"].update(fields))


HOSTILE = {
    "empty": (changed(lambda c: " "), "it is not JSON"),
    "cut": (changed(lambda c: json.dumps(c)[:-30]), "it is not JSON"),
    "list": (changed(lambda c: "[1]"), "it is no file of lowtide calibrate"),
    "format": (changed(lambda c: c.update(format="x")), "format: 'x' is not lowtide-ranges"),
    "version": (changed(lambda c: c.update(version=2)), "version 2 of the format, and this program knows 1"),
    "no version": (changed(lambda c: c.pop("version") and None), "'version' is missing"),
    "another model": (changed(lambda c: c.update(graph="0123456789abcdef")), "those of another model"),
    "digest": (changed(lambda c: c.update(graph="xyz")), "'xyz' is no digest"),
    "unknown key": (changed(lambda c: c.update(sample=1)), "'sample' is not known; did you mean 'samples'"),
    "unknown tensor": (
        changed(lambda c: c["tensors"].update(r11=c["tensors"]["r1"])),
        "the model computes no tensor 'r11'; did you mean 'r1'",
    ),
    "unknown unseen": (changed(lambda c: c["unseen"].append("nobody")), "the model computes no tensor 'nobody'"),
    "missing tensor": (changed(lambda c: c["tensors"].pop("r1") and None), "the tensor 'r1' has no range"),
    "least above largest": (in_tensor(min=5.5, max=2), "tensor 'r1': its least value 5.5 is above its largest, 2"),
    "NaN": (in_tensor(min=float("nan")), "tensor 'r1': min: it is not JSON"),
    "infinity": (changed(lambda c: json.dumps(c).replace('"max": ', '"max": 1e999, "max": ', 1)), "too large"),
    "inner value": (in_tensor(inner_min=-64.5), "tensor 'r1': its inner value -64.5 is not between"),
    "beyond f32": (in_tensor(max=1e300), r"tensor 'r1': max: 1e\+?300 is no number of f32"),
    "text": (in_tensor(max="1"), "tensor 'r1': max: the text '1' is not what stands here"),
    "null": (in_tensor(max=None), "tensor 'r1': max: null is not what stands here"),
    "deep": (in_tensor(histogram=[[[[]]]]), "tensor 'r1': histogram: a list is not what stands here"),
    "key of a tensor": (in_tensor(mean=1), "tensor 'r1': 'mean' is not known"),
    "width": (in_histogram(width=0), "tensor 'r1': histogram.width: 0 is not above 0"),
    "negative count": (in_histogram(counts=[3, -1]), "tensor 'r1': histogram.counts: -1 is no count"),
    "no counts": (in_histogram(counts=[0]), "tensor 'r1': histogram.counts: there is no value in any bin"),
    "many bins": (in_histogram(counts=[1] * 2049), "tensor 'r1': histogram: it has more than 2048 bins"),
    "many values": (in_histogram(counts=[1 << 50]), "tensor 'r1': histogram.counts: .* values of 13824 elements"),
    "overflow": (in_histogram(counts=[(1 << 64) - 1]), "values are too many"),
    "means": (in_tensor(channel_mean=[1.0], channel_axis=-1), "tensor 'r1': channel_axis: -1 is no count"),
    "channels": (
        changed(lambda c: c["tensors"]["r1"].pop("channel_min") and None),
        "tensor 'r1': 'channel_min' and 'channel_max' go together",
    ),
    "shifts": (
        in_tensor(channel_shift=[0.5]),
        "tensor 'r1': channel_shift: 1 channels, and 8 in another list",
    ),
    "few channels": (in_tensor(channel_mean=[1.0]), "tensor 'r1': channel_mean: 1 channels, and 8 in another list"),
    "channel ranges": (in_tensor(channel_min=[99.0] * 8), "tensor 'r1': channel_min: 99 is above the largest"),
    "twice": (
        changed(lambda c: json.dumps(c).replace('"min": ', '"min": 0, "min": ', 1)),
        "'min' is given twice",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_wrong_ranges_files(calibrated, tmp_path, name):
    model, ranges = calibrated
    write, words = HOSTILE[name]
    write(tmp_path / "wrong.json", json.loads(ranges.read_text()))
    with pytest.raises(lowtide.Malformed, match=words) as caught:
        lowtide.convert(model, tmp_path / "m.tflite", quantize="int8", ranges=tmp_path / "wrong.json")
    assert caught.value.file == str(tmp_path / "wrong.json") and "\n" not in str(caught.value).strip()
    assert not (tmp_path / "m.tflite").exists()


@pytest.mark.parametrize(
    "options, words",
    [
        ({"quantize": "int8"}, "--quantize int8 needs --ranges FILE"),
        ({"ranges": "r.json"}, "--ranges needs --quantize"),
        ({"range": "mse"}, "--range needs --quantize"),
        ({"correct": "means"}, "--correct needs --quantize"),
        ({"equalize": "none"}, "--equalize needs --quantize"),
        ({"quantize": "int8", "ranges": "r.json", "correct": "all"}, "'all' is not one of means, layers, none"),
        ({"quantize": "int9"}, "'int9' is not one of int8, int16x8"),
        ({"quantize": "int8", "ranges": "r.json", "range": "percentile:3"}, "--range: 'percentile:3' is none of mse"),
        ({"quantize": "int8", "ranges": "r.json", "weights": "int8"}, "--quantize and --weights int8 exclude"),
        ({"quantize": "int8", "ranges": "r.json", "const": {"x": 1}}, "--quantize and --const exclude"),
        (
            {"quantize": "int8", "ranges": "RIGHT", "correct": "layers"},
            "has a 'channel_shift'; calibrate with --correct-la",
        ),
        ({"quantize": "int8", "ranges": "RIGHT", "keep_float": "nobody"}, "--keep-float 'nobody' matches no node"),
    ],
)
def test_options_that_do_not_fit(calibrated, tmp_path, options, words):
    model, ranges = calibrated
    if options.get("ranges") == "RIGHT":
        options = {**options, "ranges": ranges}
    with pytest.raises(lowtide.Usage, match=words):
        lowtide.convert(model, tmp_path / "m.tflite", **options)
    assert not (tmp_path / "m.tflite").exists()
