# SPDX-License-Identifier: Apache-2.0
"""--input-uint8, --mean, --std, --labels, --metadata: raw images in, and what is written for those who prepare them.

Numbers are judged by ONNX Runtime on the normalized image; the metadata by flatc's reading of its own schema, whose
slots are those of the published format, and the labels by Python's zipfile.
"""

import io
import json
import shutil
import subprocess
import zipfile

import numpy as np
import onnx
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter
from onnx import TensorProto, helper, numpy_helper

from tests.oracle.test_interface import value
from tests.oracle.test_interface_options import agree, refusal
from tests.support import converter, judge
from tests.support.tflite_file import read_tflite

RNG = np.random.default_rng(5)
MEAN, STD = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]


def classifier(path, dtype=TensorProto.FLOAT, classes=4):
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    nodes = [
        helper.make_node("Conv", ["image", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["c"], ["p"]),
        helper.make_node("Flatten", ["p"], ["scores"]),
    ]
    constants = [
        numpy_helper.from_array(RNG.uniform(-1, 1, (classes, 3, 3, 3)).astype(kind), "w"),
        numpy_helper.from_array(RNG.uniform(-1, 1, classes).astype(kind), "b"),
    ]
    graph = helper.make_graph(
        nodes, "shapes", [value("image", [1, 3, 8, 6], dtype)], [value("scores", [1, classes], dtype)], constants
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, model_version=3)
    helper.set_model_props(model, {"author": "a person", "license": "MIT", "names": "{0: 'circle'}"})
    model.doc_string = "Tells shapes apart."
    onnx.save(model, path)
    return path


def metadata_of(path):
    """{entry: bytes} of Model.metadata."""
    data = path.read_bytes()
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))
    out = {}
    for entry in model.metadata:
        out[entry.name.decode()] = bytes(model.buffers[entry.buffer].data)
    return out


def tflite_metadata(path, tmp_path):
    """As flatc reads it."""
    if shutil.which("flatc") is None:
        pytest.skip("no flatc")
    (tmp_path / "notes.bin").write_bytes(metadata_of(path)["TFLITE_METADATA"])
    command = ["flatc", "--json", "--strict-json", "--raw-binary", "-o", str(tmp_path)]
    subprocess.run([*command, str(converter.ROOT / "schemas/tflite_metadata.fbs"), "--", str(tmp_path / "notes.bin")], check=True)  # fmt: skip
    return json.loads((tmp_path / "notes.json").read_text())


def converted(model, output, *options):
    done = converter.convert(model, output, options)
    assert done.status == "converted", done
    return read_tflite(output)


# ---- raw images ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.FLOAT16])
def test_raw_images(dtype, tmp_path, litert, lowtide):
    model = classifier(tmp_path / "m.onnx", dtype)
    mean, std = ",".join(map(str, MEAN)), ",".join(map(str, STD))
    options = ["--input-uint8=image", f"--mean={mean}", f"--std={std}"]
    file = converted(model, tmp_path / "m.tflite", *options)
    assert (file.inputs[0].name, file.inputs[0].dtype) == ("image", np.uint8)
    image = RNG.integers(0, 256, (1, 3, 8, 6), dtype=np.uint8)
    normal = (image.astype(np.float32) - np.float32(MEAN).reshape(1, 3, 1, 1)) / np.float32(STD).reshape(1, 3, 1, 1)
    if dtype == TensorProto.FLOAT16:
        normal = normal.astype(np.float16)
    expected = judge.reference(model, {"image": normal})
    if dtype == TensorProto.FLOAT:
        agree(tmp_path / "m.tflite", {"image": image}, expected, litert)
    else:
        got = litert.run(tmp_path / "m.tflite", {"image": image}, True)["scores"]
        np.testing.assert_allclose(got.astype(np.float32), expected["scores"].astype(np.float32), rtol=5e-3, atol=5e-3)
    assert converter.run("check", model, tmp_path / "m.tflite", *options).returncode == 0


@pytest.mark.parametrize("backend", [True, False])
def test_the_normalisation_is_exact(backend, tmp_path, litert, lowtide):
    """Every byte, against numpy's float32."""
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "g", [value("x", [1, 3, 256])], [value("y", [1, 3, 256])]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    mean, std = ",".join(map(str, MEAN)), ",".join(map(str, STD))
    converted(tmp_path / "m.onnx", tmp_path / "m.tflite", "--input-uint8=x", "--mean", mean, "--std", std)
    image = np.broadcast_to(np.arange(256, dtype=np.uint8), (1, 3, 256)).copy()
    expected = (image.astype(np.float32) - np.float32(MEAN).reshape(1, 3, 1)) / np.float32(STD).reshape(1, 3, 1)
    got = litert.run(tmp_path / "m.tflite", {"x": image}, backend)["y"]
    np.testing.assert_array_equal(got, expected)


def test_one_value_for_all_channels_and_the_last_axis(tmp_path, litert, lowtide):
    model = classifier(tmp_path / "m.onnx")
    converted(model, tmp_path / "m.tflite", "--input-uint8=image", "--std=255", "--layout=image=nhwc")
    image = RNG.integers(0, 256, (1, 3, 8, 6), dtype=np.uint8)
    expected = judge.reference(model, {"image": image.astype(np.float32) / np.float32(255)})
    last = np.ascontiguousarray(image.transpose(0, 2, 3, 1))
    agree(tmp_path / "m.tflite", {"image": last}, expected, litert)
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "g", [value("x", [1, 4, 5, 3])], [value("y", [1, 4, 5, 3])]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "n.onnx")
    converted(tmp_path / "n.onnx", tmp_path / "n.tflite", "--input-uint8=x", "--mean=1,2,3")
    image = RNG.integers(0, 256, (1, 4, 5, 3), dtype=np.uint8)
    expected = np.maximum(image.astype(np.float32) - np.float32([1, 2, 3]), 0)
    agree(tmp_path / "n.tflite", {"x": image}, {"y": expected}, litert)


@pytest.mark.parametrize("name", [f"x/{what}" for what in ("Cast", "Sub", "Div", "mean", "std", "normalized")])
@pytest.mark.parametrize("is_constant", [False, True])
def test_names_that_the_model_has_already(name, is_constant, tmp_path, litert, lowtide):
    """Of what the normalisation adds."""
    constants = [numpy_helper.from_array(RNG.random((1, 3, 1, 1), np.float32), name)] if is_constant else []
    nodes = [] if is_constant else [helper.make_node("Neg", ["x"], [name])]
    nodes.append(helper.make_node("Mul", ["x", name], ["y"]))
    inputs, outputs = [value("x", [1, 3, 4, 5])], [value("y", [1, 3, 4, 5])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    converted(tmp_path / "m.onnx", tmp_path / "m.tflite", "--input-uint8=x", "--mean=10", "--std=2")
    image = RNG.integers(0, 256, (1, 3, 4, 5), dtype=np.uint8)
    expected = judge.reference(tmp_path / "m.onnx", {"x": (image.astype(np.float32) - 10) / 2})
    agree(tmp_path / "m.tflite", {"x": image}, expected, litert)


@pytest.mark.parametrize("opset", [1, 5, 6, 7])
def test_the_added_nodes_are_not_of_the_models_opset(opset, tmp_path, litert, lowtide):
    """Before 6 the type of a Cast was a text; before 7 one operand was only repeated where an attribute said so."""
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "g", [value("x", [1, 3, 4, 5])], [value("y", [1, 3, 4, 5])]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3)
    onnx.save(model, tmp_path / "m.onnx")
    converted(tmp_path / "m.onnx", tmp_path / "m.tflite", "--input-uint8=x", "--mean=1,2,3", "--std=2")
    image = RNG.integers(0, 256, (1, 3, 4, 5), dtype=np.uint8)
    expected = np.maximum((image.astype(np.float32) - np.float32([1, 2, 3]).reshape(1, 3, 1, 1)) / 2, 0)
    agree(tmp_path / "m.tflite", {"x": image}, {"y": expected}, litert)


@pytest.mark.parametrize(
    "options, words",
    [
        (["--input-uint8=imag"], "the model has no input 'imag'; did you mean 'image'?"),
        (["--input-uint8=image", "--mean=1,2"], "--mean and --std have 2 values, and neither axis 1 nor the last axis"),
        (["--input-uint8=image", "--mean=1,2,3", "--std=1,2"], "--mean has 3 values, and --std has 2"),
        (["--input-uint8=image", "--std=1,0,3"], "--std: a divisor of 0"),
        (["--mean=1,x,3"], "--mean: '1,x,3' is not a list of numbers"),
        (["--mean=nan"], "is not a list of numbers"),
        (["--labels=labels.txt", "--outputs=c"], "there are 5 labels, and no output has a last axis of that size (outputs: c [1,4,8,6])"),
        (["--labels=absent.txt"], "absent.txt"),
        (["--labels=empty.txt"], "has 0 bytes"),
    ],
)  # fmt: skip
def test_what_is_refused(options, words, tmp_path, lowtide):
    model = classifier(tmp_path / "m.onnx")
    (tmp_path / "labels.txt").write_text("a\nb\nc\nd\ne\n")
    (tmp_path / "empty.txt").write_text("")
    options = [option.replace("--labels=", f"--labels={tmp_path}/") for option in options]
    assert words in refusal(model, tmp_path, *options)


# ---- metadata --------------------------------------------------------------------------------------------------------


def test_nothing_is_written_unless_asked_for(tmp_path, lowtide):
    model = classifier(tmp_path / "m.onnx")
    converted(model, tmp_path / "m.tflite")
    assert list(metadata_of(tmp_path / "m.tflite")) == ["min_runtime_version"]


def test_metadata(tmp_path, lowtide):
    model = classifier(tmp_path / "m.onnx")
    output = tmp_path / "m.tflite"
    converted(model, output, "--metadata")
    notes = tflite_metadata(output, tmp_path)
    (graph,) = notes.pop("subgraph_metadata")
    assert notes == {
        "name": "shapes",
        "description": "Tells shapes apart.",
        "version": "3",
        "author": "a person",
        "license": "MIT",
        "min_parser_version": "1.0.0",
    }
    assert [t["name"] for t in graph["input_tensor_metadata"]] == ["image"]
    assert [t["name"] for t in graph["output_tensor_metadata"]] == ["scores"]
    props = json.loads(metadata_of(output)["onnx_metadata_props"])
    assert props == {"author": "a person", "license": "MIT", "names": "{0: 'circle'}"}


def test_normalisation_is_said_where_the_application_does_it(tmp_path, lowtide):
    model = classifier(tmp_path / "m.onnx")
    mean, std = ",".join(map(str, MEAN)), ",".join(map(str, STD))
    for raw in (True, False):
        options = ["--mean", mean, "--std", std] + ["--input-uint8=image"] * raw
        file = converted(model, tmp_path / "m.tflite", *options)
        assert file.inputs[0].dtype == (np.uint8 if raw else np.float32)
        (graph,) = tflite_metadata(tmp_path / "m.tflite", tmp_path)["subgraph_metadata"]
        (image,) = graph["input_tensor_metadata"]
        assert image["content"] == {
            "content_properties_type": "ImageProperties",
            "content_properties": {"color_space": "RGB"},
        }
        (unit,) = image["process_units"]
        assert unit["options_type"] == "NormalizationOptions"
        np.testing.assert_allclose(unit["options"]["mean"], [0] if raw else MEAN, rtol=1e-6)
        np.testing.assert_allclose(unit["options"]["std"], [1] if raw else STD, rtol=1e-6)


@pytest.mark.parametrize("options", [[], ["--external-buffers"]])
@pytest.mark.parametrize("text", ["circle\nsquare\nstar\nnone\n", "circle\nsquare\nstar\nkein Bild ünï"])
def test_labels(text, options, tmp_path, litert, lowtide):
    model = classifier(tmp_path / "m.onnx")
    (tmp_path / "names.txt").write_text(text, encoding="utf-8")
    output = tmp_path / "m.tflite"
    converted(model, output, f"--labels={tmp_path / 'names.txt'}", "--verify-output", *options)
    with zipfile.ZipFile(io.BytesIO(output.read_bytes())) as archive:
        assert archive.namelist() == ["labels.txt"] and archive.testzip() is None
        assert archive.read("labels.txt").decode() == text
        # Offsets count from the start of the file, as readers that do not look for a prefix need them.
        assert archive.infolist()[0].header_offset == output.read_bytes().index(b"PK\x03\x04")
    (graph,) = tflite_metadata(output, tmp_path)["subgraph_metadata"]
    (file,) = graph["output_tensor_metadata"][0]["associated_files"]
    assert file["name"] == "labels.txt" and file["type"] == "TENSOR_AXIS_LABELS"
    image = RNG.uniform(0, 1, (1, 3, 8, 6)).astype(np.float32)
    agree(output, {"image": image}, judge.reference(model, {"image": image}), litert)
    if shutil.which("unzip"):
        assert subprocess.run(["unzip", "-p", output, "labels.txt"], capture_output=True).stdout.decode() == text
    # Compressed, the same bytes.
    again = converter.run("convert", model, "-o", tmp_path / "m.tflite.zst", f"--labels={tmp_path / 'names.txt'}", *options)  # fmt: skip
    assert again.returncode == 0, again.stderr
    if shutil.which("zstd"):
        plain = subprocess.run(["zstd", "-dcq", tmp_path / "m.tflite.zst"], capture_output=True, check=True).stdout
        assert plain == output.read_bytes()


def test_runtimes_load_it(tmp_path, lowtide):
    model = classifier(tmp_path / "m.onnx")
    (tmp_path / "names.txt").write_text("a\nb\nc\nd\n")
    converted(model, tmp_path / "m.tflite", f"--labels={tmp_path / 'names.txt'}", "--input-uint8=image")
    interpreter = Interpreter(str(tmp_path / "m.tflite"))
    interpreter.allocate_tensors()
    assert interpreter.get_input_details()[0]["dtype"] == np.uint8
