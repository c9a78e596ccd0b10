# SPDX-License-Identifier: Apache-2.0
"""--max-piece: what counts as bytes of a piece. A matrix has 16384 bytes, a row 256."""

import json

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import lowtide
from tests.partition import models
from tests.partition.test_pieces import agree, partition, read, whole
from tests.support import converter

MATRIX, ROW = 16384, 256


@pytest.fixture(autouse=True)
def program(monkeypatch):
    monkeypatch.setenv("LOWTIDE", str(converter.program()))


def constant(name, **attribute):
    attribute = attribute or {"value": models.weight(name, 64, 64)}
    return helper.make_node("Constant", [], [name], name=name, **attribute)


def product(inputs, output):
    return models.node("MatMul", inputs, output)


def rows(nodes, constants=(), *, outputs=("y",), matrices=(), more=()):
    """A model of a row x, to which a row y belongs."""
    return models.Mixed(
        nodes,
        [models.typed("x", [1, 64]), *more],
        [models.typed(name, [1, 64]) for name in outputs] + [models.typed(name, [64, 64]) for name in matrices],
        {"x": models.numbers(1, 64)},
        list(constants),
    )


def in_initializers():
    return rows([product("x,w", "a"), product("a,v", "y")], [models.weight("w", 64, 64), models.weight("v", 64, 64)])


def in_constants():
    return rows([constant("w"), constant("v"), product("x,w", "a"), product("a,v", "y")])


def in_lists():
    return rows(
        [
            constant("w", value_floats=models.numbers(4096)),
            models.node("Reshape", "w,shape", "square"),
            product("x,square", "a"),
            constant("v"),
            product("a,v", "y"),
        ],
        [models.ints("shape", 64, 64)],
    )


def in_bodies():
    """Each If has one matrix: an initializer of a body, and a Constant in one."""
    first = helper.make_graph(
        [product("x,w", "p")], "first", [], [models.typed("p", [1, 64])], [models.weight("w", 64, 64)]
    )
    second = helper.make_graph([constant("v"), product("a,v", "q")], "second", [], [models.typed("q", [1, 64])])
    other = [
        helper.make_graph([models.node("Neg", name, f"n{name}")], "other", [], [models.typed(f"n{name}", [1, 64])])
        for name in "xa"
    ]
    made = rows(
        [
            helper.make_node("If", ["c"], ["a"], name="if_a", then_branch=first, else_branch=other[0]),
            helper.make_node("If", ["c"], ["y"], name="if_y", then_branch=second, else_branch=other[1]),
        ],
        more=[models.typed("c", [], models.BOOL)],
    )
    made.feed["c"] = np.array(True)
    return made


PLACES = {make.__name__: make for make in (in_initializers, in_constants, in_lists, in_bodies)}


@pytest.mark.parametrize("place", PLACES)
def test_weights_count_wherever_they_are(place, tmp_path):
    mixed = PLACES[place]()
    path = mixed.save(tmp_path / "m.onnx")
    partition(path, tmp_path / "p", "--target", "onnx", "--max-piece", "20000")
    pieces = read(tmp_path / "p")["pieces"]
    assert [piece["weight_bytes"] // MATRIX for piece in pieces] == [1, 1]
    with lowtide.Runner(tmp_path / "p") as runner:
        agree(runner.run(mixed.feed), whole(path, mixed.feed))
    done = converter.run("partition", path, "--dry-run", "--max-piece", "10000")
    assert done.returncode == 9 and "a part that cannot be divided needs 16" in done.stderr, done


def divided(mixed, path, *options):
    done = converter.run("partition", mixed.save(path), "--dry-run", "--json", *options)
    assert done.returncode == 0, done
    return json.loads(done.stdout)["pieces"]


def test_weights_that_several_nodes_use_count_once(tmp_path):
    tied = rows([product("x,w", "a"), product("a,w", "y")], [models.weight("w", 64, 64)])
    for options in ([], ["--max-pieces", "1"]):
        pieces = divided(tied, tmp_path / "m.onnx", "--max-piece", "20000", *options)
        assert [piece["weight_bytes"] for piece in pieces] == [MATRIX]


def test_functions_count_once(tmp_path):
    """Two calls of one function are one matrix of a piece."""
    path = rows(
        [
            helper.make_node("times", ["x"], ["a"], name="one", domain="own"),
            helper.make_node("times", ["a"], ["y"], name="two", domain="own"),
        ]
    ).save(tmp_path / "m.onnx")
    model = onnx.load(path)
    versions = [helper.make_opsetid("", 17)]
    body = [constant("w"), product("r,w", "s")]
    model.functions.append(helper.make_function("own", "times", ["r"], ["s"], body, versions))
    model.opset_import.append(helper.make_opsetid("own", 1))
    onnx.save(model, path)
    done = converter.run("partition", path, "--dry-run", "--json", "--max-piece", "20000")
    assert done.returncode == 0, done
    assert [piece["weight_bytes"] for piece in json.loads(done.stdout)["pieces"]] == [MATRIX]


def test_inputs_count_until_their_last_use(tmp_path):
    """A matrix m is the model's input: a piece that uses it, or runs before one that does, has its bytes."""
    nodes = [
        models.node("Neg", "x", "a"),
        models.node("ReduceMax", "m", "b", keepdims=0),
        models.node("Add", "a,b", "c"),
    ]
    mixed = rows([*nodes, models.node("Abs", "c", "y")], more=[models.typed("m", [64, 64])])
    path = mixed.save(tmp_path / "m.onnx")
    done = converter.run("partition", path, "--dry-run", "--max-piece", "10000")
    assert done.returncode == 9 and f"needs {MATRIX + ROW + 4} bytes" in done.stderr, done
    assert len(divided(mixed, path, "--max-piece", "20000")) == 1


def test_outputs_that_are_initializers_count(tmp_path):
    """The last piece gives them."""
    mixed = rows([models.node("Neg", "x", "y")], [models.weight("w", 64, 64)], matrices=["w"])
    assert [piece["weight_bytes"] for piece in divided(mixed, tmp_path / "m.onnx")] == [MATRIX]


def test_trees_are_weights(tmp_path):
    """In the lists of their node: more bytes than the numbers of the tree have by themselves."""
    mixed = models.trees()
    pieces = divided(mixed, tmp_path / "m.onnx", *mixed.options)
    assert pieces[1]["weight_bytes"] > 5 * 5 * 8


def test_sparse_weights(tmp_path):
    values = numpy_helper.from_array(models.numbers(1000), "w")
    indices = numpy_helper.from_array(np.arange(1000, dtype=np.int64) * 4, "w_indices")
    made = rows([constant("w", sparse_value=helper.make_sparse_tensor(values, indices, [64, 64])), product("x,w", "y")])
    assert [piece["weight_bytes"] for piece in divided(made, tmp_path / "m.onnx")] == [12_000]


def chain(count):
    """m0, m1, ...: products with a matrix each."""
    names = ["x", *(f"v{i}" for i in range(1, count)), "y"]
    nodes = [helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]], name=f"m{i}") for i in range(count)]
    return rows(nodes, [models.weight(f"w{i}", 64, 64) for i in range(count)])


def test_few_pieces_for_memory(tmp_path):
    """Two matrices fit in a piece. The target is much faster, and cannot have the fourth product of five: where that
    needs four pieces for memory, three of other nodes in ONNX exist."""
    mixed = chain(5)
    path = mixed.save(tmp_path / "m.onnx")
    times = [
        {"in_target": inside, "run_seconds": seconds, "runs": 1, "node_names": [f"m{i}"]}
        for i in range(5)
        for inside, seconds in ((True, 0.0001), (False, 0.01))
    ]
    (tmp_path / "costs.json").write_text(json.dumps({"pieces": times}))
    options = ["--max-piece", "34000", "--costs", tmp_path / "costs.json", "--exclude-node", "m3"]
    assert len(divided(mixed, path, *options)) == 4
    partition(path, tmp_path / "p", *options, "--max-pieces", "3")
    manifest = read(tmp_path / "p")
    assert len(manifest["pieces"]) == 3 and any(piece["in_target"] for piece in manifest["pieces"])
    assert any("more pieces than --max-pieces 3 allows" in of["reason"] for of in manifest["nodes"])
    with lowtide.Runner(tmp_path / "p") as runner:
        agree(runner.run(mixed.feed), whole(path, mixed.feed))
    for limit, prefer, found in ((2, "cheap", 3), (3, "coverage", 4), (3, "fewest", 4)):
        done = converter.run("partition", path, "--dry-run", *options, f"--max-pieces={limit}", f"--prefer={prefer}")
        words = f"keeps the limit of bytes; the last one had {found} pieces"
        assert done.returncode == 2 and f"--max-pieces {limit}: no division into so few pieces" in done.stderr, done
        assert words in done.stderr and done.stderr.count("\n") == 1, done


def test_few_pieces_for_memory_all_in_onnx(tmp_path):
    """The target has one of two products, and its pieces are smaller."""
    mixed = chain(6)
    excluded = [option for i in (1, 3, 5) for option in ("--exclude-node", f"m{i}")]
    options = ["--max-piece", "34000", "--penalty", "1000", *excluded]
    assert len(divided(mixed, tmp_path / "m.onnx", *options)) == 6
    pieces = divided(mixed, tmp_path / "m.onnx", *options, "--max-pieces", "3")
    assert [(piece["in_target"], piece["weight_bytes"]) for piece in pieces] == [(False, 2 * MATRIX)] * 3


def test_many_parts_that_use_many_weights(tmp_path):
    """Two thousand parts use the sum of two thousand Constants: four million uses in a file of few bytes."""
    count = 2000
    one = numpy_helper.from_array(np.float32([0.5]))
    names = [f"c{i}" for i in range(count)]
    mixed = models.Mixed(
        [helper.make_node("Constant", [], [name], value=one) for name in names]
        + [helper.make_node("Sum", names, ["s"])]
        + [helper.make_node("Add", [f"v{i}", "s"], [f"v{i + 1}"]) for i in range(count)],
        [models.typed("v0", [1])],
        [models.typed(f"v{count}", [1])],
        {},
    )
    path = mixed.save(tmp_path / "m.onnx")
    options = ["--dry-run", "--target", "onnx", "--max-piece", "64K"]
    done = converter.run("partition", path, *options)
    assert done.returncode == 9 and "list of weights of each part" in done.stderr, done
    assert converter.run("partition", path, *options, "--max-rss", "1G").returncode == 0
