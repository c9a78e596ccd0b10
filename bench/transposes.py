# SPDX-License-Identifier: Apache-2.0
"""TRANSPOSEs of TFLite files: how many, and the bytes of their results, by two programs.

    python -m bench.transposes BEFORE AFTER MODEL.onnx|FOLDER...

converts each model by both programs, in their default form, and prints the models that differ and both sums. Dynamic
dimensions are fixed as tests/oracle/real_models.tsv lists them; a model with others, and one that a program refuses, is listed and
not counted.
"""

import argparse
import math
import pathlib
import subprocess
import tempfile

from ai_edge_litert import schema_py_generated as schema

from tests.oracle.real_models import expectations
from tests.support.tflite_file import DTYPES


def transposes(path):
    """(number, bytes of their results) over all subgraphs. A dimension of unknown size counts as 1, as in the file."""
    model = schema.Model.GetRootAs(pathlib.Path(path).read_bytes(), 0)
    count = size = 0
    for graph in map(model.Subgraphs, range(model.SubgraphsLength())):
        for operator in map(graph.Operators, range(graph.OperatorsLength())):
            code = model.OperatorCodes(operator.OpcodeIndex())
            if max(code.BuiltinCode(), code.DeprecatedBuiltinCode()) != schema.BuiltinOperator.TRANSPOSE:
                continue
            result = graph.Tensors(operator.Outputs(0))
            elements = math.prod(result.Shape(i) for i in range(result.ShapeLength()))
            count, size = count + 1, size + elements * DTYPES[result.Type()].itemsize
    return count, size


def flags_for(model):
    shapes = next((row.shapes for row in expectations() if row.model == model.name), {})
    return [f"--shape={name}={','.join(map(str, dims))}" for name, dims in shapes.items()]


def of_program(program, model, folder):
    """transposes() of the program's file, or None where it refuses the model."""
    output = pathlib.Path(folder) / "out.tflite"
    command = [program, "convert", model, "-o", output, "-q", *flags_for(model)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    return transposes(output) if done.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    sums, counted = [[0, 0], [0, 0]], 0
    for path in options.models:
        for model in sorted(path.glob("*.onnx")) if path.is_dir() else [path]:
            with tempfile.TemporaryDirectory(prefix="lowtide-transposes-") as folder:
                found = [of_program(program, model, folder) for program in (options.before, options.after)]
            if None in found:
                print(
                    f"{model.stem}: refused by {'both' if found == [None, None] else ('before', 'after')[found.index(None)]}"
                )
                continue
            counted += 1
            for total, (count, size) in zip(sums, found):
                total[0] += count
                total[1] += size
            if found[0] != found[1]:
                print(
                    f"{model.stem}: {found[0][0]} -> {found[1][0]}, bytes {found[0][1]:,} -> {found[1][1]:,}",
                    flush=True,
                )
    (before, before_bytes), (after, after_bytes) = sums
    ratio = after_bytes / before_bytes if before_bytes else math.nan
    print(f"{counted} models: {before} -> {after}, bytes {before_bytes:,} -> {after_bytes:,} ({ratio:.3f})")


if __name__ == "__main__":
    main()
