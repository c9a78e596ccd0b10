# SPDX-License-Identifier: Apache-2.0
"""The nodes of a model inside If, Loop, Scan or a function of the model."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.fuzz.mutation.mutant import Unfit


def output_infos(m, made, suffix, lead=()):
    return [
        helper.make_tensor_value_info(name + suffix, helper.np_dtype_to_tensor_dtype(of.dtype), (*lead, *of.shape))
        for name, of in made.items()
    ]


def tensors_only(made):
    if any(not isinstance(of, np.ndarray) or of.dtype == object for of in made.values()):
        raise Unfit
    return made


def body_nodes(m, suffix):
    """Copies of the nodes, whose results have a suffix: names of a body may not hide outer ones."""
    copy = onnx.GraphProto()
    copy.CopyFrom(m.graph)
    names = {name for node in copy.node for name in node.output if name}

    def rename(nodes):
        for node in nodes:
            node.input[:] = [name + suffix if name in names else name for name in node.input]
            node.output[:] = [name + suffix if name in names else name for name in node.output]
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    rename(attribute.g.node)
                    for output in attribute.g.output:
                        output.name = output.name + suffix if output.name in names else output.name

    rename(copy.node)
    return list(copy.node)


def suffixes(m, count):
    """New ones: a body may be put into another."""
    m.fresh += 1
    return [f"_{letter}{m.fresh}" for letter in "abc"[:count]]


def passed_through(m):
    """Outputs that are inputs or constants cannot be outputs of a body without a node."""
    made = {name for node in m.graph.node for name in node.output}
    if any(output.name not in made for output in m.graph.output):
        raise Unfit


def in_branch(m):
    passed_through(m)
    made = tensors_only(m.outputs())
    one, two, last = suffixes(m, 3)
    other = body_nodes(m, two)
    for name, of in made.items():
        kind = "Neg" if of.dtype.kind in "fi" else "Identity"
        other.append(helper.make_node(kind, [name + two], [name + last]))
    then = helper.make_graph(body_nodes(m, one), "then", [], output_infos(m, made, one))
    otherwise = helper.make_graph(other, "else", [], output_infos(m, made, last))
    condition = m.name_of("c")
    if m.chance(0.7):
        m.feeds[condition] = np.array(m.chance(0.5))
    else:
        m.graph.initializer.append(numpy_helper.from_array(np.array(m.chance(0.5)), condition))
    whole(m, helper.make_node("If", [condition], list(made), then_branch=then, else_branch=otherwise))
    m.say("in If,", "condition is an input" if condition in m.feeds else "condition is constant")


def in_loop(m):
    """Each iteration multiplies an input by its number; results are stacked."""
    passed_through(m)
    made = tensors_only(m.outputs())
    suffix = suffixes(m, 1)[0]
    nodes = body_nodes(m, suffix)
    go, goes, turn, turn_f = (name + suffix for name in ("go", "goes", "turn", "turn_f"))
    first = [helper.make_node("Identity", [go], [goes])]
    if floats := [name for name, of in m.feeds.items() if of.dtype.kind == "f"]:
        name = m.pick(floats)
        kind = helper.np_dtype_to_tensor_dtype(m.feeds[name].dtype)
        first += [
            helper.make_node("Cast", [turn], [turn_f], to=kind),
            helper.make_node("Add", [name, turn_f], [name + suffix]),
        ]
        m.rename_uses(name, name + suffix, nodes)
    inputs = [
        helper.make_tensor_value_info(turn, TensorProto.INT64, []),
        helper.make_tensor_value_info(go, TensorProto.BOOL, []),
    ]
    outputs = [helper.make_tensor_value_info(goes, TensorProto.BOOL, []), *output_infos(m, made, suffix)]
    body = helper.make_graph([*first, *nodes], "body", inputs, outputs)
    count, more = m.name_of("n"), m.add_constant(np.array(True), "go")
    turns = np.array(m.pick((0, 1, 2, 3)), np.int64)
    if m.chance(0.5):
        m.feeds[count] = turns
    else:
        m.graph.initializer.append(numpy_helper.from_array(turns, count))
    whole(m, helper.make_node("Loop", [count, more], list(made), body=body))
    m.say("in Loop,", turns, "turns,", "input" if count in m.feeds else "constant")


def in_scan(m):
    """An input is a slice of a longer one."""
    if m.opset_version() < 9:
        raise Unfit
    passed_through(m)
    made = tensors_only(m.outputs())
    name = m.pick(name for name, of in m.feeds.items() if of.dtype.kind == "f")
    of = m.feeds[name]
    suffix = suffixes(m, 1)[0]
    nodes = body_nodes(m, suffix)
    m.rename_uses(name, name + suffix, nodes)
    kind = helper.np_dtype_to_tensor_dtype(of.dtype)
    inputs = [helper.make_tensor_value_info(name + suffix, kind, of.shape)]
    body = helper.make_graph(nodes, "body", inputs, output_infos(m, made, suffix))
    axis = int(m.rng.integers(of.ndim + 1))
    m.feeds[name] = np.stack([of, of[::-1] if of.ndim else of, (of * of.dtype.type(0.5)).astype(of.dtype)], axis)
    given = {"scan_input_axes": [axis]} if axis or m.chance(0.5) else {}
    if m.chance(0.3):
        given["scan_input_directions"] = [1]
    whole(m, helper.make_node("Scan", [name], list(made), body=body, num_scan_inputs=1, **given))
    m.say("in Scan over", name, given)


def in_function(m):
    """All nodes become a function of the model; graph inputs and constants are its inputs."""
    passed_through(m)
    if m.model.functions or m.opset_version() < 8:
        raise Unfit
    inputs = [*m.feeds, *(t.name for t in m.graph.initializer), *(t.values.name for t in m.graph.sparse_initializer)]
    outputs = [output.name for output in m.graph.output]
    made = helper.make_function(
        "lowtide.test", "Whole", inputs, outputs, list(m.graph.node), list(m.model.opset_import)
    )
    whole(m, helper.make_node("Whole", inputs, outputs, domain="lowtide.test"))
    m.model.functions.append(made)
    m.model.opset_import.append(helper.make_opsetid("lowtide.test", 1))
    m.model.ir_version = max(m.model.ir_version, 8)
    m.say("in a function")


def whole(m, node):
    del m.graph.node[:]
    m.graph.node.append(node)
    m.contained = len(m.changes) + 1
