# SPDX-License-Identifier: Apache-2.0
"""convert --for: which operators a target leaves outside, by the shipped rules of the GPU and by a description of a user."""

import json

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.oracle.all_cases import CASES
from tests.support import converter, gpu, json_schema
from tests.support.tflite_file import read_tflite

REPORT = json.loads((converter.ROOT / "schemas/report.schema.json").read_text())
SCHEMA = json.loads((converter.ROOT / "schemas/builtin_target.schema.json").read_text())
GPU = converter.ROOT / "tools/lowtide/targets/gpu.json"


def network(path):
    """Conv -> Relu -> Add of a constant -> ReduceMax; all nodes have names."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.uniform(-1, 1, (4, 3, 3, 3)).astype(np.float32),
        "b": np.float32(rng.uniform(1, 2, (1, 4, 1, 1))),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="the_conv", pads=[1, 1, 1, 1]),
        helper.make_node("Tanh", ["c"], ["t"], name="the_tanh"),
        helper.make_node("Add", ["t", "b"], ["a"], name="the_add"),
        helper.make_node("Tanh", ["a"], ["y"], name="the_other_tanh"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, 10, 7])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 4, 10, 7])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def description(**more):
    operators = {"CONV_2D": [], "TANH": [], "ADD": [], "TRANSPOSE": [], "RESHAPE": []}
    return {"format": "lowtide-builtin-target", "version": 1, "name": "tiny", "operators": operators, **more}


def with_rule(op, rule):
    return description(operators={**description()["operators"], op: [rule]})


def converted(folder, content, *options):
    (folder / "tiny.json").write_text(json.dumps(content))
    assert json_schema.faults(content, SCHEMA, "target") == []
    done = converter.run(
        "convert", network(folder / "m.onnx"), "-o", folder / "m.tflite", "--for", folder / "tiny.json", "--report",
        folder / "r.json", *options,
    )  # fmt: skip
    assert done.returncode == 0, done
    report = json.loads((folder / "r.json").read_text())
    assert json_schema.faults(report, REPORT) == []
    return report["target"], done.stdout + done.stderr


def test_all_is_inside(tmp_path):
    target, said = converted(tmp_path, description())
    assert target["inside"] == target["operators"] == sum(read_tflite(tmp_path / "m.tflite").operators.values())
    assert (target["name"], target["share"], target["outside"]) == ("tiny", 1, [])
    assert f"tiny: {target['operators']} of {target['operators']} operators, 100.0 % of the work" in said


def test_what_is_not_listed(tmp_path):
    content = description()
    del content["operators"]["TANH"]
    target, said = converted(tmp_path, content)
    (row,) = target["outside"]
    assert (row["operator"], row["count"], row["node"]) == ("TANH", 2, "the_tanh")
    assert 0 < row["share"] < 1 and abs(row["share"] + target["share"] - 1) < 1e-9
    assert target["inside"] == target["operators"] - 2
    assert "2 TANH, " in said and "first 'the_tanh': the target does not take it" in said


# Rules for ADD (t f32[1,10,7,4] computed, b constant of 4 axes or fewer), and whether the operator meets them.
RULES = [
    ({"inputs": "each", "rank": [1, 4]}, True),
    ({"inputs": "computed", "rank": [1, 3]}, False),
    ({"inputs": "computed", "dtypes": ["f32"]}, True),
    ({"inputs": 0, "dtypes": ["i8", "u8"]}, False),
    ({"outputs": 0, "dtypes": ["i8"]}, False),
    ({"outputs": "each", "rank": [4, 4]}, True),
    ({"inputs": 7, "rank": [9, 9]}, True),  # it has no such input
    ({"inputs": "computed", "constant": False}, True),
    ({"inputs": "each", "constant": False}, False),
    ({"outputs": 0, "extents": [[1, 1], [10, 10], [7, 7], [1, 9]]}, True),
    ({"outputs": 0, "extents": [[1, 1], [10, 10], [7, 7]]}, False),
    ({"outputs": 0, "extents": [[1, 1], [10, 10], [8, 9], [1, 9]]}, False),
    ({"inputs": "computed", "like_output": True}, True),
    ({"inputs": "each", "like_output": True}, False),
    ({"inputs": "each", "fixed": True}, True),
    ({"version": [1, 2]}, True),
    ({"version": [7, 9]}, False),
    ({"computed_inputs": [1, 1]}, True),
    ({"computed_inputs": [2, 2]}, False),
    ({"different_inputs": True}, True),
    ({"inputs": "computed", "rank": [1, 1], "result_rank": [2, 3]}, True),  # it is about other operators
    ({"inputs": "computed", "rank": [1, 1], "result_rank": [4, 5]}, False),
]


@pytest.mark.parametrize("rule, holds", RULES)
def test_rules(rule, holds, tmp_path):
    target, _ = converted(tmp_path, with_rule("ADD", {**rule, "says": "no such thing", "source": "a manual"}))
    if holds:
        assert target["outside"] == []
    else:
        (row,) = target["outside"]
        assert (row["operator"], row["node"], row["source"]) == ("ADD", "the_add", "a manual")
        assert row["reason"].endswith('("no such thing")')


def test_rules_for_every_operator(tmp_path):
    target, _ = converted(tmp_path, description(every=[{"inputs": "computed", "rank": [1, 3]}]))
    assert target["inside"] == 0 and target["share"] == 0
    assert {row["operator"] for row in target["outside"]} >= {"CONV_2D", "TANH", "ADD"}


def test_forms_of_a_description(tmp_path):
    """ "forms": "gpu" writes the operators that --for gpu does."""
    onnx.save(next(case for case in CASES if case.name == "plain/log_softmax").model(), tmp_path / "m.onnx")
    for forms, count in (("any", 1), ("gpu", 0)):
        (tmp_path / "t.json").write_text(json.dumps(description(forms=forms)))
        options = (f"--for={tmp_path / 't.json'}",)
        assert converter.convert(tmp_path / "m.onnx", tmp_path / "m.tflite", options).status == "converted"
        assert read_tflite(tmp_path / "m.tflite").operators["LOG_SOFTMAX"] == count


def of_nodes(*operators, **more):
    """A target of lowtide partition."""
    return {"format": "lowtide-target", "version": 1, "name": "nodes", "operators": list(operators), **more}


def nodes_judged(folder, content, *options):
    (folder / "nodes.json").write_text(json.dumps(content))
    model = network(folder / "m.onnx")
    done = converter.run(
        "convert", model, "-o", folder / "m.tflite", "--for", folder / "nodes.json", "--report", folder / "r.json", *options
    )  # fmt: skip
    assert done.returncode == 0, done
    report = json.loads((folder / "r.json").read_text())
    assert json_schema.faults(report, REPORT) == []
    return report["target"], done.stdout + done.stderr


def test_all_nodes_are_inside(tmp_path):
    target, said = nodes_judged(tmp_path, of_nodes({"op": "Conv"}, {"op": "Tanh"}, {"op": "Add"}))
    assert target == {"name": "nodes", "of": "ONNX", "operators": 4, "inside": 4, "share": 1, "outside": []}
    assert "nodes: 4 of 4 nodes, 100.0 % of the work" in said and "partition" not in said


def test_nodes_that_are_not_listed(tmp_path):
    target, said = nodes_judged(tmp_path, of_nodes({"op": "Conv"}, {"op": "Add"}))
    (row,) = target["outside"]
    assert (row["operator"], row["count"], row["node"]) == ("Tanh", 2, "the_tanh")
    assert row["reason"] == "nodes does not have the operator"
    assert 0 < row["share"] < 1 and abs(row["share"] + target["share"] - 1) < 1e-9
    assert (target["operators"], target["inside"]) == (4, 2)
    assert f"note: lowtide partition --target {tmp_path / 'nodes.json'} divides the model" in said


def test_rules_of_nodes_are_those_of_partition(tmp_path):
    """The nodes that --for leaves outside are those that partition gives to ONNX Runtime, for the same reasons."""
    content = of_nodes(
        {"op": "Conv", "inputs": [{"at": 0, "extents": [1, 9]}]},
        {"op": "Tanh", "outputs": [{"at": 0, "rank": [4, 4]}]},
        {"op": "Add", "inputs": [{"at": 1, "constant": False}]},
    )
    target, _ = nodes_judged(tmp_path, content)
    assert {row["operator"]: row["node"] for row in target["outside"]} == {"Conv": "the_conv", "Add": "the_add"}
    done = converter.run(
        "partition", tmp_path / "m.onnx", "--target", tmp_path / "nodes.json", "--prefer", "fewest", "--dry-run", "--json",
        "-o", tmp_path / "pieces",
    )  # fmt: skip
    assert done.returncode == 0, done
    divided = json.loads(done.stdout)
    there = {node["name"]: node["reason"] for node in divided["nodes"] if node["reason"]}
    assert there == {row["node"]: row["reason"] for row in target["outside"]}


def test_shapes_are_those_of_the_command(tmp_path):
    model = onnx.load(network(tmp_path / "m.onnx"))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "N"
    onnx.save(model, tmp_path / "dynamic.onnx")
    rule = {"inputs": [{"at": 0, "extents": [1, 10]}]}
    (tmp_path / "nodes.json").write_text(json.dumps(of_nodes({"op": "Conv", **rule}, {"op": "Tanh"}, {"op": "Add"})))
    for options, inside in ((), 3), (("--shape", "x=2,3,10,7"), 4), (("--dim", "N=2"), 4), (("--dim", "N=11"), 3):
        done = converter.run(
            "convert", tmp_path / "dynamic.onnx", "-o", tmp_path / "m.tflite", "--for", tmp_path / "nodes.json", *options
        )  # fmt: skip
        assert f"nodes: {inside} of 4 nodes" in done.stdout + done.stderr, done


def test_a_node_inside_of_a_piece(tmp_path):
    operators = [{"op": "Conv"}, {"op": "Tanh"}, {"op": "Add", "only_at_border": True}]
    target, _ = nodes_judged(tmp_path, of_nodes(*operators))
    (row,) = target["outside"]
    assert row["node"] == "the_add" and "may only be where a piece begins or ends" in row["reason"]


def test_merged_models(tmp_path):
    """The graph of each signature is judged as that of a single model."""
    network(tmp_path / "m.onnx")
    (tmp_path / "tiny.json").write_text(json.dumps(with_rule("TANH", {"inputs": "each", "rank": [1, 2]})))
    merge = ("merge", "a=m.onnx", "b=m.onnx", "-o", "both.tflite", "--report", "r.json", "--for")
    assert converter.run("convert", "m.onnx", "--report", "s.json", "--for", "tiny.json", cwd=tmp_path).returncode == 0
    done = converter.run(*merge, "tiny.json", cwd=tmp_path)
    assert done.returncode == 0 and "tiny: " in done.stdout, done
    both, single = (json.loads((tmp_path / name).read_text())["target"] for name in ("r.json", "s.json"))
    assert both["operators"] == 2 * single["operators"] > 0 and both["share"] == pytest.approx(single["share"])
    reasons = [row["reason"] for row in both["outside"]]
    assert reasons and reasons == [row["reason"] for row in single["outside"]]
    assert sum(row["count"] for row in both["outside"]) == 2 * sum(row["count"] for row in single["outside"])
    done = converter.run(*merge, "nnapi", cwd=tmp_path)
    assert done.returncode == 2 and "--for nnapi is a target of ONNX nodes" in done.stderr, done


@pytest.mark.parametrize("name", ["coreml", "nnapi", "tidl"])
def test_shipped_targets_of_nodes(name, tmp_path):
    done = converter.run("convert", network(tmp_path / "m.onnx"), "-o", tmp_path / "m.tflite", "--for", name)
    assert done.returncode == 0 and "of 4 nodes, " in done.stdout + done.stderr, done


def test_the_shipped_rules():
    content = json.loads(GPU.read_text())
    assert json_schema.faults(content, SCHEMA, "target") == []
    assert content["forms"] == "gpu"
    assert all(rule.get("source") for rules in [content["every"], *content["operators"].values()] for rule in rules)


BAD = {
    "version": ({"version": 2}, "it has version 2"),
    "format": ({"format": "x"}, "it is not the description of a target"),
    "of partition": ({"format": "lowtide-target"}, "'operators' is neither a list nor"),
    "unknown field": ({"operator": {}}, "unknown field 'operator'; did you mean 'operators'?"),
    "no object": ({"operators": []}, "'operators' is not an object"),
    "unknown operator": ({"operators": {"CONV2D": []}}, "no operator 'CONV2D'; did you mean 'CONV_2D'?"),
    "unknown condition": ({"every": [{"inputs": 0, "ranks": [1, 2]}]}, "did you mean 'rank'?"),
    "of nothing": ({"every": [{"rank": [1, 2]}]}, "'rank' needs 'inputs' or 'outputs'"),
    "of both": ({"every": [{"inputs": 0, "outputs": 0}]}, "about inputs or about outputs"),
    "negative place": ({"every": [{"inputs": -1}]}, "the place of an operand is -1"),
    "empty range": ({"every": [{"inputs": 0, "rank": [3, 2]}]}, "from 3 to 2: nothing is in it"),
    "computed inputs": ({"every": [{"computed_inputs": [2, 1]}]}, "every: computed_inputs is from 2 to 1"),
    "different inputs": ({"every": [{"different_inputs": 1}]}, "every: different_inputs is neither true nor false"),
    "dtype": ({"every": [{"inputs": 0, "dtypes": ["f33"]}]}, "'f33' is no element type"),
    "no dtypes": ({"every": [{"inputs": 0, "dtypes": []}]}, "'dtypes' lists nothing"),
    "forms": ({"forms": "npu"}, "'forms' is 'npu', not gpu or any"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_descriptions(case, tmp_path):
    change, words = BAD[case]
    (tmp_path / "t.json").write_text(json.dumps(description(**change)))
    model = network(tmp_path / "m.onnx")
    done = converter.run("convert", model, "-o", tmp_path / "m.tflite", "--for", tmp_path / "t.json")
    assert done.returncode == 6 and words in done.stderr and done.stderr.count("\n") == 1, done


def test_bad_names(tmp_path):
    model = network(tmp_path / "m.onnx")
    done = converter.run("convert", model, "-o", tmp_path / "m.tflite", "--for", "gpus")
    assert done.returncode == 2 and "did you mean 'gpu'?" in done.stderr
    assert converter.run("convert", model, "--for", tmp_path / "none.json").returncode == 3
    (tmp_path / "text.json").write_text("{")
    assert "it is not JSON" in converter.run("convert", model, "--for", tmp_path / "text.json").stderr


# A condition of fewer axes than the result: the delegate takes it and fails as a whole, or chooses wrongly (docs/gpu.md).
FAILS_AS_A_WHOLE = {"plain/chosen_by_fewer_axes"}


@pytest.mark.skipif(bool(gpu.absent()), reason=str(gpu.absent()))
@pytest.mark.parametrize("options", [(), ("gpu",)], ids=["any", "gpu"])
def test_the_rules_are_the_delegate_s(options, tmp_path):
    """A model is whole by the rules if the delegate takes it whole."""
    content = {**json.loads(GPU.read_text()), "forms": "any"}
    (tmp_path / "any.json").write_text(json.dumps(content))
    inside, files = {}, []
    for case in CASES:
        if not case.name.startswith("plain/") or case.shapes or (not options and case.name in FAILS_AS_A_WHOLE):
            continue
        onnx.save(case.model(), tmp_path / "m.onnx")
        name = case.name.replace("/", "_")
        target = options[0] if options else str(tmp_path / "any.json")
        command = ("-o", tmp_path / f"{name}.tflite", "--for", target, "--report", tmp_path / f"{name}.json")
        assert converter.run("convert", tmp_path / "m.onnx", *command).returncode == 0
        found = json.loads((tmp_path / f"{name}.json").read_text())["target"]
        inside[case.name] = (found["inside"] == found["operators"], found["outside"])
        files.append(tmp_path / f"{name}.tflite")
    for (name, (whole, outside)), answer in zip(inside.items(), gpu.load_all(files)):
        assert whole == answer.taken, (name, answer.reason, outside)
