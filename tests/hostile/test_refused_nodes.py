# SPDX-License-Identifier: Apache-2.0
"""All nodes that cannot be converted are reported at once, those behind refused nodes too, and none without certainty:
what depends on the unknown type of a refused node's output is counted as not judged."""

import json

import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

from tests.hostile.refusal import refuse_model
from tests.support import converter


def model_of(nodes, inputs, outputs, value_info=(), initializers=(), opset=13):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers), value_info=list(value_info))
    return helper.make_model(
        graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("other", 1)]
    )


def f32(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


def parsed(text, opset=13):
    graph = onnx.parser.parse_graph(text)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("other", 1)]
    return helper.make_model(graph, ir_version=8, opset_imports=opsets)


def refusal(model, folder):
    """(what stderr says, names of refused nodes, names of nodes that were not judged), the names from the report."""
    path, report = folder / "model.onnx", folder / "report.json"
    onnx.save(model, path)
    (folder / "out").mkdir(exist_ok=True)
    conversion = converter.convert(path, folder / "out" / "model.tflite", ["--report", report], cpu_seconds=20)
    assert (conversion.status, conversion.exit_status) == ("refused", 8), conversion
    found = json.loads(report.read_text())
    return conversion.stderr, [n["node"] for n in found["refused"]], [n["node"] for n in found["not_judged"]]


def chain(count, make):
    """`count` nodes in a row, from x to y."""
    names = ["x", *(f"v{i}" for i in range(1, count)), "y"]
    return [make(f"n{i}", names[i], names[i + 1]) for i in range(count)]


def unknown(name, a, b):
    return helper.make_node("Foo", [a], [b], name=name, domain="other")


def test_300_unknown_operators_in_a_row(tmp_path):
    text, refused, open_nodes = refusal(model_of(chain(300, unknown), [f32("x", 2, 3)], [f32("y", 2, 3)]), tmp_path)
    assert refused == [f"n{i}" for i in range(300)] and open_nodes == []
    assert "300 nodes cannot be converted [unsupported]" in text


def test_300_unsupported_nodes_with_declared_types(tmp_path):
    """Erf is refused for integers: each node can only be judged by the type that the file declares of its input."""

    def value(name):
        return helper.make_tensor_value_info(name, TensorProto.INT64, [2, 3000])

    nodes = chain(300, lambda name, a, b: helper.make_node("Erf", [a], [b], name=name))
    _, refused, open_nodes = refusal(
        model_of(nodes, [value("x")], [value("y")], [value(f"v{i}") for i in range(1, 300)]), tmp_path
    )
    assert refused == [f"n{i}" for i in range(300)] and open_nodes == []

    text, refused, open_nodes = refusal(model_of(nodes, [value("x")], [value("y")]), tmp_path)
    assert refused == ["n0"] and open_nodes == [f"n{i}" for i in range(1, 300)]
    assert "299 nodes behind it could not be judged" in text


def test_100000_nodes_take_linear_time(tmp_path):
    model = model_of(chain(100_000, unknown), [f32("x", 2)], [f32("y", 2)])
    _, refused, _ = refusal(model, tmp_path)
    assert len(refused) == 100_000


def test_what_depends_on_an_unknown_type_is_not_judged(tmp_path):
    _, refused, open_nodes = refusal(
        parsed("""g (float[2,3] x) => (y) {
        a = other.Foo(x)
        b = Add(a, a)
        c = Relu(b)
        d = other.Bar(c)
        e = Tanh(x)
        y = Mul(d, e)
    }"""),
        tmp_path,
    )
    assert sorted(refused) == ["a", "d"]
    assert open_nodes == ["b", "c", "y"]


def test_an_attribute_that_is_refused_before_any_input_is_looked_at(tmp_path):
    text = """g (float[2,3] x) => (y) {
        a = other.Foo(x)
        y = Dropout<is_test=0>(a)
    }"""
    _, refused, open_nodes = refusal(parsed(text, opset=6), tmp_path)
    assert sorted(refused) == ["a", "y"] and open_nodes == []


def test_declared_types_are_used(tmp_path):
    text = """g (float[2,3] x) => (float[2,3] y) <float[2,3] a, float[2,3] b> {
        a = other.Foo(x)
        b = Relu(a)
        y = Bernoulli(b)
    }"""
    _, refused, open_nodes = refusal(parsed(text, opset=15), tmp_path)
    assert sorted(refused) == ["a", "y"] and open_nodes == []


@pytest.mark.parametrize("declared", ["float[2,3] a", "float[2,4] a", "int64[2,3] a", "float[N,3] a"])
def test_a_wrong_or_open_declaration_makes_no_claim(declared, tmp_path):
    """The product does not fit some of the declared types: the model may be right all the same."""
    text = f"""g (float[2,3] x, float[5,7] w) => (float[2,7] y) <{declared}> {{
        a = other.Foo(x)
        y = MatMul(a, w)
    }}"""
    _, refused, open_nodes = refusal(parsed(text), tmp_path)
    assert refused == ["a"] and open_nodes == ["y"]


def test_elements_of_a_declared_shape_tensor_may_be_known_after_all(tmp_path):
    """Were Foo lowered, the sizes could be known: that Pad needs them at conversion is no reason to refuse it."""
    text = """g (float[2,3] x) => (y) <int64[4] p> {
        p = other.Foo(x)
        y = Pad<mode="reflect">(x, p)
    }"""
    _, _, open_nodes = refusal(parsed(text), tmp_path)
    assert open_nodes == ["y"]


def test_subgraphs_are_looked_through(tmp_path):
    text = """g (bool c, float[2,3] x) => (y) {
        a = other.Foo(x)
        d = other.Less(a)
        y = If (d) <
            then_branch = g1 () => (t) { t1 = other.Bar(x) t = Relu(t1) },
            else_branch = g2 () => (e) { e1 = Tanh(x) e = other.Baz(e1) }
        >
        z = If (c) <
            then_branch = g3 () => (t) { t = other.Bar(a) },
            else_branch = g4 () => (e) { e = other.Baz(x) }
        >
    }"""
    operators, _, open_nodes = refusal(parsed(text), tmp_path)
    for name in ("Foo", "Less", "Bar", "Baz"):
        assert f"other.{name}: the operator is not known" in operators
    assert "Tanh" not in operators
    assert "t" in open_nodes and "y" in open_nodes


LOOP = """g (int64 n, bool c, float[2,3] x) => (float[2,3] y) {
    a = other.Foo(x)
    y = Loop (n, c, a) <body = body (int64 i, bool ci, float[2,3] s) => (bool co, float[2,3] t) {
        co = Identity(ci)
        u = other.Bar(s)
        k = Add(u, s)
        t = other.Baz(x)
    }>
}"""


def test_bodies_of_loops(tmp_path):
    _, refused, open_nodes = refusal(parsed(LOOP), tmp_path)
    assert {"a", "u", "t"} <= set(refused)
    assert "k" in open_nodes


def test_a_node_of_an_unrolled_loop_is_listed_once(tmp_path):
    text = """g (float[5,3] x) => (y) <int64 n = {5}, bool c = {1}> {
        y = Loop (n, c) <body = body (int64 i, bool ci) => (bool co, t) { co = Identity(ci) t = other.Bar(x) }>
    }"""
    _, refused, _ = refusal(parsed(text), tmp_path)
    assert refused == ["t"]


def test_nested_subgraphs_take_linear_time(tmp_path):
    """Each level is tried with its node, and looked through when the node is not judged: not twice as often at each level."""

    def leaf():
        return helper.make_graph([helper.make_node("Foo", ["x"], ["r"], domain="other")], "leaf", [], [f32("r", 2)])

    inner = leaf()
    for depth in range(24):
        condition = helper.make_node("Foo", ["x"], [f"c{depth}"], domain="other", name=f"c{depth}")
        node = helper.make_node("If", [f"c{depth}"], [f"r{depth}"], then_branch=inner, else_branch=leaf())
        inner = helper.make_graph([condition, node], f"g{depth}", [], [f32(f"r{depth}", 2)])
    _, refused, _ = refusal(model_of(inner.node, [f32("x", 2)], [f32("r23", 2)]), tmp_path)
    assert len(refused) == 24 + 25


# Small files that declare how many operators a node becomes: each was as much memory as its numbers said.
MANY = {
    "classes": """g (float[2,17,4] b, float[2,65535,17] s) => (int64[n,3] y) <int64 m = {4}> {
        y = NonMaxSuppression (b, s, m)
    }""",
    "classes of nodes that are few enough each": """g (float[1,7,4] b, float[1,20000,7] s, bool c) => (int64[n,3] y) <int64 m = {4}> {
        p = NonMaxSuppression (b, s, m)
        q = NonMaxSuppression (b, s, m)
        y = Concat <axis = 0> (p, q)
    }""",
    "turns": """g (float[1,7,4] b, float[1,90,7] s) => (int64[n,3] y) <int64 m = {4}, int64 n = {700}, bool c = {1}> {
        y = Loop (n, c) <body = body (int64 i, bool ci) => (bool co, int64[k,3] t) {
            co = Identity(ci)
            t = NonMaxSuppression (b, s, m)
        }>
    }""",
}


@pytest.mark.parametrize("text", MANY.values(), ids=MANY)
def test_too_many_operators(text, tmp_path):
    refuse_model(parsed(text), tmp_path, "unsupported", ["NonMaxSuppression", "becomes too many operators"])


def test_many_classes(tmp_path):
    text = (
        """g (float[2,7,4] b, float[2,900,7] s) => (int64[n,3] y) <int64 m = {4}> { y = NonMaxSuppression (b, s, m) }"""
    )
    onnx.save(parsed(text), tmp_path / "model.onnx")
    conversion = converter.convert(tmp_path / "model.onnx", tmp_path / "model.tflite", cpu_seconds=20)
    assert conversion.status == "converted", conversion


def test_packed_table_of_an_unknown_size(tmp_path):
    text = """g (uint8[n,m] d, int64[2,3] i) => (float[2,3,40] y) <float[5,3] s = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}> {
        y = com.microsoft.GatherBlockQuantized <block_size = 16, bits = 8> (d, i, s)
    }"""
    model = parsed(text)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    refuse_model(model, tmp_path, "unsupported", ["'data' must be constant"])


def test_groups_that_the_run_brings(tmp_path):
    """A list with a number for each group would take 8 GiB."""
    text = f"""g (float[1,{2**30},1,1] x, float[{2**30},1,1,1] w, float[1,{2**30},1,1] o) => (float[1,{2**30},1,1] y) {{
        y = DeformConv <group = {2**30}> (x, w, o)
    }}"""
    refuse_model(parsed(text, opset=19), tmp_path, "unsupported")


def test_more_elements_than_any_machine_holds(tmp_path):
    text = f"g (float[{2**31 - 1},{2**31 - 1}] x) => (float[n,m] y) {{ y = Relu (x) }}"
    refuse_model(parsed(text), tmp_path, "unsupported", ["a tensor 'x' has shape", "more than 2^40 elements"])
