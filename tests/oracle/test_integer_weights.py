# SPDX-License-Identifier: Apache-2.0
"""Weights and operands that are computed from a model's integers are integers of the kernel, in models that must be computed in
integers."""

import dataclasses
import pathlib

import numpy as np
import onnx
import pytest

from tests.oracle.cases_qdq import CASES
from tests.support import converter
from tests.support.case import judge_case

COMPUTED = [case for case in CASES if case.name.startswith(("qdq/weights/", "qdq/products/"))]


@pytest.mark.parametrize("case", COMPUTED, ids=lambda case: case.name)
def test_in_integers(case, tmp_path, litert, lowtide):
    verdict = judge_case(case, tmp_path, litert, options=["--require-integer"])
    assert verdict.passed, str(verdict)


def test_128_is_no_integer_of_8_bits(tmp_path):
    (case,) = [case for case in COMPUTED if case.name == "qdq/weights/times_factors_by_channel_int8"]
    weights = np.array(case.weights["wq"])
    weights[2, 1, 0, 0] = -128  # its factor is negative
    path = pathlib.Path(tmp_path / "m.onnx")
    onnx.save(dataclasses.replace(case, weights={**case.weights, "wq": weights}).model(), path)
    done = converter.convert(path, tmp_path / "m.tflite", ["--require-integer"])
    assert done.status == "refused"
    assert "weights of -128 are multiplied by a negative number" in done.stderr


def test_a_bias_that_would_be_rounded_too_much(tmp_path):
    (case,) = [case for case in CASES if case.name == "qdq/coarse_bias_stays_float"]
    path = pathlib.Path(tmp_path / "m.onnx")
    onnx.save(case.model(), path)
    done = converter.convert(path, tmp_path / "m.tflite", ["--require-integer"])
    assert done.status == "refused"
    assert "element 0 of the bias, 0.01, is rounded by 3.4 steps of the result" in done.stderr, done.stderr


def test_scales_that_are_only_chosen_are_integers(tmp_path):
    """No kernel computes, so QUANTIZE may be written out in floats, but not where there are to be none."""
    (case,) = [case for case in CASES if case.name == "qdq/chosen_only"]
    path = pathlib.Path(tmp_path / "m.onnx")
    onnx.save(case.model(), path)
    done = converter.convert(path, tmp_path / "m.tflite", ["--require-integer"])
    assert done.status == "converted", done
    listing = converter.run("inspect", tmp_path / "m.tflite").stdout
    assert "QUANTIZE" in listing and "MAX_POOL_2D" in listing and "ROUND" not in listing, listing
