# SPDX-License-Identifier: Apache-2.0
"""ONNX's operators say which of their inputs are of one type. From its node suite, for each operator and each such input:
the first case that has it, with another type for that input. A lowering that did not ask would compute with two types at once."""

import functools
import pathlib

import onnx
import pytest
from onnx import TensorProto

from tests.hostile.refusal import refuse, run

NODES = pathlib.Path(onnx.__file__).parent / "backend/test/data/node"
# Only indices or zero points among them, which are read one by one: a mixture has one meaning, and need not be refused.
READ_ONE_BY_ONE = {
    "BatchNormalization",
    "ConvInteger",
    "MatMulInteger",
    "MaxUnpool",
    "MelWeightMatrix",
    "QLinearConv",
    "QLinearMatMul",
    "Slice",
    "STFT",
}


def another(schema, parameter, now):
    """A type that the operator takes there too, and that is not widened to the one that is there."""
    allowed = next((c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == parameter), [])
    names = {
        TensorProto.FLOAT: "float",
        TensorProto.DOUBLE: "double",
        TensorProto.INT32: "int32",
        TensorProto.INT64: "int64",
    }
    return next((kind for kind, name in names.items() if kind != now and f"tensor({name})" in allowed), None)


@functools.cache
def mixtures():
    """(operator, input) -> its case, the name of the input, the other type."""
    found = {}
    for case in sorted(NODES.iterdir()):
        model = onnx.load(case / "model.onnx", load_external_data=False)
        if len(model.graph.node) != 1:
            continue
        node = model.graph.node[0]
        version = next(o.version for o in model.opset_import if o.domain == node.domain)
        if not onnx.defs.has(node.op_type, node.domain):
            continue
        schema = onnx.defs.get_schema(node.op_type, version, node.domain)
        types = {v.name: v.type.tensor_type.elem_type for v in model.graph.input}
        formal = [schema.inputs[min(i, len(schema.inputs) - 1)] for i in range(len(node.input))]
        for i, name in enumerate(node.input):
            others = [
                j
                for j in range(len(node.input))
                if j != i and node.input[j] and formal[j].type_str == formal[i].type_str
            ]
            is_free = (
                formal[i].option == onnx.defs.OpSchema.FormalParameterOption.Variadic and not formal[i].is_homogeneous
            )
            if not others or is_free or types.get(name, 0) == 0 or list(node.input).count(name) > 1:
                continue
            if kind := another(schema, formal[i].type_str, types[name]):
                found.setdefault((node.op_type, i), (case, name, kind))
    return found


@pytest.mark.parametrize("which", mixtures(), ids=lambda which: f"{which[0]}-{which[1]}")
def test_inputs_of_two_types(which, tmp_path, record_property):
    case, name, kind = mixtures()[which]
    model = onnx.load(case / "model.onnx")
    next(v for v in model.graph.input if v.name == name).type.tensor_type.elem_type = kind
    path = tmp_path / "mixed.onnx"
    path.write_bytes(model.SerializeToString())
    if which[0] in READ_ONE_BY_ONE and run(["convert", path, "-o", tmp_path / "m.tflite"]).returncode == 0:
        return
    refuse(path, ("malformed", "unsupported"), [which[0]])
    record_property("hostile files refused", 1)
