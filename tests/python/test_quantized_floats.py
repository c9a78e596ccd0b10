# SPDX-License-Identifier: Apache-2.0
"""convert --quantize: which operators stay in floats although an integer kernel exists, and that nothing pulls them back."""

import numpy as np
import pytest
from onnx import helper

from tests.python.test_quantized_masks import quantized

node = helper.make_node


def random(*shape, seed=0, width=None):
    return (
        np.random.default_rng(seed).normal(size=shape) * (width or shape[0] ** -0.5)
    ).astype(np.float32)


def islands(done):
    """Of each operator in floats: kind, node, reason."""
    return [
        (one["operator"], one["node"], one["reason"])
        for one in done.report["integers"]["float_islands"]
    ]


# ---- --keep-float ----

IMAGE = [1, 8, 8, 6]
KEPT = {
    "ADD": [node("Add", ["c", "d"], ["r"])],
    "AVERAGE_POOL_2D": [
        node("AveragePool", ["c"], ["r"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    ],
    "BATCH_MATMUL": [node("MatMul", ["c", "d"], ["r"])],
    "CONCATENATION": [node("Concat", ["c", "d"], ["r"], axis=1)],
    "CONV_2D": [node("Conv", ["c", "inner"], ["r"])],
    "HARD_SWISH": [node("HardSwish", ["c"], ["r"])],
    "LEAKY_RELU": [node("LeakyRelu", ["c"], ["r"])],
    "LOGISTIC": [node("Sigmoid", ["c"], ["r"])],
    "LOG_SOFTMAX": [node("LogSoftmax", ["c"], ["r"], axis=1)],
    "MAXIMUM": [node("Max", ["c", "d"], ["r"])],
    "MAX_POOL_2D": [
        node("MaxPool", ["c"], ["r"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    ],
    "MEAN": [node("ReduceMean", ["c"], ["r"], axes=[2, 3])],
    "MUL": [node("Mul", ["c", "d"], ["r"])],
    "PRELU": [node("PRelu", ["c", "slopes"], ["r"])],
    "RELU": [node("Concat", ["c", "d"], ["b"], axis=1), node("Relu", ["b"], ["r"])],
    "RESHAPE": [node("Reshape", ["c", "shape"], ["r"])],
    "SELECT_V2": [node("Where", ["chosen", "c", "d"], ["r"])],
    "SOFTMAX": [node("Softmax", ["c"], ["r"], axis=1)],
    "SUB": [node("Sub", ["c", "d"], ["r"])],
    "TANH": [node("Tanh", ["c"], ["r"])],
    "UNPACK": [node("Split", ["c"], ["r", "rest"], axis=1)],
}


@pytest.mark.parametrize("tables", [False, True], ids=["kernels", "tables"])
@pytest.mark.parametrize("quantize", ["int8", "int16x8"])
@pytest.mark.parametrize("name", KEPT)
def test_what_is_kept_in_floats(tmp_path, name, quantize, tables):
    """Between convolutions in integers."""
    tensors = {
        "w1": random(8, 3, 1, 1),
        "w2": random(8, 3, 1, 1, seed=1),
        "inner": random(8, 8, 1, 1, seed=2),
    }
    tensors |= {
        "w3": random(
            5, {"CONCATENATION": 16, "RELU": 16, "UNPACK": 4}.get(name, 8), 1, 1, seed=3
        )
    }
    tensors |= {
        "slopes": np.full((8, 1, 1), 0.3, np.float32),
        "chosen": np.arange(6) % 2 == 0,
    }
    tensors["shape"] = np.array([1, 8, 6, 8] if name == "RESHAPE" else IMAGE)
    middle = KEPT[name]
    kept = helper.make_node(
        middle[-1].op_type, list(middle[-1].input), list(middle[-1].output), name="kept"
    )
    kept.attribute.extend(middle[-1].attribute)
    side = {"BATCH_MATMUL": [1, 3, 6, 6]}.get(name, [1, 3, 8, 6])
    nodes = [
        node("Conv", ["x", "w1"], ["c"]),
        node("Conv", ["x2", "w2"], ["d"]),
        *middle[:-1],
        kept,
    ]
    nodes += [node("Conv", ["r", "w3"], ["y"])]
    result = {"MEAN": [1, 5, 1, 1], "RESHAPE": [1, 5, 6, 8]}.get(name, [1, 5, 8, 6])
    samples = [
        {
            "x": random(1, 3, 8, 6, seed=i, width=1),
            "x2": random(*side, seed=9 + i, width=1),
        }
        for i in range(4)
    ]
    ports = (
        [("x", "float32", [1, 3, 8, 6]), ("x2", "float32", side)],
        [("y", "float32", result)],
    )
    found, done = quantized(
        tmp_path,
        nodes,
        *ports,
        tensors,
        samples,
        quantize=quantize,
        tables=tables,
        keep_float=["kept"],
    )
    assert "--keep-float names it" in [
        reason for _, one, reason in islands(done) if one == "kept"
    ], islands(done)
    assert done.report["integers"]["operators"] >= 2
    assert found["y"] > 20
