# SPDX-License-Identifier: Apache-2.0
"""Nodes that are computed in fewer bits than the model says are named, and refused with --strict-types."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support import converter, json_schema

SCHEMA = json.loads((converter.ROOT / "schemas/report.schema.json").read_text())
F64, F32, I64 = TensorProto.DOUBLE, TensorProto.FLOAT, TensorProto.INT64


def save(path, nodes, inputs, output, opset=17, **constants):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, dtype, shape) for name, dtype, shape in inputs],
        [helper.make_tensor_value_info("y", output, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return path


def node(operator, inputs, outputs, **attributes):
    return helper.make_node(operator, inputs, outputs, name="the_" + operator.lower(), **attributes)


def sum_of_doubles(path):
    nodes = [node("Add", ["a", "b"], ["t"]), node("Sub", ["t", "b"], ["y"])]
    return save(path, nodes, [("a", F64, [2, 3]), ("b", F64, [2, 3])], F64)


def spectrum_of_doubles(path):  # cast by the lowering itself
    return save(
        path, [node("STFT", ["x", "s", "", "n"], ["y"])], [("x", F64, [2, 40])], F64, s=np.int64(8), n=np.int64(16)
    )


def quotient_of_integers(path):
    return save(path, [node("Div", ["a", "b"], ["y"])], [("a", I64, [2, 3]), ("b", I64, [2, 3])], I64)


def power_of_integers(path):  # ONNX Runtime has f64 for it
    return save(
        path, [node("Pow", ["a", "e"], ["y"])], [("a", TensorProto.INT32, [2, 3]), ("e", F32, [3])], TensorProto.INT32
    )


def both(path):
    nodes = [
        node("Div", ["a", "a"], ["q"]),
        node("Cast", ["q"], ["d"], to=F64),
        node("Mul", ["d", "d"], ["m"]),
        node("Exp", ["m"], ["y"]),
    ]
    return save(path, nodes, [("a", I64, [2, 3])], F64)


NARROWED = {
    "doubles": (sum_of_doubles, [("Add", "f64", "f32"), ("Sub", "f64", "f32")]),
    "lowering": (spectrum_of_doubles, [("STFT", "f64", "f32")]),
    "integers": (quotient_of_integers, [("Div", "i64", "i32")]),
    "power": (power_of_integers, [("Pow", "f64", "f32")]),
    "both": (both, [("Div", "i64", "i32"), ("Mul", "f64", "f32"), ("Exp", "f64", "f32")]),
}


@pytest.mark.parametrize("name", NARROWED)
def test_they_are_named(name, tmp_path, lowtide):
    make, expected = NARROWED[name]
    path = make(tmp_path / "m.onnx")
    done = converter.run("convert", path, "-o", tmp_path / "m.tflite", "--report", tmp_path / "r.json")
    assert done.returncode == 0, done
    report = json.loads((tmp_path / "r.json").read_text())
    assert json_schema.faults(report, SCHEMA, "report") == []
    assert [(n["operator"], n["from"], n["to"]) for n in report["narrowed_nodes"]] == expected
    assert [n["node"] for n in report["narrowed_nodes"]] == ["the_" + operator.lower() for operator, _, _ in expected]
    (line,) = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("computed in fewer bits")]
    for source in {source for _, source, _ in expected}:
        of = [operator for operator, other, _ in expected if other == source]
        assert f"{len(of)} node{'s' if len(of) > 1 else ''} of {source} in" in line
        assert f"(first: {of[0]} 'the_{of[0].lower()}')" in line


@pytest.mark.parametrize("name", NARROWED)
def test_strict_types_refuses_them(name, tmp_path, lowtide):
    make, expected = NARROWED[name]
    path = make(tmp_path / "m.onnx")
    done = converter.run("convert", path, "-o", tmp_path / "m.tflite", "--strict-types")
    assert done.returncode == 8 and not (tmp_path / "m.tflite").exists()
    for operator, source, to in expected:
        assert f"the_{operator.lower()}" in done.stderr
        assert f"it would be computed in {to}; its data are {source}" in done.stderr


@pytest.mark.parametrize(
    "make",
    [
        lambda path: save(path, [node("Add", ["a", "a"], ["y"])], [("a", F32, [2, 3])], F32),
        lambda path: save(path, [node("Add", ["a", "a"], ["y"])], [("a", I64, [2, 3])], I64),
        # A cast that the model asks for, and indices.
        lambda path: save(path, [node("Cast", ["a"], ["y"], to=F32)], [("a", F64, [2, 3])], F32),
        lambda path: save(path, [node("Gather", ["a", "i"], ["y"])], [("a", F32, [5, 3]), ("i", I64, [4])], F32),
        # Moved elements that other operators than the usual ones move in 64 bits.
        lambda path: save(
            path,
            [
                node("Gather", ["a", "i"], ["g"]),
                node("Gather", ["a", "j"], ["h"]),
                node("Where", ["c", "g", "h"], ["y"]),
            ],
            [("a", F64, [2, 3])],
            F64,
            i=np.int64(0),
            j=np.int64(1),
            c=np.array([True, False, True]),
        ),
        lambda path: save(
            path, [node("Split", ["a"], ["y", "z"], axis=0, num_outputs=2)], [("a", F64, [3, 2])], F64, opset=18
        ),
        lambda path: save(
            path,
            [node("Pad", ["a", "p"], ["y"], mode="reflect")],
            [("a", F64, [3, 4])],
            F64,
            p=np.array([1, 0, 2, 3], np.int64),
        ),
        lambda path: save(
            path,
            [node("Pad", ["a", "p"], ["y"], mode="edge")],
            [("a", F64, [3, 4])],
            F64,
            p=np.array([1, 0, 1, 1], np.int64),
        ),
        # The product is removed, and SPLIT would have no f64.
        lambda path: save(
            path,
            [node("Mul", ["a", "one"], ["m"]), node("Split", ["m"], ["y", "z"], axis=1)],
            [("a", F64, [3, 4])],
            F64,
            one=np.array(1.0),
        ),
    ],
    ids=[
        "floats",
        "integers with a kernel",
        "cast",
        "indices",
        "places",
        "parts",
        "reflected",
        "edge",
        "product with 1",
    ],
)
def test_nothing_else_is_named(make, tmp_path, lowtide):
    path = make(tmp_path / "m.onnx")
    done = converter.run("convert", path, "-o", tmp_path / "m.tflite", "--strict-types")
    assert done.returncode == 0 and "fewer bits" not in done.stdout + done.stderr, done
