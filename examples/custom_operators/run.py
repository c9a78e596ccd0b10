# SPDX-License-Identifier: Apache-2.0
"""Runs a model with the example's kernels in LiteRT's Python interpreter.

python run.py libtflite_kernels.so MODEL.tflite INPUT.npy OUTPUT.npy
"""

import ctypes
import sys

import numpy as np
from ai_edge_litert.interpreter import InterpreterWithCustomOps


def run(library, model, value):
    """The model's first output for `value` as its first input."""
    kernels = ctypes.CDLL(library)
    kernels.example_register.argtypes = [ctypes.c_size_t]
    interpreter = InterpreterWithCustomOps(custom_op_registerers=[kernels.example_register], model_path=model)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], value)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


if __name__ == "__main__":
    library, model, given, result = sys.argv[1:]
    np.save(result, run(library, model, np.load(given)))
