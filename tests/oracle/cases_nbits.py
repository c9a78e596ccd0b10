"""MatMulNBits: weights of few bits in blocks, zero points packed row by row."""

import numpy as np

from case import Case

CASES = []


def nbits(name, n, k, bits, block, zero=None, bias=False, batch="3", **more):
    rng = np.random.default_rng(11)
    blocks = -(-k // block)
    weights = {"b": rng.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8),
               "s": rng.uniform(0.01, 0.1, (n, blocks)).astype(np.float32)}
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
    CASES.append(Case(f"matmul_nbits/{name}", f"float[{batch},{k}] x",
                      f"y = com.microsoft.MatMulNBits<K={k}, N={n}, bits={bits}, block_size={block}>({names})", weights, opset=21,
                      opsets={"com.microsoft": 1}, outputs=f"float[{batch},{n}] y", **more))


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
