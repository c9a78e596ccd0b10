# SPDX-License-Identifier: Apache-2.0
"""The node suite's judge, judged: a stand-in for lowtide that is right, wrong, crashing or refusing by operator."""

import pathlib
import stat
import sys
import tempfile

import pytest

from tests.conformance import operators_page, run_nodes

HERE = pathlib.Path(__file__).resolve().parent

STAND_IN = """#!{python}
import pathlib, sys
import onnx
from tests.support.handmade import op, write
from tests.support.tflite_file import DTYPES
from onnx import helper
model = onnx.load(sys.argv[2])
node = model.graph.node[0]
# Abs and Add are right, Sub is wrong, Mul loses its second input's name, the rest is refused.
builtin = {{"Abs": "ABS", "Add": "ADD", "Sub": "ADD", "Mul": "MUL"}}.get(node.op_type)
if builtin is None or model.graph.initializer:
    print(f"m.onnx: node '' ({{node.op_type}}): not here [unsupported]", file=sys.stderr)
    sys.exit(8)
types = {{v: k for k, v in DTYPES.items()}}
def tensor(v):
    t = v.type.tensor_type
    name = "lost" if node.op_type == "Mul" and v.name == "y" else v.name
    return name, types[helper.tensor_dtype_to_np_dtype(t.elem_type)], [d.dim_value for d in t.shape.dim]
values = [*model.graph.input, *model.graph.output]
count = len(model.graph.input)
write(pathlib.Path(sys.argv[4]), [tensor(v) for v in values], [op(builtin, list(range(count)), [count])],
      list(range(count)), [count])
"""


@pytest.fixture(scope="module")
def run():
    patch = pytest.MonkeyPatch()
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "lowtide"
        program.write_text(STAND_IN.format(python=sys.executable))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        patch.setenv("LOWTIDE", str(program))
        patch.setenv("PYTHONPATH", str(HERE.parents[1]))
        yield lambda case: {o.mode: o for o in run_nodes.run_case(case, run_nodes.MODES)}
    patch.undo()


def test_one_input_is_the_same_in_both_modes(run):
    outcomes = run("test_abs")
    assert outcomes["given"].status == outcomes["frozen"].status == "pass", outcomes


def test_frozen_mode_freezes(run):
    outcomes = run("test_add")
    assert outcomes["given"].status == "pass", outcomes
    assert outcomes["frozen"].status == "refused" and "(Add): not here" in outcomes["frozen"].reason


def test_wrong_answer(run):
    assert run("test_sub")["given"].status == "wrong"


def test_wrong_name(run):
    outcome = run("test_mul")["given"]
    assert outcome.status == "wrong" and "lost" in outcome.reason


def test_crash_of_litert(run):
    # LiteRT 2.3.0 aborts in unquantized int8 additions.
    assert run("test_add_int8")["given"].status == "crash"
    assert run("test_abs")["given"].status == "pass"  # and the next case runs


def test_every_case_exists_and_loads():
    cases = run_nodes.read_list(HERE / "cases.txt")
    assert len(cases) == len(set(cases)) == 1539
    missing = [case for case in cases if not (run_nodes.NODES / case / "model.onnx").is_file()]
    assert missing == []


@pytest.mark.parametrize(
    "case, dtype",
    [
        ("test_cast_FLOAT_to_INT4", "int4"),
        ("test_cast_FLOAT_to_FLOAT8E4M3FN", "float8_e4m3fn"),
        ("test_cast_FLOAT_to_BFLOAT16", "bfloat16"),
        ("test_cast_FLOAT_to_FLOAT4E2M1", "float4_e2m1fn"),
    ],
)
def test_narrow_types_are_read(case, dtype):
    _, _, outputs = run_nodes.load_case(case)
    assert next(iter(outputs.values())).dtype.name == dtype


def test_freeze_keeps_the_first_input():
    model, inputs, _ = run_nodes.load_case("test_slice")
    frozen = run_nodes.freeze(model, inputs)
    assert [v.name for v in frozen.graph.input] == [next(iter(inputs))]
    assert {t.name for t in frozen.graph.initializer} == set(list(inputs)[1:])
    assert run_nodes.freeze(*run_nodes.load_case("test_abs")[:2]) is None


def test_expanded_cases_belong_to_their_operator():
    assert operators_page.operator_of("test_affine_grid_2d_expanded", run_nodes.NODES) == "AffineGrid"
    assert operators_page.operator_of("test_abs", run_nodes.NODES) == "Abs"


def test_reasons_are_shortened_to_what_cases_share():
    text = "model.onnx: node 'n' (Foo): not here [unsupported] | 23 nodes behind it could not be judged | a, b, c"
    assert operators_page.short_reason(text) == "Foo: not here"
    assert (
        operators_page.short_reason("/x/model.onnx: node 'n' (Foo), attribute 'k': too long [unsupported]")
        == "Foo: attribute 'k': too long"
    )
    assert (
        operators_page.short_reason(
            "lowtide: model.onnx: 3 nodes cannot be converted [unsupported] | "
            "LSTM: not known (2 nodes) | a, b | If: no (1 node) | c"
        )
        == "LSTM: not known; If: no"
    )
