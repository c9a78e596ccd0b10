# SPDX-License-Identifier: Apache-2.0
"""The real quantized models: in integer kernels, in files that do not grow. What each operator computes is judged by
`lowtide verify --by-op` (tests/python) and by the cases of cases_qdq.py."""

import json
import subprocess

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from tests.oracle.real_models import FOLDER as FLOAT_MODELS

FOLDER = FLOAT_MODELS.parent / "onnx_quant"
MODELS = sorted(FOLDER.glob("*.onnx"))
MOBILENET = FOLDER / "ort__maui_mobilenet_qdq.onnx"
pytestmark = pytest.mark.skipif(not MODELS, reason=f"no real quantized models in {FOLDER}: none is judged")


def convert(lowtide, model, folder, *options):
    out = folder / "out.tflite"
    report = folder / "report.json"
    done = subprocess.run(
        [lowtide, "convert", model, "-o", out, "--quiet", "--report", report, *options], capture_output=True, text=True
    )
    return done, out, json.loads(report.read_text()) if report.exists() else {}


@pytest.mark.parametrize("model", MODELS, ids=lambda path: path.stem)
def test_no_file_grows(model, tmp_path, lowtide):
    done, out, _ = convert(lowtide, model, tmp_path)
    assert done.returncode == 0, done.stderr
    assert out.stat().st_size <= 1.25 * model.stat().st_size + 8192


def test_mobilenet_is_computed_in_integers(tmp_path, lowtide):
    done, out, report = convert(lowtide, MOBILENET, tmp_path, "--require-integer")
    assert done.returncode == 0, done.stderr
    assert out.stat().st_size <= 3_800_000
    assert report["operators"] <= 75
    assert report["integers"]["float_islands"] == []


def test_float_operators_are_refused_on_demand(tmp_path, lowtide):
    model = FOLDER / "ort__layout_transform_fix_transpose_without_dq.qdq.onnx"
    done, out, report = convert(lowtide, model, tmp_path, "--require-integer")
    assert done.returncode != 0 and not out.exists()
    assert any("no kernel takes u16" in group["reason"] for group in report["refused"]), report["refused"]


def run_with(path, image):
    interpreter = Interpreter(str(path), num_threads=1)
    interpreter.allocate_tensors()
    (given,) = interpreter.get_input_details()
    (made,) = interpreter.get_output_details()
    if given["dtype"] != np.float32:
        scale, zero = given["quantization"]
        limits = np.iinfo(given["dtype"])
        image = np.clip(np.rint(image / np.float32(scale)) + zero, limits.min, limits.max).astype(given["dtype"])
    interpreter.set_tensor(given["index"], image)
    interpreter.invoke()
    result = interpreter.get_tensor(made["index"])
    if made["dtype"] == np.float32:
        return result
    scale, zero = made["quantization"]
    return (result.astype(np.float32) - zero) * np.float32(scale)


def test_inputs_and_outputs_of_integers_give_the_same_numbers(tmp_path, lowtide):
    done, out, _ = convert(lowtide, MOBILENET, tmp_path, "--shape", "image=1,3,244,244")
    assert done.returncode == 0, done.stderr
    image = np.random.default_rng(5).uniform(-2, 2, (1, 3, 244, 244)).astype(np.float32)
    expected = run_with(out, image)
    for dtype in ("int8", "uint8", "float"):
        done, out, _ = convert(lowtide, MOBILENET, tmp_path, "--shape", "image=1,3,244,244", "--io", dtype)
        assert done.returncode == 0, done.stderr
        np.testing.assert_array_equal(run_with(out, image), expected, err_msg=dtype)


def test_a_float_border_cannot_become_integers(tmp_path, lowtide):
    model = FOLDER / "ort__layout_transform_fix_transpose_without_dq.qdq.onnx"
    done, out, _ = convert(lowtide, model, tmp_path, "--io", "int8")
    assert done.returncode != 0 and not out.exists()
    assert "--io int8: the output" in done.stderr and "is not quantized to 8 bits in the model" in done.stderr
