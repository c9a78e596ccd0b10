# SPDX-License-Identifier: Apache-2.0
"""A conversion with one fault in it: a small model with data of every kind, the program with fault_layer between it and
the system, and what the folder looks like afterwards."""

import concurrent.futures
import dataclasses
import os
import pathlib
import shutil
import subprocess

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

from tests.support import converter
from tests.support.zstd_frame import raw_frame

OLD = b"an output of long ago"
HANGS = 600  # seconds


def layer():
    path = converter.program().parent / "tests/libfault_layer.so"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not built: cmake --build --preset check")
    return path


def save_model(folder):
    """Weights inline, in two files beside the model (one is copied as it is, one transposed), and in a compressed one."""
    random = np.random.default_rng(0)
    shapes = {"kernel": (24, 96, 3, 5), "bias": (24,), "matrix": (190, 360), "addend": (7, 190), "last": (190, 11)}
    tensors = {
        name: numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)
        for name, shape in shapes.items()
    }
    tensors["shape"] = numpy_helper.from_array(np.array([7, -1], np.int64), "shape")
    nodes = [
        helper.make_node("Conv", ["x", "kernel", "bias"], ["c"]),
        helper.make_node("Reshape", ["c", "shape"], ["r"]),
        helper.make_node("Gemm", ["r", "matrix"], ["m"], transB=1),
        helper.make_node("Add", ["m", "addend"], ["a"]),
        helper.make_node("MatMul", ["a", "last"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [7, 96, 7, 7])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [7, 11])],
        initializer=list(tensors.values()),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    for name in ("matrix", "kernel", "last"):
        tensor = next(t for t in model.graph.initializer if t.name == name)
        raw = tensor.raw_data
        if name == "last":
            (folder / f"{name}.bin.zst").write_bytes(raw_frame(raw))
        else:
            (folder / f"{name}.bin").write_bytes(raw)
        set_external_data(tensor, f"{name}.bin", offset=0, length=len(raw))
        tensor.ClearField("raw_data")
    (folder / "m.onnx").write_bytes(model.SerializeToString())


# Both ways of reading.
IO = ("mmap", "pread")
CHOSEN = ()  # as options, for tests that run in one after the other
INPUTS = ("m.onnx", "matrix.bin", "kernel.bin", "last.bin.zst")


@dataclasses.dataclass
class Call:
    number: int
    name: str
    path: str
    is_output: bool = False  # on what is being written, and not where that is read again to verify it


@dataclasses.dataclass
class Run:
    status: int
    stderr: str
    calls: list
    folder: pathlib.Path
    output_name: str

    @property
    def names(self):
        return {p.name for p in self.folder.iterdir()}

    @property
    def output(self):
        return (self.folder / self.output_name).read_bytes()


class Bench:
    """Folders to convert in; `good` is the output without any fault, `calls` what the program calls for it."""

    def __init__(self, root, options=(), output="m.tflite"):
        self.root, self.options, self.output = root, options, output
        self.model = root / "model"
        self.model.mkdir()
        save_model(self.model)
        first = self.run("first")
        assert first.status == 0, first.stderr
        self.good, self.calls = first.output, first.calls
        shutil.rmtree(first.folder)

    def run(self, name, fault="", target="", command=None):
        """In a folder of its own, in which an old output stands."""
        folder = self.root / name
        if not folder.exists():
            shutil.copytree(self.model, folder)
            (folder / self.output).write_bytes(OLD)
        return self.again(folder, fault, target, command)

    def again(self, folder, fault="", target="", command=None):
        log = folder.with_name(folder.name + ".log")
        log.unlink(missing_ok=True)
        if command is None:
            command = ["convert", "m.onnx", "-o", self.output, "--threads", "1", "--quiet", *self.options]
        environment = os.environ | {
            "LD_PRELOAD": str(layer()),
            "FAULT_FOLDER": str(folder),
            "FAULT_LOG": str(log),
            "FAULT": fault,
            "FAULT_TARGET": str(folder / target) if target else "",
            "TMPDIR": str(folder),
        }
        done = subprocess.run(
            [converter.program(), *command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=HANGS,
        )
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        calls = [Call(int(number), name, path) for number, name, path in (line.split("\t") for line in lines)]
        is_read_again = False
        for call in calls:
            is_temporary = ".lowtide-" in call.path
            is_read_again = is_read_again or is_temporary and call.name == "open"
            call.is_output = call.name == "rename" or is_temporary and not is_read_again
            is_read_again = is_read_again and not (is_temporary and call.name == "close")
        return Run(done.returncode, done.stderr, calls, folder, self.output)


def all_of(work, cases):
    """Runs work(case) for every case, a few at once, and raises the first failure with its case."""

    def one(case):
        try:
            return work(case)
        except AssertionError as error:
            raise AssertionError(f"{case}: {error}") from error

    with concurrent.futures.ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        return list(pool.map(one, cases))
