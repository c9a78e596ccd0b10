// SPDX-License-Identifier: Apache-2.0
// Split. Difference: ONNX also splits unevenly (num_outputs: the last part is smaller), SPLIT only evenly.
#include <algorithm>
#include <string>

#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

// The sizes of `count` parts of an axis; the last one is smaller when `count` does not divide the axis.
std::vector<int64_t> chunks(Lowering& lo, int64_t axis_size, int64_t count) {
  const int64_t chunk = axis_size / count + (axis_size % count != 0);
  std::vector<int64_t> sizes(static_cast<size_t>(count), chunk);
  sizes.back() = axis_size - chunk * (count - 1);
  if (sizes.back() < 0)
    lo.malformed("an axis of " + std::to_string(axis_size) + " elements cannot be split into " + std::to_string(count) +
                 " parts");
  return sizes;
}

// The same for an axis whose extent is known at run time only.
std::vector<Dim> open_chunks(core::Symbols& symbols, Dim axis_size, int64_t count) {
  const Dim chunk = symbols.ceil_div(axis_size, count);
  std::vector<Dim> sizes(static_cast<size_t>(count), chunk);
  sizes.back() = symbols.sub(axis_size, symbols.mul(chunk, count - 1));
  return sizes;
}

// Splits by a list of sizes that is computed at run time.
std::vector<Val> split_by_list(Lowering& lo, Val x, int axis, Val sizes) {
  const auto count = static_cast<int>(lo.output_count());
  return lo.b.ops(Kind::kSplitV, {x, sizes, lo.b.i32_scalar(axis)}, core::SplitOptions{count}, count);
}

std::vector<Val> split_by(Lowering& lo, Val x, int axis, const std::vector<int64_t>& sizes) {
  if (sizes.size() != lo.output_count())
    lo.malformed("'split' has " + std::to_string(sizes.size()) + " sizes, but the node has " +
                 std::to_string(lo.output_count()) + " outputs");
  core::Symbols& symbols = lo.b.graph.symbols;
  Dim sum = 0;
  for (int64_t size : sizes) {
    if (size < 0) lo.malformed("'split' must not be negative; it contains " + std::to_string(size));
    sum = symbols.add(sum, size);
  }
  const Dim axis_size = lo.b.dim(x, axis);
  if (!core::is_symbol(axis_size) && axis_size != sum)
    lo.malformed("the sizes in 'split' add up to " + std::to_string(sum) + ", but the axis has " +
                 std::to_string(axis_size) + " elements");
  return lo.b.split(x, sizes, axis);
}

std::vector<Val> split_evenly(Lowering& lo, Val x, int axis, int64_t count) {
  if (count < 1 || static_cast<size_t>(count) != lo.output_count())
    lo.malformed("num_outputs is " + std::to_string(count) + ", but the node has " + std::to_string(lo.output_count()) +
                 " outputs");
  const Dim axis_size = lo.b.dim(x, axis);
  if (count == 1) return {x};
  if (core::is_symbol(axis_size)) {
    // Before opset 18 all parts are equal, which the kernel checks.
    core::Symbols& symbols = lo.b.graph.symbols;
    if (lo.opset() >= 18 && !symbols.exact_div(axis_size, count))
      return split_by_list(lo, x, axis, lo.b.dims(open_chunks(symbols, axis_size, count), DType::kInt32, x));
    return lo.b.ops(Kind::kSplit, {lo.b.i32_scalar(axis), x}, core::SplitOptions{static_cast<int>(count)},
                    static_cast<int>(count));
  }
  if (lo.opset() < 18 && axis_size % count != 0)
    lo.malformed("an axis of " + std::to_string(axis_size) + " elements cannot be split into " + std::to_string(count) +
                 " equal parts");
  return lo.b.split(x, chunks(lo, axis_size, count), axis);
}

}  // namespace

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
    parts = split_by_list(lo, x, axis, as_i32_clamped(lo, lo.input(1)));
  } else {
    parts = split_evenly(lo, x, axis, lo.opset() >= 18 ? lo.attr_i("num_outputs", count) : count);
  }
  for (size_t i = 0; i < parts.size(); ++i) lo.output(i, parts[i]);
}

}  // namespace lowtide::layout
