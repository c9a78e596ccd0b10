# SPDX-License-Identifier: Apache-2.0
"""LSTM, RNN and SVDF: states become inputs with zeros as their default, and outputs. LiteRT is the judge, over three runs
in a row on one interpreter."""

import flatbuffers
import numpy as np
import onnx
import pytest
from ai_edge_litert import schema_py_generated as schema

from tests.raised.judge_raised import MODELS, agree_in_each_run, raised, runs_of_litert, runs_of_onnx
from tests.raised.tflite_models import Model
from tests.support import converter

RELU, RELU6, TANH = 1, 3, 4
BATCH, TIME, INPUTS, CELLS, OUTPUTS = 2, 6, 5, 7, 4


def numbers(seed, *shape, spread=0.6):
    return (np.random.default_rng(seed).standard_normal(shape) * spread).astype(np.float32)


def agrees_over_runs(path, shape, states, tolerance=1e-5):
    """`states` is the number of states."""
    model = raised(path)
    names = [port.name for port in model.graph.input][1:]
    assert len(names) == states and [port.name for port in model.graph.output][1:] == [f"{n}_out" for n in names]
    values = [[numbers(seed, *shape, spread=2)] for seed in range(3)]
    wanted = agree_in_each_run(path, values, names, tolerance)
    first = runs_of_litert(path, values[1:2])[0]
    assert not all(np.allclose(first[name], wanted[1][name]) for name in first), "the state does nothing"
    return model


def lstm(m, kind, shape, time_major=False, coupled=False, peephole=False, projected=False, normalized=False, **fields):
    outputs = OUTPUTS if projected else CELLS
    seeds = iter(range(100))

    def constant(*dims, used=True, spread=0.6):
        seed = next(seeds)
        return m.constant(numbers(seed, *dims, spread=spread)) if used else -1

    inputs = [m.input(shape)]
    inputs += [constant(CELLS, INPUTS, used=gate > 0 or not coupled) for gate in range(4)]
    inputs += [constant(CELLS, outputs, used=gate > 0 or not coupled) for gate in range(4)]
    inputs += [constant(CELLS, used=peephole and not (coupled and gate == 0)) for gate in range(3)]
    inputs += [constant(CELLS, used=gate > 0 or not coupled) for gate in range(4)]
    inputs += [constant(outputs, CELLS, used=projected), constant(outputs, used=projected)]
    inputs += [m.variable((BATCH, outputs)), m.variable((BATCH, CELLS))]
    if normalized:
        inputs += [constant(CELLS, used=gate > 0 or not coupled) for gate in range(4)]
    table = "LSTMOptions" if kind == "LSTM" else "UnidirectionalSequenceLSTMOptions"
    fields = {"fusedActivationFunction": TANH, "cellClip": 0.0, "projClip": 0.0} | fields
    if time_major:
        fields["timeMajor"] = True
    return m.op(kind, inputs, (*shape[:-1], outputs), options=(table, fields))


FORMS = {
    "plain": {},
    "clipped": {"cellClip": 0.4},
    "time_major": {"time_major": True},
    "coupled": {"coupled": True},
    "peephole": {"peephole": True},
    "projected": {"projected": True, "projClip": 0.3},
    "normalized": {"normalized": True},
    "relu": {"fusedActivationFunction": RELU, "cellClip": 3.0},
    "all": {"coupled": True, "peephole": True, "projected": True, "normalized": True, "cellClip": 0.7},
}


@pytest.mark.parametrize("form", FORMS)
def test_sequence_lstm(form, tmp_path):
    m = Model()
    shape = (TIME, BATCH, INPUTS) if "time_major" in FORMS[form] else (BATCH, TIME, INPUTS)
    m.write(tmp_path / "m.tflite", [lstm(m, "UNIDIRECTIONAL_SEQUENCE_LSTM", shape, **FORMS[form])])
    agrees_over_runs(tmp_path / "m.tflite", shape, 2)


@pytest.mark.parametrize("form", ["plain", "clipped", "all"])
def test_one_step_of_lstm(form, tmp_path):
    m = Model()
    m.write(tmp_path / "m.tflite", [lstm(m, "LSTM", (BATCH, INPUTS), **FORMS[form])])
    agrees_over_runs(tmp_path / "m.tflite", (BATCH, INPUTS), 2)


def rnn(m, time_major, activation):
    shape = {None: (BATCH, INPUTS), False: (BATCH, TIME, INPUTS), True: (TIME, BATCH, INPUTS)}[time_major]
    inputs = [m.input(shape), m.constant(numbers(1, CELLS, INPUTS)), m.constant(numbers(2, CELLS, CELLS, spread=0.3))]
    inputs += [m.constant(numbers(3, CELLS)), m.variable((BATCH, CELLS))]
    fields = {"fusedActivationFunction": activation}
    if time_major is None:
        kind, table = "RNN", "RNNOptions"
    else:
        kind, table = "UNIDIRECTIONAL_SEQUENCE_RNN", "SequenceRNNOptions"
        fields["timeMajor"] = time_major
    return m.op(kind, inputs, (*shape[:-1], CELLS), options=(table, fields)), shape


@pytest.mark.parametrize("time_major", [None, False, True])
@pytest.mark.parametrize("activation", [TANH, RELU6])
def test_rnn(time_major, activation, tmp_path):
    m = Model()
    y, shape = rnn(m, time_major, activation)
    m.write(tmp_path / "m.tflite", [y])
    agrees_over_runs(tmp_path / "m.tflite", shape, 1)


@pytest.mark.parametrize("operand", [1, 2, 3])
def test_integers_without_a_scale_are_no_operands(operand, tmp_path):
    m = Model()
    y, _ = rnn(m, None, TANH)
    shape = m.graph.tensors[m.graph.operators[0].inputs[operand]].shape
    m.graph.operators[0].inputs[operand] = m.constant(np.ones(shape), "i32")
    m.write(tmp_path / "m.tflite", [y])
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode == 8 and f"input {operand} has the type i32 without a scale" in done.stderr


@pytest.mark.parametrize(("rank", "activation"), [(1, 0), (2, RELU)])
def test_svdf(rank, activation, tmp_path):
    m = Model()
    filters, memory = 6, 8
    inputs = [
        m.input((BATCH, INPUTS)),
        m.constant(numbers(1, filters, INPUTS)),
        m.constant(numbers(2, filters, memory)),
    ]
    inputs += [m.constant(numbers(3, filters // rank)), m.variable((BATCH, filters * memory))]
    options = ("SVDFOptions", {"rank": rank, "fusedActivationFunction": activation})
    m.write(tmp_path / "m.tflite", [m.op("SVDF", inputs, (BATCH, filters // rank), options=options)])
    agrees_over_runs(tmp_path / "m.tflite", (BATCH, INPUTS), 1)


def test_a_sequence_is_one_call_of_one_scan(tmp_path):
    m = Model()
    shape = (BATCH, TIME, INPUTS)
    m.write(tmp_path / "m.tflite", [lstm(m, "UNIDIRECTIONAL_SEQUENCE_LSTM", shape)])
    model = raised(tmp_path / "m.tflite")
    assert [(node.domain, node.op_type) for node in model.graph.node] == [
        ("lowtide.tflite", "UNIDIRECTIONAL_SEQUENCE_LSTM")
    ]
    kinds = [node.op_type for node in model.functions[0].node]
    # The products of the data with the weights of the four gates stand before it.
    assert kinds.count("Scan") == 1 and kinds.count("MatMul") == 4


def test_an_activation_that_is_not_known_is_refused(tmp_path):
    m = Model()
    sign_bit = {"fusedActivationFunction": 5}
    m.write(tmp_path / "m.tflite", [lstm(m, "UNIDIRECTIONAL_SEQUENCE_LSTM", (BATCH, TIME, INPUTS), **sign_bit)])
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode == 8 and "its activation is not supported" in done.stderr, done
    assert "UNIDIRECTIONAL_SEQUENCE_LSTM" in done.stderr and not (tmp_path / "m.onnx").exists()


@pytest.mark.parametrize("kind", ["LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM"])
def test_no_activation_is_refused(kind, tmp_path):
    """LiteRT's kernel then multiplies by what happens to be in its memory."""
    m = Model()
    shape = (BATCH, INPUTS) if kind == "LSTM" else (BATCH, TIME, INPUTS)
    m.write(tmp_path / "m.tflite", [lstm(m, kind, shape, fusedActivationFunction=0)])
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode == 8 and "by memory that it did not write" in done.stderr, done


@pytest.mark.skipif(not MODELS.is_dir(), reason="../shared/models is absent")
def test_integers_with_another_activation_are_refused(tmp_path):
    """LiteRT's integer kernel does not look at it."""
    source, path = MODELS / "tflm__micro_speech_lstm.tflite", tmp_path / "m.tflite"
    model = schema.ModelT.InitFromPackedBuf(source.read_bytes(), 0)
    model.subgraphs[0].operators[0].builtinOptions.fusedActivationFunction = RELU
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))
    values = [[np.random.default_rng(0).integers(-128, 127, (1, 49, 257), endpoint=True).astype(np.int8)]]
    assert all(
        np.array_equal(*both)
        for both in zip(*(runs_of_litert(p, values)[0].values() for p in (source, path)), strict=True)
    )
    done = converter.run("convert", path, "-o", tmp_path / "m.onnx")
    assert done.returncode == 8 and "computes TANH, whatever the activation is" in done.stderr, done


@pytest.mark.skipif(not MODELS.is_dir(), reason="../shared/models is absent")
def test_integers(tmp_path):
    """A keyword spotter with an integer LSTM of 49 steps, over three runs."""
    (source,) = MODELS.rglob("tflm__micro_speech_lstm.tflite")
    path = tmp_path / "m.tflite"
    path.write_bytes(source.read_bytes())
    model = raised(path)
    assert model.opset_import[0].version == 21 and onnx.TensorProto.INT16 in [
        port.type.tensor_type.elem_type for port in model.graph.input
    ]
    random = np.random.default_rng(0)
    values = [[random.integers(-128, 127, (1, 49, 257), endpoint=True).astype(np.int8)] for _ in range(3)]
    names = [port.name for port in model.graph.input][1:]
    made = runs_of_onnx(tmp_path / "m.onnx", values, {f"{name}_out": name for name in names})
    for a, b in zip(runs_of_litert(path, values), made, strict=True):
        for name, expected in a.items():
            assert np.abs(expected.astype(int) - b[name].astype(int)).max() <= 2, (expected, b[name])


@pytest.mark.parametrize("name", ["", "state"])
def test_states_of_one_name_or_none(name, tmp_path):
    """As in files whose names were taken away (tflite-micro's keyword_scrambled)."""
    m = Model()
    x = m.input((BATCH, INPUTS))
    for seed in (1, 5):
        state = m.variable((BATCH, INPUTS * 4))
        m.graph.tensors[state].name = name
        inputs = [x, m.constant(numbers(seed, INPUTS, INPUTS)), m.constant(numbers(seed + 1, INPUTS, 4)), -1, state]
        x = m.op("SVDF", inputs, (BATCH, INPUTS), options=("SVDFOptions", {"rank": 1}))
    m.write(tmp_path / "m.tflite", [x])
    model = agrees_over_runs(tmp_path / "m.tflite", (BATCH, INPUTS), 2)
    assert len({port.name for port in model.graph.input}) == 3


def dims_of_data(model):
    return [dim.dim_value or dim.dim_param for dim in model.graph.input[0].type.tensor_type.shape.dim]


@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("kind", ["LSTM", "RNN"])
def test_an_open_batch_is_that_of_the_state(kind, time_major, tmp_path):
    """LiteRT refuses every other one. The time stays open."""
    m = Model()
    shape = (TIME, BATCH, INPUTS) if time_major else (BATCH, TIME, INPUTS)
    if kind == "LSTM":
        y = lstm(m, "UNIDIRECTIONAL_SEQUENCE_LSTM", shape, time_major=time_major)
    else:
        y, _ = rnn(m, time_major, TANH)
    x = m.graph.inputs[0]
    m.graph.tensors[x].shapeSignature = [-1, -1, INPUTS]
    # Not read by the operator itself.
    turned = m.op("NEG", [x], shape, options=("NegOptions", {}))
    m.graph.operators.insert(0, m.graph.operators.pop())
    m.graph.operators[1].inputs[0] = turned
    m.write(tmp_path / "m.tflite", [y])
    model = agrees_over_runs(tmp_path / "m.tflite", shape, 2 if kind == "LSTM" else 1)
    assert dims_of_data(model) == (["x0_dim0", BATCH, INPUTS] if time_major else [BATCH, "x0_dim1", INPUTS])
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    axis = 1 if time_major else 0
    assert f"the open dimension of axis {axis} of input 'x0' is {BATCH}" in done.stdout, done
    fixed = ",".join(str(size + (axis == i)) for i, size in enumerate(shape))
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx", "--shape", f"x0={fixed}")
    assert done.returncode == 6 and "the batch of the data is not that of the state" in done.stderr, done


def test_all_open_dimensions_of_svdf(tmp_path):
    m = Model()
    x, state = m.input((BATCH, INPUTS)), m.variable((BATCH, INPUTS * 4))
    m.graph.tensors[x].shapeSignature = [-1, -1]
    inputs = [x, m.constant(numbers(1, INPUTS, INPUTS)), m.constant(numbers(2, INPUTS, 4)), -1, state]
    y = m.op("SVDF", inputs, (BATCH, INPUTS), options=("SVDFOptions", {"rank": 1}))
    m.write(tmp_path / "m.tflite", [y])
    assert dims_of_data(agrees_over_runs(tmp_path / "m.tflite", (BATCH, INPUTS), 1)) == [BATCH, INPUTS]


def test_a_computed_batch_is_refused(tmp_path):
    """It is the sum of two open ones, so neither is known."""
    m = Model()
    parts = [m.input((1, INPUTS)), m.input((1, INPUTS))]
    for part in parts:
        m.graph.tensors[part].shapeSignature = [-1, INPUTS]
    x = m.op("CONCATENATION", parts, (BATCH, INPUTS), options=("ConcatenationOptions", {"axis": 0}))
    state = m.variable((BATCH, INPUTS * 4))
    inputs = [x, m.constant(numbers(1, INPUTS, INPUTS)), m.constant(numbers(2, INPUTS, 4)), -1, state]
    y = m.op("SVDF", inputs, (BATCH, INPUTS), options=("SVDFOptions", {"rank": 1}))
    m.write(tmp_path / "m.tflite", [y])
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode == 8 and f"a size that must be {BATCH} known at run time only; fix the" in done.stderr, done
