# SPDX-License-Identifier: Apache-2.0
"""Changes of data: extents, ranks, element types, special numbers, what is an input and how constants are written."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.fuzz.mutation.mutant import Unfit, all_operators
from tests.support.compare import is_float

SPECIAL = (-0.0, 0.0, 0.5, 1.5, -2.5, 1e4, -1e-30, 127.0, -129.0, 2147483648.0)
NOT_FINITE = (np.nan, np.inf, -np.inf)
TYPES = (
    np.float16, np.float32, np.float64, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64,
    np.bool_,
)  # fmt: skip
# Operators whose kernels keep NaN and infinities: they move elements or look at them. The others clamp them or lose them (docs/kernels.md).
KEEPS = {
    "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "IsInf", "IsNaN",
    "Pad", "Reshape", "ReverseSequence", "ScatterElements", "ScatterND", "Slice", "SpaceToDepth", "Split", "Squeeze",
    "Tile", "Transpose", "Trilu", "Unsqueeze", "Where", "Compress", "If", "Loop", "Constant", "ConstantOfShape", "Shape",
    "Size", "Dropout", "CenterCropPad",
}  # fmt: skip


def dimension(m):
    """An extent of an input; if other inputs have it too, of all of them."""
    name = m.pick(name for name, of in m.feeds.items() if of.ndim)
    axis = int(m.rng.integers(m.feeds[name].ndim))
    old = m.feeds[name].shape[axis]
    new = max(0, int(m.pick((old + 1, old - 1, 1, 2, old * 2, 0 if m.chance(0.3) else old + 2))))
    everywhere = m.chance(0.5)
    for one, of in list(m.feeds.items()):
        if one != name and not everywhere:
            continue
        shape = tuple(new if n == old and (everywhere or a == axis) else n for a, n in enumerate(of.shape))
        m.feed(one, of.dtype, shape)
    m.say("extent", axis, "of", name, "=", new)


def rank(m):
    """A leading axis more or less, of one input or of all."""
    names = list(m.feeds) if m.chance(0.5) else [m.pick(m.feeds)]
    less = m.chance(0.4)
    for name in names:
        of = m.feeds[name]
        if less and of.ndim:
            m.feeds[name] = of[0] if of.shape[0] else np.zeros(of.shape[1:], of.dtype)
        elif not less:
            m.feeds[name] = of[None]
    m.say("rank", "-" if less else "+", *names)


def element_type(m):
    """Of all inputs and constants of a type."""
    old = m.pick(sorted({of.dtype for of in m.feeds.values()}, key=str))
    retype(m, old, np.dtype(m.pick(TYPES)))


def other_float(m):
    """A whole model in half or double precision."""
    retype(m, np.dtype(np.float32), np.dtype(m.pick((np.float16, np.float64))))


def retype(m, old, new):
    def attributes(nodes):
        for node in nodes:
            for a in node.attribute:
                if a.type == onnx.AttributeProto.GRAPH:
                    attributes(a.g.node)
                elif a.name in ("to", "dtype") and a.i == helper.np_dtype_to_tensor_dtype(old):
                    a.i = helper.np_dtype_to_tensor_dtype(new)
                elif a.type == onnx.AttributeProto.TENSOR and numpy_helper.to_array(a.t).dtype == old:
                    a.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(a.t).astype(new), a.t.name))

    for name, of in m.feeds.items():
        if of.dtype == old:
            with np.errstate(all="ignore"):
                m.feeds[name] = of.astype(new)
    for tensor in m.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == old and old.kind not in "iu":
            with np.errstate(all="ignore"):
                m.set_constant(tensor, array.astype(new))
    if old.kind == "f" and new.kind == "f":
        attributes(m.graph.node)
    m.say("type", old, "->", new)


def freeze(m):
    if len(m.feeds) < 2:
        raise Unfit
    name = m.pick(m.feeds)
    m.graph.initializer.append(numpy_helper.from_array(m.feeds.pop(name), name))
    m.say("constant:", name)


def thaw(m):
    tensor = m.pick(m.constants(lambda i: np.prod(i.dims, dtype=np.int64) < 4096))
    m.feeds[tensor.name] = numpy_helper.to_array(tensor)
    m.graph.initializer.remove(tensor)
    m.say("input:", tensor.name)


def special(m):
    name = m.pick(name for name, of in m.feeds.items() if of.size and is_float(of.dtype))
    finite = m.chance(0.3) or not KEEPS.issuperset(all_operators(m.model))
    array = m.feeds[name].copy()
    for _ in range(int(m.rng.integers(1, 4))):
        with np.errstate(over="ignore"):
            array.reshape(-1)[int(m.rng.integers(array.size))] = m.pick(SPECIAL if finite else NOT_FINITE)
    m.feeds[name] = array
    m.say("special numbers in" if finite else "NaN or infinities in", name)


def written_otherwise(m):
    """A constant as a Constant node, as a default of an input, sparse, or in typed fields instead of bytes."""
    tensor = m.pick(m.constants())
    array, name = numpy_helper.to_array(tensor), tensor.name
    how = m.pick(("node", "node", "numbers", "default", "sparse", "sparse node", "fields"))
    if how == "fields":
        if array.dtype.kind not in "fiub" or array.dtype == np.float16:
            raise Unfit
        tensor.CopyFrom(helper.make_tensor(name, tensor.data_type, array.shape, array.reshape(-1).tolist()))
    elif how == "default":
        if any(value.name == name for value in m.graph.input):
            raise Unfit
        m.graph.input.append(helper.make_tensor_value_info(name, tensor.data_type, array.shape))
    else:
        given = {}
        if how == "node":
            copy = TensorProto()
            copy.CopyFrom(tensor)
            given["value"] = copy
        elif how == "numbers" and array.ndim < 2 and array.dtype in (np.float32, np.int64):
            kind = "float" if array.dtype == np.float32 else "int"
            given[f"value_{kind}s" if array.ndim else f"value_{kind}"] = array.tolist()
        elif how.startswith("sparse") and array.ndim and array.dtype == np.float32:
            flat = array.reshape(-1).copy()
            flat[:: int(m.rng.integers(1, 4))] = 0
            at = np.flatnonzero(flat)
            sparse = helper.make_sparse_tensor(
                numpy_helper.from_array(flat[at], name), numpy_helper.from_array(at.astype(np.int64)), array.shape
            )
            if how == "sparse":
                m.graph.sparse_initializer.append(sparse)
            else:
                given["sparse_value"] = sparse
        else:
            raise Unfit
        m.graph.initializer.remove(tensor)
        if given:
            m.graph.node.insert(0, helper.make_node("Constant", [], [name], **given))
    m.say(how, "constant", name)
