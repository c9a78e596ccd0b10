# SPDX-License-Identifier: Apache-2.0
"""Runner: one interface over both runtimes, what it checks, and the facts about the runtimes that it stands on.

Facts are judged with the runtimes alone (functions whose names begin with fact_), so a new version of a runtime that
behaves otherwise is noticed here.
"""

import logging
import subprocess
import sys
import threading

import numpy as np
import onnx
import onnxruntime
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.options import CpuOptions, Options
from onnx import TensorProto as T
from onnx import helper

import lowtide
from lowtide import litert_session, memory, run_command, tflite_header, weight_cache
from tests.python import models
from tests.support import converter

RNG = np.random.default_rng(0)
A, B = (RNG.random((48, 48), dtype=np.float32) - 0.5 for _ in range(2))
X = RNG.random((2, 48), dtype=np.float32)


@pytest.fixture
def both(tmp_path):
    """A model as .onnx and .tflite, with its inner tensor `hidden`."""
    path = models.two_products(tmp_path / "m.onnx", A, B)
    return path, models.converted(path)


def expected(x):
    hidden = np.maximum(x @ A, 0)
    return hidden, hidden @ B + hidden * hidden


# ---- One interface ----------------------------------------------------------------------------------------------------


def test_both_runtimes_have_one_interface(both):
    for path in both:
        with lowtide.Runner(path) as runner:
            assert list(runner.inputs) == ["x"] and list(runner.outputs) == ["y"]
            port = runner.inputs["x"]
            assert (port.name, port.dtype, port.shape) == ("x", np.dtype("float32"), (2, 48))
            got = runner.run({"x": X})
            assert list(got) == ["y"] and got["y"].dtype == np.float32
            np.testing.assert_allclose(got["y"], expected(X)[1], rtol=1e-4, atol=1e-5)
            assert path.suffix == ".onnx" or "LiteRT" in runner.choice


def test_results_are_not_overwritten(both):
    for path in both:
        with lowtide.Runner(path) as runner:
            first = runner.run({"x": X})["y"]
            copy = first.copy()
            runner.run({"x": X + 1})
            np.testing.assert_array_equal(first, copy)


def test_closing(both):
    for path in both:
        runner = lowtide.Runner(path)
        runner.close()
        runner.close()
        assert "closed" in repr(runner)
        with pytest.raises(lowtide.Usage, match="is closed"):
            runner.run({"x": X})


def test_the_same_numbers_each_time(both):
    for path in both:
        results = set()
        for _ in range(2):
            with lowtide.Runner(path, threads=2) as runner:
                results |= {runner.run({"x": X})["y"].tobytes() for _ in range(3)}
        assert len(results) == 1


def test_threads_of_the_user(both):
    for path in both:
        with lowtide.Runner(path) as runner:
            right, wrong = runner.run({"x": X})["y"], []

            def work(runner=runner, right=right, wrong=wrong):
                for _ in range(20):
                    if not np.array_equal(runner.run({"x": X})["y"], right):
                        wrong.append(1)

            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert not wrong


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "float64", "int8", "int16", "int32", "int64", "uint8", "uint32", "bool"]
)
def test_element_types(dtype, tmp_path):
    path = models.identity(tmp_path / "m.onnx", dtype)
    array = np.array([[0, 1, 2], [3, 4, 5]]).astype(dtype)
    for file in (path, models.converted(path)):
        with lowtide.Runner(file) as runner:
            got = runner.run({"x": array})["y"]
            assert got.dtype == dtype
            np.testing.assert_array_equal(got, array.reshape(3, 2))


@pytest.mark.parametrize("options", [{}, {"cache": "packed"}, {"kernels": "builtin"}])
def test_inputs_and_outputs_without_elements(options, tmp_path, monkeypatch):
    """For which CompiledModel makes no buffers."""
    monkeypatch.chdir(tmp_path)
    nodes = [helper.make_node("Concat", ["e", "x"], ["y"], axis=0), helper.make_node("Relu", ["e"], ["z"])]
    inputs = [models.value("e", "float32", [0, 3]), models.value("x", "float32", [2, 3])]
    outputs = [models.value("y", "float32", [2, 3]), models.value("z", "float32", [0, 3])]
    path = models.save(tmp_path / "m.onnx", nodes, inputs, outputs)
    x = np.random.default_rng(0).random((2, 3), dtype=np.float32)
    with lowtide.Runner(models.converted(path), **options) as runner:
        for _ in range(2):
            got = runner.run({"e": x[:0], "x": x})
            np.testing.assert_array_equal(got["y"], x)
            assert got["z"].shape == (0, 3)


@pytest.mark.parametrize("options", [{}, {"cache": "packed"}, {"cache": "packed", "kernels": "xnnpack"}])
def test_a_dynamic_input_without_elements(options, tmp_path, monkeypatch):
    """Packed weights in a file need CompiledModel; where the model is run without it for once, it stays loaded."""
    monkeypatch.chdir(tmp_path)
    nodes = [
        helper.make_node("ReduceSum", ["x", "axes"], ["s"], keepdims=1),
        helper.make_node("MatMul", ["s", "w"], ["y"]),
    ]
    constants = {"axes": np.array([0]), "w": RNG.random((3, 4), dtype=np.float32)}
    inputs, outputs = [models.value("x", "float32", ["n", 3])], [models.value("y", "float32", [1, 4])]
    path = models.save(tmp_path / "m.onnx", nodes, inputs, outputs, constants)
    with lowtide.Runner(models.converted(path), **options) as runner:
        choice = runner.choice
        assert ("mapped file" in choice) == ("cache" in options)
        for rows in (2, 0, 3, 0):
            x = RNG.random((rows, 3), dtype=np.float32)
            expected = x.sum(0, keepdims=True) @ constants["w"]
            np.testing.assert_allclose(runner.run({"x": x})["y"], expected, rtol=1e-5)
        assert runner.choice == choice


def test_names_are_listed_once(tmp_path):
    path = models.product(tmp_path / "m.onnx", A)
    for file in (path, models.converted(path)):
        with lowtide.Runner(file) as runner, pytest.raises(lowtide.Usage, match="no output or inner tensor") as caught:
            runner.run({"x": X}, ["nothing like it"])
        names = str(caught.value).split("there are ")[1].split(", ")
        assert len(names) == len(set(names))


def test_scalars_and_arrays_without_elements(tmp_path):
    scalar = models.identity(tmp_path / "s.onnx", "float32", (), (1,))
    dynamic = models.product(tmp_path / "d.onnx", A, rows="n")
    for path in (scalar, models.converted(scalar)):
        with lowtide.Runner(path) as runner:
            assert runner.run({"x": np.array(3, np.float32)})["y"].tolist() == [3]
    with lowtide.Runner(dynamic) as runner:
        assert runner.run({"x": np.empty((0, 48), np.float32)})["y"].shape == (0, 48)


@pytest.fixture
def unranked(tmp_path):
    """y = Relu(x), of which the model declares no shapes, and a scalar s."""
    ports = [models.value(name, "float32", None) for name in ("x", "y")]
    scalars = [models.value(name, "float32", []) for name in ("s", "t")]
    nodes = [
        helper.make_node("Relu", ["x"], ["h"]),
        helper.make_node("Neg", ["h"], ["y"]),
        helper.make_node("Neg", ["s"], ["t"]),
    ]
    return models.save(tmp_path / "m.onnx", nodes, [ports[0], scalars[0]], [ports[1], scalars[1]])


def test_shapes_that_nobody_declares(unranked):
    s = np.array(1, np.float32)
    lowtide.partition(unranked, unranked.with_suffix(".pieces"), exclude_op="Relu", prefer="coverage")
    for path in (unranked, unranked.with_suffix(".pieces")):
        with lowtide.Runner(path) as runner:
            assert [port.shape for port in (*runner.inputs.values(), *runner.outputs.values())] == [None, (), None, ()]
            assert str(runner.inputs["x"]) == "float32[...]"
            inner = runner.inner_ports([name for name in runner.tensors if name == "h"])
            assert all(port.shape is None for port in inner.values()) and ("h" in inner or path != unranked)
            for shape in ((), (3,), (2, 3)):
                x = np.full(shape, 2, np.float32)
                np.testing.assert_array_equal(
                    runner.run({"x": x, "s": s})["y"], np.full(shape, -2, np.float32), strict=True
                )
            with pytest.raises(lowtide.Usage, match="input 's' is float32"):
                runner.run({"x": x, "s": x})


def test_shapes_that_nobody_declares_in_commands(unranked, tmp_path):
    tflite = lowtide.convert(unranked, tmp_path / "m.tflite", shape={"x": (2, 3)}).output
    assert lowtide.verify(unranked, tflite).passed
    assert lowtide.verify(unranked, tflite, shape={"x": (2, 3)}, by_tensor=True).passed
    with pytest.raises(lowtide.Usage, match="--shape x=EXTENTS"):
        run_command.main([str(unranked)])
    np.savez(tmp_path / "one.npz", x=np.ones((2, 3), np.float32), s=np.float32(1))
    np.savez(tmp_path / "four.npz", x=np.ones((4, 2, 3), np.float32), s=np.ones(4, np.float32))
    assert lowtide.verify(unranked, tflite, inputs=tmp_path / "one.npz").samples == 1
    assert lowtide.verify(unranked, tflite, inputs=tmp_path / "four.npz").samples == 4
    found = lowtide.calibrate(unranked, samples=tmp_path / "four.npz", choose="none")
    assert found.samples == 4 and {"x", "y", "h"} <= set(found.content["tensors"])


def test_dynamic_shapes(tmp_path):
    path = models.product(tmp_path / "m.onnx", A, rows="n")
    for file in (path, models.converted(path)):
        with lowtide.Runner(file) as runner:
            assert runner.inputs["x"].shape[0] in (None, "n") and runner.inputs["x"].shape[1] == 48
            for rows in (1, 7, 300, 2):
                x = RNG.random((rows, 48), dtype=np.float32)
                np.testing.assert_allclose(runner.run({"x": x})["y"], np.maximum(x @ A, 0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernels", ["xnnpack", "builtin", "reference"])
def test_extents_that_a_kernel_refuses_at_one(kernels, tmp_path):
    """An axis of 1, which stands in the file for one that is not fixed, has nothing to reflect: planned with the first run."""
    path = models.save(
        tmp_path / "m.onnx",
        [helper.make_node("Pad", ["x", "by"], ["y"], mode="reflect")],
        [models.value("x", "float32", ["rows", 5])],
        [models.value("y", "float32", None)],
        {"by": np.array([2, 0, 3, 1])},
    )
    given = np.arange(20, dtype=np.float32).reshape(4, 5)
    with lowtide.Runner(models.converted(path), kernels=kernels) as runner:
        for rows in (4, 1, 4):
            if rows == 1:
                with pytest.raises(lowtide.Unsupported, match="LiteRT cannot run the model.*addings"):
                    runner.run({"x": given[:1]})
                continue
            expected = np.pad(given, ((2, 3), (0, 1)), mode="reflect")
            np.testing.assert_array_equal(runner.run({"x": given})["y"], expected)


@pytest.mark.parametrize(
    "x, count", [([[0, 1, 2], [0, 0, 1]], 3), ([[0, 0, 0], [0, 0, 0]], 0), ([[1, 1, 1], [1, 1, 1]], 6)]
)
def test_shapes_that_only_the_run_knows(x, count, tmp_path):
    path = models.non_zero(tmp_path / "m.onnx")
    x = np.array(x, np.float32)
    for file in (path, models.converted(path)):
        with lowtide.Runner(file) as runner:
            got = runner.run({"x": x})["y"]
            assert got.shape == (2, count)
            np.testing.assert_array_equal(got, np.array(np.nonzero(x)))


# ---- What is checked --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "inputs, kind, words",
    [
        ({"x": X[:1]}, lowtide.Usage, r"input 'x' is float32\[2, 48\], not \[1, 48\]"),
        ({"x": X.reshape(-1)}, lowtide.Usage, r"not \[96\]"),
        ({"x": X.reshape(48, 2)}, lowtide.Usage, r"not \[48, 2\]"),
        ({"x": X.astype(np.float64)}, lowtide.Usage, "is float32, not float64"),
        ({"x": X.astype(">f4")}, lowtide.Usage, "big-endian"),
        ({"y": X}, lowtide.Usage, "no input is called 'y'"),
        ({"x": X, "X": X}, lowtide.Usage, "no input is called 'X'"),
        ({}, lowtide.Usage, "no array for input 'x'"),
        ({"x": X.tolist()}, TypeError, "must be a numpy.ndarray, not list"),
        ({"x": None}, TypeError, "must be a numpy.ndarray, not NoneType"),
        ({"x": np.ma.masked_array(X)}, TypeError, "not MaskedArray"),
        (X, TypeError, "must be a mapping"),
    ],
)
def test_inputs_are_checked(inputs, kind, words, both):
    for path in both:
        with lowtide.Runner(path) as runner, pytest.raises(kind, match=words):
            runner.run(inputs)


def test_order_in_memory_may_be_any(both):
    for path in both:
        with lowtide.Runner(path) as runner:
            right = runner.run({"x": X})["y"]
            wide = np.repeat(X, 2, axis=1)[:, ::2]
            for view in (np.asfortranarray(X), X.T.copy().T, wide, X[::-1][::-1], X.view(np.memmap) * 1):
                np.testing.assert_array_equal(runner.run({"x": view})["y"], right)


def test_a_dimension_that_is_two_numbers(tmp_path):
    path = models.save(
        tmp_path / "m.onnx",
        [models.helper.make_node("Add", ["a", "b"], ["y"])],
        [models.value("a", "float32", ["n", 3]), models.value("b", "float32", ["n", 3])],
        [models.value("y", "float32", ["n", 3])],
    )
    with (
        lowtide.Runner(path) as runner,
        pytest.raises(lowtide.Usage, match="dimension 'n' is 1 in input 'b', but 2 in 'a'"),
    ):
        runner.run({"a": np.ones((2, 3), np.float32), "b": np.ones((1, 3), np.float32)})


@pytest.mark.parametrize(
    "outputs, kind, words",
    [
        (["z"], lowtide.Usage, "no output or inner tensor is called 'z'"),
        (["hiden"], lowtide.Usage, "did you mean 'hidden'"),
        ("y", TypeError, "sequence of str"),
    ],
)
def test_outputs_are_checked(outputs, kind, words, both):
    for path in both:
        with lowtide.Runner(path) as runner, pytest.raises(kind, match=words):
            runner.run({"x": X}, outputs)


@pytest.mark.parametrize(
    "options, kind, words",
    [
        ({"max_rss": "much"}, lowtide.Usage, "is not a size"),
        ({"max_rss": 0}, lowtide.Usage, "is not a size"),
        ({"max_rss": 1.5}, TypeError, "max_rss must be"),
        ({"threads": 0}, lowtide.Usage, "must be 1 or more"),
        ({"threads": "2"}, TypeError, "threads must be"),
        ({"kernels": "fast"}, lowtide.Usage, "must be one of xnnpack"),
        ({"optimization": "all"}, lowtide.Usage, "optimization is not for .tflite files"),
        ({"signature": "nobody"}, lowtide.Usage, "no signature is called 'nobody'"),
    ],
)
def test_options_are_checked(options, kind, words, both):
    with pytest.raises(kind, match=words):
        lowtide.Runner(both[1], **options)


@pytest.mark.parametrize(
    "text, count", [(7, 7), ("64M", 64 << 20), ("0.5G", 1 << 29), ("1kib", 1024), ("2TB", 2 << 40)]
)
def test_sizes_are_the_programs(text, count):
    assert memory.size("max_rss", text) == count


def test_options_of_the_other_runtime(both):
    with pytest.raises(lowtide.Usage, match="kernels is not for .onnx files"):
        lowtide.Runner(both[0], kernels="builtin")
    with pytest.raises(TypeError):
        lowtide.Runner(3)


# ---- Inner tensors, kernels, signatures --------------------------------------------------------------------------------


def test_inner_tensors(both):
    hidden, y = expected(X)
    for path, options in [
        (both[0], {}),
        (both[0], {"optimization": "none"}),
        *((both[1], {"kernels": kernels}) for kernels in (None, "xnnpack", "builtin", "reference")),
    ]:
        with lowtide.Runner(path, **options) as runner:
            inner = next(name for name in runner.tensors if name.startswith("hidden"))
            plain = runner.run({"x": X})["y"]
            got = runner.run({"x": X}, [inner, "y"])
            assert list(got) == [inner, "y"]
            np.testing.assert_allclose(got[inner], hidden, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(got["y"], y, rtol=1e-4, atol=1e-5)
            assert path.suffix == ".onnx" or np.array_equal(got["y"], plain)  # the same kernels
            assert list(runner.run({"x": X})) == ["y"]
            np.testing.assert_allclose(runner.run({"x": X}, [inner])[inner], hidden, rtol=1e-4, atol=1e-5)


def test_inner_tensors_of_dynamic_shape(tmp_path):
    path = models.two_products(tmp_path / "m.onnx", A, B, rows="n")
    for file in (path, models.converted(path)):
        with lowtide.Runner(file) as runner:
            inner = next(name for name in runner.tensors if name.startswith("hidden"))
            for rows in (3, 5):
                x = RNG.random((rows, 48), dtype=np.float32)
                np.testing.assert_allclose(runner.run({"x": x}, [inner])[inner], expected(x)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("suffix", [".onnx", ".tflite"])
def test_a_failed_request_for_inner_tensors_leaves_the_runner(suffix, both, monkeypatch):
    """Also one that fails when the model has been given back already."""
    path = next(path for path in both if path.suffix == suffix)
    x = {"x": X}
    with lowtide.Runner(path) as runner:
        wanted = runner.run(x)["y"]
        path.rename(path.with_name("moved"))
        with pytest.raises(lowtide.NotFound):
            runner.run(x, runner.tensors)
        np.testing.assert_array_equal(runner.run(x)["y"], wanted)
        path.with_name("moved").rename(path)
        name = {".onnx": "_create", ".tflite": "_loaded"}[suffix]

        def refused(*_):
            raise lowtide.Unsupported("no")

        with monkeypatch.context() as patch:
            patch.setattr(type(runner._session), name, refused)
            with pytest.raises(lowtide.Unsupported, match="no"):
                runner.run(x, runner.tensors)
        np.testing.assert_array_equal(runner.run(x)["y"], wanted)
        assert set(runner.run(x, runner.tensors)) == set(runner.tensors)


def test_outputs_without_a_name_are_no_tensors(tmp_path):
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("LSTM", ["x", "W", "R"], ["", "h"], hidden_size=4),
        helper.make_node("Relu", ["h"], ["y"]),
    ]
    weights = {"W": rng.random((1, 16, 3), np.float32), "R": rng.random((1, 16, 4), np.float32)}
    inputs, outputs = [models.value("x", "float32", [5, 2, 3])], [models.value("y", "float32", [1, 2, 4])]
    with lowtide.Runner(models.save(tmp_path / "m.onnx", nodes, inputs, outputs, weights)) as runner:
        assert runner.tensors == ["h", "y"]
        assert set(runner.run({"x": rng.random((5, 2, 3), np.float32)}, runner.tensors)) == {"h", "y"}


def test_kernels_are_those_that_were_asked_for(both):
    results = {}
    for kernels in ("xnnpack", "builtin", "reference"):
        with lowtide.Runner(both[1], kernels=kernels) as runner:
            assert kernels in runner.choice.lower()
            results[kernels] = runner.run({"x": X})["y"]
            np.testing.assert_allclose(results[kernels], expected(X)[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("is_node", [False, True])
@pytest.mark.parametrize("activation", ["Relu", "Clip"])
@pytest.mark.parametrize("dtype", [T.FLOAT8E4M3FN, T.FLOAT8E5M2FNUZ, T.INT4, T.UINT4, T.INT8, T.UINT16])
def test_activations_in_front_of_quantize_linear(dtype, activation, is_node, tmp_path):
    """ONNX Runtime's rules drop a Relu in front of f8 and 4-bit integers, and fail for Clip: lowtide.onnx_rules."""
    zero = helper.make_tensor("zero", dtype, [], [0])
    bounds = ["low", "high"] if activation == "Clip" else []
    nodes = [
        helper.make_node(activation, ["x", *bounds], ["a"]),
        helper.make_node("QuantizeLinear", ["a", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale"], ["y"]),
    ]
    if is_node:
        nodes.insert(0, helper.make_node("Constant", [], ["zero"], value=zero))
    ports = [models.value("x", "float32", [2, 9])], [models.value("y", "float32", [2, 9])]
    constants = {"scale": np.float32(0.5), "low": np.float32(0), "high": np.float32(3)}
    path = models.save(tmp_path / "m.onnx", nodes, *ports, {n: np.array(of) for n, of in constants.items()}, opset=21)
    if not is_node:
        model = onnx.load(path)
        model.graph.initializer.append(zero)
        onnx.save(model, path)
    x = np.linspace(-3, 3, 18, dtype=np.float32).reshape(2, 9)
    with lowtide.Runner(path, optimization="none") as plain, lowtide.Runner(path, optimization="all") as optimised:
        expected = plain.run({"x": x})["y"]
        assert expected.min() == 0
        np.testing.assert_array_equal(optimised.run({"x": x})["y"], expected)


def test_weights_of_floats_stay_floats(tmp_path):
    """ONNX Runtime's rule rounds the weights of a convolution to 8 bits that is in front of QuantizeLinear, and an output too."""
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["d"]),
        helper.make_node("Conv", ["d", "w"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "scale", "zero"], ["q"]),
    ]
    inputs = [models.value("x", "int8", [2, 3, 4, 5])]
    outputs = [models.value("c", "float32", [2, 7, 4, 5]), models.value("q", "int8", [2, 7, 4, 5])]
    weights = RNG.normal(size=(7, 3, 1, 1)).astype(np.float32)
    constants = {"scale": np.array(1 / 64, np.float32), "zero": np.array(3, np.int8), "w": weights}
    path = models.save(tmp_path / "m.onnx", nodes, inputs, outputs, constants)
    x = RNG.integers(-60, 60, (2, 3, 4, 5)).astype(np.int8)
    expected = np.einsum("oi,nihw->nohw", weights[:, :, 0, 0], (x - np.float32(3)) / 64)
    for level in ("none", "basic", "all"):
        with lowtide.Runner(path, optimization=level) as runner:
            np.testing.assert_allclose(runner.run({"x": x})["c"], expected, atol=1e-5)


def test_optimisation_levels(both):
    for level in ("none", "basic", "extended", "all"):
        with lowtide.Runner(both[0], optimization=level) as runner:
            assert f"level {level}" in runner.choice
            np.testing.assert_allclose(runner.run({"x": X})["y"], expected(X)[1], rtol=1e-4, atol=1e-5)


def two_signatures(one, other, path):
    """A file with the graphs of two models, a signature each."""
    import flatbuffers

    first, second = (schema.ModelT.InitFromPackedBuf(file.read_bytes(), 0) for file in (one, other))
    shift, codes = len(first.buffers), len(first.operatorCodes)
    first.buffers += second.buffers
    first.operatorCodes += second.operatorCodes
    for graph in second.subgraphs:
        for tensor in graph.tensors:
            tensor.buffer = tensor.buffer + shift if tensor.buffer else 0
        for operator in graph.operators:
            operator.opcodeIndex += codes
    first.subgraphs += second.subgraphs
    first.signatureDefs[0].signatureKey = b"one"
    second.signatureDefs[0].signatureKey, second.signatureDefs[0].subgraphIndex = b"other", 1
    first.signatureDefs += second.signatureDefs
    first.metadata = None
    builder = flatbuffers.Builder(1024)
    builder.Finish(first.Pack(builder), b"TFL3")
    path.write_bytes(builder.Output())


@pytest.mark.parametrize("cache", [False, True])
def test_signatures(cache, tmp_path):
    one = models.converted(models.product(tmp_path / "one.onnx", A))
    other = models.converted(models.product(tmp_path / "other.onnx", B))
    path = tmp_path / "m.tflite"
    two_signatures(one, other, path)
    with pytest.raises(lowtide.Usage, match="has 2 signatures, name one: 'one', 'other'"):
        lowtide.Runner(path)
    for key, weights in (("one", A), ("other", B)):
        options = {"cache": tmp_path / "cache"} if cache else {}
        with lowtide.Runner(path, signature=key, **options) as runner:
            assert ("mapped file" in runner.choice) == cache
            np.testing.assert_allclose(runner.run({"x": X})["y"], np.maximum(X @ weights, 0), rtol=1e-4, atol=1e-5)
            if key == "other":
                with pytest.raises(lowtide.Unsupported, match="only the main subgraph gives inner tensors"):
                    runner.run({"x": X}, ["x"])


@pytest.fixture
def in_place(tmp_path):
    """A model whose .tflite file has its weights in the .onnx model's file, and both files."""
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["h"], transB=1),
        helper.make_node("ReduceMax", ["h", "axes"], ["y"], keepdims=0),
    ]
    inputs, outputs = [models.value("x", "float32", ["n", 128])], [models.value("y", "float32", [128])]
    constants = {"w": RNG.random((128, 128), dtype=np.float32), "axes": np.array([0])}
    path = models.save(tmp_path / "m.onnx", nodes, inputs, outputs, constants, opset=18)
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="m.data")
    out = lowtide.convert(path, tmp_path / "m.tflite", weights="in-place").output
    assert tflite_header.read_header(str(out)).external_files
    return path, out


def test_a_model_with_weights_in_the_onnx_file(in_place):
    x = RNG.random((2, 128), dtype=np.float32)
    with lowtide.Runner(in_place[0]) as of_onnx, lowtide.Runner(in_place[1]) as runner:
        np.testing.assert_allclose(runner.run({"x": x})["y"], of_onnx.run({"x": x})["y"], rtol=1e-4)
        with pytest.raises(lowtide.Unsupported, match="weights in other files"):
            runner.run({"x": x}, [runner.tensors[0]])
        with pytest.raises(lowtide.Unsupported, match="input 'x' has no elements; .*weights in other files"):
            runner.run({"x": x[:0]})
        np.testing.assert_allclose(runner.run({"x": x})["y"], of_onnx.run({"x": x})["y"], rtol=1e-4)


# ---- Facts about LiteRT's CompiledModel --------------------------------------------------------------------------------


def fact_compiled(path, x, cache=""):
    """One run of CompiledModel without any of the package's checks."""
    model = CompiledModel.from_file(
        str(path), options=Options(cpu_options=CpuOptions(num_threads=1, xnnpack_weight_cache_path=str(cache)))
    )
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    inputs[0].write(x)
    model.run_by_index(0, inputs, outputs)
    shape = model.get_output_tensor_details("serving_default")["y"]["shape"]
    return outputs[0].read(int(np.prod(shape)), np.float32).reshape(shape)


def test_fact_a_cache_of_another_model_is_used_silently(tmp_path):
    one, two = (
        models.converted(models.product(tmp_path / name, weights))
        for name, weights in (("one.onnx", A), ("two.onnx", 2 * A))
    )
    right = fact_compiled(one, X, tmp_path / "cache")
    assert np.array_equal(fact_compiled(two, X), 2 * right)
    assert np.array_equal(fact_compiled(two, X, tmp_path / "cache"), right)


def test_a_cache_of_another_model_is_never_used(tmp_path):
    folder = tmp_path / "cache"
    for factor in (1, 2):
        path = models.converted(models.product(tmp_path / f"{factor}.onnx", factor * A))
        for _ in range(2):
            with lowtide.Runner(path, cache=folder) as runner:
                assert "packed weights in a mapped file" in runner.choice
                np.testing.assert_allclose(
                    runner.run({"x": X})["y"], factor * np.maximum(X @ A, 0), rtol=1e-4, atol=1e-5
                )
    assert len(list(folder.iterdir())) == 2 and all(p.suffix == ".xnnpack" for p in folder.iterdir())


def test_the_name_of_a_cache_has_package_and_processor(tmp_path, monkeypatch):
    path = str(models.converted(models.product(tmp_path / "m.onnx", A)))
    header = tflite_header.read_header(path)
    names = {weight_cache.cache_name(path, header)}
    monkeypatch.setattr(weight_cache, "_version", lambda: "9.9.9")
    names.add(weight_cache.cache_name(path, header))
    monkeypatch.setattr(weight_cache, "_cpu_features", lambda: "another processor")
    names.add(weight_cache.cache_name(path, header))
    assert len(names) == 3


def test_a_cache_folder_that_others_may_write(tmp_path):
    path = models.converted(models.product(tmp_path / "m.onnx", A))
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(lowtide.UnsafePath, match="writable by nobody else"):
        lowtide.Runner(path, cache=folder)
    with pytest.raises(lowtide.NotFound, match="cannot be made"):
        lowtide.Runner(path, cache=path / "below a file")


def test_a_private_cache_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(litert_session, "CACHE_FROM", 0)
    monkeypatch.setattr(weight_cache.tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    path = models.converted(models.product(tmp_path / "m.onnx", A, rows=2))
    with lowtide.Runner(path) as runner:
        assert "packed weights in a mapped file" in runner.choice
        assert list((tmp_path / "tmp").iterdir()) == []
        np.testing.assert_allclose(runner.run({"x": X})["y"], np.maximum(X @ A, 0), rtol=1e-4, atol=1e-5)


def test_fact_both_interfaces_of_litert_give_the_same_numbers(both):
    with lowtide.Runner(both[1]) as runner:
        assert "in memory" in runner.choice
        np.testing.assert_array_equal(runner.run({"x": X})["y"], fact_compiled(both[1], X))


def test_fact_compiled_model_takes_an_array_that_is_too_short(tmp_path):
    path = models.converted(models.product(tmp_path / "m.onnx", np.abs(A)))
    got = fact_compiled(path, X[:1])
    assert got.shape == (2, 48) and np.all(got[0] > 0) and not np.array_equal(got[0], got[1])


def test_fact_onnx_runtime_takes_big_endian_bytes_as_they_are(both):

    session = onnxruntime.InferenceSession(str(both[0]))
    wrong = session.run(None, {"x": X.astype(">f4")})[0]
    assert not np.allclose(wrong, expected(X)[1], rtol=1e-2)


# ---- Logs, refusals, absent packages ------------------------------------------------------------------------------------


def test_what_runtimes_print_is_logged(both, environment):
    """LiteRT prints this line once in a process."""
    script = """
import logging, os, sys, lowtide
logging.basicConfig(level=logging.DEBUG, stream=sys.stdout)
lowtide.Runner(sys.argv[1]).close()
os.write(2, b"still there")
"""
    done = subprocess.run(
        [sys.executable, "-c", script, both[1]], env=environment, capture_output=True, text=True, check=True
    )
    assert "lowtide.runtime:INFO: Created TensorFlow Lite XNNPACK delegate" in done.stdout
    assert done.stderr == "still there"


def test_warnings_of_a_load_are_logged_as_warnings(tmp_path, caplog, capfd):
    """An initializer that nothing uses: ONNX Runtime warns of it."""
    path = models.save(
        tmp_path / "m.onnx",
        [models.helper.make_node("Relu", ["x"], ["y"])],
        [models.value("x", "float32", [2])],
        [models.value("y", "float32", [2])],
        {"unused": np.ones(3, np.float32)},
    )
    with caplog.at_level(logging.WARNING, "lowtide.runtime"), lowtide.Runner(path):
        pass
    assert any("unused" in record.message and record.levelno == logging.WARNING for record in caplog.records)
    assert capfd.readouterr().err == ""


def test_a_child_that_is_forked_while_runtimes_print(both, python):
    assert (
        python("""
import os, sys
from lowtide.runtime_log import captured
with captured():
    pid = os.fork()
    if pid == 0:
        os._exit(0 if os.fstat(2).st_ino == int(os.environ.get("INODE", "0")) or os.readlink("/proc/self/fd/2").startswith("pipe:") else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
""").strip()
        == "0"
    )


def test_a_model_that_a_runtime_refuses(tmp_path):
    path = models.save(
        tmp_path / "m.onnx",
        [models.helper.make_node("NoSuchOperator", ["x"], ["y"])],
        [models.value("x", "float32", [2])],
        [models.value("y", "float32", [2])],
    )
    with pytest.raises(lowtide.Unsupported, match="ONNX Runtime does not load the model.*NoSuchOperator"):
        lowtide.Runner(path)


def test_words_of_a_runtime_are_one_line(tmp_path):
    """Names of a model may have any characters."""
    node = helper.make_node("Nobody", ["x"], ["y"], name="a\nb")
    path = models.save(tmp_path / "m.onnx", [node], *([models.value(name, "float32", [2])] for name in ("x", "y")))
    with pytest.raises(lowtide.Unsupported, match="does not load the model") as caught:
        lowtide.Runner(path)
    assert len(str(caught.value).splitlines()) == 1


def test_a_custom_operator_that_litert_does_not_have(tmp_path):
    import flatbuffers

    path = models.converted(models.product(tmp_path / "m.onnx", A))
    model = schema.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
    model.operatorCodes[0].builtinCode = model.operatorCodes[0].deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
    model.operatorCodes[0].customCode = b"Mystery"
    for operator in model.subgraphs[0].operators:
        operator.builtinOptions, operator.builtinOptionsType = None, 0
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(builder.Output())
    with pytest.raises(lowtide.Unsupported, match="Mystery"):
        lowtide.Runner(path).run({"x": X})


@pytest.mark.parametrize(
    "package, suffix, command",
    [("onnxruntime", ".onnx", "pip install onnxruntime"), ("ai_edge_litert", ".tflite", "pip install ai-edge-litert")],
)
def test_an_absent_runtime(package, suffix, command, both, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(lowtide.RuntimeMissing) as caught:
        lowtide.Runner(both[0].with_suffix(suffix))
    assert command in str(caught.value) and sys.executable in str(caught.value)


def test_the_package_needs_no_runtime(python):
    assert (
        python(
            "import lowtide, sys; print([m for m in ('onnxruntime', 'ai_edge_litert', 'onnx', 'ml_dtypes') "
            "if m in sys.modules])"
        ).strip()
        == "[]"
    )


SHARED = converter.ROOT.parent / "shared/models"


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"{SHARED} is absent: no real models")
@pytest.mark.parametrize("path", sorted(SHARED.glob("*/*")), ids=lambda path: path.name)
def test_real_models(path):
    """Every shared model runs, or its runtime says why not; two runs give the same numbers."""
    if path.suffix not in (".onnx", ".tflite"):
        pytest.skip("not a model")
    try:
        runner = lowtide.Runner(path)
    except lowtide.Unsupported as error:
        pytest.skip(str(error)[:200])
    with runner:
        inputs = {}
        for name, port in runner.inputs.items():
            shape = tuple(n if isinstance(n, int) else 1 for n in port.shape)
            inputs[name] = np.random.default_rng(0).random(shape).astype(port.dtype)
        try:
            first = runner.run(inputs)
        except lowtide.Unsupported as error:
            pytest.skip(f"dynamic dimensions of 1: {str(error)[:200]}")
        second = runner.run(inputs)
        for name, port in runner.outputs.items():
            assert first[name].dtype == port.dtype
            np.testing.assert_array_equal(first[name], second[name])


def test_both_kinds_of_64_bit_integers(tmp_path):
    path = models.converted(models.identity(tmp_path / "i.onnx", "int64"))
    with lowtide.Runner(path) as runner:
        for char in "lq":
            x = np.arange(6).astype(np.dtype(char)).reshape(2, 3)
            np.testing.assert_array_equal(runner.run({"x": x})["y"], x.reshape(3, 2))
