# SPDX-License-Identifier: Apache-2.0
"""TFLite to ONNX: element types and shapes at the border of what an operator takes."""

import numpy as np
import pytest

from tests.raised.judge_raised import agrees, raised, run_onnx
from tests.raised.test_operators import refused
from tests.raised.tflite_models import Model

# Operators whose nodes ONNX Runtime has for floats only, or for numbers only.
OTHER_TYPES = [
    ("GELU", "i32"),
    ("GELU", "bool"),
    ("ELU", "i32"),
    ("HARD_SWISH", "i64"),
    ("FLOOR", "i32"),
    ("EXP", "i64"),
    ("RSQRT", "i32"),
    ("LESS", "bool"),
    ("POW", "u32"),
]


@pytest.mark.parametrize("kind, dtype", OTHER_TYPES)
def test_types_that_an_operator_has_no_kernel_for_are_refused(kind, dtype, tmp_path):
    m = Model()
    inputs = [m.input((2, 3), dtype) for _ in range(2 if kind in ("LESS", "POW") else 1)]
    m.write(tmp_path / "m.tflite", [m.op(kind, inputs, (2, 3), "bool" if kind == "LESS" else dtype)])
    refused(tmp_path / "m.tflite", f"powers of {dtype}" if kind == "POW" else f"input 0 is {dtype}")


def test_remainders_of_halves(tmp_path):
    """LiteRT has no kernel of this type: numpy is the judge."""
    m = Model()
    inputs = [m.input((2, 3), "f16"), m.input((2, 3), "f16")]
    m.write(tmp_path / "m.tflite", [m.op("FLOOR_MOD", inputs, (2, 3), "f16")])
    raised(tmp_path / "m.tflite")
    a, b = np.float16([[5, -5, 4.5], [-4, 0, 7]]), np.float16([[3, 3, -2], [-2, 3, 7]])
    (made,) = run_onnx(tmp_path / "m.onnx", ["x0", "x1"], [a, b]).values()
    assert np.array_equal(made, np.mod(a, b))


@pytest.mark.parametrize("kind", ["MEAN", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ANY"])
def test_reductions_of_no_elements_are_refused(kind, tmp_path):
    m = Model()
    dtype = "bool" if kind == "REDUCE_ANY" else "f32"
    inputs = [m.input((2, 0), dtype), m.constant([1], "i32")]
    m.write(tmp_path / "m.tflite", [m.op(kind, inputs, (2,), dtype, ("ReducerOptions", {}))])
    refused(tmp_path / "m.tflite", "an axis without elements")


@pytest.mark.parametrize("kind", ["SUM", "MEAN", "REDUCE_MAX"])
def test_the_axes_of_a_scalar_do_not_matter(kind, tmp_path):
    m = Model()
    m.write(
        tmp_path / "m.tflite", [m.op(kind, [m.input(()), m.constant([0], "i32")], (), "f32", ("ReducerOptions", {}))]
    )
    agrees(tmp_path / "m.tflite", values=[np.array(3.5, np.float32)])


@pytest.mark.parametrize("dtype", ["i8", "u32"])
def test_places_of_integers_that_are_not_zero(dtype, tmp_path):
    m = Model()
    m.write(tmp_path / "m.tflite", [m.op("WHERE", [m.input((4, 3), dtype)], (0, 2), "i64")])
    m.graph.tensors[-1].shapeSignature = [-1, 2]
    m.write(tmp_path / "m.tflite", [len(m.graph.tensors) - 1])
    values = [np.array([[0, 1, 2], [3, 0, 0], [0, 0, 5], [1, 1, 0]], np.int8 if dtype == "i8" else np.uint32)]
    agrees(tmp_path / "m.tflite", values=values)


def test_reshape_to_a_scalar_as_old_files_say_it(tmp_path):
    m = Model()
    m.write(
        tmp_path / "m.tflite", [m.op("RESHAPE", [m.input((1, 1))], (), options=("ReshapeOptions", {"newShape": [0]}))]
    )
    agrees(tmp_path / "m.tflite")
