# SPDX-License-Identifier: Apache-2.0
"""Digests, compressed output, and `lowtide check`: judged by xxhash and by LiteRT's own schema."""

import flatbuffers
import numpy as np
import onnx
import pytest
import xxhash
from ai_edge_litert import schema_py_generated as schema
from onnx import TensorProto, helper, numpy_helper

from tests.support import converter

DIFFERENT, MALFORMED = 12, 6


def run(folder, *arguments):
    return converter.run(*arguments, cwd=folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verify")
    assert run(folder, "make-model", "conv-stack", "--size", "3M", "-o", "m.onnx").returncode == 0
    done = run(folder, "convert", "m.onnx", "-o", "m.tflite")
    assert done.returncode == 0, done.stderr
    return folder


def constants(path):
    """Name and bytes of each constant, and where the bytes stand, by LiteRT's schema."""
    data = path.read_bytes()
    model = schema.Model.GetRootAs(data, 0)
    graph = model.Subgraphs(0)
    for i in range(graph.TensorsLength()):
        tensor = graph.Tensors(i)
        buffer = model.Buffers(tensor.Buffer())
        if buffer.DataLength() > 0:
            bytes_ = buffer.DataAsNumpy().tobytes()
            yield tensor.Name().decode(), bytes_, data.index(bytes_)


def digests(text):
    rows = [line.split(maxsplit=2) for line in text.splitlines()]
    return {row[2]: (row[0], int(row[1])) for row in rows if len(row) == 3 and len(row[0]) == 32}


def test_digests_are_those_of_the_bytes_in_the_file(folder):
    done = run(folder, "convert", "m.onnx", "-o", "v.tflite", "--verify-output")
    assert done.returncode == 0, done.stderr
    expected = {name: (xxhash.xxh3_128_hexdigest(data), len(data)) for name, data, _ in constants(folder / "v.tflite")}
    assert digests(done.stdout) == expected and len(expected) > 5
    assert f"verified: {len(expected)} constants" in done.stdout
    assert (folder / "v.tflite").read_bytes() == (folder / "m.tflite").read_bytes()


def test_check_of_what_was_converted(folder):
    done = run(folder, "check", "m.onnx", "m.tflite")
    assert done.returncode == 0, done.stderr
    expected = {name: (xxhash.xxh3_128_hexdigest(data), len(data)) for name, data, _ in constants(folder / "m.tflite")}
    assert digests(done.stdout) == expected
    assert done.stdout.endswith(" are what m.onnx converts to\n") and "peak RSS" in done.stdout
    quiet = run(folder, "check", "--quiet", "m.onnx", "m.tflite")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")


def test_one_changed_bit_of_a_weight(folder):
    name, data, position = max(constants(folder / "m.tflite"), key=lambda constant: len(constant[1]))
    damaged = bytearray((folder / "m.tflite").read_bytes())
    damaged[position + len(data) - 7] ^= 4
    (folder / "damaged.tflite").write_bytes(damaged)
    done = run(folder, "check", "m.onnx", "damaged.tflite")
    assert done.returncode == DIFFERENT
    assert f"tensor '{name}' differs from its byte {len(data) - 7} on" in done.stderr
    assert "0 differences of the graph, 1 of" in done.stderr.splitlines()[-1]


def test_other_options_are_other_graphs(folder):
    assert run(folder, "convert", "m.onnx", "-o", "nhwc.tflite", "--layout", "input=nhwc").returncode == 0
    done = run(folder, "check", "m.onnx", "nhwc.tflite")
    assert done.returncode == DIFFERENT and "were other options given" in done.stderr
    assert "the inputs of subgraph 0 are" in done.stderr.splitlines()[0]
    done = run(folder, "check", "m.onnx", "nhwc.tflite", "--layout", "input=nhwc")
    assert done.returncode == 0, done.stderr


def test_the_form_of_the_file_does_not_matter(folder):
    assert run(folder, "convert", "m.onnx", "-o", "e.tflite", "--external-buffers").returncode == 0
    done = run(folder, "check", "m.onnx", "e.tflite")
    assert done.returncode == 0, done.stderr


def make_plain_stack(folder):
    """A model whose weights can stay in its file."""
    made = run(folder, "make-model", "conv-stack", "--size", "1M", "--external", "--plain", "-o", "m.onnx")
    assert made.returncode == 0, made.stderr


FORMS = [[], ["--external-buffers"], ["--weights", "in-place"]]


@pytest.mark.parametrize("suffix", ["tflite", "tflite.zst"])
@pytest.mark.parametrize("made", FORMS)
def test_each_form_is_accepted_with_options_of_another(made, suffix, tmp_path):
    make_plain_stack(tmp_path)
    assert run(tmp_path, "convert", "m.onnx", "-o", f"m.{suffix}", *made).returncode == 0
    for given in FORMS:
        done = run(tmp_path, "check", "m.onnx", f"m.{suffix}", *given)
        assert done.returncode == 0, (given, done.stderr)
        assert len(digests(done.stdout)) == 34, given


def test_weights_that_are_in_another_folder(tmp_path):
    make_plain_stack(tmp_path)
    (tmp_path / "away").mkdir()
    assert run(tmp_path, "convert", "m.onnx", "-o", "m.tflite", "--weights", "in-place").returncode == 0
    (tmp_path / "m.tflite").rename(tmp_path / "away/m.tflite")
    damaged = bytearray((tmp_path / "m.onnx.data").read_bytes())
    (tmp_path / "away/m.onnx.data").write_bytes(damaged)
    done = run(tmp_path, "check", "m.onnx", "away/m.tflite")
    assert done.returncode == 0 and "its weights are in other files" in done.stdout, done.stderr
    damaged[len(damaged) // 2] ^= 1
    (tmp_path / "away/m.onnx.data").write_bytes(damaged)
    done = run(tmp_path, "check", "m.onnx", "away/m.tflite")
    assert done.returncode == DIFFERENT and "differs from its byte" in done.stderr, done.stdout
    (tmp_path / "away/m.onnx.data").unlink()
    done = run(tmp_path, "check", "m.onnx", "away/m.tflite")
    assert done.returncode == DIFFERENT and "is a constant whose data cannot be read" in done.stderr, done.stderr


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    """two.onnx: two weights of one shape, two inputs, a node with two outputs and one of a custom operator."""
    folder = tmp_path_factory.mktemp("graphs")
    value = helper.make_tensor_value_info
    random = np.random.default_rng(0)
    weights = [numpy_helper.from_array(random.standard_normal((8, 8), np.float32), name) for name in ("w1", "w2")]
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"]),
        helper.make_node("MatMul", ["a", "w2"], ["b"]),
        helper.make_node("Sub", ["b", "y"], ["c"]),
        helper.make_node("Split", ["c"], ["p", "q"], axis=1, num_outputs=2),
        helper.make_node("Frob", ["q"], ["r"], domain="my.ops", mode="abc"),
    ]
    inputs = [value(name, TensorProto.FLOAT, [3, 8]) for name in "xy"]
    outputs = [value(name, TensorProto.FLOAT, [3, 4]) for name in "pr"]
    graph = helper.make_graph(nodes, "two", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("my.ops", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "two.onnx")
    done = run(folder, "convert", "two.onnx", "--custom-ops", "allow")
    assert done.returncode == 0, done.stderr
    return folder


def constant_tensors(model):
    return [tensor for tensor in model.subgraphs[0].tensors if tensor.buffer > 0]


def operator(model, name):
    builtin = getattr(schema.BuiltinOperator, name)
    codes = [i for i, code in enumerate(model.operatorCodes) if code.builtinCode == builtin]
    return next(op for op in model.subgraphs[0].operators if op.opcodeIndex in codes)


def share_a_buffer(model):
    weights = [tensor for tensor in constant_tensors(model) if list(tensor.shape) == [8, 8]]
    weights[1].buffer = weights[0].buffer


def swap_inputs_of_the_signature(model):
    first, second = model.signatureDefs[0].inputs
    first.tensorIndex, second.tensorIndex = second.tensorIndex, first.tensorIndex


def rename_in_the_signature(model):
    model.signatureDefs[0].inputs[0].name = b"other"


def name_another_output(model):
    model.signatureDefs[0].outputs[0].tensorIndex = operator(model, "SUB").outputs[0]


def swap_outputs_of_split(model):
    split = operator(model, "SPLIT")
    split.outputs = list(split.outputs)[::-1]


def change_custom_options(model):
    frob = operator(model, "CUSTOM")
    frob.customOptions = list(bytes(frob.customOptions).replace(b"abc", b"xbc"))


def add_intermediates(model):
    operator(model, "SUB").intermediates = [0]


def make_a_variable(model):
    model.subgraphs[0].tensors[operator(model, "SUB").outputs[0]].isVariable = True


def drop_metadata(model):
    model.metadata = []


def describe_otherwise(model):
    model.description = b"another program"


@pytest.mark.parametrize(
    "edit, words",
    [
        (share_a_buffer, "differs from its byte 0 on"),
        (swap_inputs_of_the_signature, "the inputs of signature 'serving_default' are of subgraph 0, x = y, y = x;"),
        (rename_in_the_signature, "other = x"),
        (name_another_output, "the outputs of signature"),
        (swap_outputs_of_split, 'has the outputs ["q", "p"], expected ["p", "q"]'),
        (change_custom_options, "(Frob) has different options"),
        (add_intermediates, "has the intermediates"),
        (make_a_variable, "is a variable"),
        (drop_metadata, "the header differs from its byte"),
        (describe_otherwise, "the description is 'another program'"),
    ],
)
def test_whatever_is_changed_is_found(edit, words, graphs):
    model = schema.ModelT.InitFromPackedBuf((graphs / "two.tflite").read_bytes())
    edit(model)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    (graphs / "edited.tflite").write_bytes(builder.Output())
    done = run(graphs, "check", "two.onnx", "edited.tflite", "--custom-ops", "allow")
    assert done.returncode == DIFFERENT, done.stdout
    assert words in done.stderr.splitlines()[0], done.stderr


def test_a_file_of_another_version(graphs):
    data = (graphs / "two.tflite").read_bytes()
    at = data.index(b"Lowtide ") + len(b"Lowtide ")
    (graphs / "older.tflite").write_bytes(data[:at] + b"9" + data[at + 1 :])
    done = run(graphs, "check", "two.onnx", "older.tflite", "--custom-ops", "allow")
    assert done.returncode == 0 and "other bytes of the file: Lowtide 9" in done.stdout, done.stderr


@pytest.mark.parametrize("suffix", ["tflite", "tflite.zst"])
def test_labels_and_metadata_are_compared(suffix, graphs):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("GlobalAveragePool", ["x"], ["p"]), helper.make_node("Flatten", ["p"], ["z"])],
        "pool",
        [value("x", TensorProto.FLOAT, [1, 3, 5, 7])],
        [value("z", TensorProto.FLOAT, [1, 3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(model, graphs / "pool.onnx")
    (graphs / "labels.txt").write_text("cat\ndog\ncow\n")
    (graphs / "others.txt").write_text("cat\ndog\nfox\n")
    options = {"--labels": "labels.txt", "--mean": "1,2,3", "--std": "2"}

    def flat(**changed):
        return [part for option in (options | changed).items() for part in option]

    for form in ([], ["--external-buffers"]):
        assert run(graphs, "convert", "pool.onnx", "-o", f"pool.{suffix}", *flat(), *form).returncode == 0
        done = run(graphs, "check", "pool.onnx", f"pool.{suffix}", *flat())
        assert done.returncode == 0, done.stderr
        for changed, words in (
            ({"--labels": "others.txt"}, "what follows the constants"),
            ({"--mean": "1,2,4"}, "the header differs from its byte"),
            ({"--std": "3"}, "the header differs from its byte"),
        ):
            done = run(graphs, "check", "pool.onnx", f"pool.{suffix}", *flat(**changed))
            assert done.returncode == DIFFERENT and words in done.stderr, (changed, done.stderr)
        done = run(graphs, "check", "pool.onnx", f"pool.{suffix}")
        assert done.returncode == DIFFERENT and "the metadata 'TFLITE_METADATA' are not expected" in done.stderr


def test_compressed(folder):
    for threads in (1, 3):
        done = run(folder, "convert", "m.onnx", "-o", f"{threads}.tflite.zst", "--threads", threads, "--verify-output")
        assert done.returncode == 0 and "compressed to" in done.stdout, done.stderr
    packed = (folder / "1.tflite.zst").read_bytes()
    assert packed == (folder / "3.tflite.zst").read_bytes()
    assert run(folder, "check", "--quiet", "m.onnx", "1.tflite.zst").returncode == 0
    plain, listed = (run(folder, "inspect", "--json", name).stdout for name in ("m.tflite", "1.tflite.zst"))
    assert plain.replace("m.tflite", "1.tflite.zst") == listed
    level = run(folder, "convert", "m.onnx", "-o", "level.tflite.zst", "--zstd-level", 1, "--quiet")
    assert level.returncode == 0 and (folder / "level.tflite.zst").read_bytes() != packed


def test_compressed_without_its_table(folder):
    """Frames alone, as other programs write them: decompressed into a spill."""
    assert run(folder, "convert", "m.onnx", "-o", "t.tflite.zst").returncode == 0
    packed = (folder / "t.tflite.zst").read_bytes()
    frames = int.from_bytes(packed[-9:-5], "little")
    (folder / "frames.tflite.zst").write_bytes(packed[: -(8 + 8 * frames + 9)])
    assert run(folder, "check", "--quiet", "m.onnx", "frames.tflite.zst").returncode == 0
    (folder / "cut.tflite.zst").write_bytes(packed[: len(packed) // 2])
    done = run(folder, "check", "m.onnx", "cut.tflite.zst")
    assert done.returncode == MALFORMED and len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["check", "m.onnx"], "TFLITE"),
        (["check", "m.onnx", "m.onnx"], "TFLite"),
        (["check", "m.onnx", "nobody.tflite"], "nobody.tflite"),
        (["convert", "m.onnx", "-o", "m.tflite.zst", "--zstd-level", "20"], "zstd-level"),
    ],
)
def test_usage_errors(arguments, words, folder):
    done = run(folder, *arguments)
    assert done.returncode > 1 and words in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
