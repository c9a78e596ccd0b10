# SPDX-License-Identifier: Apache-2.0
"""calibrate: ranges, histograms, means, samples in files, memory, and what it says of wrong ones."""

import io
import json
import math
import resource
import signal
import struct
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest
from onnx import helper

import lowtide
from lowtide import onnx_graph, ranges, samples
from lowtide.__main__ import main
from lowtide.port import Port
from tests.python import models
from tests.support import converter, json_schema

RNG = np.random.default_rng(5)


def net(path):
    """c = conv(x) + bias, r = relu(c), y = mean(r); k depends on a constant only, i is of integers."""
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Neg", ["b"], ["k"]),
        helper.make_node("Shape", ["r"], ["i"]),
        helper.make_node("GlobalAveragePool", ["r"], ["y"]),
    ]
    return models.save(
        path,
        nodes,
        [models.value("x", "float32", ["n", 3, 6, 6])],
        [models.value("y", "float32", ["n", 4, 1, 1])],
        {"w": WEIGHTS, "b": np.zeros(4, np.float32)},
    )


WEIGHTS = RNG.random((4, 3, 3, 3)).astype(np.float32) - 0.5


@pytest.fixture
def model(tmp_path):
    return net(tmp_path / "m.onnx")


def stacked(count, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 1, 3, 6, 6)).astype(np.float32)


# ---- Histograms -------------------------------------------------------------------------------------------------------


def histogram(*parts):
    out = ranges.TensorRange()
    for part in parts:
        out.add(np.asarray(part, np.float32))
    return out.values()["histogram"], out


def test_a_histogram_is_that_of_numpy():
    values = RNG.normal(size=5000).astype(np.float32)
    of, _ = histogram(*np.split(values, 10))
    edges = of["low"] + of["width"] * np.arange(len(of["counts"]) + 1)
    expected, _ = np.histogram(values.astype(np.float64), edges)
    # numpy's last bin has its upper edge, ours has not; no value is there.
    assert expected.tolist() == of["counts"] and sum(of["counts"]) == 5000
    assert math.frexp(of["width"])[0] == 0.5 and len(of["counts"]) > ranges.BINS / 2


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 1e6, 1e30])
def test_the_order_of_samples_does_not_matter(scale):
    parts = [RNG.normal(size=50) * scale * 4.0**i for i in range(8)] + [np.zeros(3), np.full(7, 0.1 * scale)]
    first, _ = histogram(*parts)
    second, _ = histogram(*parts[::-1])
    third, _ = histogram(np.concatenate(parts))
    assert first == second == third and len(first["counts"]) <= ranges.BINS


@pytest.mark.parametrize(
    "values", [[0.0], [-0.0, 0.0], [3.5], [-3.5], [1.0, 1.0000001], [0, 3e38], [-3e38, 3e38], [1e-45, -1e-45]]
)
def test_extreme_values(values):
    of, kept = histogram(values)
    assert sum(of["counts"]) == len(values)
    low = np.float64(np.float32(min(values)))
    assert of["low"] <= low < of["low"] + of["width"] and kept.low == low
    histogram(values, [0.5], [-1e30], [1e30])


def test_nan_and_infinity_are_counted_apart():
    of, kept = histogram([1, math.nan, math.inf, -math.inf, 2])
    assert sum(of["counts"]) == 2 and kept.values()["not_finite"] == 3 and (kept.low, kept.high) == (1, 2)


# ---- Models -----------------------------------------------------------------------------------------------------------


def test_ranges_of_a_model(model):
    x = stacked(6)
    found = lowtide.calibrate(model, samples=[{"x": one} for one in x])
    tensors = found.content["tensors"]
    assert sorted(tensors) == ["c", "r", "x", "y"] and found.samples == 6 and found.unseen == []
    with lowtide.Runner(model) as runner:
        every = [runner.run({"x": one}, ["c", "r", "y"]) for one in x]
    for name in "cry":
        values = np.stack([one[name] for one in every])
        of = tensors[name]
        assert of["min"] == values.min() and of["max"] == values.max() and of["elements"] == values.size
        assert sum(of["histogram"]["counts"]) == values.size
    assert tensors["x"]["channel_axis"] == 1
    np.testing.assert_allclose(tensors["x"]["channel_mean"], x.mean(axis=(0, 1, 3, 4)), rtol=1e-5, atol=1e-7)
    assert "channel_mean" not in tensors["r"]


def test_products_have_means_along_their_last_axis(tmp_path):
    path = models.product(tmp_path / "p.onnx", RNG.random((4, 5)).astype(np.float32))
    x = RNG.random((2, 4)).astype(np.float32)
    of = lowtide.calibrate(path, samples=[{"x": x}]).content["tensors"]["x"]
    assert of["channel_axis"] == 1
    np.testing.assert_allclose(of["channel_mean"], x.mean(axis=0), rtol=1e-6)


AXES = {
    "product": ([("MatMul", ["x", "w"], {})], 3, 2),
    "image and product": ([("Conv", ["x", "f"], {}), ("MatMul", ["x", "w"], {})], 4, None),
    "image and the same channels last": (
        [("Conv", ["x", "f"], {}), ("Transpose", ["x"], {"perm": [0, 2, 3, 1]}), ("MatMul", ["1", "w"], {})],
        4,
        1,
    ),
    "image and other channels last": (
        [("Conv", ["x", "f"], {}), ("Transpose", ["x"], {"perm": [0, 1, 3, 2]}), ("MatMul", ["1", "w"], {})],
        4,
        None,
    ),
    "transposed": ([("Gemm", ["x", "w"], {"transA": 1})], 2, 0),
    "transposed and not": ([("Gemm", ["x", "w"], {"transA": 1}), ("Gemm", ["x", "w"], {})], 2, None),
    "transposed, and by a node": (
        [("Gemm", ["x", "w"], {"transA": 1}), ("Transpose", ["x"], {}), ("Gemm", ["1", "w"], {"transA": 0})],
        2,
        0,
    ),
    "two computed": ([("Conv", ["x", "f"], {}), ("MatMul", ["x", "x"], {})], 4, 1),
    "two computed alone": ([("MatMul", ["x", "x"], {})], 4, 3),
}


@pytest.mark.parametrize("name", AXES)
def test_layers_that_read_a_tensor_mean_one_axis(tmp_path, name):
    """Means of another axis of the same length were taken off the biases."""
    texts, rank, axis = AXES[name]
    nodes = [helper.make_node(kind, inputs, [str(i)], **values) for i, (kind, inputs, values) in enumerate(texts)]
    weights = {"w": RNG.random((6, 6)).astype(np.float32), "f": RNG.random((2, 6, 1, 1)).astype(np.float32)}
    outputs = [models.value(str(i), "float32", None) for i in range(len(nodes))]
    used = {one for node in nodes for one in node.input}
    path = models.save(
        tmp_path / "m.onnx",
        nodes,
        [models.value("x", "float32", [6] * rank)],
        outputs,
        {key: array for key, array in weights.items() if key in used},
    )
    x = RNG.random([6] * rank).astype(np.float32)
    of = lowtide.calibrate(path, samples=[{"x": x}]).content["tensors"]["x"]
    assert of.get("channel_axis") == axis
    if axis is None:
        assert "channel_mean" not in of
    else:
        np.testing.assert_allclose(of["channel_mean"], x.mean(axis=tuple({*range(rank)} - {axis})), rtol=1e-5)


def test_groups_of_tensors_give_the_same(model, tmp_path, monkeypatch):
    np.savez(tmp_path / "s.npz", x=stacked(5))
    whole = lowtide.calibrate(model, samples=tmp_path / "s.npz")
    monkeypatch.setattr("lowtide.calibration._LIMIT", 2000)
    parts = lowtide.calibrate(model, samples=tmp_path / "s.npz")
    assert whole.runs == 1 and parts.runs > 1 and whole.content == parts.content


def test_a_group_that_turns_out_too_large_is_divided(model, monkeypatch):
    samples = [{"x": one} for one in stacked(3)]
    whole = lowtide.calibrate(model, samples=samples)
    monkeypatch.setattr("lowtide.calibration._LIMIT", 2000)
    monkeypatch.setattr("lowtide.calibration._bytes", lambda *_: 1)
    parts = lowtide.calibrate(model, samples=samples)
    assert parts.runs > 1 and whole.content == parts.content


def test_tensors_without_a_finite_value_are_named(tmp_path):
    path = models.save(
        tmp_path / "nan.onnx",
        [helper.make_node("Log", ["x"], ["l"]), helper.make_node("Abs", ["x"], ["y"])],
        [models.value("x", "float32", [2])],
        [models.value("y", "float32", [2]), models.value("l", "float32", [2])],
    )
    found = lowtide.calibrate(path, samples=[{"x": np.array([-1, -2], np.float32)}])
    assert found.unseen == ["l"] and found.content["unseen"] == ["l"] and "l" not in found.content["tensors"]


# ---- The file ---------------------------------------------------------------------------------------------------------


def test_the_file_is_plain_sorted_json(model, tmp_path):
    found = lowtide.calibrate(model, tmp_path / "r.json", samples=[{"x": stacked(1)[0]}])
    text = (tmp_path / "r.json").read_text()
    assert json.loads(text) == found.content == ranges.read_ranges(str(tmp_path / "r.json"))
    assert [line for line in text.splitlines() if line.startswith('    "')] == [
        f'    "{name}": {{' for name in ("c", "r", "x", "y")
    ]
    assert [path.name for path in tmp_path.iterdir() if "tmp" in path.name] == []


def test_the_file_is_as_its_schema_says(model, tmp_path):
    schema = json.loads((converter.ROOT / "schemas/ranges.schema.json").read_text())
    samples = [{"x": one} for one in stacked(2)]
    samples[1]["x"][0, 0, 0, 0] = math.nan
    content = lowtide.calibrate(model, samples=samples).content
    assert json_schema.faults(content, schema, "ranges") == []
    assert content["tensors"]["x"]["not_finite"] == 1 and "channel_mean" not in content["tensors"]["x"]
    content["tensors"]["x"]["histogram"]["width"] = 0
    content["graph"] = "x"
    assert len(json_schema.faults(content, schema, "ranges")) == 2


def test_files_that_are_no_ranges(tmp_path):
    path = tmp_path / "r.json"
    for text, message in (("{", "is not JSON"), ("{}", "not a file of lowtide calibrate"), ("[]", "not a file of")):
        path.write_text(text)
        with pytest.raises(lowtide.Malformed, match=message):
            ranges.read_ranges(str(path))
    path.write_text('{"format": "lowtide-ranges", "version": 9, "tensors": {}}')
    with pytest.raises(lowtide.Malformed, match="version 9 of the format, and this program knows 1"):
        ranges.read_ranges(str(path))


def fnv(*fields):
    """The format of docs/ranges-file.md, once more."""
    value = 0xCBF29CE484222325
    for byte in b"".join(field.encode() + b"\0" for field in fields):
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def test_the_hash_of_a_graph(tmp_path):
    path = models.product(tmp_path / "p.onnx", np.ones((4, 5), np.float32))
    expected = fnv(
        *("N", "", "", "MatMul", "2", "x", "w", "1", "h"),
        *("N", "", "", "Relu", "1", "h", "1", "y"),
        *("W", "w", "1", "2", "4", "5"),
        *("I", "1", "x", "O", "1", "y"),
    )
    assert onnx_graph.graph_hash(onnx_graph.read_graph(str(path))) == expected
    other = models.product(tmp_path / "other.onnx", np.zeros((4, 5), np.float32))
    assert onnx_graph.graph_hash(onnx_graph.read_graph(str(other))) == expected  # not of the weights
    wider = models.product(tmp_path / "wider.onnx", np.zeros((4, 6), np.float32))
    assert onnx_graph.graph_hash(onnx_graph.read_graph(str(wider))) != expected


# ---- Samples ----------------------------------------------------------------------------------------------------------


def test_samples_in_files(model, tmp_path):
    x = stacked(4)
    np.savez(tmp_path / "all.npz", x=x)
    np.savez_compressed(tmp_path / "packed.npz", x=x)
    folder = tmp_path / "each"
    folder.mkdir()
    for i in range(4):
        np.savez(folder / f"{i}.npz", x=x[i])
    arrays = tmp_path / "arrays"
    arrays.mkdir()
    for i in range(4):
        np.save(arrays / f"{i}.npy", x[i])
    expected = lowtide.calibrate(model, samples=[{"x": one} for one in x]).content
    for source in ("all.npz", "packed.npz", "each", "arrays"):
        assert lowtide.calibrate(model, samples=tmp_path / source).content == expected


def error_of(model, source):
    with pytest.raises(lowtide.Error) as caught:
        lowtide.calibrate(model, samples=source)
    return caught.value


@pytest.mark.parametrize(
    "arrays, message",
    [
        ({"z": np.zeros(1, np.float32)}, "array 'z' is no input of the model; its inputs are 'x'"),
        ({}, "no array for input 'x'"),
        ({"x": np.zeros((1, 3, 6, 7), np.float32)}, "input 'x' is float32[n, 3, 6, 6], not [1, 3, 6, 7]"),
        ({"x": np.zeros((2, 1, 3, 5, 6), np.float32)}, "input 'x' is float32[n, 3, 6, 6], not [1, 3, 5, 6]"),
        ({"x": np.zeros((3, 6, 6), np.float32)}, "input 'x' is float32[n, 3, 6, 6], not [3, 6, 6]"),
        ({"x": np.zeros((1, 3, 6, 6))}, "input 'x' is float32, not float64"),
        ({"x": np.zeros((0, 1, 3, 6, 6), np.float32)}, "has no samples"),
        ({"x": np.asfortranarray(np.zeros((2, 1, 3, 6, 6), np.float32))}, "column-major order"),
    ],
)
def test_wrong_samples(model, tmp_path, arrays, message):
    path = tmp_path / "s.npz"
    np.savez(path, **arrays)
    error = error_of(model, path)
    assert str(error).startswith(f"{path}: ") and message in str(error) and "\n" not in str(error), error
    assert isinstance(error, lowtide.Usage) and error.file == str(path)


def test_a_wrong_file_in_a_folder(model, tmp_path):
    np.savez(tmp_path / "a.npz", x=stacked(1)[0])
    np.savez(tmp_path / "b.npz", x=stacked(2))
    assert str(tmp_path / "b.npz") in str(error_of(model, tmp_path)) and "one sample" in str(error_of(model, tmp_path))
    (tmp_path / "b.npz").write_bytes(b"no archive")
    assert "b.npz: is not an .npz file" in str(error_of(model, tmp_path))


def test_damaged_and_missing_files(model, tmp_path):
    path = tmp_path / "s.npz"
    assert isinstance(error_of(model, path), lowtide.NotFound)
    np.savez(path, x=stacked(40))
    path.write_bytes(path.read_bytes()[:-30000])
    assert isinstance(error_of(model, path), lowtide.Malformed)
    np.savez(path, x=np.array([{}], object))
    assert "is of Python objects" in str(error_of(model, path))
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "has no file *.npz or *.npy" in str(error_of(model, empty))


def member(descr="<f4", shape="(1, 3, 6, 6)", data=bytes(432), header=None):
    """An .npz file with the array x."""
    text = (header or f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}").encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data)
    return bytearray(out.getvalue())


def with_flags(flags=0, method=0):
    """In both headers of the member."""
    out = member()
    for start, at in ((0, 6), (out.rindex(b"PK\x01\x02"), 8)):
        out[start + at] |= flags
        out[start + at + 2] = method
    return out


@pytest.mark.parametrize(
    "content, words",
    [
        (member().replace(bytes(432), b"\1" + bytes(431)), "Bad CRC-32"),
        (with_flags(flags=1), "is encrypted"),
        (with_flags(method=97), "compression method is not supported"),
        (member()[1:], "cannot be read"),
        (member(header="(" * 5000), "cannot be read"),
        (member(shape="(-1, 3, 6, 6)"), "has a negative extent"),
        (member(shape=f"({2**61}, 1, 3, 6, 6)"), "ends early"),
        (member("|V0"), "have no bytes"),
        (member("|O"), "is of Python objects"),
    ],
)
def test_hostile_archives(model, tmp_path, content, words):
    path = tmp_path / "s.npz"
    path.write_bytes(content)
    ports = {"x": Port("x", np.dtype("float32"), ("n", 3, 6, 6))}
    for read in (lambda: lowtide.calibrate(model, samples=path), lambda: samples.read_arrays(str(path), ports)):
        with pytest.raises(lowtide.Error) as caught:
            read()
        text = str(caught.value)
        assert text.startswith(f"{path}: ") and words in text and "\n" not in text and "pickle" not in text, text


def test_arrays_of_any_order_and_size(tmp_path):
    path = tmp_path / "s.npz"
    given = {"a": np.zeros((0, 3), np.int8), "b": np.float64(2.5), "c": np.asfortranarray([[1, 2, 3], [4, 5, 6]])}
    np.savez(path, **given)
    ports = {name: Port(name, np.asarray(of).dtype, np.shape(of)) for name, of in given.items()}
    for name, array in samples.read_arrays(str(path), ports).items():
        np.testing.assert_array_equal(array, given[name], strict=True)


# ---- The command, and memory ------------------------------------------------------------------------------------------


def test_errors_of_the_command(capsys, model, tmp_path):
    np.savez(tmp_path / "s.npz", y=stacked(1))
    out = tmp_path / "r.json"
    assert main(["calibrate", str(model), "--samples", str(tmp_path / "s.npz"), "-o", str(out)]) == 2
    text = capsys.readouterr().err
    assert "array 'y' is no input" in text and text.count("\n") == 1 and not out.exists()
    assert main(["calibrate", str(model)]) == 2 and "--samples" in capsys.readouterr().err


@pytest.mark.parametrize(
    "output, message",
    [
        ("none/r.json", "none/r.json: the folder 'none' does not exist"),
        (".", r"\.: is a folder, and ranges are written to a file"),
    ],
)
def test_an_output_that_cannot_be_written_is_found_before_the_runs(model, tmp_path, monkeypatch, output, message):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises((lowtide.Io, lowtide.NotFound), match=message):
        lowtide.calibrate(model, output, samples=[{"x": stacked(1)[0]}], progress=lambda *_: pytest.fail("it has run"))
    assert sorted(tmp_path.iterdir()) == before


def test_an_interrupt_while_ranges_are_written_leaves_the_old_file(model, tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    path.write_text("old")

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(ranges, "ranges_text", interrupted)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(KeyboardInterrupt):
        lowtide.calibrate(model, path, samples=[{"x": stacked(1)[0]}])
    assert sorted(tmp_path.iterdir()) == before and path.read_text() == "old"


def test_expected_outputs_that_do_not_fit_on_the_disk(environment, tmp_path):
    path = models.product(tmp_path / "m.onnx", np.ones((4, 200_000), np.float32))
    np.savez(tmp_path / "s.npz", x=np.ones((4, 2, 4), np.float32))

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "lowtide",
            "calibrate",
            path,
            "--samples",
            tmp_path / "s.npz",
            "-o",
            tmp_path / "r.json",
        ],
        env={**environment, "TMPDIR": str(tmp_path)},
        preexec_fn=limit,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 4 and "cannot be written: File too large [io]" in done.stderr, done
    assert done.stderr.count("\n") == 1 and sorted(of.name for of in tmp_path.glob("[lr]*")) == []


@pytest.mark.parametrize("seconds", [0.3, 1, 3])
def test_an_interrupt_leaves_nothing_and_says_one_line(model, environment, tmp_path, seconds):
    """During the import, the runs, and the choice of settings, which converts and has expected outputs on the disk."""
    np.savez(tmp_path / "s.npz", x=stacked(30000))
    temporary = tmp_path / "t"
    temporary.mkdir()
    before = sorted(tmp_path.iterdir())
    # The tests may run in the background of a shell that ignores SIGINT there.
    script = (
        "import signal, sys; from lowtide.__main__ import main; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "print('go', flush=True); sys.exit(main(sys.argv[1:]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, "calibrate", str(model), "--samples", str(tmp_path / "s.npz")],
        env={**environment, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "go\n"
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 10, (process.returncode, out, err)
    assert out == "" and err == "lowtide: interrupted [interrupted]\n"
    left = [path.name for path in temporary.iterdir() if path.name != ".ses"]  # which is ONNX Runtime's
    assert sorted(tmp_path.iterdir()) == before and left == []


def test_memory_does_not_grow_with_the_number_of_samples(python, tmp_path):
    path = models.save(
        tmp_path / "m.onnx",
        [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Relu", ["c"], ["y"])],
        [models.value("x", "float32", [1, 3, 32, 32])],
        [models.value("y", "float32", [1, 8, 32, 32])],
        {"w": RNG.random((8, 3, 1, 1)).astype(np.float32)},
    )
    script = (
        "import sys, lowtide; from lowtide import memory; lowtide.calibrate(sys.argv[1], samples=sys.argv[2]); "
        "print(memory.resident()[2])"
    )
    peaks = []
    for count in (10, 1000):
        np.savez(tmp_path / f"{count}.npz", x=RNG.random((count, 1, 3, 32, 32)).astype(np.float32))
        peaks.append(min(int(python(script, path, tmp_path / f"{count}.npz")) for _ in range(2)))
    assert peaks[1] - peaks[0] < 5 << 20, peaks
