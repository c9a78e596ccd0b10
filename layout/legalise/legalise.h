// SPDX-License-Identifier: Apache-2.0
// Changes ops until the runtime's kernels take them (core/kernel_limits.h): element types, ranks, broadcasting, biases.
// Runs late, when no pass looks for patterns any more.
//
//     MAXIMUM f64  ->  CAST f32, MAXIMUM f32, CAST f64          SUM of rank 7  ->  RESHAPE, SUM of rank 3, RESHAPE
//
// The trap: a kernel does not refuse all that it cannot do. Some types run and give wrong numbers.
#pragma once

#include <set>
#include <tuple>
#include <vector>

#include "layout/core/graph.h"
#include "stream/error.h"

namespace lowtide::layout {

// What was computed in i64 or f64 and is computed in i32 or f32 now: the op's origin, from, to.
using NarrowedTypes = std::set<std::tuple<uint32_t, core::DType, core::DType>>;

// Every op whose type or rank no kernel takes and that cannot be turned into one is returned, with its node and reason.
//
// Types: narrow integers are computed in i32 and cast back, which wraps as they do; u32 in i64; u64 as the bits of i64
// where that is the same; i64 and f64, where no kernel takes them, are narrowed to i32 and f32: numbers that do not fit
// lose their upper half or their digits: these are added to `narrowed`, unless it is null. Values between two narrowed
// ops stay narrow.
//
// `only_integers`: no QUANTIZE is written out in floats (rounding.h).
std::vector<stream::Unsupported> legalise(core::Graph& graph, NarrowedTypes* narrowed = nullptr,
                                          bool only_integers = false);

}  // namespace lowtide::layout
