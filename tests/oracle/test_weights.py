# SPDX-License-Identifier: Apache-2.0
"""--weights f16, int8, int4: the bytes and scales in the file are those of a quantizer in numpy (stored_weights.py), and
LiteRT computes with them what ONNX Runtime computes with the weights that they stand for.

Kernels that take small weights quantize their data as they run, so there the answer is only near. How near follows from
the data: each is off by half a step at most, a step is its range by 255 (or its magnitude by 127), and a layer is linear:
so the layer with the magnitudes of its weights, run on half steps, gives the largest error.
"""

import dataclasses
import json
import re

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import converter, judge
from tests.support.case import Case
from tests.support.compare import RangeTolerance
from tests.support.inputs import random_inputs
from tests.support.stored_weights import operator_version, quantized, stored


@dataclasses.dataclass
class Weighted:
    """A model of one layer, and what is to become of its weights `w`."""

    case: Case
    user: str  # the operator that reads them in the file
    axis: int  # of ONNX's tensor: one scale for each of its indices
    order: tuple  # ONNX's axes as the file has them
    reading: str = "dequantize"  # or hybrid, lookup
    int4: bool = False
    version: tuple = ()  # of the operator, with int8 and int4 weights


X = "float[2,6,9,11] x"
LAYERS = [
    Weighted(
        Case("weights/conv", X, "y = Conv<pads=[1,2,0,1],strides=[2,1]>(x, w, b)", {"w": (16, 6, 3, 4), "b": (16,)}),
        "CONV_2D",
        0,
        (0, 2, 3, 1),
        "hybrid",
        version=(5, 5),
    ),
    Weighted(
        Case("weights/conv_same_dilated", X, "y = Conv<pads=[2,3,2,3],dilations=[2,2]>(x, w)", {"w": (14, 6, 3, 5)}),
        "CONV_2D",
        0,
        (0, 2, 3, 1),
        "hybrid",
    ),
    Weighted(
        Case(
            "weights/conv_grouped", "float[2,12,9,11] x", "y = Conv<group=3>(x, w, b)", {"w": (21, 4, 3, 5), "b": (21,)}
        ),
        "CONV_2D",
        0,
        (0, 2, 3, 1),
        "hybrid",
        version=(6, 6),
    ),
    Weighted(
        Case("weights/conv_pointwise", "float[2,36,5,7] x", "y = Conv(x, w)", {"w": (40, 36, 1, 1)}),
        "CONV_2D",
        0,
        (0, 2, 3, 1),
        "hybrid",
    ),
    Weighted(
        Case("weights/conv_one_output", "float[2,90,5,7] x", "y = Conv(x, w)", {"w": (1, 90, 3, 4)}),
        "CONV_2D",
        0,
        (0, 2, 3, 1),
        "hybrid",
        version=(2, 2),
    ),
    Weighted(
        Case("weights/conv_1d", "float[2,36,9] x", "y = Conv(x, w)", {"w": (14, 36, 3)}), "CONV_2D", 0, None, "hybrid"
    ),
    Weighted(
        Case(
            "weights/depthwise", "float[2,40,9,11] x", "y = Conv<group=40>(x, w, b)", {"w": (80, 1, 3, 5), "b": (80,)}
        ),
        "DEPTHWISE_CONV_2D",
        0,
        (1, 2, 3, 0),
    ),
    Weighted(
        Case("weights/gemm", "float[3,40] x", "y = Gemm<transB=1>(x, w, b)", {"w": (34, 40), "b": (34,)}),
        "FULLY_CONNECTED",
        0,
        (0, 1),
        "hybrid",
        True,
        (12, 12),
    ),
    Weighted(
        Case("weights/matmul", "float[2,3,40] x", "y = MatMul(x, w)", {"w": (40, 34)}),
        "FULLY_CONNECTED",
        1,
        (1, 0),
        "hybrid",
        True,
    ),
    Weighted(
        Case("weights/matmul_odd", "float[2,3,41] x", "y = MatMul(x, w)", {"w": (41, 34)}),
        "FULLY_CONNECTED",
        1,
        (1, 0),
        "hybrid",
    ),
    Weighted(
        Case("weights/matmul_batch", "float[3,7,20] x", "y = MatMul(x, w)", {"w": (3, 20, 24)}),
        "BATCH_MATMUL",
        2,
        (0, 1, 2),
    ),
    Weighted(
        Case("weights/matmul_left", "float[3,20,7] x", "y = MatMul(w, x)", {"w": (3, 24, 20)}),
        "BATCH_MATMUL",
        1,
        (0, 1, 2),
    ),
    Weighted(
        Case(
            "weights/conv_transpose",
            "float[2,10,5,7] x",
            "y = ConvTranspose<strides=[2,3]>(x, w)",
            {"w": (10, 12, 3, 4)},
        ),
        "TRANSPOSE_CONV",
        1,
        (1, 2, 3, 0),
    ),
    Weighted(
        Case("weights/conv_3d", "float[1,5,4,6,7] x", "y = Conv(x, w)", {"w": (8, 5, 3, 2, 5)}),
        "CONV_3D",
        0,
        (2, 3, 4, 1, 0),
    ),
    Weighted(
        Case("weights/conv_transpose_3d", "float[1,6,4,5,3] x", "y = ConvTranspose(x, w)", {"w": (6, 8, 2, 3, 5)}),
        "CONV_3D_TRANSPOSE",
        1,
        (2, 3, 4, 1, 0),
    ),
    Weighted(
        Case("weights/embedding", "int64[2,3] x", "y = Gather(w, x)", {"w": (60, 22)}, ranges={"x": (0, 60)}),
        "EMBEDDING_LOOKUP",
        0,
        (0, 1),
        "lookup",
        True,
        (4, 4),
    ),
    Weighted(
        Case(
            "weights/embedding_dynamic",
            "int64[A,B] x",
            "y = Gather(w, x)",
            {"w": (60, 4, 6)},
            ranges={"x": (-60, 60)},
            outputs="float[A,B,4,6] y",
            shapes={"x": (2, 3)},
        ),
        "EMBEDDING_LOOKUP",
        0,
        (0, 1, 2),
        "lookup",
        True,
    ),
    Weighted(
        Case("weights/embedding_list", "int32[5] x", "y = Gather(w, x)", {"w": (60, 23)}, ranges={"x": (0, 60)}),
        "EMBEDDING_LOOKUP",
        0,
        (0, 1),
        "lookup",
    ),
]


def with_weights(model, weights):
    """The model with other values of its initializers."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    for initializer in copy.graph.initializer:
        if initializer.name in weights:
            initializer.CopyFrom(numpy_helper.from_array(weights[initializer.name], initializer.name))
    return copy.SerializeToString()


def initializers(model):
    return {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}


def converted(model, folder, *options):
    path = folder / "model.onnx"
    onnx.save(model, path)
    conversion = converter.convert(path, folder / "model.tflite", [*options, "--report", folder / "report.json"])
    assert conversion.status == "converted", conversion.reason
    return folder / "model.tflite", conversion


def error_bound(model, weights, arrays):
    """The largest error that quantized data can make, by element of the output."""
    data = arrays["x"].astype(np.float64)
    step = max((max(data.max(), 0) - min(data.min(), 0)) / 255, np.abs(data).max() / 127)
    half = {"x": np.full(data.shape, 0.51 * step, np.float32)}
    zeros = {name: np.zeros_like(value) for name, value in initializers(model).items()}
    return judge.reference(with_weights(model, {**zeros, "w": np.abs(weights)}), half)


class Bound:
    """compare()'s tolerance: the bound, and what floats are allowed on top."""

    def __init__(self, bound):
        self.bound = bound

    def allowed(self, expected, epsilon):
        allowed, spread = RangeTolerance().allowed(expected, epsilon)
        return allowed + self.bound, spread


def check_answer(model, tflite, arrays, weights, litert, hybrid=False):
    expected = judge.reference(with_weights(model, {"w": weights}), arrays)
    tolerance = Bound(error_bound(model, weights, arrays)["y"]) if hybrid else RangeTolerance()
    verdict = judge.judge_outputs(tflite, arrays, expected, tolerance, litert)
    assert verdict.passed, str(verdict)


@pytest.mark.parametrize("mode", ["int8", "int4"])
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.case.name)
def test_integers(layer, mode, tmp_path, litert, lowtide):
    model = layer.case.model()
    w = initializers(model)["w"]
    bits = 4 if mode == "int4" and layer.int4 else 8
    wanted = quantized(w, layer.axis, bits)
    tflite, _ = converted(model, tmp_path, "--weights", mode)

    found = [s for s in stored(tflite) if s.values.size == w.size]
    assert len(found) == 1, "the weights are stored once"
    weights = found[0]
    assert weights.dtype.name == f"int{bits}"
    order = layer.order or (0, 2, 1)
    values = wanted.values.transpose(order)
    assert np.array_equal(weights.values.reshape(values.shape), values)
    assert np.array_equal(weights.scales, wanted.scales)
    assert not weights.zeros.any() and len(weights.zeros) == len(wanted.scales)
    assert layer.order is None or weights.axis == order.index(layer.axis)
    assert [user for user, _ in weights.users] == ["DEQUANTIZE" if layer.reading == "dequantize" else layer.user]
    if layer.version:
        assert operator_version(tflite, layer.user) == {layer.version[bits == 4]}

    arrays = random_inputs(model, layer.case.shapes, layer.case.ranges)
    check_answer(model, tflite, arrays, wanted.floats(layer.axis), litert, layer.reading == "hybrid")


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.case.name)
def test_f16(layer, tmp_path, litert, lowtide):
    model = layer.case.model()
    w = initializers(model)["w"]
    tflite, _ = converted(model, tmp_path, "--weights", "f16")
    found = [s for s in stored(tflite) if s.values.size == w.size]
    assert len(found) == 1
    order = layer.order or (0, 2, 1)
    halves = w.astype(np.float16)
    assert found[0].dtype == np.float16
    assert np.array_equal(found[0].values.reshape(-1), halves.transpose(order).reshape(-1))
    assert [user for user, _ in found[0].users] == ["GATHER" if layer.reading == "lookup" else "DEQUANTIZE"]
    arrays = random_inputs(model, layer.case.shapes, layer.case.ranges)
    check_answer(model, tflite, arrays, halves.astype(np.float32), litert)


# ---- what stays ----


def kinds(tflite, elements):
    return sorted(s.dtype.name for s in stored(tflite) if s.values.size == elements)


@pytest.mark.parametrize("mode, other", [("f16", "float16"), ("int8", "int8"), ("int4", "int4")])
def test_small_weights_and_biases_stay(mode, other, tmp_path, lowtide):
    case = Case(
        "weights/small",
        "float[2,30] x",
        "a = Gemm(x, w, b) c = MatMul(a, v) y = MatMul(c, u)",
        {"w": (30, 1100), "b": (1100,), "v": (1100, 7), "u": (7, 146)},
    )
    tflite, _ = converted(case.model(), tmp_path, "--weights", mode)
    assert kinds(tflite, 33000) == kinds(tflite, 7700) == [other]
    assert kinds(tflite, 1100) == kinds(tflite, 1022) == ["float32"]


@pytest.mark.parametrize("mode, left", [("int8", "float32"), ("int4", "float32"), ("f16", "float16")])
def test_operands_that_are_not_weights(mode, left, tmp_path, litert, lowtide):
    """Integers are for weights of kernels; any operand may be halved."""
    case = Case("weights/added", "float[2,30,40] x", "y = Add(x, w)", {"w": (30, 40)})
    tflite, _ = converted(case.model(), tmp_path, "--weights", mode)
    assert kinds(tflite, 1200) == [left]
    w = initializers(case.model())["w"]
    check_answer(
        case.model(),
        tflite,
        random_inputs(case.model()),
        w.astype(np.float16).astype(np.float32) if left == "float16" else w,
        litert,
    )


@pytest.mark.parametrize("mode", ["f16", "int8", "int4"])
def test_an_output_stays_as_it_is(mode, tmp_path, litert, lowtide):
    case = Case(
        "weights/shown", "float[2,40] x", "y = Gemm<transB=1>(x, w) z = Identity(w)", {"w": (34, 40)}, outputs="y, z"
    )
    tflite, _ = converted(case.model(), tmp_path, "--weights", mode)
    assert kinds(tflite, 1360) == ["float32"]
    arrays = random_inputs(case.model())
    assert judge.judge_outputs(
        tflite, arrays, judge.reference(case.model().SerializeToString(), arrays), RangeTolerance(), litert
    ).passed


@pytest.mark.parametrize(
    "value, modes", [(np.nan, ("f16", "int8", "int4")), (-np.inf, ("f16", "int8", "int4")), (-70000.0, ("f16",))]
)
def test_what_cannot_be_stored_stays_and_says_so(value, modes, tmp_path, lowtide):
    w = np.random.default_rng(3).uniform(-1, 1, (34, 40)).astype(np.float32)
    w[30, 7] = value
    case = Case("weights/not_storable", "float[3,40] x", "y = Gemm<transB=1>(x, w)", {"w": w})
    for mode in modes:
        tflite, conversion = converted(case.model(), tmp_path, "--weights", mode)
        found = [s for s in stored(tflite) if s.values.size == w.size]
        assert [s.dtype.name for s in found] == ["float32"] and np.array_equal(found[0].values, w, equal_nan=True)
        assert (
            "'w' stays float: "
            + ("its largest magnitude is 70000" if value == -70000 else "it has infinite or NaN elements")
            in conversion.stdout
        )
        report = json.loads((tmp_path / "report.json").read_text())["weights"]
        assert report["form"] == mode and report["float"] == 1 and len(report["kept"]) == 1


def test_small_weights_stay_where_f16_has_few_digits(tmp_path, litert, lowtide):
    numbers = np.random.default_rng(5).uniform(-1, 1, (34, 40)).astype(np.float32)
    numbers[3, 7] = 1
    for name, largest, dtype in (("tiny", 1e-7, "float32"), ("below", 4.8e-4, "float32"), ("above", 4.9e-4, "float16")):
        case = Case("weights/small", "float[3,40] x", "y = Gemm<transB=1>(x, w)", {"w": numbers * np.float32(largest)})
        tflite, conversion = converted(case.model(), tmp_path, "--weights", "f16")
        assert kinds(tflite, numbers.size) == [dtype], name
        says = (
            f"'w' stays float: its largest magnitude is {largest:.6g}, and below 0.000488281 f16 keeps too few digits"
        )
        assert (says in conversion.stdout) == (dtype == "float32"), conversion.stdout
        arrays = random_inputs(case.model())
        expected = judge.reference(case.model().SerializeToString(), arrays)
        tolerance = RangeTolerance(1e-3 if dtype == "float16" else 1e-4)
        assert judge.judge_outputs(tflite, arrays, expected, tolerance, litert).passed, name


def test_channels_of_zeros_and_of_tiny_values(tmp_path, litert, lowtide):
    w = np.random.default_rng(4).uniform(-1, 1, (34, 40)).astype(np.float32)
    w[5] = 0
    w[6] = 1e-39
    w[7] = np.float32(3e38)
    case = Case("weights/channels", "float[3,40] x", "y = Gemm<transB=1>(x, w)", {"w": w}, ranges={"x": (-1e-3, 1e-3)})
    for mode, bits in (("int8", 8), ("int4", 4)):
        tflite, _ = converted(case.model(), tmp_path, "--weights", mode)
        found = [s for s in stored(tflite) if s.values.size == w.size][0]
        wanted = quantized(w, 0, bits)
        assert np.array_equal(found.values, wanted.values) and np.array_equal(found.scales, wanted.scales)
        assert found.scales[5] == found.scales[6] == 1
        arrays = random_inputs(case.model(), ranges={"x": (-1e-3, 1e-3)})
        check_answer(case.model(), tflite, arrays, wanted.floats(0), litert, True)


def test_a_grouped_convolution_of_one_scale_is_read_as_floats(tmp_path, litert, lowtide):
    w = np.random.default_rng(5).integers(-126, 127, (21, 4, 3, 5)).astype(np.float32)
    w[:, 1, 2, 3] = 127
    case = Case("weights/one_scale", "float[2,12,9,11] x", "y = Conv<group=3>(x, w)", {"w": w})
    tflite, _ = converted(case.model(), tmp_path, "--weights", "int8")
    found = [s for s in stored(tflite) if s.values.size == w.size][0]
    assert found.dtype == np.int8 and found.users == [("DEQUANTIZE", 0)]
    check_answer(case.model(), tflite, random_inputs(case.model()), w, litert)


def test_f16_weights_of_a_half_precision_model_keep_their_bytes(tmp_path, litert, lowtide):
    w = np.random.default_rng(6).uniform(-1, 1, (40, 34)).astype(np.float16)
    w.view(np.uint16)[3, 4:7] = 0x7C01, 0xFE37, 0x7C00  # NaNs with a payload, an infinity: nothing is computed
    case = Case("weights/half_model", "float16[2,3,40] x", "y = MatMul(x, w)", {"w": w})
    for options in ([], ["--weights", "stored"], ["--weights", "f16"]):
        tflite, conversion = converted(case.model(), tmp_path, *options)
        found = [s for s in stored(tflite) if s.values.size == w.size][0]
        assert np.array_equal(found.values.view(np.uint16), w.T.view(np.uint16))
        assert "stays float" not in conversion.stdout


# ---- who shares, and in which graph ----


def test_tied_embeddings_are_stored_once(tmp_path, litert, lowtide):
    case = Case(
        "weights/tied",
        "int64[2,3] x",
        "e = Gather(w, x) t = Transpose<perm=[1,0]>(w) y = MatMul(e, t)",
        {"w": (60, 22)},
        ranges={"x": (0, 60)},
    )
    w = initializers(case.model())["w"]
    for mode, bits in (("int8", 8), ("int4", 4)):
        tflite, _ = converted(case.model(), tmp_path, "--weights", mode)
        found = [s for s in stored(tflite) if s.values.size == w.size]
        assert len(found) == 1
        assert sorted(found[0].users) == [("EMBEDDING_LOOKUP", 1), ("FULLY_CONNECTED", 1)]
        assert np.array_equal(found[0].values, quantized(w, 0, bits).values)


@pytest.mark.parametrize("mode, left", [("int8", "float32"), ("f16", "float16")])
def test_users_that_need_different_forms(mode, left, tmp_path, litert, lowtide):
    """The product reads the channels along one axis, the sum is no kernel for weights: integers would suit only one."""
    case = Case(
        "weights/disagree",
        "float[40,34] x",
        "s = Add(x, w) t = Transpose<perm=[1,0]>(s) y = MatMul(t, w)",
        {"w": (40, 34)},
    )
    tflite, _ = converted(case.model(), tmp_path, "--weights", mode)
    assert left in kinds(tflite, 1360)
    arrays = random_inputs(case.model())
    w = initializers(case.model())["w"]
    rounded = w.astype(np.float16).astype(np.float32) if mode == "f16" else w
    expected = judge.reference(with_weights(case.model(), {"w": rounded}), arrays)
    scale = np.abs(expected["y"]).max()
    verdict = judge.judge_outputs(tflite, arrays, expected, Bound(0.02 * scale if mode == "int8" else 0), litert)
    assert verdict.passed, str(verdict)


BRANCHES = """
  y = If (c) <
    then_branch = g1 () => (float[3,34] a) { a = MatMul(x, w) },
    else_branch = g2 () => (float[3,34] b) { d = Neg(x) b = MatMul(d, v) }
  >
"""


@pytest.mark.parametrize("mode", ["f16", "int8", "int4"])
def test_branches(mode, tmp_path, litert, lowtide):
    case = Case(
        "weights/branches",
        "bool c, float[3,40] x",
        BRANCHES,
        {"w": (40, 34), "v": (40, 34)},
        opset=16,
        outputs="float[3,34] y",
    )
    model = case.model()
    tflite, _ = converted(model, tmp_path, "--weights", mode)
    wanted = {"f16": "float16"}.get(mode, mode)
    assert kinds(tflite, 1360) == [wanted, wanted]
    for c in (True, False):
        arrays = {**random_inputs(model), "c": np.array(c)}
        weights = initializers(model)
        read = {
            k: v.astype(np.float16).astype(np.float32) if mode == "f16" else quantized(v, 1, int(mode[3:])).floats(1)
            for k, v in weights.items()
        }
        expected = judge.reference(with_weights(model, read), arrays)
        step = 2 / 127 if mode != "f16" else 0
        bound = 0.51 * step * max(np.abs(v).sum(0).max() for v in read.values())
        verdict = judge.judge_outputs(tflite, arrays, expected, Bound(bound), litert)
        assert verdict.passed, str(verdict)


def test_lstm(tmp_path, litert, lowtide):
    body = "y, h, c = LSTM<hidden_size=18>(x, w, r, b)"
    case = Case(
        "weights/lstm", "float[5,2,20] x", body, {"w": (1, 72, 20), "r": (1, 72, 18), "b": (1, 144)}, outputs="y, h, c"
    )
    model = case.model()
    arrays = random_inputs(model)
    constants = initializers(model)
    for mode in ("int8", "f16"):
        tflite, _ = converted(model, tmp_path, "--weights", mode)
        read = {}
        for name in ("w", "r"):
            w = constants[name][0]
            found = [s for s in stored(tflite) if s.values.size == w.size]
            assert len(found) == 1
            if mode == "int8":
                wanted = quantized(w, 0, 8)
                # Gates may be put in another order.
                assert sorted(map(bytes, found[0].values)) == sorted(map(bytes, wanted.values))
                read[name] = wanted.floats(0)[None]
            else:
                assert found[0].dtype == np.float16
                read[name] = w.astype(np.float16).astype(np.float32)[None]
        expected = judge.reference(with_weights(model, read), arrays)
        # Data are off by a 255th of their range and go through five steps of saturating gates.
        verdict = judge.judge_outputs(
            tflite, arrays, expected, RangeTolerance(0.02 if mode == "int8" else 1e-4), litert
        )
        assert verdict.passed, str(verdict)


# ---- names ----


def named_model():
    graph = onnx.parser.parse_graph(
        "g (float[3,40] x) => (float[3,50] y) { a = MatMul(x, enc_w) m = Relu(a) y = MatMul(m, dec_w) }"
    )
    rng = np.random.default_rng(7)
    for name, shape in (("enc_w", (40, 34)), ("dec_w", (34, 50))):
        graph.initializer.append(numpy_helper.from_array(rng.uniform(-1, 1, shape).astype(np.float32), name))
    graph.node[0].name, graph.node[2].name = "/layers.0/first", "/layers.1/second"
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.parametrize(
    "options, first, second",
    [
        (["--weights-include", "enc_*"], "int8", "float32"),
        (["--weights-exclude", "enc_?"], "float32", "int8"),
        (["--weights-include", "/layers.*"], "int8", "int8"),
        (["--weights-include", "*second"], "float32", "int8"),
        (["--weights-include", "*_w", "--weights-exclude", "/layers.0/*"], "float32", "int8"),
        (["--weights-exclude", "enc_w", "--weights-exclude", "dec_w"], "float32", "float32"),
    ],
)
def test_names(options, first, second, tmp_path, lowtide):
    tflite, _ = converted(named_model(), tmp_path, "--weights", "int8", *options)
    assert kinds(tflite, 1360) == [first] and kinds(tflite, 1700) == [second]


def test_parts_have_the_name_of_the_whole(tmp_path, lowtide):
    case = Case(
        "weights/parts",
        "float[3,40] x",
        "p, q = Split<axis=0>(w) a = MatMul(x, p) b = MatMul(x, q) y = Add(a, b)",
        {"w": (80, 34)},
    )
    tflite, _ = converted(case.model(), tmp_path, "--weights", "int8", "--weights-exclude", "w")
    assert kinds(tflite, 1360) == ["float32", "float32"]


@pytest.mark.parametrize(
    "options, words",
    [
        (["--weights", "int8", "--weights-include", "encw"], "--weights-include 'encw' matches no weight"),
        (
            ["--weights", "f16", "--weights-exclude", "dec_w", "--weights-exclude", "x"],
            "--weights-exclude 'x' matches no weight",
        ),
        (["--weights-include", "enc_w"], "need --weights f16, int8 or int4"),
        (["--weights", "int3"], "int3"),
    ],
)
def test_mistakes_in_options(options, words, tmp_path, lowtide):
    path = tmp_path / "model.onnx"
    onnx.save(named_model(), path)
    conversion = converter.convert(path, tmp_path / "model.tflite", options)
    assert conversion.status == "refused" and conversion.exit_status == 2 and words in conversion.reason


# ---- with other options ----


@pytest.mark.parametrize("mode", ["f16", "int8", "int4"])
def test_the_bytes_do_not_depend_on_threads_or_memory(mode, tmp_path, lowtide):
    case = Case(
        "weights/same",
        "float[1,60,9,11] x",
        "c = Conv(x, w) f = Flatten(c) y = MatMul(f, v)",
        {"w": (300, 60, 3, 3), "v": (300 * 63, 130)},
    )
    files, values = [], []
    for options in (
        ["--threads", "1"],
        ["--threads", "5", "--max-rss", "64M"],
        ["--max-rss", "18M", "--external-buffers"],
    ):
        tflite, _ = converted(case.model(), tmp_path, "--weights", mode, *options)
        files.append(tflite.read_bytes())
        values.append({s.name: (s.values.tobytes(), s.scales.tobytes()) for s in stored(tflite)})
    assert files[0] == files[1] and values[0] == values[2]


def test_the_report_counts(tmp_path, lowtide):
    case = Case(
        "weights/counted",
        "int64[2,3] x",
        "e = Gather(w, x) a = MatMul(e, v) b = MatMul(a, k) s = ReduceSum(b) y = Add(s, u)",
        {"w": (60, 23), "v": (23, 46), "k": (46, 30), "u": (40, 3, 30)},
        ranges={"x": (0, 60)},
    )
    _, conversion = converted(case.model(), tmp_path, "--weights", "int4")
    assert re.search(r"weights of 1024 elements or more: 1 int4, 2 int8, 1 float", conversion.stdout)
    report = json.loads((tmp_path / "report.json").read_text())["weights"]
    assert {k: report[k] for k in ("form", "int4", "int8", "f16", "float")} == {
        "form": "int4",
        "int4": 1,
        "int8": 2,
        "f16": 0,
        "float": 1,
    }
