// Layer normalisations along the last axis, for operators that contain one.
#pragma once

#include "layout/lowering.h"

namespace lowtide::layout {

// (x - mean) / sqrt(variance + epsilon), or with `simplified` x / sqrt(mean of squares + epsilon), in x's dtype.
Val normalized(Lowering& lo, Val x, float epsilon, bool simplified);

}  // namespace lowtide::layout
