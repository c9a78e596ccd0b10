// SPDX-License-Identifier: Apache-2.0
// Shared by If, Loop, Scan and SequenceMap: graph attributes, unrolling, scan outputs.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "layout/lower/lowering.h"

namespace lowtide::layout {

// The graph attribute `name`; malformed when there is none.
const onnx::Graph& subgraph(Lowering& lo, std::string_view name);

// The inputs that a node gives to its subgraph. IR version 3 also lists the initializers there, later ones may.
std::vector<const onnx::ValueInfo*> given_inputs(const onnx::Graph& body);

// A loop of more nodes, times its iterations, is not unrolled.
inline constexpr int64_t kMostUnrolledNodes = 20000;

// Whether the nodes of an unrolled loop stay below the limit. The nodes of an iteration, with the loops inside
// it, are counted once one was lowered; before that, an inner loop counts as one iteration.
class Unrolling {
 public:
  Unrolling(Lowering& lo, const onnx::Graph& body);
  bool may_have(int64_t turns) const;
  void end_turn();

 private:
  const Surroundings& around_;
  int64_t at_first_, turns_ = 0, nodes_;  // of a turn
};
// The value of a bool of one element; nullopt when known at run time only.
std::optional<bool> known_bool(const Lowering& lo, Val v);

// A scan output of a WHILE: the axis of its rows, and its value before the first iteration.
struct ScanOutput {
  int axis = 0;
  Val initial;
};
// The shape of the rows of a list or a scan output: that of `row`, a value of `subgraph`, and where it is open the
// declared one.
Shape shape_of_rows(core::SubgraphBuilder& subgraph, Val row, const onnx::ValueInfo& declared);
// `row` is a value of `subgraph`; its shape and the declared one give the shape of the rows. `length` is their number,
// or 0 when rows are appended. Refused when the shape is known inside the loop only.
ScanOutput scan_output(Lowering& lo, core::SubgraphBuilder& subgraph, Val row, const onnx::ValueInfo& declared,
                       int64_t axis, Dim length);
Val append_row(Builder& b, const ScanOutput& how, Val so_far, Val row);
Val write_row(Builder& b, const ScanOutput& how, Val so_far, Val row, Val at);  // writes row number `at`, an i32 scalar

}  // namespace lowtide::layout
