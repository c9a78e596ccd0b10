# SPDX-License-Identifier: Apache-2.0
"""The generated networks (`lowtide make-model`): right answers, and nothing in the graph that TFLite could have fused.

No TRANSPOSE but at the graph's inputs and outputs, no batch normalisation, no activation of its own behind a
convolution or an addition, and a PAD only where ONNX's pads are not what SAME would pad.
"""

import hashlib

import onnx
import onnx.shape_inference
import pytest

from tests.support import converter, judge

# kind, bytes of weights, input size; activations that stand alone in the network itself.
NETWORKS = {
    "duc": (6_000_000, 48, {"SOFTMAX"}),
    "duc_odd": (6_000_000, 45, {"SOFTMAX"}),
    "deeplab": (6_000_000, 65, set()),
    "deeplab_even": (6_000_000, 64, set()),
    "unet": (3_000_000, 48, {"LOGISTIC"}),
    "conv-stack": (3_000_000, 32, set()),
}
NEVER = {
    "MUL",
    "SUB",
    "DIV",
    "RSQRT",
    "SQUARED_DIFFERENCE",
    "RELU",
    "RELU6",
    "RELU_N1_TO_1",
    "TANH",
    "LOGISTIC",
    "SOFTMAX",
    "DEQUANTIZE",
    "CAST",
    "SPACE_TO_BATCH_ND",
    "BATCH_TO_SPACE_ND",
    "SLICE",
    "STRIDED_SLICE",
    "GATHER",
    "SHAPE",
}


@pytest.fixture(scope="module")
def networks(tmp_path_factory, lowtide):
    folder = tmp_path_factory.mktemp("networks")

    def make(name):
        size, pixels, _ = NETWORKS[name]
        path = folder / f"{name}.onnx"
        if not path.is_file():
            converter.run(
                "make-model", name.split("_")[0], "-o", path, f"--size={size}", f"--input-size={pixels}", check=True
            )
        return path

    return make


def attributes(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def pads_that_same_cannot_give(path):
    """How many convolutions and pools have pads that neither SAME nor VALID means."""
    model = onnx.shape_inference.infer_shapes(onnx.load(str(path)), data_prop=True)
    values = [*model.graph.value_info, *model.graph.input]
    dims = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in values}
    weights = {t.name: list(t.dims) for t in model.graph.initializer}
    count = 0
    for node in model.graph.node:
        if node.op_type not in ("Conv", "MaxPool", "AveragePool"):
            continue
        a = attributes(node)
        kernel = a.get("kernel_shape") or weights[node.input[1]][2:]
        rank = len(kernel)
        pads = list(a.get("pads", [0] * 2 * rank))
        same = []
        for i, size in enumerate(dims[node.input[0]][2:]):
            stride, dilation = a.get("strides", [1] * rank)[i], a.get("dilations", [1] * rank)[i]
            total = max(0, (-(-size // stride) - 1) * stride + (kernel[i] - 1) * dilation + 1 - size)
            same.append((total // 2, total - total // 2))
        as_same = [before for before, _ in same] + [after for _, after in same]
        count += pads != as_same and any(pads)
    return count


@pytest.mark.parametrize("name", NETWORKS)
def test_generated_network(name, networks, litert):
    path = networks(name)
    verdict = judge.judge(path, litert=litert)
    print(judge.report(verdict))
    assert verdict.passed, str(verdict)
    operators, nodes = verdict.operators, onnx.load(str(path), load_external_data=False).graph.node
    assert verdict.inner_transposes == 0
    assert operators["TRANSPOSE"] <= 2  # one input and one output, both NCHW
    assert not (NEVER - NETWORKS[name][2]) & set(operators), operators
    assert operators["ADD"] == sum(node.op_type == "Add" for node in nodes)
    assert operators["CONV_2D"] + operators["DEPTHWISE_CONV_2D"] == sum(node.op_type == "Conv" for node in nodes)
    assert operators["PAD"] + operators["PADV2"] <= pads_that_same_cannot_give(path)


def test_same_bytes_whatever_the_budget_and_threads(networks, tmp_path):
    digests = {}
    for options in ("", "--threads=1", "--threads=2", "--max-rss=24M", "--max-rss=256M"):
        output = tmp_path / "m.tflite"
        done = converter.convert(networks("unet"), output, options.split())
        assert done.status == "converted", done
        digests[options] = hashlib.sha256(output.read_bytes()).hexdigest()
        output.unlink()
    assert len(set(digests.values())) == 1, digests
