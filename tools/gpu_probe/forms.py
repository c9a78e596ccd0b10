# SPDX-License-Identifier: Apache-2.0
"""What the grids of kernel_probe do not ask: operands that are constants or that broadcast, casts, indices. Each form is (operator, what it is, inputs, outputs, options, version) for kernel_probe.one_op.build."""

import numpy as np
from kernel_probe.case import CASES, NotDefined, data, index
from kernel_probe.one_op import Tensor

GRID_TYPES = ("F32", "I32", "I64", "BOOL")
GRID_RANKS = range(6)
MOST_VERSIONS = 8

COMPARISONS = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
BINARY = (
    "ADD",
    "SUB",
    "MUL",
    "DIV",
    "MAXIMUM",
    "MINIMUM",
    "POW",
    "FLOOR_DIV",
    "FLOOR_MOD",
    "SQUARED_DIFFERENCE",
    *COMPARISONS,
)
FLOATS_ONLY = ("POW", "SQUARED_DIFFERENCE")
TABLES = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "DIV": "DivOptions"}


def grid():
    """Each operator alone, by type and rank; where it is taken, the caller asks for other versions too."""
    for case in CASES:
        if case.group != "grid" or case.key[0] not in GRID_TYPES or case.key[1] not in GRID_RANKS:
            continue
        try:
            inputs, outputs, options = case.make()
        except NotDefined:
            continue
        yield case.op, f"{case.key[0]} of {case.key[1]} axes", inputs, outputs, options, 1


def result(dtype, shape):
    return Tensor(np.zeros(shape), dtype)


def binary():
    full = (2, 4, 3, 5)
    shapes = {
        "a scalar": ((), full),
        "one element": ((1,), full),
        "a vector": ((5,), full),
        "two axes": ((3, 5), full),
        "three axes": ((4, 3, 5), full),
        "channels": ((1, 1, 1, 5), full),
        "of rows": ((2, 4, 3, 1), full),
        "alike": (full, full),
        "two and two": ((3, 5), (3, 5)),
        "a vector of two": ((5,), (3, 5)),
    }
    for op in BINARY:
        table = (TABLES[op], {}) if op in TABLES else None
        for dtype in ("F32",) if op in FLOATS_ONLY else ("F32", "I32"):
            out = "BOOL" if op in COMPARISONS else dtype
            for name, (small, large) in shapes.items():
                for fixed in (True, False):
                    inputs = [data(dtype, large, lo=0.5), data(dtype, small, lo=0.5, fixed=fixed, seed="b")]
                    text = f"{dtype}, {'constant' if fixed else 'computed'}: {name}"
                    yield op, text, inputs, [result(out, large)], table, 1
                    if name == "a scalar":
                        yield op, text + ", first", inputs[::-1], [result(out, large)], table, 1


def products():
    fc = ("FullyConnectedOptions", {"keepNumDims": True})
    for fixed in ((False, True), (True, False), (False, False)):
        x, w = data("F32", (3, 5), fixed=fixed[0]), data("F32", (4, 5), fixed=fixed[1], seed="w")
        yield "FULLY_CONNECTED", f"constant: {fixed}", [x, w, None], [result("F32", (3, 4))], fc, 2
        a, b = data("F32", (2, 3, 5), fixed=fixed[0]), data("F32", (2, 5, 4), fixed=fixed[1], seed="w")
        yield "BATCH_MATMUL", f"constant: {fixed}", [a, b], [result("F32", (2, 3, 4))], ("BatchMatMulOptions", {}), 1
    a, b = data("F32", (2, 3, 5)), data("F32", (5, 4), fixed=False, seed="w")
    yield "BATCH_MATMUL", "broadcasts", [a, b], [result("F32", (2, 3, 4))], ("BatchMatMulOptions", {}), 1


def look_ups():
    for table in (True, False):
        for fixed in (True, False):
            for dtype in ("I32", "I64"):
                for shape in ((2,), (2, 2), ()):
                    for values in ("F32", "I32"):
                        ids = index(np.ones(shape, np.int64), dtype, fixed)
                        out = [result(values, (*shape, 5))]
                        text = f"{values}, table constant {table}, ids {dtype} {list(shape)} constant {fixed}"
                        inputs = [data(values, (7, 5), fixed=table), ids]
                        yield "GATHER", text, inputs, out, ("GatherOptions", {"axis": 0}), 1


def selections():
    full = (2, 3, 4, 5)
    for dtype in ("F32", "I32"):
        for name, condition, a in (
            ("alike", full, full),
            ("a scalar", full, ()),
            ("channels", full, (5,)),
            ("a mask of rows", (2, 1, 1, 5), full),
            ("a mask of fewer axes", (4, 5), full),
        ):
            for fixed in (True, False):
                inputs = [data("BOOL", condition), data(dtype, a, fixed=fixed), data(dtype, full, seed="c")]
                yield "SELECT_V2", f"{dtype} {name} constant {fixed}", inputs, [result(dtype, full)], None, 1


def slices():
    begin, end = index([0, 3, 0]), index([2, 0, 5])
    x, y = data("F32", (2, 4, 5)), [result("F32", (2, 3, 5))]
    options = ("StridedSliceOptions", {"beginMask": 5, "endMask": 5})
    yield "STRIDED_SLICE", "backwards", [x, begin, end, index([1, -1, 1])], y, options, 1
    yield "STRIDED_SLICE", "forwards", [x, index([0, 0, 0]), index([2, 3, 5]), index([1, 1, 1])], y, options, 1
    for fixed in (True, False):
        inputs = [x, index([0, 1, 0], fixed=fixed), index([2, 3, 5], fixed=True)]
        yield "SLICE", f"begin constant {fixed}", inputs, y, ("SliceOptions", {}), 1
        start = [data("F32", (2, 4, 5)), data("F32", (2, 3, 5), seed="u"), index([0, 1, 0], fixed=fixed)]
        yield "DYNAMIC_UPDATE_SLICE", f"start constant {fixed}", start, [result("F32", (2, 4, 5))], None, 1


def casts():
    types = ("F32", "I32", "I64", "BOOL", "I8", "U8")
    for a in types:
        for b in types:
            if a != b:
                x = Tensor(np.ones((2, 3)), a)
                yield "CAST", f"{a} to {b}", [x], [Tensor(np.ones((2, 3)), b)], None, 1


def others():
    for fixed in (True, False):
        inputs = [data("F32", (2, 3, 5)), index([2, 15], fixed=fixed)]
        yield "RESHAPE", f"shape constant {fixed}", inputs, [result("F32", (2, 15))], ("ReshapeOptions", {}), 1
        for axis in ((0,), (1,), (0, 2), (1, 3), (1, 2, 3), (0, 1, 2, 3)):
            out = np.mean(np.zeros((2, 3, 4, 5)), axis, keepdims=True)
            inputs = [data("F32", (2, 3, 4, 5)), index(list(axis), fixed=fixed)]
            text = f"axes {list(axis)} constant {fixed}"
            yield "MEAN", text, inputs, [Tensor(out, "F32")], ("ReducerOptions", {"keepDims": True}), 1
    x, y = data("F32", (2, 3, 5)), data("F32", (2, 4, 5), fixed=True)
    yield "CONCATENATION", "a constant", [x, y], [result("F32", (2, 7, 5))], ("ConcatenationOptions", {"axis": 1}), 1


def all_forms():
    for family in (grid, binary, products, look_ups, selections, slices, casts, others):
        yield from family()
