# SPDX-License-Identifier: Apache-2.0
"""NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss."""

import numpy as np

from tests.support.case import Case, f32

CASES = []
LABELS = np.array([[0, 3, -5, 2, 1], [-5, 1, 1, 0, 3]], np.int64)
SCORES = np.random.default_rng(7).normal(size=(2, 4, 5)).astype(np.float32)
for reduction in ("none", "sum", "mean"):
    for weights in (False, True):
        for ignore in ("", ", ignore_index=-5"):
            name = f"{reduction}{'_weights' if weights else ''}{'_ignore' if ignore else ''}"
            feeds = {"x": SCORES, "t": LABELS if ignore else abs(LABELS) % 4}
            given = {"w": f32(0.5, 2, 1.5, 0.25)} if weights else {}
            argument = ", w" if weights else ""
            CASES += [
                Case(
                    f"nll_loss/{name}",
                    "float[2,4,5] x, int64[2,5] t",
                    f'y = NegativeLogLikelihoodLoss<reduction="{reduction}"{ignore}>(x, t{argument})',
                    given,
                    feeds=feeds,
                ),
                Case(
                    f"sce_loss/{name}",
                    "float[2,4,5] x, int64[2,5] t",
                    f'y, p = SoftmaxCrossEntropyLoss<reduction="{reduction}"{ignore}>(x, t{argument})',
                    given,
                    feeds=feeds,
                    outputs="y, p",
                ),
            ]
# The row of an ignored target may be anything.
BROKEN = SCORES[0, :4, :4].copy()
BROKEN[0], BROKEN[2] = np.nan, -np.inf
for reduction in ("none", "sum", "mean"):
    for weights in (False, True):
        CASES += [
            Case(
                f"{family}_loss/ignored_rows_{reduction}{'_weights' if weights else ''}",
                "float[4,4] x, int64[4] t",
                f'y = {operator}<reduction="{reduction}", ignore_index=-5>(x, t{", w" if weights else ""})',
                {"w": f32(0.5, 2, 1.5, 0.25)} if weights else {},
                feeds={"x": BROKEN, "t": np.array([-5, 2, -5, 1])},
            )
            for family, operator in [("nll", "NegativeLogLikelihoodLoss"), ("sce", "SoftmaxCrossEntropyLoss")]
        ]
CASES += [
    Case(  # f64 does not have this number
        "nll_loss/ignore_index_of_54_bits",
        "float[3,4] x, int64[3] t",
        "y = NegativeLogLikelihoodLoss<ignore_index=9007199254740993>(x, t)",
        feeds={"x": SCORES.reshape(10, 4)[:3], "t": np.array([1, 2**53 + 1, 3])},
    ),
    Case(  # no target equals it
        "nll_loss/ignore_index_beyond_the_targets",
        "float[3,4] x, int32[3] t",
        "y = NegativeLogLikelihoodLoss<ignore_index=4294967297>(x, t)",
        feeds={"x": SCORES.reshape(10, 4)[:3], "t": np.array([1, 2, 0], np.int32)},
    ),
]
