# SPDX-License-Identifier: Apache-2.0
"""Custom operators of TFLite models. MediaPipe's are judged by numpy, which computes what MediaPipe's sources say; others
stay nodes of a domain of their own, with their options as attributes."""

import numpy as np
import onnx
import pytest
from flatbuffers import flexbuffers
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from tests.raised.judge_raised import MODELS, raised, run_onnx
from tests.raised.tflite_models import Model
from tests.support import converter

SAME, VALID = 1, 2
NONE, RELU, RELU6 = 0, 1, 3


def random(*shape, seed=7):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def fields(*values):
    return np.asarray(values, np.int32).tobytes()


def transposed_convolution(x, weights, bias, padding, stride):
    """Each element of the data adds the weights to the part of the result that it stands for."""
    pads = [0, 0]
    if padding == SAME:
        pads = [max(0, weights.shape[i + 1] - (x.shape[i + 1] - 1) % stride[i] - 1) for i in range(2)]
    size = [stride[i] * (x.shape[i + 1] - 1) + weights.shape[i + 1] - pads[i] for i in range(2)]
    out = np.tile(bias, (x.shape[0], *size, 1)).astype(np.float64)
    for n, i, j, a, b in np.ndindex(*x.shape[:3], *weights.shape[1:3]):
        y, z = i * stride[0] - pads[0] // 2 + a, j * stride[1] - pads[1] // 2 + b
        if 0 <= y < size[0] and 0 <= z < size[1]:
            out[n, y, z] += weights[:, a, b] @ x[n, i, j]
    return out


@pytest.mark.parametrize("padding", [SAME, VALID])
@pytest.mark.parametrize("stride", [(2, 3), (1, 2), (4, 1)])
@pytest.mark.parametrize("kernel", [(3, 2), (2, 5)])
def test_transposed_convolution_with_bias(padding, stride, kernel, tmp_path):
    weights, bias, x = random(6, *kernel, 3), random(6, seed=8), random(2, 4, 5, 3, seed=9)
    m = Model()
    inputs = [m.input(x.shape), m.constant(weights), m.constant(bias)]
    outputs = m.custom("Convolution2DTransposeBias", inputs, [()], fields(padding, stride[1], stride[0]))
    m.write(tmp_path / "m.tflite", outputs)
    raised(tmp_path / "m.tflite")
    (made,) = run_onnx(tmp_path / "m.onnx", ["x0"], [x]).values()
    wanted = transposed_convolution(x, weights, bias, padding, stride)
    assert made.shape == wanted.shape and np.allclose(made, wanted, atol=1e-5)


def pooled(x, padding, stride, kernel):
    n, height, width, channels = x.shape
    if padding == SAME:
        size = [-(-height // stride[0]), -(-width // stride[1])]
    else:
        size = [(height - kernel[0]) // stride[0] + 1, (width - kernel[1]) // stride[1] + 1]
    before = [max(0, (size[i] - 1) * stride[i] + kernel[i] - x.shape[i + 1]) // 2 for i in range(2)]
    most, places = np.zeros((n, *size, channels), np.float32), np.zeros((n, *size, channels), np.float32)
    for at in np.ndindex(*most.shape):
        best = np.float32(-np.inf)
        for a, b in np.ndindex(*kernel):
            y, z = at[1] * stride[0] - before[0] + a, at[2] * stride[1] - before[1] + b
            if 0 <= y < height and 0 <= z < width and x[at[0], y, z, at[3]] > best:
                best = x[at[0], y, z, at[3]]
                places[at] = np.float32(a * kernel[1] + b) + np.float32(0.1)
        most[at] = best
    return most, places


@pytest.mark.parametrize("padding", [SAME, VALID])
@pytest.mark.parametrize(("stride", "kernel"), [((2, 2), (2, 2)), ((2, 3), (3, 4)), ((1, 2), (4, 3))])
def test_pool_with_places(padding, stride, kernel, tmp_path):
    x = np.round(random(2, 7, 9, 5))  # with ties
    m = Model()
    options = fields(padding, stride[1], stride[0], kernel[1], kernel[0], RELU6, 0, 0, 0, 0)
    m.write(tmp_path / "m.tflite", m.custom("MaxPoolingWithArgmax2D", [m.input(x.shape)], [(), ()], options))
    raised(tmp_path / "m.tflite")
    made = list(run_onnx(tmp_path / "m.onnx", ["x0"], [x]).values())
    most, places = pooled(x, padding, stride, kernel)
    assert np.array_equal(made[0], np.clip(most, 0, 6)) and np.array_equal(made[1], places)


def test_unpooling(tmp_path):
    x, kernel = random(2, 6, 12, 5), (2, 3)
    m = Model()
    options = fields(SAME, kernel[1], kernel[0], kernel[1], kernel[0], NONE)
    most, places = m.custom("MaxPoolingWithArgmax2D", [m.input(x.shape)], [(), ()], options)
    (whole,) = m.custom("MaxUnpooling2D", [most, places], [()], options)
    m.write(tmp_path / "m.tflite", [whole])
    model = raised(tmp_path / "m.tflite")
    assert [node.op_type for node in model.graph.node].count("Transpose") == 2
    (made,) = run_onnx(tmp_path / "m.onnx", ["x0"], [x]).values()
    most, places = pooled(x, SAME, kernel, kernel)
    wanted = np.zeros_like(x)
    for n, i, j, c in np.ndindex(*most.shape):
        place = int(places[n, i, j, c])
        wanted[n, i * kernel[0] + place // kernel[1], j * kernel[1] + place % kernel[1], c] = most[n, i, j, c]
    assert np.array_equal(made, wanted)


def test_unpooling_of_windows_that_overlap(tmp_path):
    m = Model()
    inputs = [m.input((1, 3, 4, 5)), m.input((1, 3, 4, 5))]
    m.write(tmp_path / "m.tflite", m.custom("MaxUnpooling2D", inputs, [()], fields(SAME, 1, 2, 3, 2, NONE)))
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode == 8 and "windows of 2 x 3 at steps of 2 x 1 overlap" in done.stderr, done.stderr


def test_pool_of_very_many_places(tmp_path):
    m = Model()
    options = fields(VALID, 1, 1, 1, 1, NONE, 0, 0, 0, 0)
    m.write(tmp_path / "m.tflite", m.custom("MaxPoolingWithArgmax2D", [m.input((1, 2, 1 << 21, 1))], [(), ()], options))
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode == 8 and "places along an axis, more than" in done.stderr, done.stderr


# ---- operators that ONNX does not have ----

OPTIONS = {
    "flag": True,
    "count": -3,
    "factor": 2.5,
    "name": "ä",
    "sizes": [3, 4],
    "rates": [0.5, 2.0],
    "all": ["a", "b"],
}


def with_unknown(path, options):
    m = Model()
    x = m.op("RELU", [m.input((2, 3, 5))], (2, 3, 5))
    (y,) = m.custom("Scaled", [x, m.constant(random(5))], [(2, 3, 5)], options)
    (z,) = m.custom("Other", [y, -1, x], [(4,)])
    m.write(path, [m.op("ABS", [z], (4,))])
    return path


def test_all_are_refused_at_once(tmp_path):
    done = converter.run("convert", with_unknown(tmp_path / "m.tflite", OPTIONS), "-o", tmp_path / "m.onnx")
    assert done.returncode == 8 and "2 nodes cannot be converted" in done.stderr and not (tmp_path / "m.onnx").exists()
    for place in ("1: t3, inputs 't1', 'c2'", "2: t4, inputs 't3', absent, 't1'"):
        assert place in done.stderr, done.stderr
    assert "--custom-ops allow" in done.stderr and "tflite.custom" in done.stderr


class Scaled(OpRun):
    op_domain = "tflite.custom"

    def _run(self, x, y, factor=None, **_):
        return (x * y * np.float32(factor),)


class Other(OpRun):
    op_domain = "tflite.custom"

    def _run(self, *inputs, **_):
        return (inputs[0].reshape(-1)[:4] - inputs[2].reshape(-1)[:4],)


def test_a_node_of_its_own_domain(tmp_path):
    model = raised(with_unknown(tmp_path / "m.tflite", OPTIONS), ["--custom-ops", "allow"])
    assert {o.domain: o.version for o in model.opset_import} == {"": 17, "tflite.custom": 1}
    scaled = next(node for node in model.graph.node if node.op_type == "Scaled")
    made = {a.name: onnx.helper.get_attribute_value(a) for a in scaled.attribute}
    texts = {"name": "ä".encode(), "all": [b"a", b"b"]}
    assert scaled.domain == "tflite.custom" and made == OPTIONS | {"flag": 1} | texts
    x = random(2, 3, 5)
    (got,) = ReferenceEvaluator(model, new_ops=[Scaled, Other]).run(None, {"x0": x})
    positive = np.maximum(x, 0)
    assert np.array_equal(got, np.abs((positive * random(5) * np.float32(2.5) - positive).reshape(-1)[:4]))


@pytest.mark.parametrize("options", [b"\1\2\3\4", {"inner": {"a": 1}}, {"exact": 0.1}])
def test_options_that_are_no_attributes_stay_bytes(options, tmp_path):
    model = raised(with_unknown(tmp_path / "m.tflite", options), ["--custom-ops", "allow"])
    (attribute,) = next(node for node in model.graph.node if node.op_type == "Scaled").attribute
    wanted = bytes(flexbuffers.Dumps(options)) if isinstance(options, dict) else options
    assert attribute.name == "custom_options" and attribute.s == wanted


def test_names_that_are_no_text_stay_bytes(tmp_path):
    data = bytes(flexbuffers.Dumps({"key": 1})).replace(b"key", b"k\xff\xfe")
    model = raised(with_unknown(tmp_path / "m.tflite", data), ["--custom-ops", "allow"])
    (attribute,) = next(node for node in model.graph.node if node.op_type == "Scaled").attribute
    assert attribute.name == "custom_options" and attribute.s == data


def test_complex_numbers_are_refused(tmp_path):
    m = Model()
    bins = m.op("RFFT2D", [m.input((4, 8)), m.constant([4, 8], "i32")], (4, 5), "c64")
    m.write(tmp_path / "m.tflite", m.custom("Scaled", [bins], [(4, 5)]))
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx", "--custom-ops", "allow")
    assert done.returncode == 8 and "Scaled of complex numbers" in done.stderr, done.stderr


def test_named_ones_only(tmp_path):
    path = with_unknown(tmp_path / "m.tflite", OPTIONS)
    done = converter.run("convert", path, "-o", tmp_path / "m.onnx", "--custom-ops", "allow=Scaled")
    assert done.returncode == 8 and "Other" in done.stderr and "Scaled" not in done.stderr
    raised(path, ["--custom-ops", "allow=Scaled,tflite.custom:Other"])
    done = converter.run("convert", path, "-o", tmp_path / "m.onnx", "--custom-ops", "allow=my.ops:Scaled")
    assert done.returncode == 2 and "no domain 'my.ops'" in done.stderr
    done = converter.run("convert", path, "-o", tmp_path / "m.onnx", "--custom-ops", "allow=Scaled,Other,Third")
    assert done.returncode == 0 and "no custom operator 'Third'" in done.stdout


def test_a_known_operator_stays_when_it_is_named(tmp_path):
    m = Model()
    options = fields(SAME, 3, 2, 3, 2, NONE)
    m.write(
        tmp_path / "m.tflite", m.custom("MaxPoolingWithArgmax2D", [m.input((1, 4, 6, 5))], [(1, 2, 2, 5)] * 2, options)
    )
    model = raised(tmp_path / "m.tflite", ["--custom-ops", "allow=MaxPoolingWithArgmax2D"])
    (node,) = model.graph.node
    assert node.domain == "tflite.custom" and node.attribute[0].s == options


def test_posenet_with_its_decoder(tmp_path):
    source = MODELS / "coral__posenet_mobilenet_v1_075_353_481_16_quant_decoder.tflite"
    if not source.is_file():
        pytest.skip(f"{source} is absent")
    output = tmp_path / "m.onnx"
    done = converter.run("convert", source, "-o", output, "--custom-ops", "allow")
    assert done.returncode == 0, done.stderr
    onnx.checker.check_model(str(output), full_check=True)
    (node,) = [node for node in onnx.load(output).graph.node if node.domain]
    assert node.op_type == "PosenetDecoderOp" and len(node.output) == 4
