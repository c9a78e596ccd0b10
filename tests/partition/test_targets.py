# SPDX-License-Identifier: Apache-2.0
"""--target: what a description allows, the shipped ones, and what is wrong in one."""

import copy
import json
import pathlib
import re

import numpy as np
import onnxruntime
import pytest
from onnx import numpy_helper

import lowtide
from tests.partition import models
from tests.partition.test_pieces import agree, partition, read, whole
from tests.support import converter, json_schema

SCHEMA = json.loads((converter.ROOT / "schemas/target.schema.json").read_text())
SHIPPED = converter.ROOT / "tools/lowtide/targets"


@pytest.fixture(autouse=True)
def program(monkeypatch):
    monkeypatch.setenv("LOWTIDE", str(converter.program()))


def target(**more):
    operators = [{"op": name} for name in ("Relu", "MaxPool", "GlobalAveragePool", "Add")]
    return {"format": "lowtide-target", "version": 1, "name": "tiny", "operators": operators, **more}


def written(folder, content):
    path = folder / "tiny.json"
    path.write_text(json.dumps(content))
    return path


def where(folder):
    manifest = read(folder)
    inside = [piece["in_target"] for piece in manifest["pieces"]]
    return {node["name"]: inside[node["piece"]] for node in manifest["nodes"] if node["piece"] is not None}


@pytest.mark.parametrize("writes", ["tflite", "onnx"])
def test_a_target(writes, tmp_path):
    mixed = models.convolutions()
    path = mixed.save(tmp_path / "m.onnx")
    description = target(writes=writes)
    assert json_schema.faults(description, SCHEMA, "target") == []
    options = ("--target", written(tmp_path, description), "--prefer", "fewest")
    partition(path, tmp_path / "pieces", *options)
    places = where(tmp_path / "pieces")
    assert {name for name, inside in places.items() if inside} == {
        "Relu_b",
        "MaxPool_e",
        "GlobalAveragePool_f",
        "Add_y",
    }
    manifest = read(tmp_path / "pieces")
    assert manifest["target"] == "tiny"
    assert {piece["runtime"] for piece in manifest["pieces"] if piece["in_target"]} == {writes}
    with lowtide.Runner(tmp_path / "pieces") as runner:
        agree(runner.run(mixed.feed), whole(path, mixed.feed))


# Conditions on Conv_a: x f32[2,3,9,11], w constant, pads 1, no other attributes; and whether they hold.
CONDITIONS = [
    ({"inputs": [{"at": 1, "constant": True}]}, True),
    ({"inputs": [{"at": 0, "constant": True}]}, False),
    ({"inputs": [{"at": 0, "dtypes": ["f32", "i8"]}]}, True),
    ({"inputs": [{"at": "each", "dtypes": ["i8"]}]}, False),
    ({"inputs": [{"at": 0, "rank": [4, 4]}]}, True),
    ({"inputs": [{"at": 0, "rank": [1, 3]}]}, False),
    ({"inputs": [{"at": 1, "extents": [3, 4]}]}, True),
    ({"inputs": [{"at": 0, "extents": [1, 10]}]}, False),
    ({"inputs": [{"at": 0, "wide_rank": [4, 4]}]}, True),
    ({"inputs": [{"at": 0, "wide_rank": [0, 3]}]}, False),
    ({"outputs": [{"at": 0, "rank": [4, 4]}]}, True),
    ({"input_count": [2, 2]}, True),
    ({"input_count": [3, 3]}, False),
    ({"output_count": [2, 2]}, False),
    ({"attributes": [{"name": "pads", "values": [1]}]}, True),
    ({"attributes": [{"name": "pads", "range": [2, 3]}]}, False),
    ({"attributes": [{"name": "group", "values": [1], "default": 1}]}, True),
    ({"attributes": [{"name": "group", "values": [2], "default": 1}]}, False),
    ({"attributes": [{"name": "group", "values": [2]}]}, True),  # it is absent, and no default is given
    ({"attributes": [{"name": "auto_pad", "values": ["VALID"], "default": "NOTSET"}]}, False),
]


@pytest.mark.parametrize("condition, holds", CONDITIONS)
def test_conditions(condition, holds, tmp_path):
    path = models.convolutions().save(tmp_path / "m.onnx")
    description = target(operators=[{"op": "Relu"}, {"op": "Conv", **condition}])
    assert json_schema.faults(description, SCHEMA, "target") == []
    options = ("--target", written(tmp_path, description), "--prefer", "fewest")
    partition(path, tmp_path / "pieces", *options)
    assert where(tmp_path / "pieces")["Conv_a"] == holds


def test_one_of_several_entries(tmp_path):
    path = models.convolutions().save(tmp_path / "m.onnx")
    entries = [{"op": "Conv", "attributes": [{"name": "pads", "values": [value]}]} for value in (5, 1)]
    partition(path, tmp_path / "p", "--target", written(tmp_path, target(operators=entries)), "--prefer", "fewest")
    assert where(tmp_path / "p")["Conv_a"] and not where(tmp_path / "p")["Relu_b"]


def chain(*operators):
    """v0 -> v1 -> ...: of elementwise operators of one input."""
    last = len(operators)
    return models.Mixed(
        [models.node(name, f"v{i}", f"v{i + 1}") for i, name in enumerate(operators)],
        [models.typed("v0", [3, 4])],
        [models.typed(f"v{last}", [3, 4])],
        {"v0": models.numbers(3, 4)},
    )


def inside(tmp_path, mixed, description, *options):
    """The names of the nodes in the target, after a run that agrees with ONNX Runtime."""
    path = mixed.save(tmp_path / "m.onnx")
    assert json_schema.faults(description, SCHEMA, "target") == []
    folder = tmp_path / f"pieces{len(list(tmp_path.iterdir()))}"
    partition(path, folder, "--target", written(tmp_path, description), "--prefer", "fewest", *options)
    with lowtide.Runner(folder) as runner:
        agree(runner.run(mixed.feed), whole(path, mixed.feed))
    return [name for name, is_in in where(folder).items() if is_in]


def test_patterns(tmp_path):
    """Sigmoid only behind Abs: the other one, and the Abs whose result is used twice, are elsewhere."""
    description = target(
        operators=[{"op": "Sigmoid", "only_in_pattern": True}, {"op": "Abs"}],
        patterns=[{"ops": ["Abs", "Sigmoid"], "source": "a manual"}],
    )
    mixed = chain("Sigmoid", "Abs", "Sigmoid", "Neg", "Abs", "Sigmoid", "Neg")
    mixed.nodes.append(models.node("Add", "v5,v7", "y"))
    mixed.outputs = [models.typed("y", [3, 4])]
    assert inside(tmp_path, mixed, description) == ["Abs_v2", "Sigmoid_v3", "Abs_v5"]


def test_a_pattern_stays_together(tmp_path):
    """A node of it that is elsewhere takes the others with it."""
    description = target(
        operators=[{"op": name} for name in ("Abs", "Sigmoid", "Relu")],
        patterns=[{"ops": ["Abs", "Sigmoid", "Relu"]}],
    )
    mixed = chain("Abs", "Sigmoid", "Relu", "Neg", "Abs", "Sigmoid", "Relu", "Abs")
    names = ["Abs_v1", "Sigmoid_v2", "Relu_v3", "Abs_v5", "Sigmoid_v6", "Relu_v7", "Abs_v8"]
    assert inside(tmp_path, mixed, description) == names
    assert inside(tmp_path, mixed, description, "--exclude-node", "Sigmoid_v6") == [*names[:3], "Abs_v8"]


def test_borders(tmp_path):
    """Neg only where a piece begins or ends; in the middle it parts the piece."""
    description = target(operators=[{"op": "Neg", "only_at_border": True}, {"op": "Abs"}])
    assert inside(tmp_path, chain("Neg", "Abs", "Abs", "Neg"), description) == ["Neg_v1", "Abs_v2", "Abs_v3", "Neg_v4"]
    assert inside(tmp_path, chain("Neg", "Abs", "Neg", "Abs"), description) == ["Neg_v1", "Abs_v2", "Abs_v4"]
    two = target(operators=[{"op": "Neg", "only_at_border": True}, {"op": "Neg"}, {"op": "Abs"}])
    assert len(inside(tmp_path, chain("Neg", "Abs", "Neg", "Abs"), two)) == 4  # another entry has no such condition


def test_at_most_so_many_bytes(tmp_path):
    mixed = models.convolutions()
    path = mixed.save(tmp_path / "m.onnx")
    operators = [{"op": name} for name in ("Conv", "Relu", "Sin", "MaxPool", "GlobalAveragePool", "Add")]
    description = written(tmp_path, target(operators=operators, max_piece_bytes=7_500))
    partition(path, tmp_path / "pieces", "--target", description)
    assert len(read(tmp_path / "pieces")["pieces"]) > 1
    with lowtide.Runner(tmp_path / "pieces") as runner:
        agree(runner.run(mixed.feed), whole(path, mixed.feed))


def matrices(*operators):
    """v0 -> v1 -> ...: products with a matrix of 16384 bytes each."""
    last = len(operators)
    return models.Mixed(
        [models.node(name, f"v{i},w{i}", f"v{i + 1}") for i, name in enumerate(operators)],
        [models.typed("v0", [1, 64])],
        [models.typed(f"v{last}", [1, 64])],
        {"v0": models.numbers(1, 64)},
        [models.weight(f"w{i}", 64, 64) for i in range(last)],
    )


def sizes(folder):
    return [(piece["in_target"], piece["weight_bytes"]) for piece in read(folder)["pieces"]]


def test_the_bytes_of_pieces_in_onnx_are_not_limited(tmp_path):
    """Two products in ONNX are in one piece, and one whose piece would be too large for the target is there too."""
    mixed = matrices("Gemm", "Gemm", "MatMul", "MatMul")
    options = {"writes": "onnx", "operators": [{"op": "MatMul"}]}
    assert inside(tmp_path, mixed, target(**options, max_piece_bytes=20_000)) == ["MatMul_v3", "MatMul_v4"]
    folder = next(path for path in tmp_path.iterdir() if path.name.startswith("pieces"))
    assert sizes(folder) == [(False, 32768), (True, 16384), (True, 16384)]
    assert inside(tmp_path, mixed, target(**options, max_piece_bytes=10_000)) == []
    done = converter.run(
        "partition", tmp_path / "m.onnx", "--dry-run", "--prefer=fewest", "--target", tmp_path / "tiny.json"
    )
    assert "2 x MatMul: it and what stays with it need 16" in done.stdout, done
    limited = inside(tmp_path, mixed, target(**options, max_piece_bytes=20_000), "--max-piece", "30000")
    assert limited == ["MatMul_v3", "MatMul_v4"]  # --max-piece is for all pieces
    folder = next(path for path in tmp_path.iterdir() if path.is_dir() and len(read(path)["pieces"]) == 4)
    assert sizes(folder) == [(False, 16384), (False, 16384), (True, 16384), (True, 16384)]


def test_pieces_that_memory_cuts_are_counted(tmp_path):
    path = matrices(*["MatMul"] * 4).save(tmp_path / "m.onnx")
    options = {"writes": "onnx", "operators": [{"op": "MatMul"}], "max_piece_bytes": 40_000}
    partition(path, tmp_path / "p", "--target", written(tmp_path, target(**options, max_pieces=2)))
    assert sizes(tmp_path / "p") == [(True, 32768), (True, 32768)]
    description = written(tmp_path, target(**options, max_pieces=1))
    done = converter.run("partition", path, "--dry-run", "--target", description, "--prefer", "fewest")
    assert done.returncode == 2 and "max_pieces 1 of the target: no division into so few pieces" in done.stderr, done
    assert "the last one had 2 pieces in the target" in done.stderr
    partition(path, tmp_path / "one", "--target", description, "--penalty", "1000")  # cheap leaves some to ONNX
    assert sorted(sizes(tmp_path / "one")) == [(False, 32768), (True, 32768)]
    reasons = {of["reason"] for of in read(tmp_path / "one")["nodes"]}
    assert "with it in the target there would be more pieces than max_pieces 1 of the target allows" in reasons


@pytest.mark.parametrize("prefer", ["coverage", "fewest", "cheap"])
def test_what_is_too_large_for_the_target_needs_no_pieces(prefer, tmp_path):
    """Both products are too large for a piece of the target, so that all is one piece in ONNX."""
    operators = ["Sin", "MatMul", "Sin", "MatMul", "Sin"]
    mixed = models.Mixed(
        [
            models.node(name, f"v{i},w" if name == "MatMul" else f"v{i}", f"v{i + 1}")
            for i, name in enumerate(operators)
        ],
        [models.typed("v0", [1, 64])],
        [models.typed("v5", [1, 64])],
        {"v0": models.numbers(1, 64)},
        [models.weight("w", 64, 64)],
    )
    description = written(tmp_path, target(writes="onnx", operators=[{"op": "MatMul"}], max_piece_bytes=1000))
    path = mixed.save(tmp_path / "m.onnx")
    partition(path, tmp_path / "p", "--target", description, "--prefer", prefer, "--max-pieces", "1")
    assert sizes(tmp_path / "p") == [(False, 16384)]


def test_pieces_in_onnx_are_not_counted(tmp_path):
    """One piece in the target between two in ONNX."""
    description = target(writes="onnx", max_pieces=1)
    assert inside(tmp_path, chain("Sin", "Relu", "Relu", "Sin"), description) == ["Relu_v2", "Relu_v3"]
    path = chain("Relu", "Sin", "Relu").save(tmp_path / "m.onnx")
    done = converter.run(
        "partition", path, "--dry-run", "--prefer", "fewest", "--target", written(tmp_path, description)
    )
    assert done.returncode == 2 and "max_pieces 1 of the target: at least 2 of its pieces are needed" in done.stderr
    partition(path, tmp_path / "p", "--target", tmp_path / "tiny.json", "--penalty", "1000")
    assert sum(piece["in_target"] for piece in read(tmp_path / "p")["pieces"]) <= 1


def test_all_in_onnx(tmp_path):
    """--target onnx: nothing is converted, and the model is only divided for memory."""
    mixed = models.words()
    path = mixed.save(tmp_path / "m.onnx")
    partition(path, tmp_path / "one", "--target", "onnx")
    assert [piece["file"] for piece in read(tmp_path / "one")["pieces"]] == ["0.onnx"]
    partition(path, tmp_path / "more", "--target", "onnx", "--max-piece", "400")
    assert len(read(tmp_path / "more")["pieces"]) > 1
    for folder in ("one", "more"):
        with lowtide.Runner(tmp_path / folder) as runner:
            agree(runner.run(mixed.feed), whole(path, mixed.feed))


def normalised():
    """Two normalisations of the last axis with Sin between; what they need of constants is computed by nodes."""

    def constant(name, value):
        return models.node("Constant", "", name, value=numpy_helper.from_array(np.array(value, np.float32)))

    def of(x, y, epsilon):
        return [
            models.node("ReduceMean", x, f"{y}_mean", axes=[-1]),
            models.node("Sub", f"{x},{y}_mean", f"{y}_off"),
            models.node("Pow", f"{y}_off,two", f"{y}_square"),
            models.node("ReduceMean", f"{y}_square", f"{y}_variance", axes=[-1]),
            models.node("Add", f"{y}_variance,{epsilon}", f"{y}_more"),
            models.node("Sqrt", f"{y}_more", f"{y}_deviation"),
            models.node("Div", f"{y}_off,{y}_deviation", f"{y}_one"),
            models.node("Mul", f"{y}_one,scale", f"{y}_scaled"),
            models.node("Add", f"{y}_scaled,shift", y),
        ]

    nodes = [constant("two", 2), constant("half", 0.5), models.node("Mul", "half,half", "quarter")]
    nodes += [*of("x", "a", "half"), models.node("Sin", "a", "b"), *of("b", "y", "quarter")]
    for first in nodes[:2]:
        del first.input[:]
    return models.Mixed(
        nodes,
        [models.typed("x", [3, 4, 5])],
        [models.typed("y", [3, 4, 5])],
        {"x": models.numbers(3, 4, 5)},
        [models.weight("scale", 5), models.weight("shift", 5)],
    )


@pytest.mark.parametrize("writes", ["tflite", "onnx"])
def test_constants_are_no_operators(writes, tmp_path):
    """They do not pass between pieces. ONNX Runtime takes an epsilon of its own for a normalisation whose epsilon is an input."""
    mixed = normalised()
    path = mixed.save(tmp_path / "m.onnx")
    names = ("ReduceMean", "Sub", "Pow", "Add", "Sqrt", "Div", *(["Mul"] if writes == "onnx" else []))
    description = target(writes=writes, operators=[{"op": name} for name in names])
    partition(path, tmp_path / "pieces", "--target", written(tmp_path, description), "--prefer", "fewest")
    passed = {value["name"] for value in read(tmp_path / "pieces")["values"]}
    assert passed.isdisjoint({"two", "half", "quarter"}) and {"a", "b"} <= passed
    with lowtide.Runner(tmp_path / "pieces") as runner:
        agree(runner.run(mixed.feed), whole(path, mixed.feed))


@pytest.mark.parametrize("name", ["mine", "tidl"])
def test_what_is_computed_from_constants_is_constant(name, tmp_path):
    """A weight that is normalised by nodes, as weight normalisation is exported: the target's rules see a constant."""
    nodes = [
        models.node("ReduceL2", "v", "n", axes=[1, 2, 3], keepdims=1),
        models.node("Div", "v,n", "w"),
        models.node("Conv", "x,w", "c"),
        models.node("Relu", "c", "y"),
    ]
    x, y = models.typed("x", [1, 3, 9, 8]), models.typed("y", [1, 4, 7, 6])
    mixed = models.Mixed(nodes, [x], [y], {"x": models.numbers(1, 3, 9, 8)}, [models.weight("v", 4, 3, 3, 3)])
    path = mixed.save(tmp_path / "m.onnx")
    operators = [{"op": "Conv", "inputs": [{"at": 1, "constant": True}]}, {"op": "Relu"}]
    mine = written(tmp_path, target(writes="onnx", operators=operators))
    partition(path, tmp_path / "pieces", "--target", mine if name == "mine" else name, "--prefer", "coverage")
    (piece,) = read(tmp_path / "pieces")["pieces"]
    assert piece["in_target"] and piece["inputs"] == ["x"]
    with lowtide.Runner(tmp_path / "pieces") as runner:
        agree(runner.run(mixed.feed), whole(path, mixed.feed))


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
def test_a_scale_of_weights_is_an_operator_of_the_target(domain, tmp_path):
    """ONNX Runtime leaves DequantizeLinear of a weight to the target, which must have it: here only with one scale."""
    weight = numpy_helper.from_array(np.arange(-54, 54, dtype=np.int8).reshape(4, 3, 3, 3), "v")
    scales = numpy_helper.from_array(np.array([0.01, 0.02, 0.03, 0.04], np.float32), "s")
    nodes = [
        models.node("DequantizeLinear", "v,s", "w", axis=0, domain=domain),
        models.node("Conv", "x,w", "c"),
        models.node("Relu", "c", "y"),
    ]
    x, y = models.typed("x", [1, 3, 9, 8]), models.typed("y", [1, 4, 7, 6])
    path = models.Mixed(nodes, [x], [y], {"x": models.numbers(1, 3, 9, 8)}, [weight, scales]).save(tmp_path / "m.onnx")
    operators = [{"op": "Conv"}, {"op": "Relu"}, {"op": "DequantizeLinear", "inputs": [{"at": 1, "rank": [0, 0]}]}]
    mine = written(tmp_path, target(writes="onnx", operators=operators))
    partition(path, tmp_path / "pieces", "--target", mine, "--prefer", "coverage")
    assert not where(tmp_path / "pieces")["DequantizeLinear_w"] and where(tmp_path / "pieces")["Relu_y"]


@pytest.mark.parametrize("name", ["coreml", "nnapi", "tidl"])
def test_shipped_targets(name, tmp_path):
    description = json.loads((SHIPPED / f"{name}.json").read_text())
    assert json_schema.faults(description, SCHEMA, "target") == []
    assert all(entry.get("source") for entry in description["operators"])
    mixed = models.convolutions()
    path = mixed.save(tmp_path / "m.onnx")
    partition(path, tmp_path / "pieces", "--target", name, "--prefer", "coverage")
    with lowtide.Runner(tmp_path / "pieces") as runner:
        agree(runner.run(mixed.feed), whole(path, mixed.feed))


@pytest.mark.parametrize(
    "name, file", [("nnapi", "nnapi_supported_ops"), ("coreml", "coreml_supported_neuralnetwork_ops")]
)
def test_the_lists_of_onnx_runtime(name, file):
    """A target has the operators of its source, and no others."""
    page = pathlib.Path(onnxruntime.__file__).parent / f"tools/mobile_helpers/{file}.md"
    listed = {(domain, op) for domain, op in re.findall(r"^\|([\w.]+)[:.](\w+)\|", page.read_text(), re.MULTILINE)}
    listed = {op if domain == "ai.onnx" else f"{domain}.{op}" for domain, op in listed}
    assert {entry["op"] for entry in json.loads((SHIPPED / f"{name}.json").read_text())["operators"]} == listed


def put(*path_and_value):
    *path, value = path_and_value

    def change(content):
        at = content
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value

    return change


BAD = {
    "version": (put("version", 2), "it has version 2"),
    "format": (put("format", "x"), "it is not the description of a target"),
    "unknown field": (put("operator", []), "unknown field 'operator'; did you mean 'operators'?"),
    "no list": (put("operators", {}), "'operators' is neither a list nor"),
    "all in tflite": (put("operators", "all"), "which only a target of .onnx pieces can take"),
    "border is no truth": (put("operators", 0, "only_at_border", 1), "'only_at_border' is neither true nor false"),
    "patterns are no list": (put("patterns", {}), "'patterns' is not a list"),
    "short pattern": (put("patterns", [{"ops": ["Relu"]}]), "'ops' has fewer than two operators"),
    "pattern of nothing": (put("patterns", [{"ops": ["Relu", "Reluu"]}]), "did you mean 'Relu'?"),
    "pattern of others": (
        put("patterns", [{"ops": ["Relu", "Conv"]}]),
        "a pattern has 'Conv', which is not in 'operators'",
    ),
    "bytes": (put("max_piece_bytes", 0), "is not an integer of"),
    "unknown operator": (put("operators", 0, "op", "Rellu"), "no operator 'Rellu'; did you mean 'Relu'?"),
    "no operator": (put("operators", 0, {}), "has no field 'op'"),
    "unknown key": (put("operators", 0, "atributes", []), "unknown field 'atributes'; did you mean 'attributes'?"),
    "unknown condition": (put("operators", 0, "inputs", [{"at": 0, "ranks": [1, 2]}]), "did you mean 'rank'?"),
    "no place": (put("operators", 0, "inputs", [{"rank": [1, 2]}]), "has no field 'at'"),
    "negative place": (put("operators", 0, "inputs", [{"at": -1}]), "is not an integer of"),
    "empty range": (put("operators", 0, "inputs", [{"at": 0, "rank": [3, 2]}]), "from 3 to 2: nothing is in it"),
    "ranks contradict": (
        put("operators", 0, "inputs", [{"at": 0, "rank": [1, 2], "wide_rank": [3, 4]}]),
        "rank and wide_rank contradict each other",
    ),
    "values out of range": (
        put("operators", 0, "attributes", [{"name": "axis", "range": [1, 2], "values": [3]}]),
        "none of 'values' is in 'range'",
    ),
    "mixed values": (put("operators", 0, "attributes", [{"name": "a", "values": [3, "x"]}]), "texts and numbers"),
    "no values": (put("operators", 0, "attributes", [{"name": "a", "values": []}]), "lists nothing"),
    "dtype": (put("operators", 0, "inputs", [{"at": 0, "dtypes": ["f33"]}]), "'f33' is no element type"),
    "writes": (put("writes", "tensorrt"), "'writes' is 'tensorrt', not tflite or onnx"),
    "pieces": (put("max_pieces", 0), "is not an integer of"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_descriptions(case, tmp_path):
    change, words = BAD[case]
    path = models.convolutions().save(tmp_path / "m.onnx")
    content = copy.deepcopy(target())
    change(content)
    done = converter.run("partition", path, "--dry-run", "--target", written(tmp_path, content))
    assert done.returncode == 6 and words in done.stderr and done.stderr.count("\n") == 1, done
    assert json_schema.faults(target(), SCHEMA, "target") == []


def test_bad_names(tmp_path):
    path = models.convolutions().save(tmp_path / "m.onnx")
    done = converter.run("partition", path, "--dry-run", "--target", "nnap")
    assert done.returncode == 2 and "did you mean 'nnapi'?" in done.stderr
    assert converter.run("partition", path, "--dry-run", "--target", tmp_path / "none.json").returncode == 3
    (tmp_path / "text.json").write_text("{")
    assert "it is not JSON" in converter.run("partition", path, "--dry-run", "--target", tmp_path / "text.json").stderr


@pytest.mark.parametrize(
    "before, after",
    [('"version": 1', '"version": 1, "version": 1'), ('{"op": "Relu"}', '{"op": "Relu", "op": "Conv"}')],
)
def test_a_field_twice(before, after, tmp_path):
    path = models.convolutions().save(tmp_path / "m.onnx")
    text = json.dumps(target())
    assert before in text
    (tmp_path / "twice.json").write_text(text.replace(before, after))
    done = converter.run("partition", path, "--dry-run", "--target", tmp_path / "twice.json")
    field = after.split('"')[1]
    assert done.returncode == 6 and f"it has the field '{field}' twice in one object" in done.stderr, done


def test_a_name_with_control_characters(tmp_path):
    path = models.convolutions().save(tmp_path / "m.onnx")
    description = written(tmp_path, {**target(), "name": "\x1b[31mred\0\n"})
    done = converter.run("partition", path, "--dry-run", "--target", description, "--prefer", "fewest")
    assert done.returncode == 0 and "red" in done.stdout, done
    assert all(line.isprintable() for line in done.stdout.splitlines())


def test_at_most_so_many_pieces(tmp_path):
    mixed = models.Mixed(
        [models.node("Relu" if i % 2 else "Neg", f"v{i}", f"v{i + 1}") for i in range(12)],
        [models.typed("v0", [3, 4])],
        [models.typed("v12", [3, 4])],
        {"v0": models.numbers(3, 4)},
    )
    path = mixed.save(tmp_path / "m.onnx")
    description = written(tmp_path, target(max_pieces=2))
    partition(path, tmp_path / "p", "--target", description, "--penalty", "1000")
    assert sum(piece["in_target"] for piece in read(tmp_path / "p")["pieces"]) <= 2
    done = converter.run("partition", path, "--dry-run", "--target", description, "--prefer", "fewest")
    assert done.returncode == 2 and "pieces are needed" in done.stderr
