# SPDX-License-Identifier: Apache-2.0
"""--layout NAME=nhwc: the conversion equals that of the model with a Transpose at that border."""

import onnx
import pytest
from onnx import helper

from tests.support import converter, judge
from tests.support.case import Case
from tests.support.inputs import random_inputs

W, V = {"w": (4, 3, 3, 2)}, {"v": (6, 4, 2, 3)}
CASES = [
    (Case("layout/input", "float[2,3,7,9] x", "y = Conv(x, w)", W), ["x"]),
    (Case("layout/output", "float[2,3,7,9] x", "y = Conv(x, w)", W), ["y"]),
    (Case("layout/both", "float[2,3,7,9] x", "c = Conv(x, w) r = Relu(c) y = Conv(r, v)", {**W, **V}), ["x", "y"]),
    (Case("layout/one_of_two_inputs", "float[2,3,7,9] x, float[2,4,5,8] z", "c = Conv(x, w) y = Add(c, z)", W), ["z"]),
    (
        Case(
            "layout/one_of_two_outputs",
            "float[2,3,7,9] x",
            "c = Conv(x, w) y = Relu(c) z = Softmax<axis=1>(c)",
            W,
            outputs="y, z",
        ),
        ["z"],
    ),
    (Case("layout/twin_outputs", "float[2,3,7,9] x", "y = Conv(x, w) z = Identity(y)", W, outputs="y, z"), ["z"]),
    (
        Case("layout/input_is_output", "float[2,3,7,9] x", "y = Identity(x) z = Conv(x, w)", W, outputs="y, z"),
        ["x", "z"],
    ),
    (Case("layout/output_of_input", "float[2,3,7,9] x", "y = Identity(x)"), ["y"]),
    (
        Case(
            "layout/constant_output",
            "float[2,3,7,9] x",
            "y = Conv(x, w) z = Identity(k)",
            {**W, "k": (2, 3, 4, 5)},
            outputs="y, z",
        ),
        ["z"],
    ),
    (
        Case("layout/transposed_already", "float[2,3,7,9] x", "c = Conv(x, w) y = Transpose<perm=[0,3,1,2]>(c)", W),
        ["x", "y"],
    ),
    (
        Case(
            "layout/flatten", "float[2,3,7,9] x", "c = Conv(x, w) f = Flatten(c) y = MatMul(f, u)", {**W, "u": (160, 5)}
        ),
        ["x"],
    ),
    (Case("layout/one_dimension", "float[2,3,9] x", "y = Conv(x, w)", {"w": (4, 3, 2)}), ["x", "y"]),
    (Case("layout/three_dimensions", "float[1,3,5,6,7] x", "y = Conv(x, w)", {"w": (4, 3, 2, 3, 2)}), ["x", "y"]),
    (
        Case("layout/dynamic", "float[N,3,7,9] x", "y = Conv(x, w)", W, shapes={"N": 2}, outputs="float[N,4,5,8] y"),
        ["x", "y"],
    ),
    (Case("layout/integers", "int32[2,3,7,9] x", "y = Neg(x)"), ["x"]),
]


def with_borders(model, names):
    """The model whose inputs and outputs `names` have their channels last."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    graph = model.graph
    for port in [*graph.input, *graph.output]:
        if port.name not in names:
            continue
        rank = len(port.type.tensor_type.shape.dim)
        dims = [
            onnx.TensorShapeProto.Dimension.FromString(d.SerializeToString()) for d in port.type.tensor_type.shape.dim
        ]
        del port.type.tensor_type.shape.dim[:]
        port.type.tensor_type.shape.dim.extend([dims[0], *dims[2:], dims[1]])
        inner = port.name + "/first"
        for node in graph.node:
            for slots in (node.input, node.output):
                for i, name in enumerate(slots):
                    if name == port.name:
                        slots[i] = inner
        if any(port.name == i.name for i in graph.input):
            graph.node.insert(
                0, helper.make_node("Transpose", [port.name], [inner], perm=[0, rank - 1, *range(1, rank - 1)])
            )
        else:
            graph.node.append(helper.make_node("Transpose", [inner], [port.name], perm=[0, *range(2, rank), 1]))
    onnx.checker.check_model(model)
    return model


@pytest.mark.parametrize("case, names", CASES, ids=lambda value: getattr(value, "name", None))
def test_pinned_order(case, names, tmp_path, litert, lowtide):
    model, path, wanted = case.model(), tmp_path / "model.onnx", tmp_path / "wanted.onnx"
    onnx.save(model, path)
    onnx.save(with_borders(model, names), wanted)
    done = converter.convert(path, tmp_path / "model.tflite", [f"--layout={name}=nhwc" for name in names])
    assert done.status == "converted", done.reason
    arrays = random_inputs(onnx.load(wanted), case.shapes, case.ranges)
    verdict = judge.judge_file(wanted, tmp_path / "model.tflite", arrays=arrays, litert=litert)
    assert verdict.passed, str(verdict)


def test_a_network_between_pinned_borders_needs_no_transpose(tmp_path, lowtide):
    case = Case("layout/network", "float[2,3,7,9] x", "c = Conv(x, w) r = Relu(c) y = Conv(r, v)", {**W, **V})
    onnx.save(case.model(), tmp_path / "model.onnx")
    done = converter.convert(tmp_path / "model.onnx", tmp_path / "model.tflite", ["--layout=x=nhwc", "--layout=y=nhwc"])
    assert done.status == "converted", done.reason
    assert judge.read_tflite(tmp_path / "model.tflite").operators["TRANSPOSE"] == 0


@pytest.mark.parametrize("option", ["z=nhwc", "x=chwn", "k=nhwc", "x"])
def test_what_cannot_be_pinned_is_refused(option, tmp_path, lowtide):
    case = Case("layout/refused", "float[2,3,7,9] x, float[5,4] k", "y = Relu(x) z2 = Neg(k)", outputs="y, z2")
    onnx.save(case.model(), tmp_path / "model.onnx")
    done = converter.convert(tmp_path / "model.onnx", tmp_path / "model.tflite", [f"--layout={option}"])
    assert done.status == "refused" and "--layout" in done.reason, done.reason
