# SPDX-License-Identifier: Apache-2.0
"""--costs: what pieces took when they ran decides where nodes go."""

import json

import pytest

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
