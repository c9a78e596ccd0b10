# SPDX-License-Identifier: Apache-2.0
"""Judges a raised model operator by operator.

    python -m tests.raised.by_operator MODEL.tflite...

Each tensor that both models have by the same name is computed by ONNX Runtime from LiteRT's values of the tensors before
it, and compared with LiteRT's value: differences do not add up over the network, as they do in its outputs. Integers are
bad beyond two steps, floats beyond 1 % of the range (LiteRT rounds the data of hybrid operators as it runs).
Prints the bad ones, and a line with counts.
"""

import itertools
import pathlib
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from onnx import helper

from tests.raised.judge_raised import STEPS, inputs_for
from tests.support import converter

MOST_OF_RANGE = 0.01


def run_litert(path):
    """{name: value} of all tensors."""
    interpreter = Interpreter(
        str(path),
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        experimental_preserve_all_tensors=True,
    )
    interpreter.allocate_tensors()
    details = interpreter.get_input_details()
    for detail, value in zip(details, inputs_for(details), strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    out = {}
    for detail in interpreter.get_tensor_details():
        if detail["name"] and detail["name"] not in out:
            out[detail["name"]] = interpreter.get_tensor(detail["index"])
    return out


class Parts:
    """The nodes between tensors that both models know."""

    def __init__(self, model, values):
        self.model, self.values = model, values
        graph = model.graph
        self.infos = {port.name: port for port in [*graph.value_info, *graph.input, *graph.output]}
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        self.makers = {name: node for node in graph.node for name in node.output}
        self.known = {name for name in self.infos if name in values and name not in self.constants}

    def shape(self, name):
        return tuple(dim.dim_value for dim in self.infos[name].type.tensor_type.shape.dim)

    def forms(self, name):
        """LiteRT's value in the axis order of the ONNX model; where both fit, both."""
        value = self.values[name]
        turned = [value.transpose(0, 3, 1, 2)] if value.ndim == 4 else []
        return [form for form in [value, *turned] if form.shape == self.shape(name)]

    def before(self, name):
        """Nodes, inputs, constants."""
        nodes, inputs, constants = [], [], {}

        def walk(wanted):
            node = self.makers[wanted]
            if any(node is other for other in nodes):
                return
            for source in filter(None, node.input):
                if source in self.constants:
                    constants[source] = self.constants[source]
                elif source in self.known:
                    inputs.extend([source] if source not in inputs else [])
                else:
                    walk(source)
            nodes.append(node)

        walk(name)
        return nodes, inputs, constants

    def judge(self, name):
        """None where it cannot be judged; else whether it is right, and in words how far it is off."""
        nodes, inputs, constants = self.before(name)
        if not inputs:
            return None
        infos = [self.infos[source] for source in inputs]
        graph = helper.make_graph(nodes, "part", infos, [self.infos[name]], list(constants.values()))
        part = helper.make_model(graph, opset_imports=self.model.opset_import, ir_version=self.model.ir_version)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(part.SerializeToString(), options)
        best = None
        for choice in itertools.product(*(self.forms(source) for source in inputs)):
            feed = {source: np.ascontiguousarray(value) for source, value in zip(inputs, choice, strict=True)}
            (made,) = session.run(None, feed)
            for wanted in self.forms(name):
                off = distance(wanted, made)
                best = off if best is None else min(best, off)
        return best and (best[0] <= 1, f"{best[1]} by {', '.join(node.op_type for node in nodes)}")


def distance(wanted, made):
    """1 and less is right."""
    apart = np.abs(wanted.astype(np.float64) - made.astype(np.float64)).max(initial=0)
    if np.issubdtype(wanted.dtype, np.integer):
        return apart / STEPS, f"{apart:g} steps"
    extent = max(float(np.ptp(wanted)) if wanted.size else 0.0, 1e-6)
    return apart / extent / MOST_OF_RANGE, f"{apart / extent:.2g} of the range"


def judge_model(path):
    """(judged, [(tensor, how far it is off)])."""
    with tempfile.TemporaryDirectory(prefix="lowtide-by-operator-") as folder:
        output = pathlib.Path(folder) / "m.onnx"
        done = converter.run("convert", path, "-o", output)
        assert done.returncode == 0, done.stderr
        model = onnx.shape_inference.infer_shapes(onnx.load(output))
    parts = Parts(model, run_litert(path))
    names = [name for node in model.graph.node for name in node.output if name in parts.known]
    verdicts = [(name, parts.judge(name)) for name in names]
    bad = [(name, verdict[1]) for name, verdict in verdicts if verdict and not verdict[0]]
    return sum(verdict is not None for _, verdict in verdicts), bad


def main():
    failed = 0
    for path in map(pathlib.Path, sys.argv[1:]):
        judged, bad = judge_model(path)
        for name, off in bad:
            print(f"  {name}: {off}")
        print(f"{path.stem}: {judged} tensors judged, {len(bad)} bad", flush=True)
        failed += bool(bad)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
