# SPDX-License-Identifier: Apache-2.0
"""--custom-ops: what is refused without it, what becomes a custom operator, and what the kernel is told."""

import json
import pathlib
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.custom import files, models
from tests.support import converter, json_schema

ROOT = pathlib.Path(__file__).resolve().parents[2]
REPORT = json.loads((ROOT / "schemas/report.schema.json").read_text())


def convert(model, folder, *options):
    """The process, and the path of the output."""
    onnx.save(model, folder / "m.onnx")
    out = folder / "m.tflite"
    return converter.run("convert", folder / "m.onnx", "-o", out, *options), out


def converted(model, folder, *options):
    done, out = convert(model, folder, *options)
    assert done.returncode == 0, done
    return out


def refusal(model, folder, *options):
    done, out = convert(model, folder, *options)
    assert done.returncode == 8 and not out.exists(), done
    return done.stderr


def test_without_the_option_all_are_refused_at_once(tmp_path):
    text = refusal(models.five_unknown(), tmp_path)
    lines = [line for line in text.splitlines() if re.match("  [^ ]", line)]
    assert lines == [
        f"  my.ops.{op}: the operator is not known; with '--custom-ops allow' it becomes a custom operator (1 node)"
        for op in "ABCDE"
    ]


def test_five_operators_are_converted(tmp_path):
    out = converted(models.five_unknown(), tmp_path, "--custom-ops", "allow")
    assert [custom.name for custom in files.customs(out)] == list("ABCDE") and files.builtins(out) == []


def test_only_named_operators_are_allowed(tmp_path):
    text = refusal(models.five_unknown(), tmp_path, "--custom-ops", "allow=A,my.ops:B,other:C")
    assert {line.split(":")[0].strip() for line in text.splitlines() if "not known" in line} == {
        "my.ops.C",
        "my.ops.D",
        "my.ops.E",
    }


def tensor_of(array):
    return {"type": array.dtype.name, "shape": list(array.shape), "bytes": array.tobytes()}


def test_attributes_of_all_types(tmp_path):
    out = converted(models.all_attributes(), tmp_path, "--custom-ops", "allow")
    (custom,) = files.customs(out)
    value = custom.value()
    given = dict(models.ATTRIBUTES)
    assert value.pop("_domain") == "my.ops" and value.pop("_op") == "Everything" and value.pop("_opset") == 3
    assert value.pop("t") == tensor_of(numpy_helper.to_array(given.pop("t")))
    assert value.pop("tensors") == [tensor_of(numpy_helper.to_array(tensor)) for tensor in given.pop("tensors")]
    assert value.pop("f") == np.float32(given.pop("f"))
    assert value.pop("floats") == [float(np.float32(number)) for number in given.pop("floats")]
    assert value.pop("bytes") == bytearray(given.pop("bytes"))
    sparse = {
        "values": tensor_of(np.array([1.5, 2.5], np.float32)),
        "indices": tensor_of(np.array([1, 11], np.int64)),
        "shape": [3, 4],
    }
    assert value.pop("sparse") == sparse and value.pop("sparses") == [sparse, sparse]
    assert value.pop("type") == {"type": "int64", "shape": [2, "n", None]}
    assert value.pop("types") == [{"type": "float32", "shape": [4]}, {"type": "bool"}]
    assert [value.pop(name) for name in ("no_floats", "no_ints", "no_strings")] == [[], [], []]
    assert value.pop("words") == {"type": "string", "shape": [2], "strings": ["one", "two"]}
    assert value == given
    # The program's own reader agrees.
    shown = json.loads(converter.run("inspect", "--custom", "--json", out).stdout)["custom_operators"]
    assert [entry["name"] for entry in shown] == ["Everything"] and shown[0]["problem"] == ""
    attributes = shown[0]["attributes"]
    assert attributes["ints"] == models.ATTRIBUTES["ints"] and attributes["bytes"] == "ff00fe"
    assert attributes["f"] == float(np.float32(0.1)) and attributes["s"] == "text ü"
    assert attributes["t"]["bytes"] == np.arange(6, dtype=np.float32).tobytes().hex()
    assert attributes["type"] == {"shape": [2, "n", None], "type": "int64"}


def test_graphs_are_no_attributes(tmp_path):
    inner = helper.make_graph([helper.make_node("Relu", ["x"], ["t"])], "inner", [], [models.value("t")])
    nodes = [models.node("Holder", ["x"], ["y"], "holder", body=inner)]
    text = refusal(models.model(nodes, [models.value("x")], [models.value("y")]), tmp_path, "--custom-ops", "allow")
    assert "node 'holder' (my.ops.Holder): its attribute 'body' is a graph" in text


def test_reserved_and_large_attributes_are_refused(tmp_path):
    large = numpy_helper.from_array(np.zeros(20_000, np.float32), "w")
    for attribute, message in {
        "_op": "its attribute '_op' has a name that is used for the operator",
        "large": "its attribute 'large' is a tensor of 80000 bytes, more than 65536; a mapping",
    }.items():
        nodes = [models.node("Op", ["x"], ["y"], "one", **{attribute: large})]
        text = refusal(models.model(nodes, [models.value("x")], [models.value("y")]), tmp_path, "--custom-ops", "allow")
        assert message in text


def test_attributes_that_differ_give_numbered_names(tmp_path):
    out = converted(models.two_clamps(), tmp_path, "--custom-ops", "allow", "--report", tmp_path / "r.json")
    customs = files.customs(out)
    assert [custom.name for custom in customs] == ["Clamp#1", "Clamp#2"]
    assert [(custom.value()["min"], custom.value()["max"]) for custom in customs] == list(models.LIMITS)
    report = json.loads((tmp_path / "r.json").read_text())
    assert json_schema.faults(report, REPORT) == []
    assert [(entry["name"], entry["nodes"]) for entry in report["custom_operators"]] == [
        ("Clamp#1", ["first"]),
        ("Clamp#2", ["second"]),
    ]
    listed = converter.run("inspect", "--custom", out).stdout
    assert "Clamp#1 version 1" in listed and '_domain = "my.ops"' in listed and "1 node: a" in listed


def test_equal_attributes_share_a_name_in_any_order(tmp_path):
    nodes = [
        models.node("Clamp", ["x"], ["a"], "late", min=0.0, max=1.0),
        models.node("Clamp", ["x"], ["b"], "early", max=3.0, min=2.0),
        models.node("Clamp", ["a"], ["c"], "again", max=1.0, min=0.0),
        helper.make_node("Sum", ["a", "b", "c"], ["y"]),
    ]
    known = [models.value(name) for name in "abc"]
    model = models.model(nodes, [models.value("x")], [models.value("y")], known)
    names = [custom.name for custom in files.customs(converted(model, tmp_path, "--custom-ops", "allow"))]
    assert sorted(names) == ["Clamp#1", "Clamp#1", "Clamp#2"]
    shown = converter.run("inspect", "--custom", "--json", tmp_path / "m.tflite").stdout
    assert {entry["name"]: entry["attributes"]["max"] for entry in json.loads(shown)["custom_operators"]} == {
        "Clamp#1": 1,
        "Clamp#2": 3,
    }


def test_a_named_operator_is_custom_although_builtins_could_compute_it(tmp_path):
    assert files.customs(converted(models.atan(), tmp_path, "--custom-ops", "allow")) == []
    for name in ("Atan", "ai.onnx:Atan"):
        (custom,) = files.customs(converted(models.atan(), tmp_path, "--custom-ops", f"allow={name}"))
        assert custom.name == "Atan" and custom.value() == {"_domain": "ai.onnx", "_op": "Atan", "_opset": 17}
        # The shape is ONNX's: the file declares none.
        assert list(custom.outputs[0].shape) == list(models.SHAPE)


def test_a_name_that_no_node_has_is_noted(tmp_path):
    done, _ = convert(models.atan(), tmp_path, "--custom-ops", "allow=Atan,my.ops:Atan")
    assert done.returncode == 0
    assert "note: the model has no operator my.ops:Atan that could become a custom one" in done.stdout


@pytest.mark.parametrize("given", ["", "Atan", "allow=", "allow=A,", "allow=my.ops:", "deny"])
def test_what_the_option_does_not_take(given, tmp_path):
    done, out = convert(models.atan(), tmp_path, f"--custom-ops={given}")
    assert done.returncode == 2 and "--custom-ops" in done.stderr and not out.exists(), done


# ---- types and shapes of outputs ----


def one_op(output, inputs=("x",), **attributes):
    return models.model([models.node("Op", list(inputs), ["y"], "one", **attributes)], [models.value("x")], [output])


def test_an_output_without_a_shape_is_refused(tmp_path):
    no_shape = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    text = refusal(one_op(no_shape), tmp_path, "--custom-ops", "allow")
    assert "the type and shape of its output 'y' are not known; a mapping of --custom-ops-map can declare it" in text


def test_dynamic_dimensions_are_the_inputs(tmp_path):
    x, y = models.value("x", ["n", 3]), models.value("y", ["n", "m", 7])
    model = models.model([models.node("Op", ["x"], ["y"])], [x], [y])
    (custom,) = files.customs(converted(model, tmp_path, "--custom-ops", "allow"))
    assert list(custom.outputs[0].shapeSignature) == [-1, -1, 7]
    (custom,) = files.customs(converted(model, tmp_path, "--custom-ops", "allow", "--shape", "x=4,3"))
    assert list(custom.outputs[0].shapeSignature) == [4, -1, 7]
    (custom,) = files.customs(converted(model, tmp_path, "--custom-ops", "allow", "--dim", "n=6"))
    assert list(custom.outputs[0].shape)[0] == 6


def test_a_declared_shape_is_not_taken_for_another_batch(tmp_path):
    model = models.model([models.node("Op", ["x"], ["y"], "one")], [models.value("x")], [models.value("y")])
    text = refusal(model, tmp_path, "--custom-ops", "allow", "--shape", "x=4,3,5")
    assert "the type and shape of its output 'y' are not known" in text


def test_half_precision_is_seen_as_float32(tmp_path):
    x, y = models.value("x", dtype=TensorProto.FLOAT16), models.value("y", dtype=TensorProto.FLOAT16)
    out = converted(models.model([models.node("Op", ["x"], ["y"])], [x], [y]), tmp_path, "--custom-ops", "allow")
    (custom,) = files.customs(out)
    assert custom.inputs[0].type == custom.outputs[0].type == 0  # FLOAT32
    assert files.builtins(out) == ["CAST", "CAST"]


def regressor_of(targets):
    nodes = [
        helper.make_node("Scaler", ["x"], ["a"], domain="ai.onnx.ml", offset=[1.0], scale=[2.0]),
        helper.make_node(
            "LinearRegressor", ["a"], ["y"], domain="ai.onnx.ml", coefficients=[1.0] * 21, targets=targets
        ),
    ]
    graph = helper.make_graph(nodes, "g", [models.value("x", (2, 3))], [models.value("y", None)])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


@pytest.mark.parametrize("targets", [-3, 0, -(2**62) - 345, 2**31])
def test_targets_that_are_no_extent_are_refused(targets, tmp_path):
    done, _ = convert(regressor_of(targets), tmp_path, "--custom-ops", "allow")
    assert done.returncode == 6 and f"'targets' must be from 1 to 2^31 - 1; it is {targets}" in done.stderr, done


def test_operators_of_onnx_ml_have_known_shapes(tmp_path):
    scaler, regressor = files.customs(converted(regressor_of(7), tmp_path, "--custom-ops", "allow"))
    assert list(scaler.outputs[0].shape) == [2, 3] and list(regressor.outputs[0].shape) == [2, 7]


def test_a_refused_form_of_a_known_operator_becomes_custom(tmp_path):
    """The reason is given where that fails as well."""
    nodes = [helper.make_node("StringNormalizer", ["x"], ["y"], "strings")]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.STRING, [2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert "its output 'y' is a string tensor" in refusal(model, tmp_path, "--custom-ops", "allow")


def test_an_absent_input_and_unused_outputs(tmp_path):
    nodes = [models.node("Op", ["x", "", "w"], ["y", ""], "one")]
    w = numpy_helper.from_array(np.arange(7, dtype=np.float32), "w")
    model = models.model(nodes, [models.value("x")], [models.value("y")], initializers=[w])
    (custom,) = files.customs(converted(model, tmp_path, "--custom-ops", "allow"))
    assert [tensor is None for tensor in custom.inputs] == [False, True, False] and len(custom.outputs) == 1


def test_inside_of_a_loop(tmp_path):
    """The operator's graph is the loop's body."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["again"]),
            models.node("Op", ["state"], ["next"], "inner", factor=2.0),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            models.value("state"),
        ],
        [helper.make_tensor_value_info("again", TensorProto.BOOL, []), models.value("next")],
    )
    nodes = [helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)]
    inputs = [helper.make_tensor_value_info("n", TensorProto.INT64, []), models.value("x")]
    out = converted(models.model(nodes, inputs, [models.value("y")]), tmp_path, "--custom-ops", "allow")
    shown = json.loads(converter.run("inspect", "--custom", "--json", out).stdout)["custom_operators"]
    assert [entry["attributes"]["factor"] for entry in shown] == [2]


def test_no_two_nodes_are_merged(tmp_path):
    nodes = [
        models.node("Random", ["x"], ["a"]),
        models.node("Random", ["x"], ["b"]),
        helper.make_node("Sub", ["a", "b"], ["y"]),
    ]
    known = [models.value("a"), models.value("b")]
    model = models.model(nodes, [models.value("x")], [models.value("y")], known)
    assert len(files.customs(converted(model, tmp_path, "--custom-ops", "allow"))) == 2


def test_check_and_merge_take_the_option(tmp_path):
    out = converted(models.two_clamps(), tmp_path, "--custom-ops", "allow")
    assert converter.run("check", tmp_path / "m.onnx", out, "--custom-ops", "allow").returncode == 0
    onnx.save(models.atan(), tmp_path / "a.onnx")
    merged = tmp_path / "both.tflite"
    done = converter.run(
        "merge", f"one={tmp_path}/m.onnx", f"two={tmp_path}/m.onnx", "-o", merged, "--custom-ops", "allow"
    )
    assert done.returncode == 0, done
    shown = json.loads(converter.run("inspect", "--custom", "--json", merged).stdout)["custom_operators"]
    assert [(entry["name"], len(entry["nodes"])) for entry in shown] == [("Clamp#1", 2), ("Clamp#2", 2)]


def test_a_name_that_a_number_makes_is_refused(tmp_path):
    nodes = [
        models.node("Clamp", ["x"], ["a"], min=0.0),
        models.node("Clamp", ["a"], ["b"], min=1.0),
        models.node("Clamp#1", ["b"], ["y"], "third"),
    ]
    known = [models.value("a"), models.value("b")]
    model = models.model(nodes, [models.value("x")], [models.value("y")], known)
    assert "two custom operators would have the name 'Clamp#1'" in refusal(model, tmp_path, "--custom-ops", "allow")


def test_names_of_tensorflow_are_refused(tmp_path):
    model = models.model([models.node("FlexOp", ["x"], ["y"])], [models.value("x")], [models.value("y")])
    assert "takes the name 'FlexOp' for an operator of TensorFlow" in refusal(model, tmp_path, "--custom-ops", "allow")
