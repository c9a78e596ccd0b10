# SPDX-License-Identifier: Apache-2.0
"""The committed inputs of the fuzz targets: corpus/NAME.tar.zst, one archive for each kind of input.

    python -m tests.fuzz.corpus NAME FILE|FOLDER...       add inputs to an archive, each under the hash of its bytes
    python -m tests.fuzz.corpus NAME --unpack FOLDER      write its inputs into a folder

Equal inputs give equal archives: members are sorted and have no owner and no date. CMake unpacks the archives for the
replaying tests (CMakeLists.txt), and run.py gives them to libFuzzer. Needs the program zstd.
"""

import argparse
import hashlib
import io
import pathlib
import subprocess
import sys
import tarfile

FOLDER = pathlib.Path(__file__).resolve().parent / "corpus"
NAMES = ("onnx", "tflite_reader", "external_data", "zstd")
OF_TARGET = {
    "convert": "onnx",
    "onnx_reader": "onnx",
    "raise": "tflite_reader",
}  # other targets have an archive of their own name


def read(name):
    """{hash: bytes}"""
    path = FOLDER / f"{name}.tar.zst"
    if not path.is_file():
        return {}
    plain = subprocess.run(["zstd", "-dcq", path], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}


def write(name, inputs):
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for key, data in sorted(inputs.items()):
            member = tarfile.TarInfo(key)
            member.size, member.mode = len(data), 0o644
            archive.addfile(member, io.BytesIO(data))
    FOLDER.mkdir(exist_ok=True)
    subprocess.run(["zstd", "-19", "-q", "-f", "-o", FOLDER / f"{name}.tar.zst"], input=plain.getvalue(), check=True)


def files(paths):
    for path in paths:
        yield from (p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]


def main():
    parser = argparse.ArgumentParser(description="The committed inputs of the fuzz targets.")
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("inputs", nargs="*", type=pathlib.Path, help="files and folders of inputs to add")
    parser.add_argument(
        "--unpack", type=pathlib.Path, metavar="FOLDER", help="write the archive's inputs into this folder"
    )
    args = parser.parse_args()
    inputs = read(args.name)
    before = len(inputs)
    if args.inputs:
        for path in files(args.inputs):
            data = path.read_bytes()
            inputs[hashlib.sha1(data).hexdigest()] = data
        write(args.name, inputs)
    if args.unpack:
        args.unpack.mkdir(parents=True, exist_ok=True)
        for key, data in inputs.items():
            (args.unpack / key).write_bytes(data)
    print(f"{args.name}: {len(inputs)} inputs, {len(inputs) - before} of them new")


if __name__ == "__main__":
    sys.exit(main())
