# SPDX-License-Identifier: Apache-2.0
"""Broken TFLite files, and what `lowtide inspect` must say of each. A row is one defect, and the words that its error must
have. In the first table the values in a valid flatbuffer are wrong, in the second the flatbuffer itself is."""

import json
import random
import struct

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from tests.hostile.good_tflite import Bytes, buffer, good_tflite, opcode, operator, pack, signature, tensor
from tests.hostile.refusal import BrokenFiles, refuse_to_list, refuse_to_raise, run

values, structure = BrokenFiles(), BrokenFiles()


def listing(path):
    done = run(["inspect", "--json", path])
    assert done.returncode == 0 and not done.stderr, (done.returncode, done.stderr)
    return json.loads(done.stdout)


def test_the_good_model_is_listed(tmp_path):
    path = tmp_path / "good.tflite"
    path.write_bytes(pack(good_tflite()))
    graph = listing(path)["graphs"][0]
    assert [op["op"] for op in graph["operators"]] == ["FULLY_CONNECTED", "NEG"]
    assert [constant["name"] for constant in graph["constants"]] == ["the_weights", "the_bias"]


# Indices.


@values("malformed", "operator 0", "tensor 5", "0..4")
def input_tensor_that_is_not_there(m):
    m.subgraphs[0].operators[0].inputs[1] = 5


@values("malformed", "operator 0", "tensor -2")
def input_tensor_minus_two(m):
    m.subgraphs[0].operators[0].inputs[1] = -2


@values("malformed", "operator 0", "tensor 2147483647")
def input_tensor_of_the_largest_number(m):
    m.subgraphs[0].operators[0].inputs[1] = 2**31 - 1


@values("malformed", "operator 0", "FULLY_CONNECTED needs its input 1")
def required_input_that_is_absent(m):
    m.subgraphs[0].operators[0].inputs[1] = -1


@values("malformed", "operator 1", "NEG needs its input 0")
def only_input_that_is_absent(m):
    m.subgraphs[0].operators[1].inputs[0] = -1


@values("malformed", "operator 1", "tensor 5")
def output_tensor_that_is_not_there(m):
    m.subgraphs[0].operators[1].outputs[0] = 5


@values("malformed", "operator 1", "tensor -1")
def output_tensor_that_is_absent(m):
    m.subgraphs[0].operators[1].outputs[0] = -1


@values("malformed", "operator 0", "tensor 99")
def intermediate_tensor_that_is_not_there(m):
    m.subgraphs[0].operators[0].intermediates = [99]


@values("malformed", "'main'", "tensor 5")
def graph_input_that_is_not_there(m):
    m.subgraphs[0].inputs = [5]


@values("malformed", "'main'", "tensor -1")
def graph_input_that_is_absent(m):
    m.subgraphs[0].inputs = [-1]


@values("malformed", "'main'", "tensor -1")
def graph_output_that_is_absent(m):
    m.subgraphs[0].outputs = [-1]


@values("malformed", "'main'", "tensor 5")
def graph_output_that_is_not_there(m):
    m.subgraphs[0].outputs = [5]


@values("malformed", "operator 0", "operator code 2")
def operator_code_that_is_not_there(m):
    m.subgraphs[0].operators[0].opcodeIndex = 2


@values("malformed", "operator 0", "operator code 4294967295")
def operator_code_of_the_largest_number(m):
    m.subgraphs[0].operators[0].opcodeIndex = 2**32 - 1


@values("malformed", "the_weights", "buffer 4")
def buffer_that_is_not_there(m):
    m.subgraphs[0].tensors[1].buffer = 4


@values("malformed", "buffer 9")
def buffer_of_metadata_that_is_not_there(m):
    m.metadata[0].buffer = 9


@values("malformed", "signature", "1")
def signature_of_a_graph_that_is_not_there(m):
    m.signatureDefs = [signature(graph=1)]


@values("malformed", "signature", "7")
def signature_of_a_tensor_that_is_not_there(m):
    m.signatureDefs[0].outputs[0].tensorIndex = 7


@values("malformed", "no subgraph")
def no_graph(m):
    m.subgraphs = []


@values("malformed", "buffer 0")
def no_buffers(m):
    m.buffers = None


@values("malformed", "operator code 0")
def no_operator_codes(m):
    m.operatorCodes = None


@values("unsupported", "version 4")
def version_of_the_future(m):
    m.version = 4


@values("malformed", "CUSTOM", "name")
def custom_operator_without_a_name(m):
    m.operatorCodes[1] = opcode(schema.BuiltinOperator.CUSTOM)


# Graphs.


@values("malformed", "operator 0 reads tensor 't'")
def operators_out_of_order(m):
    m.subgraphs[0].operators.reverse()


@values("malformed", "operator 1 reads tensor 'y'", "operator 1")
def operator_that_reads_its_own_output(m):
    m.subgraphs[0].operators[1].inputs[0] = 4


@values("malformed", "operators 0 and 1 both write", "'y'")
def two_writers_of_one_tensor(m):
    m.subgraphs[0].operators[0].outputs[0] = 4
    m.subgraphs[0].operators[1].inputs[0] = 0


@values("malformed", "'x'", "input")
def operator_that_writes_to_a_graph_input(m):
    m.subgraphs[0].operators[1].outputs[0] = 0


@values("malformed", "'nobody'", "operator 1")
def tensor_without_a_producer(m):
    m.subgraphs[0].tensors.append(tensor("nobody", (2, 4)))
    m.subgraphs[0].operators[1].inputs[0] = 5


@values("malformed", "'nobody'", "output")
def graph_output_without_a_producer(m):
    m.subgraphs[0].tensors.append(tensor("nobody", (2, 4)))
    m.subgraphs[0].outputs[0] = 5


def with_while(m, cond, body):
    m.operatorCodes.append(opcode(schema.BuiltinOperator.WHILE))
    made = operator(2, (3,), (4,))
    made.builtinOptionsType, made.builtinOptions = schema.BuiltinOptions.WhileOptions, schema.WhileOptionsT()
    made.builtinOptions.condSubgraphIndex, made.builtinOptions.bodySubgraphIndex = cond, body
    m.subgraphs[0].operators[1] = made


def another_graph(m):
    graph = schema.SubGraphT()
    graph.name, graph.tensors, graph.inputs, graph.outputs = (
        f"graph {len(m.subgraphs)}",
        [tensor("x", (2, 4)), tensor("y", (2, 4))],
        [0],
        [1],
    )
    graph.operators = [operator(1, (0,), (1,))]
    m.subgraphs.append(graph)
    return graph


@values("malformed", "operator 1", "subgraph 7")
def loop_over_a_graph_that_is_not_there(m):
    with_while(m, 7, 1)


@values("malformed", "operator 1", "subgraph -1")
def loop_over_graph_minus_one(m):
    with_while(m, 0, -1)


@values("malformed", "subgraph 0 is part of a cycle")
def graph_that_runs_itself(m):
    another_graph(m)
    with_while(m, 1, 0)


@values("malformed", "part of a cycle")
def graphs_that_run_each_other(m):
    with_while(m, 1, 2)
    for other in (2, 1):
        graph = another_graph(m)
        graph.operators = m.subgraphs[0].operators[1:]
        graph.operators[0].inputs, graph.operators[0].outputs = [0], [1]
        graph.operators = [operator(2, (0,), (1,))]
        graph.operators[0].builtinOptionsType, graph.operators[0].builtinOptions = (
            schema.BuiltinOptions.WhileOptions,
            schema.WhileOptionsT(),
        )
        graph.operators[0].builtinOptions.condSubgraphIndex = graph.operators[0].builtinOptions.bodySubgraphIndex = (
            other
        )
    m.subgraphs[0].operators[1].inputs, m.subgraphs[0].operators[1].outputs = [3], [4]


# Tensors.


@values("malformed", "the_weights", "negative")
def negative_extent(m):
    m.subgraphs[0].tensors[1].shape = [-4, -3]


@values("malformed", "'x'", "negative")
def negative_extent_of_what_is_computed(m):
    m.subgraphs[0].tensors[0].shape = [-1, 3]


@values("malformed", "the_weights")
def shape_whose_product_overflows(m):
    m.subgraphs[0].tensors[1].shape = [2**31 - 1] * 3


@values("malformed", "the_weights", "48 bytes, which does not fit")
def shape_that_is_not_the_data(m):
    m.subgraphs[0].tensors[1].shape = [4, 4]


@values("malformed", "the_weights", "48 bytes, which does not fit")
def type_that_is_not_the_data(m):
    m.subgraphs[0].tensors[1].type = schema.TensorType.INT8


def quantized(m, scales, zero_points, axis=0):
    made = schema.QuantizationParametersT()
    made.scale, made.zeroPoint, made.quantizedDimension = scales, zero_points, axis
    m.subgraphs[0].tensors[1].quantization = made


@values("malformed", "the_weights", "2 scales, but 1 zero points")
def scales_without_zero_points(m):
    quantized(m, [0.5, 0.5], [1])


@values("malformed", "the_weights", "3 scales, which does not fit axis 0")
def too_few_scales(m):
    quantized(m, [0.5] * 3, [0] * 3)


@values("malformed", "the_weights", "quantized_dimension 2")
def scales_along_an_axis_that_is_not_there(m):
    quantized(m, [0.5] * 4, [0] * 4, axis=2)


@values("malformed", "the_weights", "quantized_dimension -1")
def scales_along_a_negative_axis(m):
    quantized(m, [0.5], [0], axis=-1)


# Buffers behind the flatbuffer.


def outside(m, offset, size):
    m.buffers[1] = buffer()
    m.buffers[1].offset, m.buffers[1].size = offset, size


@values("malformed", "the_weights", "48 bytes are")
def offset_beyond_the_file(m):
    outside(m, 1 << 20, 48)


@values("malformed", "the_weights", "48 bytes are")
def offset_and_size_that_wrap(m):
    outside(m, 2**64 - 16, 48)


@values("malformed", "the_weights", "bytes are")
def size_beyond_the_file(m):
    outside(m, 16, 2**63)


@values("malformed", "the_weights", "bytes are")
def size_that_wraps(m):
    outside(m, 16, 2**64 - 16)


@values("malformed", "the_weights", "40 bytes, which does not fit")
def size_that_is_not_the_shape(m):
    outside(m, 16, 40)


@values("malformed", "operator 1", "bytes are")
def large_custom_options_that_wrap(m):
    m.subgraphs[0].operators[1].largeCustomOptionsOffset = 2**64 - 8
    m.subgraphs[0].operators[1].largeCustomOptionsSize = 16


@values("malformed", "operator 1", "bytes are")
def large_custom_options_beyond_the_file(m):
    m.subgraphs[0].operators[1].largeCustomOptionsOffset = 100
    m.subgraphs[0].operators[1].largeCustomOptionsSize = 1 << 40


# The flatbuffer itself. Slots are those of the schema.

TENSORS, SHAPE, NAME, DATA, BUFFERS, SUBGRAPHS, DESCRIPTION = 0, 0, 3, 0, 4, 2, 3


@structure("malformed", "not a TFLite model")
def identifier_of_another_format(b):
    b.data[4:8] = b"TFL2"


@structure("malformed", "the offset 0 is invalid")
def root_that_is_itself(b):
    b.put(0, 0)


@structure("malformed", "the offset 4294967292 is invalid")
def root_before_the_file(b):
    b.put(0, 2**32 - 4)


@structure("malformed", "is the file truncated?")
def root_beyond_the_file(b):
    b.put(0, 0x7FFF0000)


@structure("malformed", "aligned")
def root_that_is_not_aligned(b):
    b.put(0, b.u32(0) + 2)


@structure("malformed", "vtable")
def vtable_before_the_file(b):
    b.put(b.root._tab.Pos, 0x7FFFFFFF, "<i")


@structure("malformed", "is the file truncated?")
def vtable_beyond_the_file(b):
    b.put(b.root._tab.Pos, -0x7FFFFFF0, "<i")


@structure("malformed", "aligned")
def vtable_that_is_not_aligned(b):
    at = b.root._tab.Pos
    b.put(at, struct.unpack_from("<i", b.data, at)[0] + 1, "<i")


def vtable(b, table):
    return table._tab.Pos - struct.unpack_from("<i", b.data, table._tab.Pos)[0]


@structure("malformed", "the vtable has 13 bytes")
def vtable_of_odd_length(b):
    b.put(vtable(b, b.root), 13, "<H")


@structure("malformed", "65534 bytes are needed")
def vtable_longer_than_the_file(b):
    b.put(vtable(b, b.root), 65534, "<H")


@structure("malformed", "subgraphs[0].tensors[0]", "is the file truncated?")
def field_beyond_the_file(b):
    b.put(vtable(b, b.graph.Tensors(0)) + 4 + 2 * NAME, 65532, "<H")


@structure("malformed", "subgraphs[0].tensors[1].shape", "the offset 0 is invalid")
def vector_that_is_its_own_field(b):
    b.put(b.field(b.graph.Tensors(1), SHAPE), 0)


@structure("malformed", "subgraphs[0].tensors[1].shape", "is invalid")
def vector_behind_a_backward_offset(b):
    b.put(b.field(b.graph.Tensors(1), SHAPE), 2**31)


@structure("malformed", "subgraphs[0].tensors[1].shape", "is the file truncated?")
def vector_beyond_the_file(b):
    b.put(b.field(b.graph.Tensors(1), SHAPE), 2**31 - 1)


@structure("malformed", "subgraphs[0].tensors[1].shape", "aligned")
def vector_that_is_not_aligned(b):
    at = b.field(b.graph.Tensors(1), SHAPE)
    b.put(at, b.u32(at) + 1)


@structure("malformed", "subgraphs[0].tensors[1].shape", "4294967296 bytes are needed")
def vector_of_two_to_the_thirty_elements(b):
    b.put(b.vector(b.graph.Tensors(1), SHAPE), 2**30)


@structure("malformed", "subgraphs[0].tensors[1].shape", "17179869180 bytes are needed")
def vector_of_all_elements(b):
    b.put(b.vector(b.graph.Tensors(1), SHAPE), 2**32 - 1)


@structure("malformed", "buffers[1].data", "4294967295 bytes are needed")
def data_longer_than_the_file(b):
    b.put(b.vector(b.root.Buffers(1), DATA), 2**32 - 1)


@structure("malformed", "buffers[1].data", "is the file truncated?")
def data_a_little_longer_than_the_file(b):
    at = b.vector(b.root.Buffers(1), DATA)
    b.put(at, len(b.data) - at - 3)


@structure("malformed", "subgraphs[0].tensors[0].name", "does not end with a zero")
def text_without_an_end(b):
    at = b.vector(b.graph.Tensors(0), NAME)
    b.put(at + 4 + b.u32(at), ord("!"), "<B")


@structure("malformed", "subgraphs[0].tensors[0].name", "bytes are needed")
def text_longer_than_the_file(b):
    b.put(b.vector(b.graph.Tensors(0), NAME), 2**31)


@structure("malformed", "description", "is the file truncated?")
def text_beyond_the_file(b):
    b.put(b.field(b.root, DESCRIPTION), 1 << 30)


@structure("malformed", "subgraphs[0].tensors[2]", "the offset 0 is invalid")
def table_that_is_its_own_element(b):
    b.put(b.vector(b.graph, TENSORS) + 4 + 4 * 2, 0)


@structure("malformed", "subgraphs[0].tensors[2]", "is the file truncated?")
def table_beyond_the_file(b):
    b.put(b.vector(b.graph, TENSORS) + 4 + 4 * 2, 1 << 30)


@structure("malformed", "subgraphs[0].tensors", "bytes are needed")
def more_tables_than_the_file_has(b):
    b.put(b.vector(b.graph, TENSORS), 1 << 28)


@structure("malformed", "buffers")
def graphs_that_are_buffers(b):
    """The vector of graphs is taken for that of buffers: tables of another kind."""
    at = b.field(b.root, BUFFERS)
    b.put(at, b.vector(b.root, SUBGRAPHS) - at & 0xFFFFFFFF)


def packed_with_sparsity():
    model = good_tflite()
    made, dim = schema.SparsityParametersT(), schema.DimensionMetadataT()
    dim.format, dim.denseSize = schema.DimensionType.SPARSE_CSR, 3
    dim.arraySegmentsType, dim.arraySegments = schema.SparseIndexVector.Uint8Vector, schema.Uint8VectorT()
    dim.arraySegments.values = np.arange(4, dtype=np.uint8)
    made.traversalOrder, made.dimMetadata = [0, 1], [dim]
    model.subgraphs[0].tensors[1].sparsity = made
    return pack(model)


@structure("malformed", "sparsity.traversal_order", "bytes are needed")
def sparsity_beyond_the_file(b):
    b.__init__(packed_with_sparsity())
    b.put(b.vector(b.graph.Tensors(1).Sparsity(), 0), 1 << 20)


@structure("malformed", "sparsity.dim_metadata[0].array_segments.values", "bytes are needed")
def sparsity_in_a_union_beyond_the_file(b):
    b.__init__(packed_with_sparsity())
    segments = schema.Uint8Vector()
    table = b.graph.Tensors(1).Sparsity().DimMetadata(0).ArraySegments()
    segments.Init(table.Bytes, table.Pos)
    b.put(b.vector(segments, 0), 1 << 20)


def append_tensors(b, count):
    """The graph gets a vector of `count` tensors at the end of the file, which are all one table."""
    del b.data[:]
    model = good_tflite()
    model.signatureDefs = None
    b.__init__(pack(model))
    b.data.extend(bytes(-len(b.data) % 8))
    begin = len(b.data)
    at = b.field(b.graph, TENSORS)
    b.put(at, begin - at)
    table = begin + 4 + 4 * count + 8
    table += -table % 8
    positions = begin + 4 + 4 * np.arange(count, dtype=np.int64)
    b.data.extend(struct.pack("<I", count) + (table - positions).astype("<u4").tobytes())
    b.data.extend(bytes(table - 4 - len(b.data)) + struct.pack("<HHi", 4, 4, 4))


@structure("malformed", "more than 1000000 tables")
def more_than_a_million_tables_in_one(b):
    append_tensors(b, 1_000_001)


@pytest.mark.parametrize("damage, kind, words", values.rows, ids=values.ids())
def test_values(damage, kind, words, tmp_path, record_property):
    model = good_tflite()
    damage(model)
    path = tmp_path / "broken.tflite"
    path.write_bytes(pack(model))
    refuse_to_list(path, kind, words)
    record_property("hostile files refused", 1)


@pytest.mark.parametrize("damage, kind, words", structure.rows, ids=structure.ids())
def test_structure(damage, kind, words, tmp_path, record_property):
    bytes_ = Bytes(pack(good_tflite()))
    damage(bytes_)
    path = tmp_path / "broken.tflite"
    path.write_bytes(bytes_.data)
    refuse_to_list(path, kind, words)
    record_property("hostile files refused", 1)


def test_cut_at_any_byte(tmp_path, record_property):
    whole = pack(good_tflite())
    path = tmp_path / "cut.tflite"
    cuts = range(0, len(whole), 11)  # tests/stream/tflite/flatbuffer_view_test.cc cuts at each
    for cut in cuts:
        path.write_bytes(whole[:cut])
        done = run(["inspect", path])
        # What stands behind the last thing that is used may be missing.
        assert done.returncode == 6 and len(done.stderr.splitlines()) == 1 or cut > len(whole) - 16, (
            cut,
            done.returncode,
            done.stderr,
        )
    record_property("hostile files refused", len(cuts))


def test_changed_bytes_never_crash(tmp_path):
    whole = pack(good_tflite())
    rng = random.Random(3)
    path = tmp_path / "changed.tflite"
    for round_ in range(100):  # flatbuffer_view_test.cc has the many
        data = bytearray(whole)
        for _ in range(rng.choice((1, 1, 2, 8))):
            data[rng.randrange(8, len(data))] = rng.choice((rng.randrange(256), rng.randrange(16), 0xFF))
        path.write_bytes(data)
        done = run(["inspect", path])
        assert done.returncode in (0, 6, 8) and len(done.stderr.splitlines()) == (done.returncode != 0), (
            round_,
            done.returncode,
            done.stderr,
        )


# What looks wrong and is right.


def test_offset_one_means_no_offset(tmp_path):
    model = good_tflite()
    model.buffers[2] = buffer()
    model.buffers[2].offset, model.buffers[2].size = 1, 16
    model.subgraphs[0].operators[0].inputs = [0, 1]
    path = tmp_path / "one.tflite"
    path.write_bytes(pack(model))
    assert [constant["name"] for constant in listing(path)["graphs"][0]["constants"]] == ["the_weights"]


def test_optional_input_may_be_absent(tmp_path):
    model = good_tflite()
    model.subgraphs[0].operators[0].inputs[2] = -1
    path = tmp_path / "no_bias.tflite"
    path.write_bytes(pack(model))
    assert listing(path)["graphs"][0]["operators"][0]["inputs"] == ["x", "the_weights", ""]


def test_operator_that_writes_to_a_constant(tmp_path):
    """LiteRT's plain kernels run it. The listing says so; what the constant would be in ONNX cannot be said, as the result
    is not known before the model runs."""
    model = good_tflite()
    model.buffers.append(buffer(np.arange(8, dtype=np.float32).tobytes()))
    model.subgraphs[0].tensors[4].buffer = len(model.buffers) - 1
    path = tmp_path / "written.tflite"
    path.write_bytes(pack(model))
    found = listing(path)
    assert found["facts"]["note on main"] == "operators write to tensors with constant data: operator 1 writes to 'y'"
    assert [constant["name"] for constant in found["graphs"][0]["constants"]] == ["the_weights", "the_bias", "y"]
    refuse_to_raise(path, "malformed", ["writes to the constant 'y', whose data are not known to be its result"])


def test_inline_data_win_over_an_offset(tmp_path):
    model = good_tflite()
    model.buffers[2].offset, model.buffers[2].size = 2**60, 7
    path = tmp_path / "both.tflite"
    path.write_bytes(pack(model))
    assert [constant["bytes"] for constant in listing(path)["graphs"][0]["constants"]] == [48, 16]


def test_names_that_are_not_valid_text(tmp_path):
    model = good_tflite()
    model.subgraphs[0].tensors[0].name = b"\xff\xfe\x1b[31m\xc3"
    path = tmp_path / "names.tflite"
    path.write_bytes(pack(model))
    name = listing(path)["graphs"][0]["inputs"][0]["name"]
    assert "�" in name and name.isprintable() or "\x1b" in name  # JSON has escapes for what is no letter
    text = run(["inspect", path])
    assert text.returncode == 0 and "\\xff\\xfe\\x1b[31m\\xc3" in text.stdout
    assert all(letter.isprintable() or letter == "\n" for letter in text.stdout)


# Two gigabytes.


def with_data_at_the_end(path, bytes_):
    """The first buffer's data stand last in the file, which is a hole there, and are `bytes_` long."""
    model = good_tflite()
    model.subgraphs[0].tensors[1].shape = [bytes_]
    model.subgraphs[0].tensors[1].type = schema.TensorType.UINT8
    model.subgraphs[0].operators[0].inputs = [0, 2]
    whole = Bytes(pack(model))
    begin = len(whole.data) + -len(whole.data) % 16 + 16
    at = whole.field(whole.root.Buffers(1), DATA)
    whole.data.extend(bytes(begin - 4 - len(whole.data)) + struct.pack("<I", bytes_))
    whole.put(at, begin - 4 - at)
    with path.open("wb") as file:
        file.write(whole.data)
        file.truncate(begin + bytes_)
    return begin


def test_two_gigabytes_inside_take_no_memory(tmp_path):
    """The program may use half of that: neither is the file mapped nor its data read."""
    path = tmp_path / "large.tflite"
    begin = with_data_at_the_end(path, 2**31 - 4096)
    assert begin < 4096 - 2
    assert listing(path)["graphs"][0]["constants"][0]["bytes"] == 2**31 - 4096


def test_more_than_two_gigabytes_inside(tmp_path, record_property):
    path = tmp_path / "too_large.tflite"
    with_data_at_the_end(path, 2**31 - 16)
    refuse_to_list(path, "malformed", ["buffers[1].data", "2147483632 bytes are needed"])
    record_property("hostile files refused", 1)
