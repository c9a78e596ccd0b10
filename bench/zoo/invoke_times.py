# SPDX-License-Identifier: Apache-2.0
"""CPU time of invoke of several .tflite files, in turns in this process: `python invoke_times.py THREADS TURNS FILE ...`.

Prints a JSON list with the median seconds of each file over the turns, or why there are none: LiteRT does not run it, or its
second run gives other numbers than its first from the same inputs. A turn repeats invoke until 30 ms have gone, so that short
runs are above the clock's step. Inputs are the same for all files of equal signature: random numbers, ones for masks and small
integers for tokens.
"""

import json
import statistics
import sys
import time

import numpy as np
from ai_edge_litert.interpreter import Interpreter


def outputs(interpreter):
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def prepared(file, threads):
    """The interpreter with its inputs set, or the reason why its time does not count."""
    try:
        interpreter = Interpreter(file, num_threads=threads)
        interpreter.allocate_tensors()
        rng = np.random.default_rng(17)
        for detail in interpreter.get_input_details():
            shape, dtype = detail["shape"], detail["dtype"]
            whole = np.issubdtype(dtype, np.integer)
            array = np.ones(shape, dtype) if whole or dtype == np.bool_ else rng.random(shape).astype(dtype)
            interpreter.set_tensor(detail["index"], array)
        # A file whose variable tensors keep the state of a run computes something else than the ONNX model.
        if any(not np.array_equal(*pair, equal_nan=True) for pair in zip(outputs(interpreter), outputs(interpreter))):
            return "other numbers in the second run"
    except (RuntimeError, ValueError):
        return "not run by LiteRT"
    return interpreter


def once(interpreter):
    count, begun = 0, time.process_time()
    while True:
        interpreter.invoke()
        count += 1
        spent = time.process_time() - begun
        if spent > 0.03:
            return spent / count


def main():
    threads, turns, files = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    runs = [(prepared(file, threads), []) for file in files]
    for _ in range(turns):
        for interpreter, times in runs:
            if not isinstance(interpreter, str):
                times.append(once(interpreter))
    print(json.dumps([statistics.median(times) if times else fault for fault, times in runs]))


if __name__ == "__main__":
    main()
