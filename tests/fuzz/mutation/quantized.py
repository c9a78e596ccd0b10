# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear and DequantizeLinear around a float operator, as quantizing tools write them: random scales, zero points and types."""

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.fuzz.mutation.mutant import Unfit

TYPES = (np.int8, np.int8, np.uint8, np.int16, np.uint16)


def scale_and_zero(m, low, high, kind):
    """Of a range of floats, not always the best ones."""
    info = np.iinfo(kind)
    low, high = min(float(low), 0.0), max(float(high), 0.0)
    scale = np.float32(max(high - low, 1e-3) / (int(info.max) - int(info.min)) * m.pick((1.0, 1.0, 0.7, 1.9)))
    if m.chance(0.4):
        scale = np.float32(scale * 2) if info.min else scale
        return scale, 0 if info.min else int(np.clip(round(-low / scale), 0, info.max))
    return scale, int(np.clip(round(info.min - low / scale), info.min, info.max))


def levels(of, scale, zero, kind):
    info = np.iinfo(kind)
    return np.clip(np.rint(of / scale) + zero, info.min, info.max).astype(kind)


def quantize(m):
    """Inputs and constants of the model behind DequantizeLinear, outputs before QuantizeLinear."""
    if len(m.graph.node) != 1 or "Quantize" in m.graph.node[0].op_type or m.opset_version() < 13:
        raise Unfit
    if any(a.type == onnx.AttributeProto.GRAPH for a in m.graph.node[0].attribute):
        raise Unfit
    made = m.outputs()
    kind = np.dtype(m.pick(TYPES))
    if kind in (np.int16, np.uint16):
        m.model.opset_import[0].version = max(m.opset_version(), 21)
    nodes, named = [], []
    for name, of in list(m.feeds.items()):
        if of.dtype != np.float32 or not of.size:
            continue
        scale, zero = scale_and_zero(m, of.min(), of.max(), kind)
        m.feeds[name] = levels(of, scale, zero, kind)
        inner = m.name_of("f")
        m.rename_uses(name, inner)
        nodes.append(
            helper.make_node(
                "DequantizeLinear", [name, m.add_constant(scale), m.add_constant(kind.type(zero))], [inner]
            )
        )
        named.append(name)
    if not named:
        raise Unfit
    for tensor in m.constants(lambda t: t.data_type == onnx.TensorProto.FLOAT and len(t.dims) > 1):
        if not tensor.dims[0] or m.chance(0.1):
            continue
        nodes.append(weight(m, tensor, kind))
    outputs = []
    for output in list(m.graph.output):
        of = made[output.name]
        if not isinstance(of, np.ndarray) or of.dtype != np.float32 or not of.size or not np.isfinite(of).all():
            continue
        scale, zero = scale_and_zero(m, of.min(), of.max(), kind)
        if m.chance(0.15) and named:  # the scale of the input, as pools and reshapes have it
            first = next(n for n in nodes if n.input[0] == named[0])
            scale, zero = first.input[1], first.input[2]
        else:
            scale, zero = m.add_constant(scale), m.add_constant(kind.type(zero))
        name = m.name_of("q")
        outputs.append(helper.make_node("QuantizeLinear", [output.name, scale, zero], [name]))
        m.graph.output.remove(output)
        m.graph.output.append(onnx.ValueInfoProto(name=name))
    whole = [*nodes, *m.graph.node, *outputs]
    del m.graph.node[:]
    m.graph.node.extend(whole)
    m.steps = 1
    m.say("quantized", kind)


def weight(m, tensor, kind):
    """A constant as integers, with one scale or one for each index of an axis."""
    array = numpy_helper.to_array(tensor)
    stored = np.dtype(np.int8) if kind != np.uint8 or m.chance(0.7) else np.dtype(np.uint8)
    axis = m.pick((None, None, 0, 1, array.ndim - 1))
    # ONNX Runtime's own kernels for u8 times i8 saturate on some processors where weights use all bits.
    bits = 63 if stored == np.int8 else 255
    if axis is None:
        scale = np.float32(max(np.abs(array).max(), 1e-3) / bits * (1 if stored == np.int8 else 2))
        zero = 0 if stored == np.int8 else 128
        held = levels(array, scale, zero, stored)
        scales, zeros, given = scale, stored.type(zero), {}
    else:
        others = tuple(a for a in range(array.ndim) if a != axis)
        scales = np.maximum(np.abs(array).max(others), 1e-3).astype(np.float32) / np.float32(bits)
        scales = scales * (1 if stored == np.int8 else 2)
        shape = [-1 if a == axis else 1 for a in range(array.ndim)]
        zeros = np.full(scales.shape, 0 if stored == np.int8 else 128, stored)
        held = levels(array, scales.reshape(shape), zeros.reshape(shape).astype(np.float64), stored)
        given = {"axis": axis - array.ndim if m.chance(0.3) else axis}
    name, inner = tensor.name, m.name_of("w")
    m.rename_uses(name, inner)
    m.set_constant(tensor, held)
    node = helper.make_node("DequantizeLinear", [name, m.add_constant(scales), m.add_constant(zeros)], [inner], **given)
    m.say("weight", name, stored, "axis", axis)
    return node
