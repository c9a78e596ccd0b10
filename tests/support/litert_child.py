# SPDX-License-Identifier: Apache-2.0
"""The child process of `litert.Litert`: runs models in LiteRT until told to stop.

It lives apart because kernels may abort the process or never return. What it reads from the pipe are requests
(path, {input name: array}, with XNNPACK or without, or a kernel mode of CompiledModel); what it sends is ("ok", {output name: array}) or
("error", text).
"""

import os
import sys
from multiprocessing.connection import Connection

import ml_dtypes  # noqa: F401  registers bfloat16 with numpy, without which LiteRT cannot hand such a tensor over
import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from tests.support import compiled_model
from tests.support.compare import is_small_float
from tests.support.tflite_file import read_tflite


def _to_litert(array, dtype):
    """As the bindings want it: 4-bit and 8-bit float types travel as (u)int8, one element a byte."""
    if dtype.name in ("int2", "int4"):
        return array.astype(np.int8)
    if dtype.name == "uint4":
        return array.astype(np.uint8)
    if dtype.name.startswith("float8"):
        return array.view(np.int8)
    return array


def _from_litert(array, dtype):
    array = np.asarray(array)
    if dtype.name.startswith("float8") and array.dtype != dtype:
        return array.view(dtype)
    return array if array.dtype == dtype else array.astype(dtype)


def run(path, inputs, backend):
    return compiled_model.run(path, inputs, backend) if isinstance(backend, str) else interpret(path, inputs, backend)


def interpret(path, inputs, xnnpack):
    file = read_tflite(path)
    resolver = OpResolverType.BUILTIN if xnnpack else OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model_path=path, experimental_op_resolver_type=resolver, num_threads=1)
    index_of = dict(file.signature_inputs)
    for port in file.inputs:
        names = [name for name, index in file.signature_inputs if index == port.index]
        array = inputs[names[0]]
        if port.dtype == np.uint8 and is_small_float(array.dtype):
            array = array.view(np.uint8)
        shape = tuple(interpreter._get_tensor_details(port.index, 0)["shape"])
        if array.dtype != port.dtype:
            raise ValueError(f"input '{names[0]}' is {port.dtype}, not {array.dtype}")
        if array.shape != shape:
            if len(port.shape) != array.ndim or any(p not in (-1, n) for p, n in zip(port.shape, array.shape)):
                raise ValueError(f"input '{names[0]}' is {list(port.shape)}, not {list(array.shape)}")
            interpreter.resize_tensor_input(port.index, array.shape, strict=True)
    interpreter.allocate_tensors()
    for name, index in index_of.items():
        array = np.ascontiguousarray(inputs[name]).reshape(inputs[name].shape)
        dtype = next(port.dtype for port in file.inputs if port.index == index)
        if dtype == np.uint8 and is_small_float(array.dtype):
            array = array.view(np.uint8)
        interpreter.set_tensor(index, _to_litert(array, dtype))
    interpreter.invoke()
    outputs = {}
    for name, index in file.signature_outputs:
        dtype = next(port.dtype for port in file.outputs if port.index == index)
        shape = tuple(int(n) for n in interpreter._get_tensor_details(index, 0)["shape"])
        # The bindings refuse to hand over some tensors without elements ("Invalid tensor size").
        outputs[name] = (
            np.empty(shape, dtype) if 0 in shape else _from_litert(interpreter.get_tensor(index), dtype).copy()
        )
    return outputs


def serve(connection):
    while True:
        try:
            request = connection.recv()
        except EOFError:
            return
        try:
            reply = ("ok", run(*request))
        except Exception as error:  # whatever LiteRT raises is the answer
            reply = ("error", f"{type(error).__name__}: {error}".replace("\n", " "))
        connection.send(reply)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
    os._exit(0)  # LiteRT's destructors have nothing to say that matters here
