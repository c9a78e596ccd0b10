# SPDX-License-Identifier: Apache-2.0
"""Floats of 8 bits at the borders of models: uint8 with the same bits, for both runtimes."""

import json

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import lowtide
from lowtide import small_floats
from tests.support import converter

TYPES = {
    "float8e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8e5m2": ml_dtypes.float8_e5m2,
    "float8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "float8e8m0": ml_dtypes.float8_e8m0fnu,
}
ALL = np.arange(256, dtype=np.uint8)


@pytest.mark.parametrize("name", TYPES)
def test_in_order(name):
    values, order = ALL.view(TYPES[name]).astype(np.float32), small_floats.in_order(ALL, name)
    is_nan = np.isnan(values)
    assert len(set(order[is_nan])) == 1
    assert order[is_nan].min() > order[~is_nan].max() + 100
    for a in np.flatnonzero(~is_nan):
        assert np.array_equal(values[a] < values[~is_nan], order[a] < order[~is_nan])
    distinct = np.unique(values[~is_nan])
    assert order[~is_nan].max() - order[~is_nan].min() == len(distinct) - 1
    assert small_floats.NUMBERS[name] == getattr(TensorProto, name.upper())


@pytest.mark.parametrize("name", TYPES)
def test_random_numbers_are_from_0_to_1(name):
    bits = small_floats.random_bits(name, [1000], np.random.default_rng(0))
    values = bits.view(TYPES[name]).astype(np.float32)
    assert values.min() >= 0 and values.max() == 1


def cache(element):
    """A cache of small floats that grows: inputs, outputs, and what is computed of them."""
    of = getattr(TensorProto, element.upper())
    nodes = [
        helper.make_node("Cast", ["past"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["numbers", "x"], ["y"]),
        helper.make_node("Cast", ["y"], ["present"], to=of),
        helper.make_node("Transpose", ["past"], ["moved"], perm=[1, 0]),
    ]
    graph = helper.make_graph(
        nodes,
        "cache",
        [
            helper.make_tensor_value_info("past", of, [3, 5]),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 5]),
        ],
        [
            helper.make_tensor_value_info("present", of, [3, 5]),
            helper.make_tensor_value_info("moved", of, [5, 3]),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 5]),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)


@pytest.fixture(params=["float8e4m3fn", "float8e5m2fnuz"])
def models(request, tmp_path):
    source, target = tmp_path / "m.onnx", tmp_path / "m.tflite"
    onnx.save(cache(request.param), source)
    result = converter.convert(source, target, ["--report", str(tmp_path / "m.json")])
    assert result.status == "converted", result.reason
    return request.param, source, target, json.loads((tmp_path / "m.json").read_text())


def test_both_runtimes_take_and_give_bits(models):
    name, source, target, _ = models
    feed = {
        "past": np.arange(50, 65, dtype=np.uint8).reshape(3, 5),
        "x": np.linspace(-3, 3, 15, dtype=np.float32).reshape(3, 5),
    }
    with lowtide.Runner(source) as onnx_runner, lowtide.Runner(target) as tflite:
        want, got = onnx_runner.run(feed), tflite.run(feed)
        assert onnx_runner.inputs["past"].bits_of == name
    for output in ("present", "moved"):
        assert got[output].dtype == want[output].dtype == np.uint8
        np.testing.assert_array_equal(got[output], want[output])
    np.testing.assert_array_equal(got["present"], got["y"].astype(TYPES[name]).view(np.uint8))


def test_verify(models):
    _, source, target, _ = models
    assert lowtide.verify(source, target, random=2).passed


def test_verify_finds_another_number(models, tmp_path):
    name, source, _, _ = models
    other = cache(name)
    other.graph.node[2].input[0] = "numbers"  # present = past
    onnx.save(other, tmp_path / "other.onnx")
    assert converter.convert(tmp_path / "other.onnx", tmp_path / "other.tflite").status == "converted"
    found = lowtide.verify(source, tmp_path / "other.tflite", random=2)
    assert [of.name for of in found.outputs if of.problem] == ["present"]


def test_the_report_says_what_inputs_and_outputs_are(models):
    name, _, _, report = models
    short = name.replace("float", "f")
    text = f"is u8 with the bits of {short}, one element a byte: TFLite has no kernel for that type"
    assert report["notes"] == [f"input 'past' {text}", f"output 'present' {text}", f"output 'moved' {text}"]
