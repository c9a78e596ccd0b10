# SPDX-License-Identifier: Apache-2.0
"""The real quantized models: in integer kernels, in files that do not grow. What each operator computes is judged by
`lowtide verify --by-op` (tests/python) and by the cases of cases_qdq.py."""

import json
import subprocess

import pytest

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
    return done, out, json.loads(report.read_text())


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
