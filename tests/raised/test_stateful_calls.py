# SPDX-License-Identifier: Apache-2.0
"""Operators with states are calls of functions in ONNX, and come back as the operators that they were. A function that is
not the one that belongs to its call is inlined like any other."""

import copy

import numpy as np
import onnx
import onnxruntime
import pytest
from ai_edge_litert.interpreter import Interpreter
from onnx import helper, numpy_helper

from tests.raised.judge_raised import MODELS, raised, runs_of_litert, runs_of_onnx
from tests.raised.test_stateful import BATCH, CELLS, FORMS, INPUTS, RELU, RELU6, TANH, TIME, lstm, numbers, rnn
from tests.raised.tflite_models import Model
from tests.support import converter
from tests.support.tflite_file import read_tflite

LSTM = "UNIDIRECTIONAL_SEQUENCE_LSTM"


def converted(path, *options, output="back.tflite"):
    made = path.parent / output
    done = converter.run("convert", path, "-o", made, "--quiet", *options)
    assert done.returncode == 0, done.stderr
    return made


def comes_back(path, shape, runs=3):
    """The same operators, which give the same numbers in each run. Returns the ONNX model between."""
    model = raised(path)
    back = converted(path.with_suffix(".onnx"))
    assert read_tflite(back).operators == read_tflite(path).operators
    values = [[numbers(seed, *shape, spread=2)] for seed in range(runs)]
    for wanted, made in zip(runs_of_litert(path, values), runs_of_litert(back, values), strict=True):
        assert list(wanted) == list(made)
        for name, expected in wanted.items():
            assert np.array_equal(expected, made[name]), name
    return model


@pytest.mark.parametrize("form", FORMS)
def test_sequence_lstm(form, tmp_path):
    m = Model()
    shape = (TIME, BATCH, INPUTS) if "time_major" in FORMS[form] else (BATCH, TIME, INPUTS)
    m.write(tmp_path / "m.tflite", [lstm(m, LSTM, shape, **FORMS[form])])
    comes_back(tmp_path / "m.tflite", shape)


@pytest.mark.parametrize("form", ["plain", "clipped", "all"])
def test_one_step_of_lstm(form, tmp_path):
    m = Model()
    m.write(tmp_path / "m.tflite", [lstm(m, "LSTM", (BATCH, INPUTS), **FORMS[form])])
    comes_back(tmp_path / "m.tflite", (BATCH, INPUTS))


@pytest.mark.parametrize(("time_major", "activation"), [(None, TANH), (False, RELU6), (True, TANH)])
def test_rnn(time_major, activation, tmp_path):
    m = Model()
    made, shape = rnn(m, time_major, activation)
    m.write(tmp_path / "m.tflite", [made])
    comes_back(tmp_path / "m.tflite", shape)


@pytest.mark.parametrize(("rank", "activation"), [(1, 0), (2, RELU)])
def test_svdf(rank, activation, tmp_path):
    m = Model()
    filters, memory = 6, 8
    inputs = [m.input((BATCH, INPUTS)), m.constant(numbers(1, filters, INPUTS))]
    inputs += [m.constant(numbers(2, filters, memory)), m.constant(numbers(3, filters // rank))]
    inputs += [m.variable((BATCH, filters * memory))]
    options = ("SVDFOptions", {"rank": rank, "fusedActivationFunction": activation})
    m.write(tmp_path / "m.tflite", [m.op("SVDF", inputs, (BATCH, filters // rank), options=options)])
    comes_back(tmp_path / "m.tflite", (BATCH, INPUTS))


def test_a_row_of_operators(tmp_path):
    """A function does not depend on weights; with other options it is another one."""
    m = Model()
    shape = (BATCH, TIME, INPUTS)
    first = lstm(m, LSTM, shape)

    def another(of, inputs, **fields):
        weights = [m.constant(numbers(20 + i, CELLS, inputs)) for i in range(4)]
        weights += [m.constant(numbers(30 + i, CELLS, CELLS)) for i in range(4)]
        biases = [m.constant(numbers(40 + i, CELLS)) for i in range(4)]
        states = [m.variable((BATCH, CELLS)), m.variable((BATCH, CELLS))]
        options = {"fusedActivationFunction": TANH, "cellClip": 0.0, "projClip": 0.0} | fields
        return m.op(
            LSTM,
            [of, *weights, -1, -1, -1, *biases, -1, -1, *states],
            (BATCH, TIME, CELLS),
            options=("UnidirectionalSequenceLSTMOptions", options),
        )

    second = another(first, CELLS)
    third = another(second, CELLS)
    fourth = another(third, CELLS, cellClip=0.5)
    m.write(tmp_path / "m.tflite", [m.op("RELU", [fourth], (BATCH, TIME, CELLS))])
    model = comes_back(tmp_path / "m.tflite", shape)
    assert [function.name for function in model.functions] == [LSTM, f"{LSTM}_2"]
    calls = [node.op_type for node in model.graph.node if node.domain == "lowtide.tflite"]
    assert calls == [LSTM, LSTM, LSTM, f"{LSTM}_2"]


@pytest.mark.skipif(not MODELS.is_dir(), reason="../shared/models is absent")
def test_integers(tmp_path):
    source = MODELS / "tflm__micro_speech_lstm.tflite"
    path = tmp_path / "m.tflite"
    path.write_bytes(source.read_bytes())
    raised(path)
    back = converted(tmp_path / "m.onnx")
    assert read_tflite(back).operators == read_tflite(path).operators
    random = np.random.default_rng(0)
    values = [[random.integers(-128, 127, (1, 49, 257), endpoint=True).astype(np.int8)] for _ in range(3)]
    for wanted, made in zip(runs_of_litert(path, values), runs_of_litert(back, values), strict=True):
        assert list(wanted) == list(made)
        assert all(np.array_equal(value, made[name]) for name, value in wanted.items())


def test_hybrids_are_no_calls(tmp_path):
    """LiteRT's kernel rounds the data beside weights of integers."""
    m = Model()
    x = m.input((BATCH, INPUTS))
    inputs = [
        x,
        m.constant(
            np.arange(-CELLS * INPUTS // 2, CELLS * INPUTS // 2 + 1)[: CELLS * INPUTS].reshape(CELLS, INPUTS),
            "i8",
            scale=0.01,
        ),
    ]
    inputs += [m.constant(np.eye(CELLS, dtype=np.int8), "i8", scale=0.01), m.constant(numbers(3, CELLS))]
    inputs += [m.variable((BATCH, CELLS))]
    m.write(
        tmp_path / "m.tflite",
        [m.op("RNN", inputs, (BATCH, CELLS), options=("RNNOptions", {"fusedActivationFunction": TANH}))],
    )
    model = raised(tmp_path / "m.tflite")
    assert not model.functions and "MatMul" in [node.op_type for node in model.graph.node]


# ---- calls that are not taken ----


@pytest.fixture
def called(tmp_path):
    """An ONNX model of one call, and its path."""
    m = Model()
    m.write(tmp_path / "m.tflite", [lstm(m, LSTM, (BATCH, TIME, INPUTS), cellClip=0.9)])
    return raised(tmp_path / "m.tflite"), tmp_path / "m.onnx"


def is_inlined(model, path, outputs=3):
    """No call is taken, and LiteRT computes what ONNX Runtime does."""
    onnx.save(model, path)
    back = converted(path)
    assert LSTM not in read_tflite(back).operators
    values = numbers(7, BATCH, TIME, INPUTS, spread=2)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options)
    wanted = dict(zip([port.name for port in session.get_outputs()], session.run(None, {"x0": values}), strict=True))
    interpreter = Interpreter(str(back))
    runner = interpreter.get_signature_runner()
    made = runner(**dict.fromkeys(runner.get_input_details(), values))
    assert len(wanted) == outputs and set(made) == set(wanted)
    for name, expected in wanted.items():
        assert np.allclose(expected, made[name], rtol=0, atol=1e-5), name


def nodes_of(model):
    """Those of the function, and of the Scan in it."""
    function = model.functions[0]
    (scan,) = [node for node in function.node if node.op_type == "Scan"]
    return function.node, scan, next(attribute.g for attribute in scan.attribute if attribute.name == "body")


def other_activation(model):
    body = nodes_of(model)[2]
    next(node for node in body.node if node.op_type == "Tanh").op_type = "Sigmoid"


def other_constant(model):
    body = nodes_of(model)[2]
    constant = next(tensor for tensor in body.initializer if numpy_helper.to_array(tensor).size == 1)
    constant.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(constant) / 2, constant.name))


def other_direction(model):
    scan = nodes_of(model)[1]
    count = next(a.i for a in scan.attribute if a.name == "num_scan_inputs")
    scan.attribute.append(helper.make_attribute("scan_input_directions", [1] * count))


def other_weights_of_a_gate(model):
    turned = [node for node in nodes_of(model)[0] if node.op_type == "Transpose"]
    turned[0].input[0], turned[1].input[0] = turned[1].input[0], turned[0].input[0]


def other_clip_in_the_call(model):
    next(a for a in model.graph.node[0].attribute if a.name == "cell_clip").f = 0.4


def clip_that_litert_refuses(model):
    """It has no effect where there is no projection."""
    next(a for a in model.graph.node[0].attribute if a.name == "proj_clip").f = -1


def other_places_in_the_call(model):
    places = next(a for a in model.graph.node[0].attribute if a.name == "input_places")
    places.ints[1], places.ints[2] = places.ints[2], places.ints[1]


def an_attribute_less(model):
    call = model.graph.node[0]
    del call.attribute[0]


def state_that_begins_elsewhere(model):
    name = model.graph.input[1].name
    tensor = next(tensor for tensor in model.graph.initializer if tensor.name == name)
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) + np.float32(0.25), name))


def state_that_is_a_constant(model):
    del model.graph.input[1]


def state_that_another_node_reads(model):
    state = model.graph.input[1].name
    model.graph.node.append(helper.make_node("Neg", [state], ["of_state"]))
    model.graph.output.append(helper.make_tensor_value_info("of_state", onnx.TensorProto.FLOAT, [BATCH, CELLS]))


def new_state_that_another_node_reads(model):
    state = model.graph.output[1].name
    model.graph.node.append(helper.make_node("Neg", [state], ["of_state"]))
    model.graph.output.append(helper.make_tensor_value_info("of_state", onnx.TensorProto.FLOAT, [BATCH, CELLS]))


def computed_weights(model):
    call = model.graph.node[0]
    name, call.input[1] = call.input[1], "of_weights"
    model.graph.node.insert(0, helper.make_node("Abs", [name], ["of_weights"]))


def function_of_the_taken_domain(model):
    function = copy.deepcopy(model.functions[0])
    function.domain = "lowtide.states"
    for node in function.node:
        if node.op_type == "Scan":
            node.attribute.append(helper.make_attribute("scan_input_directions", [1] * 4))
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("lowtide.states", 1))


CHANGES = [
    other_activation,
    other_constant,
    other_direction,
    other_weights_of_a_gate,
    other_clip_in_the_call,
    clip_that_litert_refuses,
    other_places_in_the_call,
    an_attribute_less,
    state_that_begins_elsewhere,
    state_that_is_a_constant,
    state_that_another_node_reads,
    new_state_that_another_node_reads,
    computed_weights,
    function_of_the_taken_domain,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_is_not_taken(change, called):
    model, path = called
    before = model.SerializeToString()
    change(model)
    assert model.SerializeToString() != before
    is_inlined(model, path, outputs=len(model.graph.output))


# Only the converter makes nodes of this domain, after it has checked all that they say.
@pytest.mark.parametrize("rank", [0, 2])
def test_a_node_of_the_taken_domain_is_not_known(rank, tmp_path):
    weights = {"w": np.ones((4, 5)), "t": np.ones((4, 3)), "b": np.ones(2), "s": np.zeros((1, 12))}
    node = helper.make_node("SVDF", ["x", *weights], ["y"], domain="lowtide.states", rank=rank)
    node.attribute.extend(
        [helper.make_attribute("input_places", [0, 1, 2, 3, 4]), helper.make_attribute("fused_activation_function", 0)]
    )
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 5])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("lowtide.states", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    done = converter.convert(tmp_path / "m.onnx", tmp_path / "m.tflite")
    assert done.status == "refused" and "the operator is not known" in done.reason, done


def test_an_output_less_is_not_taken(called):
    model, path = called
    del model.graph.output[1]
    is_inlined(model, path, outputs=2)


def test_outputs_that_are_named_stay(called):
    model, path = called
    names = [port.name for port in model.graph.output]
    back = converted(path, "--outputs", ",".join(names))
    assert LSTM not in read_tflite(back).operators
    assert set(Interpreter(str(back)).get_signature_runner().get_output_details()) == set(names)


def test_the_note(called):
    _, path = called
    done = converter.run("convert", path, "-o", path.with_suffix(".back.tflite"))
    assert done.returncode == 0 and "itself from one run to the next" in done.stdout, done.stdout


def test_another_opset(tmp_path):
    m = Model()
    m.write(tmp_path / "m.tflite", [lstm(m, LSTM, (BATCH, TIME, INPUTS), normalized=True)])
    raised(tmp_path / "m.tflite", ["--opset", "18"])
    assert LSTM in read_tflite(converted(tmp_path / "m.onnx")).operators


def integer_lstm(m, kind, shape, seed, clip=0.0):
    """With weights by which the two products of a gate pass 8, at which the kernel's 16 bits end. Its result."""
    random = np.random.default_rng(seed)
    x = m.input(shape, "i8", scale=0.1, zero=17)
    weights = [m.constant(random.integers(-127, 128, (CELLS, INPUTS)), "i8", scale=0.01) for _ in range(4)]
    weights += [m.constant(random.integers(-127, 128, (CELLS, CELLS)), "i8", scale=0.02) for _ in range(4)]
    biases = [m.constant(random.integers(-2000, 2000, CELLS), "i32", scale=0.001) for _ in range(4)]
    hidden = {"scale": 0.0078125, "zero": 3}
    states = [m.variable((BATCH, CELLS), "i8", **hidden), m.variable((BATCH, CELLS), "i16", scale=2**-11)]
    table = "LSTMOptions" if kind == "LSTM" else "UnidirectionalSequenceLSTMOptions"
    options = (table, {"fusedActivationFunction": TANH, "cellClip": clip, "projClip": 0.0})
    inputs = [x, *weights, -1, -1, -1, *biases, -1, -1, *states]
    y = m.op(kind, inputs, (*shape[:-1], CELLS), "i8", options=options, **hidden)
    gates = [m.tensor(f"gate{i}", [0], "f32") for i in range(4)]
    m.graph.operators[-1].intermediates = [*gates, m.tensor("hidden", [0], "i8", **hidden)]
    return y


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("clip", [0.0, 1.0])
@pytest.mark.parametrize("kind", ["LSTM", LSTM])
def test_integers_whose_gates_saturate(kind, clip, seed, tmp_path):
    """ONNX's results are within a step of LiteRT's, and the operator comes back as it was, alone in the file."""
    m = Model()
    shape = (BATCH, INPUTS) if kind == "LSTM" else (BATCH, TIME, INPUTS)
    path = tmp_path / "m.tflite"
    m.write(path, [integer_lstm(m, kind, shape, seed, clip)])
    names = [port.name for port in raised(path).graph.input][1:]
    back = converted(tmp_path / "m.onnx")
    assert read_tflite(back).operators == {kind: 1}
    random = np.random.default_rng(seed)
    values = [[random.integers(-128, 128, shape).astype(np.int8)] for _ in range(3)]
    wanted = runs_of_litert(path, values)
    of_onnx = runs_of_onnx(tmp_path / "m.onnx", values, {f"{name}_out": name for name in names})
    for expected, other, again in zip(wanted, of_onnx, runs_of_litert(back, values), strict=True):
        for name, value in expected.items():
            assert np.array_equal(value, again[name])
            assert np.abs(value.astype(int) - other[name]).max() <= 1
