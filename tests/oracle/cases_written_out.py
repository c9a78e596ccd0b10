# SPDX-License-Identifier: Apache-2.0
"""Activations that exporters write out: in half precision, without a factor that a tool moved, PReLU as a sum; and near
misses. And flattens of images behind which other ops than the layer stand.
"""

import numpy as np

from tests.support.case import Case, f32

CASES = []
X = "[1,4,3,5]"
RANGES = {"x": (-4, 4)}

# Constants that are rounded to halves.
ROUNDED = {
    "gelu_div": (
        "d = Div(x, r) e = Erf(d) a = Add(e, o) m = Mul(x, a) y = Mul(m, h)",
        {"r": 2**0.5, "o": 1, "h": 0.5},
    ),
    "gelu_mul": (
        "d = Mul(x, r) e = Erf(d) a = Add(e, o) m = Mul(x, a) y = Mul(m, h)",
        {"r": 0.5**0.5, "o": 1, "h": 0.5},
    ),
    "gelu_tanh": (
        "p = Mul(x, x) q = Mul(p, x) c = Mul(q, k) s = Add(x, c) d = Mul(s, r) e = Tanh(d) a = Add(e, o) m = Mul(x, h) "
        "y = Mul(m, a)",
        {"k": 0.044715, "r": (2 / np.pi) ** 0.5, "o": 1, "h": 0.5},
    ),
    "hard_swish": (
        "a = Add(x, t) c = Clip(a, z, s) m = Mul(c, q) y = Mul(m, x)",
        {"t": 3, "z": 0, "s": 6, "q": 1 / 6},
    ),
    "hard_swish_of_attribute": ("h = HardSigmoid<alpha=0.16662598, beta=0.5>(x) y = Mul(h, x)", {}),
}
for name, (body, numbers) in ROUNDED.items():
    weights = {k: np.float16(v) for k, v in numbers.items()}
    CASES.append(
        Case(
            f"written_out/{name}_f16",
            f"float16{X} x",
            body,
            weights,
            ranges=RANGES,
            outputs=f"float16{X} y",
            tolerance=1e-3,
        )
    )
# In a model of floats such a number means itself.
CASES.append(
    Case(
        "written_out/hard_swish_near_f32",
        f"float{X} x",
        ROUNDED["hard_swish"][0],
        {k: np.float32(np.float16(v)) for k, v in ROUNDED["hard_swish"][1].items()},
        ranges=RANGES,
    )
)

# The factor 0.5 is in the weights behind, or missing, or another.
BEND = "d = Div(x, r) e = Erf(d) a = Add(e, o) "
TANH = "p = Mul(x, x) q = Mul(p, x) c = Mul(q, k) s = Add(x, c) d = Mul(s, r) e = Tanh(d) a = Add(e, o) "
ERF = {"r": np.float32(2**0.5), "o": f32(1)}
CUBIC = {"k": np.float32(0.044715), "r": np.float32((2 / np.pi) ** 0.5), "o": f32(1)}
for name, body, weights in (
    ("conv_behind", BEND + "m = Mul(x, a) y = Conv(m, w)", {**ERF, "w": (6, 4, 1, 1)}),
    ("alone", BEND + "y = Mul(a, x)", ERF),
    ("other_factor", BEND + "m = Mul(x, a) y = Mul(m, h)", {**ERF, "h": np.float32(0.3)}),
    ("tanh", TANH + "y = Mul(x, a)", CUBIC),
    ("of_another", BEND + "n = Neg(x) y = Mul(n, a)", ERF),
):
    CASES.append(Case(f"written_out/gelu_without_half_{name}", f"float{X} x", body, weights, ranges=RANGES))
CASES.append(
    Case(
        "written_out/gelu_product_used_twice",
        f"float{X} x",
        BEND + "m = Mul(x, a) z = Mul(m, h) y = Sigmoid(m)",
        {**ERF, "h": np.float32(0.5)},
        ranges=RANGES,
        outputs="y, z",
    )
)

KERAS = "p = Relu(x) n = Neg(x) r = Relu(n) m = Mul(r, a) y = Add(p, m)"
LINES = "s = Mul(x, p) b = Abs(x) t = Mul(b, q) y = Add(s, t)"
ABOUT_ONE_SLOPE = {"p": np.float32(0.6), "q": np.float32(0.4)}
for name, body, weights in (
    ("keras", KERAS, {"a": (4, 1, 1)}),
    ("keras_of_rows", KERAS, {"a": (5,)}),
    ("keras_each", KERAS, {"a": (4, 3, 5)}),
    ("keras_one", KERAS, {"a": np.float32(-0.3)}),
    ("difference", "p = Relu(x) n = Neg(x) r = Relu(n) m = Mul(a, r) y = Sub(p, m)", {"a": (4, 1, 1)}),
    ("negated", "p = Relu(x) n = Neg(x) r = Relu(n) g = Neg(r) m = Mul(g, a) y = Add(m, p)", {"a": (4, 1, 1)}),
    (
        "max_and_min",
        "p = Max(x, z) r = Min(z, x) m = Mul(r, a) y = Add(m, p)",
        {"z": np.float32(0), "a": (4, 1, 1)},
    ),
    (
        "tensorflow",
        "p = Relu(x) b = Abs(x) d = Sub(x, b) m = Mul(d, a) h = Mul(m, k) y = Add(p, h)",
        {"a": (4, 1, 1), "k": np.float32(0.5)},
    ),
    ("of_a_conv", "x2 = Conv(x, w) " + KERAS.replace("(x)", "(x2)"), {"w": (6, 4, 1, 1), "a": (6, 1, 1)}),
    ("of_lines", LINES, ABOUT_ONE_SLOPE),
    ("of_steeper_lines", LINES, {"p": np.float32(0.6), "q": np.float32(0.6)}),
    ("larger_slopes", KERAS, {"a": (2, 4, 1, 1)}),
    ("of_another", "p = Relu(x) x3 = Exp(x) n = Neg(x3) r = Relu(n) m = Mul(r, a) y = Add(p, m)", {"a": (4, 1, 1)}),
    ("minuend", "p = Relu(x) n = Neg(x) r = Relu(n) m = Mul(r, a) y = Sub(m, p)", {"a": (4, 1, 1)}),
):
    CASES.append(Case(f"written_out/prelu_{name}", f"float{X} x", body, weights, ranges=RANGES))
CASES.append(Case("written_out/prelu_of_rank_5", "float[2,4,3,1,5] x", KERAS, {"a": (4, 1, 1, 1)}, ranges=RANGES))
CASES.append(
    Case(
        "written_out/prelu_of_unknown_extents", "float[N,4,H,5] x", KERAS, {"a": (4, 1, 1)}, shapes={"x": (2, 4, 3, 5)}
    )
)

# Conv, then a flatten into a layer; f16 and integers between them.
CONV = "c = Conv<pads=[1,1,1,1]>(x, w) "
LAYER = "f = Flatten(k) y = Gemm<transB=1>(f, v, b)"
GRID = {"s": np.float32(0.03), "z": np.uint8(100)}
FLAT = {"w": (6, 4, 3, 3), "v": (7, 90), "b": (7,)}
for name, body, weights in (
    ("rounded", CONV + "h = Cast<to=10>(c) k = Cast<to=1>(h) " + LAYER, {}),
    (
        "rounded_behind",
        CONV + "g = Flatten(c) h = Cast<to=10>(g) k = Cast<to=1>(h) f = Relu(k) y = Gemm<transB=1>(f, v, b)",
        {},
    ),
    ("on_a_grid", CONV + "h = QuantizeLinear(c, s, z) k = DequantizeLinear(h, s, z) " + LAYER, GRID),
    (
        "on_a_grid_behind",
        CONV + "g = Flatten(c) h = QuantizeLinear(g, s, z) f = DequantizeLinear(h, s, z) y = Gemm<transB=1>(f, v, b)",
        GRID,
    ),
    (
        "on_grids_of_each",
        CONV + "g = Flatten(c) h = QuantizeLinear(g, s, z) f = DequantizeLinear(h, s, z) y = Gemm<transB=1>(f, v, b)",
        {"s": np.linspace(0.02, 0.05, 90, dtype=np.float32), "z": np.full(90, 100, np.uint8)},
    ),
    ("seen", CONV + "h = Cast<to=10>(c) k = Cast<to=1>(h) e = Exp(k) " + LAYER + " o = Sigmoid(k)", {}),
):
    CASES.append(
        Case(
            f"written_out/flatten_{name}",
            f"float{X} x",
            body,
            {**FLAT, **weights},
            outputs="y, o" if name == "seen" else "y",
            tolerance=5e-3 if "grid" in name else 1e-3,
        )
    )

# Integers from the image to the layer, whose weights have one scale or one for each output.
INTEGERS = (
    "xq = QuantizeLinear(x, sx, zx) xd = DequantizeLinear(xq, sx, zx) wd = DequantizeLinear(wq, sw, zw) "
    "c = Conv<pads=[1,1,1,1]>(xd, wd) cq = QuantizeLinear(c, sx, zx) cd = DequantizeLinear(cq, sx, zx) "
    "f = Flatten(cd) fq = QuantizeLinear(f, sx, zx) fd = DequantizeLinear(fq, sx, zx) "
    "vd = DequantizeLinear<axis=0>(vq, sv, zv) g = Gemm<transB=1>(fd, vd) gq = QuantizeLinear(g, sg, zx) "
    "y = DequantizeLinear(gq, sg, zx)"
)
RNG = np.random.default_rng(0)
for name, scales, zeros in (
    ("", np.float32(0.01), np.int8(0)),
    ("_of_each", np.linspace(0.005, 0.02, 7, dtype=np.float32), np.zeros(7, np.int8)),
):
    CASES.append(
        Case(
            f"written_out/flatten_of_integers{name}",
            f"float{X} x",
            INTEGERS,
            {
                "sx": np.float32(0.03),
                "zx": np.int8(-3),
                "wq": RNG.integers(-60, 60, (6, 4, 3, 3)).astype(np.int8),
                "sw": np.float32(0.005),
                "zw": np.int8(0),
                "vq": RNG.integers(-60, 60, (7, 90)).astype(np.int8),
                "sv": scales,
                "zv": zeros,
                "sg": np.float32(0.1),
            },
            steps=1,
        )
    )
