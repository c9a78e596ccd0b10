# SPDX-License-Identifier: Apache-2.0
"""--costs: what pieces took when they ran decides where nodes go."""

import json

import numpy as np
import pytest
from onnx import helper, numpy_helper

import lowtide
from tests.partition import models
from tests.partition.test_pieces import agree, partition, read, whole
from tests.support import converter


@pytest.fixture(autouse=True)
def program(monkeypatch):
    monkeypatch.setenv("LOWTIDE", str(converter.program()))


def measured(*pieces):
    """What lowtide run --profile --json prints, as far as costs are read from it."""
    names = ("in_target", "runtime", "run_seconds", "runs", "node_names")
    return {"pieces": [dict(zip(names, piece)) for piece in pieces]}


def divided(tmp_path, costs, *options):
    mixed = models.convolutions(options=())
    path = mixed.save(tmp_path / "m.onnx")
    (tmp_path / "costs.json").write_text(json.dumps(costs))
    folder = tmp_path / f"pieces{len(list(tmp_path.iterdir()))}"
    partition(path, folder, "--costs", tmp_path / "costs.json", *options)
    with lowtide.Runner(folder) as runner:
        agree(runner.run(mixed.feed), whole(path, mixed.feed))
    manifest = read(folder)
    return {of["name"]: manifest["pieces"][of["piece"]]["runtime"] for of in manifest["nodes"]}


EVERY = ["Conv_a", "Relu_b", "Sin_c", "Conv_d", "MaxPool_e", "GlobalAveragePool_f", "Conv_g", "Add_y"]


def test_the_slower_runtime_loses(tmp_path):
    fast, slow = (True, "tflite", 0.002, 2, EVERY), (True, "tflite", 2.0, 2, EVERY)
    other = (False, "onnx", 0.05, 1, EVERY)
    assert set(divided(tmp_path, measured(fast, other)).values()) == {"tflite"}
    assert set(divided(tmp_path, measured(slow, other)).values()) == {"onnx"}


def test_one_slow_node(tmp_path):
    """Of Sin in the target a second was measured; the convolutions there are much faster than in ONNX Runtime."""
    rest = [name for name in EVERY if name != "Sin_c"]
    costs = measured(
        (True, "tflite", 0.001, 1, rest), (True, "tflite", 1.0, 1, ["Sin_c"]), (False, "onnx", 0.5, 1, EVERY)
    )
    places = divided(tmp_path, costs)
    assert places.pop("Sin_c") == "onnx" and set(places.values()) == {"tflite"}


def test_the_profile_of_a_run(tmp_path):
    """The output of one command is the input of the other."""
    mixed = models.convolutions()
    path = mixed.save(tmp_path / "m.onnx")
    partition(path, tmp_path / "pieces", *mixed.options)
    with lowtide.Runner(tmp_path / "pieces") as runner:
        runner.run(mixed.feed)
        (tmp_path / "profile.json").write_text(json.dumps({"pieces": runner.pieces_profile()}))
    again = lowtide.partition(path, tmp_path / "again", costs=tmp_path / "profile.json", exclude_op="Sin")
    with lowtide.Runner(again.output) as runner:
        agree(runner.run(mixed.feed), whole(path, mixed.feed))


GOOD = (True, "tflite", 1.0, 1, EVERY)


def with_field(name, value):
    costs = measured(GOOD)
    costs["pieces"][0][name] = value
    return costs


BAD = {
    "no JSON": ("{", "it is not JSON: line 1"),
    "a large number": ("[1e999]", "a number in it is too large"),
    "a list": ([], "it has no list 'pieces'"),
    "no pieces": ({"pieces": []}, "no piece of it has run"),
    "nothing ran": (with_field("runs", 0), "no piece of it has run"),
    "a piece is no object": ({"pieces": [3]}, "a piece has no field 'runs'"),
    "target": (with_field("in_target", "yes"), "in_target of a piece is neither true nor false"),
    "negative time": (with_field("run_seconds", -1), "'run_seconds' of a piece is not a number from 0 to 1e+06"),
    "endless time": (with_field("run_seconds", 1e300), "'run_seconds' of a piece is not a number from 0 to 1e+06"),
    "time is a text": (with_field("run_seconds", "1"), "'run_seconds' of a piece is not a number from 0 to 1e+06"),
    "names": (with_field("node_names", "Conv_a"), "node_names of a piece is not a list"),
    "a name": (with_field("node_names", [3]), "is not a text"),
    "another model": (with_field("node_names", ["other"]), "it is of another model"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_costs(case, tmp_path):
    content, words = BAD[case]
    path = models.convolutions().save(tmp_path / "m.onnx")
    file = tmp_path / "costs.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    done = converter.run("partition", path, "-o", tmp_path / "pieces", "--costs", file)
    assert done.returncode in (2, 6) and words in done.stderr and done.stderr.count("\n") == 1, done
    assert not (tmp_path / "pieces").exists()


def excluded_sin(nodes, x, y, constants):
    """What nodes make of x is a, and Sin, which is excluded, makes y of it."""
    return models.Mixed(
        [*nodes, models.node("Sin", "a", "y")],
        [models.typed("x", x)],
        [models.typed("y", y)],
        {"x": models.numbers(*x)},
        constants,
    )


def convolution(*before, constants, weight="w"):
    conv = models.node("Conv", f"x,{weight}", "a", pads=[1, 1, 1, 1])
    return excluded_sin([*before, conv], [1, 16, 16, 16], [1, 16, 16, 16], constants)


def kernel(name="w"):
    return models.weight(name, 16, 16, 3, 3)


def quantized_weight():
    array = np.arange(16 * 16 * 9).reshape(16, 16, 3, 3).astype(np.int8)
    return [
        numpy_helper.from_array(array, "q"),
        numpy_helper.from_array(np.float32(0.1), "scale"),
        numpy_helper.from_array(np.int8(0), "zero"),
    ]


# Each has so many products that the target is worth the change of the runtime behind them.
MANY_PRODUCTS = {
    "an initializer": lambda: convolution(constants=[kernel()]),
    "a Constant": lambda: convolution(helper.make_node("Constant", [], ["w"], value=kernel()), constants=[]),
    "a DequantizeLinear": lambda: convolution(
        models.node("DequantizeLinear", "q,scale,zero", "w"), constants=quantized_weight()
    ),
    "a chain": lambda: convolution(
        helper.make_node("Constant", [], ["k"], value=kernel("k")), models.node("Neg", "k", "w"), constants=[]
    ),
    # 64 channels in, 4 out: 64 * 15 * 15 * 4 * 16 products.
    "ConvTranspose": lambda: excluded_sin(
        [models.node("ConvTranspose", "x,w", "a", strides=[2, 2], pads=[1, 1, 1, 1])],
        [1, 64, 15, 15],
        [1, 4, 30, 30],
        [models.weight("w", 64, 4, 4, 4)],
    ),
    "transA": lambda: excluded_sin(
        [models.node("Gemm", "x,w", "a", transA=1)], [2000, 2], [2, 300], [models.weight("w", 2000, 300)]
    ),
}


def estimate(path):
    done = converter.run("partition", path, "--dry-run", "--json", "--exclude-op", "Sin")
    assert done.returncode == 0, done
    return json.loads(done.stdout)


@pytest.mark.parametrize("case", MANY_PRODUCTS)
def test_products_are_estimated_by_the_shape_of_the_weight(case, tmp_path):
    division = estimate(MANY_PRODUCTS[case]().save(tmp_path / "m.onnx"))
    assert [piece["in_target"] for piece in division["pieces"]] == [True, False]


def test_it_is_the_same_where_weights_are_elsewhere(tmp_path):
    shares = {
        estimate(MANY_PRODUCTS[case]().save(tmp_path / "m.onnx"))["work_in_target"]
        for case in ("an initializer", "a Constant", "a DequantizeLinear")
    }
    assert len(shares) == 1


def test_few_products_of_a_transposed_convolution(tmp_path):
    """4 channels in, 64 out, strides 4: by the axes of the weight as of a Conv these were 256 times as many."""
    mixed = excluded_sin(
        [models.node("ConvTranspose", "x,w", "a", strides=[4, 4])],
        [1, 4, 2, 2],
        [1, 64, 8, 8],
        [models.weight("w", 4, 64, 4, 4)],
    )
    assert [piece["in_target"] for piece in estimate(mixed.save(tmp_path / "m.onnx"))["pieces"]] == [False]
