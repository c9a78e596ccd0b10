# SPDX-License-Identifier: Apache-2.0
"""IR version 3, in which each initializer is also an input of its graph, of the bodies of If, Loop and Scan too.

ONNX's checker demands the list; the nodes give the bodies the other inputs only.
"""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.oracle.test_interface_options import agree
from tests.oracle.test_merge import run_signatures
from tests.support import converter, judge

FLOAT, BOOL, INT64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64
value, node = helper.make_tensor_value_info, helper.make_node


def graph(name, nodes, inputs, outputs, **constants):
    """With the constants, in the list of inputs before and between the others."""
    tensors = [numpy_helper.from_array(array, key) for key, array in constants.items()]
    listed = [value(tensor.name, tensor.data_type, tensor.dims) for tensor in tensors]
    return helper.make_graph(nodes, name, listed[:1] + inputs[:1] + listed[1:] + inputs[1:], outputs, tensors)


def numbers(*values):
    return np.array(values, np.float32)


def branches():
    def branch(name, k, t):
        nodes = [node("Add", ["h", k], [t]), node("Mul", [t, f"{k}2"], [f"{name}_out"])]
        constants = {k: numbers(1, 2, 3) * len(name), f"{k}2": numbers(0.5)}
        return graph(name, nodes, [], [value(f"{name}_out", FLOAT, [2, 3])], **constants)

    return [node("If", ["c"], ["r"], then_branch=branch("yes", "k", "t"), else_branch=branch("otherwise", "l", "u"))]


def loop(trips="n"):
    nodes = [
        node("Add", ["v", "k"], ["a"]),
        node("Mul", ["a", "k2"], ["v2"]),
        node("Identity", ["go"], ["goes"]),
    ]
    inputs = [value("i", INT64, []), value("go", BOOL, []), value("v", FLOAT, [2, 3])]
    outputs = [value("goes", BOOL, []), value("v2", FLOAT, [2, 3])]
    body = graph("body", nodes, inputs, outputs, k=numbers(1, 2, 3), k2=numbers(0.5))
    return [node("Loop", [trips, "", "h"], ["r"], body=body)]


def scan():
    nodes = [node("Add", ["s", "row"], ["a"]), node("Mul", ["a", "k"], ["s2"]), node("Neg", ["s2"], ["o"])]
    inputs = [value("s", FLOAT, [3]), value("row", FLOAT, [3])]
    outputs = [value("s2", FLOAT, [3]), value("o", FLOAT, [3])]
    body = graph("body", nodes, inputs, outputs, k=numbers(1, 2, 3), unused=numbers(4))
    return [node("Scan", ["zero", "h"], ["last", "r"], body=body, num_scan_inputs=1)]


def loop_in_a_branch():
    def branch(name, nodes):
        return graph(name, nodes, [], [value(nodes[0].output[0], FLOAT, [2, 3])], **{f"{name}_k": numbers(2)})

    inner = loop("three")[0]
    inner.output[0] = "inner"
    other = node("Mul", ["h", "no_k"], ["other"])
    return [node("If", ["c"], ["r"], then_branch=branch("yes", [inner]), else_branch=branch("no", [other]))]


MAKERS = [branches, loop, scan, loop_in_a_branch]


@pytest.fixture(params=MAKERS, ids=lambda make: make.__name__)
def model(request, tmp_path):
    nodes = [node("Sin", ["x"], ["h"]), *request.param(), node("Abs", ["r"], ["y"])]
    used = {name for one in nodes for name in one.input}
    inputs = [value("x", FLOAT, [2, 3]), value("c", BOOL, []), value("n", INT64, [])]
    inputs = [info for info in inputs if info.name in used]
    constants = {"zero": numbers(0, 0, 0), "three": np.array(3)}
    whole = graph("g", nodes, inputs, [value("y", FLOAT, [2, 3])], **constants)
    whole.value_info.append(value("h", FLOAT, [2, 3]))
    made = helper.make_model(whole, opset_imports=[helper.make_opsetid("", 9)], ir_version=3)
    onnx.checker.check_model(made)
    onnx.save(made, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def feeds(path):
    x = np.random.default_rng(0).uniform(-1, 1, (2, 3)).astype(np.float32)
    taken = {info.name for info in onnx.load(path).graph.input}
    for flag, count in [(True, 3), (False, 1)]:
        yield {k: v for k, v in {"x": x, "c": np.array(flag), "n": np.array(count)}.items() if k in taken}


def test_bodies_are_converted(model, tmp_path, litert, lowtide):
    done = converter.convert(model, tmp_path / "m.tflite")
    assert done.status == "converted", done
    for arrays in feeds(model):
        agree(tmp_path / "m.tflite", arrays, judge.reference(model, arrays), litert)


def test_parts_are_valid(model, tmp_path, lowtide):
    part = tmp_path / "part.onnx"
    begin = ["h", *({info.name for info in onnx.load(model).graph.input} & {"c", "n"})]
    assert converter.run("extract", model, f"--from={','.join(begin)}", "--to=y", "-o", part).returncode == 0
    onnx.checker.check_model(str(part))
    for arrays in feeds(model):
        given = {"h": np.sin(arrays["x"]), **{k: v for k, v in arrays.items() if k in ("c", "n")}}
        np.testing.assert_allclose(judge.reference(part, given)["y"], judge.reference(model, arrays)["y"], rtol=1e-6)


def test_pieces_are_valid(model, tmp_path, lowtide):
    kinds = {one.op_type for one in onnx.load(model).graph.node} & {"If", "Loop", "Scan"}
    options = [f"--exclude-op={kind}" for kind in kinds]
    assert converter.run("partition", model, "-o", tmp_path / "p", "--prefer", "fewest", *options).returncode == 0
    pieces = [piece["file"] for piece in json.loads((tmp_path / "p/manifest.json").read_text())["pieces"]]
    in_onnx = [tmp_path / "p" / name for name in pieces if name.endswith(".onnx")]
    assert in_onnx
    for piece in in_onnx:
        onnx.checker.check_model(str(piece))
        assert onnx.load(piece).ir_version == 3
        (made,) = [one for one in onnx.load(piece).graph.node if one.op_type in kinds]
        assert made in onnx.load(model).graph.node


def test_a_signature_of_each(model, tmp_path, litert, lowtide):
    done = converter.run("merge", f"a={model}", f"b={model}", "-o", tmp_path / "m.tflite")
    assert done.returncode == 0, done
    for arrays in feeds(model):
        expected = judge.reference(model, arrays)["y"]
        for got in run_signatures(tmp_path / "m.tflite", "interpreter", {"a": arrays, "b": arrays}).values():
            np.testing.assert_allclose(got["y"], expected, rtol=1e-5)


def test_a_list_that_disagrees_is_refused(tmp_path, lowtide):
    nodes = [node("Sin", ["x"], ["h"]), *loop()]
    body = nodes[1].attribute[0].g
    body.input[0].CopyFrom(value("k", FLOAT, [4]))
    inputs = [value("x", FLOAT, [2, 3]), value("n", INT64, [])]
    whole = graph("g", nodes, inputs, [value("r", FLOAT, [2, 3])])
    onnx.save(helper.make_model(whole, opset_imports=[helper.make_opsetid("", 9)], ir_version=3), tmp_path / "m.onnx")
    done = converter.convert(tmp_path / "m.onnx", tmp_path / "m.tflite")
    assert done.status == "refused", done
    assert "the initializer 'k' is f32[3], and the graph's inputs list it as f32[4] [malformed]" in done.reason
