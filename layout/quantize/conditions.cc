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
// without saturation.
constexpr double kLeast16 = -32768, kMost16 = 32767;
// MultiplyByQuantizedMultiplier (tflite/kernels/internal/common.cc) takes numbers of 32 bits, or, where sums have 64,
// of 48.
constexpr double kMost32 = 0x1p31, kMost48 = 0x1p47;
// HARD_SWISH refuses to load unless a step of the data is less than 128 steps of the result.
constexpr double kMostHardSwish = 127;

constexpr double kMostBias = 0x1p30;      // of i32, with a bit to spare
constexpr double kLeastFactor = 0x1p-24;  // from sums to the result: less would vanish anyway

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

double finest_weights_scale(double bias, float data, float result) {
  return std::max({kLeastFactor * result / data, std::fabs(bias) / (data * kMostBias),
                   static_cast<double>(std::numeric_limits<float>::min())});
}

double steps_lost(double bias, float scale, float result) {
  const double level = bias / scale;
  return std::fabs(level - std::nearbyint(level)) * scale / result;
}

bool sums_have_room(double most, double factor, bool is_wide, std::string& reason) {
  // Kernels round the factor to 31 bits, which may make it the next power of two.
  int places;
  std::frexp(factor * (1 + 0x1p-31), &places);
  if (!is_wide) places = std::max(places, 0);
  if (most >= (is_wide ? kMost48 : kMost32)) {
    reason = fmt::format("its sums or products may be up to {:.6g}, and kernels keep {} bits of them", most,
                         is_wide ? 48 : 32);
    return false;
  }
  if (std::ldexp(most, places) < kMost32) return true;
  reason = fmt::format("its sums or products may be up to {:.6g}, and kernels keep 32 bits of {:.6g} times that", most,
                       std::ldexp(1.0, places));
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

double most_steps(const Steps& steps) { return static_cast<double>(std::max(-steps.least, steps.most)); }

bool result_fits(Kind kind, const std::vector<Steps>& steps, const std::vector<float>& scales, const TensorGrid& result,
                 std::string& reason) {
  if ((kind != Kind::kAdd && kind != Kind::kMul) || steps.size() != 2) return true;
  // MUL of 16 bits has 32 for its product, and ADD has room for every sum.
  if (stream::bits(result.dtype) == 16)
    return kind == Kind::kAdd ||
           sums_have_room(most_steps(steps[0]) * most_steps(steps[1]),
                          static_cast<double>(scales[0]) * scales[1] / result.scale, false, reason);
  const std::array<double, 2> a = {scales[0] * steps[0].least, scales[0] * steps[0].most};
  const std::array<double, 2> b = {scales[1] * steps[1].least, scales[1] * steps[1].most};
  double least = a[0] + b[0], most = a[1] + b[1];
  if (kind == Kind::kMul) std::tie(least, most) = std::minmax({a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1]});
  // A step for the rounding. ADD, and MUL of u8, keep the low 16 bits; MUL of i8 saturates its product, and only the
  // zero point can take that out of 16 bits.
  least = least / result.scale - 1, most = most / result.scale + 1;
  const double zero = static_cast<double>(result.zero);
  const bool saturates = kind == Kind::kMul && result.dtype == DType::kInt8;
  const bool below = least + std::min(zero, 0.0) < kLeast16 && !(saturates && zero >= 0);
  const bool above = most + std::max(zero, 0.0) > kMost16 && !(saturates && zero <= 0);
  if (!below && !above) return true;
  reason = fmt::format("its results may have {:.6g} to {:.6g} steps, and kernels keep 16 bits of them", least, most);
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
