# SPDX-License-Identifier: Apache-2.0
"""MaxPool, AveragePool, LpPool and the global pools.

TFLite pools know SAME and VALID, no dilations and no ceil_mode, and an average never counts the padding. ONNX's
ceil_mode adds windows that hang over the end; a window that would start in the padding is left out.
"""

import numpy as np

from tests.support.case import Case

CASES = []


def pool(operator, name, x, attributes, opset=13, body_suffix="", **more):
    family = operator.lower().replace("pool", "_pool")
    CASES.append(
        Case(
            f"{family}/{name}",
            f"float[{','.join(map(str, x))}] x",
            f"y = {operator}<{attributes}>(x){body_suffix}",
            opset=opset,
            **more,
        )
    )


for operator in ("MaxPool", "AveragePool"):

    def both(name, x, attributes, **more):
        pool(operator, name, x, attributes, **more)

    both("no_strides_attribute", (2, 3, 7, 9), "kernel_shape=[3,2]")
    both("strides", (2, 3, 10, 9), "kernel_shape=[3,2], strides=[2,3]")
    both("kernel_of_one", (2, 3, 7, 9), "kernel_shape=[1,1], strides=[2,3]")
    both("whole_image", (2, 3, 7, 9), "kernel_shape=[7,9]")
    both("pads_symmetric", (1, 3, 7, 9), "kernel_shape=[3,5], pads=[1,2,1,2]")
    both("pads_asymmetric", (1, 3, 7, 9), "kernel_shape=[3,4], pads=[0,1,2,0]")
    both("pads_strides", (1, 3, 8, 9), "kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]")
    for size in (8, 9):
        for kernel in (2, 3, 4, 7):
            for stride in (1, 2, 3):
                k = f"kernel_{kernel}_stride_{stride}_size_{size}"
                shape = f"kernel_shape=[{kernel},3], strides=[{stride},2]"
                both(f"pad_half_{k}", (1, 3, size, 11), f"{shape}, pads=[{kernel // 2},1,{kernel // 2},1]")
                # Kernel 2 and stride 3 leave elements out: ONNX Runtime calls that a negative pad. And the shape
                # inference of this opset counts a window too many where the last one would start behind the end.
                gap = (kernel, stride, size) == (2, 3, 9)
                for same in () if gap else ("SAME_UPPER", "SAME_LOWER"):
                    both(f"{same.lower()}_{k}", (1, 3, size, 11), f'{shape}, auto_pad="{same}"')
                both(f"ceil_{k}", (1, 3, size, 11), f"{shape}, ceil_mode=1", outputs="float[1,3,3,5] y" if gap else "y")
    both("auto_pad_valid", (1, 3, 9, 11), 'kernel_shape=[3,2], strides=[2,2], auto_pad="VALID"')
    both("ceil_pads", (1, 3, 8, 10), "kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1], ceil_mode=1")
    both(
        "ceil_pads_asymmetric",
        (1, 3, 8, 11),
        "kernel_shape=[3,4], strides=[2,3], pads=[0,1,1,2], ceil_mode=1",
        outputs="float[1,3,4,4] y",
    )
    # The last window of a row would be entirely in the padding: it does not exist.
    both(
        "ceil_window_in_padding",
        (1, 3, 5, 6),
        "kernel_shape=[2,2], strides=[3,3], pads=[1,1,1,1], ceil_mode=1",
        outputs="float[1,3,2,3] y",
    )
    # A window that is longer than the axis by less than a stride: ONNX Runtime's division makes one window of it.
    both("short_axis", (2, 3, 1, 9), "kernel_shape=[2,3], strides=[2,2]", outputs="float[2,3,1,4] y")
    both(
        "short_axis_pads", (2, 3, 2, 9), "kernel_shape=[5,3], strides=[3,2], pads=[1,0,0,0]", outputs="float[2,3,1,4] y"
    )
    both(
        "short_axis_wide_pads",
        (2, 3, 1, 5),
        "kernel_shape=[4,2], strides=[3,2], pads=[1,0,0,1]",
        outputs="float[2,3,1,3] y",
    )
    both("short_axis_1d", (2, 3, 3), "kernel_shape=[5], strides=[4]", outputs="float[2,3,1] y")
    both("1d", (2, 3, 10), "kernel_shape=[3], strides=[2], pads=[1,0]")
    both("1d_ceil", (2, 3, 10), "kernel_shape=[3], strides=[2], ceil_mode=1")
    both("1d_same_lower", (2, 3, 10), 'kernel_shape=[4], strides=[3], auto_pad="SAME_LOWER"')
    both("3d", (1, 2, 5, 6, 7), "kernel_shape=[2,3,2], strides=[2,1,2]")
    both("3d_pads", (1, 2, 5, 6, 8), "kernel_shape=[3,3,2], strides=[2,2,1], pads=[1,0,1,1,1,0]")
    both("3d_ceil", (1, 2, 6, 5, 8), "kernel_shape=[3,2,3], strides=[2,2,2], ceil_mode=1")
    for opset in (7, 8, 10, 11, 12, 17, 19, 22):
        both(f"opset_{opset}", (1, 3, 8, 9), "kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]", opset=opset)
    both("then_relu", (2, 3, 7, 9), "kernel_shape=[3,2]", body_suffix=" z = Relu(y)", outputs="z")
    CASES.append(
        Case(
            f"{operator.lower().replace('pool', '_pool')}/dynamic_batch",
            "float[N,3,7,9] x",
            f"y = {operator}<kernel_shape=[3,2], strides=[2,2], pads=[1,0,0,1]>(x)",
            shapes={"x": (5, 3, 7, 9)},
        )
    )

# The same where the size is known at run time only: no element is missing, one or several.
for operator, attribute in [
    ("MaxPool", ""),
    ("AveragePool", ""),
    ("AveragePool", ", count_include_pad=1"),
    ("LpPool", ""),
]:
    suffix = "_counted" if attribute else ""
    for name, sizes, window in [
        ("short", ((1, 1), (1, 5), (6, 1), (7, 4)), "kernel_shape=[2,2], strides=[2,2]"),
        ("short_one_axis", ((1, 9), (2, 7), (3, 8)), "kernel_shape=[3,2], strides=[3,1]"),
        ("short_wide", ((2, 2), (3, 2), (2, 6), (8, 9)), "kernel_shape=[3,3], strides=[2,2]"),
        ("short_pads", ((1, 2), (2, 3), (5, 9)), "kernel_shape=[4,4], strides=[3,3], pads=[1,0,0,1]"),
        ("short_valid", ((2, 1), (4, 7)), 'kernel_shape=[4,3], strides=[4,3], auto_pad="VALID"'),
        ("ceil", ((8, 11), (9, 10), (7, 12)), "kernel_shape=[2,2], strides=[2,2], ceil_mode=1"),
        ("ceil_overlap", ((8, 11), (9, 10), (7, 12)), "kernel_shape=[3,3], strides=[2,2], ceil_mode=1"),
        ("ceil_gaps", ((8, 11), (9, 10), (7, 12)), "kernel_shape=[2,1], strides=[3,2], ceil_mode=1"),
        (
            "ceil_pads",
            ((8, 11), (9, 10), (7, 13), (10, 12)),
            "kernel_shape=[3,4], strides=[2,3], pads=[1,0,1,2], ceil_mode=1",
        ),
        (
            "ceil_window_in_pads",
            ((5, 11), (6, 10), (7, 12)),
            "kernel_shape=[2,2], strides=[3,3], pads=[1,1,1,1], ceil_mode=1",
        ),
    ]:
        for h, w in sizes:
            if operator == "LpPool" and "pads" in name:
                continue
            CASES.append(
                Case(
                    f"{operator.lower().replace('pool', '_pool')}/dynamic_{name}{suffix}_{h}_{w}",
                    "float[N,3,H,W] x",
                    f"y = {operator}<{window}{attribute}>(x)",
                    opset=19 if "ceil" in name else 13,
                    shapes={"x": (2, 3, h, w)},
                )
            )
        if "ceil" in name and operator != "LpPool":  # beside an axis of known size
            CASES.append(
                Case(
                    f"{operator.lower().replace('pool', '_pool')}/dynamic_{name}_beside{suffix}",
                    "float[2,3,10,W] x",
                    f"y = {operator}<{window}{attribute}>(x)",
                    opset=19,
                    shapes={"x": (2, 3, 10, 9)},
                )
            )
    for w in (1, 3, 8):
        CASES.append(
            Case(
                f"{operator.lower().replace('pool', '_pool')}/dynamic_short_1d{suffix}_{w}",
                "float[2,3,W] x",
                f"y = {operator}<kernel_shape=[4], strides=[4]{attribute}>(x)",
                opset=13,
                shapes={"x": (2, 3, w)},
            )
        )
        CASES.append(
            Case(
                f"{operator.lower().replace('pool', '_pool')}/dynamic_short_3d{suffix}_{w}",
                "float[1,3,D,5,W] x",
                f"y = {operator}<kernel_shape=[2,2,4], strides=[2,2,4]{attribute}>(x)",
                opset=13,
                shapes={"x": (1, 3, (w + 1) // 2, 5, w)},
            )
        )
# From opset 19 on, ONNX Runtime counts what is inside the pads.
for h, w in ((1, 1), (1, 5), (7, 4)):
    CASES.append(
        Case(
            f"average_pool/dynamic_short_counted_opset_19_{h}_{w}",
            "float[N,3,H,W] x",
            "y = AveragePool<kernel_shape=[2,2], strides=[2,2], count_include_pad=1>(x)",
            opset=19,
            shapes={"x": (2, 3, h, w)},
        )
    )
for opset, attributes in ((13, "pads=[1,0,0,0], "), (17, ""), (20, "")):
    pool(
        "AveragePool",
        f"short_axis_counted_opset_{opset}",
        (2, 3, 2, 9),
        f"kernel_shape=[5,3], strides=[4,2], {attributes}count_include_pad=1",
        opset=opset,
        outputs="float[2,3,1,4] y",
    )
# Shorter than the window by a stride: no window.
for operator in ("MaxPool", "AveragePool", "LpPool"):
    pool(operator, "no_window", (2, 3, 1, 7), "kernel_shape=[3,2], strides=[2,3]", opset=18)
pool("MaxPool", "no_window_ceil", (2, 3, 7, 1), "kernel_shape=[2,3], strides=[3,2], ceil_mode=1", opset=18)
CASES.append(
    Case(
        "max_pool/no_window_in_a_loop",
        "float[2,3,1,7] x, int64 n",
        """y = Loop(n, go) <body = b (int64 i, bool g) => (bool more, float[2,3,0,2] r) {
            more = Identity(g)
            f = Cast<to=1>(i)
            a = Add(x, f)
            r = MaxPool<kernel_shape=[3,2], strides=[2,3]>(a)
        }>""",
        {"go": np.array(True)},
        opset=18,
        outputs="float[T,2,3,0,2] y",
        feeds={"x": np.linspace(-1, 1, 42, dtype=np.float32).reshape(2, 3, 1, 7), "n": np.array(3, np.int64)},
    )
)
CASES.append(
    Case(
        "average_pool/same_counted_of_unknown_size",
        "float[1,3,H,W] x",
        'y = AveragePool<auto_pad="SAME_UPPER", kernel_shape=[2,3], strides=[2,2], count_include_pad=1>(x)',
        opset=13,
        shapes={"x": (1, 3, 8, 11)},
    )
)
# The pads of SAME depend on what the stride leaves of a size. LiteRT's SAME is SAME_UPPER and counts no pads.
for op in ("MaxPool", "AveragePool", "LpPool"):
    for h, w in ((8, 11), (9, 13), (7, 15), (1, 2)):
        for counts in (0, 1) if op == "AveragePool" else (0,):
            same = (
                f'auto_pad="SAME_LOWER", kernel_shape=[2,3], strides=[2,3]{", count_include_pad=1" if counts else ""}'
            )
            CASES.append(
                Case(
                    f"{op[:-4].lower()}_pool/same_lower_of_unknown_size{'_counted' * counts}_{h}_{w}",
                    "float[N,4,H,W] x",
                    f"y = {op}<{same}>(x)",
                    opset=18,
                    ranges={"x": (-3, -1)},
                    shapes={"x": (2, 4, h, w)},
                )
            )
CASES.append(
    Case(
        "max_pool/same_lower_of_unknown_size_3d",
        "float[1,2,D,H,W] x",
        'y = MaxPool<auto_pad="SAME_LOWER", kernel_shape=[2,4,3], strides=[2,3,2]>(x)',
        opset=13,
        ranges={"x": (-3, -1)},
        shapes={"x": (1, 2, 5, 7, 8)},
    )
)
# 3 rows: one window, in the middle by ONNX's formula. 8 columns: two at the beginning of theirs.
for op in ("MaxPool", "AveragePool", "LpPool"):
    for height in ("3", "H"):
        CASES.append(
            Case(
                f"{op[:-4].lower()}_pool/same_with_negative_pads_{height}",
                f"float[1,2,{height},8] x",
                f'y = {op}<auto_pad="SAME_UPPER", kernel_shape=[1,3], strides=[3,4]>(x)',
                opset=13,
                shapes={"x": (1, 2, 3, 8)},
            )
        )
CASES.append(
    Case(
        "average_pool/same_with_one_pad_too_few",  # it is at the end
        "float[1,2,5,8] x",
        'y = AveragePool<auto_pad="SAME_UPPER", kernel_shape=[1,1], strides=[2,2]>(x)',
        opset=19,
    )
)
# Four in a row, as networks have them: the first that is short may be any of them.
for h, w in ((1, 40), (9, 3), (17, 5)):
    CASES.append(
        Case(
            f"max_pool/dynamic_short_chain_{h}_{w}",
            "float[1,2,H,W] x",
            """a = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x)
            b = Relu(a)
            c = MaxPool<kernel_shape=[2,2], strides=[2,2]>(b)
            d = AveragePool<kernel_shape=[2,2], strides=[2,2]>(c)
            y = MaxPool<kernel_shape=[2,1], strides=[2,1]>(d)""",
            opset=13,
            shapes={"x": (1, 2, h, w)},
        )
    )

# What only one of them has.
for name, x, attributes in [
    ("2d", (1, 3, 11, 13), "kernel_shape=[3,2], dilations=[2,3]"),
    ("2d_pads", (1, 3, 11, 13), "kernel_shape=[3,3], dilations=[2,3], pads=[2,1,0,2]"),
    ("2d_strides", (1, 3, 12, 13), "kernel_shape=[3,2], dilations=[2,3], strides=[2,3]"),
    ("2d_ceil", (1, 3, 12, 14), "kernel_shape=[3,2], dilations=[2,3], strides=[3,2], ceil_mode=1"),
    ("1d", (2, 3, 13), "kernel_shape=[3], dilations=[3], strides=[2]"),
    ("3d", (1, 2, 7, 6, 8), "kernel_shape=[2,2,3], dilations=[2,1,3]"),
]:
    pool("MaxPool", "dilations_" + name, x, attributes)
    pool("AveragePool", "dilations_" + name, x, attributes, opset=19)
    pool("AveragePool", "dilations_count_include_pad_" + name, x, attributes + ", count_include_pad=1", opset=19)
for name, x, attributes in [
    ("pads", (1, 3, 7, 9), "kernel_shape=[3,3], pads=[1,1,1,1]"),
    ("pads_asymmetric", (1, 3, 7, 9), "kernel_shape=[3,4], pads=[0,1,2,0], strides=[2,1]"),
    ("same_upper", (1, 3, 8, 9), 'kernel_shape=[3,4], auto_pad="SAME_UPPER", strides=[2,1]'),
    ("same_lower", (1, 3, 8, 9), 'kernel_shape=[3,4], auto_pad="SAME_LOWER", strides=[2,1]'),
    ("no_pads", (1, 3, 7, 9), "kernel_shape=[3,2]"),
    # A window over the end divides by the padded part of it only: what ceil_mode adds is no padding.
    ("ceil", (1, 3, 8, 10), "kernel_shape=[3,3], strides=[2,2], ceil_mode=1"),
    ("ceil_pads", (1, 3, 8, 10), "kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1], ceil_mode=1"),
    ("ceil_pads_kernel_4", (1, 3, 9, 10), "kernel_shape=[4,4], strides=[3,3], pads=[1,0,1,1], ceil_mode=1"),
    ("1d", (2, 3, 10), "kernel_shape=[3], strides=[2], pads=[1,1]"),
    ("3d_ceil", (1, 2, 6, 5, 8), "kernel_shape=[3,2,3], strides=[2,2,2], pads=[1,0,1,1,0,1], ceil_mode=1"),
]:
    pool("AveragePool", "count_include_pad_" + name, x, attributes + ", count_include_pad=1", opset=19)
for dtype in ("int8", "uint8", "double"):
    CASES.append(
        Case(
            f"max_pool/{dtype}",
            f"{dtype}[1,3,7,9] x",
            "y = MaxPool<kernel_shape=[3,2], pads=[1,1,0,0]>(x)",
            ranges={"x": (0, 100)} if dtype == "uint8" else {"x": (-100, 100)},
        )
    )
CASES += [
    Case(
        "max_pool/all_negative_with_pads",
        "float[1,3,7,9] x",
        "y = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>(x)",
        ranges={"x": (-9, -3)},
    ),
    Case(
        "max_pool/all_negative_ceil",
        "float[1,3,8,10] x",
        "y = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,0,0], ceil_mode=1>(x)",
        ranges={"x": (-9, -3)},
    ),
    Case("max_pool/indices", "float[1,3,7,9] x", "y, i = MaxPool<kernel_shape=[3,2]>(x)", outputs="y, i"),
    Case(
        "max_pool/storage_order_without_indices",
        "float[1,3,7,9] x",
        "y = MaxPool<kernel_shape=[3,2], storage_order=1>(x)",
    ),
    Case(
        "max_pool/between_convolutions",
        "float[1,3,12,14] x",
        "a = Conv<pads=[1,1,1,1]>(x, w) p = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(a) y = Conv(p, v)",
        {"w": (4, 3, 3, 3), "v": (5, 4, 2, 3)},
    ),
    Case(
        "average_pool/of_a_constant",
        "float[1,3,3,4] x",
        "p = AveragePool<kernel_shape=[2,3], strides=[2,2]>(k) y = Add(x, p)",
        {"k": (1, 3, 7, 9)},
    ),
]
for p in (1, 2, 3):
    pool("LpPool", f"p_{p}", (1, 3, 7, 9), f"kernel_shape=[3,2], p={p}", opset=11)
pool("LpPool", "default_p", (1, 3, 7, 9), "kernel_shape=[3,2]", opset=11)
pool("LpPool", "strides_pads", (1, 3, 8, 9), "kernel_shape=[3,3], strides=[2,2], pads=[1,0,1,2]", opset=11)
pool("LpPool", "same_upper", (1, 3, 8, 9), 'kernel_shape=[3,4], strides=[2,2], auto_pad="SAME_UPPER"', opset=11)
pool("LpPool", "same_lower", (1, 3, 8, 9), 'kernel_shape=[3,4], strides=[2,2], auto_pad="SAME_LOWER"', opset=11)
pool("LpPool", "1d", (2, 3, 10), "kernel_shape=[3], strides=[2]", opset=11)
pool("LpPool", "3d", (1, 2, 5, 6, 7), "kernel_shape=[2,3,2]", opset=11)
pool("LpPool", "dilations_opset_18", (1, 3, 11, 13), "kernel_shape=[3,2], dilations=[2,3]", opset=18)
pool("LpPool", "ceil_opset_18", (1, 3, 8, 11), "kernel_shape=[3,4], strides=[2,3], ceil_mode=1", opset=18)

for operator in ("GlobalAveragePool", "GlobalMaxPool"):
    family = operator.lower().replace("global", "global_").replace("pool", "_pool")
    for x in ("2,3,7", "2,3,7,9", "2,3,4,5,6"):
        CASES.append(
            Case(
                f"{family}/{x.count(',') - 1}d",
                f"float[{x}] x",
                f"y = {operator}(x)",
                opset=7 if x == "2,3,7,9" else 13,
            )
        )
    CASES.append(
        Case(
            f"{family}/after_conv_then_flatten",
            "float[2,3,7,9] x",
            f"c = Conv(x, w) p = {operator}(c) y = Flatten(p)",
            {"w": (4, 3, 3, 2)},
        )
    )
for p in (1, 2, 3):
    CASES.append(Case(f"global_lp_pool/p_{p}", "float[2,3,7,9] x", f"y = GlobalLpPool<p={p}>(x)"))

# Heights and widths that only the run knows.
for operator in ("MaxPool", "AveragePool", "LpPool"):
    family = operator.lower().replace("pool", "_pool")
    for name, attributes in [
        ("pads", "kernel_shape=[3,3], pads=[1,1,1,1]"),
        ("pads_strides", "kernel_shape=[3,4], pads=[1,0,1,2], strides=[2,3]"),
        ("same_upper", 'kernel_shape=[3,4], auto_pad="SAME_UPPER", strides=[1,2]'),
        ("no_pads", "kernel_shape=[2,3], strides=[2,1]"),
    ]:
        CASES.append(
            Case(
                f"{family}/dynamic_size_{name}",
                "float[1,3,H,W] x",
                f"y = {operator}<{attributes}>(x)",
                opset=11,
                outputs="float[1,3,P,Q] y",
                shapes={"x": (1, 3, 8, 11)},
            )
        )

pool(
    "AveragePool",
    "short_axis_counted_pads",
    (2, 3, 1, 5),
    "kernel_shape=[4,2], strides=[3,2], pads=[1,0,0,1], count_include_pad=1",
    outputs="float[2,3,1,3] y",
)

for operator in ("AveragePool", "MaxPool"):
    pool(
        operator,
        "shorter_by_more_than_a_stride",
        (2, 3, 2, 9),
        "kernel_shape=[5,3], strides=[2,2]",
        outputs="float[2,3,0,4] y",
    )

# More windows than are listed in memory.
pool("AveragePool", "long_axis", (1, 2, 500001), "kernel_shape=[5], strides=[2], pads=[2,2]")
pool("AveragePool", "long_axis_dilated", (1, 2, 300001), "kernel_shape=[4], dilations=[3], pads=[2,3]", opset=19)
pool("MaxPool", "long_axis_dilated", (1, 2, 400001), "kernel_shape=[3], dilations=[2], pads=[2,1]")
