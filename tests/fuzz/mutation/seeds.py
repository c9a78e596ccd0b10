# SPDX-License-Identifier: Apache-2.0
"""What mutants are made of: the operator cases, and nodes of real models, with small extents in place of theirs."""

import collections
import pathlib

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from tests.support.inputs import random_inputs

SMALL = 7  # extents up to this stay
FEW = 4096  # elements of a constant that is read for its numbers


class FromCase:
    def __init__(self, case):
        self.case, self.name, self.steps = case, case.name, case.steps

    def model(self):
        return self.case.model()

    def data(self, model, rng):
        if self.case.feeds:
            return {name: np.asarray(of) for name, of in self.case.feeds.items()}
        return random_inputs(model, self.case.shapes, self.case.ranges, int(rng.integers(1 << 30)))


class FromNodes:
    """Some nodes of a real model."""

    def __init__(self, name, model, arrays):
        self.name, self.steps, self.made, self.arrays = name, 0, model, arrays

    def model(self):
        copy = onnx.ModelProto()
        copy.CopyFrom(self.made)
        return copy

    def data(self, model, rng):
        return dict(self.arrays)


def smaller(extents):
    """{extent: a small one}, different ones where they differ and multiples where they are."""
    out, used = {}, set()
    for n in sorted(extents):
        if n <= SMALL:
            out[n] = n
            continue
        fit = [m for m in range(SMALL + 1, 40) if m not in used and m % 2 == n % 2]
        out[n] = next(
            (m for d in (2, 3, 4) if n % d == 0 and n // d in out and (m := out[n // d] * d) not in used),
            fit[0] if fit else n,
        )
        used.add(out[n])
    return out


def reduced(array, extents):
    """A constant with small extents; numbers that are extents, such as targets of Reshape, follow."""
    cut = array[tuple(slice(0, extents.get(n, n)) for n in array.shape)]
    if cut.dtype.kind in "iu" and cut.size < 32:
        cut = np.array([extents.get(int(v), int(v)) for v in cut.reshape(-1)], cut.dtype).reshape(cut.shape)
    return np.ascontiguousarray(cut).reshape(cut.shape)


def windows(nodes, rng):
    """Connected runs of one to four nodes."""
    makers = {name: at for at, node in enumerate(nodes) for name in node.output if name}
    for at in range(len(nodes)):
        chosen = {at}
        for _ in range(int(rng.integers(0, 4))):
            before = [makers[name] for one in chosen for name in nodes[one].input if name in makers]
            before = [one for one in before if one not in chosen]
            if before:
                chosen.add(before[int(rng.integers(len(before)))])
        yield [nodes[one] for one in sorted(chosen)]


def from_models(folder):
    """One seed for each kind of node and window: its attributes and the ranks of its operands."""
    seen, out = set(), []
    for path in sorted(pathlib.Path(folder).glob("*.onnx")):
        model = onnx.load(path)
        try:
            model = onnx.shape_inference.infer_shapes(model, data_prop=True)
        except Exception:  # a model that onnx itself does not infer: its nodes without known types are left out below
            pass
        graph = model.graph
        constants = {t.name: t for t in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
                constants[node.output[0]] = node.attribute[0].t
        infos = {v.name: v.type.tensor_type for v in (*graph.value_info, *graph.input, *graph.output)}
        rng = np.random.default_rng(len(graph.node))
        nodes = [node for node in graph.node if node.op_type != "Constant"]
        for window in windows(nodes, rng):
            kind = tuple(
                (
                    n.op_type,
                    tuple(
                        helper.printable_attribute(a)
                        for a in n.attribute
                        if a.type != AttributeProto.GRAPH and a.type != AttributeProto.TENSOR
                    ),
                )
                for n in window
            )
            if kind in seen:
                continue
            seen.add(kind)
            made = cut(model, window, constants, infos, rng)
            if made is not None:
                out.append(FromNodes(f"real/{path.stem}/{'+'.join(n.op_type for n in window)}", *made))
    return out


def cut(model, window, constants, infos, rng):
    made = {name for node in window for name in node.output}
    outer = {name for node in window for name in outer_names(node) if name not in made}
    kinds, extents = {}, set()
    for name in sorted(outer):
        if name in constants:
            shape = list(constants[name].dims)
        elif name in infos and infos[name].elem_type and infos[name].HasField("shape"):
            shape = [d.dim_value if d.dim_value > 0 else 5 for d in infos[name].shape.dim]
            kinds[name] = (np.dtype(helper.tensor_dtype_to_np_dtype(infos[name].elem_type)), shape)
        else:
            return None
        extents |= set(shape)
    extents = smaller(extents)
    graph = onnx.GraphProto(name="g")
    graph.node.extend(window)
    arrays = {}
    for name in sorted(outer):
        if name in constants:
            tensor = constants[name]
            if tensor.data_type == TensorProto.STRING:
                return None
            array = reduced(numpy_helper.to_array(tensor), extents)
            if array.size > 1 << 16:
                return None
            graph.initializer.append(numpy_helper.from_array(array, name))
        else:
            dtype, shape = kinds[name]
            shape = [extents.get(n, n) for n in shape]
            if np.prod(shape, dtype=np.int64) > 1 << 15 or dtype.kind == "O":
                return None
            arrays[name] = (
                rng.uniform(-1, 1, shape).astype(dtype)
                if dtype.kind == "f"
                else rng.integers(0, 2, shape).astype(dtype)
            )
    used = {name for node in window for name in node.input}
    graph.output.extend(onnx.ValueInfoProto(name=n) for node in window for n in node.output if n and n not in used)
    whole = helper.make_model(graph, opset_imports=model.opset_import, ir_version=max(model.ir_version, 4))
    whole.functions.extend(model.functions)
    for name, of in arrays.items():
        graph_input = helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(of.dtype), of.shape)
        whole.graph.input.append(graph_input)
    return (whole, arrays) if arrays else None


def outer_names(node):
    """What a node reads, in its branches and bodies too."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            own = {v.name for v in attribute.g.input} | {t.name for t in attribute.g.initializer}
            own |= {name for inner in attribute.g.node for name in inner.output}
            for inner in attribute.g.node:
                yield from (name for name in outer_names(inner) if name not in own)


class SeedPool:
    """All seeds, and what changes take from them."""

    def __init__(self, only, models):
        from tests.oracle.all_cases import CASES

        # An answer that ONNX Runtime does not know cannot judge a mutant.
        self.seeds = [FromCase(case) for case in CASES if not case.same_as and not case.numpy]
        if models:
            self.seeds += from_models(models)
        self.seeds = [seed for seed in self.seeds if only in seed.name]
        self.known_extents = {}
        self.vocabulary = collections.defaultdict(dict)  # {operator: {attribute: one of its values}}
        for seed in self.seeds:
            for node in seed.model().graph.node:
                for attribute in node.attribute:
                    if attribute.type != AttributeProto.GRAPH:
                        self.vocabulary[node.op_type].setdefault(attribute.name, attribute)

    def by_extents(self, opset):
        """{(type, sorted extents of an input): seeds of this opset}"""
        if opset in self.known_extents:
            return self.known_extents[opset]
        out = self.known_extents[opset] = collections.defaultdict(list)
        for seed in self.seeds:
            model = seed.model()
            if any(o.domain == "" and o.version == opset for o in model.opset_import):
                for of in seed.data(model, np.random.default_rng(0)).values():
                    out[str(of.dtype), tuple(sorted(of.shape))].append(seed)
        return out
