# SPDX-License-Identifier: Apache-2.0
"""The two header readers against the formats' own libraries, on real models and on damaged ones."""

import os
import random
import time
import tracemalloc

import flatbuffers
import numpy as np
import onnx
import pytest
from ai_edge_litert import schema_py_generated as schema
from onnx import TensorProto, external_data_helper, helper, numpy_helper

import lowtide
from lowtide import onnx_graph, onnx_header, tflite_graph, tflite_header
from tests.python import models
from tests.support import converter

SHARED = converter.ROOT.parent / "shared/models"
ONNX = sorted(SHARED.glob("onnx*/*.onnx"))
TFLITE = sorted(SHARED.glob("tflite/*.tflite"))
NO_MODELS = f"{SHARED} is absent: no real models"


def test_type_numbers_are_the_schemas():
    numbers = {value for value in vars(schema.TensorType).values() if isinstance(value, int)}
    assert set(tflite_header.TYPE_NAMES) == numbers
    for name, number in vars(schema.TensorType).items():
        ours = tflite_header.TYPE_NAMES.get(number) if isinstance(number, int) else None
        if ours is not None and ours != "object":
            assert ours.upper() == name


def by_schema(path):
    model = schema.Model.GetRootAs(path.read_bytes(), 0)
    tensors = []
    for g in range(model.SubgraphsLength()):
        graph = model.Subgraphs(g)
        rows = []
        for t in range(graph.TensorsLength()):
            tensor = graph.Tensors(t)
            signature = [tensor.ShapeSignature(i) for i in range(tensor.ShapeSignatureLength())]
            shape = signature or [tensor.Shape(i) for i in range(tensor.ShapeLength())]
            rows.append(((tensor.Name() or b"").decode(), tensor.Type(), tuple(n if n >= 0 else None for n in shape)))
        tensors.append(rows)
    main = model.Subgraphs(0)
    ports = (
        [main.Inputs(i) for i in range(main.InputsLength())],
        [main.Outputs(i) for i in range(main.OutputsLength())],
    )
    size = sum(model.Buffers(b).Size() or model.Buffers(b).DataLength() for b in range(model.BuffersLength()))
    return tensors, ports, size


@pytest.mark.skipif(not TFLITE, reason=NO_MODELS)
def test_tflite_headers_of_real_models():
    for path in TFLITE:
        header = tflite_header.read_header(str(path))
        tensors, ports, size = by_schema(path)
        assert [[(t.name, t.type, t.shape) for t in graph] for graph in header.tensors] == tensors
        signature = header.signatures[0]
        assert ({t.index for _, t in signature.inputs}, {t.index for _, t in signature.outputs}) == tuple(
            map(set, ports)
        )
        assert header.constant_bytes <= 2 * size
        assert header.external_files == []


def test_constant_bytes_are_those_of_the_packed_weights(tmp_path):
    path = models.product(tmp_path / "m.onnx", np.ones((64, 32), np.float32))
    plain = tflite_header.read_header(str(models.converted(path)))
    assert 64 * 32 * 4 <= plain.constant_bytes < 64 * 32 * 4 + 256
    half = tflite_header.read_header(str(lowtide.convert(path, tmp_path / "h.tflite", weights="f16").output))
    assert half.constant_bytes == pytest.approx(plain.constant_bytes, abs=256)
    behind = tflite_header.read_header(str(lowtide.convert(path, tmp_path / "b.tflite", external_buffers=True).output))
    assert behind.constant_bytes == plain.constant_bytes


@pytest.mark.skipif(not ONNX, reason=NO_MODELS)
def test_skeletons_of_real_models(tmp_path):
    """With its external data loaded by `onnx`, a skeleton is the model; large Constant nodes are initializers in it."""
    for path in ONNX:
        model = onnx.load(path)
        skeleton = onnx_header.read_skeleton(str(path))
        assert skeleton.tensors == [
            name
            for node in model.graph.node
            for name in node.output
            if not (
                node.op_type == "Constant"
                and len(node.SerializeToString()) >= onnx_header.SMALL
                and any(a.name == "value" for a in node.attribute)
            )
        ]
        loaded = onnx.load_model_from_string(skeleton.model)
        external_data_helper.load_external_data_for_model(loaded, "/")
        assert len(skeleton.model) <= len(model.SerializeToString())
        constants = {
            node.output[0]: a.t
            for node in model.graph.node
            if node.op_type == "Constant"
            for a in node.attribute
            if a.name == "value"
        }
        for tensor in loaded.graph.initializer:
            match = [t for t in model.graph.initializer if t.name == tensor.name] or [constants[tensor.name]]
            np.testing.assert_array_equal(numpy_helper.to_array(tensor), numpy_helper.to_array(match[0]))
        for of in (model, loaded):
            del of.graph.initializer[:]
            kept = [node for node in of.graph.node if node.op_type != "Constant"]
            del of.graph.node[:]
            of.graph.node.extend(kept)
        assert loaded == model


def two_part_message(path):
    """A model whose graph is in two parts, with packed floats and doubles, in no usual order."""
    floats = TensorProto(
        dims=[100, 50], data_type=TensorProto.FLOAT, float_data=np.arange(5000, dtype=np.float32), name="f"
    )
    doubles = TensorProto(dims=[3000], data_type=TensorProto.DOUBLE, double_data=np.arange(3000.0), name="d")
    first = onnx.GraphProto(initializer=[floats], name="g")
    second = onnx.GraphProto(
        node=[helper.make_node("MatMul", ["x", "f"], ["y"]), helper.make_node("Identity", ["d"], ["z"])],
        initializer=[doubles],
        input=[models.value("x", "float32", [2, 100])],
        output=[models.value("y", "float32", [2, 50]), models.value("z", "float64", [3000])],
    )
    parts = [
        onnx.ModelProto(graph=second).SerializeToString(),
        onnx.ModelProto(ir_version=8).SerializeToString(),
        onnx.ModelProto(graph=first, opset_import=[helper.make_opsetid("", 17)]).SerializeToString(),
    ]
    path.write_bytes(b"".join(parts))


def test_parts_of_messages_and_packed_numbers(tmp_path):
    two_part_message(tmp_path / "m.onnx")
    skeleton = onnx_header.read_skeleton(str(tmp_path / "m.onnx"))
    assert len(skeleton.model) < 1000 and skeleton.weight_bytes == 5000 * 4 + 3000 * 8
    x = np.random.default_rng(0).random((2, 100), dtype=np.float32)
    with lowtide.Runner(tmp_path / "m.onnx") as runner:
        got = runner.run({"x": x})
    np.testing.assert_allclose(got["y"], x @ np.arange(5000, dtype=np.float32).reshape(100, 50), rtol=1e-5)
    np.testing.assert_array_equal(got["z"], np.arange(3000.0))


def test_a_large_constant_node(tmp_path):
    weights = np.random.default_rng(0).random((100, 50), dtype=np.float32)
    nodes = [
        helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(weights, "another name")),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    models.save(
        tmp_path / "m.onnx", nodes, [models.value("x", "float32", [2, 100])], [models.value("y", "float32", [2, 50])]
    )
    assert len(onnx_header.read_skeleton(str(tmp_path / "m.onnx")).model) < 1000
    x = np.ones((2, 100), np.float32)
    with lowtide.Runner(tmp_path / "m.onnx") as runner:
        np.testing.assert_allclose(runner.run({"x": x})["y"], x @ weights, rtol=1e-5)


def external(path, location, tmp_path):
    weights = np.arange(8192, dtype=np.float32).reshape(128, 64)
    tensor = numpy_helper.from_array(weights, "w")
    external_data_helper.set_external_data(tensor, location)
    tensor.ClearField("raw_data")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [models.value("x", "float32", [2, 128])],
        [models.value("y", "float32", [2, 64])],
        [tensor],
    )
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )
    return weights


def test_models_in_a_cache_of_links(tmp_path):
    """The hub's layout: model and weights are links into another folder."""
    for folder in ("blobs", "snapshot"):
        (tmp_path / folder).mkdir()
    weights = external(tmp_path / "blobs/aaa", "m.onnx_data", tmp_path)
    (tmp_path / "blobs/bbb").write_bytes(weights.tobytes())
    os.symlink("../blobs/aaa", tmp_path / "snapshot/m.onnx")
    os.symlink("../blobs/bbb", tmp_path / "snapshot/m.onnx_data")
    x = np.ones((2, 128), np.float32)
    with lowtide.Runner(tmp_path / "snapshot/m.onnx") as runner:
        np.testing.assert_allclose(runner.run({"x": x})["y"], x @ weights, rtol=1e-5)


@pytest.mark.parametrize("location", ["../w.bin", "/etc/hostname", "a/../../w.bin", ""])
def test_external_data_outside_of_the_folder(location, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "w.bin").write_bytes(bytes(8192 * 4))
    external(tmp_path / "model/m.onnx", location or "x", tmp_path)
    if not location:
        model = onnx.load(tmp_path / "model/m.onnx", load_external_data=False)
        model.graph.initializer[0].external_data[0].value = ""
        (tmp_path / "model/m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(lowtide.UnsafePath, match="not below the model's folder"):
        lowtide.Runner(tmp_path / "model/m.onnx")


# ---- Tensors anywhere in a model ---------------------------------------------------------------------------------------

W = np.random.default_rng(1).random((64, 80), dtype=np.float32)  # 20 KiB: more than SMALL


def outside(name="w", location="w.bin", **fields):
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=W.shape, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, "offset": "0", "length": str(W.nbytes)}.items():
        tensor.external_data.add(key=key, value=value)
    tensor.MergeFrom(TensorProto(**fields))
    return tensor


def body(*initializers, nodes=()):
    product = helper.make_node("MatMul", ["x", "w"], ["o"])
    return helper.make_graph([*nodes, product], "b", [], [onnx.ValueInfoProto(name="o")], initializers)


def branches(graph):
    return helper.make_node("If", ["c"], ["y"], then_branch=graph, else_branch=graph)


def constant(tensor):
    return helper.make_node("Constant", [], ["w"], value=tensor)


def whole(*nodes, sparse=(), functions=(), initializers=()):
    graph = helper.make_graph(
        nodes,
        "g",
        [models.value("x", "float32", [2, 64]), models.value("c", "bool", [])],
        [models.value("y", "float32", [2, 80])],
        initializers,
        sparse_initializer=sparse,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=functions)


def function(node, attribute=None):
    made = helper.make_function("f", "F", ["x"], ["y"], [node], [helper.make_opsetid("", 17)])
    if attribute is not None:
        made.attribute_proto.append(attribute)
    return made


def places(t):
    """Models with the external tensor `t`, by where it is."""
    product = helper.make_node("MatMul", ["x", "w"], ["y"])
    sparse = onnx.SparseTensorProto(values=t, indices=TensorProto(name="i", data_type=7, dims=[1]), dims=[64, 80])
    custom = helper.make_node("F", ["x"], ["y"], domain="f")
    attributes = {"t": t, "s": sparse, "ts": [t], "gs": [body(t)], "ss": [sparse]}
    out = {
        "initializer": whole(product, initializers=[t]),
        "constant": whole(constant(t), product),
        "branch": whole(branches(body(t))),
        "constant of a branch": whole(branches(body(nodes=[constant(t)]))),
        "branch of a branch": whole(
            branches(helper.make_graph([branches(body(t))], "b", [], [onnx.ValueInfoProto(name="y")]))
        ),
        "sparse initializer": whole(product, sparse=[sparse]),
        "function": whole(custom, functions=[function(constant(t))]),
        "attribute of a function": whole(custom, functions=[function(product, helper.make_attribute("a", t))]),
        "training": whole(product),
    }
    out["training"].training_info.add().algorithm.CopyFrom(body(t))
    for name, value in attributes.items():
        out[f"attribute {name}"] = whole(helper.make_node("F", ["x"], ["y"], domain="f", **{name: value}))
    return out


def of_a_tensor_in_parts(data):
    """Its payload twice, which hid that it is outside."""
    tensor = TensorProto(raw_data=W.tobytes()).SerializeToString() * 2 + outside(location=data).SerializeToString()
    graph = (
        onnx_header.message(5, tensor) + whole(helper.make_node("MatMul", ["x", "w"], ["y"])).graph.SerializeToString()
    )
    return onnx_header.message(7, graph)


def of_a_constant_in_parts(data):
    tensor = onnx_header.message(5, TensorProto(raw_data=W.tobytes()).SerializeToString())
    tensor += onnx_header.message(5, outside(location=data).SerializeToString())
    attribute = onnx.AttributeProto(name="value", type="TENSOR").SerializeToString() + tensor
    node = helper.make_node("Constant", [], ["w"]).SerializeToString() + onnx_header.message(5, attribute)
    return onnx_header.message(7, onnx_header.message(1, node))


@pytest.mark.parametrize("location", ["../w.bin", "/etc/hostname", "work/../../w.bin"])
def test_external_data_outside_of_the_folder_wherever_it_is(location, tmp_path):
    path = tmp_path / "m.onnx"
    files = {name: model.SerializeToString() for name, model in places(outside(location=location)).items()}
    files["tensor in parts"], files["constant in parts"] = (
        of_a_tensor_in_parts(location),
        of_a_constant_in_parts(location),
    )
    for name, data in files.items():
        path.write_bytes(data)
        with pytest.raises((lowtide.UnsafePath, lowtide.Malformed)) as caught:
            onnx_header.read_skeleton(str(path))
            pytest.fail(name)
        assert isinstance(caught.value, lowtide.UnsafePath) or name == "tensor in parts"


def test_external_data_is_named_from_the_root_wherever_it_is(tmp_path):
    """All else is kept as it is."""
    path = tmp_path / "m.onnx"
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    where = os.path.relpath(tmp_path / "w.bin", "/")
    for (name, model), wanted in zip(places(outside()).items(), places(outside(location=where)).values()):
        path.write_bytes(model.SerializeToString())
        skeleton = onnx_header.read_skeleton(str(path))
        assert skeleton.files == {str(tmp_path / "w.bin")}, name
        if name == "constant":  # is an initializer now
            assert skeleton.tensors == ["y"] and where.encode() in skeleton.model
        else:
            assert onnx.load_model_from_string(skeleton.model) == wanted, name


@pytest.mark.parametrize(
    "name", ["initializer", "constant", "branch", "constant of a branch", "branch of a branch", "function"]
)
@pytest.mark.parametrize("level", ["all", "none"])
def test_external_data_is_read_wherever_it_is(name, level, tmp_path):
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    model = places(outside())[name]
    if name == "function":
        made = function(constant(outside()))
        made.node.append(helper.make_node("MatMul", ["x", "w"], ["y"]))
        model.functions[0].CopyFrom(made)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    x = np.random.default_rng(0).random((2, 64), dtype=np.float32)
    with lowtide.Runner(tmp_path / "m.onnx", optimization=level) as runner:
        given = {"x": x, "c": np.array(True)}
        np.testing.assert_allclose(runner.run(given)["y"], x @ W, rtol=1e-5)


def test_weights_of_bodies_are_not_copied(tmp_path):
    model = whole(branches(body(numpy_helper.from_array(W, "w"))))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    assert len(onnx_header.read_skeleton(str(tmp_path / "m.onnx")).model) < 1000
    x = np.random.default_rng(0).random((2, 64), dtype=np.float32)
    with lowtide.Runner(tmp_path / "m.onnx") as runner:
        np.testing.assert_allclose(runner.run({"x": x, "c": np.array(False)})["y"], x @ W, rtol=1e-5)


def test_numbers_that_are_not_packed_are_not_kept(tmp_path):
    """And the last of several floats is no value of a tensor."""
    integers = bytes([0x28, 0xFF, 0xFF, 0x7F]) * 50_000
    floats = onnx_header.message(8, b"f") + bytes([0x08, 2, 0x10, 1, *2 * (0x25, 0, 0, 0x80, 0x3F)])
    tensors = onnx_header.message(5, bytes([0x10, TensorProto.INT32]) + integers) + onnx_header.message(5, floats)
    (tmp_path / "m.onnx").write_bytes(onnx_header.message(7, tensors))
    tracemalloc.start()
    try:
        graph = onnx_graph.read_graph(str(tmp_path / "m.onnx"))
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()
    assert [each.number for each in graph.initializers.values()] == [None, None]


def test_a_field_that_only_protobuf_sees(tmp_path):
    """It keeps the low 32 bits of a key."""
    entry = onnx.StringStringEntryProto(key="location", value="/etc/hostname").SerializeToString()
    key = onnx_header.varint(1 << 32 | 13 << 3 | 2)
    tensor = outside().SerializeToString() + key + onnx_header.varint(len(entry)) + entry
    graph = whole(helper.make_node("MatMul", ["x", "w"], ["y"])).graph.SerializeToString()
    (tmp_path / "m.onnx").write_bytes(onnx_header.message(7, graph + onnx_header.message(5, tensor)))
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    with pytest.raises(lowtide.Malformed, match=r"\d+ is not the key of a field"):
        lowtide.Runner(tmp_path / "m.onnx")
    (tmp_path / "m.onnx").write_bytes(b"\x3a\x05\x0a")
    with pytest.raises(lowtide.Malformed, match="byte 0: field 7 ends after the message that it is in"):
        lowtide.Runner(tmp_path / "m.onnx")


def test_bodies_in_bodies_without_end(tmp_path):
    graph = body(outside()).SerializeToString()
    for _ in range(40):  # a graph in an attribute in a node in a graph
        graph = onnx_header.message(1, onnx_header.message(5, onnx_header.message(6, graph)))
    (tmp_path / "m.onnx").write_bytes(onnx_header.message(7, graph))
    with pytest.raises(lowtide.Malformed, match="in each other"):
        onnx_header.read_skeleton(str(tmp_path / "m.onnx"))


def test_a_file_of_onnx_runtimes_own_format_is_none(tmp_path):
    """Which it says by bytes 4 to 7."""
    (tmp_path / "m.onnx").write_bytes(
        b"\x12\x06abORTM" + whole(helper.make_node("Relu", ["x"], ["y"])).SerializeToString()
    )
    with lowtide.Runner(tmp_path / "m.onnx") as runner:
        assert list(runner.outputs) == ["y"]


def test_pipes_are_no_models(tmp_path):
    os.mkfifo(tmp_path / "m.onnx")
    os.mkfifo(tmp_path / "m.tflite")
    for read in (
        lowtide.Runner,
        lambda path: onnx_header.read_skeleton(str(path)),
        lambda path: tflite_header.read_header(str(path)),
        lambda path: tflite_graph.TfliteGraph(str(path)),
        lambda path: lowtide.verify(path, tmp_path / "m.tflite"),
        lambda path: lowtide.calibrate(path, samples=[]),
    ):
        with pytest.raises(lowtide.UnsafePath, match="m.onnx: not a regular file"):
            read(tmp_path / "m.onnx")
    models.identity(tmp_path / "i.onnx", "float32")
    with pytest.raises(lowtide.UnsafePath, match="m.onnx: not a regular file"):
        lowtide.verify(tmp_path / "i.onnx", models.converted(tmp_path / "i.onnx"), inputs=tmp_path / "m.onnx")
    (tmp_path / "e.onnx").write_bytes(places(outside(location="m.onnx"))["branch"].SerializeToString())
    with pytest.raises(lowtide.UnsafePath, match="not a regular file"):
        lowtide.Runner(tmp_path / "e.onnx")


def many_references(count):
    """A file with `count` references to one subgraph, which has as many to one tensor."""
    builder = flatbuffers.Builder(1024)

    def vector(target):
        builder.StartVector(4, count, 4)
        for _ in range(count):
            builder.PrependUOffsetTRelative(target)
        return builder.EndVector()

    schema.TensorStart(builder)
    tensors = vector(schema.TensorEnd(builder))
    schema.SubGraphStart(builder)
    schema.SubGraphAddTensors(builder, tensors)
    graphs = vector(schema.SubGraphEnd(builder))
    schema.ModelStart(builder)
    schema.ModelAddVersion(builder, 3)
    schema.ModelAddSubgraphs(builder, graphs)
    builder.Finish(schema.ModelEnd(builder), b"TFL3")
    return bytes(builder.Output())


def test_references_to_one_table_are_counted(tmp_path):
    """As the program counts them: 16 kB would be four million tensors."""
    path = tmp_path / "m.tflite"
    path.write_bytes(many_references(2000))
    words = "more than 1000000 tables, the limit of the runtimes"
    begun = time.process_time()
    for read in (tflite_header.read_header, tflite_graph.TfliteGraph):
        with pytest.raises(lowtide.Malformed, match=words):
            read(str(path))
    done = converter.run("inspect", path)
    assert done.returncode == 6 and words in done.stderr, done
    path.write_bytes(many_references(900))
    header = tflite_header.read_header(str(path))
    assert len(header.tensors) == 900 and {len(tensors) for tensors in header.tensors} == {900}
    assert time.process_time() - begun < 2


def damaged(data, seed):
    rng = random.Random(seed)
    data = bytearray(data)
    kind = rng.randrange(3)
    if kind == 0:
        return bytes(data[: rng.randrange(len(data))])
    for _ in range(1 if kind == 1 else 20):
        data[rng.randrange(min(len(data), 4096))] = rng.randrange(256)
    return bytes(data)


@pytest.mark.parametrize("suffix, read", [(".tflite", tflite_header.read_header), (".onnx", onnx_header.read_skeleton)])
def test_damaged_files(suffix, read, tmp_path):
    """An error of the package or a header, never another exception."""
    path = models.two_products(tmp_path / "m.onnx", np.ones((64, 64), np.float32), np.ones((64, 64), np.float32))
    models.converted(path)
    data = path.with_suffix(suffix).read_bytes()
    refused = 0
    for seed in range(400):
        file = tmp_path / "damaged"
        file.write_bytes(damaged(data, seed))
        try:
            read(str(file))
        except lowtide.Error as error:
            assert error.file == str(file)
            refused += 1
    assert refused > 50


@pytest.mark.parametrize(
    "content, name, kind",
    [
        (b"", "m.onnx", lowtide.Malformed),
        (b"", "m.tflite", lowtide.Malformed),
        (b"nonsense" * 9, "m.tflite", lowtide.Malformed),
        (b"\x28\xb5\x2f\xfd" + bytes(40), "m.onnx.zst", lowtide.Unsupported),
        (b"\xff" * 40, "m.onnx", lowtide.Malformed),
        (None, "m.onnx", lowtide.NotFound),
    ],
)
def test_files_that_are_no_models(content, name, kind, tmp_path):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(kind, match=name):
        lowtide.Runner(tmp_path / name)
