# SPDX-License-Identifier: Apache-2.0
"""Runner: arrays of strings."""

import re

import numpy as np
import pytest

import lowtide
from tests.python import models


def test_strings(tmp_path):
    path = models.identity(tmp_path / "m.onnx", "string")
    for array in (np.array([["a", "b", "c"], ["d", "", "ü"]]), np.array([["a", "b", "c"], ["d", "", "ü"]], object)):
        with lowtide.Runner(path) as runner:
            np.testing.assert_array_equal(runner.run({"x": array})["y"], array.reshape(3, 2).astype(object))


def _text(*codes):
    """An array of one string, whatever the code points."""
    return np.array(codes, np.uint32).view(f"<U{len(codes)}").reshape(1, 1)


@pytest.mark.parametrize(
    "array, error, words",
    [
        (np.array([["a"]]).astype(">U1"), lowtide.Usage, "has big-endian bytes; give array.astype('object')"),
        (_text(0x41, 0x110000), lowtide.Usage, "has a character 0x110000, which Unicode does not have"),
        (_text(0xFFFFFFFF), lowtide.Usage, "has a character 0xffffffff"),
        (_text(0x41, 0xD800), lowtide.Usage, "has a string that cannot be UTF-8"),
        (np.array([["\ud800"]], object), lowtide.Usage, "has a string that cannot be UTF-8"),
        (np.array([[b"a"]], object), TypeError, "must have elements of str, not bytes"),
        (np.array([[None]], object), TypeError, "must have elements of str, not NoneType"),
        (np.array([[1]], object), TypeError, "must have elements of str, not int"),
        (np.array([[b"a"]]), lowtide.Usage, "is object, not bytes8"),
    ],
)
def test_strings_that_onnx_runtime_does_not_check(array, error, words, tmp_path):
    """It crashes at code points that are none, and takes b'a' for the four characters "b'a'"."""
    with lowtide.Runner(models.identity(tmp_path / "m.onnx", "string", (1, 1), (1, 1))) as runner:
        with pytest.raises(error, match=re.escape(f"input 'x' {words}")):
            runner.run({"x": array})
        assert runner.run({"x": np.array([["\U0010ffff"]])})["y"].tolist() == [["\U0010ffff"]]
        assert runner.run({"x": np.array([[""]], "U1")})["y"].tolist() == [[""]]


@pytest.mark.skipif(not hasattr(np, "dtypes") or not hasattr(np.dtypes, "StringDType"), reason="numpy before 2")
@pytest.mark.parametrize("element", ["string", "float32"])
def test_strings_of_a_type_without_byte_order(element, tmp_path):
    path = models.identity(tmp_path / "m.onnx", element, (1, 1), (1, 1))
    with lowtide.Runner(path) as runner, pytest.raises(lowtide.Usage, match="not StringDType"):
        runner.run({"x": np.array([["a"]], np.dtypes.StringDType())})
