# SPDX-License-Identifier: Apache-2.0
"""LiteRT's results of a TFLite file against ONNX Runtime's of what it was raised to, on the same inputs. The file must pass
onnx.checker with full shape inference. Floats agree within 1e-4 of the range; integers that stand for numbers within
two steps; all other integers are equal."""

import numpy as np
import onnx
import onnxruntime
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from tests.support import converter

TOLERANCE, STEPS = 1e-4, 2
MODELS = converter.ROOT.parent / "shared/models/tflite"


def inputs_for(details, seed=0):
    random = np.random.default_rng(seed)
    out = []
    for detail in details:
        shape, kind = detail["shape"], detail["dtype"]
        if kind == np.bool_:
            out.append(random.integers(0, 2, shape).astype(bool))
        elif np.issubdtype(kind, np.floating):
            out.append((random.random(shape) * 4 - 2).astype(kind))
        else:
            low, high = (np.iinfo(kind).min, np.iinfo(kind).max) if np.iinfo(kind).bits <= 16 else (0, 4)
            out.append(random.integers(low, high, shape, endpoint=True).astype(kind))
    return out


def result(interpreter, detail):
    """An output. The interpreter does not give one without elements."""
    return (
        interpreter.get_tensor(detail["index"]) if all(detail["shape"]) else np.zeros(detail["shape"], detail["dtype"])
    )


def runs_of_litert(path, values):
    """The outputs of each run in turn, on one interpreter: variables keep their values."""
    interpreter = Interpreter(str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    interpreter.allocate_tensors()
    out = []
    for inputs in values:
        for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
        out.append({d["name"]: result(interpreter, d) for d in interpreter.get_output_details()})
    return out


def runs_of_onnx(path, values, states):
    """The same; `states` names the input of each output that holds a state. The first run takes the defaults."""
    session = onnxruntime.InferenceSession(str(path))
    defaults = [port.name for port in session.get_overridable_initializers()]
    assert sorted(defaults) == sorted(states.values()), defaults
    names = [port.name for port in session.get_inputs()]
    outputs = [port.name for port in session.get_outputs()]
    out, kept = [], {}
    for inputs in values:
        made = dict(zip(outputs, session.run(None, dict(zip(names, inputs, strict=True)) | kept), strict=True))
        kept = {states[name]: made.pop(name) for name in states}
        out.append(made)
    return out


def run_litert(path, values=None):
    interpreter = Interpreter(str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    interpreter.allocate_tensors()
    details = interpreter.get_input_details()
    values = inputs_for(details) if values is None else values
    for detail, value in zip(details, values, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    outputs = [(d["name"], result(interpreter, d), d["quantization"]) for d in interpreter.get_output_details()]
    return [d["name"] for d in details], values, outputs


def check(path):
    """By onnx.checker with full shape inference, unless the opset is newer than this ONNX."""
    opset = next(entry.version for entry in onnx.load(path, load_external_data=False).opset_import if not entry.domain)
    if opset <= onnx.defs.onnx_opset_version():
        onnx.checker.check_model(str(path), full_check=True)


def raised(path, options=()):
    """Converts; returns the ONNX model, checked."""
    output = path.with_suffix(".onnx")
    done = converter.run("convert", path, "-o", output, *options)
    assert done.returncode == 0, done.stderr
    check(output)
    return onnx.load(output)


def run_onnx(path, names, values):
    """
    ONNX Runtime's results. Its products of uint8 by int8 saturate on processors without VNNI, and it makes them of int8
    by int8 unless it is told not to.
    """
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options)
    assert [port.name for port in session.get_inputs()] == names
    return dict(
        zip(
            [port.name for port in session.get_outputs()],
            session.run(None, dict(zip(names, values, strict=True))),
            strict=True,
        )
    )


def agree_in_each_run(path, values, names, tolerance):
    """LiteRT and ONNX Runtime, run by run, where each state of `names` is an output NAME_out and the next run's input.
    Returns what LiteRT gave."""
    wanted = runs_of_litert(path, values)
    made = runs_of_onnx(path.with_suffix(".onnx"), values, {f"{name}_out": name for name in names})
    for run, (a, b) in enumerate(zip(wanted, made, strict=True)):
        assert list(a) == list(b)
        for name, expected in a.items():
            assert expected.shape == b[name].shape and expected.dtype == b[name].dtype
            assert np.allclose(expected, b[name], rtol=0, atol=tolerance), (run, name, np.abs(expected - b[name]).max())
    return wanted


def agrees(path, options=(), values=None):
    """Judges; returns the ONNX model for further looks at it."""
    model = raised(path, options)
    names, values, wanted = run_litert(path, values)
    made = run_onnx(path.with_suffix(".onnx"), names, values)
    assert list(made) == [name for name, _, _ in wanted]
    for name, expected, (scale, _) in wanted:
        got = made[name]
        assert got.dtype == expected.dtype and got.shape == expected.shape, (name, got.dtype, got.shape, expected.shape)
        if np.issubdtype(expected.dtype, np.floating):
            extent = np.ptp(expected.astype(np.float64)) if expected.size else 0
            assert np.allclose(got, expected, rtol=0, atol=TOLERANCE * max(extent, 1e-6)), name
        elif scale:
            apart = np.abs(got.astype(np.int64) - expected.astype(np.int64))
            assert np.count_nonzero(apart > STEPS) <= 0.001 * apart.size, (name, apart.max())
        else:
            assert np.array_equal(got, expected), name
    return model


def agrees_at(path, runs, options=(), tolerance=TOLERANCE):
    """Judges a model with open dimensions at several sizes: `runs` are the inputs of each. Numbers with a scale agree
    within two steps. Returns the ONNX model."""
    model = raised(path, options)
    for values in runs:
        interpreter = Interpreter(
            str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        )
        details = interpreter.get_input_details()
        for detail, value in zip(details, values, strict=True):
            interpreter.resize_tensor_input(detail["index"], value.shape)
        interpreter.allocate_tensors()
        for detail, value in zip(details, values, strict=True):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
        made = run_onnx(path.with_suffix(".onnx"), [detail["name"] for detail in details], values)
        for detail in interpreter.get_output_details():
            wanted, got = result(interpreter, detail), made[detail["name"]]
            assert got.dtype == wanted.dtype and got.shape == wanted.shape, (got.dtype, got.shape, wanted.shape)
            scale = detail["quantization"][0]
            if not np.issubdtype(wanted.dtype, np.floating) and not scale:
                assert np.array_equal(got, wanted)
            elif wanted.size:
                extent = np.ptp(wanted.astype(np.float64))
                most = STEPS if scale else tolerance * max(extent, 1e-6)
                assert np.allclose(got.astype(np.float64), wanted, rtol=0, atol=most)
    return model


def operators(model):
    return [node.op_type for node in model.graph.node]


def refused(path, reason):
    done = converter.run("convert", path, "-o", path.with_suffix(".onnx"))
    assert done.returncode == 8 and reason in done.stderr, done
    assert not path.with_suffix(".onnx").exists()
