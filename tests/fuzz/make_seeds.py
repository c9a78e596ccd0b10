# SPDX-License-Identifier: Apache-2.0
"""Writes what fuzzing starts from, one folder a target.

    python -m tests.fuzz.make_seeds FOLDER

ONNX models: the node suite in both of its modes and the operator cases, small ones. TFLite files: what $LOWTIDE (or
build/release/lowtide) makes of a part of them; for `raise` also windows of the operators of ../shared/models/tflite, where that
folder is there. Zstd frames: by the zstd program. Names are hashes of the bytes.
"""

import hashlib
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

import numpy as np
import onnx
import onnx.parser

from tests.conformance import run_nodes
from tests.fuzz import cut_tflite
from tests.oracle.all_cases import CASES
from tests.support import converter

LARGEST = 6 * 1024  # bytes of a model: an input that is executed fast and mutated where it matters
CONVERTED_ONE_OF = 5
OPTIONS = 2**18  # the convert target takes them from model_version

WEIGHTY = [
    ("g (float[3,32] x) => (float[3,40] y) { y = Gemm(x, w) }", (32, 40)),
    ("g (float[3,40] x) => (float[3,32] y) { y = Gemm<transB=1>(x, w) }", (32, 40)),
    ("g (float[2,3,32] x) => (float[2,3,40] y) { y = MatMul(x, w) }", (32, 40)),
    ("g (float[1,16,5,6] x) => (float[1,8,3,4] y) { y = Conv(x, w) }", (8, 16, 3, 3)),
    ("g (int64[3] x) => (float[3,20] y) { y = Gather(w, x) }", (64, 20)),
    ("g (float[1,8,5,6] x) => (float[1,16,7,8] y) { y = ConvTranspose(x, w) }", (8, 16, 3, 3)),
]
LOCATIONS = [
    "a",
    "sub/b",
    "sub/deep/c.bin",
    "...",
    "./a",
    "sub/../a",
    "sub//b",
    "../secret",
    "/dev/zero",
    "link",
    "out",
    "up/secret",
    "sublink/b",
    "zero",
    "hard",
    "pipe",
    "empty",
    "z.zst",
    "z",
    "sub/y",
    "l",
    "h",
    "sub",
    "sub/",
    "",
    "a/",
    "a/b",
    "missing",
    "../model2/a",
    "../model/a",
    "\\a",
    "C:\\a",
    "a\0b",
    "sub/./deep/../b",
    "A",
    "a.zst",
    "h.zst",
    "l.zst",
]
ENTRIES = [
    "0\n4096\n4096",
    "\n\n16",
    "16\n64\n64",
    "4095\n1\n1",
    "4096\n0\n0",
    "-1\n1\n1",
    "18446744073709551615\n2\n2",
    "1e3\n4\n4",
    "0\n9223372036854775807\n9223372036854775807",
    "0x10\n4\n4",
    " 1\n4\n4",
    "+1\n4\n4",
    "1\n4\n4\nda39a3ee",
    "1\n4\n4\n\nbasepath\n..",
]


def models():
    """Serialized models, each once."""
    seen = set()
    for case in sorted(p.name for p in run_nodes.NODES.iterdir()):
        try:
            model, inputs, _ = run_nodes.load_case(case)
        except Exception:  # a data set of a kind that onnx itself does not load; the model is not needed that much
            continue
        for variant in (model, run_nodes.freeze(model, inputs)):
            if variant is not None:
                seen.add(with_options(variant))
    for case in CASES:
        seen.add(with_options(case.model()))
    seen.update(with_options(model) for model in weighty_models())
    return sorted(m for m in seen if len(m) <= LARGEST)


def weighty_models():
    """With constants that count as weights: --weights changes these."""
    for text, shape in WEIGHTY:
        for dtype in (np.float32, np.float16):
            weight = np.random.default_rng(len(text)).normal(size=shape).astype(dtype)
            graph = onnx.parser.parse_graph(text.replace("float", "float16") if dtype == np.float16 else text)
            graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
            model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
            for number in range(8):  # whatever options the hash gives
                model.producer_name = str(number)
                yield model


def with_options(model):
    model.model_version = zlib.crc32(model.SerializeToString()) % OPTIONS
    return model.SerializeToString()


def zstd_frames():
    texts = [b"", b"a", bytes(range(256)) * 4, b"lowtide " * 5000, hashlib.sha512(b"noise").digest() * 3]
    options = [
        ["-1"],
        ["-19", "--check"],
        ["-3", "--no-check", "--no-content-size"],
        ["--ultra", "-22", "--long=24"],
        ["--fast=5"],
    ]

    def frame(text, how):
        return subprocess.run(["zstd", "-q", "-c", *how], input=text, capture_output=True, check=True).stdout

    frames = [frame(text, how) for text in texts for how in options]
    skippable = bytes.fromhex("502a4d18") + (5).to_bytes(4, "little") + b"skips"
    return frames + [
        frames[3] + frames[8],
        skippable + frames[3],
        frames[3] + skippable,
        seekable(frames),
        seekable(frames[1::4]),
    ]


def seekable(frames):
    """Frames with the table that allows reading at random."""
    table = b"".join(struct.pack("<II", len(frame), len(plain(frame))) for frame in frames)
    footer = struct.pack("<IBI", len(frames), 0, 0x8F92EAB1)
    return b"".join(frames) + struct.pack("<II", 0x184D2A5E, len(table) + len(footer)) + table + footer


def plain(frame):
    return subprocess.run(["zstd", "-q", "-d", "-c"], input=frame, capture_output=True, check=True).stdout


def write(folder, inputs):
    folder.mkdir(parents=True, exist_ok=True)
    for data in inputs:
        (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)
    print(f"{folder.name}: {len(set(inputs))} seeds")


def tflite_files(onnx_models):
    with tempfile.TemporaryDirectory(prefix="lowtide-seeds-") as name:
        source, output = pathlib.Path(name, "m.onnx"), pathlib.Path(name, "m.tflite")
        for number, model in enumerate(onnx_models):
            source.write_bytes(model)
            options = ["--quiet", "--external-buffers"] if number % 2 else ["--quiet"]
            if (
                converter.convert(source, output, options).status == "converted"
                and output.stat().st_size <= 2 * LARGEST
            ):
                yield output.read_bytes()
            output.unlink(missing_ok=True)


def windows():
    for path in sorted((converter.ROOT.parent / "shared/models/tflite").glob("*.tflite")):
        yield from cut_tflite.windows(path, 2 * LARGEST)


def main():
    out = pathlib.Path(sys.argv[1])
    onnx_models = models()
    write(out / "onnx_reader", onnx_models)
    write(out / "convert", onnx_models)
    write(out / "tflite_reader", list(tflite_files(onnx_models[::CONVERTED_ONE_OF])))
    write(out / "raise", list(windows()))
    write(out / "zstd", zstd_frames())
    write(
        out / "external_data",
        [f"{place}\n{ENTRIES[0]}".encode() for place in LOCATIONS] + [f"a\n{entry}".encode() for entry in ENTRIES],
    )


if __name__ == "__main__":
    main()
