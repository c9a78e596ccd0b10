# SPDX-License-Identifier: Apache-2.0
"""Holds schemas/tflite.fbs against the schema that ai-edge-litert ships as generated Python classes.

flatc turns our schema into the same kind of classes, and both modules are read as source code: the slot, type and
default of a field stand in the accessors and in the Add functions that flatc writes. Every table, enum and union
is compared. What generated Python cannot tell (which enum an int8 field means, alignment) is not compared.

    FLATC=/path/to/flatc python -m pytest tests/schemas/test_tflite_schema.py
"""

import ast
import functools
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "schemas" / "tflite.fbs"


def calls(node):
    """All calls below a node, as (name of the called attribute or function, call)."""
    for call in (n for n in ast.walk(node) if isinstance(n, ast.Call)):
        yield getattr(call.func, "attr", None) or getattr(call.func, "id", None), call


class GeneratedModule:
    """The facts in one generated module: enums {name: {member: value}}, tables {name: {fact: value}}."""

    def __init__(self, source):
        self.enums, self.tables = {}, {}
        tree = ast.parse(source)
        classes = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef)}
        for name, node in classes.items():
            methods = {f.name: f for f in node.body if isinstance(f, ast.FunctionDef)}
            if "GetRootAs" in methods:
                self.tables[name] = {"identifier": None, "accessors": {}, "writers": {}, "vectors": {}, "slots": None}
                self.read_accessors(name, methods)
            elif "_UnPack" not in methods:
                members = (a for a in node.body if isinstance(a, ast.Assign))
                self.enums[name] = {a.targets[0].id: ast.literal_eval(a.value) for a in members}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                self.read_function(node)

    def read_accessors(self, table, methods):
        for name, method in methods.items():
            seen = list(calls(method))
            if name == table + "BufferHasIdentifier":
                self.tables[table]["identifier"] = next(
                    a.value
                    for n, c in seen
                    for a in c.args
                    if isinstance(a, ast.Constant) and isinstance(a.value, bytes)
                )
            slots = [c.args[0].value for n, c in seen if n == "Offset"]
            if not slots or re.search(r"(AsNumpy|IsNone)$", name) or "VectorLen" in dict(seen):
                continue
            reads = [ast.unparse(c.args[0]).rsplit(".", 1)[-1] for n, c in seen if n == "Get"]
            reads += [n for n, _ in seen if n in ("String", "Union")]
            reads += [n for n, c in seen if isinstance(c.func, ast.Name) and n[0].isupper()]  # a table's class
            default = method.body[-1].value  # what the accessor returns for an absent field
            self.tables[table]["accessors"][name] = {
                "slot": (slots[0] - 4) // 2,
                "reads": reads,
                "vector": "Vector" in dict(seen),
                "default": ast.literal_eval(default) or 0,
            }

    def read_function(self, node):
        for table in (t for t in self.tables if node.name.startswith(t)):
            rest = node.name[len(table) :]
            for name, call in calls(node):
                writer = re.fullmatch(r"Prepend(\w+)Slot", name or "")
                if writer and re.match("Add[A-Z]", rest):
                    slot, default = ast.literal_eval(call.args[0]), ast.literal_eval(call.args[2])
                    self.tables[table]["writers"][rest[3:]] = (slot, writer[1], default)
                elif name == "StartVector" and re.fullmatch(r"Start[A-Z]\w*Vector", rest):
                    self.tables[table]["vectors"][rest[5:-6]] = ast.literal_eval(call.args[0])
                elif name == "StartObject" and rest == "Start":
                    self.tables[table]["slots"] = ast.literal_eval(call.args[0])


@functools.cache
def shipped():
    spec = importlib.util.find_spec("ai_edge_litert")
    if spec is None:
        return None
    path = pathlib.Path(spec.submodule_search_locations[0]) / "schema_py_generated.py"
    return GeneratedModule(path.read_text())


@functools.cache
def ours():
    flatc = os.environ.get("FLATC") or shutil.which("flatc")
    assert flatc, "flatc is not installed (Debian: flatbuffers-compiler)"
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([flatc, "--python", "--gen-onefile", "--gen-object-api", "-o", out, str(SCHEMA)], check=True)
        return GeneratedModule((pathlib.Path(out) / "tflite_generated.py").read_text())


pytestmark = pytest.mark.skipif(shipped() is None, reason="ai-edge-litert is not installed")


def test_same_tables():
    assert set(ours().tables) == set(shipped().tables)


def test_same_enums_and_unions():
    assert set(ours().enums) == set(shipped().enums)


@pytest.mark.parametrize("name", sorted(shipped().enums) if shipped() else [])
def test_enum(name):
    assert ours().enums[name] == shipped().enums[name]


@pytest.mark.parametrize("name", sorted(shipped().tables) if shipped() else [])
def test_table(name):
    assert ours().tables[name] == shipped().tables[name]


def test_the_schema_parser():
    """The comparison is worth nothing if the reader finds nothing: spot checks against well-known facts."""
    module = shipped()
    assert max(module.enums["BuiltinOperator"].values()) == 209
    assert max(module.enums["BuiltinOptions"].values()) == 126
    assert max(module.enums["BuiltinOptions2"].values()) == 23
    assert max(module.enums["TensorType"].values()) == 22
    assert module.tables["Operator"]["slots"] == 14
    assert module.tables["Operator"]["writers"]["BuiltinOptions2"] == (12, "UOffsetTRelative", 0)
    assert module.tables["OperatorCode"]["accessors"]["Version"] == {
        "slot": 2,
        "reads": ["Int32Flags"],
        "vector": False,
        "default": 1,
    }
    assert module.tables["Tensor"]["accessors"]["Sparsity"]["reads"] == ["SparsityParameters"]
    assert module.tables["StridedSliceOptions"]["writers"]["Offset"] == (5, "Bool", 0)
    assert module.tables["Model"]["vectors"]["Buffers"] == 4
    assert module.tables["Model"]["identifier"] == b"TFL3"
    for name, table in module.tables.items():
        assert len(table["accessors"]) == len(table["writers"]), name
        assert table["slots"] is not None, name
