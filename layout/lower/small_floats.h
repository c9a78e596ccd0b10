// SPDX-License-Identifier: Apache-2.0
// Casts to floats of 8 and 4 bits. CAST to such a type, in the core graph, rounds half to even and saturates
// (legalise/small_floats.h writes it out); what ONNX has besides is composed here.
#pragma once

#include "layout/lower/lowering.h"

namespace lowtide::layout {

// `x` of f32 as `to`. Reads the attributes 'saturate' and 'round_mode'.
Val to_small_float(Lowering& lo, Val x, DType to);

}  // namespace lowtide::layout
