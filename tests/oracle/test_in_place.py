# SPDX-License-Identifier: Apache-2.0
"""--weights in-place: weights that need no change stay in the ONNX model's files, and LiteRT's CompiledModel reads them there."""

import json

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import converter, judge
from tests.support.case import Case, i64
from tests.support.compare import RangeTolerance
from tests.support.compiled_model import COMPILED
from tests.support.inputs import random_inputs
from tests.support.litert import RuntimeRefusal


def tensors_of(graph):
    """All constants of a graph, those of its subgraphs too."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            for inner in [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]:
                yield from tensors_of(inner)


def externalize(model, folder, files=("weights.bin",), residues=(0,), behind=256):
    """Moves the constants of 1 kB and more to `files` in turn, at offsets that are multiples of 64 plus `residues` in turn."""
    contents = {name: bytearray() for name in files}
    for i, tensor in enumerate(t for t in tensors_of(model.graph) if len(numpy_helper.to_array(t).tobytes()) >= 1024):
        location, residue = files[i % len(files)], residues[i % len(residues)]
        data, at = numpy_helper.to_array(tensor).tobytes(), contents[location]
        at.extend(bytes(-len(at) % 64 + residue))
        for field in ("raw_data", "float_data", "int32_data", "int64_data"):
            tensor.ClearField(field)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in {"location": location, "offset": str(len(at)), "length": str(len(data))}.items():
            tensor.external_data.add(key=key, value=value)
        at.extend(data)
    for name, data in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(bytes(data) + bytes(behind))
    onnx.save(model, folder / "model.onnx")
    return model


def convert(folder, output="model.tflite", *options):
    """The report of the conversion."""
    done = converter.convert(
        folder / "model.onnx", folder / output, ["--weights=in-place", f"--report={folder}/report.json", *options]
    )
    assert done.status == "converted", done
    return json.loads((folder / "report.json").read_text())


def check(case, folder, litert, output="model.tflite"):
    """The converted model answers as ONNX Runtime does, by every kind of kernel."""
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    arrays = random_inputs(model, case.shapes, case.ranges)
    expected = judge.reference(folder / "model.onnx", arrays)
    verdict = judge.judge_outputs(folder / output, arrays, expected, RangeTolerance(case.tolerance), litert, COMPILED)
    assert verdict.passed, verdict
    return verdict


def half(*shape):
    return np.random.default_rng(len(shape)).uniform(-1, 1, shape).astype(np.float16)


# Networks, and the weights that must stay where they are.
CASES = [
    (
        Case(
            "in_place/pointwise_convs",
            "float[1,48,5,7] x",
            "a = Conv(x, w, b) r = Relu(a) y = Conv(r, v)",
            {"w": (64, 48, 1, 1), "b": (64,), "v": (40, 64, 1, 1)},
        ),
        ["w", "v"],
    ),
    (Case("in_place/conv", "float[1,12,9,7] x", "y = Conv<pads=[1,1,1,1]>(x, w)", {"w": (64, 12, 3, 3)}), []),
    (
        Case(
            "in_place/gemm",
            "float[3,64] x",
            "a = Gemm<transB=1>(x, w, b) r = Relu(a) y = Gemm<transB=1>(r, v, c)",
            {"w": (80, 64), "b": (80,), "v": (2048, 80), "c": (2048,)},
        ),
        ["w", "v", "c"],
    ),
    (
        Case(
            "in_place/embedding",
            "int32[2,5] x",
            "e = Gather(table, x) p = Add(e, position) y = LayerNormalization(p, g, h)",
            {"table": (70, 512), "position": (5, 512), "g": (512,), "h": (512,)},
            opset=17,
            ranges={"x": (0, 70)},
        ),
        ["table", "position"],
    ),
    (
        Case(
            "in_place/tied",
            "int32[2,5] x",
            "e = Gather(table, x) t = Transpose<perm=[1,0]>(table) y = MatMul(e, t)",
            {"table": (70, 48)},
            ranges={"x": (0, 70)},
        ),
        ["table"],
    ),
    (Case("in_place/batched_rhs", "float[3,4,24] x", "y = MatMul(x, w)", {"w": (3, 24, 40)}), ["w"]),
    (
        Case(
            "in_place/matmul",
            "float[3,64] x",
            "a = MatMul(x, w) r = Relu(a) y = MatMul(r, v)",
            {"w": (64, 80), "v": (80, 48)},
        ),
        ["w", "v"],
    ),
    (
        Case(
            "in_place/biases",
            "float[2,3,64] x",
            "a = MatMul(x, w) p = Add(a, b) r = Relu(p) c = MatMul(r, v) y = Add(c, d)",
            {"w": (64, 80), "b": (80,), "v": (80, 48), "d": (48,)},
        ),
        ["w", "v"],
    ),
    (
        Case(
            "in_place/gemm_untransposed",
            "float[3,64] x",
            "a = Gemm(x, w, b) r = Clip(a, lo, hi) y = Gemm(r, v)",
            {"w": (64, 80), "b": (80,), "v": (80, 48), "lo": np.float32(0), "hi": np.float32(6)},
        ),
        ["w", "v"],
    ),
    (
        Case(
            "in_place/dynamic",
            "float[N,S,64] x",
            "a = MatMul(x, w) p = Add(a, b) r = Relu(p) y = MatMul(r, v)",
            {"w": (64, 80), "b": (80,), "v": (80, 48)},
            outputs="float[N,S,48] y",
            shapes={"x": (3, 5, 64)},
        ),
        ["w", "v"],
    ),
    (Case("in_place/vector", "float[64] x", "y = MatMul(x, w)", {"w": (64, 80)}), ["w"]),
    # The scale before the softmax is folded into wq, which is written for that.
    (
        Case(
            "in_place/attention",
            "float[1,7,64] x",
            "q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv) "
            "q3 = Reshape(q, s) k3 = Reshape(k, s) v3 = Reshape(v, s) "
            "qt = Transpose<perm=[0,2,1,3]>(q3) kt = Transpose<perm=[0,2,3,1]>(k3) vt = Transpose<perm=[0,2,1,3]>(v3) "
            "a = MatMul(qt, kt) m = Mul(a, f) p = Softmax<axis=-1>(m) h = MatMul(p, vt) t = Transpose<perm=[0,2,1,3]>(h) "
            "o = Reshape(t, u) e = MatMul(o, wo) n = Add(x, e) g = MatMul(n, w1) i = Add(g, b1) j = Relu(i) l = MatMul(j, w2) y = Add(n, l)",
            {
                "wq": (64, 64),
                "wk": (64, 64),
                "wv": (64, 64),
                "wo": (64, 64),
                "w1": (64, 96),
                "b1": (96,),
                "w2": (96, 64),
                "s": i64(1, 7, 4, 16),
                "u": i64(1, 7, 64),
                "f": np.float32(0.25),
            },
        ),
        ["wk", "wv", "wo", "w1", "w2"],
    ),
    (Case("in_place/lhs", "float[24,5] x", "y = MatMul(w, x)", {"w": (56, 24)}), ["w"]),
    (
        Case(
            "in_place/elementwise",
            "float[3,40,50] x",
            "a = Mul(x, m) b = Sub(a, s) c = Div(b, d) y = Max(c, n)",
            {
                "m": (3, 40, 50),
                "s": (40, 50),
                "d": np.linspace(1, 2, 2000, dtype=np.float32).reshape(40, 50),
                "n": (3, 40, 50),
            },
        ),
        ["m", "s", "d", "n"],
    ),
    (Case("in_place/prelu", "float[1,6,20,16] x", "y = PRelu(x, s)", {"s": (6, 20, 16)}), ["s"]),
    (Case("in_place/concat", "float[3,40,50] x", "y = Concat<axis=1>(x, w)", {"w": (3, 30, 50)}), ["w"]),
    (
        Case(
            "in_place/int64_table",
            "int32[2,5] x",
            "g = Gather(t, x) y = Cast<to=6>(g)",
            {"t": np.arange(5000, dtype=np.int64).reshape(50, 100)},
            ranges={"x": (0, 50)},
        ),
        ["t"],
    ),
    (
        Case(
            "in_place/int8_table",
            "int32[2,5] x",
            "y = Gather(t, x)",
            {"t": np.arange(60 * 128, dtype=np.int64).astype(np.int8).reshape(60, 128)},
            ranges={"x": (0, 50)},
        ),
        ["t"],
    ),
    (
        Case(
            "in_place/bool_mask",
            "float[64,80] x",
            "y = Where(m, x, c)",
            {"m": np.arange(64 * 80).reshape(64, 80) % 3 == 0, "c": (64, 80)},
        ),
        ["c"],
    ),  # a file's booleans may be other bytes than 0 and 1
    (
        Case(
            "in_place/split",
            "float[3,40] x",
            "a, b = Split<axis=0>(w, s) c = Gemm<transB=1>(x, a) d = Gemm<transB=1>(x, b) y = Concat<axis=1>(c, d)",
            {"w": (96, 40), "s": i64(64, 32)},
        ),
        ["w"],
    ),
    # f16 behind a DEQUANTIZE, also where a product needs it transposed.
    (
        Case(
            "in_place/halves",
            "float[3,64] x",
            "h = Cast<to=10>(x) a = MatMul(h, w) p = Add(a, b) r = Relu(p) c = Gemm<transB=1>(r, v) y = Cast<to=1>(c)",
            {"w": half(64, 80), "b": half(80), "v": half(48, 80)},
            tolerance=2e-3,
        ),
        ["w", "v"],
    ),
    (
        Case(
            "in_place/half_convs",
            "float[1,64,5,7] x",
            "h = Cast<to=10>(x) a = Conv(h, w) s = Add(a, p) y = Cast<to=1>(s)",
            {"w": half(80, 64, 1, 1), "p": half(80, 5, 7)},
            tolerance=2e-3,
        ),
        ["w"],
    ),
    (
        Case(
            "in_place/half_table",
            "int32[2,5] x",
            "e = Gather(t, x) y = Cast<to=1>(e)",
            {"t": half(70, 64)},
            ranges={"x": (0, 70)},
        ),
        ["t"],
    ),
    (
        Case(
            "in_place/reshaped", "float[2,30,40] x", "r = Reshape(w, s) y = Add(x, r)", {"w": (1200,), "s": i64(30, 40)}
        ),
        ["w"],
    ),
    (
        Case(
            "in_place/branches",
            "bool[1] q, float[3,40] x",
            "y = If (q) <then_branch = t () => (float[3,64] a) {a = Gemm<transB=1>(x, w)}, else_branch = e () => (float[3,64] b) {c = Gemm<transB=1>(x, v) b = Relu(c)}>",
            {"w": (64, 40), "v": (64, 40)},
        ),
        ["w", "v"],
    ),
]


@pytest.mark.parametrize("case,stays", CASES, ids=[case.name for case, _ in CASES])
def test_weights_stay(case, stays, tmp_path, litert):
    externalize(case.model(), tmp_path)
    report = convert(tmp_path)
    wanted = sum(case.constants()[name].nbytes for name in stays)
    assert report["in_place_bytes"] == wanted
    assert report["in_place_files"] == ([{"name": "weights.bin", "bytes": wanted}] if stays else [])
    check(case, tmp_path, litert)


TWO = Case(
    "in_place/two",
    "float[3,64] x",
    "a = Gemm<transB=1>(x, w, b) r = Relu(a) y = Gemm<transB=1>(r, v, c)",
    {"w": (80, 64), "b": (80,), "v": (2048, 80), "c": (2048,)},
)


def test_files_are_named_from_the_output_s_folder(tmp_path, litert):
    """Several files, below the output's folder, with names that a shell would not like."""
    names = ("sub/one.bin", "deep/er/a b'\"$(c)\\ü%s.bin")
    externalize(TWO.model(), tmp_path, names)
    report = convert(tmp_path)
    assert [file["name"] for file in report["in_place_files"]] == list(names)
    check(TWO, tmp_path, litert)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for output, status in (("sub/model.tflite", "refused"), ("elsewhere/model.tflite", "refused")):
        done = converter.convert(tmp_path / "model.onnx", tmp_path / output, ["--weights=in-place"])
        assert (done.status, done.exit_status) == (status, 2) and "must be in" in done.stderr
    above = converter.convert(tmp_path / "model.onnx", tmp_path.parent / "above.tflite", ["--weights=in-place"])
    assert above.status == "converted"
    check(TWO, tmp_path, litert, "../above.tflite")
    (tmp_path.parent / "above.tflite").unlink()


@pytest.mark.parametrize("form", [[], ["--external-buffers"]], ids=["inline", "behind"])
def test_what_cannot_be_named_is_written(form, tmp_path, litert):
    """Changed weights, and those at offsets that LiteRT does not take, stand in the new file; the others stay."""
    case = Case(
        "in_place/mixed",
        "float[1,48,9,7] x",
        "a = Conv(x, w, b) c = Conv<pads=[1,1,1,1]>(a, k) d = Conv(c, v) y = Add(d, p)",
        {"w": (64, 48, 1, 1), "b": (64,), "k": (32, 64, 3, 3), "v": (80, 32, 1, 1), "p": (80, 9, 7)},
    )
    externalize(case.model(), tmp_path, residues=(0, 0, 16, 4))
    report = convert(tmp_path, "model.tflite", *form)
    assert report["in_place_bytes"] == 64 * 48 * 4
    assert report["unaligned_bytes"] == 80 * 32 * 4
    assert report["output_bytes"] > (64 * 32 * 9 + 80 * 32 + 80 * 63) * 4
    check(case, tmp_path, litert)


def test_weights_in_the_model_s_own_file_stay(tmp_path, litert):
    """raw_data at a multiple of 64 in the .onnx itself."""
    model = TWO.model()
    for tensor in model.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    weight = next(t for t in model.graph.initializer if t.name == "v").raw_data
    for _ in range(64):
        onnx.save(model, tmp_path / "model.onnx")
        if (tmp_path / "model.onnx").read_bytes().index(weight) % 64 == 0:
            break
        model.graph.name += "."
    report = convert(tmp_path)
    assert {"name": "model.onnx", "bytes": len(weight)} in [
        *report["in_place_files"],
        {"name": "model.onnx", "bytes": report["in_place_bytes"]},
    ]
    assert report["in_place_bytes"] >= len(weight)
    check(TWO, tmp_path, litert)


@pytest.mark.parametrize("order", ["wv", "vw"])
def test_a_weight_that_ends_with_its_file_and_a_page(order, tmp_path, litert):
    """What is read past its end needs room behind it, else it is written; weights that are packed stay."""
    case = Case(
        "in_place/end",
        "float[3,64] x",
        "m = Mul(x, w) a = ReduceSum<keepdims=0>(m, axes) y = Gemm<transB=1>(a, v)",
        {"w": (64, 3, 64), "v": (64, 64), "axes": i64(0)},
    )
    model = case.model()
    by_name = {t.name: t for t in model.graph.initializer}
    rest = [by_name[name] for name in [*order, "axes"]]
    del model.graph.initializer[:]
    model.graph.initializer.extend(rest)
    externalize(model, tmp_path, behind=0)
    assert (tmp_path / "weights.bin").stat().st_size % 4096 == 0
    assert convert(tmp_path)["in_place_bytes"] == (64 * 3 * 64 * (order == "wv") + 64 * 64) * 4
    check(case, tmp_path, litert)


def test_a_model_without_such_weights(tmp_path, litert):
    externalize(TWO.model(), tmp_path, residues=(4,))
    done = converter.convert(tmp_path / "model.onnx", tmp_path / "model.tflite", ["--weights=in-place"])
    assert "no weight can stay in place: all were written" in done.stdout and "multiples of 64" in done.stdout
    assert converter.convert(tmp_path / "model.onnx", tmp_path / "float.tflite").status == "converted"
    assert (tmp_path / "model.tflite").read_bytes() == (tmp_path / "float.tflite").read_bytes()
    check(TWO, tmp_path, litert)


def test_the_interpreter_refuses_external_buffers(tmp_path, litert):
    """It knows no external buffers: better an error than an answer from no weights."""
    externalize(TWO.model(), tmp_path)
    convert(tmp_path)
    for xnnpack in (False, True):
        with pytest.raises(RuntimeRefusal, match="lacks data"):
            litert.run(tmp_path / "model.tflite", {"x": np.ones((3, 64), np.float32)}, xnnpack)
