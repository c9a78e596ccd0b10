// SPDX-License-Identifier: Apache-2.0
// Normalisations for operators that contain one.
#pragma once

#include "layout/lower/lowering.h"

namespace lowtide::layout {

// Along the last axis: (x - mean) / sqrt(variance + epsilon), or with `simplified` x / sqrt(mean of squares + epsilon),
// in x's dtype.
Val normalized(Lowering& lo, Val x, float epsilon, bool simplified);

// Refuses a list that has not one number for each channel, which would be broadcast.
void check_factors(Lowering& lo, Val factors, Dim channels);

// x [N, C, spatial...] less the mean of each group of channels, over its deviation, as [N, groups, C / groups, ...].
Val group_normalized(Lowering& lo, Val x, int64_t groups, float epsilon);

}  // namespace lowtide::layout
