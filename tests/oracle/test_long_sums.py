# SPDX-License-Identifier: Apache-2.0
"""Sums and means of very many floats keep their digits, in LiteRT's own kernels and in XNNPACK: judged by numpy in f64."""

import numpy as np
import onnx.parser
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from tests.support import converter

# name: shape, axes, whether axes are kept
REDUCTIONS = {
    "all_axes": ((3, 70, 500, 3), (0, 1, 2, 3), 0),
    "image": ((2, 500, 401, 3), (1, 2), 1),
    "one_axis": ((2, 200_000, 3), (1,), 0),
    "one_axis_of_a_prime_factor": ((2 * 65_537,), (0,), 1),
    "long_beside_one": ((1, 140_000), (0, 1), 0),
}


@pytest.mark.parametrize("resolver", [OpResolverType.AUTO, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES])
@pytest.mark.parametrize("operator", ["ReduceMean", "ReduceSum", "ReduceL2"])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_long_sums(name, operator, resolver, tmp_path):
    shape, axes, keep = REDUCTIONS[name]
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 18]>
        g (float[{",".join(map(str, shape))}] x) => (float[] y) <int64[{len(axes)}] axes = {{{",".join(map(str, axes))}}}>
        {{ y = {operator} <keepdims = {keep}> (x, axes) }}"""
    )
    onnx.save(model, tmp_path / "model.onnx")
    assert converter.convert(tmp_path / "model.onnx", tmp_path / "model.tflite").status == "converted"
    x = np.random.default_rng(5).random(shape, np.float32) + np.float32(1)
    interpreter = Interpreter(str(tmp_path / "model.tflite"), experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    found = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    wide = x.astype(np.float64)
    kept = dict(axis=axes, keepdims=bool(keep))
    expected = {
        "ReduceMean": lambda: wide.mean(**kept),
        "ReduceSum": lambda: wide.sum(**kept),
        "ReduceL2": lambda: np.sqrt(np.square(wide).sum(**kept)),
    }[operator]()
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=2e-5 if "prime" in name else 3e-6)


@pytest.mark.parametrize("mean", ["ReduceMean<axes=[2,3]>", "GlobalAveragePool"])
def test_long_means_of_integers_stay_in_an_integer_kernel(mean, tmp_path):
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (uint8[1,3,300,301] x) => (uint8[] y) <float s = {{0.02}}, uint8 z = {{120}}, float t = {{0.01}}, uint8 w = {{128}}>
        {{
          d = DequantizeLinear(x, s, z)
          m = {mean}(d)
          y = QuantizeLinear(m, t, w)
        }}"""
    )
    onnx.save(model, tmp_path / "model.onnx")
    done = converter.convert(tmp_path / "model.onnx", tmp_path / "model.tflite", ["--require-integer"])
    assert done.status == "converted", done.reason
