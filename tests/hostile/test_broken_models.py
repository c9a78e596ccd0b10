"""Broken and hostile ONNX files, and what the program must do with each: a one-line error that names the file and the
reason, an exit status of its own, no output, no temporary file, no crash, no hang.

Model files come from strangers. One row of BROKEN is one way in which a file can lie.
"""

import os
import pathlib
import random
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "oracle"))

import converter  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def program():
    converter.program()


def good_model():
    """the_input[1,3,7,9] -> Conv -> Reshape -> Gemm -> y, with inline weights."""
    rng = np.random.default_rng(0)
    weights = {"the_kernel": rng.uniform(-1, 1, (4, 3, 3, 2)), "the_matrix": rng.uniform(-1, 1, (5, 160)), "the_bias": rng.uniform(-1, 1, 5)}
    initializers = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()]
    initializers.append(numpy_helper.from_array(np.array([1, -1], np.int64), "shape"))
    nodes = [helper.make_node("Conv", ["the_input", "the_kernel"], ["conv_out"], name="the_conv", kernel_shape=[3, 2]),
             helper.make_node("Reshape", ["conv_out", "shape"], ["r"], name="the_reshape"),
             helper.make_node("Gemm", ["r", "the_matrix", "the_bias"], ["y"], name="the_gemm", transB=1)]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("the_input", TensorProto.FLOAT, [1, 3, 7, 9])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])], initializer=initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])


def refuse(path, folder, words=(), options=()):
    output = folder / "out"
    output.mkdir(exist_ok=True)
    done = converter.convert(path, output / "m.tflite", options, time_limit=20)
    assert done.status == "refused", f"{done.status}: {done.reason}"
    assert not list(output.iterdir())
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, f"not one line: {lines}"
    for word in (path.name, *words):
        assert word in lines[0], lines[0]
    return lines[0]


def test_the_good_model_converts(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(good_model(), path)
    assert converter.convert(path, tmp_path / "m.tflite").status == "converted"


def test_cut_at_any_byte(tmp_path):
    whole = good_model().SerializeToString()
    path = tmp_path / "cut.onnx"
    # Every byte of the beginning and of the end, where the structure lies; fewer in the midst of the weights.
    cuts = [*range(0, 300), *range(300, len(whole) - 300, 97), *range(len(whole) - 300, len(whole))]
    for cut in cuts:
        path.write_bytes(whole[:cut])
        try:
            refuse(path, tmp_path)
        except AssertionError as error:
            raise AssertionError(f"cut at {cut} of {len(whole)}: {error}") from None


def test_changed_bytes_never_crash(tmp_path):
    whole = good_model().SerializeToString()
    rng = random.Random(11)
    path = tmp_path / "changed.onnx"
    output = tmp_path / "out"
    output.mkdir()
    for round_ in range(400):
        data = bytearray(whole)
        for _ in range(rng.choice((1, 1, 2, 8))):
            data[rng.choice((rng.randrange(len(data)), rng.randrange(260), len(data) - 1 - rng.randrange(260)))] = rng.randrange(256)
        path.write_bytes(data)
        done = converter.convert(path, output / "m.tflite", time_limit=20)
        if done.status == "broken":
            kept = tmp_path / f"broken_{round_}.onnx"
            kept.write_bytes(data)
            raise AssertionError(f"round {round_}: {done.reason}; kept as {kept}")
        for left in output.iterdir():
            left.unlink()


def initializer(model, name):
    return next(t for t in model.graph.initializer if t.name == name)


def node(model, name):
    return next(n for n in model.graph.node if n.name == name)


def attribute(model, name, which, value):
    changed = node(model, name)
    kept = [a for a in changed.attribute if a.name != which]
    del changed.attribute[:]
    changed.attribute.extend([*kept, helper.make_attribute(which, value)])


def short_data(m):
    initializer(m, "the_kernel").raw_data = initializer(m, "the_kernel").raw_data[:-1]


def long_data(m):
    initializer(m, "the_kernel").raw_data += b"\0\0\0\0"


def overflowing_dims(m):
    initializer(m, "the_kernel").dims[:] = [2**31, 2**31, 2**31, 2]


def largest_dims(m):
    initializer(m, "the_kernel").dims[:] = [2**63 - 1, 2**63 - 1, 3, 2]


def negative_dims(m):
    initializer(m, "the_kernel").dims[:] = [-4, -3, 3, 2]


def unknown_type(m):
    initializer(m, "the_kernel").data_type = 77


def two_payloads(m):
    initializer(m, "the_kernel").float_data.extend([0.0] * 72)


def missing_input(m):
    node(m, "the_gemm").input[0] = "nowhere"


def cycle(m):
    node(m, "the_conv").input[0] = "r"


def duplicate_output(m):
    node(m, "the_gemm").output[0] = "conv_out"


def missing_output(m):
    m.graph.output[0].name = "nowhere"


def duplicate_initializer(m):
    m.graph.initializer.append(initializer(m, "the_kernel"))


def duplicate_graph_input(m):
    m.graph.input.append(m.graph.input[0])


def no_opset(m):
    del m.opset_import[:]


def opset_of_the_future(m):
    m.opset_import[0].version = 9999


def negative_opset(m):
    m.opset_import[0].version = -13


def no_graph(m):
    m.ClearField("graph")


def kernel_shape_lies(m):
    attribute(m, "the_conv", "kernel_shape", [3, 3])


def zero_stride(m):
    attribute(m, "the_conv", "strides", [0, 1])


def negative_stride(m):
    attribute(m, "the_conv", "strides", [-1, 1])


def huge_pads(m):
    attribute(m, "the_conv", "pads", [2**62, 2**62, 2**62, 2**62])


def zero_dilation(m):
    attribute(m, "the_conv", "dilations", [0, 0])


def pads_of_wrong_length(m):
    attribute(m, "the_conv", "pads", [1, 1])


def group_does_not_divide(m):
    attribute(m, "the_conv", "group", 2)


def zero_group(m):
    attribute(m, "the_conv", "group", 0)


def attribute_of_wrong_type(m):
    attribute(m, "the_conv", "strides", "two")


def unknown_attribute(m):
    attribute(m, "the_conv", "speed", 3)


def auto_pad_that_is_none(m):
    attribute(m, "the_conv", "auto_pad", "SAME_MIDDLE")


def reshape_does_not_fit(m):
    initializer(m, "shape").CopyFrom(numpy_helper.from_array(np.array([7, 11], np.int64), "shape"))


def reshape_overflows(m):
    initializer(m, "shape").CopyFrom(numpy_helper.from_array(np.array([2**62, 2**62], np.int64), "shape"))


def reshape_twice_unknown(m):
    initializer(m, "shape").CopyFrom(numpy_helper.from_array(np.array([-1, -1], np.int64), "shape"))


def gemm_does_not_fit(m):
    initializer(m, "the_matrix").CopyFrom(numpy_helper.from_array(np.zeros((5, 161), np.float32), "the_matrix"))


def conv_channels_do_not_fit(m):
    initializer(m, "the_kernel").CopyFrom(numpy_helper.from_array(np.zeros((4, 2, 3, 2), np.float32), "the_kernel"))


def conv_of_wrong_rank(m):
    initializer(m, "the_kernel").CopyFrom(numpy_helper.from_array(np.zeros((4, 3), np.float32), "the_kernel"))


def too_few_inputs(m):
    del node(m, "the_conv").input[1:]


def too_many_inputs(m):
    node(m, "the_conv").input.extend(["the_bias", "the_bias", "the_bias"])


def huge_input_dims(m):
    for dim in m.graph.input[0].type.tensor_type.shape.dim:
        dim.dim_value = 2**62


def unknown_operator(m):
    node(m, "the_reshape").op_type = "Reshapeify"


def unknown_domain(m):
    node(m, "the_reshape").domain = "nobody.knows"
    m.opset_import.append(helper.make_opsetid("nobody.knows", 1))


def function_that_calls_itself(m):
    m.functions.append(helper.make_function("own", "Again", ["p"], ["q"], [helper.make_node("Again", ["p"], ["q"], domain="own")],
                                            [helper.make_opsetid("", 13), helper.make_opsetid("own", 1)]))
    m.opset_import.append(helper.make_opsetid("own", 1))
    del m.graph.node[1].attribute[:]
    m.graph.node[1].CopyFrom(helper.make_node("Again", ["conv_out"], ["r"], name="the_reshape", domain="own"))


# What the error must name, besides the file.
BROKEN = {
    short_data: ["the_kernel"], long_data: ["the_kernel"], overflowing_dims: ["the_kernel"], largest_dims: ["the_kernel"], negative_dims: ["the_kernel"], unknown_type: [],
    two_payloads: ["the_kernel"], missing_input: ["the_gemm", "nowhere"], cycle: [], duplicate_output: ["conv_out"], missing_output: ["nowhere"],
    duplicate_initializer: ["the_kernel"], duplicate_graph_input: ["the_input"], no_opset: [], opset_of_the_future: ["9999"], negative_opset: [], no_graph: [],
    kernel_shape_lies: ["the_conv", "kernel_shape"], zero_stride: ["the_conv", "strides"], negative_stride: ["the_conv", "strides"],
    huge_pads: ["the_conv"], zero_dilation: ["the_conv", "dilations"], pads_of_wrong_length: ["the_conv", "pads"],
    group_does_not_divide: ["the_conv"], zero_group: ["the_conv", "group"], attribute_of_wrong_type: ["the_conv", "strides"],
    auto_pad_that_is_none: ["the_conv", "SAME_MIDDLE"], reshape_does_not_fit: ["the_reshape"], reshape_overflows: ["the_reshape"],
    reshape_twice_unknown: ["the_reshape"], gemm_does_not_fit: ["the_gemm"], conv_channels_do_not_fit: ["the_conv"],
    conv_of_wrong_rank: ["the_conv"], too_few_inputs: ["the_conv"], too_many_inputs: ["the_conv"],
    huge_input_dims: [], function_that_calls_itself: ["Again"],
}


@pytest.mark.parametrize("harm", BROKEN, ids=lambda harm: harm.__name__)
def test_broken_model(harm, tmp_path):
    model = good_model()
    harm(model)
    path = tmp_path / "broken.onnx"
    path.write_bytes(model.SerializeToString())
    print(refuse(path, tmp_path, BROKEN[harm]))


@pytest.mark.parametrize("harm, words", [(unknown_operator, ["the_reshape", "Reshapeify"]), (unknown_domain, ["the_reshape", "nobody.knows"]),
                                         (unknown_attribute, ["the_conv", "speed"])], ids=lambda v: getattr(v, "__name__", ""))
def test_what_cannot_be_expressed_is_named(harm, words, tmp_path):
    model = good_model()
    harm(model)
    path = tmp_path / "strange.onnx"
    path.write_bytes(model.SerializeToString())
    done = converter.convert(path, tmp_path / "m.tflite")
    assert done.status == "refused", done
    for word in words:
        assert word in done.reason, done.reason


@pytest.mark.parametrize("content", [b"", b"\0", b"\xff" * 100, b"PK\x03\x04 a zip", b"\x08" + b"\xff" * 9 + b"\x01", b"\x3a\xff\xff\xff\xff\x0f"],
                         ids=["empty", "zero", "ones", "zip", "varint", "length"])
def test_no_model_at_all(content, tmp_path):
    path = tmp_path / "no_model.onnx"
    path.write_bytes(content)
    refuse(path, tmp_path)


def test_missing_model_and_folder(tmp_path):
    refuse(tmp_path / "absent.onnx", tmp_path)
    folder = tmp_path / "folder.onnx"
    folder.mkdir()
    refuse(folder, tmp_path)


def test_device_and_fifo_are_no_models(tmp_path):
    fifo = tmp_path / "fifo.onnx"
    os.mkfifo(fifo)
    refuse(fifo, tmp_path)  # and does not wait for a writer
    refuse(pathlib.Path("/dev/zero"), tmp_path)


# External data.


def external_model(folder, location, data=b"", **entries):
    """The good model with `w` in `location`; `entries` overwrite what the file says about it."""
    model = good_model()
    tensor = initializer(model, "the_kernel")
    raw = tensor.raw_data
    set_external_data(tensor, location, offset=0, length=len(raw))
    tensor.ClearField("raw_data")
    for entry in list(tensor.external_data):
        if entry.key in entries:
            entry.value = str(entries.pop(entry.key))
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    (folder / "models").mkdir(exist_ok=True)
    path = folder / "models/external.onnx"
    path.write_bytes(model.SerializeToString())
    return path, data or raw


def test_external_data_beside_the_model_converts(tmp_path):
    path, raw = external_model(tmp_path, "weights.bin")
    path.with_name("weights.bin").write_bytes(raw)
    assert converter.convert(path, tmp_path / "m.tflite").status == "converted"


@pytest.mark.parametrize("location", ["../secret.bin", "sub/../../secret.bin", "./../secret.bin", "{absolute}", "", ".", "..", "sub", "weights.bin\0.txt",
                                      "/dev/zero", "/proc/self/mem"])
def test_external_path_that_escapes(location, tmp_path):
    path, raw = external_model(tmp_path, location.replace("{absolute}", str(tmp_path / "secret.bin")))
    (tmp_path / "secret.bin").write_bytes(raw)
    (tmp_path / "models/sub").mkdir()
    refuse(path, tmp_path, ["the_kernel"])


@pytest.mark.parametrize("kind", ["symlink", "symlinked_folder", "dangling", "fifo"])
def test_external_path_that_is_a_link(kind, tmp_path):
    path, raw = external_model(tmp_path, "sub/weights.bin" if kind == "symlinked_folder" else "weights.bin")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/weights.bin").write_bytes(raw)
    beside = path.with_name("weights.bin")
    if kind == "symlink":
        beside.symlink_to(tmp_path / "outside/weights.bin")
    elif kind == "dangling":
        beside.symlink_to(tmp_path / "nothing")
    elif kind == "fifo":
        os.mkfifo(beside)
    else:
        (path.parent / "sub").symlink_to(tmp_path / "outside")
    refuse(path, tmp_path)


@pytest.mark.parametrize("entries", [{"offset": -1}, {"length": -4}, {"offset": 2**63}, {"offset": 2**64 - 100, "length": 288}, {"length": 10**15},
                                     {"offset": 1000}, {"offset": "zero"}, {"length": "1e3"}, {"length": 287}, {"length": 292}, {"surprise": 1},
                                     {"offset": ""}, {"offset": " 0"}],
                         ids=str)
def test_external_numbers_that_lie(entries, tmp_path):
    path, raw = external_model(tmp_path, "weights.bin", **entries)
    path.with_name("weights.bin").write_bytes(raw + b"\0" * 100)
    refuse(path, tmp_path, ["the_kernel"])
