// SPDX-License-Identifier: Apache-2.0
// HannWindow, HammingWindow, BlackmanWindow.
//
// A window is a sum of cosines of n / N turns, where N is its size, or its size - 1 when it is symmetric (`periodic` =
// 0). The size may be known at run time only.
#include <fmt/format.h>

#include <numbers>

#include "layout/lower/elementwise.h"
#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

// The first two harmonics: constant + first * cos(turn) + second * cos(2 turns).
struct Harmonics {
  double constant, first, second;
};

void window(Lowering& lo, const Harmonics& harmonics) {
  Builder& b = lo.b;
  const bool periodic = lo.attr_i("periodic", 1) != 0;
  const DType dtype = lo.attr_dtype("output_datatype", DType::kFloat32);
  Val size = as_scalar(lo, lo.input(0));
  const auto known = lo.ints(size);
  if (known && (*known)[0] < 0)
    lo.malformed(fmt::format("the window's size must not be negative; it is {}", (*known)[0]));
  const DType work = known || dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  Val n = known ? iota(lo, (*known)[0], DType::kInt64) : b.range(b.scalar_like(0, size), size, b.scalar_like(1, size));
  Val whole = b.cast(size, work);
  if (!periodic) whole = b.sub(whole, 1);
  Val angle = b.mul(b.div(b.cast(n, work), whole), 2 * std::numbers::pi);
  Val y = b.add(b.mul(b.cos(angle), harmonics.first), harmonics.constant);
  if (harmonics.second != 0) y = b.add(y, b.mul(b.cos(b.mul(angle, 2)), harmonics.second));
  lo.output(0, cast_through_i64(b, y, dtype));
}

}  // namespace

void lower_hann_window(Lowering& lo) { window(lo, {0.5, -0.5, 0}); }
void lower_hamming_window(Lowering& lo) { window(lo, {25.0 / 46, -21.0 / 46, 0}); }
void lower_blackman_window(Lowering& lo) { window(lo, {0.42, -0.5, 0.08}); }

}  // namespace lowtide::layout
