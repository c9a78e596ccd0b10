# SPDX-License-Identifier: Apache-2.0
"""--custom-ops-map: what a mapping says of names, axis orders, inputs and outputs, and what is wrong in one."""

import json
import pathlib

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.custom import files, models
from tests.custom.test_convert import convert, converted, refusal
from tests.support import json_schema

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "schemas/custom_ops_map.schema.json").read_text())


def mapping(folder, *entries):
    content = {"operators": list(entries)}
    assert json_schema.faults(content, SCHEMA) == []
    (folder / "map.json").write_text(json.dumps(content))
    return ("--custom-ops-map", folder / "map.json")


def test_name_and_version(tmp_path):
    options = mapping(tmp_path, {"operator": "my.ops:Clamp", "name": "MyClamp", "version": 3})
    out = converted(models.two_clamps(), tmp_path, *options)
    assert [(custom.name, custom.version) for custom in files.customs(out)] == [("MyClamp#1", 3), ("MyClamp#2", 3)]


def test_attributes_as_inputs_share_a_name(tmp_path):
    options = mapping(tmp_path, {"operator": "Clamp", "attributes_as_inputs": ["min", "max"]})
    out = converted(models.two_clamps(), tmp_path, *options)
    customs = files.customs(out)
    assert [custom.name for custom in customs] == ["Clamp", "Clamp"]
    buffers = files.read(out).buffers
    for custom, limits in zip(customs, models.LIMITS):
        assert custom.value() == {"_domain": "my.ops", "_op": "Clamp", "_opset": 3}
        given = [np.frombuffer(bytes(buffers[tensor.buffer].data), np.float32) for tensor in custom.inputs[1:]]
        assert [number.tolist() for number in given] == [[limits[0]], [limits[1]]]
        assert [list(tensor.shape) for tensor in custom.inputs[1:]] == [[], []]


def test_all_kinds_of_attributes_as_inputs(tmp_path):
    model = models.all_attributes()
    names = ["i", "floats", "ints", "s", "t"]
    out = converted(model, tmp_path, *mapping(tmp_path, {"operator": "Everything", "attributes_as_inputs": names}))
    (custom,) = files.customs(out)
    buffers = files.read(out).buffers
    data = [bytes(buffers[tensor.buffer].data) for tensor in custom.inputs[1:]]
    given = models.ATTRIBUTES
    assert data == [
        np.int64(given["i"]).tobytes(),
        np.float32(given["floats"]).tobytes(),
        np.int64(given["ints"]).tobytes(),
        given["s"].encode(),
        numpy_helper.to_array(given["t"]).tobytes(),
    ]
    assert not set(names) & set(custom.value()) and "strings" in custom.value()


def test_a_large_tensor_can_be_an_input(tmp_path):
    large = numpy_helper.from_array(np.arange(20_000, dtype=np.float32), "w")
    model = models.model([models.node("Op", ["x"], ["y"], w=large)], [models.value("x")], [models.value("y")])
    out = converted(model, tmp_path, *mapping(tmp_path, {"operator": "Op", "attributes_as_inputs": ["w"]}))
    assert [list(tensor.shape) for tensor in files.customs(out)[0].inputs] == [list(models.SHAPE), [20_000]]


def test_a_missing_attribute_is_refused(tmp_path):
    options = mapping(tmp_path, {"operator": "Clamp", "attributes_as_inputs": ["alpha"]})
    assert "passes its attribute 'alpha' as an input, and it has none" in refusal(
        models.two_clamps(), tmp_path, *options
    )


def unknown_shape(names=("y",)):
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]
    return models.model([models.node("Op", ["x"], list(names), "one")], [models.value("x", ["n", 3, 5])], outputs)


def test_outputs(tmp_path):
    rules = [{"like": 0}, {"type": "int64", "shape": ["input0[-1]", 7, "input0[0]"]}, {"like": 0, "type": "bool"}]
    model = unknown_shape(("a", "b", "c"))
    for i, dtype in enumerate((TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL)):
        model.graph.output[i].type.tensor_type.elem_type = dtype
    out = converted(model, tmp_path, *mapping(tmp_path, {"operator": "Op", "outputs": rules}))
    (custom,) = files.customs(out)
    assert [list(tensor.shapeSignature) for tensor in custom.outputs] == [[-1, 3, 5], [5, 7, -1], [-1, 3, 5]]
    assert [tensor.type for tensor in custom.outputs] == [0, 4, 6]  # FLOAT32, INT64, BOOL


def test_an_extent_that_only_the_kernel_knows(tmp_path):
    options = mapping(tmp_path, {"operator": "Op", "outputs": [{"type": "float32", "shape": ["?", 4]}]})
    (custom,) = files.customs(converted(unknown_shape(), tmp_path, *options))
    assert list(custom.outputs[0].shapeSignature) == [-1, 4]


def test_a_mapping_goes_before_what_the_file_declares(tmp_path):
    options = mapping(tmp_path, {"operator": "Clamp", "outputs": [{"like": 0}]})
    out = converted(models.two_clamps(), tmp_path, *options, "--shape", "x=4,3,5")
    assert [list(custom.outputs[0].shape) for custom in files.customs(out)] == [[4, 3, 5], [4, 3, 5]]


@pytest.mark.parametrize("extent", ["input3[0]", "input0[3]", "input0[-4]"])
def test_extents_that_are_not_there(extent, tmp_path):
    options = mapping(tmp_path, {"operator": "Op", "outputs": [{"type": "float32", "shape": [extent]}]})
    assert "the mapping takes" in refusal(unknown_shape(), tmp_path, *options)


def image_model():
    """A custom operator between two convolutions."""
    kernel = numpy_helper.from_array(np.ones((4, 4, 1, 1), np.float32), "k")
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["a"]),
        models.node("Op", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "k"], ["y"]),
    ]
    shape = (1, 4, 5, 6)
    inputs, outputs = [models.value("x", shape)], [models.value("y", shape)]
    return models.model(nodes, inputs, outputs, [models.value("b", shape)], [kernel])


def test_axis_order(tmp_path):
    layouts = ["--layout", "x=nhwc", "--layout", "y=nhwc"]
    out = converted(image_model(), tmp_path, *mapping(tmp_path, {"operator": "Op", "axis_order": "any"}), *layouts)
    assert files.builtins(out) == ["CONV_2D", "CONV_2D"]
    assert list(files.customs(out)[0].inputs[0].shape) == [1, 5, 6, 4]
    out = converted(image_model(), tmp_path, *mapping(tmp_path, {"operator": "Op", "axis_order": "onnx"}), *layouts)
    assert files.builtins(out) == ["CONV_2D", "TRANSPOSE", "TRANSPOSE", "CONV_2D"]
    assert list(files.customs(out)[0].inputs[0].shape) == [1, 4, 5, 6]


WRONG = {
    '{"operators": [{}]}': "operators[0]: 'operator' is missing",
    '{"operators": [{"operator": "A", "nmae": "B"}]}': "operators[0]: 'nmae' is not known; did you mean 'name'?",
    '{"operators": [{"operator": "A", "version": 0}]}': "operators[0].version: it is no whole number from 1 to",
    '{"operators": [{"operator": "A", "version": 18446744073709551615}]}': "it is no whole number from 1 to",
    '{"operators": [{"operator": "A", "version": 1.5}]}': "it is no whole number from 1 to",
    '{"operators": [{"operator": "A", "name": ""}]}': "operators[0].name: it is no name",
    '{"operators": [{"operator": "my.ops:"}]}': "operators[0].operator: the operator has no name",
    '{"operators": [{"operator": "A", "axis_order": "nhwc"}]}': "'nhwc' is neither onnx nor any",
    '{"operators": [{"operator": "A", "outputs": [{"type": "f32"}]}]}': "outputs[0].type: 'f32' is no type of tensors",
    '{"operators": [{"operator": "A", "outputs": [{"shape": ["n"]}]}]}': "outputs[0].shape[0]: 'n' is no extent",
    '{"operators": [{"operator": "A", "outputs": [{"shape": [-1]}]}]}': "it is no whole number from 0",
    '{"operators": {}}': "operators: it is no list",
    "[]": "it is no object",
    "{": "it is not JSON: line 1, column",
    '{"operators": 1e999}': "a number in it is too large",
    "[" * 100_000: "it is nested too deeply",
    "": "it is not JSON",
}


@pytest.mark.parametrize("text", WRONG, ids=lambda text: text[:60])
def test_what_is_wrong_in_a_mapping(text, tmp_path):
    (tmp_path / "map.json").write_text(text)
    done, out = convert(models.two_clamps(), tmp_path, "--custom-ops-map", tmp_path / "map.json")
    assert done.returncode == 6 and "map.json" in done.stderr and WRONG[text] in done.stderr, done
    assert not out.exists()


def test_a_mapping_that_is_not_there(tmp_path):
    done, _ = convert(models.two_clamps(), tmp_path, "--custom-ops-map", tmp_path / "none.json")
    assert done.returncode == 3 and "none.json" in done.stderr
