# SPDX-License-Identifier: Apache-2.0
"""Hostile compressed models: decompression bombs, windows of gigabytes, frames that are cut or damaged."""

import os
import subprocess

import onnx
import pytest

from tests.hostile.good_model import good_model
from tests.hostile.refusal import converter, is_sanitized, refuse
from tests.support.zstd_frame import MAGIC, MOST_IN_A_BLOCK, RAW, REPEATED, RESERVED, block, header, raw_frame

WHOLE = good_model().SerializeToString()
FRAME = raw_frame(WHOLE)


def bomb(blocks, begin=b"", declared=None):
    """Zeros, four bytes each for 128 KiB; `begin` stands before them, uncompressed."""
    first = block(RAW, len(begin), begin) if begin else b""
    many = block(REPEATED, MOST_IN_A_BLOCK, b"\0") * (blocks - 1)
    return header(declared, window_log=17) + first + many + block(REPEATED, MOST_IN_A_BLOCK, b"\0", last=True)


def run(limits, *arguments):
    limits = [] if is_sanitized() else limits
    return subprocess.run(
        [*limits, converter.program(), *map(str, arguments)], capture_output=True, text=True, timeout=120
    )


FRAMES = {
    "nothing": (b"", "malformed", "empty"),
    "no frame": (WHOLE, "malformed", "not zstd data"),
    "magic alone": (MAGIC, "malformed", "cut"),
    "old magic": (b"\x27\xb5\x2f\xfd" + FRAME[4:], "malformed", "not zstd data"),
    "gzip": (b"\x1f\x8b\x08" + b"\0" * 40, "malformed", "not zstd data"),
    "cut header": (FRAME[:7], "malformed", "cut"),
    "cut block": (FRAME[:200], "malformed", "cut"),
    "no last block": (FRAME[: len(header(0))] + block(RAW, 4, b"abcd"), "malformed", "cut"),
    "block of a kind that is reserved": (header(4) + block(RESERVED, 4, b"abcd", last=True), "malformed", "damaged"),
    "block that is too large": (header(2**20) + block(RAW, 2**20, bytes(2**20), last=True), "malformed", "damaged"),
    "longer than declared": (header(2) + block(RAW, 4, b"abcd", last=True), "malformed", ""),
    "shorter than declared": (header(9) + block(RAW, 4, b"abcd", last=True), "malformed", ""),
    "declares 16 EiB": (
        header(2**64 - 2, window_log=20) + block(RAW, 4, b"abcd", last=True),
        "budget",
        "--max-zstd-ratio",
    ),
    "declares a terabyte too much": (
        header(2**50, window_log=20) + block(RAW, 4, b"abcd", last=True),
        "budget",
        "--max-zstd-ratio",
    ),
    "window of 2 GiB": (header(4, window_log=31) + block(RAW, 4, b"abcd", last=True), "budget", "window"),
    "window of an exabyte": (header(4, window_log=41) + block(RAW, 4, b"abcd", last=True), ("budget", "malformed"), ""),
    "dictionary": (MAGIC + bytes([0x23, 7, 4]) + block(RAW, 4, b"abcd", last=True), "malformed", ""),
    "rubbish behind the frame": (FRAME + b"rubbish", "malformed", "not zstd data"),
    "second frame that is cut": (FRAME + FRAME[:50], "malformed", "cut"),
    "frame in a frame": (raw_frame(FRAME), "malformed", "zstd data, not an ONNX model"),
    "model that is cut": (raw_frame(WHOLE[:-100]), "malformed", "cut"),
}


@pytest.mark.parametrize("case", FRAMES)
def test_frame(case, tmp_path, record_property):
    content, kind, word = FRAMES[case]
    path = tmp_path / "model.onnx.zst"
    path.write_bytes(content)
    refuse(path, kind, [word])
    record_property("hostile files refused", 1)


def test_good_frames_convert(tmp_path):
    skippable = bytes.fromhex("502a4d18") + (5).to_bytes(4, "little") + b"12345"
    for name, content in {
        "one": FRAME,
        "two": raw_frame(WHOLE[:1000]) + raw_frame(WHOLE[1000:]),
        "skippable": skippable + FRAME + skippable,
    }.items():
        path = tmp_path / f"{name}.onnx.zst"
        path.write_bytes(content)
        assert converter.convert(path, tmp_path / f"{name}.tflite").status == "converted", name


LIMITED = ["prlimit", "--cpu=2", "--fsize=75497472"]  # 2 s, 72 MiB


@pytest.mark.parametrize("command", ["convert", "inspect", "check"])
@pytest.mark.parametrize("suffix", ["onnx", "tflite"])
def test_bomb_of_zeros_is_refused_by_its_first_bytes(command, suffix, tmp_path, record_property):
    """641 KB for 21 GB: neither format begins with zeros. Nothing is written."""
    path = tmp_path / f"bomb.{suffix}.zst"
    path.write_bytes(bomb(160_000))
    good = tmp_path / "good.onnx"
    good.write_bytes(WHOLE)
    arguments = {"convert": [path], "inspect": [path], "check": [good, path] if suffix == "tflite" else [path, good]}[
        command
    ]
    if command == "convert":
        arguments += ["-o", tmp_path / ("m.tflite" if suffix == "onnx" else "m.onnx")]
    done = run(["prlimit", "--cpu=2", "--fsize=4096"], command, *arguments)
    assert done.returncode == 6 and done.stderr.count("\n") == 1, done
    assert "bomb" in done.stderr and ("not a protobuf message" in done.stderr or "not a TFLite model" in done.stderr), (
        done
    )
    record_property("hostile files refused", 1)


@pytest.mark.parametrize("declared", [None, 160_000 * MOST_IN_A_BLOCK + len(WHOLE)])
def test_bomb_behind_a_model(declared, tmp_path, record_property):
    """It begins as a model does: what it may become is bounded, here to 64 MiB."""
    path = tmp_path / "bomb.onnx.zst"
    path.write_bytes(bomb(8000, WHOLE, declared))  # 1 GB, or 21 GB declared
    done = run(LIMITED, "convert", path, "-o", tmp_path / "m.tflite")
    assert done.returncode == 9 and "as a decompression bomb does" in done.stderr and done.stderr.count("\n") == 1, done
    record_property("hostile files refused", 1)


def test_bomb_of_external_data(tmp_path, record_property):
    """Weights may begin with anything: the ratio is what bounds them."""
    model = good_model()
    weight = next(t for t in model.graph.initializer if len(t.raw_data) > 0)
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.ClearField("raw_data")
    weight.external_data.add(key="location", value="w.bin.zst")
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "w.bin.zst").write_bytes(bomb(8000))
    done = run(LIMITED, "convert", tmp_path / "m.onnx", "-o", tmp_path / "m.tflite")
    assert done.returncode == 9 and "w.bin.zst" in done.stderr and "as a decompression bomb does" in done.stderr, done
    record_property("hostile files refused", 1)


def test_an_option_lifts_the_ratio(tmp_path):
    """80 MiB of equal weights are a model all the same."""
    weight = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[20, 2**20], raw_data=bytes(80 * 2**20))
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 20])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 2**20])],
        [weight],
    )
    data = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()
    at = data.index(bytes(1000))
    zeros = 80 * 2**20 // MOST_IN_A_BLOCK - 1
    rest = data[at + zeros * MOST_IN_A_BLOCK :]
    pieces = [rest[i : i + MOST_IN_A_BLOCK] for i in range(0, len(rest), MOST_IN_A_BLOCK)]
    path = tmp_path / "m.onnx.zst"
    path.write_bytes(
        header(window_log=17)
        + block(RAW, at, data[:at])
        + block(REPEATED, MOST_IN_A_BLOCK, b"\0") * zeros
        + b"".join(block(RAW, len(p), p, last=i + 1 == len(pieces)) for i, p in enumerate(pieces))
    )
    path.write_bytes(path.read_bytes() + raw_frame(b""))
    tight = ["--max-zstd-ratio", "100"]  # 268 KB for 84 MB
    refused = run([], "convert", path, "-o", tmp_path / "m.tflite", *tight)
    assert refused.returncode == 9 and "give --max-zstd-ratio 0" in refused.stderr, refused
    for ratio in ("0", "1000"):
        done = run([], "convert", path, "-o", tmp_path / "m.tflite", "--max-zstd-ratio", ratio)
        assert done.returncode == 0, done
    assert run([], "inspect", path, *tight).returncode == 9
    assert run([], "inspect", path).returncode == 0
    assert run([], "check", path, tmp_path / "m.tflite", *tight).returncode == 9
    assert run([], "check", path, tmp_path / "m.tflite", "--max-zstd-ratio", "0").returncode == 0


def test_frames_without_content_cost_little(tmp_path):
    """A million skippable frames and a million empty ones were a call of the system each: seconds."""
    skippable = bytes.fromhex("502a4d18") + bytes(4)
    empty = header(window_log=17) + block(RAW, 0, b"", last=True)
    for name, frames in {"skippable": skippable * 10**6, "empty": empty * 10**6}.items():
        path = tmp_path / f"{name}.onnx.zst"
        path.write_bytes(frames + FRAME)
        done = run(["prlimit", "--cpu=2"], "convert", path, "-o", tmp_path / "m.tflite")
        assert done.returncode == 0, (name, done)


def test_no_space(tmp_path, record_property):
    """Half of the free space is the most that a frame without a declared size may take; here a folder of 8 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    path = tmp_path / "bomb.onnx.zst"
    path.write_bytes(bomb(400, WHOLE))  # 50 MiB
    script = f"mount -t tmpfs -o size=8m none {folder} || exit 77; TMPDIR={folder} {converter.program()} convert {path} -o {tmp_path}/m.tflite; status=$?; df --output=used {folder} | tail -n 1; exit $status"
    done = subprocess.run(
        ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "sh", "-c", script],
        capture_output=True,
        text=True,
        timeout=600,
    )
    if done.returncode in (1, 77) and "lowtide" not in done.stderr:
        pytest.skip(f"no mount namespace here: {done.stderr.strip()}")
    assert done.returncode == 5 and len(done.stderr.splitlines()) == 1 and "[no-space]" in done.stderr, (
        done.returncode,
        done.stderr,
    )
    assert int(done.stdout) == 0, "the spill is still there"
    record_property("hostile files refused", 1)
