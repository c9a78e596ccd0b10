# SPDX-License-Identifier: Apache-2.0
"""IF, WHILE and variables of TFLite become If, Loop, and inputs with outputs. LiteRT is the judge."""

import numpy as np
import onnx
import onnxruntime
import pytest
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import flexbuffers

from tests.raised.judge_raised import agrees, operators, raised, run_onnx, runs_of_litert, runs_of_onnx
from tests.raised.tflite_models import Model
from tests.support import converter

VALID, RELU = 1, 1


def random(*shape):
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


def binary(m, kind, a, b, shape, result="f32"):
    table = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "DIV": "DivOptions"}.get(kind)
    return m.op(kind, [a, b], shape, result, options=(table, {}) if table else None)


def if_options(yes, no):
    return ("IfOptions", {"thenSubgraphIndex": yes, "elseSubgraphIndex": no})


def while_options(condition, body):
    return ("WhileOptions", {"condSubgraphIndex": condition, "bodySubgraphIndex": body})


def branches(m):
    """x * weights, or a convolution of x; the weights are given to both branches."""
    x, flag = m.input((1, 5, 6, 3)), m.input((1,), "bool")
    weights = m.constant(random(4, 3, 2, 3))
    with m.subgraph() as yes:
        inner, same = m.input((1, 5, 6, 3)), m.input((4, 3, 2, 3))
        scale = m.op("SUM", [same, m.constant([0, 1, 2, 3], "i32")], (), options=("ReducerOptions", {}))
        product = binary(m, "MUL", inner, scale, (1, 5, 6, 3))
        m.outputs([m.op("SLICE", [product, m.constant([0] * 4, "i32"), m.constant([1, 3, 5, 3], "i32")], (1, 3, 5, 3))])
    with m.subgraph() as no:
        inner, same = m.input((1, 5, 6, 3)), m.input((4, 3, 2, 3))
        fields = {"padding": VALID, "strideH": 1, "strideW": 1, "fusedActivationFunction": RELU}
        made = m.op("CONV_2D", [inner, same, m.constant(random(4))], (1, 3, 5, 4), options=("Conv2DOptions", fields))
        m.outputs([m.op("SLICE", [made, m.constant([0] * 4, "i32"), m.constant([1, 3, 5, 3], "i32")], (1, 3, 5, 3))])
    return [m.op("IF", [flag, x, weights], (1, 3, 5, 3), options=if_options(yes, no))]


@pytest.mark.parametrize("flag", [False, True])
def test_branches(flag, tmp_path):
    m = Model()
    m.write(tmp_path / "m.tflite", branches(m))
    model = agrees(tmp_path / "m.tflite", values=[random(1, 5, 6, 3), np.array([flag])])
    (node,) = (node for node in model.graph.node if node.op_type == "If")
    assert [a.name for a in node.attribute] == ["then_branch", "else_branch"]


@pytest.mark.parametrize("flag", [False, True])
def test_branches_that_give_what_they_get(flag, tmp_path):
    m = Model()
    flagged, a, b = m.input((), "bool"), m.input((3, 4)), m.input((3, 4))
    with m.subgraph() as yes:
        x, y = m.input((3, 4)), m.input((3, 4))
        m.outputs([x, y, x])
    with m.subgraph() as no:
        x, y = m.input((3, 4)), m.input((3, 4))
        m.outputs([y, m.constant(random(3, 4)), binary(m, "ADD", x, y, (3, 4))])
    m.write(tmp_path / "m.tflite", m.op("IF", [flagged, a, b], [(3, 4)] * 3, options=if_options(yes, no), outputs=3))
    agrees(tmp_path / "m.tflite", values=[np.array(flag), random(3, 4), 2 - random(3, 4)])


def loop(m, turns):
    """x = relu(x * w), as often as the second input says; the condition has weights of its own, and w is only read."""
    x, count = m.input((2, 5)), m.input((), "i32")
    w = m.input((5, 5))
    with m.subgraph() as condition:
        inner, turn, _, limit = m.input((2, 5)), m.input((), "i32"), m.input((5, 5)), m.input((), "i32")
        options = ("FullyConnectedOptions", {})
        wide = m.op("FULLY_CONNECTED", [inner, m.constant(np.abs(random(90, 5)))], (2, 90), options=options)
        most = m.op("REDUCE_MAX", [wide, m.constant([0, 1], "i32")], (), options=("ReducerOptions", {}))
        small = binary(m, "LESS", most, m.constant(1e6), (), "bool")
        m.outputs([m.op("LOGICAL_AND", [binary(m, "LESS", turn, limit, (), "bool"), small], (), "bool")])
    with m.subgraph() as body:
        inner, turn, weights, limit = m.input((2, 5)), m.input((), "i32"), m.input((5, 5)), m.input((), "i32")
        product = m.op("BATCH_MATMUL", [inner, weights], (2, 5), options=("BatchMatMulOptions", {}))
        m.outputs(
            [m.op("RELU", [product], (2, 5)), binary(m, "ADD", turn, m.constant(1, "i32"), (), "i32"), weights, limit]
        )
    made = m.op(
        "WHILE",
        [x, m.constant(0, "i32"), w, count],
        [(2, 5), (), (5, 5), ()],
        ["f32", "i32", "f32", "i32"],
        options=while_options(condition, body),
        outputs=4,
    )
    return [made[0], made[1], binary(m, "ADD", made[2], made[2], (5, 5))], [random(2, 5), np.int32(turns), random(5, 5)]


@pytest.mark.parametrize("turns", [0, 1, 7])
def test_loop(turns, tmp_path):
    m = Model()
    outputs, values = loop(m, turns)
    m.write(tmp_path / "m.tflite", outputs)
    values[1] = np.asarray(values[1])
    model = agrees(tmp_path / "m.tflite", values=values)
    (node,) = (node for node in model.graph.node if node.op_type == "Loop")
    # M, the condition, and the two values that a turn changes.
    assert len(node.input) == 4 and node.input[0] == ""
    large = [tensor for tensor in model.graph.initializer if 90 in tensor.dims]
    assert len(large) == 1, "the condition is written twice, its weights once"


def test_a_loop_that_grows_its_value(tmp_path):
    m = Model()
    x = m.input((2, 3))
    with m.subgraph() as condition:
        turn = m.input((1,), "i32")
        m.input((2, 3))
        m.outputs([binary(m, "LESS", turn, m.constant([4], "i32"), (1,), "bool")])
    with m.subgraph() as body:
        turn, inner = m.input((1,), "i32"), m.input((2, 3))
        longer = m.op("CONCATENATION", [inner, m.constant(random(1, 3))], (3, 3), options=("ConcatenationOptions", {}))
        m.outputs([binary(m, "ADD", turn, m.constant([1], "i32"), (1,), "i32"), longer])
    made = m.op("WHILE", [m.constant([1], "i32"), x], [(1,), (2, 3)], ["i32", "f32"], while_options(condition, body), 2)
    total = m.op("SUM", [made[1], m.constant([0], "i32")], (3,), options=("ReducerOptions", {}))
    m.write(tmp_path / "m.tflite", [total])
    agrees(tmp_path / "m.tflite")


# ---- sizes that branches and turns change ----

ONE_MORE = ("AddOptions", {})
SHAPE = ("ShapeOptions", {"outType": 2})


def with_open_axes(m, tensor):
    """The file says that all its sizes are open."""
    m.graph.tensors[tensor].shapeSignature = [-1] * len(m.graph.tensors[tensor].shape)
    return tensor


def open_input(m, *shape):
    return with_open_axes(m, m.input(shape))


def growth(m, after, before):
    """The difference of their shapes, which must not be computed before the model runs."""
    rank = len(m.graph.tensors[after].shape)
    sizes = [m.op("SHAPE", [tensor], (rank,), "i32", SHAPE) for tensor in (after, before)]
    return binary(m, "SUB", *sizes, (rank,), "i32")


def turns_until(m, most, carried):
    """A condition whose inputs are this many values of one axis, then the number of turns."""
    with m.subgraph() as condition:
        for _ in range(carried):
            open_input(m, 1)
        m.outputs([binary(m, "LESS", m.input((), "i32"), m.constant(most, "i32"), (), "bool")])
    return condition


def open_loop(m, condition, body, values):
    """What the body leaves in the values; the counter of turns comes after them."""
    shapes = [m.graph.tensors[value].shape for value in values]
    kinds = ["f32"] * len(values) + ["i32"]
    passed = [*values, m.constant(0, "i32")]
    made = m.op("WHILE", passed, [*shapes, ()], kinds, while_options(condition, body), outputs=len(passed))
    return [with_open_axes(m, tensor) for tensor in made[:-1]]


def next_turn(m):
    return m.op("ADD", [m.input((), "i32"), m.constant(1, "i32")], (), "i32", ONE_MORE)


def test_a_condition_that_looks_at_an_open_size_which_the_body_changes(tmp_path):
    """A turn adds an element to the first value; the second one keeps the size that both begin with."""
    m = Model()
    with m.subgraph() as condition:
        longer, first = open_input(m, 1), open_input(m, 1)
        added = growth(m, longer, first)
        is_short = binary(m, "LESS", added, m.constant([2], "i32"), (1,), "bool")
        is_early = binary(m, "LESS", m.input((), "i32"), m.constant([6], "i32"), (1,), "bool")
        m.outputs([m.op("LOGICAL_AND", [is_short, is_early], (1,), "bool")])
    with m.subgraph() as body:
        value, first = open_input(m, 1), open_input(m, 1)
        longer = m.op("CONCATENATION", [value, m.constant([7.0])], (2,), options=("ConcatenationOptions", {}))
        m.outputs([with_open_axes(m, longer), first, next_turn(m)])
    x = open_input(m, 4)
    made = open_loop(m, condition, body, [x, x])
    m.write(tmp_path / "m.tflite", [m.op("EXP", [made[0]], (4,))])
    agrees(tmp_path / "m.tflite")


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_a_loop_that_exchanges_values_of_open_sizes(turns, tmp_path):
    m = Model()
    condition = turns_until(m, turns, 2)
    with m.subgraph() as body:
        a, b = open_input(m, 1), open_input(m, 1)
        exchanged = [with_open_axes(m, m.op(kind, [x], (1,))) for kind, x in (("NEG", b), ("ABS", a))]
        m.outputs([*exchanged, next_turn(m)])
    values = [open_input(m, 4), open_input(m, 7)]
    made = open_loop(m, condition, body, values)
    m.write(tmp_path / "m.tflite", [growth(m, made[0], values[0]), m.op("EXP", [made[1]], (7,))])
    agrees(tmp_path / "m.tflite")


@pytest.mark.parametrize("turns", [0, 1])
def test_a_loop_that_fixes_an_open_size(turns, tmp_path):
    m = Model()
    condition = turns_until(m, turns, 1)
    with m.subgraph() as body:
        first = m.op("SLICE", [open_input(m, 1), m.constant([0], "i32"), m.constant([3], "i32")], (3,))
        m.outputs([first, next_turn(m)])
    x = open_input(m, 6)
    (made,) = open_loop(m, condition, body, [x])
    m.write(tmp_path / "m.tflite", [growth(m, made, x)])
    agrees(tmp_path / "m.tflite")


def test_a_size_that_no_turn_changes_is_known_after_the_loop(tmp_path):
    m = Model()
    condition = turns_until(m, 3, 1)
    with m.subgraph() as body:
        m.outputs([with_open_axes(m, m.op("TANH", [open_input(m, 1)], (1,))), next_turn(m)])
    x = open_input(m, 6)
    (made,) = open_loop(m, condition, body, [x])
    m.write(tmp_path / "m.tflite", [growth(m, made, x)])
    assert "Loop" not in operators(agrees(tmp_path / "m.tflite"))


@pytest.mark.parametrize("flag", [False, True])
@pytest.mark.parametrize("sizes", [("open", "other"), ("open", "number"), ("number", "open")])
def test_branches_of_other_open_sizes(sizes, flag, tmp_path):
    """Two extents of the model's inputs, or one of them and a number."""
    m = Model()

    def branch(kind):
        with m.subgraph() as made:
            both = [open_input(m, 1, 3), open_input(m, 1, 3)]
            ends = [m.constant(end, "i32") for end in ([0, 0], [2, 3])]
            if kind == "number":
                m.outputs([m.op("SLICE", [both[0], *ends], (2, 3))])
            else:
                m.outputs([with_open_axes(m, m.op("ABS", [both[kind == "other"]], (1, 3)))])
        return made

    branches = if_options(branch(sizes[0]), branch(sizes[1]))
    chosen, x, y = m.input((), "bool"), open_input(m, 5, 3), open_input(m, 4, 3)
    made = with_open_axes(m, m.op("IF", [chosen, x, y], (1, 3), options=branches))
    begin = m.constant([0, 0], "i32")
    put = m.op("DYNAMIC_UPDATE_SLICE", [x, made, begin], (5, 3), options=("DynamicUpdateSliceOptions", {}))
    m.write(tmp_path / "m.tflite", [growth(m, made, x), put])
    agrees(tmp_path / "m.tflite", values=[np.array(flag), random(5, 3), random(4, 3)])


def test_subgraphs_whose_inputs_have_no_rank_in_the_file(tmp_path):
    """LiteRT gives them the shapes of what is passed."""
    m = Model()
    branches = []
    for kind in ("ABS", "NEG"):
        with m.subgraph() as branch:
            m.outputs([m.op(kind, [m.input(())], ())])
        branches.append(branch)
    condition = turns_until(m, 3, 0)
    m.model.subgraphs[condition].inputs.insert(0, len(m.model.subgraphs[condition].tensors))
    unranked = schema.TensorT()
    unranked.name, unranked.shape, unranked.type = "unranked", [], schema.TensorType.FLOAT32
    m.model.subgraphs[condition].tensors.append(unranked)
    with m.subgraph() as body:
        value = m.input(())
        m.outputs([m.op("TANH", [value], ()), next_turn(m)])
    flag, x = m.input((), "bool"), m.input((2, 3))
    chosen = m.op("IF", [flag, x], (2, 3), options=if_options(*branches))
    (made,) = open_loop(m, condition, body, [chosen])
    m.write(tmp_path / "m.tflite", [made])
    agrees(tmp_path / "m.tflite")


def test_a_branch_inside_of_a_loop_inside_of_a_composite(tmp_path):
    m = Model()
    x = m.input((3, 4))
    with m.subgraph() as composed:
        outer = m.input((3, 4))
        with m.subgraph() as condition:
            turn = m.input((), "i32")
            m.input((3, 4))
            m.outputs([binary(m, "LESS", turn, m.constant(5, "i32"), (), "bool")])
        with m.subgraph() as body:
            turn, inner = m.input((), "i32"), m.input((3, 4))
            with m.subgraph() as yes:
                m.outputs([m.op("TANH", [m.input((3, 4))], (3, 4))])
            with m.subgraph() as no:
                value = m.input((3, 4))
                m.outputs([binary(m, "MUL", value, m.constant(random(4)), (3, 4))])
            third = m.op("FLOOR_MOD", [turn, m.constant(3, "i32")], (), "i32")
            flag = binary(m, "EQUAL", third, m.constant(1, "i32"), (), "bool")
            chosen = m.op("IF", [flag, inner], (3, 4), options=if_options(yes, no))
            m.outputs([binary(m, "ADD", turn, m.constant(1, "i32"), (), "i32"), chosen])
        loop_options = while_options(condition, body)
        made = m.op("WHILE", [m.constant(0, "i32"), outer], [(), (3, 4)], ["i32", "f32"], loop_options, 2)
        m.outputs([made[1]])
    fields = {"name": "mine", "decompositionSubgraphIndex": composed, "compositeAttributes": flexbuffers.Dumps({})}
    done = m.op("STABLEHLO_COMPOSITE", [x], (3, 4), options=("StableHLOCompositeOptions", fields))
    m.write(tmp_path / "m.tflite", [done])
    assert operators(agrees(tmp_path / "m.tflite"))[-1:] == ["Loop"]


def test_integers_that_stand_for_numbers(tmp_path):
    """A body and branches take the stored integers, with the scales of the file."""
    m = Model()
    numbers = {"scale": 0.05, "zero": 3}
    x, flag = m.input((4, 5), "i8", **numbers), m.input((), "bool")
    with m.subgraph() as yes:
        inner = m.input((4, 5), "i8", **numbers)
        m.outputs([m.op("ADD", [inner, inner], (4, 5), "i8", ("AddOptions", {}), version=2, scale=0.1, zero=-4)])
    with m.subgraph() as no:
        inner = m.input((4, 5), "i8", **numbers)
        m.outputs([m.op("QUANTIZE", [inner], (4, 5), "i8", version=2, scale=0.1, zero=-4)])
    m.write(tmp_path / "m.tflite", [m.op("IF", [flag, x], (4, 5), "i8", if_options(yes, no), scale=0.1, zero=-4)])
    for value in (False, True):
        agrees(tmp_path / "m.tflite", values=[(random(4, 5) * 30).astype(np.int8), np.array(value)])


# ---- variables ----


def counter(m, initial):
    """total = total + x; gives total before and after."""
    x = m.input((3, 4))
    if initial is not None:
        with m.subgraph() as first:
            fields = {"container": "", "sharedName": "total"}
            held = m.op("VAR_HANDLE", [], (1,), "resource", ("VarHandleOptions", fields))
            m.op("ASSIGN_VARIABLE", [held, m.constant(initial)], [], options=("AssignVariableOptions", {}), outputs=0)
        m.op("CALL_ONCE", [], [], options=("CallOnceOptions", {"initSubgraphIndex": first}), outputs=0)
    held = m.op("VAR_HANDLE", [], (1,), "resource", ("VarHandleOptions", {"container": "", "sharedName": "total"}))
    before = m.op("READ_VARIABLE", [held], (3, 4), options=("ReadVariableOptions", {}))
    after = binary(m, "ADD", before, x, (3, 4))
    m.op("ASSIGN_VARIABLE", [held, after], [], options=("AssignVariableOptions", {}), outputs=0)
    again = m.op("READ_VARIABLE", [held], (3, 4), options=("ReadVariableOptions", {}))
    return [m.op("TANH", [before], (3, 4)), m.op("ABS", [again], (3, 4))]


def test_a_variable_is_an_input_and_an_output(tmp_path):
    m = Model()
    m.write(tmp_path / "m.tflite", counter(m, random(3, 4) + 1))
    model = raised(tmp_path / "m.tflite")
    assert [port.name for port in model.graph.input] == ["x0", "total"]
    assert [port.name for port in model.graph.output][2:] == ["total_out"]
    values = [[random(3, 4)], [random(3, 4) * 2], [random(3, 4) - 1]]
    wanted = runs_of_litert(tmp_path / "m.tflite", values)
    made = runs_of_onnx(tmp_path / "m.onnx", values, {"total_out": "total"})
    for run, (a, b) in enumerate(zip(wanted, made, strict=True)):
        assert list(a) == list(b)
        for name, expected in a.items():
            assert np.allclose(expected, b[name], atol=1e-6), (run, name)


def test_a_variable_without_a_first_value_begins_with_zeros(tmp_path):
    m = Model()
    m.write(tmp_path / "m.tflite", counter(m, None))
    raised(tmp_path / "m.tflite")
    x = random(3, 4)
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    assert np.allclose(session.run(["total_out"], {"x0": x})[0], x)


def test_names_are_unique_over_all_graphs(tmp_path):
    """ONNX forbids an inner graph to use a name of the graphs around it again."""
    m = Model()
    m.write(tmp_path / "m.tflite", branches(m))
    model = raised(tmp_path / "m.tflite")

    def names(graph: onnx.GraphProto):
        for node in graph.node:
            yield from node.output
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    yield from (tensor.name for tensor in attribute.g.initializer)
                    yield from names(attribute.g)

    every = [*names(model.graph), *(tensor.name for tensor in model.graph.initializer)]
    assert len(every) == len(set(every))


def open_composite(path):
    """|x| of a batch of any size, as a composite."""
    m = Model()
    x = m.input((1, 3, 4))
    with m.subgraph() as composed:
        inner = m.input((1, 3, 4))
        done = m.op("ABS", [inner], (1, 3, 4))
        for tensor in (inner, done):
            m.graph.tensors[tensor].shapeSignature = [-1, 3, 4]
        m.outputs([done])
    fields = {"name": "mine", "decompositionSubgraphIndex": composed, "compositeAttributes": flexbuffers.Dumps({})}
    y = m.op("STABLEHLO_COMPOSITE", [x], (1, 3, 4), options=("StableHLOCompositeOptions", fields))
    for tensor in (x, y):
        m.graph.tensors[tensor].shapeSignature = [-1, 3, 4]
    m.write(path, [y])


@pytest.mark.parametrize("options", [[], ["--shape", "x0=5,3,4"]], ids=["open", "given"])
def test_a_composite_with_an_open_dimension(options, tmp_path):
    open_composite(tmp_path / "m.tflite")
    raised(tmp_path / "m.tflite", options)
    (made,) = run_onnx(tmp_path / "m.onnx", ["x0"], [random(5, 3, 4)]).values()
    assert np.array_equal(made, np.abs(random(5, 3, 4)))


def test_a_composite_of_another_rank_is_refused(tmp_path):
    m = Model()
    x = m.input((3, 4))
    with m.subgraph() as composed:
        m.outputs([m.op("ABS", [m.input((1, 3, 4))], (1, 3, 4))])
    fields = {"name": "mine", "decompositionSubgraphIndex": composed, "compositeAttributes": flexbuffers.Dumps({})}
    y = m.op("STABLEHLO_COMPOSITE", [x], (3, 4), options=("StableHLOCompositeOptions", fields))
    m.write(tmp_path / "m.tflite", [y])
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode == 8 and "an input differs in type or rank from" in done.stderr, done
