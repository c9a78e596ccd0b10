# SPDX-License-Identifier: Apache-2.0
"""Changes of nodes: attributes, optional inputs and outputs, the opset."""

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

from tests.fuzz.mutation.mutant import Unfit

OPSETS = tuple(range(7, 27))
SMALL = (-3, -2, -1, 0, 1, 2, 3, 4, 5)
FACTORS = (0.0, -1.0, 0.5, 1.0, 2.0, 1e-3, 10.0)
WORDS = {
    "auto_pad": ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"),
    "mode": ("nearest", "linear", "cubic", "constant", "edge", "reflect", "wrap", "DCR", "CRD", "bilinear", "bicubic", "avg", "max"),
    "coordinate_transformation_mode": (
        "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric", "tf_crop_and_resize",
        "output_half_pixel",
    ),
    "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
    "padding_mode": ("zeros", "border", "reflection"),
    "reduction": ("none", "add", "mul", "min", "max", "mean", "sum"),
    "direction": ("forward", "reverse", "bidirectional", "LEFT", "RIGHT"),
    "approximate": ("none", "tanh"),
    "activations": ("Sigmoid", "Tanh", "Relu", "HardSigmoid", "Softsign", "Elu", "LeakyRelu", "Softplus"),
}  # fmt: skip


def number(m, old):
    return m.pick((old + 1, old - 1, -old, m.pick(SMALL)))


def schema(m, node):
    try:
        return onnx.defs.get_schema(node.op_type, min(m.opset_version(), onnx.defs.onnx_opset_version()), node.domain)
    except Exception as error:  # an operator that onnx does not know
        raise Unfit from error


def attribute(m):
    node = m.pick(m.graph.node)
    what = m.pick(("change", "change", "change", "remove", "add"))
    if what == "remove":
        gone = m.pick(node.attribute)
        m.say("remove", node.op_type, gone.name)
        node.attribute.remove(gone)
        return
    if what == "add":
        known = m.pool.vocabulary[node.op_type]
        name = m.pick(name for name in sorted(known) if all(a.name != name for a in node.attribute))
        node.attribute.append(known[name])
        m.say("add", node.op_type, name)
        if m.chance(0.5):
            return
        changed = node.attribute[-1]
    else:
        changed = m.pick(node.attribute)
    change(m, changed)
    m.say("change", node.op_type, helper.printable_attribute(changed)[:200])


def change(m, attribute):
    kind = attribute.type
    if kind == AttributeProto.INT:
        attribute.i = int(number(m, attribute.i))
    elif kind == AttributeProto.FLOAT:
        attribute.f = float(attribute.f * m.pick(FACTORS)) if m.chance(0.5) else m.pick(FACTORS)
    elif kind == AttributeProto.INTS and attribute.ints:
        at = int(m.rng.integers(len(attribute.ints)))
        what = m.rng.random()
        if what < 0.1:
            del attribute.ints[at]
        elif what < 0.2:
            attribute.ints.append(int(m.pick(SMALL)))
        else:
            attribute.ints[at] = int(number(m, attribute.ints[at]))
    elif kind == AttributeProto.FLOATS and attribute.floats:
        attribute.floats[int(m.rng.integers(len(attribute.floats)))] = m.pick(FACTORS)
    elif kind == AttributeProto.STRING:
        attribute.s = m.pick(WORDS.get(attribute.name, ("NOTSET",))).encode()
    elif kind == AttributeProto.STRINGS and attribute.strings:
        attribute.strings[int(m.rng.integers(len(attribute.strings)))] = m.pick(
            WORDS.get(attribute.name, ("x",))
        ).encode()
    else:
        raise Unfit


def explicit_default(m):
    """An attribute that is absent is written with its default: nothing may change."""
    node = m.pick(m.graph.node)
    have = {a.name for a in node.attribute}
    name, known = m.pick((n, a) for n, a in sorted(schema(m, node).attributes.items()) if n not in have)
    if known.default_value.name != name:
        raise Unfit
    node.attribute.append(known.default_value)
    m.say("explicit", node.op_type, name)


def negative_axis(m):
    """An axis is counted from the other end: nothing may change where the rank is right."""
    node = m.pick(n for n in m.graph.node if any(a.name in ("axis", "axes") for a in n.attribute))
    chosen = m.pick(a for a in node.attribute if a.name in ("axis", "axes"))
    if node.input[0] in m.feeds:
        rank = m.feeds[node.input[0]].ndim
    else:
        rank = np.ndim(m.outputs([node.input[0]])[node.input[0]])
    turn = lambda axis: axis - rank if axis >= 0 else axis + rank  # noqa: E731
    if chosen.type == AttributeProto.INT:
        chosen.i = turn(chosen.i)
    elif chosen.ints:
        chosen.ints[:] = [turn(axis) if m.chance(0.7) else axis for axis in chosen.ints]
    m.say("axis", node.op_type, helper.printable_attribute(chosen))


def opset(m):
    version = m.pick(OPSETS)
    for imported in (m.model.opset_import, *(function.opset_import for function in m.model.functions)):
        for entry in imported:
            if entry.domain == "":
                entry.version = version
    m.say("opset", version)


def translated(m):
    """The same model in another opset, with attributes that became inputs."""
    version = m.pick(v for v in OPSETS if v <= onnx.defs.onnx_opset_version() and v > m.opset_version())
    declared = onnx.ModelProto()
    declared.CopyFrom(m.model)
    try:
        m.model.CopyFrom(onnx.version_converter.convert_version(declared, version))
    except Exception as error:  # an operator without an adapter
        raise Unfit from error
    m.say("translated to opset", version)


def drop_input(m):
    node = m.pick(node for node in m.graph.node if len(node.input) > 1)
    at = int(m.rng.integers(1, len(node.input)))
    m.say("drop input", at, "of", node.op_type)
    if at == len(node.input) - 1 and m.chance(0.5):
        del node.input[at]
    else:
        node.input[at] = ""


def empty_inputs(m):
    """Optional inputs at the end are named '', as some exporters write them."""
    node = m.pick(m.graph.node)
    known = schema(m, node)
    if known.max_input > 20 or len(node.input) >= known.max_input:
        raise Unfit
    node.input.extend([""] * int(m.rng.integers(1, known.max_input - len(node.input) + 1)))
    m.say("inputs of", node.op_type, len(node.input))


def more_outputs(m):
    """An optional output is taken, or is named ''."""
    node = m.pick(m.graph.node)
    most = schema(m, node).max_output
    if most > 20 or len(node.output) >= most:
        raise Unfit
    for _ in range(int(m.rng.integers(1, most - len(node.output) + 1))):
        node.output.append("" if m.chance(0.3) else m.name_of("o"))
    m.graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output if "_m" in name and m.chance(0.8))
    m.say("outputs of", node.op_type, len(node.output))


def fewer_outputs(m):
    """An output of the graph goes; its node names it '' or leaves it unused."""
    if len(m.graph.output) < 2:
        raise Unfit
    gone = m.pick(m.graph.output)
    m.graph.output.remove(gone)
    used = {name for node in m.graph.node for name in node.input}
    if gone.name not in used and m.chance(0.5):
        for node in m.graph.node:
            node.output[:] = ["" if name == gone.name else name for name in node.output]
            while node.output and not node.output[-1]:
                del node.output[-1]
    m.say("no output", gone.name)


def small_constant(m):
    """An element of a small constant."""
    old = m.pick(m.constants(lambda i: 0 < np.prod(i.dims, dtype=np.int64) <= 64))
    array = numpy_helper.to_array(old).copy()
    at = int(m.rng.integers(array.size))
    if array.dtype.kind in "iu":
        new = int(number(m, int(array.reshape(-1)[at])))
        array.reshape(-1)[at] = np.clip(new, np.iinfo(array.dtype).min, np.iinfo(array.dtype).max)
    elif array.dtype.kind == "f":
        array.reshape(-1)[at] = m.pick(FACTORS)
    elif array.dtype == np.bool_:
        array.reshape(-1)[at] = not array.reshape(-1)[at]
    else:
        raise Unfit
    m.say("constant", old.name, "=", array.reshape(-1).tolist() if array.size < 9 else "...")
    m.set_constant(old, array)


def length(m):
    """A list of integers becomes longer or shorter."""
    old = m.pick(m.constants(lambda i: len(i.dims) == 1 and 0 < i.dims[0] < 9))
    array = numpy_helper.to_array(old)
    array = array[:-1] if m.chance(0.5) else np.concatenate([array, array[:1]])
    m.say("constant", old.name, "=", array.tolist())
    m.set_constant(old, array)
