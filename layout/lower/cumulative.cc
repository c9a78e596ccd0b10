// SPDX-License-Identifier: Apache-2.0
// CumSum, CumProd.
#include <fmt/format.h>

#include <algorithm>

#include "layout/lower/lowering.h"

namespace lowtide::layout {
namespace {

// Products along an axis are that many MULs: TFLite has no operator for them.
constexpr int64_t kMostProducts = 1024;

}  // namespace

void lower_cum_sum(Lowering& lo) {
  Val x = lo.input(0);
  const bool exclusive = lo.attr_i("exclusive", 0) != 0, reverse = lo.attr_i("reverse", 0) != 0;
  const std::optional<std::vector<int64_t>> axis = lo.ints(lo.input(1));
  if (!axis) {  // known at run time only: the kernel reads it then, negative ones too
    Val place = lo.b.cast(lo.b.reshape(lo.input(1), {}), DType::kInt32);
    return lo.output(0, lo.b.op(Kind::kCumsum, {x, place}, core::CumsumOptions{exclusive, reverse}));
  }
  if (axis->size() != 1) lo.malformed(fmt::format("input 1 ('axis') must have one element; it has {}", axis->size()));
  lo.output(0, lo.b.cumsum(x, lo.axis((*axis)[0], lo.rank(x)), exclusive, reverse));
}

// One after the other, as ONNX Runtime multiplies: another order overflows, or rounds to zero, in other places.
void lower_cum_prod(Lowering& lo) {
  Builder& b = lo.b;
  const Val x = lo.input(0);
  const bool exclusive = lo.attr_i("exclusive", 0) != 0, reverse = lo.attr_i("reverse", 0) != 0;
  const std::vector<int64_t> given = lo.need_ints(lo.input(1), "axis");
  if (given.size() != 1) lo.malformed(fmt::format("input 1 ('axis') must have one element; it has {}", given.size()));
  const int axis = lo.axis(given[0], lo.rank(x));
  const int64_t count = lo.need_static(b.dim(x, axis), "the axis of a cumulative product");
  if (count > kMostProducts)
    lo.unsupported(
        fmt::format("a cumulative product of {} elements is not supported: {} is the most", count, kMostProducts),
        "take the exponential of a cumulative sum of logarithms if the numbers are positive");
  if (count == 0) return lo.output(0, x);
  std::vector<Val> parts = b.split(x, count, 1, axis);
  if (reverse) std::reverse(parts.begin(), parts.end());
  if (exclusive) {
    parts.pop_back();
    Shape one = lo.shape(x);
    one[static_cast<size_t>(axis)] = 1;
    parts.insert(parts.begin(), b.broadcast_to(b.scalar_like(1, x), one));
  }
  for (size_t i = exclusive ? 2 : 1; i < parts.size(); ++i) parts[i] = b.mul(parts[i - 1], parts[i]);
  if (reverse) std::reverse(parts.begin(), parts.end());
  lo.output(0, b.concat(parts, axis));
}

}  // namespace lowtide::layout
