# SPDX-License-Identifier: Apache-2.0
"""What XNNPACK must take whole: an op that it leaves out divides the model into parts, with a copy between them."""

import onnx.parser
import pytest
from ai_edge_litert.interpreter import Interpreter

from tests.support import converter

GRAPHS = {
    "slice": "float[2,4,6,8] x",
    "slice_of_unknown_sizes": "float[N,4,W,8] x",
    "slice_along_an_unknown_axis": "float[2,4,6,W] x",
}


@pytest.mark.parametrize("name", GRAPHS)
def test_slices_are_delegated(name, tmp_path):
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g ({GRAPHS[name]}) => (float[] y) <int64[2] from = {{1, 2}}, int64[2] to = {{3, 9223372036854775807}}, int64[2] axes = {{1, 3}}>
        {{
          r = Exp(x)
          s = Slice(r, from, to, axes)
          y = Exp(s)
        }}"""
    )
    onnx.save(model, tmp_path / "model.onnx")
    assert converter.convert(tmp_path / "model.onnx", tmp_path / "model.tflite").status == "converted"
    interpreter = Interpreter(str(tmp_path / "model.tflite"))
    interpreter.allocate_tensors()
    operators = interpreter._get_ops_details()
    delegates = [op for op in operators if op["op_name"] == "DELEGATE"]
    assert len(delegates) == 1, [op["op_name"] for op in operators]
    made = {output for op in operators if op["op_name"] != "DELEGATE" for output in op["outputs"]}
    assert not made & set(delegates[0]["inputs"])
