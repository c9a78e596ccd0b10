// SPDX-License-Identifier: Apache-2.0
#include "layout/quantize/conditions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "layout/core/builtin.h"

namespace lowtide::layout {
namespace {

// XNNPACK's limits (src/operators/*-nc.c, src/subgraph/*.c): a factor must be below 2^8, and large enough not to
// vanish.
constexpr double kMostFactor = 256;
constexpr double kLeastProduct = 0x1p-32, kLeastSum = 0x1p-10, kLeastMul = 0x1p-16;

bool within(double factor, double least, std::string& reason) {
  if (factor >= least && factor < kMostFactor) return true;
  reason = fmt::format("the scales of its data and its result differ by a factor of {:.6g}, which kernels do not take",
                       factor);
  return false;
}

// SOFTMAX of LiteRT takes scales that are this close to its own; the others are compared exactly.
constexpr double kNearSoftmax = 1e-3;

}  // namespace

bool product_fits(Kind, float data, const std::vector<float>& weights, float result, std::string& reason) {
  return std::all_of(weights.begin(), weights.end(), [&](float scale) {
    return within(static_cast<double>(data) * scale / result, kLeastProduct, reason);
  });
}

bool ratios_fit(Kind kind, const std::vector<float>& operands, float result, std::string& reason) {
  if (kind == Kind::kMul || kind == Kind::kBatchMatmul) {
    double factor = 1 / static_cast<double>(result);
    for (const float scale : operands) factor *= scale;
    return within(factor, kind == Kind::kMul ? kLeastMul : kLeastProduct, reason);
  }
  // Of PRELU, the slopes' scale multiplies that of the data.
  if (kind == Kind::kPrelu)
    return within(static_cast<double>(operands[0]) / result, kLeastSum, reason) &&
           within(static_cast<double>(operands[0]) * operands[1] / result, kLeastMul, reason);
  return std::all_of(operands.begin(), operands.end(),
                     [&](float scale) { return within(static_cast<double>(scale) / result, kLeastSum, reason); });
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

}  // namespace lowtide::layout
