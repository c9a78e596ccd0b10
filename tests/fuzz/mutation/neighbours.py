# SPDX-License-Identifier: Apache-2.0
"""Small operators before an input, behind a value, and between two models: what passes fuse, move and remove."""

import numpy as np
import onnx
from onnx import helper

from tests.fuzz.mutation.mutant import LARGEST, Unfit


def permutation(m, rank):
    return [int(axis) for axis in m.rng.permutation(rank)]


def vector(m, of):
    """A constant that is broadcast to `of`: a number, along one axis, along the last axes, or in full."""
    shape = list(of.shape)
    how = m.pick(("number", "axis", "last", "full"))
    if how == "number":
        shape = []
    elif how == "axis" and shape:
        axis = int(m.rng.integers(len(shape)))
        shape = [n if a == axis else 1 for a, n in enumerate(shape)][m.pick((0, axis)) :]
    elif how == "last":
        shape = shape[int(m.rng.integers(len(shape) + 1)) :]
    values = m.rng.uniform(0.5, 2, shape) * m.pick((1, -1))
    return m.add_constant(np.asarray(values).astype(of.dtype))


def lists(m, *numbers):
    return m.add_constant(np.array(numbers, np.int64))


# ---- before an input: the node, and the data from which it makes the old ----


def before_transpose(m, x):
    perm = permutation(m, x.ndim)
    return ("Transpose", [], {"perm": perm}), x.transpose(np.argsort(perm))


def before_reshape(m, x):
    if not x.size:
        raise Unfit
    flat = m.pick(([x.size], [1, *x.shape], [*x.shape, 1], [*x.shape[:-2], -1] if x.ndim > 1 else [x.size, 1]))
    return ("Reshape", [lists(m, *x.shape)], {}), x.reshape(flat)


def before_unsqueeze(m, x):
    ones = [a for a, n in enumerate(x.shape) if n == 1]
    axis = m.pick(ones)
    return ("Unsqueeze", [lists(m, axis)], {}), x.reshape([n for a, n in enumerate(x.shape) if a != axis])


def before_squeeze(m, x):
    axis = int(m.rng.integers(x.ndim + 1))
    return ("Squeeze", [lists(m, axis - x.ndim - 1 if m.chance(0.5) else axis)], {}), np.expand_dims(x, axis)


def before_cast(m, x):
    kind = np.dtype(m.pick((np.float16, np.float64, np.int32, np.int64, np.int8, np.float32)))
    with np.errstate(all="ignore"):
        return ("Cast", [], {"to": helper.np_dtype_to_tensor_dtype(x.dtype)}), x.astype(kind)


def before_slice(m, x):
    axis = m.pick(range(x.ndim))
    more = np.concatenate([x, np.take(x, [0, 0], axis) if x.shape[axis] else x], axis)
    return ("Slice", [lists(m, 0), lists(m, x.shape[axis]), lists(m, axis)], {}), more


def before_reverse(m, x):
    axis = m.pick(range(x.ndim))
    return ("Slice", [lists(m, -1), lists(m, -(2**31)), lists(m, axis), lists(m, -1)], {}), np.flip(x, axis)


def before_gather(m, x):
    axis = m.pick(range(x.ndim))
    order = permutation(m, x.shape[axis])
    return ("Gather", [lists(m, *order)], {"axis": axis}), np.take(x, np.argsort(order), axis)


def before_expand(m, x):
    axis = m.pick(range(x.ndim))
    return ("Expand", [lists(m, *x.shape)], {}), np.take(x, [0], axis)


def before_arithmetic(m, x):
    if x.dtype.kind != "f":
        raise Unfit
    return (m.pick(("Mul", "Add", "Sub", "Div")), [vector(m, x)], {}), x


def before_unary(m, x):
    if x.dtype.kind != "f":
        raise Unfit
    return (m.pick(("Relu", "Neg", "Identity", "Sigmoid", "HardSwish", "Abs", "Floor")), [], {}), x


def before_pad(m, x):
    axis = m.pick(a for a, n in enumerate(x.shape) if n > 1)
    pads = np.zeros((2, x.ndim), np.int64)
    pads[1, axis] = 1
    return ("Pad", [lists(m, *pads.reshape(-1))], {}), np.take(x, range(x.shape[axis] - 1), axis)


BEFORE = (
    before_transpose, before_transpose, before_transpose, before_reshape, before_reshape, before_unsqueeze, before_squeeze,
    before_cast, before_slice, before_reverse, before_gather, before_expand, before_arithmetic, before_arithmetic,
    before_unary, before_pad,
)  # fmt: skip


def before(m):
    name = m.pick(m.feeds)
    (kind, constants, given), data = m.pick(BEFORE)(m, m.feeds[name])
    if data.size > LARGEST:
        raise Unfit
    inner = m.name_of("x")
    m.rename_uses(name, inner)
    m.graph.node.insert(0, helper.make_node(kind, [name, *constants], [inner], **given))
    m.feeds[name] = np.ascontiguousarray(data).reshape(data.shape)
    m.say("before", name, kind, given or "", "shape", list(data.shape))


# ---- behind a value ----


def behind_nodes(m, name, of):
    """Node kinds with their constants and attributes, for a value with the contents `of`."""
    floats, rank = of.dtype.kind == "f", of.ndim
    choices = [("Identity", [], {})]
    if rank:
        axis = int(m.rng.integers(rank))
        choices += [
            ("Transpose", [], {"perm": permutation(m, rank)}),
            ("Transpose", [], {"perm": permutation(m, rank)}),
            ("Reshape", [lists(m, -1)], {}),
            ("Reshape", [lists(m, *of.shape[:axis], -1) if axis else lists(m, *of.shape)], {}),
            ("Flatten", [], {"axis": axis}),
            ("Unsqueeze", [lists(m, m.pick((0, axis, -1)))], {}),
            ("Slice", [lists(m, 0), lists(m, -1), lists(m, axis - rank), lists(m, m.pick((1, 2)))], {}),
            ("Gather", [m.add_constant(np.array(m.pick((0, -1, [0], [0, 0])), np.int64))], {"axis": axis}),
            ("Concat", [name], {"axis": axis - rank}),
            ("Pad", [lists(m, *m.rng.integers(0, 2, 2 * rank))], {}),
            ("Tile", [lists(m, *m.rng.integers(1, 3, rank))], {}),
        ]
    if floats:
        choices += [
            (m.pick(("Mul", "Add", "Sub", "Div")), [vector(m, of)], {}),
            (m.pick(("Mul", "Add", "Sub", "Max")), [vector(m, of)], {}),
            (
                m.pick(("Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Softplus", "HardSwish", "Elu", "LeakyRelu", "Erf")),
                [],
                {},
            ),
            ("Clip", [m.add_constant(of.dtype.type(a)) for a in m.pick(((0, 6), (0, 1), (-1, 1), (-2, 3)))], {}),
            ("Cast", [], {"to": m.pick((1, 6, 7, 10, 11, 9))}),
        ]
    if floats and rank:
        choices += [
            (m.pick(("ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")), [], {"keepdims": m.pick((0, 1))}),
            ("ReduceSum", [lists(m, axis)], {"keepdims": m.pick((0, 1))}),
            (m.pick(("Softmax", "LogSoftmax")), [], {"axis": axis}),
            ("MatMul", [m.add_constant(m.rng.uniform(-1, 1, (of.shape[-1], 3)).astype(of.dtype))], {}),
            ("Split", [], {"axis": axis, "num_outputs": 2} if m.opset_version() > 17 else {"axis": axis}),
            (m.pick(("ArgMax", "ArgMin")), [], {"axis": axis, "keepdims": m.pick((0, 1))}),
        ]
    return choices


def behind(m):
    """Behind an output, which then has the new operator's result; the old one may stay an output as well."""
    output = m.pick(m.graph.output)
    of = m.outputs()[output.name]
    if not isinstance(of, np.ndarray) or of.dtype == object:
        raise Unfit
    kind, constants, given = m.pick(behind_nodes(m, output.name, of))
    results = [m.name_of("y")] + [m.name_of("y")] * (kind == "Split")
    m.graph.node.append(helper.make_node(kind, [output.name, *constants], results, **given))
    kept = m.chance(0.3)
    m.say("behind", output.name, kind, given or "", "both" if kept else "")
    if not kept:
        m.graph.output.remove(output)
    m.graph.output.extend(onnx.ValueInfoProto(name=result) for result in results)


def fan_out(m):
    """A value has a second user, or is an output as well."""
    name = m.pick([*m.inner_values(), *m.feeds])
    of = m.outputs([name])[name] if name not in m.feeds else m.feeds[name]
    if m.chance(0.3) and name not in m.feeds:
        m.graph.output.append(onnx.ValueInfoProto(name=name))
        m.say("output too:", name)
        return
    if not isinstance(of, np.ndarray) or of.dtype == object:
        raise Unfit
    kind, constants, given = m.pick(c for c in behind_nodes(m, name, of) if c[0] != "Split")
    result = m.name_of("f")
    m.graph.node.append(helper.make_node(kind, [name, *constants], [result], **given))
    m.graph.output.append(onnx.ValueInfoProto(name=result))
    m.say("second user of", name, kind, given or "")


def residual(m):
    """An output plus an input or another output of its shape."""
    made = m.outputs()
    floats = {
        name: of
        for name, of in (*made.items(), *m.feeds.items())
        if isinstance(of, np.ndarray) and of.dtype.kind == "f"
    }
    pairs = [(a, b) for a in made for b in floats if a in floats and a != b and floats[a].shape == floats[b].shape]
    a, b = m.pick(pairs)
    if floats[a].dtype != floats[b].dtype:
        raise Unfit
    result, kind = m.name_of("r"), m.pick(("Add", "Mul", "Sub", "Concat"))
    m.graph.node.append(helper.make_node(kind, [a, b], [result], **({"axis": -1} if kind == "Concat" else {})))
    for output in [o for o in m.graph.output if o.name == a]:
        m.graph.output.remove(output)
    m.graph.output.append(onnx.ValueInfoProto(name=result))
    m.say("residual", kind, a, b)


def chain(m):
    """Another seed reads an output: as it is, transposed, or through a reshape."""
    made = {name: of for name, of in m.outputs().items() if isinstance(of, np.ndarray) and of.dtype.kind == "f"}
    name = m.pick(made)
    of = made[name]
    same = m.pool.by_extents(m.opset_version()).get((str(of.dtype), tuple(sorted(of.shape))), ())
    other = m.pick(same) if same and m.chance(0.7) else m.pick(m.pool.seeds)
    model = other.model()
    data = other.data(model, m.rng)
    if model.functions or next((o.version for o in model.opset_import if o.domain == ""), 0) != m.opset_version():
        raise Unfit
    entry = m.pick(key for key, value in data.items() if value.dtype == of.dtype and value.size)
    wanted = data.pop(entry).shape
    prefix = m.name_of("c") + "_"
    onnx.compose.add_prefix(model, prefix, inplace=True)
    nodes, constants, at = [], [], prefix + entry
    if sorted(wanted) == sorted(of.shape) and wanted != of.shape:
        left, perm = list(range(of.ndim)), []
        for n in wanted:
            axis = next(a for a in left if of.shape[a] == n)
            left.remove(axis)
            perm.append(axis)
        nodes = [helper.make_node("Transpose", [name], [at], perm=perm)]
    elif wanted != of.shape and of.size:
        count = int(np.prod(wanted))
        flat, tiled, cut = (m.name_of("t") for _ in range(3))
        nodes = [
            helper.make_node("Reshape", [name, lists(m, -1)], [flat]),
            helper.make_node("Tile", [flat, lists(m, -(-count // of.size))], [tiled]),
            helper.make_node("Slice", [tiled, lists(m, 0), lists(m, count)], [cut]),
            helper.make_node("Reshape", [cut, lists(m, *wanted)], [at]),
        ]
    elif wanted != of.shape:
        raise Unfit
    else:
        nodes = [helper.make_node("Identity", [name], [at])]
    m.graph.node.extend([*nodes, *model.graph.node])
    m.graph.initializer.extend([*model.graph.initializer, *constants])
    m.graph.sparse_initializer.extend(model.graph.sparse_initializer)
    m.feeds |= {prefix + key: value for key, value in data.items()}
    if m.chance(0.7):
        m.graph.output.remove(next(o for o in m.graph.output if o.name == name))
    m.graph.output.extend(onnx.ValueInfoProto(name=o.name) for o in model.graph.output)
    known = {o.domain for o in m.model.opset_import}
    m.model.opset_import.extend(o for o in model.opset_import if o.domain not in known)
    m.steps = max(m.steps, other.steps)
    m.say("chain", name, "->", other.name, nodes[0].op_type)
