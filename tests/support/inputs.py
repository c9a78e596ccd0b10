# SPDX-License-Identifier: Apache-2.0
"""Random inputs for an ONNX model: seeded, of the type and shape that the model declares."""

import dataclasses
import zlib

import numpy as np
import onnx
from onnx import helper

from tests.support.compare import is_float


@dataclasses.dataclass(frozen=True)
class InputSpec:
    name: str
    dtype: np.dtype
    dims: tuple  # an int, or the name of a dynamic dimension ('' when it has none)

    def dynamic(self):
        return any(not isinstance(d, int) for d in self.dims)


def _dims(tensor_type):
    dims = tuple(d.dim_value if d.HasField("dim_value") else d.dim_param for d in tensor_type.shape.dim)
    return tuple(d if not isinstance(d, int) or d >= 0 else "" for d in dims)


def run_time_inputs(model):
    """The inputs that a user feeds: graph inputs without an initializer of the same name, in their order."""
    constants = {i.name for i in model.graph.initializer} | {i.values.name for i in model.graph.sparse_initializer}
    specs = []
    for value in model.graph.input:
        if value.name in constants:
            continue
        if not value.type.HasField("tensor_type"):
            raise ValueError(f"input '{value.name}' is no tensor")
        tensor = value.type.tensor_type
        specs.append(InputSpec(value.name, np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type)), _dims(tensor)))
    return specs


def shape_of(spec, shapes):
    """`shapes` {input name: dims} decides dynamic dimensions; without it the first one is 2 and the others are 5."""
    if spec.name in shapes:
        return tuple(shapes[spec.name])
    return tuple(d if isinstance(d, int) else 2 if i == 0 else 5 for i, d in enumerate(spec.dims))


def random_array(dtype, shape, low, high, rng):
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if is_float(dtype):
        return np.asarray(rng.uniform(low, high, shape)).astype(dtype)
    return np.asarray(rng.integers(int(low), int(high), shape)).astype(dtype)


def random_inputs(model, shapes=None, ranges=None, seed=0):
    """{name: array}. `ranges` {name: (low, high)}, high exclusive; floats are in [-1, 1) and integers in [0, 5) otherwise.

    Each input has a stream of its own, so adding an input does not change the others.
    """
    shapes, ranges = shapes or {}, ranges or {}
    arrays = {}
    for spec in run_time_inputs(model):
        rng = np.random.default_rng([seed, zlib.crc32(spec.name.encode())])
        low, high = ranges.get(spec.name, (-1, 1) if is_float(spec.dtype) else (0, 5))
        arrays[spec.name] = random_array(spec.dtype, shape_of(spec, shapes), low, high, rng)
    return arrays


def load_structure(path):
    """The model without its external data: names, types and shapes are enough to make inputs."""
    return onnx.load(str(path), load_external_data=False)
