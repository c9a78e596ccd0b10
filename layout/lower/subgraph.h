// SPDX-License-Identifier: Apache-2.0
// Shared by If, Loop and Scan: their graph attributes, and when a loop is laid out in line.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "layout/lower/lowering.h"

namespace lowtide::layout {

// The graph attribute `name`; malformed when there is none.
const onnx::Graph& subgraph(Lowering& lo, std::string_view name);
// Unrolling multiplies nodes: beyond a limit a loop is run as WHILE.
bool can_unroll(const onnx::Graph& body, int64_t iterations);
// Known truth of a bool of one element.
std::optional<bool> truth(const Lowering& lo, Val v);

// Rows that a loop at run time puts together: the axis that counts them, and what stands there before the first turn.
struct Gathering {
  int axis = 0;
  Val none;
};
// `row` is a value of `region`: its shape tells that of the rows, with the help of what the file declares. `length` is
// how many there will be, or 0 when they are appended one after the other. Refused when the graph around cannot know
// the shape.
Gathering gathering(Lowering& lo, core::Region& region, Val row, const onnx::ValueInfo& declared, int64_t axis,
                    Dim length);
Val appended(Builder& b, const Gathering& how, Val so_far, Val row);
Val placed(Builder& b, const Gathering& how, Val so_far, Val row, Val at);  // as row number `at`, an i32 scalar

}  // namespace lowtide::layout
