// SPDX-License-Identifier: Apache-2.0
// Matrix products as numpy defines them, for all lowerings that contain one.
#pragma once

#include "layout/lower/lowering.h"

namespace lowtide::layout {

// a [.., M, K] times b [.., K, N], batch axes broadcast; both of rank 2 or more, floats or integers of one dtype.
Val matrix_product(Lowering& lo, Val a, Val b);
// The same with vectors as MatMul takes them: on the left a row, on the right a column.
Val matmul(Lowering& lo, Val a, Val b);
// Gemm of the node's inputs 0, 1 and (if given) 2, by its attributes.
Val gemm(Lowering& lo);

}  // namespace lowtide::layout
