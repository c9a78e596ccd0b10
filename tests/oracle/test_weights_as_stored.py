# SPDX-License-Identifier: Apache-2.0
"""The default of --weights: weights that the ONNX model stores in f16 stay f16, bit for bit, and LiteRT computes the very
same numbers with them as with --weights float."""

import json

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import converter, judge
from tests.support.case import Case
from tests.support.compare import RangeTolerance
from tests.support.inputs import random_inputs
from tests.support.stored_weights import stored

RNG = np.random.default_rng(11)
CAST = "Cast<to=1>"


def halves(*shape):
    """Small multiples of 1/64, and some of the smallest and largest f16 numbers."""
    w = (RNG.integers(-64, 64, shape) / 64).astype(np.float16)
    w.reshape(-1)[:4] = 6e-8, -6.1e-5, 0.0, -0.0
    return w


# A model, the shape of its weights in the file, and who reads them there. Each weight is f16 and cast to f32.
LAYERS = [
    (
        Case(
            "stored/conv",
            "float[2,6,9,11] x",
            f"f = {CAST}(w) y = Conv<pads=[1,2,0,1],strides=[2,1]>(x, f)",
            {"w": halves(16, 6, 3, 4)},
        ),
        (0, 2, 3, 1),
        "DEQUANTIZE",
    ),
    (
        Case(
            "stored/conv_bias",
            "float[2,6,9,11] x",
            f"f = {CAST}(w) c = Conv(x, f, b) y = Relu(c)",
            {"w": halves(16, 6, 3, 4), "b": (16,)},
        ),
        (0, 2, 3, 1),
        "DEQUANTIZE",
    ),
    (
        Case(
            "stored/conv_grouped",
            "float[2,12,9,11] x",
            f"f = {CAST}(w) y = Conv<group=3>(x, f)",
            {"w": halves(21, 4, 3, 5)},
        ),
        (0, 2, 3, 1),
        "DEQUANTIZE",
    ),
    (
        Case(
            "stored/depthwise",
            "float[2,40,9,11] x",
            f"f = {CAST}(w) y = Conv<group=40>(x, f)",
            {"w": halves(80, 1, 3, 5)},
        ),
        (1, 2, 3, 0),
        "DEQUANTIZE",
    ),
    (
        Case(
            "stored/conv_transpose",
            "float[2,10,5,7] x",
            f"f = {CAST}(w) y = ConvTranspose<strides=[2,3]>(x, f)",
            {"w": halves(10, 12, 3, 4)},
        ),
        (1, 2, 3, 0),
        "DEQUANTIZE",
    ),
    (
        Case("stored/conv_3d", "float[1,5,4,6,7] x", f"f = {CAST}(w) y = Conv(x, f)", {"w": halves(8, 5, 3, 2, 5)}),
        (2, 3, 4, 1, 0),
        "DEQUANTIZE",
    ),
    (
        Case(
            "stored/gemm",
            "float[3,40] x",
            f"f = {CAST}(w) y = Gemm<transB=1>(x, f, b)",
            {"w": halves(34, 40), "b": (34,)},
        ),
        (0, 1),
        "DEQUANTIZE",
    ),
    (
        Case("stored/matmul", "float[2,3,40] x", f"f = {CAST}(w) y = MatMul(x, f)", {"w": halves(40, 34)}),
        (1, 0),
        "DEQUANTIZE",
    ),
    (
        Case("stored/matmul_batch", "float[3,7,20] x", f"f = {CAST}(w) y = MatMul(x, f)", {"w": halves(3, 20, 24)}),
        (0, 1, 2),
        "DEQUANTIZE",
    ),
    (
        Case("stored/added", "float[2,30,40] x", f"f = {CAST}(w) y = Add(x, f)", {"w": halves(30, 40)}),
        (0, 1),
        "DEQUANTIZE",
    ),
    (
        Case(
            "stored/gather",
            "int64[2,3] x",
            f"f = {CAST}(w) y = Gather(f, x)",
            {"w": halves(60, 22)},
            ranges={"x": (0, 60)},
        ),
        (0, 1),
        "GATHER",
    ),
    (
        Case(
            "stored/transposed",
            "float[3,40] x",
            f"f = {CAST}(w) t = Transpose<perm=[1,0]>(f) y = MatMul(x, t)",
            {"w": halves(34, 40)},
        ),
        (0, 1),
        "DEQUANTIZE",
    ),
]


def converted(model, folder, *options, name="model"):
    path = folder / "model.onnx"
    onnx.save(model, path)
    conversion = converter.convert(path, folder / f"{name}.tflite", [*options, "--report", folder / "report.json"])
    assert conversion.status == "converted", conversion.reason
    return folder / f"{name}.tflite", conversion, json.loads((folder / "report.json").read_text())["weights"]


def check_same_numbers(model, folder, litert, arrays):
    """Both kinds of kernels give with the default file exactly what they give with the float file, which is right."""
    plain, *_ = converted(model, folder, "--weights", "float", name="float")
    kept, *_ = converted(model, folder)
    assert kept.stat().st_size < plain.stat().st_size
    for backend in judge.BACKENDS.values():
        expected, actual = litert.run(plain, arrays, backend), litert.run(kept, arrays, backend)
        for name, value in expected.items():
            assert value.tobytes() == actual[name].tobytes(), name
    verdict = judge.judge_outputs(
        kept, arrays, judge.reference(model.SerializeToString(), arrays), RangeTolerance(), litert
    )
    assert verdict.passed, str(verdict)


@pytest.mark.parametrize("case, order, user", LAYERS, ids=lambda v: v.name if isinstance(v, Case) else "")
def test_bits_and_numbers(case, order, user, tmp_path, litert, lowtide):
    w = case.weights["w"]
    tflite, conversion, report = converted(case.model(), tmp_path)
    found = [s for s in stored(tflite) if s.values.size == w.size]
    assert len(found) == 1 and found[0].dtype == np.float16
    assert np.array_equal(found[0].values.reshape(-1).view(np.uint16), w.transpose(order).reshape(-1).view(np.uint16))
    assert [name for name, _ in found[0].users] == [user]
    assert report["form"] == "stored" and report["f16_as_stored"] == report["f16"] == 1
    assert report["f16_bytes_saved"] == 2 * w.size and report["f16_widened"] == report["f16_bytes_added"] == 0
    assert "weights stored in f16 as in the model: 1 tensor" in conversion.stdout
    check_same_numbers(case.model(), tmp_path, litert, random_inputs(case.model(), case.shapes, case.ranges))


@pytest.mark.parametrize(
    "body, elements",
    [
        (f"f = {CAST}(w) p, q = Split<axis=0>(f) a = MatMul(x, p) b = MatMul(x, q) y = Add(a, b)", [1360, 1360]),
        (f"f = {CAST}(w) c = Concat<axis=1>(f, f) y = MatMul(z, c)", [5440]),
    ],
    ids=["split", "concat"],
)
def test_parts_and_joins(body, elements, tmp_path, litert, lowtide):
    case = Case("stored/parts", "float[3,40] x, float[3,80] z", body, {"w": halves(80, 34)})
    tflite, _, report = converted(case.model(), tmp_path)
    assert sorted(s.values.size for s in stored(tflite) if s.dtype == np.float16) == elements
    assert report["f16_widened"] == 0
    check_same_numbers(case.model(), tmp_path, litert, random_inputs(case.model()))


NORMALISED = f"f = {CAST}(w) c = Conv(x, f) y = BatchNormalization(c, s, b, m, v)"


def test_what_arithmetic_changes_is_f32(tmp_path, litert, lowtide):
    """The fusion is worth more than the bytes: one operator, with weights that no f16 holds."""
    case = Case(
        "stored/normalised",
        "float[2,6,9,11] x",
        NORMALISED,
        {"w": halves(16, 6, 3, 4), "s": (16,), "b": (16,), "m": (16,), "v": np.linspace(0.5, 2, 16, dtype=np.float32)},
    )
    model = case.model()
    tflite, conversion, report = converted(model, tmp_path)
    assert {s.dtype.name for s in stored(tflite)} == {"float32"}
    assert report["f16_as_stored"] == 0 and report["f16_widened"] == 1 and report["f16_bytes_added"] == 2 * 16 * 6 * 12
    assert "f16 weights of the model stored as f32: 1 tensor" in conversion.stdout
    plain, *_ = converted(model, tmp_path, "--weights", "float", name="float")
    assert plain.read_bytes() == tflite.read_bytes()
    arrays = random_inputs(model)
    verdict = judge.judge_outputs(
        tflite, arrays, judge.reference(model.SerializeToString(), arrays), RangeTolerance(), litert
    )
    assert verdict.passed, str(verdict)


@pytest.mark.parametrize("weights", [(40, 34), (31, 33)], ids=["f32", "small"])
def test_other_models_are_as_with_floats(weights, tmp_path, lowtide):
    """f32 weights, and f16 tensors of fewer than 1024 elements."""
    w = (RNG.integers(-64, 64, weights) / 64).astype(np.float16 if weights == (31, 33) else np.float32)
    case = Case("stored/others", f"float[3,{weights[0]}] x", f"f = {CAST}(w) y = MatMul(x, f)", {"w": w[:, :33]})
    kept, conversion, report = converted(case.model(), tmp_path)
    plain, *_ = converted(case.model(), tmp_path, "--weights", "float", name="float")
    assert kept.read_bytes() == plain.read_bytes() and "f16" not in conversion.stdout
    assert report["f16"] == report["f16_as_stored"] == 0


def test_a_half_precision_network(tmp_path, litert, lowtide):
    """Inputs, outputs and all weights in f16."""
    case = Case(
        "stored/network",
        "float16[1,6,9,11] x",
        "c = Conv<pads=[1,1,1,1]>(x, w, b) r = Relu(c) f = Flatten(r) y = MatMul(f, v)",
        {"w": halves(24, 6, 3, 3), "b": halves(24), "v": halves(24 * 99, 10)},
        tolerance=1e-2,
    )
    tflite, _, report = converted(case.model(), tmp_path)
    assert report["f16_as_stored"] == 2 and report["f16_widened"] == 0
    model, arrays = case.model(), random_inputs(case.model())
    plain, *_ = converted(model, tmp_path, "--weights", "float", name="float")
    for backend in judge.BACKENDS.values():
        assert litert.run(plain, arrays, backend)["y"].tobytes() == litert.run(tflite, arrays, backend)["y"].tobytes()


def test_branches_and_an_output(tmp_path, litert, lowtide):
    """Weights of branches stay f16; one that is an output too does not."""
    body = f"""f = {CAST}(w) z = {CAST}(u) y = If (c) <
        then_branch = g1 () => (float[3,34] a) {{ a = MatMul(x, f) }},
        else_branch = g2 () => (float[3,34] b) {{ d = Neg(x) e = MatMul(d, z) b = Add(e, e) }}
    >"""
    case = Case(
        "stored/branches",
        "bool c, float[3,40] x",
        body,
        {"w": halves(40, 34), "u": halves(40, 34)},
        opset=16,
        outputs="float[3,34] y, float[40,34] z",
    )
    tflite, _, _report = converted(case.model(), tmp_path)
    # The product's operand is another constant than the output: it is transposed.
    assert sorted(s.dtype.name for s in stored(tflite) if s.values.size == 1360) == ["float16", "float16", "float32"]
    for c in (True, False):
        arrays = {**random_inputs(case.model()), "c": np.array(c)}
        expected = judge.reference(case.model().SerializeToString(), arrays)
        verdict = judge.judge_outputs(tflite, arrays, expected, RangeTolerance(), litert)
        assert verdict.passed, str(verdict)


def test_what_int8_leaves_is_as_stored(tmp_path, lowtide):
    """The table is picked by name to stay: as it is stored, in f16."""
    case = Case(
        "stored/int8",
        "float[3,40] x",
        f"f = {CAST}(w) g = {CAST}(v) a = MatMul(x, f) y = MatMul(a, g)",
        {"w": halves(40, 34), "v": halves(34, 50)},
    )
    tflite, _, report = converted(case.model(), tmp_path, "--weights", "int8", "--weights-exclude", "v")
    assert sorted((s.dtype.name, s.values.size) for s in stored(tflite) if s.values.size > 1000) == [
        ("float16", 1700),
        ("int8", 1360),
    ]
    assert (report["int8"], report["f16"], report["f16_as_stored"], report["float"]) == (1, 1, 1, 0)


def test_external_data_stays_halves(tmp_path, litert, lowtide):
    case = Case("stored/external", "float16[3,40] x", "y = MatMul(x, w)", {"w": halves(40, 34)})
    model = case.model()
    for initializer in model.graph.initializer:
        onnx.external_data_helper.set_external_data(initializer, "weights.bin")
    onnx.save_model(
        model, tmp_path / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    conversion = converter.convert(tmp_path / "model.onnx", tmp_path / "model.tflite", ["--external-buffers"])
    assert conversion.status == "converted", conversion.reason
    found = [s for s in stored(tmp_path / "model.tflite") if s.values.size == 1360]
    assert [s.dtype.name for s in found] == ["float16"]
    w = numpy_helper.to_array(case.model().graph.initializer[0])
    assert np.array_equal(found[0].values, w.T)
