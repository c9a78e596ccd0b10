# SPDX-License-Identifier: Apache-2.0
"""MatMulNBits and GatherBlockQuantized: weights of few bits in blocks, zero points packed row by row."""

import ml_dtypes
import numpy as np

from tests.support.case import Case, i64

CASES = []


def nbits(name, n, k, bits, block, zero=None, bias=False, batch="3", **more):
    rng = np.random.default_rng(11)
    blocks = -(-k // block)
    weights = {
        "b": rng.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8),
        "s": rng.uniform(0.01, 0.1, (n, blocks)).astype(np.float32),
    }
    names = "x, b, s"
    if zero == "packed":
        weights["z"] = rng.integers(0, 256, (n, -(-blocks * bits // 8))).astype(np.uint8)
    if zero == "floats":
        weights["z"] = rng.uniform(0, 2**bits, (n, blocks)).astype(np.float32)
    if zero or bias:
        names += ", z" if zero else ", "
    if bias:
        weights["c"] = (n,)
        names += ", , c"
    CASES.append(
        Case(
            f"matmul_nbits/{name}",
            f"float[{batch},{k}] x",
            f"y = com.microsoft.MatMulNBits<K={k}, N={n}, bits={bits}, block_size={block}>({names})",
            weights,
            opset=21,
            opsets={"com.microsoft": 1},
            outputs=f"float[{batch},{n}] y",
            **more,
        )
    )


nbits("4_bits", 5, 64, 4, 32)
nbits("4_bits_cut_off", 5, 71, 4, 16)
nbits("4_bits_zero_points", 5, 96, 4, 32, "packed")
nbits("4_bits_zero_points_as_floats", 5, 96, 4, 32, "floats")
nbits("4_bits_bias", 5, 64, 4, 16, bias=True)
nbits("8_bits", 5, 96, 8, 32)
nbits("8_bits_zero_points", 5, 96, 8, 32, "packed")
nbits("2_bits_zero_points", 5, 160, 2, 32, "packed")
nbits("batches", 7, 64, 4, 32, "packed", batch="2,3")
nbits("larger_than_small", 300, 512, 4, 32, "packed")
# From 1024 elements on the integers stay in the file, behind DEQUANTIZE, SUB, MUL and RESHAPE.
nbits("kept_4_bits", 24, 64, 4, 16)
nbits("kept_4_bits_zero_points", 24, 96, 4, 32, "packed", bias=True)
nbits("kept_4_bits_zero_points_as_floats", 24, 96, 4, 32, "floats")
nbits("kept_4_bits_of_one_block", 40, 32, 4, 32)
nbits("kept_8_bits", 24, 96, 8, 32)
nbits("kept_8_bits_zero_points", 24, 96, 8, 32, "packed")
nbits("kept_2_bits", 24, 160, 2, 32)
nbits("kept_2_bits_of_one_block", 40, 32, 2, 32)
nbits("kept_2_bits_zero_points", 24, 160, 2, 32, "packed")


def blocks(name, dtype, shape, axis, block, zero=False, body="y = Add(x, w)", inputs=None, output=None, least=0.01):
    """DequantizeLinear of a constant with block_size."""
    rng = np.random.default_rng(13)
    low, high = {"int4": (-8, 8), "uint4": (0, 16), "int8": (-128, 128), "uint8": (0, 256)}[np.dtype(dtype).name]
    of_blocks = [extent // block if i == axis else extent for i, extent in enumerate(shape)]
    weights = {
        "q": rng.integers(low, high, shape).astype(dtype),
        "s": rng.uniform(least, 0.1, of_blocks).astype(np.float32),
    }
    if zero:
        weights["z"] = rng.integers(low, high, of_blocks).astype(dtype)
    if ", c)" in body:
        weights["c"] = np.float32([0.75])
    shape = ",".join(map(str, shape))
    CASES.append(
        Case(
            f"dequantize_blocks/{name}",
            f"float[{inputs or shape}] x",
            f"w = DequantizeLinear<axis={axis}, block_size={block}>(q, s{', z' if zero else ''}) {body}",
            weights,
            opset=21,
            outputs=f"float[{output or inputs or shape}] y",
        )
    )


blocks("int4", ml_dtypes.int4, (24, 64), 1, 16)
blocks("int4_zero_points", ml_dtypes.int4, (24, 64), 1, 16, True)
blocks("uint4", ml_dtypes.uint4, (64, 24), 0, 16)
blocks("uint4_zero_points", ml_dtypes.uint4, (64, 24), 0, 16, True)
blocks("int8_zero_points", np.int8, (24, 64), 1, 16, True)
blocks("uint8", np.uint8, (48, 32), 0, 16)
blocks("three_axes", ml_dtypes.int4, (7, 48, 5), 1, 16, True)
blocks("four_axes", ml_dtypes.int4, (7, 3, 32, 5), 2, 16, True)
blocks("blocks_of_one", np.int8, (24, 64), 1, 1, True)
blocks("one_block", np.int8, (24, 64), 1, 64, True)
# Quantizers to 4 bits choose the sign of a scale so that the weight of the largest magnitude becomes -8.
blocks("scales_below_0", ml_dtypes.int4, (24, 64), 1, 16, least=-0.1)
blocks("scales_below_0_and_zero_points", ml_dtypes.uint4, (64, 24), 0, 16, True, least=-0.1)
# XNNPACK computes no output by the DEQUANTIZE of a constant.
CASES.append(
    Case(
        "dequantize_blocks/constant_output",
        "float[1,8,9,11] x",
        "w = DequantizeLinear(q, s) y = Conv(x, w)",
        {"q": np.random.default_rng(14).integers(-127, 128, (16, 8, 5, 5)).astype(np.int8), "s": np.float32(0.02)},
        outputs="float[16,8,5,5] w, float[1,16,5,7] y",
    )
)
blocks("transposed", ml_dtypes.uint4, (48, 32), 0, 16, True, "t = Transpose(w) y = Add(x, t)", "32,48")
# ONNX Runtime rounds the data of a MatMul with such weights to 8 bits; not so of one that is scaled.
blocks("product", ml_dtypes.int4, (64, 24), 0, 16, True, "d = Mul(w, c) y = MatMul(x, d)", "3,64", "3,24")


def gather(
    name,
    dtype,
    shape,
    blocks,
    attributes,
    bits=4,
    zero=False,
    indices=i64(3, 0, 4, -1, 2, 2).reshape(2, 3),
    inputs="",
    output="",
):
    """`shape` in numbers, `blocks` the shape of the scales; bytes hold several numbers of the last axis."""
    rng = np.random.default_rng(12)
    each = 8 // bits if dtype == np.uint8 else 1
    low, high = (0, 256) if dtype == np.uint8 else (-8, 8) if dtype == ml_dtypes.int4 else (0, 16)
    packed = lambda dims: rng.integers(low, high, (*dims[:-1], -(-dims[-1] // each))).astype(dtype)  # noqa: E731
    weights = {"d": packed(shape), "s": rng.uniform(0.01, 0.1, blocks).astype(np.float32)}
    if zero:
        weights["z"] = packed(blocks)
    if not inputs:
        weights["i"] = indices
    # A constant index folds the whole away: the run-time input is added.
    body = f"g = com.microsoft.GatherBlockQuantized<{attributes}>(d, i, s{', z' if zero else ''}) y = Add(g, x)"
    CASES.append(
        Case(
            f"gather_block_quantized/{name}",
            inputs or "float[1] x",
            body,
            weights,
            opset=21,
            opsets={"com.microsoft": 1},
            outputs=f"float[{output}] y",
            feeds={"x": np.float32([0.5]), "i": indices} if inputs else None,
        )
    )


RUN = "float[1] x, int64[2,3] i"
gather("bytes_of_4_bits", np.uint8, (5, 64), (5, 4), "block_size=16", inputs=RUN, output="2,3,64")
gather(
    "bytes_of_4_bits_zero_points",
    np.uint8,
    (5, 48),
    (5, 3),
    "block_size=16, bits=4",
    zero=True,
    inputs=RUN,
    output="2,3,48",
)
gather("bytes_of_8_bits", np.uint8, (5, 40), (5, 3), "block_size=16, bits=8", bits=8, inputs=RUN, output="2,3,40")
gather(
    "bytes_of_2_bits_zero_points",
    np.uint8,
    (5, 48),
    (5, 3),
    "block_size=16, bits=2",
    bits=2,
    zero=True,
    inputs=RUN,
    output="2,3,48",
)
gather(
    "uint4_blocks_cut_off", ml_dtypes.uint4, (5, 39), (5, 3), "block_size=16", zero=True, inputs=RUN, output="2,3,39"
)
gather(
    "int4_other_axes",
    ml_dtypes.int4,
    (39, 5, 3),
    (3, 5, 3),
    "block_size=16, quantize_axis=0, gather_axis=1",
    zero=True,
    inputs=RUN,
    output="39,2,3,3",
)
gather(
    "int4_along_the_blocks",
    ml_dtypes.int4,
    (5, 39),
    (1, 39),
    "block_size=16, quantize_axis=0, gather_axis=0",
    inputs=RUN,
    output="2,3,39",
)
# From 1024 elements on the table stays integers.
for bits in (2, 4, 8):
    gather(
        f"kept_{bits}_bits",
        np.uint8,
        (34, 64),
        (34, 4),
        f"block_size=16, bits={bits}",
        bits=bits,
        indices=i64(3, 33, 34, -1, -35, 2).reshape(2, 3),
        inputs=RUN,
        output="2,3,64",
    )
for name, dtype, zero in [
    ("int4", ml_dtypes.int4, True),
    ("uint4", ml_dtypes.uint4, True),
    ("uint4", ml_dtypes.uint4, False),
]:
    gather(
        f"kept_{name}{'_zero_points' if zero else ''}",
        dtype,
        (34, 64),
        (34, 4),
        "block_size=16",
        zero=zero,
        indices=i64(3, 33, 34, -1, -35, 2).reshape(2, 3),
        inputs=RUN,
        output="2,3,64",
    )
gather(
    "kept_other_axes",
    ml_dtypes.int4,
    (48, 7, 6),
    (3, 7, 6),
    "block_size=16, quantize_axis=0, gather_axis=1",
    zero=True,
    indices=i64(3, 6, 7, -1, -8, 2).reshape(2, 3),
    inputs=RUN,
    output="48,2,3,6",
)
gather("constant_indices", ml_dtypes.int4, (5, 39), (5, 3), "block_size=16", output="2,3,39")
gather(
    "beyond_the_table",
    ml_dtypes.uint4,
    (5, 39),
    (5, 3),
    "block_size=16",
    indices=i64(3, 5, -6, -5, 9, 0).reshape(2, 3),
    inputs=RUN,
    output="2,3,39",
)

# Rows of an odd number of elements start in the middle of a byte.
CASES.append(
    Case(
        "nbits/odd_rows_of_4_bits",
        "int64[2,3] i, int64[5] j",
        "f = DequantizeLinear(q, s) y = Gather(f, i) z = Gather<axis=1>(f, j)",
        {"q": np.random.default_rng(5).integers(-8, 8, (40, 27)).astype(ml_dtypes.int4), "s": np.float32(0.5)},
        opset=21,
        outputs="float[2,3,27] y, float[40,5] z",
        ranges={"i": (0, 40), "j": (0, 27)},
    )
)

# One scale for each row: unsigned integers of 4 bits around 8 take 4 bits, all others 8.
for name, zeros in [("rows_of_4_bits", np.full(40, 8)), ("rows_of_4_bits_zero_points", np.arange(40) % 16)]:
    rng = np.random.default_rng(15)
    CASES.append(
        Case(
            f"nbits/{name}",
            "float[3,34] x",
            "f = DequantizeLinear<axis=0>(q, s, z) t = Transpose(f) y = MatMul(x, t)",
            {
                "q": rng.integers(0, 16, (40, 34)).astype(ml_dtypes.uint4),
                "s": rng.uniform(0.01, 0.1, 40).astype(np.float32),
                "z": zeros.astype(ml_dtypes.uint4),
            },
            opset=21,
        )
    )

# More scales than the lists that passes read otherwise.
for name, x, body in [
    ("vocabulary", "int64[3] x", "y = Gather(f, x)"),
    ("vocabulary_product", "float[3,5] x", "t = Transpose(f) y = MatMul(x, t)"),
]:
    rng = np.random.default_rng(16)
    CASES.append(
        Case(
            f"nbits/{name}",
            x,
            f"f = DequantizeLinear<axis=0>(q, s, z) {body}",
            {
                "q": rng.integers(-128, 128, (65600, 5)).astype(np.int8),
                "s": rng.uniform(0.01, 0.1, 65600).astype(np.float32),
                "z": rng.integers(-9, 10, 65600).astype(np.int8),
            },
            feeds={"x": i64(65599, 0, 65536)} if "int64" in x else None,
        )
    )
