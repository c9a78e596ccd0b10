# SPDX-License-Identifier: Apache-2.0
"""convert --quantize: which operators stay in floats although an integer kernel exists, and that nothing pulls them back."""

import numpy as np
import pytest
from onnx import helper

import lowtide
from tests.python.test_quantized_masks import quantized

node = helper.make_node


def random(*shape, seed=0, width=None):
    return (np.random.default_rng(seed).normal(size=shape) * (width or shape[0] ** -0.5)).astype(np.float32)


def islands(done):
    """Of each operator in floats: kind, node, reason."""
    return [(one["operator"], one["node"], one["reason"]) for one in done.report["integers"]["float_islands"]]


# ---- --keep-float ----

IMAGE = [1, 8, 8, 6]
KEPT = {
    "ADD": [node("Add", ["c", "d"], ["r"])],
    "AVERAGE_POOL_2D": [node("AveragePool", ["c"], ["r"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])],
    "BATCH_MATMUL": [node("MatMul", ["c", "d"], ["r"])],
    "CONCATENATION": [node("Concat", ["c", "d"], ["r"], axis=1)],
    "CONV_2D": [node("Conv", ["c", "inner"], ["r"])],
    "HARD_SWISH": [node("HardSwish", ["c"], ["r"])],
    "LEAKY_RELU": [node("LeakyRelu", ["c"], ["r"])],
    "LOGISTIC": [node("Sigmoid", ["c"], ["r"])],
    "LOG_SOFTMAX": [node("LogSoftmax", ["c"], ["r"], axis=1)],
    "MAXIMUM": [node("Max", ["c", "d"], ["r"])],
    "MAX_POOL_2D": [node("MaxPool", ["c"], ["r"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])],
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
    tensors = {"w1": random(8, 3, 1, 1), "w2": random(8, 3, 1, 1, seed=1), "inner": random(8, 8, 1, 1, seed=2)}
    tensors |= {"w3": random(5, {"CONCATENATION": 16, "RELU": 16, "UNPACK": 4}.get(name, 8), 1, 1, seed=3)}
    tensors |= {"slopes": np.full((8, 1, 1), 0.3, np.float32), "chosen": np.arange(6) % 2 == 0}
    tensors["shape"] = np.array([1, 8, 6, 8] if name == "RESHAPE" else IMAGE)
    middle = KEPT[name]
    kept = helper.make_node(middle[-1].op_type, list(middle[-1].input), list(middle[-1].output), name="kept")
    kept.attribute.extend(middle[-1].attribute)
    side = {"BATCH_MATMUL": [1, 3, 6, 6]}.get(name, [1, 3, 8, 6])
    nodes = [node("Conv", ["x", "w1"], ["c"]), node("Conv", ["x2", "w2"], ["d"]), *middle[:-1], kept]
    nodes += [node("Conv", ["r", "w3"], ["y"])]
    result = {"MEAN": [1, 5, 1, 1], "RESHAPE": [1, 5, 6, 8]}.get(name, [1, 5, 8, 6])
    samples = [{"x": random(1, 3, 8, 6, seed=i, width=1), "x2": random(*side, seed=9 + i, width=1)} for i in range(4)]
    ports = [("x", "float32", [1, 3, 8, 6]), ("x2", "float32", side)], [("y", "float32", result)]
    found, done = quantized(
        tmp_path, nodes, *ports, tensors, samples, quantize=quantize, tables=tables, keep_float=["kept"]
    )
    assert "--keep-float names it" in [reason for _, one, reason in islands(done) if one == "kept"], islands(done)
    assert done.report["integers"]["operators"] >= 2
    assert found["y"] > 20


# ---- kernels with a fixed scale ----


def head(folder, nodes, classes, width, length=13, **options):
    """Features r -> classes l -> `nodes` -> y."""
    tensors = {"w1": random(16, 16), "w2": random(16, classes, width=width), "prior": np.float32(-7)}
    tensors["joined"] = random(2 * classes, classes, seed=1)
    whole = [node("MatMul", ["x", "w1"], ["h"]), node("Relu", ["h"], ["r"]), node("MatMul", ["r", "w2"], ["l"]), *nodes]
    samples = [{"x": random(1, length, 16, seed=i, width=1)} for i in range(6)]
    outputs = [("y", "float32", [1, length, classes])]
    return quantized(folder, whole, [("x", "float32", [1, length, 16])], outputs, tensors, samples, **options)


def test_log_softmax_of_many_classes(tmp_path):
    found, done = head(tmp_path, [node("LogSoftmax", ["l"], ["y"], axis=-1)], 123, 1.5)
    assert found["y"] > 30
    assert [(kind, "the scale of its kernel ends at -15.9" in reason) for kind, _, reason in islands(done)] == [
        ("LOG_SOFTMAX", True)
    ]


PRIOR = [node("Add", ["l", "prior"], ["m"]), node("Sigmoid", ["m"], ["y"])]


def test_sigmoid_of_rare_classes(tmp_path):
    found, done = head(tmp_path, PRIOR, 5, 0.3)
    assert found["y"] > 30
    assert [(kind, "steps" in reason) for kind, _, reason in islands(done)] == [("LOGISTIC", True)]


def test_a_table_has_the_scale_of_rare_classes(tmp_path):
    found, done = head(tmp_path, PRIOR, 5, 0.3, tables=True)
    assert found["y"] > 30
    assert not islands(done) and done.report["integers"]["tables"] == 1


def test_rare_classes_beside_larger_numbers_stay_integer(tmp_path):
    """The common scale has no finer steps, so nothing would be won."""
    nodes = [
        node("Add", ["l", "prior"], ["m"]),
        node("Sigmoid", ["m"], ["p"]),
        node("Concat", ["l", "p"], ["j"], axis=-1),
    ]
    found, done = head(tmp_path, [*nodes, node("MatMul", ["j", "joined"], ["y"])], 5, 0.3)
    assert found["y"] > 30
    assert not islands(done)


@pytest.mark.parametrize("option", [{"io": "int8"}, {"require_integer": True}], ids=["io", "require"])
def test_integers_are_kept_where_nothing_else_is_allowed(tmp_path, option):
    model = tmp_path / "m.onnx"
    _, done = head(tmp_path, PRIOR, 5, 0.3)
    done = lowtide.convert(model, tmp_path / "i.tflite", quantize="int8", ranges=tmp_path / "r.json", **option)
    assert not islands(done)
    assert any("LOGISTIC 'y'" in note and "stays in floats" in note for note in done.report["notes"])


@pytest.mark.parametrize("length, width, least, is_float", [(13, 0.3, 22, False), (600, 0.1, 25, True)])
def test_rows_of_attention(tmp_path, length, width, least, is_float):
    """Softmax of 600 numbers that are nearly equal has results below half a step."""
    tensors = {f"w{name}": random(16, 16, seed=i, width=width) for i, name in enumerate("qk")}
    tensors["wv"] = random(16, 16, seed=3)
    nodes = [node("MatMul", ["x", f"w{name}"], [name]) for name in "qkv"]
    nodes += [node("Transpose", ["k"], ["t"], perm=[0, 2, 1]), node("MatMul", ["q", "t"], ["a"])]
    nodes += [node("Softmax", ["a"], ["p"], axis=-1), node("MatMul", ["p", "v"], ["y"])]
    samples = [{"x": random(1, length, 16, seed=i, width=1)} for i in range(4)]
    ports = [("x", "float32", [1, length, 16])], [("y", "float32", [1, length, 16])]
    found, done = quantized(tmp_path, nodes, *ports, tensors, samples)
    assert found["y"] > least
    assert [kind for kind, _, _ in islands(done)] == (["SOFTMAX"] if is_float else [])


# ---- between operators in floats ----


ROWS = [1, 13, 16]


def rows(change):
    """Samples whose rows differ: `change` gives a factor for each."""
    factors = np.float32([change(i) for i in range(ROWS[1])])[None, :, None]
    return [{"x": random(*ROWS, seed=i, width=1) * factors} for i in range(6)]


ENDING_IN_ZEROS = rows(lambda i: float(i < 11))
TENSORS = {"w1": random(16, 16), "w2": random(16, 16, seed=1), "eps": np.float32(1e-5), "last": np.array([-1])}
TENSORS |= {"two": np.float32(2), "gain": np.random.default_rng(1).uniform(0.5, 1.5, 16).astype(np.float32)}


@pytest.mark.parametrize("quantize", ["int8", "int16x8"])
def test_nothing_is_rounded_between_floats(tmp_path, quantize):
    """Kernels of ADD refuse 1e-5 beside sums of 30. A bias that is corrected by less than 1e-5 is no longer 0, which
    matters here."""
    nodes = [node("MatMul", ["x", "w1"], ["h"]), node("Relu", ["h"], ["q"]), node("ReduceSum", ["q", "last"], ["s"])]
    nodes += [node("Add", ["s", "eps"], ["se"]), node("Div", ["q", "se"], ["n"]), node("MatMul", ["n", "w2"], ["y"])]
    ports = [("x", "float32", ROWS)], [("y", "float32", ROWS)]
    found, done = quantized(tmp_path, nodes, *ports, TENSORS, ENDING_IN_ZEROS, quantize=quantize, correct="none")
    assert found["y"] > 30
    assert [kind for kind, _, _ in islands(done)] == ["SUM", "ADD", "DIV"]


def test_an_input_keeps_its_grid(tmp_path):
    """Of what reads it, kernels refuse the scales, and --io asks for its integers."""
    nodes = [node("Add", ["x", "eps"], ["h"]), node("MatMul", ["h", "w1"], ["y"])]
    ports = [("x", "float32", ROWS)], [("y", "float32", ROWS)]
    quantized(tmp_path, nodes, *ports, TENSORS, ENDING_IN_ZEROS)
    done = lowtide.convert(
        tmp_path / "m.onnx", tmp_path / "i.tflite", quantize="int8", ranges=tmp_path / "r.json", io="int8"
    )
    with lowtide.Runner(done.output) as runner:
        assert [port.dtype for port in (*runner.inputs.values(), *runner.outputs.values())] == [np.int8] * 2


# ---- readers that need small numbers, or whole units ----

NORMALIZATION = [
    node("MatMul", ["x", "w1"], ["h"]),
    node("ReduceMean", ["h"], ["m"], axes=[-1]),
    node("Sub", ["h", "m"], ["d"]),
    node("Mul", ["d", "d"], ["p"]),
    node("ReduceMean", ["p"], ["var"], axes=[-1]),
    node("Add", ["var", "eps"], ["ve"]),
    node("Sqrt", ["ve"], ["sd"]),
    node("Div", ["d", "sd"], ["n"]),
    node("Mul", ["n", "gain"], ["g"]),
    node("MatMul", ["g", "w2"], ["y"]),
]


@pytest.mark.parametrize("factor", [0.0, 1 / 16], ids=["zeros", "small rows"])
def test_a_normalization_of_nine_operators(tmp_path, factor):
    ports = [("x", "float32", ROWS)], [("y", "float32", ROWS)]
    samples = rows(lambda i: 1.0 if i < 11 else factor)
    found, done = quantized(tmp_path, NORMALIZATION, *ports, TENSORS, samples)
    assert found["y"] > (25 if factor == 0 else 15)
    assert {"MEAN", "ADD"} <= {kind for kind, _, reason in islands(done) if "a divisor" in reason}


def test_a_divisor_far_from_zero_stays_integer(tmp_path):
    nodes = [node("MatMul", ["x", "w1"], ["h"]), node("Sigmoid", ["h"], ["s"]), node("Add", ["s", "two"], ["t"])]
    nodes += [node("Div", ["h", "t"], ["n"]), node("MatMul", ["n", "w2"], ["y"])]
    ports = [("x", "float32", ROWS)], [("y", "float32", ROWS)]
    found, done = quantized(tmp_path, nodes, *ports, TENSORS, rows(lambda i: 1.0))
    assert found["y"] > 25
    assert [kind for kind, _, _ in islands(done)] == ["DIV"]


def test_sines_of_time_steps(tmp_path):
    frequencies = np.exp(-np.log(10000) * np.arange(8) / 8).astype(np.float32)[None]
    nodes = [node("Mul", ["t", "frequencies"], ["a"]), node("Sin", ["a"], ["si"]), node("Cos", ["a"], ["co"])]
    nodes += [node("Concat", ["si", "co"], ["e"], axis=-1), node("MatMul", ["e", "w1"], ["m"])]
    nodes += [node("Add", ["x", "m"], ["y"])]
    samples = [
        {"t": np.float32([[t]]), "x": random(1, 16, seed=t, width=1)} for t in (1, 33, 250, 501, 666, 760, 981, 999)
    ]
    ports = [("t", "float32", [1, 1]), ("x", "float32", [1, 16])], [("y", "float32", [1, 16])]
    found, _ = quantized(tmp_path, nodes, *ports, TENSORS | {"frequencies": frequencies}, samples)
    assert found["y"] > 30


def test_positions_that_are_counted_in_floats(tmp_path):
    nodes = [node("Cast", ["mask"], ["m"], to=1), node("CumSum", ["m", "axis"], ["c"]), node("Mul", ["c", "m"], ["b"])]
    nodes += [node("Add", ["b", "two"], ["p"]), node("Cast", ["p"], ["i"], to=7), node("Gather", ["table", "i"], ["e"])]
    nodes += [node("MatMul", ["e", "w1"], ["y"])]
    samples = [{"mask": (np.arange(500) >= k).astype(np.int64)[None]} for k in (0, 3, 5, 7)]
    tensors = TENSORS | {"axis": np.array(1), "table": random(520, 16, width=1)}
    ports = [("mask", "int64", [1, 500])], [("y", "float32", [1, 500, 16])]
    found, _ = quantized(tmp_path, nodes, *ports, tensors, samples)
    assert found["y"] > 30


def test_roundings_that_are_values_stay_integer(tmp_path):
    """One off is one step of such a result."""
    nodes = [node("MatMul", ["x", "w1"], ["h"]), node("Mul", ["h", "forty"], ["f"]), node("Round", ["f"], ["r"])]
    nodes += [node("MatMul", ["r", "w2"], ["y"])]
    ports = [("x", "float32", ROWS)], [("y", "float32", ROWS)]
    found, done = quantized(tmp_path, nodes, *ports, TENSORS | {"forty": np.float32(40)}, rows(lambda i: 1.0))
    assert found["y"] > 25
    assert [kind for kind, _, _ in islands(done)] == ["ROUND"]
