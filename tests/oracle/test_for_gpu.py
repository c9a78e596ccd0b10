# SPDX-License-Identifier: Apache-2.0
"""convert --for gpu on the processor: the same numbers, other operators. What the delegate takes of them: test_gpu.py."""

import numpy as np
import onnx
import pytest
from ai_edge_litert.interpreter import Interpreter

from tests.oracle.all_cases import CASES
from tests.oracle.cases_plain import FOR_GPU, NARROWED, WIDE
from tests.oracle.cases_squares import CASES as SQUARES
from tests.support import converter, judge
from tests.support.case import judge_case
from tests.support.compare import RangeTolerance, compare
from tests.support.inputs import random_inputs
from tests.support.tflite_file import read_tflite

# The operators that must be gone.
GONE = {
    "plain/clamped_input": "RELU_0_TO_1",
    "plain/log_softmax": "LOG_SOFTMAX",
    "plain/response": "LOCAL_RESPONSE_NORMALIZATION",
    "plain/response_three": "LOCAL_RESPONSE_NORMALIZATION",
    "plain/masked_rows": "NOT_EQUAL",
    "plain/gated": "SPLIT",
    "plain/gated_unevenly": "SPLIT_V",
}


@pytest.mark.parametrize("case", FOR_GPU + WIDE + SQUARES, ids=lambda case: case.name)
def test_same_numbers(case, tmp_path, litert):
    verdict = judge_case(case, tmp_path, litert, options=["--for=gpu"])
    assert verdict.passed, str(verdict)


@pytest.mark.parametrize("name", ["rank/add_of_nine", "rank/transpose_of_nine", "rank/where_of_nine"])
def test_nothing_is_refused_for_it(name, tmp_path, litert):
    verdict = judge_case(next(case for case in CASES if case.name == name), tmp_path, litert, options=["--for=gpu"])
    assert verdict.passed, str(verdict)


@pytest.mark.parametrize("name", GONE)
def test_operators(name, tmp_path):
    onnx.save(next(case for case in FOR_GPU if case.name == name).model(), tmp_path / "m.onnx")
    for option, count in ((), 1), (("--for=gpu",), 0):
        assert converter.convert(tmp_path / "m.onnx", tmp_path / "m.tflite", option).status == "converted"
        assert read_tflite(tmp_path / "m.tflite").operators[GONE[name]] == count


@pytest.mark.parametrize("case", NARROWED, ids=lambda case: case.name)
def test_ids_are_narrowed_with_a_note(case, tmp_path):
    model = case.model()
    onnx.save(model, tmp_path / "m.onnx")
    done = converter.run("convert", tmp_path / "m.onnx", "-o", tmp_path / "m.tflite", "--for=gpu")
    said = (done.stdout + done.stderr).decode() if isinstance(done.stdout, bytes) else done.stdout + done.stderr
    assert done.returncode == 0 and "takes i32, where the model has i64" in said
    arrays = random_inputs(model, case.shapes, case.ranges)
    interpreter = Interpreter(str(tmp_path / "m.tflite"))
    signature = interpreter.get_signature_runner("serving_default")
    given = signature(
        **{name: array.astype(np.int32) if array.dtype == np.int64 else array for name, array in arrays.items()}
    )
    for name, expected in judge.reference(model.SerializeToString(), arrays).items():
        assert not compare(expected, given[name], RangeTolerance()).fault


def test_other_targets_are_refused(tmp_path):
    done = converter.run("convert", tmp_path / "m.onnx", "-o", tmp_path / "m.tflite", "--for=cpu")
    assert done.returncode == 2
