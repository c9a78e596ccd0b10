# SPDX-License-Identifier: Apache-2.0
"""TFLite to ONNX: --signature of a model that has several, and --shape of inputs with open dimensions. LiteRT is the judge."""

import numpy as np
import onnxruntime
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

from tests.raised.judge_raised import agrees, operators, raised, run_litert, run_onnx
from tests.raised.tflite_models import Model
from tests.support import converter


def add_signature(m, key, subgraph, inputs, outputs):
    """Its names are a, b, ... of the inputs, y and z of the outputs."""
    made = schema.SignatureDefT()
    made.signatureKey, made.subgraphIndex = key, subgraph
    made.inputs, made.outputs = [], []
    for ports, names, tensors in (made.inputs, "abc", inputs), (made.outputs, "yz", outputs):
        for name, tensor in zip(names, tensors, strict=False):
            port = schema.TensorMapT()
            port.name, port.tensorIndex = name, tensor
            ports.append(port)
    m.model.signatureDefs = [*(m.model.signatureDefs or []), made]


def several(path):
    """'double' of x, and 'less' of two others, which has a constant."""
    m = Model()
    x = m.input((2, 3))
    y = m.op("ADD", [x, x], (2, 3), options=("AddOptions", {}))
    m.outputs([y])
    add_signature(m, "double", 0, [x], [y])
    with m.subgraph() as number:
        a, b = m.input((4, 5)), m.input((4, 5))
        t = m.op("SUB", [a, b], (4, 5), options=("SubOptions", {}))
        y = m.op("MUL", [t, m.constant(np.linspace(-1, 1, 5))], (4, 5), options=("MulOptions", {}))
        m.outputs([y])
        add_signature(m, "less", number, [a, b], [y])
    m.write(path, [m.model.subgraphs[0].outputs[0]])


@pytest.mark.parametrize(
    ("key", "shapes", "nodes"), [("double", [(2, 3)], ["Add"]), ("less", [(4, 5)] * 2, ["Sub", "Mul"])]
)
def test_one_of_several_signatures(key, shapes, nodes, tmp_path):
    path = tmp_path / "m.tflite"
    several(path)
    model = raised(path, ("--signature", key))
    assert operators(model) == nodes
    random = np.random.default_rng(3)
    values = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    wanted = Interpreter(str(path)).get_signature_runner(key)(**dict(zip("ab", values, strict=False)))["y"]
    session = onnxruntime.InferenceSession(str(path.with_suffix(".onnx")))
    (made,) = session.run(None, dict(zip([port.name for port in session.get_inputs()], values, strict=True)))
    assert np.allclose(made, wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        ([], 8, "several signatures (double, less); an ONNX model has one graph; choose one with --signature double"),
        (["--signature", "les"], 2, "no signature 'les' (it has: double, less); did you mean 'less'?"),
    ],
)
def test_a_signature_must_be_chosen(options, status, words, tmp_path):
    several(tmp_path / "m.tflite")
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx", *options)
    assert done.returncode == status and words in done.stderr, done


def open_image(path):
    """The maxima of pairs of rows, of an image whose height and width are open."""
    m = Model()
    x = m.input((1, 1, 1, 3))
    m.graph.tensors[x].shapeSignature = [1, -1, -1, 3]
    window = ("Pool2DOptions", {"strideH": 2, "strideW": 1, "filterHeight": 2, "filterWidth": 1})
    y = m.op("MAX_POOL_2D", [x], (1, 1, 1, 3), options=window)
    m.write(path, [y])


def test_the_shape_of_an_open_input(tmp_path):
    path = tmp_path / "m.tflite"
    open_image(path)
    model = raised(path, ("--shape", "x0=1,6,5,3"))
    shapes = [
        [dim.dim_value for dim in port.type.tensor_type.shape.dim] for port in (*model.graph.input, *model.graph.output)
    ]
    assert shapes == [[1, 6, 5, 3], [1, 3, 5, 3]]
    value = np.random.default_rng(3).standard_normal((1, 6, 5, 3)).astype(np.float32)
    interpreter = Interpreter(str(path))
    interpreter.resize_tensor_input(0, value.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, value)
    interpreter.invoke()
    wanted = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    (made,) = onnxruntime.InferenceSession(str(path.with_suffix(".onnx"))).run(None, {"x0": value})
    assert np.array_equal(made, wanted)


def test_open_inputs_of_one_name(tmp_path):
    """Their extents are not equal for that: the smaller one is written into the larger one."""
    path = tmp_path / "m.tflite"
    m = Model()
    for size in (5, 3):
        x = m.input((size,))
        m.graph.tensors[x].name, m.graph.tensors[x].shapeSignature = "x", [-1]
    y = m.op("DYNAMIC_UPDATE_SLICE", [0, 1, m.constant([1], "i32")], (5,), options=("DynamicUpdateSliceOptions", {}))
    m.write(path, [y])
    model = raised(path)
    symbols = [port.type.tensor_type.shape.dim[0].dim_param for port in model.graph.input]
    assert symbols == ["x_dim0", "x_2_dim0"]
    values = [np.arange(5, dtype=np.float32), np.full(3, 9, np.float32)]
    _, _, ((_, wanted, _),) = run_litert(path, values)
    made = run_onnx(path.with_suffix(".onnx"), ["x", "x_2"], values)
    assert np.array_equal(next(iter(made.values())), wanted)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ("x0=1,6,5,4", "--shape x0: axis 3 is 3 in the model and cannot become 4"),
        ("x0=6,5,3", "--shape x0: the input has rank 4, not 3"),
        ("x0=1,3000000000,5,3", "--shape x0: the extent 3000000000 of axis 1 does not fit 32 bits"),
        ("x=1,6,5,3", "--shape: the model has no input 'x' (inputs: x0); did you mean 'x0'?"),
    ],
)
def test_a_shape_that_does_not_fit(shape, words, tmp_path):
    open_image(tmp_path / "m.tflite")
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx", "--shape", shape)
    assert done.returncode == 2 and words in done.stderr, done


def test_what_open_dimensions_prevent_says_what_to_do(tmp_path):
    m = Model()
    x = m.open_input((-1, -1))
    shape = m.op("SHAPE", [x], (2,), "i32", options=("ShapeOptions", {"outType": schema.TensorType.INT32}))
    inputs = [m.constant([[0, 0]], "i32"), shape, m.constant([1.0]), m.constant(0.0)]
    m.write(tmp_path / "m.tflite", [m.op("SPARSE_TO_DENSE", inputs, (1, 1))])
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode == 8, done
    words = "the shape of the result known at run time only; fix the inputs' open dimensions with --shape"
    assert words in done.stderr, done


def test_outputs_that_are_inputs_have_the_names_of_the_signature(tmp_path):
    m = Model()
    a, b = m.input((2, 3)), m.input((4,))
    add_signature(m, "swapped", 0, [a, b], [b, a])
    m.write(tmp_path / "m.tflite", [b, a])
    model = raised(tmp_path / "m.tflite")
    assert [port.name for port in model.graph.output] == ["y", "z"]


@pytest.mark.parametrize("signature", [[3, 4], [-1, 2, 4], [-1, 5], [-2, 4]], ids=str)
@pytest.mark.parametrize("is_input", [True, False])
def test_a_shape_signature_that_does_not_fit_is_ignored(is_input, signature, tmp_path):
    path = tmp_path / "m.tflite"
    m = Model()
    x = m.input((2, 4))
    y = m.op("ABS", [x], (2, 4))
    m.graph.tensors[x if is_input else y].shapeSignature = signature
    m.write(path, [m.op("NEG", [y], (2, 4))])
    agrees(path)
    note = f"shape_signature of 1 tensor does not fit the shape, first of '{'x0' if is_input else 't1'}'"
    for command in (["convert", path, "-o", tmp_path / "m.onnx"], ["inspect", path]):
        assert note in converter.run(*command).stdout
