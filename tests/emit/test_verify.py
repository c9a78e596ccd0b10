# SPDX-License-Identifier: Apache-2.0
"""Digests, compressed output, and `lowtide check`: judged by xxhash and by LiteRT's own schema."""

import pytest
import xxhash
from ai_edge_litert import schema_py_generated as schema

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
