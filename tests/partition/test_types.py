# SPDX-License-Identifier: Apache-2.0
"""Types of values behind nodes that are not converted: rules for operators (layout/foreign_types), and --probe. ONNX
Runtime says what is right."""

import json
import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import lowtide
from lowtide.events import parse_event
from tests.partition import models
from tests.partition.models import BOOL, FLOAT, INT64, Mixed, ints, node, numbers, typed, weight
from tests.partition.test_pieces import agree, partition, read, whole
from tests.support import converter, json_schema

DTYPES = {
    "f32": "float32",
    "f16": "float16",
    "f64": "float64",
    "i64": "int64",
    "i32": "int32",
    "u32": "uint32",
    "bool": "bool",
}


@pytest.fixture(autouse=True)
def program(monkeypatch):
    monkeypatch.setenv("LOWTIDE", str(converter.program()))


def without_values(options):
    out, rest = [], iter(options)
    for option in rest:
        if option == "--value":
            next(rest)
        else:
            out.append(option)
    return out


@pytest.mark.parametrize("name", models.MIXED)
def test_mixed_models_need_no_declarations(name, tmp_path):
    mixed = models.MIXED[name]()
    mixed.value_info = []
    path = mixed.save(tmp_path / "m.onnx")
    partition(path, tmp_path / "pieces", *without_values(mixed.options))
    manifest = read(tmp_path / "pieces")
    assert "".join(piece["runtime"][0] for piece in manifest["pieces"]) == mixed.pieces
    with lowtide.Runner(tmp_path / "pieces") as runner:
        agree(runner.run(mixed.feed), whole(path, mixed.feed), 2e-3 if name == "halves" else 1e-5)


def ml(op, inputs, outputs, **attributes):
    return node(op, inputs, outputs, domain="ai.onnx.ml", **attributes)


TREE = dict(
    nodes_treeids=[0] * 3,
    nodes_nodeids=[0, 1, 2],
    nodes_featureids=[2, 0, 0],
    nodes_values=[0.1, 0.0, 0.0],
    nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
    nodes_truenodeids=[1, 0, 0],
    nodes_falsenodeids=[2, 0, 0],
)
X = [4, 6]
TEXTS = np.array([["a", "b", "a"], ["b", "c", "a"]], object)

# An operator on x f32[4,6] unless `feed` has other inputs; its output whose type is looked at is `b`.
OPERATORS = {
    "Scaler": ml("Scaler", "x", "b", offset=[0.5], scale=[2.0]),
    "Normalizer": ml("Normalizer", "x", "b", norm="L2"),
    "Binarizer": ml("Binarizer", "x", "b", threshold=0.2),
    "Imputer": ml("Imputer", "x", "b", imputed_value_floats=[1.0], replaced_value_float=0.5),
    "ArrayFeatureExtractor": ml("ArrayFeatureExtractor", "x,places", "b"),
    "LinearRegressor": ml("LinearRegressor", "x", "b", coefficients=[0.1] * 18, intercepts=[0.0] * 3, targets=3),
    "LinearClassifier": ml(
        "LinearClassifier", "x", "label,b", coefficients=[0.1] * 18, intercepts=[0.0] * 3, classlabels_ints=[3, 5, 8]
    ),
    "TreeEnsembleRegressor": ml(
        "TreeEnsembleRegressor",
        "x",
        "b",
        n_targets=2,
        target_treeids=[0, 0],
        target_nodeids=[1, 2],
        target_ids=[0, 1],
        target_weights=[0.3, 0.4],
        **TREE,
    ),
    "TreeEnsembleClassifier of two": ml(
        "TreeEnsembleClassifier",
        "x",
        "label,b",
        class_treeids=[0, 0],
        class_nodeids=[1, 2],
        class_ids=[0, 0],
        class_weights=[0.3, 0.4],
        classlabels_strings=["no", "yes"],
        post_transform="LOGISTIC",
        **TREE,
    ),
    "FeatureVectorizer": ml("FeatureVectorizer", "x,more", "b", inputdimensions=[6, 3]),
    "LabelEncoder to floats": ml("LabelEncoder", "words", "b", keys_strings=["a", "b"], values_floats=[0.5, 1.5]),
    "LabelEncoder to numbers": ml("LabelEncoder", "words", "b", keys_strings=["a", "b"], values_int64s=[5, 6]),
    "OneHotEncoder": ml("OneHotEncoder", "words", "b", cats_strings=["a", "b", "c", "d"]),
    "Inverse": node("Inverse", "square", "b", domain="com.microsoft"),
    "CategoryMapper": ml("CategoryMapper", "words", "b", cats_int64s=[4, 5], cats_strings=["a", "b"]),
    "MurmurHash3": node("MurmurHash3", "words", "b", domain="com.microsoft", positive=0),
    "RegexFullMatch": node("RegexFullMatch", "words", "b", pattern="a|b"),
    "SVMRegressor": ml(
        "SVMRegressor",
        "x",
        "b",
        coefficients=[0.3, 0.4, -0.2, 0.1, 0.6, -0.5],
        kernel_params=[0.0] * 3,
        kernel_type="LINEAR",
        n_supports=0,
        rho=[0.1],
        post_transform="NONE",
    ),
    "CDist": node("CDist", "x,y0", "b", domain="com.microsoft", metric="euclidean"),
    "StringNormalizer and encoder": None,  # two nodes, below
    "SequenceAt": None,
    "ConcatFromSequence": None,
    "new axis": None,
}
SEVERAL = {
    "StringNormalizer and encoder": [
        node("StringNormalizer", "row", "upper", case_change_action="UPPER", is_case_sensitive=1, locale="C"),
        ml("LabelEncoder", "upper", "b", keys_strings=["A", "B"], values_floats=[0.5, 1.5]),
    ],
    "SequenceAt": [
        node("SplitToSequence", "x", "parts", axis=1, keepdims=0),
        node("SequenceErase", "parts,one", "left"),
        node("SequenceAt", "left,which", "b"),
    ],
    "ConcatFromSequence": [
        node("SequenceConstruct", "x,x", "pair"),
        node("SequenceErase", "pair,one", "left"),
        node("SequenceInsert", "left,x", "again"),
        node("ConcatFromSequence", "again", "b", axis=1),
    ],
    "new axis": [
        node("SequenceConstruct", "x,x", "pair"),
        node("SequenceErase", "pair,one", "left"),
        node("ConcatFromSequence", "left", "b", axis=-1, new_axis=1),
    ],
}
FEED = {
    "x": numbers(*X),
    "more": numbers(4, 3),
    "y0": numbers(5, 6),
    "square": numbers(2, 3, 3) + 2 * np.eye(3, dtype=np.float32),
    "words": TEXTS,
    "row": TEXTS[:1],
    "which": np.array(2),
    "one": np.array(1),
}
KINDS = {"words": TensorProto.STRING, "row": TensorProto.STRING, "which": TensorProto.INT64, "one": TensorProto.INT64}


@pytest.mark.parametrize("name", OPERATORS)
def test_rules(name, tmp_path):
    """Behind the operator stands one that TFLite has, so the type decides where it goes; what passes is as it is said."""
    nodes = SEVERAL.get(name, [OPERATORS[name]])
    used = {value for of in nodes for value in of.input}
    feed = {value: array for value, array in FEED.items() if value in used}
    mixed = Mixed(
        [*nodes, node("Cast", "b", "c", to=FLOAT), node("Mul", "c,c", "y")],
        [typed(value, list(array.shape), KINDS.get(value, TensorProto.FLOAT)) for value, array in feed.items()],
        [typed("y", None)],
        feed,
        [ints("places", 1, 3, 4)],
        opset=20,
    )
    path = mixed.save(tmp_path / "m.onnx")
    with lowtide.Runner(path) as runner:
        right = runner.run(feed, ["b"])["b"]
    partition(path, tmp_path / "pieces", "--prefer", "fewest")
    manifest = read(tmp_path / "pieces")
    assert [piece["runtime"] for piece in manifest["pieces"]] == ["onnx", "tflite"]
    value = next(of for of in manifest["values"] if of["name"] == "b")
    assert DTYPES[value["dtype"]] == right.dtype.name
    assert len(value["shape"]) == right.ndim
    assert all(extent in (None, of) or isinstance(extent, str) for extent, of in zip(value["shape"], right.shape))
    with lowtide.Runner(tmp_path / "pieces") as runner:
        agree(runner.run(feed), whole(path, feed))


def test_halves_without_declarations(tmp_path):
    """Between its borders TFLite computes in f32; which values are f16 in ONNX follows from their operands."""
    half = TensorProto.FLOAT16
    mixed = Mixed(
        [
            node("Conv", "x,w", "a"),
            node("Constant", "", "two", value=numpy_helper.from_array(np.float16(2), "two")),
            node("Mul", "a,two", "b"),
            node("Sin", "b", "c"),
            node("Cast", "c", "d", to=TensorProto.FLOAT),
            node("MatMul", "d,v", "y"),
        ],
        [typed("x", [2, 3, 6, 7], half)],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        {"x": numbers(2, 3, 6, 7).astype(np.float16)},
        [numpy_helper.from_array(numbers(4, 3, 2, 3).astype(np.float16), "w"), weight("v", 5, 8)],
        ("--prefer", "fewest", "--exclude-op", "Sin"),
    )
    mixed.nodes[1].input[:] = []
    path = mixed.save(tmp_path / "m.onnx")
    shown = partition(path, tmp_path / "pieces", *mixed.options)
    assert "not known" not in shown
    dtypes = {of["name"]: of["dtype"] for of in read(tmp_path / "pieces")["values"]}
    assert dtypes == {"b": "f16", "c": "f16"}
    with lowtide.Runner(tmp_path / "pieces") as runner:
        agree(runner.run(mixed.feed), whole(path, mixed.feed), 5e-3)


# ---- Values that stay inside of a piece ----


def optional(name, dtype=FLOAT, shape=(2, 3)):
    of_tensor = helper.make_optional_type_proto(helper.make_tensor_type_proto(dtype, shape))
    return helper.make_value_info(name, of_tensor)


def branch(made):
    return helper.make_graph([node("Optional", "b", made)], made, [], [optional(made)])


def loop_body():
    nodes = [node("Identity", "on", "on2"), node("Identity", "v", "v2")]
    inputs = [typed("i", [], INT64), typed("on", [], BOOL), optional("v")]
    return helper.make_graph(nodes, "body", inputs, [typed("on2", [], BOOL), optional("v2")])


# The nodes between b = Relu(x) and y = Sin(e), and what to leave in ONNX.
OPTIONALS = {
    "plain": ([node("Optional", "b", "o"), node("OptionalGetElement", "o", "e")], "OptionalGetElement"),
    "identity": (
        [node("Optional", "b", "a"), node("Identity", "a", "o"), node("OptionalGetElement", "o", "e")],
        "Identity",
    ),
    "if": (
        [
            node("If", "c", "o", then_branch=branch("o1"), else_branch=branch("o2")),
            node("OptionalGetElement", "o", "e"),
        ],
        "OptionalGetElement",
    ),
    "loop": (
        [
            node("Optional", "b", "a"),
            node("Loop", "two,c,a", "o", body=loop_body()),
            node("OptionalGetElement", "o", "e"),
        ],
        "OptionalGetElement",
    ),
}


@pytest.mark.parametrize("name, is_declared", [("plain", True), *((name, False) for name in OPTIONALS)])
@pytest.mark.parametrize("opset", [15, 18])
@pytest.mark.parametrize("dtype", [FLOAT, TensorProto.FLOAT16])
def test_optionals_are_no_tensors(name, is_declared, opset, dtype, tmp_path):
    """TFLite has the tensor in place of the optional; a piece for ONNX Runtime that declares it as one does not load."""
    nodes, excluded = OPTIONALS[name]
    if opset < 16 and name != "plain":
        pytest.skip("other operators take optionals since 16")
    if dtype != FLOAT and name in ("if", "loop"):
        pytest.skip("their types are declared as f32 above")
    mixed = Mixed(
        [node("Relu", "x", "b"), *nodes, node("Sin", "e", "y")],
        [typed("x", [2, 3], dtype), typed("c", [], BOOL)],
        [typed("y", [2, 3], dtype)],
        {"x": numbers(2, 3).astype(helper.tensor_dtype_to_np_dtype(dtype)), "c": np.array(True)},
        [ints("two", 2)],
        value_info=[optional("o", dtype)] if is_declared else [],
        opset=opset,
    )
    path = mixed.save(tmp_path / "m.onnx")
    shown = partition(path, tmp_path / "pieces", "--prefer", "coverage", "--exclude-op", excluded)
    assert "not known" not in shown
    manifest = read(tmp_path / "pieces")
    assert "".join(piece["runtime"][0] for piece in manifest["pieces"]) == "tot"
    assert [of["name"] for of in manifest["values"]] == ["b", "e"]
    with lowtide.Runner(tmp_path / "pieces") as runner:
        agree(runner.run(mixed.feed), whole(path, mixed.feed), 2e-3)


def test_an_optional_of_known_integers(tmp_path):
    """An initializer in its place would be a tensor."""
    mixed = Mixed(
        [
            node("Shape", "x", "s"),
            node("Optional", "s", "o"),
            node("OptionalGetElement", "o", "e"),
            node("Expand", "w,e", "y"),
        ],
        [typed("x", [2, 3])],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        {"x": numbers(2, 3)},
        [weight("w", 1, 1)],
        value_info=[optional("o", INT64, [2])],
        opset=15,
    )
    path = mixed.save(tmp_path / "m.onnx")
    partition(path, tmp_path / "pieces", "--prefer", "coverage", "--exclude-op", "OptionalGetElement")
    with lowtide.Runner(tmp_path / "pieces") as runner:
        agree(runner.run(mixed.feed), whole(path, mixed.feed))


@pytest.mark.parametrize("kind", ["BFLOAT16", "INT4", "UINT4"])
def test_values_of_types_that_no_runner_hands_over(kind, tmp_path):
    dtype = getattr(TensorProto, kind)
    if kind == "BFLOAT16":
        nodes = [node("Cast", "x", "h", to=dtype), node("Cast", "h", "y", to=FLOAT)]
    else:
        nodes = [
            node("QuantizeLinear", "x,s,z", "h"),
            node("Transpose", "h", "t"),
            node("DequantizeLinear", "t,s,z", "y"),
        ]
    constants = [numpy_helper.from_array(np.float32(0.3), "s"), helper.make_tensor("z", dtype, [], [1])]
    mixed = Mixed(nodes, [typed("x", [2, 3])], [helper.make_tensor_value_info("y", FLOAT, None)], {"x": numbers(2, 3)})
    mixed.constants, mixed.opset = constants, 21
    path = mixed.save(tmp_path / "m.onnx")
    model = onnx.load(path)
    model.ir_version = 10
    onnx.save(model, path)
    for left in {of.name for of in nodes}:
        partition(path, tmp_path / left, "--prefer", "coverage", "--exclude-node", left)
        with lowtide.Runner(tmp_path / left) as runner:
            agree(runner.run(mixed.feed), whole(path, mixed.feed))


@pytest.mark.parametrize("options", [("--prefer", "coverage"), ("--target", "onnx")])
def test_known_integers_of_64_bits(options, tmp_path):
    """Those of 2^63 and more are no negative numbers."""
    large = np.array([2**63 + 5, 2**64 - 1], np.uint64)
    mixed = Mixed(
        [
            node("Identity", "k", "same"),
            node("Constant", "", "c", value=numpy_helper.from_array(large[:1], "c")),
            node("Concat", "x,same,c", "y", axis=0),
        ],
        [typed("x", [1], TensorProto.UINT64)],
        [typed("y", [4], TensorProto.UINT64)],
        {"x": np.array([2**63], np.uint64)},
        [numpy_helper.from_array(large, "k")],
    )
    mixed.nodes[1].input[:] = []
    path = mixed.save(tmp_path / "m.onnx")
    partition(path, tmp_path / "pieces", *options)
    with lowtide.Runner(tmp_path / "pieces") as runner:
        agree(runner.run(mixed.feed), whole(path, mixed.feed))


# ---- --probe ----


def unknown_middle(tmp_path):
    """Of com.microsoft's ExpandDims nobody declares anything, and no rule is known."""
    mixed = Mixed(
        [
            node("Relu", "x", "a"),
            node("ExpandDims", "a,one", "b", domain="com.microsoft"),
            node("ReduceSum", "b,last", "c", keepdims=0),
            node("MatMul", "c,w", "y"),
        ],
        [typed("x", ["batch", 8])],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        {"x": numbers(3, 8)},
        [ints("last", 1), numpy_helper.from_array(np.array(1, np.int32), "one"), weight("w", 8, 7)],
    )
    path = mixed.save(tmp_path / "m.onnx")
    np.savez(tmp_path / "feed.npz", **mixed.feed)
    return mixed, path


def command(*arguments):
    call = [sys.executable, "-m", "lowtide", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(converter.ROOT / "tools/python")}
    return subprocess.run(call, capture_output=True, text=True, env=environment)


def test_probe(tmp_path):
    mixed, path = unknown_middle(tmp_path)
    partition(path, tmp_path / "without", "--prefer", "fewest")
    assert [piece["runtime"] for piece in read(tmp_path / "without")["pieces"]] == ["tflite", "onnx"]
    done = command("partition", path, "--prefer", "fewest", "--probe", tmp_path / "feed.npz", "-o", tmp_path / "pieces")
    assert done.returncode == 0 and "not known" not in done.stdout, done
    assert [piece["runtime"] for piece in read(tmp_path / "pieces")["pieces"]] == ["tflite", "onnx", "tflite"]
    for batch in (3, 4):  # the extent of the run is not taken for every run's
        feed = {"x": numbers(batch, 8)}
        with lowtide.Runner(tmp_path / "pieces") as runner:
            agree(runner.run(feed), whole(path, feed))
    python = lowtide.partition(path, tmp_path / "python", prefer="fewest", probe=tmp_path / "feed.npz")
    assert [piece["runtime"] for piece in python.manifest["pieces"]] == ["tflite", "onnx", "tflite"]


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--probe", "other.npz"], "has no array for the input 'x'"),
        (["--probe", "more.npz"], "the model has no input 'z' (it has: x)"),
        (["--probe", "none.npz"], "none.npz: cannot be read"),
        (["--probe", "m.onnx"], "is not an .npz file"),
        (["--probe", "feed.npz", "--probe", "feed.npz"], "is given twice"),
        (["--probe"], "option '--probe' needs a value"),
    ],
)
def test_bad_probes(arguments, words, tmp_path, monkeypatch):
    unknown_middle(tmp_path)
    np.savez(tmp_path / "other.npz", y=numbers(2))
    np.savez(tmp_path / "more.npz", x=numbers(3, 8), z=numbers(2))
    monkeypatch.chdir(tmp_path)
    done = command("partition", "m.onnx", *arguments, "-o", "pieces")
    assert done.returncode not in (0, 1, 11) and words in done.stderr and done.stderr.count("\n") == 1, done
    assert not (tmp_path / "pieces").exists()


def test_a_probe_without_a_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for arguments in (["--probe", "feed.npz"], ["--dry-run", "--probe=feed.npz"]):
        done = command("partition", *arguments)
        wanted = "lowtide: MODEL is missing (usage: lowtide partition MODEL [OPTIONS]) [usage]\n"
        assert (done.returncode, done.stdout, done.stderr) == (2, "", wanted)
    assert command("partition", "--probe", "feed.npz", "--help").stdout == command("partition", "--help").stdout


@pytest.mark.parametrize("form", [["--errors", "json"], ["--errors=json"]])
def test_a_probe_with_errors_as_json(form, tmp_path, monkeypatch):
    """Those that are found in Python too."""
    unknown_middle(tmp_path)
    np.savez(tmp_path / "other.npz", y=numbers(2))
    monkeypatch.chdir(tmp_path)
    done = command("partition", "m.onnx", "--prefer", "fewest", "--probe", "feed.npz", "-o", "pieces", *form)
    assert done.returncode == 0 and [piece["runtime"] for piece in read(tmp_path / "pieces")["pieces"]] == [
        "tflite",
        "onnx",
        "tflite",
    ]
    for arguments, kind, status in (
        (["m.onnx", "--probe", "other.npz"], "usage", 2),
        (["m.onnx", "--probe", "none.npz"], "not-found", 3),
        (["none.onnx", "--probe", "feed.npz"], "not-found", 3),
        (["--probe", "feed.npz"], "usage", 2),
        (["m.onnx", "--probe", "feed.npz", "--sideways"], "usage", 2),
    ):
        done = command("partition", *arguments, *form)
        event = parse_event(done.stderr)
        assert (done.returncode, event.kind, event.status) == (status, kind, status) and event.message, done
        assert command("partition", *arguments).stderr == f"lowtide: {event.message} [{kind}]\n"


def test_the_program_alone_cannot_probe(tmp_path):
    _, path = unknown_middle(tmp_path)
    done = converter.run("partition", path, "--probe", tmp_path / "feed.npz")
    assert done.returncode == 2 and "only the lowtide command of the Python package can" in done.stderr


def test_a_dry_run_for_programs(tmp_path):
    _, path = unknown_middle(tmp_path)
    division = json.loads(converter.run("partition", path, "--dry-run", "--json", "--prefer", "fewest").stdout)
    schema = json.loads((converter.ROOT / "schemas/division.schema.json").read_text())
    assert json_schema.faults(division, schema, "division") == []
    assert (
        "not known" in division["listing"]
        and division["undeclared"] == ["b"]
        and [piece["in_target"] for piece in division["pieces"]] == [True, False]
    )
    assert [of["name"] for of in division["nodes"]] == ["Relu_a", "ExpandDims_b", "ReduceSum_c", "MatMul_y"]
    done = converter.run("partition", path, "--json")
    assert done.returncode == 2 and "--json is for --dry-run" in done.stderr
