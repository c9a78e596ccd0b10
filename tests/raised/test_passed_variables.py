# SPDX-License-Identifier: Apache-2.0
"""Variables in subgraphs that IF and WHILE run: their values pass through If and Loop. LiteRT is the judge, over several
runs in a row on one interpreter."""

import numpy as np
import onnxruntime
import pytest

from tests.raised.judge_raised import raised, runs_of_litert, runs_of_onnx
from tests.raised.test_control_flow import binary, if_options, while_options
from tests.raised.tflite_models import Model
from tests.support import converter

SHAPE = (3, 4)


def numbers(seed):
    return np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)


def handle(m, name="total", container=""):
    return m.op("VAR_HANDLE", [], (1,), "resource", ("VarHandleOptions", {"container": container, "sharedName": name}))


def read(m, held, shape=SHAPE, kind="f32"):
    return m.op("READ_VARIABLE", [held], shape, kind, ("ReadVariableOptions", {}))


def assign(m, held, value):
    m.op("ASSIGN_VARIABLE", [held, value], [], options=("AssignVariableOptions", {}), outputs=0)


def first_values(m, **values):
    with m.subgraph() as first:
        for name, (value, kind) in values.items():
            assign(m, handle(m, name), m.constant(value, kind))
    m.op("CALL_ONCE", [], [], options=("CallOnceOptions", {"initSubgraphIndex": first}), outputs=0)


def judge(m, outputs, values, names, tmp_path):
    m.write(tmp_path / "m.tflite", outputs)
    model = raised(tmp_path / "m.tflite")
    assert [port.name for port in model.graph.input][len(values[0]) :] == names
    wanted = runs_of_litert(tmp_path / "m.tflite", values)
    # A variable that is assigned before it is read is an output, and no input.
    kept = [port.name for port in model.graph.output if port.name.endswith("_out")]
    states = {name: name[:-4] for name in kept if name[:-4] in names}
    made = runs_of_onnx(tmp_path / "m.onnx", values, states)
    for run, (a, b) in enumerate(zip(wanted, made, strict=True)):
        assert list(a) == [name for name in b if name not in kept]
        for name, expected in a.items():
            assert expected.dtype == b[name].dtype and np.allclose(expected, b[name], atol=1e-5), (run, name)
    return model


FLAGS = [True, False, False, True, True]


@pytest.mark.parametrize("passed", [False, True], ids=["own_handle", "passed_handle"])
def test_a_branch_assigns(passed, tmp_path):
    """One branch adds to the variable, the other one reads it; it is read before and behind."""
    m = Model()
    x, flag = m.input(SHAPE), m.input((1,), "bool")
    first_values(m, total=(numbers(9), "f32"))
    held = handle(m)
    before = read(m, held)
    with m.subgraph() as yes:
        inner = m.input(SHAPE)
        inside = m.input((1,), "resource") if passed else handle(m)
        assign(m, inside, binary(m, "ADD", read(m, inside), inner, SHAPE))
        m.outputs([binary(m, "MUL", inner, read(m, inside), SHAPE)])
    with m.subgraph() as no:
        inner = m.input(SHAPE)
        inside = m.input((1,), "resource") if passed else handle(m)
        m.outputs([binary(m, "SUB", read(m, inside), inner, SHAPE)])
    made = m.op("IF", [flag, x] + ([held] if passed else []), SHAPE, options=if_options(yes, no))
    after = read(m, held)
    values = [[numbers(i), np.array([flag])] for i, flag in enumerate(FLAGS)]
    outputs = [made, m.op("ABS", [after], SHAPE), m.op("TANH", [before], SHAPE)]
    judge(m, outputs, values, ["total"], tmp_path)


def test_branches_assign_different_variables(tmp_path):
    m = Model()
    x, flag = m.input(SHAPE), m.input((1,), "bool")
    first_values(m, a=(numbers(8), "f32"), b=(numbers(9), "f32"))
    called = []
    for mine, other in (("a", "b"), ("b", "a")):
        with m.subgraph() as index:
            inner = m.input(SHAPE)
            assign(m, handle(m, mine), binary(m, "MUL", read(m, handle(m, other)), inner, SHAPE))
            m.outputs([m.op("ABS", [inner], SHAPE)])
        called.append(index)
    made = m.op("IF", [flag, x], SHAPE, options=if_options(*called))
    outputs = [made, m.op("TANH", [read(m, handle(m, "a"))], SHAPE), m.op("TANH", [read(m, handle(m, "b"))], SHAPE)]
    values = [[numbers(i), np.array([flag])] for i, flag in enumerate(FLAGS)]
    judge(m, outputs, values, ["a", "b"], tmp_path)


def test_a_constant_is_assigned(tmp_path):
    """The variable is a constant before the branch, and the branch assigns another one."""
    m = Model()
    x, flag = m.input(SHAPE), m.input((1,), "bool")
    held = handle(m)
    assign(m, held, m.constant(numbers(1)))
    called = []
    for seed in (2, None):
        with m.subgraph() as index:
            inner = m.input(SHAPE)
            if seed:
                assign(m, handle(m), m.constant(numbers(seed)))
            m.outputs([m.op("ABS", [inner], SHAPE)])
        called.append(index)
    made = m.op("IF", [flag, x], SHAPE, options=if_options(*called))
    outputs = [made, m.op("ABS", [read(m, held)], SHAPE)]
    m.write(tmp_path / "m.tflite", outputs)
    raised(tmp_path / "m.tflite")
    values = [[numbers(i), np.array([flag])] for i, flag in enumerate(FLAGS)]
    wanted = runs_of_litert(tmp_path / "m.tflite", values)
    # The value before a run is not read, so it is no input.
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    for (x, flag), expected in zip(values, wanted, strict=True):
        made = session.run(list(expected), {"x0": x, "x1": flag})
        assert all(np.allclose(a, b, atol=1e-6) for a, b in zip(expected.values(), made, strict=True))


def turns_of(m, passed, nested):
    """total = total * 0.5 + x and count = count + 1 in each turn, while count < limit; with `nested` only in every second
    turn, in a branch of the body. `passed`: the handles are values of the loop."""
    x, limit = m.input(SHAPE), m.input((), "i32")
    first_values(m, total=(numbers(9), "f32"), count=(np.int32(0), "i32"))
    total, count = handle(m), handle(m, "count")
    assign(m, count, m.constant(np.int32(0), "i32"))

    def ports():
        inner = [m.input(SHAPE), m.input((), "i32")]
        return inner + ([m.input((1,), "resource"), m.input((1,), "resource")] if passed else [])

    def handles(inner):
        return inner[2:] if passed else [handle(m), handle(m, "count")]

    with m.subgraph() as condition:
        inner = ports()
        m.outputs([binary(m, "LESS", read(m, handles(inner)[1], (), "i32"), inner[1], (), "bool")])

    def step(data, held):
        half = binary(m, "MUL", read(m, held), m.constant(np.float32(0.5)), SHAPE)
        assign(m, held, binary(m, "ADD", half, data, SHAPE))

    with m.subgraph() as yes:
        data = m.input(SHAPE)
        step(data, handle(m))
        m.outputs([m.op("ABS", [data], SHAPE)])
    with m.subgraph() as no:
        data = m.input(SHAPE)
        m.outputs([data])
    with m.subgraph() as body:
        inner = ports()
        inside = handles(inner)
        before = read(m, inside[1], (), "i32")
        data = inner[0]
        if nested:
            even = binary(
                m, "EQUAL", m.op("FLOOR_MOD", [before, m.constant(np.int32(2), "i32")], (), "i32"),
                m.constant(np.int32(0), "i32"), (), "bool",
            )  # fmt: skip
            data = m.op("IF", [even, data], SHAPE, options=if_options(yes, no))
        else:
            step(data, inside[0])
        assign(m, inside[1], binary(m, "ADD", before, m.constant(np.int32(1), "i32"), (), "i32"))
        changed = binary(m, "MUL", data, m.constant(np.float32(-0.9)), SHAPE)
        m.outputs([changed, *inner[1:]])
    inputs = [x, limit] + ([total, count] if passed else [])
    kinds = ["f32", "i32"] + ["resource"] * (len(inputs) - 2)
    shapes = [SHAPE, ()] + [(1,)] * (len(inputs) - 2)
    made = m.op("WHILE", inputs, shapes, kinds, while_options(condition, body), len(inputs))
    return [m.op("TANH", [made[0]], SHAPE), m.op("ABS", [read(m, total)], SHAPE), read(m, count, (), "i32")]


@pytest.mark.parametrize("passed", [False, True], ids=["own_handle", "passed_handle"])
@pytest.mark.parametrize("nested", [False, True], ids=["turn", "branch_of_a_turn"])
def test_turns_assign(passed, nested, tmp_path):
    m = Model()
    outputs = turns_of(m, passed, nested)
    values = [[numbers(i), np.asarray(limit, np.int32)] for i, limit in enumerate((3, 0, 1, 6))]
    judge(m, outputs, values, ["total"], tmp_path)


def refused(m, outputs, tmp_path):
    m.write(tmp_path / "m.tflite", outputs)
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode == 8 and not (tmp_path / "m.onnx").exists(), (done.returncode, done.stderr)
    return done.stderr


def test_variables_of_one_name_in_two_containers(tmp_path):
    m = Model()
    x = m.input(SHAPE)
    first, second = handle(m), handle(m, container="c")
    assign(m, first, m.op("ABS", [x], SHAPE))
    assign(m, second, m.op("TANH", [x], SHAPE))
    judge(
        m, [m.op("ABS", [read(m, one)], SHAPE) for one in (first, second)], [[numbers(1)], [numbers(2)]], [], tmp_path
    )


def test_variables_whose_names_are_one_with_their_containers_are_refused(tmp_path):
    m = Model()
    x = m.input(SHAPE)
    for held in (handle(m, "c/total"), handle(m, "total", "c")):
        assign(m, held, x)
    assert "have one name" in refused(m, [m.op("ABS", [x], SHAPE)], tmp_path)


def test_a_condition_that_assigns_is_refused(tmp_path):
    m = Model()
    x = m.input(())
    with m.subgraph() as condition:
        inner = m.input(())
        assign(m, handle(m), inner)
        m.outputs([binary(m, "LESS", inner, m.constant(np.float32(3)), (), "bool")])
    with m.subgraph() as body:
        inner = m.input(())
        m.outputs([binary(m, "ADD", inner, m.constant(np.float32(1)), ())])
    made = m.op("WHILE", [x], (), options=while_options(condition, body))
    assert "the condition assigns the variable 'total'" in refused(m, [made], tmp_path)


def test_a_branch_that_gives_a_handle_is_refused(tmp_path):
    m = Model()
    x, flag = m.input(SHAPE), m.input((1,), "bool")
    called = []
    for _ in range(2):
        with m.subgraph() as index:
            m.input(SHAPE)
            m.outputs([handle(m)])
        called.append(index)
    made = m.op("IF", [flag, x], (1,), "resource", options=if_options(*called))
    assert "gives the handle of a variable" in refused(m, [made, x], tmp_path)


def test_a_turn_that_changes_a_handle_is_refused(tmp_path):
    m = Model()
    x = m.input(())
    held = handle(m)
    with m.subgraph() as condition:
        inner, _ = m.input(()), m.input((1,), "resource")
        m.outputs([binary(m, "LESS", inner, m.constant(np.float32(3)), (), "bool")])
    with m.subgraph() as body:
        inner, _ = m.input(()), m.input((1,), "resource")
        m.outputs([binary(m, "ADD", inner, m.constant(np.float32(1)), ()), handle(m, "other")])
    made = m.op("WHILE", [x, held], [(), (1,)], ["f32", "resource"], while_options(condition, body), 2)
    assert "a turn changes the handle of a variable" in refused(m, made[:1], tmp_path)
