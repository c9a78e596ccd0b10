# SPDX-License-Identifier: Apache-2.0
"""A model and data for it, which changes (operators.py, data.py, structure.py, ...) edit in place."""

import contextlib

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.support import judge

LARGEST = 1 << 16  # elements of an input


class Unfit(Exception):
    """The change does not apply to the model."""


class Mutant:
    def __init__(self, seed, rng, pool):
        self.rng, self.pool, self.name = rng, pool, seed.name
        self.model = seed.model()
        self.feeds = seed.data(self.model, rng)
        self.steps, self.relative = seed.steps, 1e-4
        self.changes = []
        self.fresh, self.contained = 0, None

    @property
    def graph(self):
        return self.model.graph

    def pick(self, of):
        of = list(of)
        if not of:
            raise Unfit
        return of[int(self.rng.integers(len(of)))]

    def chance(self, share):
        return self.rng.random() < share

    def say(self, *text):
        self.changes.append(" ".join(map(str, text)))

    def name_of(self, what):
        self.fresh += 1
        return f"{what}_m{self.fresh}"

    def opset_version(self):
        return next((o.version for o in self.model.opset_import if o.domain in ("", "ai.onnx")), 13)

    def constants(self, where=lambda tensor: True):
        return [tensor for tensor in self.graph.initializer if where(tensor)]

    def add_constant(self, array, what="k"):
        name = self.name_of(what)
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def set_constant(self, tensor, array):
        tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array).reshape(np.shape(array)), tensor.name))

    def feed(self, name, dtype, shape):
        """Another shape. The values stay what the seed wants: indices in range, lists of axes."""
        if np.prod(shape, dtype=np.int64) > LARGEST:
            raise Unfit
        old, count = self.feeds[name].reshape(-1), int(np.prod(shape, dtype=np.int64))
        if not old.size and count:
            old = np.arange(3)
        array = np.resize(old, count) if count else np.zeros(0)
        self.feeds[name] = array.astype(dtype).reshape(shape)

    def outputs(self, names=()):
        """{name: array} of the model as it is now, or of inner values; by ONNX Runtime."""
        copy = onnx.ModelProto()
        copy.CopyFrom(self.model)
        declare(copy, self.feeds)
        if names:
            del copy.graph.output[:]
            copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        else:
            for output in copy.graph.output:
                output.ClearField("type")
        try:
            return judge.reference(copy.SerializeToString(), self.feeds)
        except Exception as error:  # whatever it is, ONNX Runtime does not run the model
            raise Unfit from error

    def inner_values(self):
        """Names of results of nodes of the main graph that are no outputs."""
        outputs = {output.name for output in self.graph.output}
        return [name for node in self.graph.node for name in node.output if name and name not in outputs]

    def rename_uses(self, old, new, nodes=None):
        """Nodes that read `old` read `new`, in branches and bodies too."""
        for node in self.graph.node if nodes is None else nodes:
            for at, name in enumerate(node.input):
                if name == old:
                    node.input[at] = new
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    self.rename_uses(old, new, attribute.g.node)
                    for output in attribute.g.output:  # a body that hands an outer value on
                        if output.name == old:
                            output.name = new


def all_operators(model):
    """Names of operators, in branches, bodies and functions too."""

    def of(nodes):
        for node in nodes:
            yield node.op_type
            for attribute in node.attribute:
                yield from of(attribute.g.node)

    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        yield from of(nodes)


def declare(model, feeds, shapes=None):
    """Inputs as `feeds` has them; inputs with an initializer stay."""
    constants = {tensor.name for tensor in model.graph.initializer}
    kept = [value for value in model.graph.input if value.name in constants and value.name not in feeds]
    del model.graph.input[:]
    for name, of in feeds.items():
        kind = helper.np_dtype_to_tensor_dtype(of.dtype)
        model.graph.input.append(helper.make_tensor_value_info(name, kind, (shapes or {}).get(name, of.shape)))
    model.graph.input.extend(kept)


def dynamic_shapes(m):
    """{input: dimensions}: names for some of them, which are equal where extents are, or all different, or absent."""
    how, share = m.pick(("different", "different", "equal", "unnamed")), m.pick((0.3, 0.6, 1.0))
    shapes = {}
    for number, (name, of) in enumerate(m.feeds.items()):
        names = {
            "different": lambda a, n, k=number: f"d{k}_{a}",
            "equal": lambda a, n: f"n{n}",
            "unnamed": lambda a, n: None,
        }
        shapes[name] = [names[how](a, n) if m.chance(share) else n for a, n in enumerate(of.shape)]
    m.say("dynamic", how, *(f"{name}{of}" for name, of in shapes.items()))
    return shapes


def forget_shapes(nodes):
    """Of inputs and outputs of branches and bodies."""
    for node in nodes:
        for attribute in node.attribute:
            for value in (*attribute.g.input, *attribute.g.output):
                value.type.tensor_type.ClearField("shape")
            forget_shapes(attribute.g.node)


def finish(m):
    """Declares inputs and outputs as they have become."""
    if m.contained is not None and len(m.changes) > m.contained:  # what was right then may be wrong now
        forget_shapes(m.graph.node)
    shapes = dynamic_shapes(m) if m.chance(0.3) else None
    del m.graph.value_info[:]
    declare(m.model, m.feeds, shapes)
    for output in m.graph.output:
        output.ClearField("type")
    with contextlib.suppress(Exception):
        inferred = onnx.shape_inference.infer_shapes(m.model, data_prop=True)
        for output, known in zip(m.graph.output, inferred.graph.output, strict=True):
            output.CopyFrom(known)
        if m.chance(0.2):
            m.graph.value_info.extend(inferred.graph.value_info)
    if any(not output.type.tensor_type.elem_type for output in m.graph.output):
        for name, of in m.outputs().items():
            if not isinstance(of, np.ndarray):
                raise Unfit
            kind = helper.np_dtype_to_tensor_dtype(of.dtype)
            next(o for o in m.graph.output if o.name == name).type.tensor_type.elem_type = kind
