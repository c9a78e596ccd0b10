# SPDX-License-Identifier: Apache-2.0
"""One operator case: a small ONNX model in a few lines of text, and what is expected of it.

    Case("conv/strides", "float[1,3,7,9] x", "y = Conv<strides=[2,1]>(x, w)", {"w": (4, 3, 3, 2)})

The texts are ONNX's own text form (onnx.parser). Weights become initializers: an array as it is, a tuple as a
seeded random float32 tensor of that shape. A case that lowtide cannot express stands in refused.tsv. Types and shapes of the outputs come from ONNX's shape inference; where
it cannot know them, `outputs` spells them. All dimensions of a case should differ, so that a layout mistake shows.
"""

import dataclasses
import zlib
from collections.abc import Callable

import numpy as np
import onnx
import onnx.parser
import onnx.shape_inference
from onnx import helper, numpy_helper

from tests.support import judge
from tests.support.compare import RangeTolerance
from tests.support.inputs import random_inputs


@dataclasses.dataclass
class Case:
    name: str  # family/what
    inputs: str
    body: str
    weights: dict = dataclasses.field(default_factory=dict)
    opset: int = 13
    outputs: str = "y"
    ranges: dict = dataclasses.field(default_factory=dict)  # input values, {name: (low, high)}
    shapes: dict = dataclasses.field(default_factory=dict)  # dynamic dimensions of the inputs that are fed
    feeds: dict | None = None  # exact inputs {name: array} instead of random ones
    opsets: dict = dataclasses.field(default_factory=dict)  # further domains, {domain: version}
    tolerance: float = 1e-4
    steps: int = 0  # 1 where integer kernels compute the result (docs/integer-models.md)
    foreign: bool = False  # an operator in ONNX's domain that is ONNX Runtime's own, which ONNX's checker does not know
    # Who knows the answer where ONNX Runtime has no kernel: the body of an equal graph, or a function of the inputs.
    same_as: str = ""
    numpy: Callable | None = None  # (inputs by name, weights by name) -> {output: array}

    def constants(self):
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        return {
            name: rng.uniform(-1, 1, weight).astype(np.float32) if isinstance(weight, tuple) else np.asarray(weight)
            for name, weight in self.weights.items()
        }

    def expected(self, arrays):
        """{output: array} from `same_as` or `numpy`; None when ONNX Runtime is to be asked about the model itself."""
        if self.numpy:
            return self.numpy(arrays, self.constants())
        if self.same_as:
            return judge.reference(self.model(self.same_as).SerializeToString(), arrays)
        return None

    def model(self, body=""):
        graph = onnx.parser.parse_graph(f"g ({self.inputs}) => ({self.outputs}) {{ {body or self.body} }}")
        for name, weight in self.constants().items():
            graph.initializer.append(numpy_helper.from_array(weight, name))
        opsets = [helper.make_opsetid("", self.opset)]
        opsets += [helper.make_opsetid(domain, version) for domain, version in self.opsets.items()]
        # The oldest IR version that knows initializers without an input of the same name, as far as the opset allows.
        ir_version = max(helper.find_min_ir_version_for(opsets, ignore_unknown=True), 4)
        model = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)
        if any(not output.type.WhichOneof("value") for output in graph.output):
            model = onnx.shape_inference.infer_shapes(model, data_prop=True)
        for output in model.graph.output:
            if not output.type.tensor_type.elem_type:
                raise ValueError(f"{self.name}: say the type of output '{output.name}'")
        if not self.foreign:
            onnx.checker.check_model(model)
        return model


def judge_case(case, folder, litert, quiet=False, **how):
    """Converts the case's model and judges it; the model stays in `folder`. Prints the report unless `quiet`."""
    model, path = case.model(), folder / "model.onnx"
    onnx.save(model, path)
    arrays = random_inputs(model, case.shapes, case.ranges) if case.feeds is None else case.feeds
    verdict = judge.judge(
        path,
        arrays=arrays,
        expected=case.expected(arrays),
        tolerance=RangeTolerance(case.tolerance, case.steps),
        litert=litert,
        **how,
    )
    if not quiet:
        print(judge.report(verdict))
    return verdict


def i64(*values):
    return np.array(values, np.int64)


def f32(*values):
    return np.array(values, np.float32)
