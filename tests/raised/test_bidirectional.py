# SPDX-License-Identifier: Apache-2.0
"""BIDIRECTIONAL_SEQUENCE_LSTM and _RNN, and LSTM with the basic kernel: states become inputs and outputs. LiteRT is the
judge, over three runs in a row on one interpreter."""

import onnx
import pytest

from tests.raised.judge_raised import agree_in_each_run, raised
from tests.raised.test_stateful import RELU, RELU6, TANH, numbers
from tests.raised.tflite_models import Model
from tests.support import converter

BATCH, TIME, INPUTS, FURTHER = 2, 6, 5, 3
CELLS = (7, 9)  # of RNN, forwards and backwards
LSTM_CELLS, OUTPUTS = (7, 7), (4, 4)  # LiteRT's kernel takes no others


def judge(path, shapes, states, tolerance=1e-5):
    model = raised(path)
    names = [port.name for port in model.graph.input][len(shapes) :]
    assert len(names) == states
    values = [[numbers(10 * run + i, *shape, spread=2) for i, shape in enumerate(shapes)] for run in range(3)]
    agree_in_each_run(path, values, names, tolerance)
    return model


def data_of(m, time_major, further, batch=BATCH, width=FURTHER):
    """The inputs of the model and their shapes; `further` is "", "backwards" (without weights) or "both"."""
    lead = (TIME, batch) if time_major else (batch, TIME)
    shapes = [(*lead, INPUTS)]
    if further:
        shapes.append((*lead, INPUTS if further == "backwards" else width))
    return [m.input(shape) for shape in shapes], shapes, lead


def lstm(
    m, time_major=False, further="", merged=True, coupled=False, peephole=False, projected=False, batch=None, **fields
):
    seeds = iter(range(1000))

    def constant(*dims, used=True, spread=0.6):
        seed = next(seeds)
        return m.constant(numbers(seed, *dims, spread=spread)) if used else -1

    batch = batch or (1 if merged and not time_major else BATCH)
    data, shapes, lead = data_of(m, time_major, further, batch)
    results = OUTPUTS if projected else LSTM_CELLS
    inputs = [data[0]]
    for cells, outputs in zip(LSTM_CELLS, results, strict=True):
        inputs += [constant(cells, INPUTS, used=gate > 0 or not coupled) for gate in range(4)]
        inputs += [constant(cells, outputs, used=gate > 0 or not coupled) for gate in range(4)]
        inputs += [constant(cells, used=peephole and not (coupled and gate == 0)) for gate in range(3)]
        inputs += [constant(cells, used=gate > 0 or not coupled) for gate in range(4)]
        inputs += [constant(outputs, cells, used=projected), constant(outputs, used=projected)]
    for cells, outputs in zip(LSTM_CELLS, results, strict=True):
        inputs += [m.variable((batch, outputs)), m.variable((batch, cells))]
    inputs.append(data[1] if further else -1)
    for cells in LSTM_CELLS:
        inputs += [constant(cells, FURTHER, used=further == "both") for _ in range(4)]
    options = {"fusedActivationFunction": TANH, "cellClip": 0.0, "projClip": 0.0, "mergeOutputs": merged} | fields
    options["timeMajor"] = time_major
    made = [(*lead, sum(results))] if merged else [(*lead, results[0]), (*lead, results[1])]
    table = ("BidirectionalSequenceLSTMOptions", options)
    y = m.op("BIDIRECTIONAL_SEQUENCE_LSTM", inputs, made[0] if merged else made, options=table, outputs=len(made))
    return [y] if merged else y, shapes


FORMS = {
    "merged": {},
    "apart": {"merged": False},
    "time_major": {"time_major": True},
    "time_major_apart": {"time_major": True, "merged": False},
    "clipped": {"cellClip": 0.4},
    "coupled": {"coupled": True},
    "peephole": {"peephole": True, "fusedActivationFunction": RELU6},
    "projected": {"projected": True, "projClip": 0.3, "merged": False},
    "other_data_backwards": {"further": "backwards"},
    "further_data": {"further": "both", "merged": False},
    "further_data_time_major": {"further": "both", "time_major": True},
}


@pytest.mark.parametrize("form", FORMS)
def test_lstm(form, tmp_path):
    m = Model()
    outputs, shapes = lstm(m, **FORMS[form])
    m.write(tmp_path / "m.tflite", outputs)
    model = judge(tmp_path / "m.tflite", shapes, 4)
    assert [node.op_type for node in model.graph.node].count("Scan") == 2


def rnn(m, time_major=False, further="", merged=True, activation=TANH):
    width = INPUTS if time_major else FURTHER
    data, shapes, lead = data_of(m, time_major, further, width=width)
    inputs = [data[0]]
    for seed, cells in enumerate(CELLS):
        inputs += [m.constant(numbers(seed, cells, INPUTS)), m.constant(numbers(9 + seed, cells, cells, spread=0.3))]
        inputs += [m.constant(numbers(5 + seed, cells)), m.variable((BATCH, cells))]
    inputs.append(data[1] if further else -1)
    inputs += [m.constant(numbers(20 + i, CELLS[i], width)) if further == "both" else -1 for i in range(2)]
    options = {"fusedActivationFunction": activation, "mergeOutputs": merged, "timeMajor": time_major}
    made = [(*lead, sum(CELLS))] if merged else [(*lead, CELLS[0]), (*lead, CELLS[1])]
    table = ("BidirectionalSequenceRNNOptions", options)
    y = m.op("BIDIRECTIONAL_SEQUENCE_RNN", inputs, made[0] if merged else made, options=table, outputs=len(made))
    return [y] if merged else y, shapes


@pytest.mark.parametrize("further", ["", "backwards", "both"])
@pytest.mark.parametrize(("time_major", "merged"), [(False, True), (False, False), (True, True)])
@pytest.mark.parametrize("activation", [TANH, RELU])
def test_rnn(time_major, merged, further, activation, tmp_path):
    m = Model()
    outputs, shapes = rnn(m, time_major, further, merged, activation)
    if further == "backwards" and not time_major:
        # LiteRT's kernel does not read these data.
        assert "further data without weights, with batch first" in refused(m, outputs, tmp_path)
        return
    m.write(tmp_path / "m.tflite", outputs)
    judge(tmp_path / "m.tflite", shapes, 2, 1e-4 if activation == RELU else 1e-5)


@pytest.mark.parametrize("units", [4, 7])
def test_basic_lstm(units, tmp_path):
    """The second output is the cell, which is a state as well."""
    m = Model()
    inputs = [m.input((BATCH, INPUTS)), m.variable((BATCH, units))]
    inputs += [m.constant(numbers(1, 4 * units, INPUTS + units)), m.constant(numbers(2, 4 * units))]
    inputs.append(m.variable((BATCH, units)))
    shapes = [(BATCH, units), (BATCH, units), (BATCH, INPUTS + units), (BATCH, 4 * units)]
    made = m.op("LSTM", inputs, shapes, options=("LSTMOptions", BASIC), outputs=4, version=2)
    m.write(tmp_path / "m.tflite", made[:2])
    judge(tmp_path / "m.tflite", [(BATCH, INPUTS)], 2)


BASIC = {"kernelType": 1, "fusedActivationFunction": RELU, "cellClip": 0.1}  # the kernel reads neither of the latter


def refused(m, outputs, tmp_path):
    m.write(tmp_path / "m.tflite", outputs)
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode == 8 and not (tmp_path / "m.onnx").exists(), (done.returncode, done.stderr)
    return done.stderr


def basic(m, units=4, variable=True, data="f32"):
    inputs = [m.input((BATCH, INPUTS), data), m.variable((BATCH, units)) if variable else m.input((BATCH, units))]
    inputs += [m.constant(numbers(1, 4 * units, INPUTS + units)), m.constant(numbers(2, 4 * units))]
    inputs.append(m.variable((BATCH, units)))
    shapes = [(BATCH, units), (BATCH, units), (BATCH, INPUTS + units), (BATCH, 4 * units)]
    return m.op("LSTM", inputs, shapes, options=("LSTMOptions", BASIC), outputs=4, version=2)


def test_basic_lstm_whose_scratch_is_read_is_refused(tmp_path):
    m = Model()
    made = basic(m)
    assert "output 3 is read" in refused(m, [made[0], made[3]], tmp_path)


def test_basic_lstm_with_a_state_that_is_no_variable_is_refused(tmp_path):
    m = Model()
    assert "is no variable" in refused(m, basic(m, variable=False)[:1], tmp_path)


def test_basic_lstm_of_integers_is_refused(tmp_path):
    m = Model()
    assert "only the float form" in refused(m, basic(m, data="u8")[:1], tmp_path)


def test_a_state_inside_of_a_branch_is_refused(tmp_path):
    m = Model()
    x, flag = m.input((BATCH, INPUTS)), m.input((1,), "bool")
    called = []
    for _ in range(2):
        with m.subgraph() as index:
            inputs = [m.input((BATCH, INPUTS)), m.constant(numbers(1, 7, INPUTS)), m.constant(numbers(2, 7, 7))]
            inputs += [m.constant(numbers(3, 7)), m.variable((BATCH, 7))]
            m.outputs([m.op("RNN", inputs, (BATCH, 7), options=("RNNOptions", {"fusedActivationFunction": TANH}))])
            called.append(index)
    options = ("IfOptions", {"thenSubgraphIndex": called[0], "elseSubgraphIndex": called[1]})
    message = refused(m, [m.op("IF", [flag, x], (BATCH, 7), options=options)], tmp_path)
    assert "is memory of a subgraph that IF or WHILE runs" in message


def test_some_weights_for_further_data_are_refused(tmp_path):
    m = Model()
    outputs, _ = lstm(m, further="both")
    m.graph.operators[0].inputs[40] = -1
    assert "some of the weights for further data are absent" in refused(m, outputs, tmp_path)


def test_one_output_of_several_sequences_with_batch_first_is_refused(tmp_path):
    """LiteRT's kernel takes the states of all but the first sequence from wrong places."""
    m = Model()
    outputs, _ = lstm(m, batch=2)
    assert "one output of several sequences with batch first" in refused(m, outputs, tmp_path)


def test_rnn_with_time_first_and_two_outputs_is_refused(tmp_path):
    """LiteRT's kernel gives the second output the shape of batch first."""
    m = Model()
    outputs, _ = rnn(m, time_major=True, merged=False)
    assert "two outputs with time first" in refused(m, outputs, tmp_path)


@pytest.mark.parametrize("count", [47, 11])
def test_another_number_of_inputs_is_malformed(count, tmp_path):
    m = Model()
    outputs, _ = lstm(m) if count == 47 else rnn(m)
    m.graph.operators[0].inputs.pop()
    m.write(tmp_path / "m.tflite", outputs)
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode == 6 and f"it has {count} inputs" in done.stderr, (done.returncode, done.stderr)


@pytest.mark.parametrize("kind", ["sequence", "basic LSTM"])
def test_open_dimensions_that_states_and_weights_have(kind, tmp_path):
    m = Model()
    outputs, shapes = (basic(m)[:2], [(BATCH, INPUTS)]) if kind == "basic LSTM" else rnn(m)
    m.graph.tensors[m.graph.inputs[0]].shapeSignature = [-1] * len(shapes[0])
    m.write(tmp_path / "m.tflite", outputs)
    judge(tmp_path / "m.tflite", shapes, 2)
    (port, *_) = onnx.load(tmp_path / "m.onnx").graph.input
    dims = [dim.dim_value or dim.dim_param for dim in port.type.tensor_type.shape.dim]
    assert dims == ([BATCH, INPUTS] if kind == "basic LSTM" else [BATCH, "x0_dim1", INPUTS])
