# SPDX-License-Identifier: Apache-2.0
"""Compressed models that lie: bombs, windows of gigabytes, frames that are cut or damaged."""

import os
import subprocess

import pytest

from tests.hostile.good_model import good_model
from tests.hostile.refusal import converter, refuse
from tests.support.zstd_frame import MAGIC, MOST_IN_A_BLOCK, RAW, REPEATED, RESERVED, block, header, raw_frame

WHOLE = good_model().SerializeToString()
FRAME = raw_frame(WHOLE)


def bomb(blocks):
    """Zeros without a declared size: five bytes each for 128 KiB."""
    many = block(REPEATED, MOST_IN_A_BLOCK, b"\0") * (blocks - 1)
    return header(window_log=17) + many + block(REPEATED, MOST_IN_A_BLOCK, b"\0", last=True)


FRAMES = {
    "nothing": (b"", "malformed", "empty"),
    "no frame": (WHOLE, "malformed", "not zstd data"),
    "magic alone": (MAGIC, "malformed", "cut"),
    "old magic": (b"\x27\xb5\x2f\xfd" + FRAME[4:], "malformed", "not zstd data"),
    "gzip": (b"\x1f\x8b\x08" + b"\0" * 40, "malformed", "not zstd data"),
    "cut header": (FRAME[:7], "malformed", "cut"),
    "cut block": (FRAME[:200], "malformed", "cut"),
    "no last block": (FRAME[:len(header(0))] + block(RAW, 4, b"abcd"), "malformed", "cut"),
    "block of a kind that is reserved": (header(4) + block(RESERVED, 4, b"abcd", last=True), "malformed", "damaged"),
    "block that is too large": (header(2**20) + block(RAW, 2**20, bytes(2**20), last=True), "malformed", "damaged"),
    "longer than declared": (header(2) + block(RAW, 4, b"abcd", last=True), "malformed", ""),
    "shorter than declared": (header(9) + block(RAW, 4, b"abcd", last=True), "malformed", ""),
    "declares 16 EiB": (header(2**64 - 2, window_log=20) + block(RAW, 4, b"abcd", last=True), "no-space", "TMPDIR"),
    "declares a terabyte too much": (header(2**50, window_log=20) + block(RAW, 4, b"abcd", last=True), "no-space", "TMPDIR"),
    "window of 2 GiB": (header(4, window_log=31) + block(RAW, 4, b"abcd", last=True), "budget", "window"),
    "window of an exabyte": (header(4, window_log=41) + block(RAW, 4, b"abcd", last=True), ("budget", "malformed"), ""),
    "dictionary": (MAGIC + bytes([0x23, 7, 4]) + block(RAW, 4, b"abcd", last=True), "malformed", ""),
    "rubbish behind the frame": (FRAME + b"rubbish", "malformed", "not zstd data"),
    "second frame that is cut": (FRAME + FRAME[:50], "malformed", "cut"),
    "frame in a frame": (raw_frame(FRAME), "malformed", "protobuf"),
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
    for name, content in {"one": FRAME, "two": raw_frame(WHOLE[:1000]) + raw_frame(WHOLE[1000:]), "skippable": skippable + FRAME + skippable}.items():
        path = tmp_path / f"{name}.onnx.zst"
        path.write_bytes(content)
        assert converter.convert(path, tmp_path / f"{name}.tflite").status == "converted", name


def test_bomb(tmp_path, record_property):
    """Half of the free space is the most that a frame without a declared size may take; here a folder of 8 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    path = tmp_path / "bomb.onnx.zst"
    path.write_bytes(bomb(8000))  # 32 KB for 1 GB
    script = f"mount -t tmpfs -o size=8m none {folder} || exit 77; TMPDIR={folder} {converter.program()} convert {path} -o {tmp_path}/m.tflite; status=$?; df --output=used {folder} | tail -n 1; exit $status"
    done = subprocess.run(["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "sh", "-c", script],
                          capture_output=True, text=True, timeout=600)
    if done.returncode in (1, 77) and "lowtide" not in done.stderr:
        pytest.skip(f"no mount namespace here: {done.stderr.strip()}")
    assert done.returncode == 5 and len(done.stderr.splitlines()) == 1 and "[no-space]" in done.stderr, (done.returncode, done.stderr)
    assert int(done.stdout) == 0, "the spill is still there"
    record_property("hostile files refused", 1)
