# SPDX-License-Identifier: Apache-2.0
"""Runs a model by LiteRT's CompiledModel, which reads external buffers; the Interpreter does not."""

import numpy as np
from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.cpu_kernel_mode import CpuKernelMode
from ai_edge_litert.hardware_accelerator import HardwareAccelerator
from ai_edge_litert.options import CpuOptions, Options

# What judge.judge_outputs takes as `backends`: XNNPACK, optimised kernels, reference kernels.
COMPILED = {"compiled xnnpack": "DELEGATE", "compiled kernels": "BUILTIN", "compiled reference": "REFERENCE"}


def run(path, inputs, kernel_mode, threads=1):
    """{output name: array}."""
    cpu = CpuOptions(num_threads=threads, kernel_mode=CpuKernelMode[kernel_mode])
    model = CompiledModel.from_file(
        str(path), options=Options(hardware_accelerators=HardwareAccelerator.CPU, cpu_options=cpu)
    )
    key = "serving_default"
    for name, of in model.get_input_tensor_details(key).items():
        if tuple(of["shape"]) != inputs[name].shape:
            model.resize_input_tensor_by_name(key, name, inputs[name].shape)
    details = model.get_output_tensor_details(key)
    fed, got = {}, {}
    for name, array in inputs.items():
        fed[name] = model.create_input_buffer_by_name(key, name)
        fed[name].write(np.ascontiguousarray(array))
    for name in details:
        got[name] = model.create_output_buffer_by_name(key, name)
    model.run_by_name(key, fed, got)
    return {
        name: got[name].read(int(np.prod(of["shape"])), np.dtype(of["dtype"])).reshape(of["shape"])
        for name, of in details.items()
    }
