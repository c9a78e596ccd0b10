# SPDX-License-Identifier: Apache-2.0
"""`lowtide extract`, judged by onnx's own extract_model, its checker, and ONNX Runtime on the whole model.

A part is right when it computes, from the values that the whole model has at its beginning, those at its end.
"""

import subprocess

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support import converter


@pytest.fixture(scope="module", autouse=True)
def program():
    return converter.program()


def extract(model, begin, end, out, *options):
    names = [f"--from={','.join(begin)}"] if begin else []
    return converter.run("extract", model, *names, f"--to={','.join(end)}", "-o", out, *options)


def session(path):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def tensor(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def weight(name, *shape):
    rng = np.random.default_rng(len(name) + sum(shape))
    return numpy_helper.from_array(rng.uniform(-1, 1, shape).astype(np.float32), name)


def write(path, nodes, inputs, outputs, initializers, infer=True, ir_version=8, **options):
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    domains = {node.domain for node in nodes} - {""}
    imports = [helper.make_opsetid("", 17), *(helper.make_opsetid(domain, 1) for domain in sorted(domains))]
    model = helper.make_model(graph, opset_imports=imports, ir_version=ir_version, **options)
    if infer:
        model = onnx.shape_inference.infer_shapes(model)
    onnx.save(model, path)
    return path


def chain(path, **options):
    """x[b,3,8,9] -> Conv c -> Relu r -> Split s, t -> Mul m, with a second input k and a weight in float_data."""
    typed = helper.make_tensor("bias", TensorProto.FLOAT, [4], [0.5, -1, 2, 0.25])
    nodes = [
        helper.make_node("Conv", ["x", "w", "bias"], ["c"], name="conv", pads=[1, 1, 1, 1], doc_string="kept"),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Split", ["r", "parts"], ["s", "t"], axis=1),
        helper.make_node("Mul", ["s", "k"], ["m"]),
        helper.make_node("Sub", ["m", "t"], ["y"]),
    ]
    parts = numpy_helper.from_array(np.array([2, 2], np.int64), "parts")
    inputs = [tensor("x", ["b", 3, 8, 9]), tensor("k", [8, 9])]
    initializers = [weight("w", 4, 3, 3, 3), typed, parts]
    return write(path, nodes, inputs, [tensor("y", ["b", 2, 8, 9])], initializers, **options)


def control_flow(path):
    """Bodies that use values of the main graph: h in an If, h and a weight in a Loop."""
    then_body = helper.make_graph([helper.make_node("Add", ["h", "w"], ["t"])], "then", [], [tensor("t", [5])])
    else_body = helper.make_graph([helper.make_node("Neg", ["h"], ["e"])], "else", [], [tensor("e", [5])])
    loop_body = helper.make_graph(
        [
            helper.make_node("Add", ["state", "h"], ["next"]),
            helper.make_node("Identity", ["go"], ["goes"]),
        ],
        "body",
        [tensor("i", [], TensorProto.INT64), tensor("go", [], TensorProto.BOOL), tensor("state", [5])],
        [tensor("goes", [], TensorProto.BOOL), tensor("next", [5])],
    )
    nodes = [
        helper.make_node("Sin", ["x"], ["h"]),
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["cond"]),
        helper.make_node("If", ["cond"], ["chosen"], then_branch=then_body, else_branch=else_body),
        helper.make_node("Loop", ["count", "", "chosen"], ["y"], body=loop_body),
    ]
    constants = [weight("w", 5), numpy_helper.from_array(np.float32(0), "zero")]
    constants.append(numpy_helper.from_array(np.int64(3), "count"))
    return write(path, nodes, [tensor("x", [5])], [tensor("y", [5])], constants)


def values_of(path, names):
    """What the whole model computes for random inputs: all inputs and these values."""
    model = onnx.load(path)
    declared = {v.name: v for v in [*model.graph.value_info, *model.graph.input, *model.graph.output]}
    model.graph.output.extend(declared[n] for n in names if n not in {v.name for v in model.graph.output})
    constants = {t.name for t in model.graph.initializer}
    rng = np.random.default_rng(3)
    feed = {}
    for value in model.graph.input:
        if value.name not in constants:
            dims = [d.dim_value or 2 for d in value.type.tensor_type.shape.dim]
            feed[value.name] = rng.uniform(-1, 1, dims).astype(np.float32)
    whole = path.with_suffix(".whole.onnx")
    onnx.save(model, whole)
    made = dict(zip(names, session(whole).run(names, feed)))
    whole.unlink()
    return {**feed, **made}


def check_part(path, part, begin, end):
    """The checker takes it, and it computes what the whole model does."""
    onnx.checker.check_model(str(part), full_check=True)
    values = values_of(path, [name for name in {*begin, *end} if name not in ("x", "k")])
    run = session(part)
    assert [value.name for value in run.get_outputs()] == list(end)
    found = run.run(None, {value.name: values[value.name] for value in run.get_inputs()})
    for name, array in zip(end, found):
        np.testing.assert_array_equal(array, values[name], err_msg=name)


CUTS = [
    (["x", "k"], ["y"]),
    (["r", "k"], ["y"]),
    (["x"], ["r"]),
    (["x"], ["c", "t"]),
    (["s", "t", "k"], ["y"]),
    (["c", "k"], ["m", "t"]),
    ([], ["m"]),
    ([], ["r"]),
]


@pytest.mark.parametrize(
    "options", [[], ["--external-data"], ["--weights", "in-place"]], ids=["inline", "beside", "in_place"]
)
@pytest.mark.parametrize("begin, end", CUTS)
def test_parts_equal_those_of_onnx(tmp_path, begin, end, options):
    path, part = chain(tmp_path / "m.onnx"), tmp_path / "part.onnx"
    done = extract(path, begin, end, part, *options)
    assert done.returncode == 0, done.stderr
    names = begin or [v.name for v in onnx.load(part).graph.input]
    expected = onnx.utils.Extractor(onnx.load(path)).extract_model(list(names), list(end)).graph
    found = onnx.load(part).graph
    assert list(found.node) == list(expected.node)
    assert list(found.input) == list(expected.input) and list(found.output) == list(expected.output)
    arrays = {t.name: numpy_helper.to_array(t) for t in expected.initializer}
    assert {t.name for t in found.initializer} == set(arrays)
    for t in found.initializer:
        np.testing.assert_array_equal(numpy_helper.to_array(t), arrays[t.name])
    check_part(path, part, begin, end)


@pytest.mark.parametrize(
    "begin, end", [(["h", "cond"], ["y"]), (["h", "cond"], ["chosen"]), (["chosen", "h"], ["y"]), ([], ["chosen"])]
)
def test_values_that_bodies_use_are_inputs(tmp_path, begin, end):
    path, part = control_flow(tmp_path / "m.onnx"), tmp_path / "part.onnx"
    assert extract(path, begin, end, part).returncode == 0
    check_part(path, part, begin, end)


def test_a_value_that_a_body_uses_is_missing(tmp_path):
    done = extract(control_flow(tmp_path / "m.onnx"), ["cond"], ["chosen"], tmp_path / "part.onnx")
    assert done.returncode == 2
    assert "the outputs also need inputs of the model that --from does not name: x" in done.stderr


# The node that makes s and t is needed for t, and s is an input: the node's s gets another name.
def test_a_value_that_is_given_is_not_made(tmp_path):
    path, part = chain(tmp_path / "m.onnx"), tmp_path / "part.onnx"
    begin, end = ["s", "r", "k"], ["y"]
    assert extract(path, begin, end, part).returncode == 0
    assert list(onnx.load(part).graph.node[0].output) == ["s_unused", "t"]
    check_part(path, part, begin, end)


def test_functions_that_are_called_are_kept(tmp_path):
    def function(name, op, *calls):
        nodes = [helper.make_node(op, ["a"], ["b"], domain="own" if calls else "")]
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
        return helper.make_function("own", name, ["a"], ["b"], nodes, imports)

    nodes = [
        helper.make_node("Outer", ["x"], ["u"], domain="own"),
        helper.make_node("Other", ["u"], ["v"], domain="own"),
        helper.make_node("Neg", ["v"], ["y"]),
    ]
    functions = [function("Inner", "Sin"), function("Outer", "Inner", True), function("Other", "Cos")]
    options = {"functions": functions, "infer": True}
    path = write(tmp_path / "m.onnx", nodes, [tensor("x", [5])], [tensor("y", [5])], [], **options)
    done = extract(
        path, ["x"], ["u"], tmp_path / "part.onnx", *([] if declares(path, "u") else ["--value", "u=f32[5]"])
    )
    assert done.returncode == 0, done.stderr
    part = onnx.load(tmp_path / "part.onnx")
    assert [f.name for f in part.functions] == ["Inner", "Outer"]
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_allclose(session(tmp_path / "part.onnx").run(None, {"x": x})[0], np.sin(x), rtol=1e-6)


def declares(path, name):
    return any(value.name == name for value in onnx.load(path).graph.value_info)


def test_undeclared_types_are_asked_for(tmp_path):
    path, part = chain(tmp_path / "m.onnx", infer=False), tmp_path / "part.onnx"
    done = extract(path, ["r", "k"], ["y"], part)
    assert done.returncode == 2 and "give it as --value 'r=f32[1,3,?]'" in done.stderr
    assert extract(path, ["r", "k"], ["y"], part, "--value", "r=f32[n,4,8,?]").returncode == 0
    dims = onnx.load(part).graph.input[0].type.tensor_type.shape.dim
    assert [d.dim_param or d.dim_value for d in dims] == ["n", 4, 8, 0]
    x = np.ones((2, 4, 8, 9), np.float32)
    assert session(part).run(None, {"r": x, "k": np.ones((8, 9), np.float32)})[0].shape == (2, 2, 8, 9)


# Files of IR version 3 list initializers as inputs.
def test_old_files(tmp_path):
    initializers = [weight("w", 5, 7)]
    inputs = [tensor("x", [3, 5]), tensor("w", [5, 7])]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Neg", ["m"], ["y"])]
    path = write(tmp_path / "m.onnx", nodes, inputs, [tensor("y", [3, 7])], initializers, ir_version=3)
    part = tmp_path / "part.onnx"
    assert extract(path, ["x"], ["m"], part).returncode == 0
    assert [v.name for v in onnx.load(part).graph.input] == ["x", "w"]
    check_part(path, part, ["x"], ["m"])


@pytest.mark.parametrize("inline", [True, False])
def test_in_place(tmp_path, inline):
    """Nothing is copied; the part refers to bytes of the model, or of its external data."""
    nodes = [helper.make_node("MatMul", ["x", "v"], ["c"]), helper.make_node("MatMul", ["c", "w"], ["y"])]
    initializers = [weight("v", 5, 3000), weight("w", 3000, 40)]
    path = write(tmp_path / "m.onnx", nodes, [tensor("x", [3, 5])], [tensor("y", [3, 40])], initializers)
    if not inline:
        onnx.save(onnx.load(path), path, save_as_external_data=True, location="m.bin", size_threshold=0)
    part = tmp_path / "part.onnx"
    assert extract(path, ["c"], ["y"], part, "--weights", "in-place").returncode == 0
    assert part.stat().st_size < 1000 and not (tmp_path / "part.onnx.data").exists()
    (stored,) = onnx.load(part, load_external_data=False).graph.initializer
    entries = {entry.key: entry.value for entry in stored.external_data}
    assert entries["location"] == ("m.onnx" if inline else "m.bin") and entries["length"] == str(3000 * 40 * 4)
    check_part(path, part, ["c"], ["y"])
    (tmp_path / "sub").mkdir()
    done = extract(path, ["c"], ["y"], tmp_path / "sub/part.onnx", "--weights", "in-place")
    assert done.returncode == 2 and f"choose an output path in {tmp_path} with -o" in done.stderr
    assert not list((tmp_path / "sub").iterdir())
    assert extract(path, ["c"], ["y"], tmp_path / "sub/part.onnx").returncode == 0


def test_sequences_have_no_type_that_an_option_gives(tmp_path):
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[3,4] x) => (float[6,4] y) { q = SequenceConstruct (x, x)'
    model = onnx.parser.parse_model(text + " y = ConcatFromSequence <axis = 0> (q) }")
    onnx.save(model, tmp_path / "m.onnx")
    done = extract(tmp_path / "m.onnx", ["x"], ["q"], tmp_path / "part.onnx")
    assert done.returncode == 2 and "'q' is a sequence" in done.stderr and "--value" not in done.stderr


@pytest.mark.parametrize(
    "begin, end, options, text",
    [
        (["X"], ["y"], [], "--from: no value has the name 'X'; did you mean 'x'? (values: x, k, c, "),
        (["x"], ["yy"], [], "--to: no value has the name 'yy'; did you mean 'y'?"),
        (["x", "x"], ["r"], [], "--from: 'x' is given twice"),
        (["x"], ["y"], [], "inputs of the model that --from does not name: k"),
        (["r"], ["c"], [], "inputs of the model that --from does not name: x"),
        (["x"], ["r"], ["--value", "r=f32[1]"], "--value r: the model declares the type"),
        (["x"], ["r"], ["--value", "c=f32[1]"], "--value c: it is neither in --from nor in --to"),
        (["x"], ["r"], ["--value", "r=f33[1]"], "'f33' is no element type; did you mean 'f32'?"),
        (["x"], ["r"], ["--value", "r=f32"], "'f32' is not of the form f32[1,n,?]"),
        (["x"], ["r"], ["--value", "r=f32[-1]"], "'-1' is neither an extent, nor a name, nor ?"),
        (["x"], ["r"], ["--weights", "in-place", "--external-data"], "exclude each other"),
    ],
)
def test_refused(tmp_path, begin, end, options, text):
    path = chain(tmp_path / "m.onnx")
    done = extract(path, begin, end, tmp_path / "part.onnx", *options)
    assert done.returncode == 2 and text in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not (tmp_path / "part.onnx").exists()


def test_a_value_in_a_body(tmp_path):
    done = extract(control_flow(tmp_path / "m.onnx"), [], ["e"], tmp_path / "part.onnx")
    assert done.returncode == 2 and "'e' is inside the body of node 'chosen' (If)" in done.stderr


def test_files_that_are_needed_are_kept(tmp_path):
    path = chain(tmp_path / "m.onnx")
    before = path.read_bytes()
    done = extract(path, [], ["r"], path)
    assert done.returncode == 2 and "is the input" in done.stderr and path.read_bytes() == before


# The model of one with the weights of the other would have other elements.
def test_two_at_once_do_not_mix(tmp_path):
    nodes = [helper.make_node("MatMul", ["x", f"w{i}"], [f"y{i}"]) for i in range(2)]
    outputs = [tensor("y0", [3, 700]), tensor("y1", [3, 500])]
    weights = [weight("w0", 400, 700), weight("w1", 400, 500)]
    path = write(tmp_path / "m.onnx", nodes, [tensor("x", [3, 400])], outputs, weights)
    part = tmp_path / "part.onnx"
    command = [converter.program(), "extract", path, "-o", part, "--external-data", "-q"]
    for _ in range(20):
        runs = [subprocess.Popen([*command, f"--to=y{i % 2}"], stderr=subprocess.PIPE, text=True) for i in range(4)]
        for run in runs:
            _, error = run.communicate(timeout=60)
            assert run.returncode == 0 or "another run is writing this output" in error, error
        if not part.exists():
            continue  # each found another one at work
        of = int(onnx.load(part, load_external_data=False).graph.output[0].name[1:])
        loaded = numpy_helper.to_array(onnx.load(part).graph.initializer[0])
        np.testing.assert_array_equal(loaded, numpy_helper.to_array(weights[of]))
    assert {entry.name for entry in tmp_path.iterdir()} <= {"m.onnx", "part.onnx", "part.onnx.data"}


def test_names_in_bodies_are_not_given_again(tmp_path):
    """An unused value gets a name that no value of a body has either."""
    bodies = [
        helper.make_graph([helper.make_node(op, ["s"], ["s_unused"])], op, [], [tensor("s_unused", [2, 5])])
        for op in ("Neg", "Abs")
    ]
    nodes = [
        helper.make_node("Split", ["x"], ["s", "t"], axis=0),
        helper.make_node("If", ["which"], ["c"], then_branch=bodies[0], else_branch=bodies[1]),
        helper.make_node("Mul", ["c", "t"], ["y"]),
    ]
    inputs = [tensor("x", [4, 5]), tensor("which", [], TensorProto.BOOL)]
    path = write(tmp_path / "m.onnx", nodes, inputs, [tensor("y", [2, 5])], [])
    part = tmp_path / "part.onnx"
    done = extract(path, ["s", "x", "which"], ["y"], part)
    assert done.returncode == 0, done.stderr
    assert list(onnx.load(part).graph.node[0].output) == ["s_unused_", "t"]
    x, s = np.arange(20, dtype=np.float32).reshape(4, 5), np.full((2, 5), 3, np.float32)
    (y,) = session(part).run(None, {"s": s, "x": x, "which": np.array(True)})
    np.testing.assert_array_equal(y, -s * x[2:])


def test_memory_does_not_grow_with_the_weights(tmp_path):
    """1.5 GB in a sparse file: less than 32 MiB, also where they are copied."""
    made = converter.run(
        "make-model", "conv-stack", "--size", "1500M", "--external", "--sparse", "-o", tmp_path / "m.onnx"
    )
    assert made.returncode == 0, made.stderr
    graph = onnx.load(tmp_path / "m.onnx", load_external_data=False).graph
    end = graph.output[0].name
    for options in ([], ["--weights", "in-place"]):
        done = extract(tmp_path / "m.onnx", [], [end], tmp_path / "part.onnx", *options, "--max-rss", "32M")
        assert done.returncode == 0, done.stderr
        peak = float(done.stdout.split("peak RSS ")[1].split()[0])
        assert peak < 32, done.stdout
        part = onnx.load(tmp_path / "part.onnx", load_external_data=False)
        assert len(part.graph.initializer) == len(graph.initializer)


@pytest.mark.parametrize("name", [r"w\x5cq", r"w\x00q", "w\0q"])
def test_names_with_escapes(name, tmp_path):
    """What is copied from the file and what is written anew name one weight alike."""
    nodes = [helper.make_node("MatMul", ["x", name], ["y"])]
    path = write(tmp_path / "m.onnx", nodes, [tensor("x", [3, 4])], [tensor("y", [3, 5])], [weight(name, 4, 5)])
    done = extract(path, [], ["y"], tmp_path / "part.onnx")
    assert done.returncode == 0, done.stderr
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    (wanted,), (found,) = (session(file).run(None, {"x": x}) for file in (path, tmp_path / "part.onnx"))
    np.testing.assert_array_equal(found, wanted)


def test_a_long_chain_of_functions(tmp_path):
    """Each calls the next one: neither the stack nor the time grows with more than their number."""
    count = 30000
    model = onnx.ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 17), helper.make_opsetid("f", 1)])
    for i in range(count):
        op, domain = ("Neg", "") if i + 1 == count else (f"f{i + 1}", "f")
        model.functions.add(
            name=f"f{i}", domain="f", input=["a"], output=["b"],
            node=[helper.make_node(op, ["a"], ["b"], domain=domain)],
            opset_import=[helper.make_opsetid("", 17), helper.make_opsetid("f", 1)],
        )  # fmt: skip
    nodes = [helper.make_node("f0", ["x"], ["y"], domain="f"), helper.make_node("Neg", ["x"], ["z"])]
    model.graph.CopyFrom(helper.make_graph(nodes, "g", [tensor("x", [2])], [tensor("y", [2]), tensor("z", [2])]))
    onnx.save(model, tmp_path / "m.onnx")
    for end, functions in (("y", count), ("z", 0)):
        done = converter.run("extract", tmp_path / "m.onnx", f"--to={end}", "-o", tmp_path / "part.onnx", cpu_seconds=3)
        assert done.returncode == 0, done.stderr[:300]
        assert len(onnx.load(tmp_path / "part.onnx").functions) == functions


def test_external_weights_in_sparse_initializers_of_bodies(tmp_path):
    """The part, in another folder, has them inside."""
    (tmp_path / "values.bin").write_bytes(np.array([7, 8], np.float32).tobytes())
    values = onnx.TensorProto(name="s", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    values.external_data.add(key="location", value="values.bin")
    indices = numpy_helper.from_array(np.array([0, 3], np.int64), "at")
    bodies = [
        helper.make_graph([helper.make_node("Add", ["x", "s"], ["b"])], "then", [], [tensor("b", [5])]),
        helper.make_graph([helper.make_node("Neg", ["x"], ["b"])], "else", [], [tensor("b", [5])]),
    ]
    bodies[0].sparse_initializer.append(onnx.SparseTensorProto(values=values, indices=indices, dims=[5]))
    nodes = [helper.make_node("If", ["which"], ["y"], then_branch=bodies[0], else_branch=bodies[1])]
    inputs = [tensor("x", [5]), tensor("which", [], TensorProto.BOOL)]
    path = write(tmp_path / "m.onnx", nodes, inputs, [tensor("y", [5])], [], infer=False)
    (tmp_path / "other").mkdir()
    done = extract(path, [], ["y"], tmp_path / "other" / "part.onnx")
    assert done.returncode == 0, done.stderr
    (y,) = session(tmp_path / "other" / "part.onnx").run(None, {"x": np.zeros(5, np.float32), "which": np.array(True)})
    np.testing.assert_array_equal(y, np.array([7, 0, 0, 8, 0], np.float32))


@pytest.mark.parametrize("extents", ["5,2,", "5,,2", ","])
def test_an_extent_that_is_missing(extents, tmp_path):
    path = chain(tmp_path / "m.onnx")
    done = extract(path, ["r"], ["s"], tmp_path / "p.onnx", f"--value=r=f32[{extents}]")
    assert done.returncode == 2 and "'' is neither an extent, nor a name, nor ?" in done.stderr, done
