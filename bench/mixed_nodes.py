# SPDX-License-Identifier: Apache-2.0
"""A model that is nothing but nodes, of the kinds and with the lengths of names that exporters write: blocks of Conv, Relu,
Add, Reshape, MatMul and Reshape, each with weights of its own."""

import numpy
import onnx
from onnx import TensorProto, helper

BLOCK = 6  # nodes
CHANNELS, HEIGHT, WIDTH = 4, 3, 5
IMAGE, ROWS = [1, CHANNELS, HEIGHT, WIDTH], [1, CHANNELS, HEIGHT * WIDTH]


def tensor(name, array):
    return helper.make_tensor(name, TensorProto.FLOAT, array.shape, array.tobytes(), raw=True)


def write(path, count):
    """Writes a model of about `count` nodes (whole blocks)."""
    random = numpy.random.default_rng(7)
    nodes, weights, x = [], [], "pixel_values"

    def node(kind, place, inputs, **attributes):
        name = f"{place}/{kind}"
        nodes.append(helper.make_node(kind, inputs, [f"{name}_output_0"], name, **attributes))
        return f"{name}_output_0"

    def weight(name, *shape):
        fan_in = numpy.prod(shape[1:]) if len(shape) > 1 else 1
        array = random.standard_normal(shape, numpy.float32) * numpy.float32(0.3 / fan_in**0.5)
        weights.append(tensor(name, array))
        return name

    for name, shape in (("rows_shape", ROWS), ("image_shape", IMAGE)):
        weights.append(helper.make_tensor(name, TensorProto.INT64, [len(shape)], shape))
    for block in range(max(1, count // BLOCK)):
        place, parameters = f"/model/encoder/layers.{block}/mixer", f"model.encoder.layers.{block}.mixer"
        y = node(
            "Conv",
            f"{place}/conv",
            [
                x,
                weight(f"{parameters}.conv.weight", CHANNELS, CHANNELS, 1, 1),
                weight(f"{parameters}.conv.bias", CHANNELS),
            ],
            dilations=[1, 1],
            group=1,
            kernel_shape=[1, 1],
            pads=[0, 0, 0, 0],
            strides=[1, 1],
        )
        y = node("Add", place, [node("Relu", f"{place}/act", [y]), x])
        y = node("Reshape", f"{place}/flatten", [y, "rows_shape"], allowzero=0)
        y = node("MatMul", f"{place}/proj", [y, weight(f"{parameters}.proj.weight", HEIGHT * WIDTH, HEIGHT * WIDTH)])
        x = node("Reshape", f"{place}/unflatten", [y, "image_shape"], allowzero=0)
    graph = helper.make_graph(
        nodes,
        "mixed-nodes",
        [helper.make_tensor_value_info("pixel_values", TensorProto.FLOAT, IMAGE)],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, IMAGE)],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
