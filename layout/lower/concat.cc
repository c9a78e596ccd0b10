// SPDX-License-Identifier: Apache-2.0
// Concat. At opset 1 its axis is 1 by default.
#include <algorithm>

#include "layout/lower/lowering.h"

namespace lowtide::layout {
namespace {

// Parts without elements, such as the rest of a head whose positions are rotated as a whole: a GPU delegate ends the
// process by them. Those that do not fit the others stay, and are refused.
void drop_empty_parts(Lowering& lo, std::vector<Val>& parts, size_t axis) {
  auto is_empty = [&](Val part) {
    const Shape shape = lo.shape(part);
    return shape.size() > axis && shape[axis] == 0;
  };
  const auto first = std::find_if_not(parts.begin(), parts.end(), is_empty);
  if (first == parts.end()) return;
  Shape shape = lo.shape(*first);
  if (shape.size() <= axis) return;
  shape[axis] = 0;
  const auto dtype = lo.dtype(*first);
  std::erase_if(parts, [&](Val part) { return lo.shape(part) == shape && lo.dtype(part) == dtype; });
}

}  // namespace

void lower_concat(Lowering& lo) {
  std::vector<Val> parts;
  for (size_t i = 0; i < lo.input_count(); ++i) parts.push_back(lo.input(i));
  const int rank = lo.rank(parts[0]);
  if (rank == 0) lo.malformed("scalars cannot be concatenated");
  const int axis = lo.axis(lo.opset() < 4 ? lo.attr_i("axis", 1) : lo.need_attr_i("axis"), rank);
  drop_empty_parts(lo, parts, static_cast<size_t>(axis));
  lo.output(0, lo.b.concat(parts, axis));
}

}  // namespace lowtide::layout
