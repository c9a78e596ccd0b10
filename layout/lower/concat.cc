// SPDX-License-Identifier: Apache-2.0
// Concat, Split.
//
// How the specifications differ: ONNX splits unevenly too (num_outputs: the last part is smaller), SPLIT only evenly.
// Concat's axis was 1 by default at opset 1.
#include <algorithm>
#include <string>

#include "layout/lower/extents.h"

namespace lowtide::layout {
namespace {

// Sizes of `count` parts of an extent, the last one smaller when it does not divide.
std::vector<int64_t> chunks(Lowering& lo, int64_t extent, int64_t count) {
  const int64_t chunk = extent / count + (extent % count != 0);
  std::vector<int64_t> sizes(static_cast<size_t>(count), chunk);
  sizes.back() = extent - chunk * (count - 1);
  if (sizes.back() < 0)
    lo.malformed(std::to_string(extent) + " elements cannot be split into " + std::to_string(count));
  return sizes;
}

std::vector<Val> split_by(Lowering& lo, Val x, int axis, const std::vector<int64_t>& sizes) {
  if (sizes.size() != lo.output_count())
    lo.malformed(std::to_string(sizes.size()) + " sizes for " + std::to_string(lo.output_count()) + " outputs");
  core::Symbols& symbols = lo.b.graph.symbols;
  Dim sum = 0;
  for (int64_t size : sizes) {
    if (size < 0) lo.malformed("a part of " + std::to_string(size));
    sum = symbols.add(sum, size);
  }
  const Dim extent = lo.b.dim(x, axis);
  if (!core::is_symbol(extent) && extent != sum)
    lo.malformed("the parts sum to " + std::to_string(sum) + ", not " + std::to_string(extent));
  return lo.b.split(x, sizes, axis);
}

std::vector<Val> split_evenly(Lowering& lo, Val x, int axis, int64_t count) {
  if (count < 1 || static_cast<size_t>(count) != lo.output_count())
    lo.malformed(std::to_string(count) + " parts for " + std::to_string(lo.output_count()) + " outputs");
  const Dim extent = lo.b.dim(x, axis);
  if (count == 1) return {x};
  if (core::is_symbol(extent)) {
    // An equal split can be said without knowing the extent; an uneven one cannot.
    if (lo.opset() >= 18 && !lo.b.graph.symbols.exact_div(extent, count)) lo.need_static(extent, "the split axis");
    return lo.b.ops(Kind::kSplit, {lo.b.i32_scalar(axis), x}, core::SplitOptions{static_cast<int>(count)},
                    static_cast<int>(count));
  }
  if (lo.opset() < 18 && extent % count != 0)
    lo.malformed(std::to_string(extent) + " elements cannot be split into " + std::to_string(count) + " equal parts");
  return lo.b.split(x, chunks(lo, extent, count), axis);
}

}  // namespace

void lower_concat(Lowering& lo) {
  std::vector<Val> parts;
  for (size_t i = 0; i < lo.input_count(); ++i) parts.push_back(lo.input(i));
  const int rank = lo.rank(parts[0]);
  if (rank == 0) lo.malformed("scalars cannot be concatenated");
  const int axis = lo.axis(lo.opset() < 4 ? lo.attr_i("axis", 1) : lo.need_attr_i("axis"), rank);
  lo.output(0, lo.b.concat(parts, axis));
}

void lower_split(Lowering& lo) {
  Val x = lo.input(0);
  const int axis = lo.axis(lo.attr_i("axis", 0), lo.rank(x));
  const auto count = static_cast<int64_t>(lo.output_count());
  std::optional<std::vector<int64_t>> sizes;
  if (lo.opset() < 13) sizes = lo.attr_ints("split");
  const bool listed = (lo.opset() < 2 || lo.opset() >= 13) && lo.has_input(1);
  if (listed) sizes = lo.ints(lo.input(1));
  std::vector<Val> parts;
  if (sizes) {
    parts = split_by(lo, x, axis, *sizes);
  } else if (listed) {
    parts = lo.b.ops(Kind::kSplitV, {x, as_i32_clamped(lo, lo.input(1)), lo.b.i32_scalar(axis)},
                     core::SplitOptions{static_cast<int>(count)}, static_cast<int>(count));
  } else {
    parts = split_evenly(lo, x, axis, lo.opset() >= 18 ? lo.attr_i("num_outputs", count) : count);
  }
  for (size_t i = 0; i < parts.size(); ++i) lo.output(i, parts[i]);
}

}  // namespace lowtide::layout
