# SPDX-License-Identifier: Apache-2.0
"""Spectra and what stands around them: DFT, STFT, windows, mel weights; determinants.

numpy.fft is the second judge of the transforms: lengths that are no powers of two, odd and even.
"""

import numpy as np

from tests.support.case import Case, f32

CASES = []


def dft(name, dims, attributes, length=None, axis=None, opset=20, outputs="y", **more):
    weights = {}
    if length is not None:
        weights["n"] = np.array(length, np.int64)
    if axis is not None:
        weights["a"] = np.array(axis, np.int64)
    arguments = (
        "x" + (", n" if length is not None else ", " if axis is not None else "") + (", a" if axis is not None else "")
    )
    CASES.append(
        Case(
            "dft/" + name,
            f"float[{dims}] x",
            f"y = DFT{attributes}({arguments})",
            weights,
            opset=opset,
            outputs=outputs,
            **more,
        )
    )


dft("real", "2,3,10,1", "")
dft("complex", "2,3,10,2", "")
dft("odd_length", "2,3,7,2", "")
dft("onesided", "2,3,10,1", "<onesided=1>")
dft("onesided_odd", "2,3,7,1", "<onesided=1>")
dft("inverse", "2,3,10,2", "<inverse=1>")
dft("axis_0", "5,3,4,2", "", axis=0)
dft("axis_1", "2,5,4,2", "", axis=1)
dft("axis_negative", "2,5,4,2", "", axis=-3)
dft("padded", "2,3,6,1", "", length=9, outputs="float[2,3,9,2] y")
dft("cut", "2,3,9,2", "", length=6, outputs="float[2,3,6,2] y")
dft("cut_onesided", "2,3,9,1", "<onesided=1>", length=7, outputs="float[2,3,4,2] y")
dft("opset_17_default_axis", "3,10,1", "", opset=17)
dft("opset_17_axis", "3,4,10,2", "<axis=2>", opset=17)
dft("opset_17_inverse", "3,10,2", "<inverse=1>", opset=17)
dft("opset_17_onesided", "3,10,1", "<onesided=1>", opset=17)
dft("dynamic_batch", "N,10,1", "<onesided=1>", shapes={"x": [3, 10, 1]})
CASES.append(Case("dft/there_and_back", "float[2,12,2] x", "f = DFT(x) y = DFT<inverse=1>(f)", opset=20))
dft("long", "2,1000,1", "<onesided=1>")
# A real signal of half a spectrum, as numpy's irfft.
HALF = "<inverse=1, onesided=1>"
for opset in (17, 20):
    dft(f"half_{opset}", "2,6,2", HALF, opset=opset, outputs="float[2,10,1] y")
    dft(f"half_even_{opset}", "2,7,2", HALF, length=12, opset=opset, outputs="float[2,12,1] y")
    dft(f"half_odd_{opset}", "2,7,2", HALF, length=13, opset=opset, outputs="float[2,13,1] y")
dft("half_of_one", "3,1,2", HALF, length=1, outputs="float[3,1,1] y")
dft("half_of_two", "3,2,2", HALF, outputs="float[3,2,1] y")
dft("half_axis", "5,3,4,2", HALF, axis=0, outputs="float[8,3,4,1] y")
dft("half_opset_17_axis", "3,4,7,2", "<axis=2, inverse=1, onesided=1>", opset=17, outputs="float[3,4,12,1] y")
dft("half_dynamic_batch", "N,6,2", HALF, outputs="float[N,10,1] y", shapes={"x": [3, 6, 2]})
dft("half_long", "2,513,2", HALF, outputs="float[2,1024,1] y")
for opset in (17, 20):
    there = {17: "f = DFT<onesided=1>(x)", 20: "f = DFT<onesided=1>(x, , a)"}[opset]
    CASES.append(
        Case(
            f"dft/half_there_and_back_{opset}",
            "float[2,11,1] x",
            f"{there} y = DFT{HALF}(f, n)",
            {"n": np.array(11)} | ({"a": np.array(1)} if opset == 20 else {}),
            opset=opset,
            outputs="float[2,11,1] y",
            same_as="y = Identity(x)",
        )
    )


def stft(name, inputs, body, weights, **more):
    CASES.append(Case("stft/" + name, inputs, body, {"s": np.array(5, np.int64), **weights}, opset=17, **more))


W = np.hanning(12).astype(np.float32)
stft("window", "float[2,50,1] x", "y = STFT(x, s, w)", {"w": W}, outputs="float[2,8,7,2] y")
stft("window_at_run_time", "float[2,50,1] x, float[12] w", "y = STFT(x, s, w)", {}, outputs="float[2,8,7,2] y")
stft(
    "frame_length", "float[2,50,1] x", "y = STFT(x, s, , n)", {"n": np.array(13, np.int64)}, outputs="float[2,8,7,2] y"
)
stft("two_sided", "float[2,50,1] x", "y = STFT<onesided=0>(x, s, w)", {"w": W}, outputs="float[2,8,12,2] y")
stft("complex", "float[2,50,2] x", "y = STFT<onesided=0>(x, s, w)", {"w": W}, outputs="float[2,8,12,2] y")
stft(
    "window_and_frame_length",
    "float[2,50,1] x",
    "y = STFT(x, s, w, n)",
    {"w": W, "n": np.array(12, np.int64)},
    outputs="float[2,8,7,2] y",
)
# PyTorch writes real signals without the last axis.
stft("signal_of_rank_2", "float[2,50] x", "y = STFT(x, s, w)", {"w": W}, outputs="float[2,8,7,2] y")
stft(
    "dynamic_signal_of_rank_2",
    "float[N,T] x",
    "y = STFT(x, s, w)",
    {"w": W},
    outputs="float[N,F,7,2] y",
    shapes={"x": [2, 50]},
)
stft(
    "dynamic_length",
    "float[N,T,1] x",
    "y = STFT(x, s, w)",
    {"w": W},
    outputs="float[N,F,7,2] y",
    shapes={"x": [2, 50, 1]},
)
for parts, sides in ((1, 1), (2, 0)):
    CASES.append(
        Case(
            f"stft/step_at_run_time_{parts}",
            f"float[2,50,{parts}] x, int64 s",
            f"y = STFT<onesided={sides}>(x, s, w)",
            {"w": W},
            opset=17,
            outputs=f"float[2,F,{7 if sides else 12},2] y",
            feeds={
                "x": np.random.default_rng(3).normal(size=(2, 50, parts)).astype(np.float32),
                "s": np.array(5, np.int64),
            },
        )
    )

for kind in ("Hann", "Hamming", "Blackman"):
    for periodic in (0, 1):
        for size in (10, 11):
            CASES.append(
                Case(
                    f"window/{kind.lower()}_{size}_periodic_{periodic}",
                    "float[3,1] x",
                    f"h = {kind}Window<periodic={periodic}>(n) y = Mul(h, x)",
                    {"n": np.array(size, np.int64)},
                    opset=17,
                    outputs=f"float[3,{size}] y",
                )
            )
    CASES.append(
        Case(
            f"window/{kind.lower()}_at_run_time",
            "int64 n",
            f"y = {kind}Window(n)",
            opset=17,
            outputs="float[N] y",
            feeds={"n": np.array(9, np.int64)},
        )
    )
CASES.append(
    Case(
        "window/uint64_at_run_time",
        "int64 n",
        "y = HannWindow<output_datatype=13>(n)",
        opset=17,
        outputs="uint64[N] y",
        feeds={"n": np.array(8, np.int64)},
    )
)
CASES += [
    Case(
        "mel/weights",
        "float[2,17] x",
        "w = MelWeightMatrix(m, n, r, l, h) y = MatMul(x, w)",
        {
            "m": np.array(8, np.int64),
            "n": np.array(32, np.int64),
            "r": np.array(8192, np.int64),
            "l": np.array(0, np.float32),
            "h": np.array(4096, np.float32),
        },
        opset=17,
        outputs="float[2,8] y",
    ),
    Case(
        "mel/bins_that_fall_together",
        "float[2,17] x",
        "w = MelWeightMatrix(m, n, r, l, h) y = MatMul(x, w)",
        {
            "m": np.array(20, np.int64),
            "n": np.array(32, np.int64),
            "r": np.array(16000, np.int64),
            "l": np.array(20, np.float32),
            "h": np.array(7000, np.float32),
        },
        opset=17,
        outputs="float[2,20] y",
    ),
    Case(
        "mel/large",
        "float[2,513] x",
        "w = MelWeightMatrix(m, n, r, l, h) y = MatMul(x, w)",
        {
            "m": np.array(80, np.int64),
            "n": np.array(1024, np.int64),
            "r": np.array(22050, np.int64),
            "l": np.array(40, np.float32),
            "h": np.array(8000, np.float32),
        },
        opset=17,
        outputs="float[2,80] y",
    ),
]
for size in (1, 2, 3, 4, 7):
    CASES.append(Case(f"det/{size}", f"float[3,5,{size},{size}] x", "y = Det(x)"))
CASES += [
    Case("det/one_matrix", "float[4,4] x", "y = Det(x)"),
    Case(
        "det/zero_pivots",
        "float[2,3,3] x",
        "y = Det(x)",
        feeds={"x": f32(0, 2, 1, 0, 0, 3, 4, 1, 1, 0, 2, 1, 0, 5, 3, 0, 1, 1).reshape(2, 3, 3)},
    ),
    Case("det/dynamic_batch", "float[N,4,4] x", "y = Det(x)", shapes={"x": [3, 4, 4]}),
]
CASES += [
    Case(
        "dft/half_of_another_length",
        "float[2,7,2] x",
        "y = DFT<inverse=1, onesided=1>(x, n)",
        {"n": np.array(20)},
        opset=20,
        outputs="float[2,20,1] y",
    ),
    Case("random/normal", "float[2,3] x", "r = RandomNormal<shape=[2,3], seed=1.0>() y = Add(x, r)"),
    Case("random/normal_like", "float[2,3] x", "r = RandomNormalLike(x) y = Add(x, r)"),
    Case("random/uniform", "float[2,3] x", "r = RandomUniform<shape=[2,3]>() y = Add(x, r)"),
    Case("random/uniform_like", "float[2,3] x", "r = RandomUniformLike(x) y = Add(x, r)"),
    Case("random/bernoulli", "float[2,3] x", "y = Bernoulli(x)", opset=15),
    Case("random/multinomial", "float[2,3] x", "y = Multinomial(x)", outputs="int32[2,1] y"),
]
