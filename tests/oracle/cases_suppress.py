# SPDX-License-Identifier: Apache-2.0
"""NonMaxSuppression: corner and centre boxes, several batches and classes, equal scores, thresholds met exactly, boxes
without area, and limits that only the run knows.
"""

import numpy as np

from tests.support.case import Case, f32

CASES = []
RNG = np.random.default_rng(5)


def boxes(batches, count):
    corner = RNG.uniform(0, 8, (batches, count, 2))
    return np.concatenate([corner, corner + RNG.uniform(0.5, 4, (batches, count, 2))], -1).astype(np.float32)


def case(name, b, s, body="y = NonMaxSuppression(b, s, m, t, l)", most=4, overlap=0.4, lowest=0.3, **more):
    weights = {"m": np.int64(most), "t": np.float32(overlap), "l": np.float32(lowest)}
    CASES.append(
        Case(
            f"non_max_suppression/{name}",
            f"float{list(b.shape)} b, float{list(s.shape)} s".replace(" ", "")
            .replace("b,", " b, ")
            .replace("]s", "] s"),
            body,
            {k: v for k, v in weights.items() if f", {k}" in body},
            feeds={"b": b, "s": s},
            outputs="int64[A,3] y",
            **more,
        )
    )


SCORES = RNG.uniform(0, 1, (2, 3, 17)).astype(np.float32)
case("plain", boxes(2, 17), SCORES)
case("all_of_them", boxes(2, 17), SCORES, most=1000, overlap=0.5, lowest=0)
case("any_corners", boxes(2, 17)[:, :, [2, 1, 0, 3]], SCORES)
case("centre", boxes(2, 17), SCORES, "y = NonMaxSuppression<center_point_box=1>(b, s, m, t, l)")
case("no_score_threshold", boxes(2, 17), SCORES - 0.5, "y = NonMaxSuppression(b, s, m, t)")
case("no_overlap_threshold", boxes(2, 17), SCORES, "y = NonMaxSuppression(b, s, m)")
case("equal_scores", boxes(1, 12), np.full((1, 2, 12), 0.75, np.float32), most=12)
case(
    "threshold_met",
    np.array([[[0, 0, 2, 2], [0, 0, 1, 2], [0, 0, 2, 2], [5, 5, 6, 6]]], np.float32),
    np.array([[[0.9, 0.8, 0.5, 0.3]]], np.float32),
    overlap=0.5,
)
case(
    "without_area",
    np.array([[[1, 1, 1, 3], [0, 0, 2, 2], [0, 0, 2, 2], [0, 0, 0, 0], [0, 0, 0, 0]]], np.float32),
    np.array([[[0.9, 0.8, 0.7, 0.6, 0.5]]], np.float32),
    most=5,
)
case(
    "negative_sizes_of_centre_boxes",
    np.array([[[1, 1, -2, 3], [1, 1, 2, 2], [1, 1, 2, 2], [1, 1, -1, -1]]], np.float32),
    np.array([[[0.9, 0.8, 0.7, 0.6]]], np.float32),
    "y = NonMaxSuppression<center_point_box=1>(b, s, m, t, l)",
)
CASES.append(
    Case(
        "non_max_suppression/run_time_limits",
        "float[1,9,4] b, float[1,2,9] s, int64[1] m, float[1] t, float[1] l",
        "y = NonMaxSuppression(b, s, m, t, l)",
        feeds={
            "b": boxes(1, 9),
            "s": SCORES[:1, :2, :9],
            "m": np.array([3]),
            "t": np.array([0.25], np.float32),
            "l": np.array([0.1], np.float32),
        },
        outputs="int64[A,3] y",
        opset=11,
    )
)
case("negative_limit", boxes(2, 17), SCORES, most=-4)
CASES.append(
    Case(
        "non_max_suppression/run_time_negative_limit",
        "float[1,9,4] b, float[1,2,9] s, int64[1] m",
        "y = NonMaxSuppression(b, s, m)",
        feeds={"b": boxes(1, 9), "s": SCORES[:1, :2, :9], "m": np.array([-3])},
        outputs="int64[A,3] y",
        opset=11,
    )
)
# Boxes whose number only the run knows, in lists of equal scores, of which one has none above the threshold.
CASES.append(
    Case(
        "non_max_suppression/run_time_boxes",
        "float[2,N,4] b, float[2,3,N] s",
        "y = NonMaxSuppression(b, s, m, t, l)",
        {"m": np.int64(5), "t": np.float32(0.25), "l": np.float32(0.3)},
        feeds={"b": boxes(2, 11), "s": np.round(SCORES[:, :, :11], 1) * f32(1, 0.2, 1).reshape(3, 1)},
        outputs="int64[A,3] y",
    )
)
