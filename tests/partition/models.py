# SPDX-License-Identifier: Apache-2.0
"""Small models of mixed operators: some that TFLite has, and some that only ONNX Runtime runs. All dimensions differ."""

import dataclasses

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, STRING, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING, TensorProto.BOOL


@dataclasses.dataclass
class Mixed:
    """A model, what to feed it, options of lowtide partition, and the runtimes that its pieces must have."""

    nodes: list
    inputs: list
    outputs: list
    feed: dict
    constants: list = dataclasses.field(default_factory=list)
    options: tuple = ()
    pieces: str = "tot"  # t: TFLite, o: ONNX
    value_info: list = dataclasses.field(default_factory=list)
    opset: int = 17

    def save(self, path):
        graph = helper.make_graph(
            self.nodes, "mixed", self.inputs, self.outputs, self.constants, value_info=self.value_info
        )
        versions = {"": self.opset, "ai.onnx.ml": 3, "com.microsoft": 1}
        imports = [helper.make_opsetid(name, version) for name, version in versions.items()]
        onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)
        return path


def typed(name, shape, dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def weight(name, *shape):
    rng = np.random.default_rng(sum(map(ord, name)) + sum(shape))
    return numpy_helper.from_array(rng.uniform(-1, 1, shape).astype(np.float32), name)


def ints(name, *values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def numbers(*shape):
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype(np.float32)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(","), outputs.split(","), name=f"{op}_{outputs}", **attributes)


def convolutions(**how):
    """Sin, excluded, between two convolutions; what was computed before it is used behind it once more."""
    how = {"options": ("--exclude-op", "Sin", "--prefer", "fewest"), **how}
    return Mixed(
        [
            node("Conv", "x,w", "a", pads=[1, 1, 1, 1]),
            node("Relu", "a", "b"),
            node("Sin", "b", "c"),
            node("Conv", "c,v", "d", pads=[0, 1, 0, 1]),
            node("MaxPool", "d", "e", kernel_shape=[2, 3]),
            node("GlobalAveragePool", "b", "f"),
            node("Conv", "f,u", "g"),
            node("Add", "e,g", "y"),
        ],
        [typed("x", [2, 3, 9, 11])],
        [typed("y", [2, 5, None, None])],
        {"x": numbers(2, 3, 9, 11)},
        [weight("w", 4, 3, 3, 3), weight("v", 5, 4, 1, 3), weight("u", 5, 4, 1, 1)],
        **how,
    )


def trees():
    """A convolution, a classifier of ai.onnx.ml on its features, and arithmetic on the classifier's probabilities."""
    tree = dict(
        nodes_treeids=[0] * 5,
        nodes_nodeids=[0, 1, 2, 3, 4],
        nodes_featureids=[2, 0, 0, 5, 0],
        nodes_values=[0.1, 0.0, 0.0, -0.2, 0.0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_truenodeids=[1, 0, 3, 0, 0],
        nodes_falsenodeids=[2, 0, 4, 0, 0],
        class_treeids=[0] * 6,
        class_nodeids=[1, 1, 3, 3, 4, 4],
        class_ids=[0, 1, 1, 2, 0, 2],
        class_weights=[0.7, 0.3, 0.6, 0.4, 0.2, 0.8],
        classlabels_int64s=[7, 11, 13],
        post_transform="NONE",
    )
    tree["nodes_modes"][2] = "BRANCH_LEQ"
    return Mixed(
        [
            node("Conv", "x,w", "a"),
            node("Relu", "a", "b"),
            node("Flatten", "b", "features"),
            node("TreeEnsembleClassifier", "features", "label,scores", domain="ai.onnx.ml", **tree),
            node("Softmax", "scores", "soft"),
            node("Mul", "soft,three", "y"),
        ],
        [typed("x", [4, 3, 5, 6])],
        [typed("label", [4], INT64), typed("y", [4, 3])],
        {"x": numbers(4, 3, 5, 6)},
        [weight("w", 2, 3, 4, 3), weight("three", 3)],
        ("--prefer", "fewest", "--value", "scores=f32[4,3]"),
    )


def words():
    """Strings in front of a network: normalised, looked up, embedded."""
    return Mixed(
        [
            node("StringNormalizer", "words", "small", case_change_action="LOWER", is_case_sensitive=1, locale="C"),
            node(
                "LabelEncoder",
                "small",
                "numbers",
                domain="ai.onnx.ml",
                keys_strings=["the", "sea", "ebbs"],
                values_int64s=[1, 2, 3],
                default_int64=0,
            ),
            node("Gather", "table,numbers", "rows"),
            node("MatMul", "rows,w", "a"),
            node("Tanh", "a", "y"),
        ],
        [typed("words", [4], STRING)],
        [typed("y", [4, 7])],
        {"words": np.array(["The", "sea", "EBBS", "away"], object)},
        [weight("table", 5, 6), weight("w", 6, 7)],
        ("--prefer", "fewest", "--value", "numbers=i64[4]"),
        "ot",
    )


def inverse():
    """com.microsoft's Inverse in the middle, with a declared type."""
    return Mixed(
        [
            node("MatMul", "x,w", "a"),
            node("Inverse", "a", "b", domain="com.microsoft"),
            node("Relu", "b", "c"),
            node("Add", "c,x", "y"),
        ],
        [typed("x", [2, 5, 5])],
        [typed("y", [2, 5, 5])],
        {"x": numbers(2, 5, 5) + 3 * np.eye(5, dtype=np.float32)},
        [weight("w", 5, 5)],
        ("--prefer", "fewest"),
        value_info=[typed("b", [2, 5, 5])],
    )


def sequence():
    """A sequence of which a part is left out at run time, which only ONNX Runtime can."""
    return Mixed(
        [
            node("Relu", "x", "a"),
            node("SplitToSequence", "a", "parts", axis=1, keepdims=1),
            node("SequenceErase", "parts,which", "left"),
            node("SequenceAt", "left,which", "b"),
            node("MatMul", "b,w", "y"),
        ],
        [typed("x", [3, 4, 5]), typed("which", [], INT64)],
        [typed("y", [3, 1, 6])],
        {"x": numbers(3, 4, 5), "which": np.array(2)},
        [weight("w", 5, 6)],
        ("--prefer", "fewest", "--value", "b=f32[3,1,5]"),
    )


def built():
    """A sequence of two convolutions' results, in which one is repeated at a place that the run chooses."""
    return Mixed(
        [
            node("Conv", "x,w", "a"),
            node("Conv", "x,u", "b"),
            node("SequenceConstruct", "a,b", "both"),
            node("SequenceInsert", "both,a,which", "three"),
            node("SequenceAt", "three,which", "c"),
            node("Conv", "c,v", "d"),
            node("Relu", "d", "y"),
        ],
        [typed("x", [2, 3, 7, 9]), typed("which", [], INT64)],
        [typed("y", [2, 5, 5, 6])],
        {"x": numbers(2, 3, 7, 9), "which": np.array(1)},
        [weight("w", 6, 3, 3, 2), weight("u", 6, 3, 3, 2), weight("v", 5, 6, 1, 3)],
        ("--prefer", "fewest", "--value", "c=f32[2,6,5,8]"),
    )


def glued():
    """Channels are divided as an input says, and put beside each other; a copy of the parts loses one, at run time too."""
    return Mixed(
        [
            node("Conv", "x,w", "a"),
            node("SplitToSequence", "a,parts", "many", axis=1),
            node("SequenceErase", "many,which", "fewer"),
            node("ConcatFromSequence", "many", "b", axis=1),
            node("ConcatFromSequence", "fewer", "c", axis=1),
            node("Conv", "b,v", "d"),
            node("Conv", "c,u", "e"),
            node("Add", "d,e", "y"),
        ],
        [typed("x", [2, 3, 7, 9]), typed("parts", [3], INT64), typed("which", [], INT64)],
        [typed("y", [2, 5, 5, 8])],
        {"x": numbers(2, 3, 7, 9), "parts": np.array([1, 2, 3]), "which": np.array(1)},
        [weight("w", 6, 3, 3, 2), weight("v", 5, 6, 1, 1), weight("u", 5, 4, 1, 1)],
        ("--prefer", "fewest", "--value", "b=f32[2,6,5,8]", "--value", "c=f32[2,4,5,8]"),
    )


def eights():
    """Values of f8 that pass between pieces: as their bits."""
    zero = helper.make_tensor("zero", TensorProto.FLOAT8E4M3FN, [], [0.0])
    return Mixed(
        [
            node("Conv", "x,w", "a"),
            node("Relu", "a", "b"),
            node("QuantizeLinear", "b,scale,zero", "q"),
            node("DequantizeLinear", "q,scale,zero", "c"),
            node("Conv", "c,v", "d"),
            node("MaxPool", "d", "e", kernel_shape=[2, 3]),
            node("Relu", "e", "y"),
        ],
        [typed("x", [2, 3, 7, 9])],
        [typed("y", [2, 5, 4, 4])],
        {"x": numbers(2, 3, 7, 9)},
        [weight("w", 4, 3, 3, 2), weight("v", 5, 4, 1, 3), numpy_helper.from_array(np.float32(0.02), "scale"), zero],
        ("--prefer", "fewest", "--exclude-op", "QuantizeLinear", "--value", "c=f32[2,4,5,8]"),
        opset=19,
    )


def answers():
    """A network whose classes are looked up as strings."""
    return Mixed(
        [
            node("Conv", "x,w", "a"),
            node("GlobalAveragePool", "a", "b"),
            node("Flatten", "b", "scores"),
            node("ArgMax", "scores", "best", axis=1, keepdims=0),
            node(
                "LabelEncoder",
                "best",
                "y",
                domain="ai.onnx.ml",
                keys_int64s=[0, 1, 3],
                values_strings=["ebb", "flood", "slack"],
                default_string="unknown",
            ),
        ],
        [typed("x", [5, 3, 7, 9])],
        [typed("y", [5], STRING), typed("scores", [5, 4])],
        {"x": numbers(5, 3, 7, 9)},
        [weight("w", 4, 3, 3, 2)],
        ("--prefer", "fewest"),
        "to",
    )


def branches():
    """An If whose bodies use a value, a weight and, one body deeper, another value of the main graph; Det is refused."""
    inner = helper.make_graph([node("Mul", "h,k", "deep")], "inner", [], [typed("deep", [5])])
    other = helper.make_graph([node("Sub", "h,k", "flat")], "other", [], [typed("flat", [5])])
    then_body = helper.make_graph(
        [
            helper.make_node("If", ["second"], ["chosen"], then_branch=inner, else_branch=other),
            node("Add", "chosen,w", "t"),
        ],
        "then",
        [],
        [typed("t", [5])],
    )
    else_body = helper.make_graph([node("Neg", "h", "e")], "else", [], [typed("e", [5])])
    return Mixed(
        [
            node("Sin", "x", "h"),
            node("Cos", "x", "k"),
            node("ReduceSum", "x", "sum", keepdims=0),
            node("Greater", "sum,zero", "first"),
            node("Less", "sum,ten", "second"),
            helper.make_node("If", ["first"], ["z"], name="choice", then_branch=then_body, else_branch=else_body),
            node("Exp", "z", "y"),
        ],
        [typed("x", [5])],
        [typed("y", [5])],
        {"x": np.abs(numbers(5))},
        [
            weight("w", 5),
            numpy_helper.from_array(np.float32(0), "zero"),
            numpy_helper.from_array(np.float32(10), "ten"),
        ],
        ("--prefer", "fewest", "--exclude-node", "choice"),
    )


def borders():
    """Outputs that are inputs, constants and values in the middle; a value that is used twice; symbolic dimensions."""
    return Mixed(
        [
            node("Add", "x,x", "a"),
            node("Sin", "a", "b"),
            node("Mul", "b,a", "c"),
            node("Shape", "c", "s"),
            node("Reshape", "c,flat", "y"),
            node("ConstantOfShape", "five", "made"),
        ],
        [typed("x", ["batch", 3, 4]), typed("other", [2], INT64)],
        [
            typed("y", [None]),
            typed("x", ["batch", 3, 4]),
            typed("w", [2, 3]),
            typed("b", ["batch", 3, 4]),
            typed("other", [2], INT64),
            typed("made", [5]),
            typed("s", [3], INT64),
        ],
        {"x": numbers(2, 3, 4), "other": np.array([4, 7])},
        [weight("w", 2, 3), ints("flat", -1), ints("five", 5)],
        ("--prefer", "fewest", "--exclude-op", "Sin"),
        "tot",
    )


def halves():
    """f16 at the borders of pieces: TFLite computes in f32, and the values that pass stay f16."""
    return Mixed(
        [node("MatMul", "x,w", "a"), node("Sin", "a", "b"), node("Relu", "b", "c"), node("Add", "c,x", "y")],
        [typed("x", [3, 4, 4], TensorProto.FLOAT16)],
        [typed("y", [3, 4, 4], TensorProto.FLOAT16)],
        {"x": numbers(3, 4, 4).astype(np.float16)},
        [numpy_helper.from_array(numbers(4, 4).astype(np.float16), "w")],
        ("--prefer", "fewest", "--exclude-op", "Sin", "--value", "a=f16[3,4,4]", "--value", "b=f16[3,4,4]"),
    )


def quantized():
    """QDQ groups around an operator that is excluded."""
    scale = numpy_helper.from_array(np.float32(0.02), "scale")
    zero = numpy_helper.from_array(np.int8(3), "zero")
    return Mixed(
        [
            node("QuantizeLinear", "x,scale,zero", "xq"),
            node("DequantizeLinear", "xq,scale,zero", "xd"),
            node("Conv", "xd,w", "a"),
            node("QuantizeLinear", "a,scale,zero", "aq"),
            node("DequantizeLinear", "aq,scale,zero", "ad"),
            node("Sin", "ad", "b"),
            node("QuantizeLinear", "b,scale,zero", "bq"),
            node("DequantizeLinear", "bq,scale,zero", "bd"),
            node("Relu", "bd", "y"),
        ],
        [typed("x", [1, 3, 5, 6])],
        [typed("y", [1, 2, 4, 4])],
        {"x": numbers(1, 3, 5, 6)},
        [weight("w", 2, 3, 2, 3), scale, zero],
        ("--prefer", "fewest", "--exclude-op", "Sin"),
    )


MIXED = {
    make.__name__: make
    for make in (
        convolutions,
        trees,
        words,
        answers,
        inverse,
        sequence,
        built,
        glued,
        eights,
        branches,
        borders,
        halves,
        quantized,
    )
}
