// SPDX-License-Identifier: Apache-2.0
#include "layout/quantize/conditions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <tuple>

#include "layout/core/builtin.h"

namespace lowtide::layout {
namespace {

// XNNPACK's limits (src/operators/*-nc.c, src/subgraph/*.c): a factor must be below 2^8, and large enough not to
// vanish.
constexpr double kMostFactor = 256;
constexpr double kLeastProduct = 0x1p-32, kLeastSum = 0x1p-10, kLeastMul = 0x1p-16;
// The vector code of the built-in ADD and MUL of 8 bits has results of 16 bits, to which the zero point is added
// without saturation. MUL of 16 bits has 32 in all modes.
constexpr double kLeast16 = -32768, kMost16 = 32767, kMost32 = 0x1p31;
// HARD_SWISH refuses to load unless a step of the data is less than 128 steps of the result.
constexpr double kMostHardSwish = 127;

bool within(double factor, double least, std::string& reason, double most = kMostFactor) {
  if (factor >= least && factor < most) return true;
  reason = fmt::format("the scales of its data and its result differ by a factor of {:.6g}, which kernels do not take",
                       factor);
  return false;
}

// LiteRT's own RESIZE_BILINEAR steps by a number of 1/1024 of an element, so that positions are off by more along the
// axis. An eighth of an element is accepted (33 to 257 elements: at most 7 steps on DeepLabV3), because XNNPACK, which
// computes by default, has no such error, and accelerators take no floats.
constexpr int64_t kPositionOne = 1024, kMostOff = kPositionOne / 8;

// SOFTMAX of LiteRT takes scales that are this close to its own; the others are compared exactly.
constexpr double kNearSoftmax = 1e-3;

}  // namespace

bool product_fits(Kind, float data, const std::vector<float>& weights, float result, std::string& reason) {
  return std::all_of(weights.begin(), weights.end(), [&](float scale) {
    return within(static_cast<double>(data) * scale / result, kLeastProduct, reason);
  });
}

bool shifted_sums_fit(float data, const std::vector<float>& weights, float result, double most_sum,
                      std::string& reason) {
  float largest = 0;
  for (const float scale : weights) largest = std::max(largest, scale);
  int places;
  std::frexp(static_cast<double>(data) * largest / result, &places);
  if (places <= 0 || std::ldexp(most_sum, places) < kMost32) return true;
  reason = fmt::format("its sums may be up to {:.6g}, times {:.6g} more than 32 bits, which kernels keep of them",
                       most_sum, std::ldexp(1.0, places));
  return false;
}

bool ratios_fit(Kind kind, const std::vector<float>& operands, float result, std::string& reason) {
  if (kind == Kind::kMul || kind == Kind::kBatchMatmul) {
    double factor = 1 / static_cast<double>(result);
    for (const float scale : operands) factor *= scale;
    if (kind == Kind::kBatchMatmul) return within(factor, kLeastProduct, reason);
    return within(factor, kLeastMul, reason);
  }
  // Of PRELU, the slopes' scale multiplies that of the data.
  if (kind == Kind::kPrelu)
    return within(static_cast<double>(operands[0]) / result, kLeastSum, reason) &&
           within(static_cast<double>(operands[0]) * operands[1] / result, kLeastMul, reason);
  const double most = kind == Kind::kHardSwish ? kMostHardSwish : kMostFactor;
  return std::all_of(operands.begin(), operands.end(),
                     [&](float scale) { return within(static_cast<double>(scale) / result, kLeastSum, reason, most); });
}

Steps steps_of(const TensorGrid& grid) {
  const int64_t all = int64_t{1} << stream::bits(grid.dtype);
  const int64_t least = stream::is_signed_int(grid.dtype) ? -all / 2 : 0;
  return {least - grid.zero, least + all - 1 - grid.zero};
}

bool result_fits(Kind kind, const std::vector<Steps>& steps, const std::vector<float>& scales, const TensorGrid& result,
                 std::string& reason) {
  if ((kind != Kind::kAdd && kind != Kind::kMul) || steps.size() != 2) return true;
  const std::array<double, 2> a = {scales[0] * steps[0].least, scales[0] * steps[0].most};
  const std::array<double, 2> b = {scales[1] * steps[1].least, scales[1] * steps[1].most};
  double least = a[0] + b[0], most = a[1] + b[1];
  if (kind == Kind::kMul) std::tie(least, most) = std::minmax({a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1]});
  // A step for the rounding. ADD, and MUL of u8, keep the low 16 bits; MUL of i8 saturates its product, and only the
  // zero point can take that out of 16 bits.
  least = least / result.scale - 1, most = most / result.scale + 1;
  const double zero = static_cast<double>(result.zero);
  const bool saturates = kind == Kind::kMul && result.dtype == DType::kInt8;
  const bool is_wide = stream::bits(result.dtype) == 16;
  if (is_wide && (kind == Kind::kAdd || std::max(-least, most) < kMost32)) return true;
  const bool below = least + std::min(zero, 0.0) < kLeast16 && !(saturates && zero >= 0);
  const bool above = most + std::max(zero, 0.0) > kMost16 && !(saturates && zero <= 0);
  if (!is_wide && !below && !above) return true;
  reason = fmt::format("its results may have {:.6g} to {:.6g} steps, and kernels keep {} bits of them", least, most,
                       is_wide ? 32 : 16);
  return false;
}

std::optional<TensorGrid> fixed_grid(Kind kind) {
  if (kind == Kind::kLogSoftmax) return TensorGrid{DType::kInt8, 16.0F / 256, 127};
  if (core::builtin(kind).integers != core::Integers::kFixed8) return std::nullopt;
  return TensorGrid{DType::kInt8, 1.0F / 256, -128};
}

bool is_fixed_grid(Kind kind, const TensorGrid& result, std::string& reason) {
  const TensorGrid fixed = *shifted(*fixed_grid(kind), result.dtype);
  const double tolerance = kind == Kind::kSoftmax ? kNearSoftmax : 0;
  if (result.zero == fixed.zero && std::fabs(result.scale - fixed.scale) <= tolerance * fixed.scale) return true;
  reason = fmt::format("{} gives the scale {} and the zero point {} only; the model has {} and {}", kind_name(kind),
                       fixed.scale, fixed.zero, result.scale, result.zero);
  return false;
}

bool positions_fit(core::Symbols& symbols, core::Dim in, core::Dim out, bool align_corners, std::string& reason) {
  if (in == out) return true;
  if (!core::is_symbol(in) && !core::is_symbol(out)) {
    const bool from_first_to_last = align_corners && out > 1;
    const int64_t elements = from_first_to_last ? in - 1 : in, steps = from_first_to_last ? out - 1 : out;
    if (steps < 1 || elements > std::numeric_limits<int32_t>::max() / kPositionOne) return true;
    const int64_t step = (elements * kPositionOne + steps / 2) / steps;
    if (std::abs(step * steps - elements * kPositionOne) <= kMostOff) return true;
  } else if (!align_corners) {
    for (int64_t times = 2; times <= kPositionOne; times *= 2)
      if (symbols.mul(in, times) == out || symbols.mul(out, times) == in) return true;
  }
  reason = "the integer kernel of RESIZE_BILINEAR takes elements beside those of this ratio of sizes";
  return false;
}

}  // namespace lowtide::layout
