# SPDX-License-Identifier: Apache-2.0
"""SPACE_TO_BATCH_ND, a convolution and BATCH_TO_SPACE_ND become one Conv with dilations where that is exact. LiteRT is the
judge of both forms."""

import dataclasses

import numpy as np
import pytest

from tests.raised.judge_raised import agrees, operators
from tests.raised.test_quantized import optimized
from tests.raised.tflite_models import Model

SAME, VALID = 0, 1
IMAGE, CHANNELS, FILTERS, KERNEL = (2, 11, 13), 3, 5, (3, 2)


@dataclasses.dataclass
class Form:
    """Two numbers each, for rows and columns; pads and crops are before and behind."""

    block: tuple = (2, 3)
    pads: tuple = ((2, 3), (1, 4))
    crops: tuple = ((0, 1), (0, 2))
    padding: int = VALID
    activation: int = 0
    kernel: tuple = KERNEL
    depthwise: bool = False
    stride: int = 1
    also: str = ""  # what else reads an intermediate result

    def sizes(self):
        padded = [size + sum(pads) for size, pads in zip(IMAGE[1:], self.pads, strict=False)]
        parts = [size // block for size, block in zip(padded, self.block, strict=True)]
        if self.padding == VALID:
            made = [(part - filter) // self.stride + 1 for part, filter in zip(parts, self.kernel, strict=True)]
        else:
            made = [-(-part // self.stride) for part in parts]
        whole = [size * b - sum(crops) for size, b, crops in zip(made, self.block, self.crops, strict=True)]
        return parts, made, whole


# "SAME" as TensorFlow writes it: half of the reach on each side, and what the blocks lack behind.
FORMS = {
    "same": Form(block=(2, 3), pads=((2, 3), (1, 4)), crops=((0, 1), (0, 2))),
    "same_relu6": Form(pads=((2, 3), (1, 4)), crops=((0, 1), (0, 2)), activation=3),
    "valid": Form(pads=((0, 1), (0, 2)), crops=((0, 1), (0, 2))),
    "same_inside": Form(pads=((0, 1), (0, 2)), crops=((0, 1), (0, 2)), padding=SAME),
    "causal": Form(pads=((4, 1), (3, 2)), crops=((0, 1), (0, 2))),
    "cropped_before": Form(pads=((3, 2), (2, 3)), crops=((1, 0), (1, 1))),
    "depthwise": Form(depthwise=True),
    "depthwise_valid": Form(depthwise=True, pads=((0, 1), (0, 2)), crops=((0, 1), (0, 2))),
    "rows_only": Form(block=(2, 1), pads=((2, 3), (0, 0)), crops=((0, 1), (0, 0)), kernel=(3, 1)),
}
# These stay as they are written.
OTHERS = {
    "crops_above_pads": Form(pads=((1, 2), (0, 2)), crops=((2, 0), (0, 0))),
    "stride": Form(pads=((0, 1), (0, 2)), crops=((0, 0), (0, 0)), stride=2, padding=SAME),
    "batches_read": Form(also="batches"),
    "result_read": Form(also="result"),
}


def built(m, form, kind="f32"):
    random = np.random.default_rng(5)
    middle = 128 if kind == "u8" else 0
    scales = [{}, {}] if kind == "f32" else [{"scale": 0.05, "zero": middle + 3}, {"scale": 0.3, "zero": middle - 7}]
    parts, made, whole = form.sizes()
    places = int(np.prod(form.block))
    x = m.input((*IMAGE, CHANNELS), kind, **scales[0])
    block = m.constant(form.block, "i32")
    filters = 2 * CHANNELS if form.depthwise else FILTERS
    shape = (1, *form.kernel, filters) if form.depthwise else (filters, *form.kernel, CHANNELS)
    if kind == "f32":
        weights = m.constant(random.standard_normal(shape))
        bias = m.constant(random.standard_normal(filters))
    elif kind == "u8":
        weights = m.constant(random.integers(0, 256, shape), "u8", scale=0.02, zero=131)
        bias = m.constant(random.integers(-3000, 3000, filters), "i32", scale=0.02 * 0.05)
    else:
        steps = np.linspace(0.01, 0.03, filters)
        weights = m.constant(random.integers(-127, 128, shape), "i8", scale=steps, axis=3 if form.depthwise else 0)
        bias = m.constant(random.integers(-3000, 3000, filters), "i32", scale=steps * 0.05)
    batches = m.op(
        "SPACE_TO_BATCH_ND", [x, block, m.constant(form.pads, "i32")], (2 * places, *parts, CHANNELS), kind, **scales[0]
    )
    fields = {"padding": form.padding, "strideH": form.stride, "strideW": form.stride}
    fields["fusedActivationFunction"] = form.activation
    if form.depthwise:
        fields["depthMultiplier"] = 2
    builtin, table = ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions") if form.depthwise else ("CONV_2D", "Conv2DOptions")
    result = m.op(
        builtin, [batches, weights, bias], (2 * places, *made, filters), kind, (table, fields), version=3, **scales[1]
    )
    crops = m.constant(form.crops, "i32")
    y = m.op("BATCH_TO_SPACE_ND", [result, block, crops], (2, *whole, filters), kind, **scales[1])
    return [y] + {"": [], "batches": [batches], "result": [result]}[form.also]


@pytest.mark.parametrize("name", FORMS)
def test_becomes_one_convolution(name, tmp_path):
    m = Model()
    m.write(tmp_path / "m.tflite", built(m, FORMS[name]))
    model = agrees(tmp_path / "m.tflite")
    kinds = [kind for kind in operators(model) if kind not in ("Transpose", "Clip")]
    assert kinds == ["Conv"]
    node = next(node for node in model.graph.node if node.op_type == "Conv")
    (dilations,) = [list(one.ints) for one in node.attribute if one.name == "dilations"]
    assert dilations == list(FORMS[name].block)


@pytest.mark.parametrize("name", OTHERS)
def test_stays_as_it_is_written(name, tmp_path):
    m = Model()
    m.write(tmp_path / "m.tflite", built(m, OTHERS[name]))
    assert "Reshape" in operators(agrees(tmp_path / "m.tflite"))


@pytest.mark.parametrize("kind", ["i8", "u8"])
@pytest.mark.parametrize("name", ["same", "depthwise", "causal"])
def test_integers_keep_their_group(name, kind, tmp_path):
    m = Model()
    m.write(tmp_path / "m.tflite", built(m, FORMS[name], kind))
    model = agrees(tmp_path / "m.tflite")
    assert "Reshape" not in operators(model)
    # On x86 ONNX Runtime leaves convolutions of int8 data as they are.
    assert kind == "i8" or "QLinearConv" in optimized(tmp_path / "m.tflite")
