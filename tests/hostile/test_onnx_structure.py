# SPDX-License-Identifier: Apache-2.0
"""ONNX files with a broken structure: graphs, names, versions, functions, tensors, the protobuf itself. A row is one defect, and
the words that its error must have. Wrong operators stand in test_onnx_operators.py, external data in test_external_data.py.
"""

import random

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.hostile.good_model import good_model, initializer, node
from tests.hostile.refusal import BrokenFiles, converter, refuse, refuse_model

broken = BrokenFiles()


def test_the_good_model_converts(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(good_model(), path)
    assert converter.convert(path, tmp_path / "m.tflite").status == "converted"


# Names and edges.


@broken("malformed", "the_gemm", "nowhere")
def missing_input(m):
    node(m, "the_gemm").input[0] = "nowhere"


@broken("malformed", "cycle")
def cycle(m):
    node(m, "the_conv").input[0] = "r"


@broken("malformed", "cycle")
def node_that_reads_its_own_output(m):
    node(m, "the_conv").input[0] = "conv_out"


@broken("malformed", "conv_out")
def two_nodes_with_one_output(m):
    node(m, "the_gemm").output[0] = "conv_out"


@broken("malformed", "the_split", "'twice' is given twice")
def node_with_one_output_twice(m):
    m.graph.node.append(helper.make_node("Split", ["conv_out"], ["twice", "twice"], axis=1, name="the_split"))
    node(m, "the_reshape").input[0] = "twice"


@broken("malformed", "the_input")
def output_that_is_an_input(m):
    node(m, "the_conv").output[0] = "the_input"


@broken("malformed", "the_bias")
def output_that_is_an_initializer(m):
    node(m, "the_conv").output[0] = "the_bias"


@broken("malformed", "nowhere")
def missing_graph_output(m):
    m.graph.output[0].name = "nowhere"


@broken("malformed", "output")
def graph_output_without_a_name(m):
    m.graph.output[0].name = ""


@broken("malformed", "input")
def graph_input_without_a_name(m):
    m.graph.input[0].name = ""


@broken("malformed", "the_kernel")
def initializer_twice(m):
    m.graph.initializer.append(initializer(m, "the_kernel"))


@broken("malformed", "the_bias")
def initializer_and_sparse_initializer(m):
    sparse = m.graph.sparse_initializer.add()
    sparse.values.CopyFrom(numpy_helper.from_array(np.ones(1, np.float32), "the_bias"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.zeros(1, np.int64), "i"))
    sparse.dims.append(5)


@broken("malformed", "have no name")
def two_initializers_without_a_name(m):
    initializer(m, "the_kernel").name = initializer(m, "the_bias").name = ""


@broken("malformed", "the_input")
def graph_input_twice(m):
    m.graph.input.append(m.graph.input[0])


@broken("malformed", "operator")
def node_without_an_operator(m):
    node(m, "the_conv").op_type = ""


@broken("malformed", "the_kernel", "f32[4,3,3,2]", "f32[4,3,5,5]")
def initializer_that_contradicts_its_input(m):
    m.graph.input.append(helper.make_tensor_value_info("the_kernel", TensorProto.FLOAT, [4, 3, 5, 5]))


# Versions.


@broken("malformed", "opset_import")
def no_opset(m):
    del m.opset_import[:]


@broken("unsupported", "9999")
def opset_of_the_future(m):
    m.opset_import[0].version = 9999


@broken("malformed", "-13")
def negative_opset(m):
    m.opset_import[0].version = -13


@broken("malformed", "version 0")
def opset_zero(m):
    m.opset_import[0].version = 0


@broken("malformed", "opset")
def opset_of_another_domain_only(m):
    m.opset_import[0].domain = "com.microsoft"


@broken("malformed", "no graph")
def no_graph(m):
    m.ClearField("graph")


@broken("malformed", "ir_version")
def no_ir_version(m):
    m.ClearField("ir_version")


@broken("malformed", "ir_version")
def negative_ir_version(m):
    m.ir_version = -3


@broken("unsupported", "ir_version 2147483648")
def ir_version_of_the_future(m):
    m.ir_version = 2**31


@broken("unsupported", "the_reshape", "nobody.knows")
def unknown_domain(m):
    node(m, "the_reshape").domain = "nobody.knows"
    m.opset_import.append(helper.make_opsetid("nobody.knows", 1))


@broken("unsupported", "the_reshape", "nobody.knows")
def unknown_domain_without_opset(m):
    node(m, "the_reshape").domain = "nobody.knows"


@broken("unsupported", "the_reshape", "Reshapeify")
def unknown_operator(m):
    node(m, "the_reshape").op_type = "Reshapeify"


# Functions.


def call_functions(m, *functions):
    """`functions` are (name, nodes[, inputs, outputs]); the_reshape calls the first."""
    for name, nodes, *ports in functions:
        inputs, outputs = ports or (["p"], ["q"])
        m.functions.append(
            helper.make_function(
                "own", name, inputs, outputs, nodes, [helper.make_opsetid("", 13), helper.make_opsetid("own", 1)]
            )
        )
    m.opset_import.append(helper.make_opsetid("own", 1))
    m.graph.node[1].CopyFrom(helper.make_node(functions[0][0], ["conv_out"], ["r"], name="the_call", domain="own"))


def call(name, source="p", target="q"):
    return helper.make_node(name, [source], [target], domain="own")


@broken("malformed", "Again", "calls itself")
def function_that_calls_itself(m):
    call_functions(m, ("Again", [call("Again")]))


@broken("unsupported", "the_call", "opset 9999")
def function_of_an_opset_of_the_future(m):
    call_functions(m, ("Own", [helper.make_node("Neg", ["p"], ["q"])]))
    m.functions[0].opset_import[0].version = 9999


@broken("malformed", "calls itself")
def functions_that_call_each_other(m):
    call_functions(m, ("Ping", [call("Pong")]), ("Pong", [call("Ping")]))


@broken("malformed", "64 deep")
def functions_that_call_each_other_deeply(m):
    call_functions(
        m, *[(f"F{i}", [call(f"F{i + 1}")]) for i in range(500)], ("F500", [helper.make_node("Identity", ["p"], ["q"])])
    )


@broken("malformed", "nodes")
def functions_that_grow_exponentially(m):
    def doubles(i):
        return (f"F{i}", [call(f"F{i + 1}", "p", "t"), call(f"F{i + 1}", "t", "q")])

    call_functions(m, *map(doubles, range(40)), ("F40", [helper.make_node("Identity", ["p"], ["q"])]))


@broken("malformed", "expand to more than", "MB")
def functions_that_copy_a_long_text(m):
    texts = helper.make_node("Identity", ["p"], ["q"], name="n" * 1000)
    texts.attribute.append(helper.make_attribute("list", list(range(200_000))))
    call_functions(m, ("F", [call("G", "p", "t0")]), ("G", [texts]))
    calls = [call("G", f"t{i}", f"t{i + 1}") for i in range(1000)]
    m.functions[0].node.extend([*calls, call("G", "t1000", "q")])


@broken("malformed", "own.Same")
def function_twice(m):
    call_functions(m, *[("Same", [helper.make_node("Identity", ["p"], ["q"])])] * 2)


@broken("malformed", "has no name")
def function_without_a_name(m):
    call_functions(m, ("F", [helper.make_node("Identity", ["p"], ["q"])]))
    m.functions[0].name = ""


@broken("malformed", "nowhere")
def function_that_uses_what_it_is_not_given(m):
    call_functions(m, ("F", [helper.make_node("Identity", ["nowhere"], ["q"])]))


@broken("malformed", "q")
def function_that_gives_no_output(m):
    call_functions(m, ("F", [helper.make_node("Identity", ["p"], ["another"])]))


@broken("malformed", "cycle")
def function_with_a_cycle(m):
    call_functions(m, ("F", [helper.make_node("Add", ["p", "q"], ["t"]), helper.make_node("Identity", ["t"], ["q"])]))


@broken("malformed", "q")
def function_with_two_nodes_for_one_output(m):
    call_functions(m, ("F", [helper.make_node("Identity", ["p"], ["q"]), helper.make_node("Neg", ["p"], ["q"])]))


@broken("malformed", "the_call", "input")
def call_with_too_many_inputs(m):
    call_functions(m, ("F", [helper.make_node("Identity", ["p"], ["q"])]))
    m.graph.node[1].input.append("the_bias")


@broken("malformed", "the_call", "output")
def call_with_too_many_outputs(m):
    call_functions(m, ("F", [helper.make_node("Identity", ["p"], ["q"])]))
    m.graph.node[1].output.append("more")


@broken("malformed", "alpha")
def reference_to_an_attribute_outside_a_function(m):
    given = node(m, "the_gemm").attribute.add()
    given.name, given.ref_attr_name, given.type = "alpha", "alpha", onnx.AttributeProto.FLOAT


# Tensors.


@broken("malformed", "the_kernel", "287")
def too_little_data(m):
    initializer(m, "the_kernel").raw_data = initializer(m, "the_kernel").raw_data[:-1]


@broken("malformed", "the_kernel", "292")
def too_much_data(m):
    initializer(m, "the_kernel").raw_data += b"\0\0\0\0"


@broken("malformed", "the_kernel")
def no_data(m):
    initializer(m, "the_kernel").ClearField("raw_data")


@broken("malformed", "the_kernel")
def dims_whose_product_overflows(m):
    initializer(m, "the_kernel").dims[:] = [2**31, 2**31, 2**31, 2]


@broken("malformed", "the_kernel")
def dims_whose_product_is_zero_in_64_bits(m):
    initializer(m, "the_kernel").dims[:] = [2**32, 2**32, 3, 2]
    initializer(m, "the_kernel").raw_data = b""


@broken("malformed", "the_kernel")
def dims_whose_product_is_right_in_64_bits(m):
    initializer(m, "the_kernel").dims[:] = [2**62 + 18, 4, 1, 1]


@broken("malformed", "the_kernel")
def largest_dims(m):
    initializer(m, "the_kernel").dims[:] = [2**63 - 1, 2**63 - 1, 3, 2]


@broken("malformed", "the_kernel")
def dims_whose_bytes_overflow(m):
    initializer(m, "the_kernel").dims[:] = [2**62, 1, 1, 1]


@broken("malformed", "the_kernel")
def negative_dims(m):
    initializer(m, "the_kernel").dims[:] = [-4, -3, 3, 2]


@broken("malformed", "the_kernel")
def zero_among_dims(m):
    initializer(m, "the_kernel").dims[:] = [4, 0, 3, 2]


@broken("unsupported", "the_kernel", "1004 axes")
def a_thousand_dims(m):
    initializer(m, "the_kernel").dims[:] = [4, 3, 3, 2] + [1] * 1000


@broken("malformed", "the_kernel", "77")
def unknown_type(m):
    initializer(m, "the_kernel").data_type = 77


@broken("malformed", "the_kernel")
def no_type(m):
    initializer(m, "the_kernel").data_type = 0


@broken("malformed", "the_kernel", "-1")
def negative_type(m):
    initializer(m, "the_kernel").data_type = -1


@broken("malformed", "the_kernel", "more than one place")
def two_payloads(m):
    initializer(m, "the_kernel").float_data.extend([0.0] * 72)


@broken("malformed", "the_kernel", "int32_data")
def data_in_the_field_of_another_type(m):
    initializer(m, "the_kernel").ClearField("raw_data")
    initializer(m, "the_kernel").int32_data.extend([0] * 72)


@broken("malformed", "the_kernel", "more than one field")
def data_in_two_typed_fields(m):
    initializer(m, "the_kernel").ClearField("raw_data")
    initializer(m, "the_kernel").int32_data.extend([0] * 36)
    initializer(m, "the_kernel").float_data.extend([0] * 36)


@broken("malformed", "the_kernel", "71")
def too_few_typed_numbers(m):
    initializer(m, "the_kernel").ClearField("raw_data")
    initializer(m, "the_kernel").float_data.extend([0.5] * 71)


@broken("malformed", "the_kernel", "segment")
def segment(m):
    initializer(m, "the_kernel").segment.begin = 0
    initializer(m, "the_kernel").segment.end = 72


@broken("malformed", "the_kernel", "data_location 7")
def unknown_data_location(m):
    # The message refuses to be given such a value, so it is put in as bytes: field 14, varint 7.
    initializer(m, "the_kernel").MergeFromString(b"\x70\x07")


@broken("malformed", "the_kernel", "data_location")
def external_entries_of_inline_data(m):
    initializer(m, "the_kernel").external_data.add(key="location", value="w.bin")


@broken("malformed", "shape")
def strings_in_raw_data(m):
    initializer(m, "shape").data_type = TensorProto.STRING


@broken("malformed", "the_kernel")
def strings_as_floats(m):
    initializer(m, "the_kernel").ClearField("raw_data")
    initializer(m, "the_kernel").string_data.extend([b"1"] * 72)


# Sparse tensors: the_bias, five numbers.


def sparse_bias(m, values=(1.0, 2.0), indices=(1, 3), dims=(5,), index_type=np.int64):
    m.graph.initializer.remove(initializer(m, "the_bias"))
    sparse = m.graph.sparse_initializer.add()
    sparse.values.CopyFrom(numpy_helper.from_array(np.array(values, np.float32), "the_bias"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.array(indices, index_type), "the_indices"))
    sparse.dims.extend(dims)


@broken("malformed", "the_bias")
def sparse_index_beyond_the_tensor(m):
    sparse_bias(m, indices=(1, 5))


@broken("malformed", "the_bias")
def sparse_index_that_is_negative(m):
    sparse_bias(m, indices=(-1, 3))


@broken("malformed", "the_bias")
def sparse_indices_that_are_not_sorted(m):
    sparse_bias(m, indices=(3, 1))


@broken("malformed", "the_bias")
def sparse_index_twice(m):
    sparse_bias(m, indices=(3, 3))


@broken("malformed", "the_bias")
def sparse_indices_of_another_number(m):
    sparse_bias(m, indices=(1, 2, 3))


@broken("malformed", "the_bias")
def sparse_indices_of_another_rank(m):
    sparse_bias(m, indices=((1, 0), (3, 0)))


@broken("malformed", "the_bias")
def sparse_indices_of_another_type(m):
    sparse_bias(m, index_type=np.int32)


@broken("malformed", "the_bias")
def sparse_values_that_are_a_matrix(m):
    sparse_bias(m, values=((1.0,), (2.0,)))


@broken("malformed", "the_bias")
def sparse_dims_that_are_negative(m):
    sparse_bias(m, dims=(-5,))


@broken("malformed", "the_bias")
def sparse_dims_whose_product_overflows(m):
    sparse_bias(m, dims=(2**62, 2**62))


# Inputs.


@broken("unsupported", "the_input")
def input_dims_whose_product_overflows(m):
    for dim in m.graph.input[0].type.tensor_type.shape.dim:
        dim.dim_value = 2**62


@broken("malformed", "the_input")
def input_of_an_unknown_type(m):
    m.graph.input[0].type.tensor_type.elem_type = 99


@broken("malformed", "the_input", "no type")
def input_without_a_type(m):
    m.graph.input[0].ClearField("type")


@broken("unsupported", "the_input")
def input_that_is_a_sequence(m):
    m.graph.input[0].CopyFrom(helper.make_tensor_sequence_value_info("the_input", TensorProto.FLOAT, None))


@broken("malformed", "nest deeper")
def input_that_is_a_sequence_of_sequences_without_end(m):
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, [1])
    for _ in range(95):
        kind = helper.make_sequence_type_proto(kind)
    m.graph.input[0].type.CopyFrom(kind)


# Attributes.


def attributes(m):
    return node(m, "the_conv").attribute


@broken("malformed", "the_conv", "kernel_shape")
def attribute_twice(m):
    attributes(m).append(attributes(m)[0])


@broken("malformed", "the_conv", "kernel_shape")
def attribute_of_two_types(m):
    attributes(m)[0].s = b"3,2"


@broken("malformed", "the_conv", "kernel_shape")
def attribute_whose_type_is_another(m):
    attributes(m)[0].type = onnx.AttributeProto.FLOATS


@broken("malformed", "the_conv", "attribute type 99")
def attribute_of_an_unknown_type(m):
    attributes(m)[0].MergeFromString(b"\xa0\x01\x63")


@broken("malformed", "the_conv", "strides")
def attribute_that_is_a_string(m):
    attributes(m).append(helper.make_attribute("strides", "two"))


@broken("unsupported", "the_conv", "speed")
def unknown_attribute(m):
    attributes(m).append(helper.make_attribute("speed", 3))


@broken("malformed", "the_conv", "pads")
def attribute_of_a_million_numbers(m):
    attributes(m).append(helper.make_attribute("pads", [0] * 1_000_000))


@broken("malformed", "the_conv", "has no name")
def attribute_without_a_name(m):
    attributes(m)[0].name = ""


@broken("malformed", "attribute")
def attribute_that_is_a_graph(m):
    attributes(m).append(helper.make_attribute("strides", m.graph))


@pytest.mark.parametrize("damage, kind, words", broken.rows, ids=broken.ids())
def test_structure(damage, kind, words, tmp_path, record_property):
    model = good_model()
    damage(model)
    refuse_model(model, tmp_path, kind, words)
    record_property("hostile files refused", 1)


# The protobuf itself: bytes that no writer makes.


def varint(value):
    out = bytearray()
    while True:
        out.append(value & 0x7F | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)


def field(number, body):
    return varint(number << 3 | 2) + varint(len(body)) + body


GRAPH, IR_VERSION, NODE = 7, b"\x08\x08", 1
WHOLE = good_model().SerializeToString()
BYTES = {
    "nothing": (b"", "the file is empty"),
    "zero": (b"\0", "tag 0"),
    "ones": (b"\xff" * 100, "number of more than 10 bytes"),
    "zip": (b"PK\x03\x04 a zip", "a zip archive, not an ONNX model"),
    "png": (b"\x89PNG\r\n\x1a\n" + b"\0" * 50, "protobuf"),
    "lfs pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n", "git lfs pull"),
    "text": (b"graph(%x : Float) { }", "it looks like text"),
    "number of eleven bytes": (b"\x08" + b"\xff" * 10 + b"\x01", "more than 10 bytes"),
    "number that is cut": (b"\x08\xff\xff", "ends within a number"),
    "length beyond the file": (b"\x3a\xff\xff\xff\xff\x0f", "is the file cut?"),
    "length of 2^63": (b"\x3a" + b"\x80" * 9 + b"\x01", "is the file cut?"),
    "length of 2^64-1": (b"\x3a" + b"\xff" * 9 + b"\x01", "is the file cut?"),
    "length beyond its message": (IR_VERSION + field(GRAPH, b"\x0a\x7f") + b"\0" * 200, "its message has 0 left"),
    "group": (IR_VERSION + b"\x3b\x3c", "wire type 3"),
    "end of a group": (IR_VERSION + b"\x3c", "wire type 4"),
    "wire type 6": (IR_VERSION + b"\x3e", "wire type 6"),
    "wire type 7": (IR_VERSION + b"\x3f", "wire type 7"),
    "field number 0": (IR_VERSION + b"\x02\x01a", "tag 2"),
    "field number of 2^32": (varint((2**32 << 3) | 2) + b"\x01a", "tag"),
    "graph that is a number": (IR_VERSION + b"\x38\x05", "wire type 0"),
    "version that is a text": (b"\x0a\x01a", "wire type 2"),
    "fixed number that is cut": (IR_VERSION + b"\x39\0\0", "reaches beyond the end"),
    "node that is cut": (IR_VERSION + field(GRAPH, field(NODE, b"\x0a\x05ab")), "length"),
}


@pytest.mark.parametrize("content, words", BYTES.values(), ids=BYTES)
def test_bytes(content, words, tmp_path, record_property):
    path = tmp_path / "bytes.onnx"
    path.write_bytes(content)
    refuse(path, "malformed", [words] if words != "length" else ["long"])
    record_property("hostile files refused", 1)


def test_messages_in_messages(tmp_path, record_property):
    """An If in the branch of an If, and so on, far deeper than a stack."""
    path = tmp_path / "deep.onnx"
    graph = b""
    for _ in range(20_000):  # attribute 5 of node 1, graph 6 of the attribute
        graph = field(NODE, b"\x22\x02If" + field(5, b"\x0a\x01a" + field(6, graph)))
        if len(graph) > 500_000:
            break
    path.write_bytes(IR_VERSION + field(GRAPH, graph))
    refuse(path, "malformed", ["nest deeper"])
    record_property("hostile files refused", 1)


def test_name_longer_than_any(tmp_path, record_property):
    path = tmp_path / "name.onnx"
    with path.open("wb") as file:  # 70 MiB, a hole
        head = IR_VERSION + varint(2 << 3 | 2) + varint(70 << 20)
        file.write(head)
        file.truncate(len(head) + (70 << 20))
    refuse(path, "malformed", ["text of 73400320 bytes"])
    record_property("hostile files refused", 1)


def test_cut_at_any_byte(tmp_path, record_property):
    path = tmp_path / "cut.onnx"
    # Most at the beginning and at the end, where the structure is.
    cuts = [*range(0, 300, 4), *range(300, len(WHOLE) - 300, 197), *range(len(WHOLE) - 300, len(WHOLE), 4)]
    for cut in cuts:
        path.write_bytes(WHOLE[:cut])
        try:
            refuse(path, "malformed")
        except AssertionError as error:
            raise AssertionError(f"cut at {cut} of {len(WHOLE)}: {error}") from None
    record_property("hostile files refused", len(cuts))


def test_changed_bytes_never_crash(tmp_path):
    rng = random.Random(11)
    path = tmp_path / "changed.onnx"
    output = tmp_path / "out"
    output.mkdir()
    for round_ in range(150):  # the fuzz targets try millions
        data = bytearray(WHOLE)
        for _ in range(rng.choice((1, 1, 2, 8))):
            data[rng.choice((rng.randrange(len(data)), rng.randrange(260), len(data) - 1 - rng.randrange(260)))] = (
                rng.randrange(256)
            )
        path.write_bytes(data)
        done = converter.convert(path, output / "m.tflite", cpu_seconds=2)
        if done.status == "broken":
            kept = tmp_path / f"broken_{round_}.onnx"
            kept.write_bytes(data)
            raise AssertionError(f"round {round_}: {done.reason}; kept as {kept}")
        for left in output.iterdir():
            left.unlink()
