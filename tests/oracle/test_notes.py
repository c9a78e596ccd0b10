# SPDX-License-Identifier: Apache-2.0
"""Operators and attributes that are newer than the model's opset: converted with the meaning of the first opset that has
them, and named in a note."""

import json

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import helper, numpy_helper

from tests.support import converter, judge
from tests.support.compare import RangeTolerance
from tests.support.inputs import random_inputs

CONSTANTS = {
    "q": np.arange(-12, 12, dtype=np.int8).reshape(2, 12),
    "s": np.linspace(0.5, 2, 12, dtype=np.float32),
    "z": np.zeros(12, np.int8),
    "f": np.linspace(0.5, 2, 4, dtype=np.float32),
    "b": np.linspace(-1, 1, 4, dtype=np.float32),
}

# The graph, the opset that is declared, one that has all of it, and the notes.
NEWER = {
    "operator": (
        "g (float[2,3] x) => (float[2,3] y) { y = Celu<alpha=0.5>(x) }",
        10,
        12,
        ["operator Celu is new in opset 12, the model declares opset 10: taken as in opset 12 (node 'y')"],
    ),
    "operator with an attribute": (
        "g (float[2,3,4] x) => (float[2,3,4] y) { y = LayerNormalization<stash_type=1>(x, f, b) }",
        16,
        17,
        [
            "operator LayerNormalization is new in opset 17, the model declares opset 16: taken as in opset 17 (node 'y')"
        ],
    ),
    "attribute": (
        "g (float[1,2,9,9] x) => (float[1,2,5,5] y) { y = AveragePool<kernel_shape=[3,3],dilations=[2,2]>(x) }",
        11,
        19,
        [
            "attribute 'dilations' of AveragePool is new in opset 19, the model declares opset 11: taken as in opset 19 (node 'y')"
        ],
    ),
    "axis": (
        "g () => (float[2,12] y) { y = DequantizeLinear<axis=1>(q, s, z) }",
        10,
        13,
        [
            "attribute 'axis' of DequantizeLinear is new in opset 13, the model declares opset 10: taken as in opset 13 (node 'y')"
        ],
    ),
    "several nodes": (
        "g (float[2,3] x) => (float[2,3] y) { k = Celu(x) n = Celu(k) y = LeakyRelu(n) }",
        11,
        12,
        [
            "operator Celu is new in opset 12, the model declares opset 11: taken as in opset 12 (2 nodes, the first is 'k')"
        ],
    ),
    "a branch": (
        """g (bool c, float[2,3] x) => (float[2,3] y) { y = If (c) <
                    then_branch = g1 () => (float[2,3] t) { t = Celu(x) }, else_branch = g2 () => (float[2,3] e) { e = Neg(x) }> }""",
        11,
        16,
        ["operator Celu is new in opset 12, the model declares opset 11: taken as in opset 12 (node 't')"],
    ),
    "nothing": ("g (float[2,3] x) => (float[2,3] y) { y = Celu(x) }", 12, 12, []),
}


def model(text, opset):
    graph = onnx.parser.parse_graph(text)
    names = {name for node in graph.node for name in node.input}
    for name, value in CONSTANTS.items():
        if name in names:
            graph.initializer.append(numpy_helper.from_array(value, name))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.mark.parametrize("name", NEWER)
def test_note_and_answer(name, tmp_path, litert, lowtide):
    text, declared, complete, notes = NEWER[name]
    path, tflite, report = (tmp_path / f for f in ("model.onnx", "model.tflite", "report.json"))
    onnx.save(model(text, declared), path)
    conversion = converter.convert(path, tflite, ["--report", report])
    assert conversion.status == "converted", conversion.reason
    assert [line[6:] for line in conversion.stdout.splitlines() if line.startswith("note: ")] == notes
    assert json.loads(report.read_text())["notes"] == notes
    whole = model(text, complete)
    arrays = random_inputs(whole)
    verdict = judge.judge_outputs(
        tflite, arrays, judge.reference(whole.SerializeToString(), arrays), RangeTolerance(), litert
    )
    assert verdict.passed, str(verdict)


AXES = "int64[1] a = {1}"
NEWER_INPUTS = {
    "Clip": ("y = Clip(x, l, h)", "float l = {-1}, float h = {1}", 10, 1, "min", 11),
    "Clip's maximum alone": ("y = Clip(x, , h)", "float h = {1}", 10, 2, "max", 11),
    "ReduceMax": ("y = ReduceMax(x, a)", AXES, 17, 1, "axes", 18),
    "ReduceSum": ("y = ReduceSum(x, a)", AXES, 12, 1, "axes", 13),
    "Squeeze": ("y = Squeeze(x, a)", AXES, 12, 1, "axes", 13),
    "Split": ("y, z = Split(x, s)", "int64[2] s = {1, 1}", 11, 1, "split", 13),
    "Pad": ("y = Pad(x, p, , a)", "int64[2] p = {1, 2}, int64[1] a = {1}", 17, 3, "axes", 18),
}


def with_newer_input(name):
    node, constants, opset, index, argument, since = NEWER_INPUTS[name]
    head = f'<ir_version: 8, opset_import: ["": {opset}]>'
    reason = f"input {index} ('{argument}') is new in opset {since}; the node is of opset {opset}"
    return onnx.parser.parse_model(f"{head} g (float[2,1,3] x) => (float y) <{constants}> {{ {node} }}"), reason


@pytest.mark.parametrize("name", NEWER_INPUTS)
def test_a_newer_input(name, tmp_path, lowtide):
    path = tmp_path / "model.onnx"
    made, reason = with_newer_input(name)
    onnx.save(made, path)
    conversion = converter.convert(path, tmp_path / "model.tflite")
    assert conversion.status == "refused" and reason in conversion.reason, conversion.reason


# A node of a function is of the function's opset.
@pytest.mark.parametrize("opset, status", [(10, "refused"), (11, "converted")])
def test_a_newer_input_in_a_function(opset, status, tmp_path, lowtide):
    path = tmp_path / "model.onnx"
    text = f"""<ir_version: 8, opset_import: ["": {21 - opset}, "local": 1]>
        g (float[2,3] x, float l, float h) => (float[2,3] y) {{ y = local.f (x, l, h) }}
        <domain: "local", opset_import: ["": {opset}]>
        f (p, l, h) => (q) {{ q = Clip(p, l, h) }}"""
    onnx.save(onnx.parser.parse_model(text), path)
    assert converter.convert(path, tmp_path / "model.tflite").status == status


def judged(tmp_path, litert, model):
    """The notes of a conversion that answers as ONNX Runtime does."""
    path, tflite, report = (tmp_path / f for f in ("model.onnx", "model.tflite", "report.json"))
    onnx.save(model, path)
    conversion = converter.convert(path, tflite, ["--report", report])
    assert conversion.status == "converted", conversion.reason
    arrays = random_inputs(model)
    verdict = judge.judge_outputs(
        tflite, arrays, judge.reference(model.SerializeToString(), arrays), RangeTolerance(), litert
    )
    assert verdict.passed, str(verdict)
    return json.loads(report.read_text())["notes"]


# Softmax of opset 11 sums over two axes here, that of opset 13 over one.
@pytest.mark.parametrize("domains", [("", ""), ("", "ai.onnx"), ("ai.onnx", "")])
@pytest.mark.parametrize("versions", [(11, 13), (13, 11)])
def test_the_last_import_of_a_domain_counts(domains, versions, tmp_path, litert, lowtide):
    made = model("g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax<axis=1>(x) }", versions[0])
    made.opset_import[0].domain = domains[0]
    made.opset_import.append(helper.make_opsetid(domains[1], versions[1]))
    assert judged(tmp_path, litert, made) == [
        f"domain 'ai.onnx' is imported with opset {versions[0]} and again with opset {versions[1]}: "
        "the last one counts, as in ONNX Runtime"
    ]


def test_a_newer_file_format_is_noted(tmp_path, litert, lowtide):
    made = model("g (float[2,3] x) => (float[2,3] y) { y = Celu(x) }", 12)
    made.ir_version = onnx.IR_VERSION + 1
    assert [note[:10] for note in judged(tmp_path, litert, made)] == ["ir_version"]


def test_quiet_prints_no_notes(tmp_path, lowtide):
    path = tmp_path / "model.onnx"
    onnx.save(model(*NEWER["operator"][:2]), path)
    conversion = converter.convert(path, tmp_path / "model.tflite", ["--quiet"])
    assert conversion.status == "converted" and not conversion.stdout and not conversion.stderr
