# SPDX-License-Identifier: Apache-2.0
"""The generated models are valid, run in ONNX Runtime with sane values, and cost no memory.

The program is $LOWTIDE, or build/release/lowtide.
"""

import hashlib
import os
import pathlib
import resource
import subprocess
import threading

import numpy as np
import onnx
import onnxruntime
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MIB = 2**20

# Kind, its options, the shapes of its input and output. The heads keep their classes whatever the width.
SMALL = [
    ("duc", ["--size", "4M", "--input-size", "72"], (1, 3, 72, 72), (1, 19, 36, 36)),
    ("duc", ["--size", "3M", "--input-size", "33"], (1, 3, 33, 33), (1, 19, 20, 20)),
    ("deeplab", ["--size", "3M", "--input-size", "65"], (1, 3, 65, 65), (1, 21, 65, 65)),
    ("unet", ["--size", "2M", "--input-size", "48"], (1, 3, 48, 48), (1, 1, 48, 48)),
    ("conv-stack", ["--size", "2M"], (1, 64, 8, 8), (1, 14, 8, 8)),
    ("conv-stack", ["--size", "2M", "--plain", "--input-size", "5"], (1, 256, 5, 5), None),
    ("one-tensor", ["--size", "2M", "--input-size", "5"], (1, 241, 5, 5), (1, 242, 5, 5)),
    ("one-tensor", ["--size", "2M", "--plain", "--input-size", "5"], (1, 724, 5, 5), (1, 724, 5, 5)),
    ("matmul-stack", ["--size", "2M", "--input-size", "3"], (1, 1, 3, 128), None),
    ("many-nodes", ["--nodes", "103", "--input-size", "5"], (1, 16, 5, 5), (1, 16, 5, 5)),
]
IDS = [" ".join([kind, *options]) for kind, options, _, _ in SMALL]


def program():
    path = pathlib.Path(os.environ.get("LOWTIDE", ROOT / "build/release/lowtide")).resolve()
    assert path.is_file(), f"{path} is not built"
    return path


def command(kind, out, *options):
    return [str(program()), "make-model", kind, "-o", str(out), *options]


def make(kind, out, *options):
    subprocess.run(command(kind, out, *options), check=True, capture_output=True)
    return out


def refusal(tmp_path, *arguments, **how):
    """The one line on standard error; nothing may be left in the folder."""
    done = subprocess.run([str(program()), "make-model", *arguments], capture_output=True, text=True, **how)
    assert done.returncode > 1, done
    assert list(tmp_path.iterdir()) == []
    return done.stderr


def digest(*paths):
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]


def run(path, seed=0):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(seed)
    (given,) = session.get_inputs()
    (output,) = session.run(None, {given.name: rng.standard_normal(given.shape, dtype=np.float32)})
    assert list(output.shape) == session.get_outputs()[0].shape
    return tuple(given.shape), output


@pytest.mark.parametrize(("kind", "options", "input_shape", "output_shape"), SMALL, ids=IDS)
def test_it_is_valid_and_its_values_are_sane(tmp_path, kind, options, input_shape, output_shape):
    path = make(kind, tmp_path / "m.onnx", *options)
    onnx.checker.check_model(path, full_check=True)
    shape, output = run(path)
    assert shape == input_shape
    assert output_shape is None or output.shape == output_shape
    assert np.isfinite(output).all()
    assert 1e-2 < np.abs(output).max() < 1e3
    # Every place and every channel says something of its own, and the input matters.
    assert np.median(output.std(axis=(2, 3))) > 1e-3
    if output.shape[1] > 1:
        assert np.median(output.std(axis=1)) > 1e-3
    assert np.abs(output - run(path, seed=1)[1]).max() > 1e-2


@pytest.mark.parametrize(("kind", "options"), [row[:2] for row in SMALL], ids=IDS)
def test_external_weights_are_the_same_weights(tmp_path, kind, options):
    inline = make(kind, tmp_path / "inline.onnx", *options)
    external = make(kind, tmp_path / "external.onnx", "--external", *options)
    onnx.checker.check_model(external, full_check=True)
    tensors = onnx.load(external, load_external_data=False).graph.initializer
    end = 0
    for tensor in tensors:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            place = {entry.key: entry.value for entry in tensor.external_data}
            assert place["location"] == "external.onnx.data"
            assert int(place["offset"]) % 64 == 0 and 0 <= int(place["offset"]) - end < 64
            assert int(place["length"]) == 4 * np.prod(tensor.dims) >= 1024
            end = int(place["offset"]) + int(place["length"])
        else:
            assert len(tensor.raw_data) < 1024
    assert (tmp_path / "external.onnx.data").stat().st_size == end > 0
    here, there = onnx.load(inline), onnx.load(external)
    for x, y in zip(here.graph.initializer, there.graph.initializer, strict=True):
        assert np.array_equal(onnx.numpy_helper.to_array(x), onnx.numpy_helper.to_array(y)), x.name
    assert here.graph.node == there.graph.node
    assert np.array_equal(run(inline)[1], run(external)[1])


@pytest.mark.parametrize(("kind", "options"), [row[:2] for row in SMALL], ids=IDS)
def test_equal_seeds_give_equal_bytes(tmp_path, kind, options):
    paths = [
        make(kind, tmp_path / name, "--seed", seed, *options) for name, seed in [("a", "1"), ("b", "1"), ("c", "2")]
    ]
    a, b, c = digest(*paths)
    assert a == b
    assert a != c


@pytest.mark.parametrize("opset", ["13", "15", "18", "19", "21", "23"])
@pytest.mark.parametrize("kind", ["duc", "deeplab", "unet"])
def test_other_opsets_are_equivalent(tmp_path, kind, opset):
    options = ["--size", "3M", "--input-size", "32"]
    path = make(kind, tmp_path / "m.onnx", "--opset", opset, *options)
    onnx.checker.check_model(path, full_check=True)
    (imported,) = onnx.load(path).opset_import
    assert imported.version == int(opset)
    wanted = run(make(kind, tmp_path / "17.onnx", *options))[1]
    np.testing.assert_allclose(run(path)[1], wanted, rtol=1e-4, atol=1e-5)


def test_batch_norm_statistics_differ_in_every_channel(tmp_path):
    tensors = {
        tensor.name: onnx.numpy_helper.to_array(tensor)
        for tensor in onnx.load(make("unet", tmp_path / "m.onnx", "--size", "2M")).graph.initializer
    }
    ranges = {"weight": (0.5, 1.5), "bias": (-0.3, 0.3), "running_mean": (-0.4, 0.4), "running_var": (0.5, 1.5)}
    for suffix, (low, high) in ranges.items():
        rows = [values for name, values in tensors.items() if name.endswith(f".bn.{suffix}")]
        assert len(rows) == 18
        together = np.concatenate(rows)
        assert len(np.unique(together)) == len(together)
        assert low <= together.min() < low + 0.1 * (high - low)
        assert high - 0.1 * (high - low) < together.max() <= high


@pytest.mark.parametrize(
    ("kind", "operators"),
    [
        ("duc", dict(Conv=108, BatchNormalization=104, Relu=100, MaxPool=1, Add=36, Transpose=1, Reshape=2, Softmax=1)),
        (
            "deeplab",
            dict(
                Conv=116,
                BatchNormalization=115,
                Relu=111,
                MaxPool=1,
                Add=33,
                GlobalAveragePool=1,
                Resize=3,
                Shape=6,
                Slice=6,
                Concat=5,
            ),
        ),
        ("unet", dict(Conv=19, BatchNormalization=18, Relu=18, MaxPool=4, ConvTranspose=4, Concat=4, Sigmoid=1)),
    ],
)
def test_the_network_is_the_published_one_at_any_width(tmp_path, kind, operators):
    count = {}
    for node in onnx.load(make(kind, tmp_path / "m.onnx", "--size", "3M")).graph.node:
        count[node.op_type] = count.get(node.op_type, 0) + 1
    assert count == operators


@pytest.mark.parametrize(("kind", "million_bytes"), [("duc", 260), ("deeplab", 238), ("unet", 124)])
def test_the_default_size_is_the_published_one(tmp_path, kind, million_bytes):
    path = make(kind, tmp_path / "m.onnx", "--external")
    assert (tmp_path / "m.onnx.data").stat().st_size == pytest.approx(1e6 * million_bytes, rel=0.005)
    shape = onnx.load(path, load_external_data=False).graph.input[0].type.tensor_type.shape
    assert [dim.dim_value for dim in shape.dim][:2] == [1, 3]


@pytest.mark.parametrize("size", [3 * MIB, 10 * MIB, 77 * MIB])
@pytest.mark.parametrize("kind", ["duc", "deeplab", "unet", "conv-stack"])
def test_sizes_are_met(tmp_path, kind, size):
    path = make(kind, tmp_path / "m.onnx", "--size", str(size))
    # The width is a whole number of channels, so small networks are coarse.
    near = 0.02 if kind == "conv-stack" else 0.2 if size < 4 * MIB else 0.1
    assert path.stat().st_size == pytest.approx(size, rel=near)


def peak_rss(process):
    """The kernel's own high-water mark, read until the process ends. (ru_maxrss would show this Python's.)"""
    peak = 0
    status = pathlib.Path(f"/proc/{process.pid}/status")
    ended = threading.Event()
    while process.poll() is None:
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                peak = max(peak, 1024 * int(line.split()[1]))
        ended.wait(0.005)
    assert process.returncode == 0
    return peak


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("inline", ["--size", "1G"]),
        ("external", ["--size", "1G", "--external"]),
        ("beyond one message", ["--size", "2100M", "--plain"]),
    ],
)
def test_memory_does_not_grow_with_the_weights(tmp_path, name, options):
    path = tmp_path / "m.onnx"
    data = tmp_path / "m.onnx.data"
    try:
        process = subprocess.Popen(command("conv-stack", path, "--quiet", *options))
        assert 0 < peak_rss(process) < 32 * MIB
        assert data.exists() == (name != "inline")
        wanted = 2100 * MIB if "beyond" in name else 1024 * MIB
        assert path.stat().st_size + (data.stat().st_size if data.exists() else 0) == pytest.approx(wanted, rel=0.01)
    finally:
        path.unlink(missing_ok=True)
        data.unlink(missing_ok=True)


def test_impossible_requests_are_errors(tmp_path):
    out = ["-o", str(tmp_path / "m.onnx")]
    assert "'resnet' is not one of" in refusal(tmp_path, "resnet", *out)
    assert "multiple of 16" in refusal(tmp_path, "unet", *out, "--input-size", "100")
    assert "plain" in refusal(tmp_path, "unet", *out, "--plain")
    assert "the nearest has" in refusal(tmp_path, "duc", *out, "--size", "1K")
    assert "the nearest has" in refusal(tmp_path, "conv-stack", *out, "--size", "20")
    assert "opset 12" in refusal(tmp_path, "duc", *out, "--opset", "12")
    assert "input size" in refusal(tmp_path, "duc", *out, "--input-size", "1000000")
    assert "more than" in refusal(tmp_path, "conv-stack", *out, "--size", "5T")
    assert "nowhere" in refusal(tmp_path, "unet", "-o", str(tmp_path / "nowhere" / "m.onnx"))


@pytest.mark.parametrize("options", [[], ["--external"]])
def test_nothing_is_left_when_writing_fails(tmp_path, options):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, MIB))

    message = refusal(
        tmp_path,
        "unet",
        "-o",
        str(tmp_path / "m.onnx"),
        "--size",
        "3M",
        *options,
        preexec_fn=limit,
        restore_signals=False,
    )  # Python ignores SIGXFSZ, and so shall the program
    assert len(message.strip().splitlines()) == 1 and "m.onnx" in message


def test_an_existing_model_is_replaced_atomically(tmp_path):
    path = make("unet", tmp_path / "m.onnx", "--size", "2M")
    before = digest(path)
    make("unet", path, "--size", "2M", "--seed", "9")
    assert digest(path) != before
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]
