# SPDX-License-Identifier: Apache-2.0
"""Other settings of `lowtide convert`, and how inputs and outputs of the files that they give differ."""

import dataclasses

import numpy as np
import onnx
from onnx import numpy_helper

from tests.fuzz.mutation.mutant import Unfit


@dataclasses.dataclass
class Setting:
    name: str = "plain"
    options: list = dataclasses.field(default_factory=list)
    fed: dict = dataclasses.field(default_factory=dict)  # inputs that differ
    gone: list = dataclasses.field(default_factory=list)  # inputs that the file does not have
    expected: dict = dataclasses.field(default_factory=dict)  # outputs that differ
    outputs: list | None = None  # instead of the model's own
    fixed: tuple = ()  # inputs whose dimensions are not what the model says
    relative: float = 0.0


def plain(m, expected, folder):
    return Setting()


def gpu(m, expected, folder):
    return Setting("gpu", ["--for=gpu"])


def external(m, expected, folder):
    return Setting("external", ["--external-buffers"])


def tables(m, expected, folder):
    if not m.steps:
        raise Unfit
    return Setting("tables", ["--tables"])


def half_weights(m, expected, folder):
    return Setting("f16", ["--weights=f16"], relative=2e-3)


def channels_last(array):
    return np.moveaxis(array, 1, -1)


def layout(m, expected, folder):
    """Inputs and outputs with the channels last."""
    setting = Setting("layout")
    for values, changed in ((m.feeds, setting.fed), (expected, setting.expected)):
        for name, of in values.items():
            if of.ndim in (3, 4, 5) and m.chance(0.6) and of.dtype != object:
                changed[name] = np.ascontiguousarray(channels_last(of))
                setting.options.append(f"--layout={name}=nhwc")
    if not setting.options:
        raise Unfit
    setting.fixed = tuple(setting.fed)
    return setting


def named_dims(m):
    """{dimension of inputs: its extent}"""
    names = {}
    for value in m.graph.input:
        if value.name in m.feeds:
            for dim, extent in zip(value.type.tensor_type.shape.dim, m.feeds[value.name].shape):
                if dim.dim_param:
                    names[dim.dim_param] = extent
    return names


def dim(m, expected, folder):
    names = named_dims(m)
    chosen = sorted(names) if m.chance(0.5) else [m.pick(sorted(names))]
    if not chosen or any(names[name] < 1 for name in chosen):
        raise Unfit
    return Setting("dim", [f"--dim={name}={names[name]}" for name in chosen], fixed=tuple(m.feeds))


def shape(m, expected, folder):
    dynamic = [
        v.name
        for v in m.graph.input
        if v.name in m.feeds and any(not d.HasField("dim_value") for d in v.type.tensor_type.shape.dim)
    ]
    chosen = dynamic if m.chance(0.5) else [m.pick(dynamic)]
    if not chosen or any(not m.feeds[name].size for name in chosen):
        raise Unfit
    return Setting(
        "shape", [f"--shape={name}={','.join(map(str, m.feeds[name].shape))}" for name in chosen], fixed=tuple(chosen)
    )


def frozen(m, expected, folder):
    name = m.pick(m.feeds)
    if len(m.feeds) < 2:
        raise Unfit
    np.save(folder / "const.npy", m.feeds[name])
    return Setting("const", [f"--const={name}={folder / 'const.npy'}"], gone=[name])


def outputs(m, expected, folder):
    inner = m.inner_values()
    names = [m.pick(inner)]
    if m.chance(0.4):
        names.append(m.pick(name for name in [*expected, *inner] if name not in names))
    made = m.outputs(names)
    if any(not isinstance(of, np.ndarray) for of in made.values()):
        raise Unfit
    return Setting("outputs", [f"--outputs={','.join(names)}"], outputs=names, expected=made)


SETTINGS = (gpu, gpu, gpu, half_weights, layout, layout, dim, shape, frozen, outputs, outputs, tables, external)


def choose(m):
    """Before the model is judged: what it must be like for the setting."""
    setting = m.pick(SETTINGS) if m.chance(0.4) else plain
    if (
        setting is half_weights
    ):  # numbers that half precision holds, so that only rounding of products of constants is left
        for tensor in m.constants(lambda t: t.data_type == onnx.TensorProto.FLOAT):
            with np.errstate(over="ignore"):
                rounded = numpy_helper.to_array(tensor).astype(np.float16).astype(np.float32)
            if np.isfinite(rounded).all():
                m.set_constant(tensor, rounded)
    m.setting = setting
