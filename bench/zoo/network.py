# SPDX-License-Identifier: Apache-2.0
"""One row of the zoo: what is built, and what it is fed. Neither torch nor transformers is needed to read the tables."""

import dataclasses
import zlib

import numpy as np

VOCABULARY = 99  # of all small language models


@dataclasses.dataclass(frozen=True)
class Input:
    """`name` as the model's forward calls it. `dims`: numbers, and names of sizes (Network.sizes).

    `kind`: "signal" (normal numbers), "unit" (from 0 to 1), "tokens", "mask" (the last quarter is 0), "positions" (0, 1, ..., behind the past).
    """

    name: str
    kind: str
    dims: tuple

    def shape(self, size):
        return tuple(size[dim] if isinstance(dim, str) else dim for dim in self.dims)

    def array(self, size, seed=0):
        shape = self.shape(size)
        rng = np.random.default_rng([seed, zlib.crc32(self.name.encode())])
        if self.kind == "signal":
            return rng.standard_normal(shape).astype(np.float32)
        if self.kind == "unit":
            return rng.random(shape).astype(np.float32)
        if self.kind == "tokens":
            return rng.integers(3, VOCABULARY, shape)  # 0 to 2 begin, end and fill sentences
        if self.kind == "mask":
            mask = np.ones(shape, np.int64)
            mask[..., shape[-1] - shape[-1] // 4 :] = 0
            return mask
        if self.kind == "positions":
            return np.broadcast_to(np.arange(shape[-1]) + size.get("P", 0), shape).astype(np.int64).copy()
        raise ValueError(f"input {self.name}: no kind {self.kind}")


@dataclasses.dataclass(frozen=True)
class Network:
    """`model`: a class of transformers, or of bench/zoo/modules.py with "own." before; `part`: the submodule to export.

    `config` goes to the model's configuration class (or the own module). `sizes`: the two sizes it is judged at, {name: number};
    names in capitals are only dimensions of inputs, the others are fields of the configuration as well. `dynamic`: sizes that are
    left open in one more export. `outputs`: fields of the answer. `cache`: (layers, heads of keys, their width) of a decoder that
    is given keys and values of P earlier tokens. `large`: changes of configuration and sizes for `--size large`. `spread`: weights
    as wide as keep the signal's size from layer to layer, where the configuration's are so small that inputs hardly reach the output.
    """

    name: str
    model: str
    config: dict
    inputs: tuple
    sizes: tuple
    outputs: str = "last_hidden_state"
    dynamic: tuple = ()
    part: str = ""
    cache: tuple = ()
    large: dict | None = None
    spread: bool = False

    def all_inputs(self):
        layers, heads, width = self.cache or (0, 0, 0)
        past = (
            Input(f"past_{i}_{what}", "signal", (1, heads, "P", width))
            for i in range(layers)
            for what in ("key", "value")
        )
        return (*self.inputs, *past)

    def size(self, which):
        """`which`: small, second or large. An open size has no numbers of its own: it is exported at the small one."""
        if which == "large":
            known = self.sizes[0]
            return {**known, **{name: value for name, value in self.large.items() if name in known}}
        return self.sizes[1 if which == "second" else 0]

    def configuration(self, which):
        fields = {name: value for name, value in self.size(which).items() if not name.isupper()}
        extra = {name: value for name, value in self.large.items() if not name.isupper()} if which == "large" else {}
        return {**self.config, **fields, **extra}

    def variants(self):
        """What is exported: at fixed sizes, and with open ones in place of the second where that is possible."""
        return ("small", "dynamic") if self.dynamic else ("small", "second")


def tokens(name="input_ids"):
    return Input(name, "tokens", (1, "L"))


def mask(name="attention_mask", length="L"):
    return Input(name, "mask", (1, length))


def square(channels=3):
    return (Input("pixel_values", "signal", (1, channels, "image_size", "image_size")),)


def picture(channels=3):
    return (Input("pixel_values", "signal", (1, channels, "H", "W")),)


def lengths(small=16, second=23):
    return ({"L": small}, {"L": second})


def squares(small=64, second=96):
    return ({"image_size": small}, {"image_size": second})


def pictures(small=(64, 96), second=(96, 160)):
    return tuple({"H": height, "W": width} for height, width in (small, second))
