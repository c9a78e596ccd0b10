// SPDX-License-Identifier: Apache-2.0
// Shared by elementwise operators: operands in all opsets, absolute values, bits.
#pragma once

#include <utility>

#include "layout/lower/lowering.h"

namespace lowtide::layout {

// Inputs 0 and 1, reshaped so that numpy's broadcasting applies. Before opset 7, `broadcast` enabled broadcasting, and
// `axis` was the axis of A that corresponds to B's first; without it B's axes are A's last.
std::pair<Val, Val> broadcast_operands(Lowering& lo);

// |x| for every numeric dtype. The smallest integer of a signed type stays as it is, as in C.
Val absolute_value(Builder& b, Val x);

// The same bits as another type of the same width.
Val bitcast_to(Builder& b, Val x, DType to);
// x as a type of at least 8 bits. CAST does not support u64, so that is written by way of i64: the numbers of x must
// fit i64.
Val cast_through_i64(Builder& b, Val x, DType to);
// MAXIMUM or MINIMUM. Where one operand is NaN the kernels give the second, so a constant is the first.
Val keeping_nan(Builder& b, Kind kind, Val x, Val y);
// The bitwise complement of an integer, -1 - x. It reverses the order of the elements.
Val bitwise_complement(Builder& b, Val x);

// Reverses the order of the elements; applied twice it gives x. (-x would overflow for the smallest integer.)
Val reversed_order(Builder& b, Val x);

}  // namespace lowtide::layout
