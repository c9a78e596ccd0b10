# SPDX-License-Identifier: Apache-2.0
"""Models with wrong external data: paths out of the folder, links, devices, extents outside the file, entries that are not
known; and models that are no files. What may be read is written down in docs/decisions/external-data.md."""

import os
import socket

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

from tests.hostile.good_model import good_model, initializer
from tests.hostile.refusal import converter, refuse


def external_model(folder, where, **entries):
    """The good model with the_kernel in `where`; `entries` overwrite what the file says about it."""
    model = good_model()
    tensor = initializer(model, "the_kernel")
    raw = tensor.raw_data
    set_external_data(tensor, where, offset=0, length=len(raw))
    tensor.ClearField("raw_data")
    for entry in list(tensor.external_data):
        if entry.key in entries:
            value = entries.pop(entry.key)
            tensor.external_data.remove(entry) if value is None else setattr(entry, "value", str(value))
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    (folder / "models").mkdir(exist_ok=True)
    path = folder / "models/external.onnx"
    path.write_bytes(model.SerializeToString())
    return path, raw


@pytest.mark.parametrize(
    "location",
    [
        "weights.bin",
        "./weights.bin",
        "sub/./weights.bin",
        "sub//weights.bin",
        "a\\b",
        "..weights",
        "...",
        "wéights",
        " weights.bin ",
    ],
)
def test_below_the_folder_converts(location, tmp_path):
    """Odd names, but of files below the model's folder: a backslash is a letter here."""
    path, raw = external_model(tmp_path, location)
    (path.parent / location).parent.mkdir(exist_ok=True)
    (path.parent / location).write_bytes(raw)
    assert converter.convert(path, tmp_path / "m.tflite").status == "converted"


ESCAPES = {
    "parent": "../secret.bin",
    "through a folder": "sub/../../secret.bin",
    "through this folder": "./../secret.bin",
    "absolute": "{root}/secret.bin",
    "absolute twice": "//{root}/secret.bin",
    "parent that comes back": "../models/secret.bin",
    "parent inside": "sub/../secret.bin",
    "nothing": "",
    "this folder": ".",
    "the parent": "..",
    "a folder": "sub",
    "a folder with its slash": "sub/",
    "a file as a folder": "external.onnx/",
    "nul": "weights.bin\0.txt",
    "device": "/dev/zero",
    "memory": "/proc/self/mem",
    "environment": "../../../../../../../../proc/self/environ",
}


@pytest.mark.parametrize("case", ESCAPES)
def test_path_that_escapes(case, tmp_path, record_property):
    path, raw = external_model(tmp_path, ESCAPES[case].replace("{root}", str(tmp_path)))
    (tmp_path / "secret.bin").write_bytes(raw)
    (tmp_path / "models/sub").mkdir()
    (tmp_path / "models/secret.bin").write_bytes(raw)
    refuse(path, "unsafe-path" if case != "a file as a folder" else ("unsafe-path", "not-found"), ["the_kernel"])
    record_property("hostile files refused", 1)


@pytest.mark.parametrize(
    "location",
    [
        "missing.bin",
        "sub/missing.bin",
        "..\\secret.bin",
        "C:\\secret.bin",
        "file:///etc/passwd",
        "external.onnx/weights.bin",
        "n" * 256,
        "n/" * 3000 + "w",
        "\x1b[31m",
        b"\xff\xfe",
    ],
    ids=[
        "missing",
        "in a missing folder",
        "backslashes",
        "drive",
        "url",
        "below a file",
        "long name",
        "long path",
        "control characters",
        "no text",
    ],
)
def test_path_that_is_not_there(location, tmp_path, record_property):
    """Also what would be another place on another system: here it is a name, of a file that is not there."""
    if isinstance(location, bytes):  # protobuf's writer takes only text: put in place of one of equal length
        path, _ = external_model(tmp_path, "QQ")
        path.write_bytes(path.read_bytes().replace(b"QQ", location))
    else:
        path, _ = external_model(tmp_path, location)
    (tmp_path / "secret.bin").write_bytes(b"secret")
    refuse(path, "not-found", ["the_kernel"])
    record_property("hostile files refused", 1)


@pytest.mark.parametrize(
    "kind",
    [
        "symbolic link",
        "symbolic link inside",
        "symbolic link to itself",
        "linked folder",
        "dangling link",
        "hard link",
        "pipe",
        "folder",
        "socket",
    ],
)
def test_file_that_is_not_regular(kind, tmp_path, record_property):
    path, raw = external_model(tmp_path, "sub/weights.bin" if kind == "linked folder" else "weights.bin")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/weights.bin").write_bytes(raw)
    (path.parent / "inside.bin").write_bytes(raw)
    beside = path.with_name("weights.bin")
    if kind == "symbolic link":
        beside.symlink_to(tmp_path / "outside/weights.bin")
    elif kind == "symbolic link inside":
        beside.symlink_to("inside.bin")
    elif kind == "symbolic link to itself":
        beside.symlink_to("weights.bin")
    elif kind == "linked folder":
        (path.parent / "sub").symlink_to(tmp_path / "outside")
    elif kind == "dangling link":
        beside.symlink_to(tmp_path / "nothing")
    elif kind == "hard link":
        os.link(tmp_path / "outside/weights.bin", beside)
    elif kind == "pipe":
        os.mkfifo(beside)  # and no process writes to it
    elif kind == "folder":
        beside.mkdir()
    else:
        before = os.getcwd()
        os.chdir(path.parent)  # the name of a socket is short
        try:
            socket.socket(socket.AF_UNIX).bind("weights.bin")
        finally:
            os.chdir(before)
    refuse(path, ("unsafe-path", "not-found") if kind == "socket" else "unsafe-path", ["the_kernel"])
    record_property("hostile files refused", 1)


ENTRIES = [
    {"offset": -1},
    {"length": -4},
    {"offset": 2**63},
    {"offset": 2**64},
    {"offset": 2**64 - 100},
    {"offset": 2**64 - 288},
    {"length": 10**15},
    {"length": 2**64 + 288},
    {"offset": 1000},
    {"offset": 101},
    {"offset": "zero"},
    {"length": "1e3"},
    {"length": 287},
    {"length": 292},
    {"surprise": 1},
    {"offset": ""},
    {"offset": " 0"},
    {"offset": "+0"},
    {"offset": "0x10"},
    {"length": "288\0"},
    {"": "1"},
    {"Location": "weights.bin"},
    {"basepath": "/etc"},
    {"location": None},
]


@pytest.mark.parametrize("entries", ENTRIES, ids=str)
def test_wrong_entries(entries, tmp_path, record_property):
    path, raw = external_model(tmp_path, "weights.bin", **entries)
    path.with_name("weights.bin").write_bytes(raw + b"\0" * 100)
    refuse(path, "unsafe-path" if entries == {"location": None} else "malformed", ["the_kernel"])
    record_property("hostile files refused", 1)


def test_entry_twice(tmp_path, record_property):
    model = good_model()
    tensor = initializer(model, "the_kernel")
    set_external_data(tensor, "weights.bin")
    tensor.external_data.add(key="location", value="other.bin")
    tensor.ClearField("raw_data")
    path = tmp_path / "twice.onnx"
    path.write_bytes(model.SerializeToString())
    refuse(path, "malformed", ["the_kernel", "entry 'location' is given twice"])
    record_property("hostile files refused", 1)


def test_file_that_is_shorter(tmp_path, record_property):
    path, raw = external_model(tmp_path, "weights.bin")
    path.with_name("weights.bin").write_bytes(raw[:-1])
    refuse(path, "malformed", ["the_kernel", "weights.bin", "287 bytes"])
    record_property("hostile files refused", 1)


def test_shape_larger_than_the_file(tmp_path, record_property):
    path, raw = external_model(tmp_path, "weights.bin", length=None)
    path.with_name("weights.bin").write_bytes(raw)
    model = good_model()
    model.ParseFromString(path.read_bytes())
    initializer(model, "the_kernel").dims[0] = 2**40
    path.write_bytes(model.SerializeToString())
    refuse(path, "malformed", ["the_kernel", "weights.bin"])
    record_property("hostile files refused", 1)


def test_overlapping_extents_are_right(tmp_path):
    """Weights may share bytes: each holds the bytes at its offset."""
    data = np.random.default_rng(1).standard_normal(900).astype(np.float32)
    begins = {"a": 0, "b": 200, "c": 399}
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["x", "a"], ["t"]),
            helper.make_node("Mul", ["t", "b"], ["u"]),
            helper.make_node("Sub", ["u", "c"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [500])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [500])],
        initializer=[numpy_helper.from_array(np.zeros(500, np.float32), name) for name in begins],
    )
    for tensor in graph.initializer:
        set_external_data(tensor, "w.bin", offset=4 * begins[tensor.name], length=2000)
        tensor.ClearField("raw_data")
    (tmp_path / "w.bin").write_bytes(data.tobytes())
    path = tmp_path / "m.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()
    )
    assert converter.convert(path, tmp_path / "m.tflite").status == "converted"
    written = schema.Model.GetRootAs((tmp_path / "m.tflite").read_bytes(), 0)
    stored = [written.Buffers(i).DataAsNumpy() for i in range(written.BuffersLength())]
    for name, begin in begins.items():
        expected = data[begin : begin + 500].tobytes()
        assert any(isinstance(other, np.ndarray) and other.tobytes() == expected for other in stored), name


# Models that are no files.


def test_model_that_is_not_there(tmp_path, record_property):
    refuse(tmp_path / "absent.onnx", "not-found")
    record_property("hostile files refused", 1)


def test_model_that_is_a_folder(tmp_path, record_property):
    (tmp_path / "folder.onnx").mkdir()
    refuse(tmp_path / "folder.onnx", "unsafe-path", ["a folder"])
    record_property("hostile files refused", 1)


def test_model_that_is_a_pipe(tmp_path, record_property):
    os.mkfifo(tmp_path / "pipe.onnx")
    refuse(tmp_path / "pipe.onnx", "unsafe-path")  # and does not wait for a writer
    record_property("hostile files refused", 1)


def test_model_that_is_a_device(tmp_path, record_property):
    (tmp_path / "device.onnx").symlink_to("/dev/zero")
    refuse(tmp_path / "device.onnx", "unsafe-path")
    record_property("hostile files refused", 1)


def test_model_of_a_name_that_is_too_long(tmp_path, record_property):
    refuse(tmp_path / ("n" * 300), "not-found")
    record_property("hostile files refused", 1)


def test_model_that_is_a_link_to_itself(tmp_path, record_property):
    (tmp_path / "loop.onnx").symlink_to("loop.onnx")
    refuse(tmp_path / "loop.onnx", "not-found")
    record_property("hostile files refused", 1)


def test_a_linked_model_looks_beside_the_link(tmp_path, record_property):
    path, raw = external_model(tmp_path, "weights.bin")
    path.with_name("weights.bin").write_bytes(raw)
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere/linked.onnx"
    link.symlink_to(path)
    refuse(link, "not-found", ["the_kernel"])
    (tmp_path / "elsewhere/weights.bin").write_bytes(raw)
    assert converter.convert(link, tmp_path / "m.tflite").status == "converted"
    record_property("hostile files refused", 1)
