// SPDX-License-Identifier: Apache-2.0
// Normalisations, for all lowerings that contain one.
#pragma once

#include "layout/lower/lowering.h"

namespace lowtide::layout {

// Along the last axis: (x - mean) / sqrt(variance + epsilon), or with `simplified` x / sqrt(mean of squares + epsilon),
// in x's dtype.
Val normalized(Lowering& lo, Val x, float epsilon, bool simplified);

// Malformed unless `factors` is a list with one element for each channel (it would be broadcast).
void check_per_channel(Lowering& lo, Val factors, Dim channels);

// x [N, C, spatial...] minus the mean of each group of channels, divided by its deviation, in x's shape and dtype;
// times `scale`, if it is given: a list with an element for each channel, or for each group.
Val group_normalized(Lowering& lo, Val x, int64_t groups, float epsilon, Val scale = {});

}  // namespace lowtide::layout
