# SPDX-License-Identifier: Apache-2.0
"""What lowtide.verify computes of two tensors: errors, steps, tolerances, orders of axes."""

import math

import numpy as np
import pytest

from lowtide import matching
from lowtide.difference import Sum
from lowtide.tolerances import Tolerances

RNG = np.random.default_rng(3)


# ---- Numbers ----------------------------------------------------------------------------------------------------------


def added(expected, got, **how):
    total = Sum()
    total.add(np.asarray(expected), np.asarray(got), **how)
    return total.result()


def test_errors_of_floats():
    of = added(np.array([[1.0, -4.0, 2.0]], np.float32), np.array([[1.0, -4.0, 2.5]], np.float32))
    assert (of.max_abs, of.mean_abs) == (0.5, 0.5 / 3) and (of.max_rel, of.mean_rel) == (0.125, 0.125 / 3)
    assert of.snr_db == pytest.approx(10 * math.log10(21 / 0.25)) and of.steps is None and of.argmax == 1.0


def test_equal_arrays_have_no_noise_and_json_no_infinity():
    of = added(np.ones(3, np.float32), np.ones(3, np.float32))
    assert of.snr_db == math.inf and of.values()["snr_db"] is None


def test_steps_of_integers_are_errors_in_real_numbers():
    of = added(np.array([[10, 20, 30, 40]], np.int8), np.array([[10, 21, 32, 37]], np.int8), scale=0.5, zero=10)
    assert (of.steps.equal, of.steps.within_1, of.steps.within_2, of.steps.largest) == (0.25, 0.5, 0.75, 3)
    assert of.max_abs == 1.5 and of.max_rel == 1.5 / 15


def test_extremes_of_integers_do_not_overflow():
    of = added(np.array([-128, 127], np.int8), np.array([127, -128], np.int8))
    assert of.steps.largest == 255


@pytest.mark.parametrize(
    "expected, got, dtype",
    [
        (-(2**63), 0, "int64"),
        (0, -(2**63), "int64"),
        (-(2**63), 2**63 - 1, "int64"),
        (2**63, 0, "uint64"),
        (0, 2**64 - 1, "uint64"),
        (-(2**31), 2**31 - 1, "int32"),
        (False, True, "bool"),
    ],
)
def test_distances_of_wide_integers_are_exact(expected, got, dtype):
    of = added(np.array([expected, 1], dtype), np.array([got, 1], dtype))
    distance = abs(int(got) - int(expected))
    assert of.steps.largest == distance and of.steps.equal == 0.5 and of.max_abs == pytest.approx(distance)
    assert of.mean_abs == pytest.approx(distance / 2) and of.snr_db < 10
    assert Tolerances().judge(of, dtype, False)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e-300, 1e-160, 1.0, 1e160, 1.7e308])
def test_noise_of_numbers_whose_squares_float64_does_not_hold(size):
    of = added(np.array([1, -0.5, 0.25]) * size, np.array([1, -0.5, 0.5]) * size)
    assert of.snr_db == pytest.approx(10 * math.log10(1.3125 / 0.0625))


def test_nan_and_infinity():
    nan, inf = math.nan, math.inf
    same = added(np.array([nan, inf, -inf, 1], np.float32), np.array([nan, inf, -inf, 1], np.float32))
    assert same.max_abs == 0 and same.not_finite == 0
    other = added(np.array([nan, inf, 1, 1], np.float32), np.array([1, -inf, 1, nan], np.float32))
    assert other.not_finite == 3 and other.max_abs == inf and other.snr_db == -inf


def test_samples_are_added_up():
    total = Sum()
    for shift in (0, 1):
        total.add(np.array([[1, 2]], np.uint8), np.array([[1 + shift, 2]], np.uint8))
    of = total.result()
    assert of.elements == 4 and of.steps.equal == 0.75 and of.argmax == 0.5


def test_each_sample_is_judged_by_its_own_magnitude():
    large, small = np.float32([1e3, -2e3]), np.float32([1e-6, 0])
    right, wrong = Sum(), Sum()
    for total, factor in ((right, 1.0), (wrong, 30.0)):
        total.add(large, large + np.float32(1))  # by rtol
        total.add(small, small + np.float32(factor * 5e-6))  # by atol: five times its magnitude, and one is nothing
        total.add(large, large)
    bounds = Tolerances()
    assert right.result().max_abs > bounds.atol and right.result().max_rel > bounds.rtol
    assert bounds.judge(right.result(), "float32", False) == ""
    assert "1.5e+02 of the largest magnitude" in bounds.judge(wrong.result(), "float32", False)
    # What a sample is off is not excused by the magnitude of another one.
    other = Sum()
    other.add(large, large)
    other.add(np.float32([1.0]), np.float32([1.5]))
    assert "0.5 of the largest magnitude" in bounds.judge(other.result(), "float32", False)


def test_extremes_of_samples():
    total = Sum()
    for magnitude, error in ((4, 1), (8, 1), (2, 0.5), (16, 3), (4, 2), (2, 0.5)):
        total.add(np.float32([magnitude]), np.float32([magnitude - error]))
    assert sorted(total.result().extremes) == [(0.5, 2.0), (2.0, 4.0), (3.0, 16.0)]


def test_integers_that_were_compared_as_floats_do_not_pass():
    bounds = Tolerances()
    assert "not compared in steps" in bounds.judge(
        added(np.ones(3, np.float32), np.ones(3, np.float32)), "int32", False
    )
    assert bounds.judge(added(np.ones(3, np.float32), np.ones(3, np.float32)), "bfloat16", False) == ""


def test_arg_max_of_images_is_along_channels():
    expected = np.zeros((1, 3, 2, 2), np.float32)
    got = expected.copy()
    expected[0, 1], got[0, 1], got[0, 2, 0, 0] = 1, 1, 2
    assert added(expected, got).argmax == 0.75


# ---- Orders of axes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source, target, expected",
    [
        ((1, 3, 4, 5), (1, 4, 5, 3), [(0, 2, 3, 1)]),
        ((1, 3, 4, 5), (1, 3, 4, 5), [(0, 1, 2, 3)]),
        ((2, 3), (1, 2, 1, 3), [(0, 1)]),
        ((1, 2, 3), (7,), []),
        ((2, 2), (2, 2), [(0, 1), (1, 0)]),
        ((1, 3, 4, 4), (16, 3), [(0, 1, 2, 3), (0, 2, 3, 1), (0, 3, 1, 2)]),
    ],
)
def test_orders(source, target, expected):
    assert matching.orders(source, target) == expected


def test_equal_axes_in_any_order():
    assert matching.has_same_axes((1, 3, 4, 4), (4, 1, 4, 3)) and matching.has_same_axes((1, 2), (2,))
    assert not matching.has_same_axes((1, 3, 4, 4), (16, 3)) and not matching.has_same_axes((48, 2, 2), (1, 24, 4, 2))


def test_rounding_is_that_of_quantize_linear():
    got = matching.quantized(np.array([0.5, 1.5, -0.5, 300, -300, np.nan], np.float32), 1.0, 3, np.dtype(np.int8))
    assert got.tolist() == [3, 5, 3, 127, -128, 3]
