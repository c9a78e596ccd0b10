# SPDX-License-Identifier: Apache-2.0
"""Runner: products of integers in ONNX Runtime."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto as T
from onnx import helper

import lowtide
from lowtide import onnx_products


def test_the_model_that_asks_for_saturation():
    model = onnx.load_from_string(onnx_products._model())
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    few = session.run(None, {"x": np.full((64, 64), 1, np.uint8)})[0]  # nothing saturates
    np.testing.assert_array_equal(few, np.full((64, 64), 127 * 64, np.int32))


@pytest.mark.parametrize("share", [False, True], ids=["own zero points", "one zero point"])
def test_products_of_integers_do_not_saturate(tmp_path, share):
    """255 * 127 twice does not fit 16 bits. With one zero point for both weights, ONNX Runtime's exact products fail to load."""
    path = tmp_path / "m.onnx"
    weights = [np.full((1, 3, 3, 3), sign * 127, np.int8) for sign in (1, -1)]
    one, steps = np.float32([1 / 128]), np.float32([150])
    constants = {"s": np.float32(1), "z": np.uint8(0), "sw": one, "sy": steps[0], "zy": np.uint8(128)}
    constants |= {f"w{i}": weights[i] for i in range(2)}
    constants |= {"zw0": np.zeros(1, np.int8)} | ({} if share else {"zw1": np.zeros(1, np.int8)})
    nodes = [helper.make_node("DequantizeLinear", ["x", "s", "z"], ["d"])]
    for i in range(2):
        zero = "zw0" if share else f"zw{i}"
        nodes += [
            helper.make_node("DequantizeLinear", [f"w{i}", "sw", zero], [f"f{i}"], axis=0),
            helper.make_node("Conv", ["d", f"f{i}"], [f"r{i}"]),
            helper.make_node("QuantizeLinear", [f"r{i}", "sy", "zy"], [f"y{i}"]),
        ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", T.UINT8, [1, 3, 5, 4])],
        [helper.make_tensor_value_info(f"y{i}", T.UINT8, [1, 1, 3, 2]) for i in range(2)],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    with lowtide.Runner(path) as runner:
        # A level is avoided only where it saturates.
        assert "level all" in runner.choice or not onnx_products.exact(onnxruntime)
        got = runner.run({"x": np.full((1, 3, 5, 4), 255, np.uint8)})
    whole = round(255 * 127 / 128 * 27 / 150)
    assert got["y0"].min() == got["y0"].max() == min(128 + whole, 255)
    assert got["y1"].min() == got["y1"].max() == max(128 - whole, 0)
