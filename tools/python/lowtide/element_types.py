# SPDX-License-Identifier: Apache-2.0
"""Which element types a tensor of a .tflite file may have where it stands for a value of an ONNX model.

Equal numbers are not enough: a file that has integers where the model has floats may agree on the samples that were tried, and rounds all
others. What the program writes is short enough to be listed (docs/verify.md): the same type; another width of floats;
integers with a scale in place of floats, and the other way round (`--quantize`, `--io`); integers of the other sign, shifted; the bits of
floats of 8 bits. Raw images (`--input-uint8`) are in raw_images.py.
"""

from __future__ import annotations

import numpy as np

from .port import Array, Port
from .tflite_graph import TfliteGraph
from .tflite_header import TYPE_NAMES

# What is added to an integer of the first type to get the second.
SHIFTS = {("uint8", "int8"): -128, ("int8", "uint8"): 128, ("uint16", "int16"): -32768, ("int16", "uint16"): 32768}
_WHOLE = {"bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))}


def is_float(name: str) -> bool:
    return name.startswith(("float", "bfloat"))


def shifted(array: Array, name: str) -> Array:
    """Integers as the type of the other sign has them, in 32 bits; as they are if the types are no such pair."""
    shift = SHIFTS.get((array.dtype.name, name))
    return array if shift is None else array.astype(np.int32) + shift


def unlike(wanted: Port, tflite: TfliteGraph, tensor: int, has_grid: bool) -> str:
    """Why a tensor cannot be a value of the ONNX model, by the element types; empty if it can.

    `has_grid`: it was found in the ONNX model what real numbers the integers of the value stand for.
    """
    want, found = (
        wanted.bits_of or wanted.dtype.name,
        TYPE_NAMES.get(tflite.values[tensor].tensor.type) or "of no known type",
    )
    is_scaled = tflite.values[tensor].quantization is not None
    if wanted.bits_of:
        is_same = found == "uint8"
    elif want == found or (want, found) in SHIFTS or (is_float(want) and is_float(found)):
        is_same = True
    elif is_float(want):
        is_same = found in ("int8", "uint8", "int16", "uint16") and is_scaled
    else:
        is_same = is_float(found) and has_grid
    reason = f"{found} in the TFLite file, and {want} in the ONNX model"
    if is_float(found) and want in ("int8", "uint8", "int16", "uint16") and not has_grid:
        reason += ": integers whose scale verify does not find in the ONNX model"
    return "" if is_same else reason


def inner_unlike(array: Array, tflite: TfliteGraph, tensor: int) -> bool:
    """Whether an inner tensor cannot be a value; there, integers and booleans may have any width, as those of narrowed nodes do."""
    name = TYPE_NAMES.get(tflite.values[tensor].tensor.type)
    if array.dtype.kind in "iub" and name in _WHOLE:
        return np.promote_types(name, array.dtype).kind == "f"  # int64 and uint64: no type holds both
    return bool(unlike(Port("", array.dtype, None), tflite, tensor, has_grid=False))
