# SPDX-License-Identifier: Apache-2.0
"""Broken TFLite files that are converted to ONNX. What is wrong with the file alone is in test_tflite.py; here operators
contradict their options, inputs or shapes. Each is one line with the operator and its tensors, and nothing is written."""

import copy
import struct

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from tests.hostile.good_tflite import buffer, good_tflite, opcode, operator, pack, tensor
from tests.hostile.refusal import BrokenFiles, refuse_to_raise, run

broken = BrokenFiles()


def test_the_good_model_is_converted(tmp_path):
    path = tmp_path / "good.tflite"
    path.write_bytes(pack(good_tflite()))
    done = run(["convert", path, "-o", tmp_path / "m.onnx"])
    assert done.returncode == 0 and (tmp_path / "m.onnx").is_file(), done.stderr


def options(op, name, **fields):
    op.builtinOptionsType = getattr(schema.BuiltinOptions, name)
    op.builtinOptions = getattr(schema, name + "T")()
    for field, value in fields.items():
        assert hasattr(op.builtinOptions, field)
        setattr(op.builtinOptions, field, value)


def constant(m, name, values, kind):
    m.buffers.append(buffer(values.tobytes()))
    m.subgraphs[0].tensors.append(tensor(name, values.shape, len(m.buffers) - 1, kind))
    return len(m.subgraphs[0].tensors) - 1


def ints(m, values):
    return constant(m, "list", np.asarray(values, np.int32), schema.TensorType.INT32)


def second(m, builtin, inputs, shape, table=None, kind=schema.TensorType.FLOAT32, **fields):
    """Makes the model's second operator this one, with the output y of this shape. Tensor 3 is t[2,4]."""
    m.operatorCodes[1] = opcode(builtin)
    made = operator(1, inputs, (4,))
    if table:
        options(made, table, **fields)
    m.subgraphs[0].operators[1] = made
    m.subgraphs[0].tensors[4].shape, m.subgraphs[0].tensors[4].type = list(shape), kind
    return made


B = schema.BuiltinOperator


@broken("malformed", "0: t", "FULLY_CONNECTED", "options of another operator: Conv2DOptions")
def options_of_another_operator(m):
    options(m.subgraphs[0].operators[0], "Conv2DOptions")


@broken("malformed", "1: y", "it has no options")
def no_options(m):
    second(m, B.MIRROR_PAD, (3, ints(m, [[1, 1], [1, 1]])), (4, 6))


@broken("malformed", "0: t", "fused_activation_function is 77")
def activation_that_is_none(m):
    m.subgraphs[0].operators[0].builtinOptions.fusedActivationFunction = 77


@broken("unsupported", "0: t", "fused activation TANH")
def activation_that_no_kernel_has(m):
    m.subgraphs[0].operators[0].builtinOptions.fusedActivationFunction = 4


@broken("unsupported", "0: t", "SHUFFLED4x16INT8")
def shuffled_weights(m):
    m.subgraphs[0].operators[0].builtinOptions.weightsFormat = 1


@broken("malformed", "FULLY_CONNECTED needs its input 1")
def weights_that_are_absent(m):
    m.subgraphs[0].operators[0].inputs = [0, -1, 2]


@broken("malformed", "it has 4 inputs, more than 3")
def too_many_inputs(m):
    m.subgraphs[0].operators[0].inputs = [0, 1, 2, 2]


@broken("malformed", "it has 2 outputs in place of 1")
def too_many_outputs(m):
    m.subgraphs[0].tensors.append(tensor("z", (2, 4)))
    m.subgraphs[0].operators[1].outputs = [4, 5]


def volume(m, channels):
    weights = constant(m, "volume", np.zeros((1, 1, 1, channels, 2), np.float32), schema.TensorType.FLOAT32)
    m.subgraphs[0].tensors[0].shape, m.subgraphs[0].tensors[3].shape = [1, 3, 4, 5, channels], [1, 3, 4, 5, 2]
    m.operatorCodes[0] = opcode(B.CONV_3D)
    m.subgraphs[0].operators[0] = operator(0, (0, weights), (3,))
    options(m.subgraphs[0].operators[0], "Conv3DOptions", strideD=1, strideH=1, strideW=1, padding=1)
    return m.subgraphs[0].tensors[weights]


@broken("malformed", "CONV_3D", "the weights have no channels")
def volume_of_no_channels(m):
    volume(m, 0)


@broken("malformed", "CONV_3D", "the shape of the weights is not static")
def volume_of_open_channels(m):
    made = volume(m, 3)
    made.buffer, made.shapeSignature = 0, [1, 1, 1, -1, 2]
    m.subgraphs[0].inputs = [*m.subgraphs[0].inputs, len(m.subgraphs[0].tensors) - 1]


@broken("malformed", "it has no output")
def no_output(m):
    m.subgraphs[0].operators.append(operator(1, (3,), ()))


@broken("unsupported", "output 'y' is INT32, but the operator's result is f32")
def type_that_the_operator_does_not_give(m):
    m.subgraphs[0].tensors[4].type = schema.TensorType.INT32


def quantize(m, scale, zero):
    made = m.subgraphs[0].tensors[1]
    made.type = schema.TensorType.INT8
    made.quantization = schema.QuantizationParametersT()
    made.quantization.scale, made.quantization.zeroPoint = np.float32(scale), np.int64(zero)
    m.buffers.append(buffer(bytes(12)))
    made.buffer = len(m.buffers) - 1


@broken("malformed", "the_weights", "scale -1")
def negative_scale(m):
    quantize(m, [-1.0], [0])


@broken("malformed", "the_weights", "scale nan")
def scale_that_is_not_a_number(m):
    quantize(m, [float("nan")], [0])


@broken("malformed", "the_weights", "zero point 200")
def zero_point_outside_of_its_type(m):
    quantize(m, [0.5], [200])


@broken("malformed", "1: y", "axis 2 is outside a tensor of rank 2")
def axis_of_concatenation(m):
    second(m, B.CONCATENATION, (3, 3), (2, 8), "ConcatenationOptions", axis=2)


@broken("malformed", "axis -2147483648 is outside")
def axis_of_the_smallest_number(m):
    second(m, B.PACK, (3, 3), (2, 2, 4), "PackOptions", axis=-(2**31), valuesCount=2)


@broken("malformed", "CUMSUM", "1: y", "axis 2 is outside a tensor of rank 2")
def axis_of_a_cumulative_sum(m):
    second(m, B.CUMSUM, (3, ints(m, 2)), (2, 4), "CumsumOptions")


@broken("malformed", "CUMSUM", "1: y", "it needs one axis")
def two_axes_of_a_cumulative_sum(m):
    second(m, B.CUMSUM, (3, ints(m, [0, 1])), (2, 4), "CumsumOptions")


@broken("malformed", "CONCATENATION needs its input 0")
def absent_part(m):
    second(m, B.CONCATENATION, (-1, 3), (2, 8), "ConcatenationOptions", axis=1)


@broken("malformed", "batch_dims 2 does not fit axis 1")
def batch_dims_behind_the_axis(m):
    second(m, B.GATHER, (3, ints(m, [[0], [1]])), (2, 4), "GatherOptions", axis=1, batchDims=2)


@broken("malformed", "TRANSPOSE", "1: y")
def permutation_that_is_none(m):
    second(m, B.TRANSPOSE, (3, ints(m, [0, 0])), (2, 2))


@broken("malformed", "TRANSPOSE", "1: y")
def permutation_that_is_too_long(m):
    second(m, B.TRANSPOSE, (3, ints(m, [1, 0, 2])), (4, 2))


@broken("malformed", "RESHAPE", "cannot be reshaped")
def reshape_to_other_elements(m):
    second(m, B.RESHAPE, (3, ints(m, [3, 3])), (3, 3))


@broken("malformed", "RESHAPE has neither an input nor an option")
def reshape_without_a_shape(m):
    second(m, B.RESHAPE, (3,), (8,))


@broken("malformed", "option stride_h is -1")
def negative_stride(m):
    second(m, B.MAX_POOL_2D, (3,), (2, 4), "Pool2DOptions", strideH=-1, strideW=1, filterHeight=1, filterWidth=1)


@broken("malformed", "MAX_POOL_2D", "rank 2, not 4")
def pool_of_a_matrix(m):
    second(m, B.MAX_POOL_2D, (3,), (2, 4), "Pool2DOptions", strideH=1, strideW=1, filterHeight=1, filterWidth=1)


@broken("malformed", "option padding is 5")
def padding_that_is_none(m):
    second(m, B.MAX_POOL_2D, (3,), (2, 4), "Pool2DOptions", padding=5, strideH=1, strideW=1)


@broken("malformed", "num_splits")
def split_into_nothing(m):
    second(m, B.SPLIT, (ints(m, 0), 3), (2, 4), "SplitOptions", numSplits=0)


@broken("malformed", "a block has the size 0")
def block_of_nothing(m):
    second(m, B.SPACE_TO_BATCH_ND, (3, ints(m, [0]), ints(m, [[0, 0]])), (2, 4))


@broken("malformed", "blocks and", "do not fit rank 2")
def blocks_of_more_axes_than_there_are(m):
    second(m, B.BATCH_TO_SPACE_ND, (3, ints(m, [1, 1, 1]), ints(m, [[0, 0]] * 3)), (2, 4))


@broken("malformed", "more than 2^31 - 1 places")
def blocks_of_very_many_places(m):
    second(m, B.SPACE_TO_BATCH_ND, (ints(m, [[[[7]]]]), ints(m, [2**31 - 1] * 2), ints(m, [[0, 0]] * 2)), (2, 4))


@broken("malformed", "crops are larger than the data")
def crops_of_more_than_there_is(m):
    second(m, B.BATCH_TO_SPACE_ND, (3, ints(m, [1]), ints(m, [[3, 3]])), (2, 4))


@broken("malformed", "a border has the size -3")
def negative_border(m):
    second(m, B.SPACE_TO_BATCH_ND, (3, ints(m, [1]), ints(m, [[-3, 0]])), (2, 4))


@broken("malformed", "the input 'x' is listed twice")
def input_listed_twice(m):
    m.subgraphs[0].inputs = [0, 0]


@broken("unsupported", "1: y", "CUSTOM_THING", "custom operator")
def custom_operator(m):
    m.operatorCodes[1] = opcode(B.CUSTOM, "CUSTOM_THING")


@broken("unsupported", "1: y", "BUILTIN_99999")
def builtin_of_the_future(m):
    m.operatorCodes[1] = opcode(99999)


@broken("unsupported", "1: y", "HASHTABLE", "inputs 't'")
def builtin_without_a_form(m):
    m.operatorCodes[1] = opcode(B.HASHTABLE)


@broken("unsupported", "'t' is a variable")
def variable_that_an_operator_writes(m):
    m.subgraphs[0].tensors[3].isVariable = True


def call(m, table, inputs=(3,), kind=schema.TensorType.FLOAT32, ports=((0,), (0,)), **fields):
    """The second operator calls subgraph 1, whose ports are `ports` of one tensor a[2,4]."""
    made = schema.SubGraphT()
    made.name, made.tensors, made.operators = "called", [tensor("a", (2, 4), 0, kind)], []
    made.inputs, made.outputs = [list(port) for port in ports]
    m.subgraphs.append(made)
    second(m, getattr(B, table.removesuffix("Options").upper()), inputs, (2, 4), table, **fields)


@broken("malformed", "1: y", "WHILE", "the condition is no bool")
def condition_that_is_no_bool(m):
    call(m, "WhileOptions", condSubgraphIndex=1, bodySubgraphIndex=2)
    other = copy.deepcopy(m.subgraphs[0])
    other.inputs, other.outputs, other.operators = [3], [4], [operator(2, (3,), (4,))]
    m.operatorCodes.append(opcode(B.ABS))
    m.subgraphs.append(other)


@broken("unsupported", "1: y", "WHILE", "the body changes no value")
def loop_that_changes_nothing(m):
    call(m, "WhileOptions", condSubgraphIndex=1, bodySubgraphIndex=1)


@broken("malformed", "1: y", "subgraph 1 has 0 inputs and 1 outputs in place of 1 and 1")
def loop_with_other_ports(m):
    call(m, "WhileOptions", ports=((), (0,)), condSubgraphIndex=1, bodySubgraphIndex=1)
    m.subgraphs[1].tensors[0].buffer = 2
    m.subgraphs[1].tensors[0].shape = [4]


@broken("malformed", "1: y", "IF", "the condition is no bool")
def branch_by_a_number(m):
    call(m, "IfOptions", inputs=(3, 3), thenSubgraphIndex=1, elseSubgraphIndex=1)


@broken("unsupported", "1: y", "WHILE", "differs in type or rank from 'a'")
def loop_over_another_type(m):
    call(m, "WhileOptions", kind=schema.TensorType.INT32, condSubgraphIndex=1, bodySubgraphIndex=1)
    m.subgraphs[1].outputs = [1]
    m.subgraphs[1].tensors.append(tensor("b", (2, 4), 0, schema.TensorType.INT32))
    m.subgraphs[1].operators = [operator(2, (0,), (1,))]
    m.operatorCodes.append(opcode(B.ABS))


@broken("unsupported", "1: y", "READ_VARIABLE", "no VAR_HANDLE")
def variable_without_a_handle(m):
    second(m, B.READ_VARIABLE, (3,), (2, 4))


def svdf(m, rank=1, **change):
    """The second operator: t[2,4], features [6,4], memory [6,5], no bias, a state [2,30]."""
    features = constant(m, "features", np.zeros((6, 4), np.float32), schema.TensorType.FLOAT32)
    memory = constant(m, "memory", np.zeros((6, 5), np.float32), schema.TensorType.FLOAT32)
    m.subgraphs[0].tensors.append(tensor("state", change.get("state", (2, 30))))
    state = len(m.subgraphs[0].tensors) - 1
    m.subgraphs[0].tensors[state].isVariable = True
    inputs = change.get("inputs", lambda *all: all)(3, features, memory, -1, state)
    second(m, B.SVDF, inputs, (2, 6), "SVDFOptions", rank=rank)
    return state


@broken("malformed", "1: y", "SVDF", "6 filters are no multiple of rank 4")
def filters_that_are_no_multiple(m):
    svdf(m, rank=4)


@broken("malformed", "1: y", "6 filters are no multiple of rank 0")
def rank_of_nothing(m):
    svdf(m, rank=0)


@broken("malformed", "1: y", "input 4 has the shape [2,29] in place of [2,30]")
def state_of_another_size(m):
    svdf(m, state=(2, 29))


@broken("malformed", "1: y", "the batch of the data is not that of the state")
def state_of_another_batch(m):
    svdf(m, state=(3, 30))


@broken("unsupported", "1: y", "its state 'state' is no variable")
def state_that_is_no_variable(m):
    m.subgraphs[0].tensors[svdf(m)].isVariable = False
    m.subgraphs[0].inputs = [0, len(m.subgraphs[0].tensors) - 1]


@broken("malformed", "1: y", "SVDF", "it needs its input 2")
def memory_that_is_absent(m):
    svdf(m, inputs=lambda x, features, memory, bias, state: (x, features, -1, bias, state))


@broken("malformed", "1: y", "it has 6 inputs, more than 5")
def svdf_with_too_many_inputs(m):
    svdf(m, inputs=lambda *inputs: (*inputs, 3))


@broken("malformed", "1: y", "UNIDIRECTIONAL_SEQUENCE_LSTM", "it needs its input 18")
def lstm_without_a_state(m):
    second(m, B.UNIDIRECTIONAL_SEQUENCE_LSTM, (3,), (2, 4), "UnidirectionalSequenceLSTMOptions")


def nested_calls(deep):
    """Each of so many subgraphs calls the next one nine times, and the last has nine operators."""
    model = good_tflite()
    model.operatorCodes.append(opcode(B.STABLEHLO_COMPOSITE))
    for number in range(1, deep + 1):
        graph = schema.SubGraphT()
        graph.name, graph.inputs, graph.outputs = f"g{number}", [0], [9]
        graph.tensors = [tensor(f"v{i}", (2, 4)) for i in range(10)]
        graph.operators = [operator(2 if number < deep else 1, (i,), (i + 1,)) for i in range(9)]
        model.subgraphs.append(graph)
    model.subgraphs[0].operators[1].opcodeIndex = 2
    for number, graph in enumerate(model.subgraphs):
        for made in graph.operators:
            if made.opcodeIndex == 2:
                made.builtinOptions2Type = schema.BuiltinOptions2.StableHLOCompositeOptions
                made.builtinOptions2 = schema.StableHLOCompositeOptionsT()
                made.builtinOptions2.decompositionSubgraphIndex = number + 1
    return model


def test_calls_that_expand_without_end(tmp_path):
    path = tmp_path / "m.tflite"
    path.write_bytes(pack(nested_calls(12)))  # 9 ** 12 operators
    refuse_to_raise(path, "unsupported", ("expand to more than",))


def test_an_operator_of_a_subgraph_is_refused_once(tmp_path):
    model = nested_calls(4)  # 9 ** 4 operators
    model.operatorCodes[1] = opcode(B.HASHTABLE)
    path = tmp_path / "m.tflite"
    path.write_bytes(pack(model))
    done = run(["convert", path, "-o", tmp_path / "m.onnx"])
    assert done.returncode == 8 and "9 nodes cannot be converted" in done.stderr, done.stderr[:2000]


@broken("malformed", "'the_weights'", "0 levels")
def sparse_weights(m):
    m.subgraphs[0].tensors[1].sparsity = schema.SparsityParametersT()


@broken("unsupported", "1: y", "BROADCAST_ARGS", "a shape of 999999999 axes, more than 1024")
def shape_of_very_many_axes(m):
    graph = m.subgraphs[0]
    graph.tensors.append(tensor("long", (999999999,), 0, schema.TensorType.INT32))
    long = len(graph.tensors) - 1
    graph.inputs = [*graph.inputs, long]
    second(m, B.BROADCAST_ARGS, (long, ints(m, [1, 2])), (3,), kind=schema.TensorType.INT32)


@broken("unsupported", "several signatures")
def signatures_of_two_graphs(m):
    other = good_tflite()
    m.subgraphs.append(other.subgraphs[0])
    other.signatureDefs[0].subgraphIndex, other.signatureDefs[0].signatureKey = 1, "other"
    m.signatureDefs.append(other.signatureDefs[0])


@pytest.mark.parametrize(("damage", "kind", "words"), broken.rows, ids=broken.ids())
def test_broken(damage, kind, words, tmp_path):
    model = good_tflite()
    damage(model)
    path = tmp_path / "broken.tflite"
    path.write_bytes(pack(model))
    refuse_to_raise(path, kind, words)


def test_all_refused_operators_are_listed(tmp_path):
    model = good_tflite()
    model.operatorCodes[1] = opcode(B.HASHTABLE)
    custom_operator(model)
    options(model.subgraphs[0].operators[0], "FullyConnectedOptions", weightsFormat=1)
    path = tmp_path / "m.tflite"
    path.write_bytes(pack(model))
    done = run(["convert", path, "-o", tmp_path / "m.onnx"])
    assert done.returncode == 8 and "2 nodes cannot be converted" in done.stderr, done.stderr
    assert "0: t" in done.stderr and "1: y" in done.stderr
    assert not (tmp_path / "m.onnx").exists()


def test_a_truncated_file_leaves_the_output_alone(tmp_path):
    path, output = tmp_path / "m.tflite", tmp_path / "m.onnx"
    data = pack(good_tflite())
    output.write_bytes(b"as it was")
    for length in range(8, len(data), max(1, len(data) // 40)):
        path.write_bytes(data[:length])
        done = run(["convert", path, "-o", output])
        assert done.returncode in (0, 6, 8), (length, done.stderr)
        if done.returncode:
            assert output.read_bytes() == b"as it was" and done.stderr.count("\n") == 1
        else:
            output.write_bytes(b"as it was")


def test_names_that_are_no_text(tmp_path):
    model = good_tflite()
    data = pack(model)
    place = data.index(b"the_weights")
    struct.pack_into("3s", data, place, b"\xff\xfe\n")
    path = tmp_path / "m.tflite"
    path.write_bytes(data)
    done = run(["convert", path, "-o", tmp_path / "m.onnx"])
    assert done.returncode == 0, done.stderr
    assert rb"\xff\xfe\x0a_weights" in (tmp_path / "m.onnx").read_bytes()
