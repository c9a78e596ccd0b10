# SPDX-License-Identifier: Apache-2.0
"""TFLite models whose constants are in other files, looked at by `lowtide inspect`: broken ones are refused, and names that
lead out of the model's folder; a file that is missing, too short, or not to be touched is named with the reason. And run by
the Python package."""

import json
import os

import flatbuffers
import numpy as np
import onnx
import pytest
from ai_edge_litert import schema_py_generated as schema
from onnx import TensorProto, helper

import lowtide
from lowtide import tflite_header
from tests.support import converter

ROWS, COLUMNS, OFFSET = 70, 48, 128
BYTES = ROWS * COLUMNS * 4


@pytest.fixture
def model(tmp_path):
    """model.tflite, of one Gather, whose table is in sub/table.bin."""
    table = TensorProto(
        name="table", data_type=TensorProto.FLOAT, dims=[ROWS, COLUMNS], data_location=TensorProto.EXTERNAL
    )
    for key, value in {"location": "sub/table.bin", "offset": OFFSET, "length": BYTES}.items():
        table.external_data.add(key=key, value=str(value))
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.INT32, [2, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 5, COLUMNS])],
        [table],
    )
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/table.bin").write_bytes(bytes(OFFSET) + np.arange(ROWS * COLUMNS, dtype=np.float32).tobytes())
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), tmp_path / "model.onnx")
    assert (
        converter.convert(tmp_path / "model.onnx", tmp_path / "model.tflite", ["--weights=in-place"]).status
        == "converted"
    )
    return tmp_path / "model.tflite"


def inspect(path):
    return converter.run("inspect", "--json", path)


def weights(path):
    """What is said of the file of the weights."""
    done = inspect(path)
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    assert BYTES in [tensor["bytes"] for tensor in listed["graphs"][0]["constants"]]
    return next(value for fact, value in listed["facts"].items() if fact.startswith("weights in "))


def change(path, how):
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(bytearray(path.read_bytes()), 0))
    how(model)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(builder.Output())


def table(model):
    return next(tensor for tensor in model.subgraphs[0].tensors if tensor.externalBuffer)


def rename(name):
    def how(model):
        model.externalBufferGroups[0].name = name

    return how


def put(path, content):
    path.unlink()
    content(path)


FILES = {
    "there": (lambda path: None, ""),
    "missing": (lambda path: path.unlink(), "cannot be opened: No such file"),
    "cut": (
        lambda path: os.truncate(path, OFFSET + BYTES - 1),
        f"it has {OFFSET + BYTES - 1} bytes, but {OFFSET + BYTES} are needed",
    ),
    "link": (lambda path: put(path, lambda p: p.symlink_to("/etc/passwd")), "a symbolic link"),
    "folder": (lambda path: put(path, lambda p: p.mkdir()), "not a regular file"),
    "pipe": (lambda path: put(path, os.mkfifo), "not a regular file"),
    "hard link": (lambda path: os.link(path, path.with_name("other")), "a hard link"),
}


@pytest.mark.parametrize("case", FILES)
def test_state_of_the_file_is_shown(case, model):
    do, words = FILES[case]
    do(model.parent / "sub/table.bin")
    said = weights(model)
    assert said.startswith(f"{BYTES} bytes") and words in said and (words or said == f"{BYTES} bytes")


@pytest.mark.parametrize("name", ["", "sub", "sub/"])
def test_names_of_no_file_are_shown(name, model):
    change(model, rename(name))
    assert "," in weights(model)


@pytest.mark.parametrize("name", ["../secret.bin", "/etc/passwd", "sub/../../x", "sub/../sub/table.bin", "..", "a\0b"])
@pytest.mark.parametrize("is_used", [True, False])
def test_names_that_leave_the_folder_are_refused(name, is_used, model):
    """Whoever runs the model may follow them."""
    if is_used:
        change(model, rename(name))
    else:
        change(model, lambda of: of.externalBufferGroups.append(schema.ExternalBufferGroupT(name=name)))
    done = inspect(model)
    assert done.returncode == 7 and "external buffers: the file name" in done.stderr, done
    assert done.stderr.count("\n") == 1 and "\0" not in done.stderr


@pytest.mark.parametrize("name", ["../secret.bin", "/etc/passwd", "sub/../../x", "..\\x", "a\0b", ""])
def test_names_that_leave_the_folder_are_not_run(name, model):
    """LiteRT opens whatever name it finds."""
    change(model, rename(name))
    for read in (tflite_header.read_header, lowtide.Runner):
        with pytest.raises(lowtide.UnsafePath, match="which is not below the model's folder") as caught:
            read(str(model))
        assert caught.value.file == str(model) and "\n" not in str(caught.value)


def test_a_name_that_is_not_utf_8_is_no_other_name(model):
    """The text is read as LiteRT reads it, byte by byte."""
    change(model, rename("\ufffd"))
    data = model.read_bytes()
    assert data.count("\ufffd".encode()) == 1
    model.write_bytes(data.replace("\ufffd".encode(), b"\xff\xfe\xfd"))
    assert tflite_header.read_header(str(model)).external_files == ["\udcff\udcfe\udcfd"]
    with pytest.raises(lowtide.UnsafePath, match="does not list"):
        tflite_header.read_header(str(model), frozenset(["\ufffd\ufffd\ufffd"]))


def test_operators_alone_read_the_other_files(model):
    """Other groups, which nothing uses, have names that could meet in a folder of links. Nothing is written beside the model."""

    def more(of):
        for name in ("sub/table.bin", "./sub/table.bin", "sub", "sub/none", "1.tflite", "table.bin/x"):
            of.externalBufferGroups.append(schema.ExternalBufferGroupT(name=name))

    change(model, more)
    (model.parent / "1.tflite").write_bytes(b"another file")
    before = {path: path.read_bytes() for path in model.parent.rglob("*") if path.is_file()}
    found = lowtide.verify(model.with_name("model.onnx"), model, by_op=True)
    assert found.passed and any("GATHER" in of.operators for of in found.tensors)
    assert {path: path.read_bytes() for path in model.parent.rglob("*") if path.is_file()} == before


def second(**fields):
    """Another external buffer."""

    def how(model):
        first = model.externalBuffers[0]
        model.externalBuffers.append(
            schema.ExternalBufferT(**{"id": first.id + 1, "group": 0, "offset": 0, "length": 4, **fields})
        )

    return how


def of_table(**fields):
    def how(model):
        for name, value in fields.items():
            setattr(table(model), name, value)

    return how


def of_buffer(**fields):
    def how(model):
        for name, value in fields.items():
            setattr(model.externalBuffers[0], name, value)

    return how


BROKEN = {
    "no such group": (second(group=1), "refers to group 1, but there are 1 groups"),
    "an id of 0": (second(id=0), "external buffer id 0 is reserved"),
    "two of one id": (second(id=0x80000000), "is defined twice"),
    "no such buffer": (of_table(externalBuffer=7), "external buffer 7 does not exist"),
    "too short": (
        of_buffer(length=BYTES - 4),
        f"the tensor needs {BYTES} bytes, but its external buffer has {BYTES - 4}",
    ),
    "past 2^64": (of_buffer(offset=2**64 - 64), "overflow"),
    "two places": (of_table(buffer=1), "both an external buffer and other data"),
    "a variable": (of_table(isVariable=True), "both an external buffer and other data"),
    "strings": (of_table(type=schema.TensorType.STRING), "a tensor of type STRING cannot be in an external buffer"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_models_are_refused(case, model):
    how, words = BROKEN[case]
    change(model, how)
    done = inspect(model)
    assert done.returncode == 6 and words in done.stderr, done
