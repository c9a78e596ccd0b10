// SPDX-License-Identifier: Apache-2.0
// What no kernel computes of unsigned integers of 32 and 64 bits, composed of kernels that take i64. Exact.
#pragma once

#include "layout/lower/lowering.h"

namespace lowtide::layout {

// a / d, rounded down; both u32 or both u64.
Val unsigned_quotient(Builder& b, Val a, Val d);
// a - d * (a / d), of u64.
Val unsigned_remainder(Builder& b, Val a, Val d);
// x >> count, of u64. (A count of 64 or more has no defined result.)
Val unsigned_shift_right(Builder& b, Val x, Val count);
// Floats as u64: truncated.
Val to_u64(Builder& b, Val x);

}  // namespace lowtide::layout
