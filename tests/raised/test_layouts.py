# SPDX-License-Identifier: Apache-2.0
"""TFLite to ONNX: --layout of states and of tensors with scales of an axis, which are turned as a whole. LiteRT is the
judge."""

import numpy as np
import pytest

from tests.raised.judge_raised import raised, run_litert, run_onnx, runs_of_litert, runs_of_onnx
from tests.raised.test_control_flow import binary
from tests.raised.test_passed_variables import assign, first_values, handle, read
from tests.raised.tflite_models import Model
from tests.support import converter


def running_total(path, shape):
    """y = total + x, which is the next run's total."""
    m = Model()
    first_values(m, total=(np.arange(np.prod(shape), dtype=np.float32).reshape(shape), "f32"))
    x, held = m.input(shape), handle(m)
    y = binary(m, "ADD", read(m, held, shape), x, shape)
    assign(m, held, y)
    m.write(path, [y])


# With equal extents only the numbers tell one order from the other.
@pytest.mark.parametrize("shape", [(1, 3, 3, 3), (1, 5, 4, 3)], ids=str)
@pytest.mark.parametrize("options", [["total=nchw"], ["total=nchw", "total_out=nchw"]], ids=["input", "both"])
def test_a_state_is_turned_as_a_whole(shape, options, tmp_path):
    running_total(tmp_path / "m.tflite", shape)
    model = raised(tmp_path / "m.tflite", [word for option in options for word in ("--layout", option)])
    turned = [shape[i] for i in (0, 3, 1, 2)]
    for port in (model.graph.input[1], model.graph.output[1]):
        assert [dim.dim_value for dim in port.type.tensor_type.shape.dim] == turned, port
    values = [[np.random.default_rng(seed).standard_normal(shape).astype(np.float32)] for seed in range(3)]
    wanted = runs_of_litert(tmp_path / "m.tflite", values)
    made = runs_of_onnx(tmp_path / "m.onnx", values, {"total_out": "total"})
    for a, b in zip(wanted, made, strict=True):
        for name, expected in a.items():
            assert np.allclose(b[name], expected, rtol=0, atol=1e-5), name


@pytest.mark.parametrize("options", [["total_out=nchw"], ["total=nchw", "total_out=nhwc"]], ids=" ".join)
def test_what_a_run_leaves_has_the_order_of_its_input(options, tmp_path):
    running_total(tmp_path / "m.tflite", (1, 3, 3, 3))
    words = [word for option in options for word in ("--layout", option)]
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx", *words)
    assert done.returncode == 2 and "it is the next run's input 'total', which has the order" in done.stderr, done


def test_scales_of_an_axis_are_turned_with_it(tmp_path):
    m = Model()
    scales, shape = [0.5, 0.25, 2.0], (1, 4, 5, 3)
    y = m.op("DEQUANTIZE", [m.input(shape, "i8", scale=scales, axis=3)], shape)
    m.write(tmp_path / "m.tflite", [y])
    raised(tmp_path / "m.tflite", ["--layout", "x0=nchw"])
    names, values, ((name, wanted, _),) = run_litert(tmp_path / "m.tflite")
    made = run_onnx(tmp_path / "m.onnx", names, [values[0].transpose(0, 3, 1, 2)])
    assert np.array_equal(made[name], wanted)
