# SPDX-License-Identifier: Apache-2.0
"""Whether ONNX Runtime's products of u8 data and i8 weights are exact on this processor.

On x86 processors without VNNI they add pairs of products in 16 bits, which saturate. A model of one product says which of both
this processor does; names and flags of processors are not asked for.
"""

from __future__ import annotations

import functools
from typing import Any

from .onnx_header import message, varint

_EXTENT = 64
_UINT8, _INT8, _INT32 = 2, 3, 6


def _number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def _value(name: str, element: int, *shape: int) -> bytes:
    extents = b"".join(message(1, _number(1, extent)) for extent in shape)
    kind = message(1, _number(1, element) + message(2, extents))
    return message(1, name.encode()) + message(2, kind)


def _model() -> bytes:
    """y = MatMulInteger(x, w), where all of w is 127 (field numbers: schemas/onnx.proto)."""
    node = message(1, b"x") + message(1, b"w") + message(2, b"y") + message(4, b"MatMulInteger")
    raw = message(9, b"\x7f" * (_EXTENT * _EXTENT))
    weight = _number(1, _EXTENT) + _number(1, _EXTENT) + _number(2, _INT8) + message(8, b"w") + raw
    graph = message(1, node) + message(2, b"g") + message(5, weight)
    graph += message(11, _value("x", _UINT8, _EXTENT, _EXTENT)) + message(12, _value("y", _INT32, _EXTENT, _EXTENT))
    return _number(1, 8) + message(7, graph) + message(8, _number(2, 13))


@functools.cache
def exact(runtime: Any) -> bool:
    """`runtime`: the module onnxruntime."""
    import numpy

    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = 1, 1
    session = runtime.InferenceSession(_model(), options, providers=["CPUExecutionProvider"])
    (got,) = session.run(None, {"x": numpy.full((_EXTENT, _EXTENT), 255, numpy.uint8)})
    return bool((got == 255 * 127 * _EXTENT).all())
