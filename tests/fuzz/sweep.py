#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every small model, wrong in one place: what a fuzzer finds late, tried at once.

    python -m tests.fuzz.sweep [--part 1/12] [--changes inputs nodes] [--jobs 2] [--keep FOLDER]

From each kind of model among the seeds: every input with other ranks, extents and element types, every initializer
with other shapes, types and extreme numbers or given when the model runs, every attribute with extreme numbers, two
numbers of a list the same, every operand left out or the same as the first, and the same where the extents of inputs
are not known. All of them go through
build/fuzz's convert target; what fails is printed, one line for each place in the sources with an input that shows it,
which stays in FOLDER.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import itertools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.fuzz import make_seeds
from tests.fuzz.run import ENVIRONMENT, LIMITS, ROOT, SLOW

PROGRAM = ROOT / "build/fuzz/tests/fuzz/fuzz_convert"
WHOLE = (-1, 0, 1, 2, 100, -100, 2**31, -(2**31), 2**40, 2**63 - 1, -(2**63))
REAL = (0, -1, 1e30, float("inf"), float("-inf"), float("nan"))
TYPES = (1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 16, 17, 22)
SMALL_TYPES = (TensorProto.FLOAT8E4M3FN, TensorProto.INT4)
GREATEST = (2.0**63, -(2.0**63), 1e30, float("nan"))
PAIRED = (0, -1, 2**14, 2**20, 2**31 - 1, 2**62)
EXTENTS = (2**16, 2**20, 2**31 - 1)
LARGEST = 8000  # bytes of a model
BATCH = 400  # models that one process is given


def changed(model, change):
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    change(copy)
    return copy


def without_extents(model):
    def forget(copy):
        for given in copy.graph.input:
            for dim in given.type.tensor_type.shape.dim:
                dim.Clear()

    return changed(model, forget)


def input_variants(model):
    for k, given in enumerate(model.graph.input):
        if not given.type.HasField("tensor_type"):
            continue
        dims = [d.dim_param or d.dim_value for d in given.type.tensor_type.shape.dim]
        others = [
            [],
            [0],
            [1],
            [*dims, 1],
            [1, *dims],
            dims[:-1],
            dims[1:],
            [0] * len(dims),
            ["N"] * len(dims),
            [*dims[:-1], 0],
            [*dims[:-1], "M"],
            [7] * len(dims),
            [2] * 9,
            *([*dims[:axis], extent, *dims[axis + 1 :]] for axis in range(len(dims)) for extent in EXTENTS),
        ]
        for other in (shape for shape in others if shape != dims):

            def reshape(copy, k=k, other=other):
                shape = copy.graph.input[k].type.tensor_type.shape
                del shape.dim[:]
                for dim in other:
                    shape.dim.add(**{"dim_param" if isinstance(dim, str) else "dim_value": dim})

            yield changed(model, reshape)
        for dtype in TYPES:
            yield changed(
                model, lambda copy, k=k, dtype=dtype: setattr(copy.graph.input[k].type.tensor_type, "elem_type", dtype)
            )


def initializer_variants(model):
    for k, tensor in enumerate(model.graph.initializer):
        if tensor.data_type == TensorProto.STRING:
            continue
        array = numpy_helper.to_array(tensor)
        flat = array.reshape(-1)
        others = [flat, array[None], array[..., None], flat[:0], flat[:1], np.concatenate([flat, flat])]
        if flat.size:
            others.append(flat[:1].reshape(()))
        numbers = WHOLE if array.dtype.kind in "iu" else REAL if array.dtype.kind == "f" else ()
        bounds = np.iinfo(array.dtype) if array.dtype.kind in "iu" else None
        for number in (n for n in numbers if bounds is None or bounds.min <= n <= bounds.max):
            with np.errstate(over="ignore"):
                others.append(np.full_like(array, number))
                last = flat.copy()
                last[-1:] = number
            others.append(last.reshape(array.shape))
        for other in others:
            made = numpy_helper.from_array(np.ascontiguousarray(other).reshape(other.shape), tensor.name)
            yield changed(model, lambda copy, k=k, made=made: copy.graph.initializer[k].CopyFrom(made))


def typed_variants(model):
    """Initializers of other types, alone and with all others of their type: with their numbers, and with the greatest."""
    tensors = model.graph.initializer
    for dtype in (*TYPES, *SMALL_TYPES):
        kind = helper.tensor_dtype_to_np_dtype(dtype)
        for k, tensor in enumerate(tensors):
            if tensor.data_type in (dtype, TensorProto.STRING):
                continue
            alike = [i for i, other in enumerate(tensors) if other.data_type == tensor.data_type]
            for members in [[k]] + ([alike] if alike[0] == k and len(alike) > 1 else []):
                for number in (None, *GREATEST):

                    def retype(copy, members=members, kind=kind, number=number):
                        for i in members:
                            given = numpy_helper.to_array(tensors[i])
                            array = given if number is None else np.full(given.shape, number)
                            with np.errstate(all="ignore"):
                                made = array.astype(np.float64).astype(kind)
                            copy.graph.initializer[i].CopyFrom(numpy_helper.from_array(made, tensors[i].name))

                    yield changed(model, retype)


def given_variants(model):
    for k, tensor in enumerate(model.graph.initializer):
        rank = len(tensor.dims)
        for dims in (list(tensor.dims), [f"n{axis}" for axis in range(rank)], [EXTENTS[-1]] * rank, None):

            def give(copy, k=k, dims=dims):
                name, dtype = copy.graph.initializer[k].name, copy.graph.initializer[k].data_type
                del copy.graph.initializer[k]
                for given in [value for value in copy.graph.input if value.name == name]:
                    copy.graph.input.remove(given)
                copy.graph.input.append(helper.make_tensor_value_info(name, dtype, dims))

            yield changed(model, give)


def node_variants(model):
    for k, node in enumerate(model.graph.node[:4]):
        for j, attribute in enumerate(node.attribute):

            def edit(what, k=k, j=j):
                return changed(model, lambda copy: what(copy.graph.node[k].attribute[j]))

            if attribute.type == onnx.AttributeProto.INT:
                yield from (edit(lambda a, n=n: setattr(a, "i", n)) for n in WHOLE)
            if attribute.type == onnx.AttributeProto.FLOAT:
                yield from (edit(lambda a, n=n: setattr(a, "f", n)) for n in REAL)
            if attribute.type == onnx.AttributeProto.INTS:
                have = list(attribute.ints)
                lists = (
                    [[*have, 1], have[:-1], []] + [[n] * len(have) for n in WHOLE] + [[*have[:-1], n] for n in WHOLE]
                )
                for other in lists:
                    yield edit(lambda a, other=other: (a.ClearField("ints"), a.ints.extend(other)))
        for i in range(len(node.input)):
            yield changed(model, lambda copy, k=k, i=i: copy.graph.node[k].input.__setitem__(i, ""))
            yield changed(model, lambda copy, k=k, i=i: copy.graph.node[k].input.__delitem__(i))
            first = node.input[0]
            yield changed(model, lambda copy, k=k, i=i, to=first: copy.graph.node[k].input.__setitem__(i, to))


def together_variants(model):
    """All numbers of a node the same: a sum or product of two large ones may overflow where one large one does not."""
    for k, node in enumerate(model.graph.node[:4]):
        if sum(a.type in (onnx.AttributeProto.INT, onnx.AttributeProto.INTS) for a in node.attribute) < 2:
            continue
        for number in WHOLE:

            def set_all(copy, k=k, number=number):
                for attribute in copy.graph.node[k].attribute:
                    if attribute.type == onnx.AttributeProto.INT:
                        attribute.i = number
                    attribute.ints[:] = [number] * len(attribute.ints)

            yield changed(model, set_all)


def pair_variants(model):
    """Two numbers of a list of shapes or axes the same, with known and unknown extents of inputs: what checks that one fits
    may take the others from where they are not known."""

    for base in (model, without_extents(model)):
        for k, tensor in enumerate(base.graph.initializer):
            array = numpy_helper.to_array(tensor) if tensor.data_type == TensorProto.INT64 else np.empty(0)
            if array.ndim != 1 or not 2 <= array.size <= 8:
                continue
            for pair in itertools.combinations(range(array.size), 2):
                for number in PAIRED:
                    other = array.copy()
                    other[list(pair)] = number
                    made = numpy_helper.from_array(other, tensor.name)
                    yield changed(base, lambda copy, k=k, made=made: copy.graph.initializer[k].CopyFrom(made))


def open_variants(model):
    """The same numbers where no extent of an input is known, so that they meet nothing that they contradict."""
    of_unknown = without_extents(model)
    yield of_unknown
    yield from initializer_variants(of_unknown)
    yield from node_variants(of_unknown)
    yield from together_variants(of_unknown)
    for of_given in given_variants(of_unknown):
        yield from node_variants(of_given)


CHANGES = {
    "inputs": input_variants,
    "initializers": initializer_variants,
    "types": typed_variants,
    "given": given_variants,
    "nodes": node_variants,
    "together": together_variants,
    "pairs": pair_variants,
    "open": open_variants,
}


def variants(changes):
    """Serialized, each once; of models that differ in numbers only, one is enough. Every fourth is converted in a way of
    its own, which convert_fuzz.cc takes from the model's version: layouts, form of the weights, ranges, budget."""
    kinds, seen = set(), set()
    for data in make_seeds.models():
        model = onnx.ModelProto.FromString(data)
        nodes = tuple((n.domain, n.op_type, tuple(a.name for a in n.attribute)) for n in model.graph.node[:3])
        kind = (nodes, len(model.graph.input), len(model.graph.initializer), model.opset_import[0].version)
        if kind in kinds:
            continue
        kinds.add(kind)
        for variant in (variant for change in changes for variant in change(model)):
            if len(seen) % 4 == 0:
                variant.model_version = zlib.crc32(variant.SerializeToString()) % make_seeds.OPTIONS
            made = variant.SerializeToString()
            if len(made) <= LARGEST and made not in seen:
                seen.add(made)
                yield made


def reason(text):
    """Without numbers and names, so that equal findings have equal reasons."""
    found = re.search(r"FINDING: (.*)", text)
    if found:
        return re.sub(r"'[^']*'", "'_'", re.sub(r"-?\d+", "#", found[1]))
    error = re.search(r"runtime error: .*|ERROR: .*|terminate called.*\n.*", text)
    places = re.findall(r"#\d+ 0x\S+ in .*?((?:stream|layout|emit)/\S+:\d+)", text)
    return re.sub(r"==\d+==|0x\w+|-?\d{3,}", "#", error[0] if error else text[-200:]) + " @ " + " < ".join(places[:3])


def findings(paths):
    """(reason, path) of those that fail; a process ends with the first, and another goes on behind it."""
    while paths:
        done = subprocess.run(
            [
                "nice",
                "-n",
                "19",
                str(PROGRAM),
                *LIMITS,
                f"-artifact_prefix={paths[0].parent.parent}/",
                *map(str, paths),
            ],
            env={**os.environ, **ENVIRONMENT},
            capture_output=True,
            text=True,
            errors="replace",
        )
        slow = re.findall(r"Executed (\S+) in (\d+) ms", done.stderr)
        yield from ((f"{SLOW} seconds and more", pathlib.Path(path)) for path, ms in slow if int(ms) > 1000 * SLOW)
        if done.returncode == 0:
            return
        last = pathlib.Path(re.findall(r"Running: (\S+)", done.stderr)[-1])
        yield reason(done.stderr[done.stderr.rfind("Running: ") :]), last
        paths = paths[paths.index(last) + 1 :]


def main():
    parser = argparse.ArgumentParser(
        description="Run every small model, wrong in one place, through the convert target."
    )
    parser.add_argument("--part", default="1/1", help="such as 1/12: every twelfth")
    parser.add_argument("--changes", nargs="+", choices=CHANGES, default=CHANGES, help="these kinds only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--keep", type=pathlib.Path, help="where inputs of findings are put")
    args = parser.parse_args()
    part, parts = map(int, args.part.split("/"))
    groups = collections.defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="lowtide-sweep-") as name:
        folder = pathlib.Path(name, "inputs")
        folder.mkdir()
        paths = []
        for number, data in enumerate(variants([CHANGES[name] for name in args.changes])):
            if number % parts == part - 1:
                paths.append(folder / hashlib.sha1(data).hexdigest())
                paths[-1].write_bytes(data)
        batches = [paths[i : i + BATCH] for i in range(0, len(paths), BATCH)]
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            for found in pool.map(lambda batch: list(findings(batch)), batches):
                for why, path in found:
                    groups[why].append(path)
        for why, found in sorted(groups.items(), key=lambda item: -len(item[1])):
            print(f"{len(found)} x {why}\n    {found[0].name}")
            if args.keep:
                args.keep.mkdir(parents=True, exist_ok=True)
                (args.keep / found[0].name).write_bytes(found[0].read_bytes())
    print(f"{len(paths) - sum(map(len, groups.values()))} passed, {sum(map(len, groups.values()))} failed")
    return 1 if groups else 0


if __name__ == "__main__":
    sys.exit(main())
