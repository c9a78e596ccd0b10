// The matrix product as numpy has it, for every lowering that needs one.
#pragma once

#include "layout/lowering.h"

namespace lowtide::layout {

// a [.., M, K] times b [.., K, N], batch axes broadcast; both of rank 2 or more, floats or integers of one dtype.
Val matrix_product(Lowering& lo, Val a, Val b);

}  // namespace lowtide::layout
