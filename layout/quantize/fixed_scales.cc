// SPDX-License-Identifier: Apache-2.0
#include "layout/quantize/fixed_scales.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "layout/core/builtin.h"

namespace lowtide::layout {
namespace {

// Results are rounded by step^2 / 12 on average: at most this part of their mean square (20 dB). On networks of one
// such op that told the noise of the result to 3 dB or better.
constexpr double kMostNoise = 0.01;
constexpr double kLeastStepsOfLargest = 32;

}  // namespace

FixedScales::Size FixedScales::larger(const Size& a, const Size& b) {
  return {std::max(a.most, b.most), std::max(a.mean_square, b.mean_square)};
}

// What is small beside the rest of a tensor that it becomes a part of, as scores beside boxes, needs no finer steps
// than the rest. So a value is taken to be as large as what ops that give its elements make of it.
FixedScales::FixedScales(Graph& graph, const Calibrated& calibrated)
    : graph_(graph), calibrated_(calibrated), sizes_(graph.values.size()) {
  for (size_t v = 0; v < sizes_.size(); ++v)
    if (const CalibratedTensor* tensor = calibrated_tensor(graph, calibrated, static_cast<ValueId>(v)))
      sizes_[v] = {tensor->seen.high, tensor->mean_square};
  auto size = [&](ValueId id) -> Size& { return sizes_[static_cast<size_t>(id)]; };
  for (const Op& op : graph.ops) {
    if (!chooses(op)) continue;
    for (const ValueId out : data_outputs(graph, op))
      for (const ValueId in : data_inputs(graph, op)) size(out) = larger(size(out), size(in));
  }
  for (auto op = graph.ops.rbegin(); op != graph.ops.rend(); ++op) {
    if (!chooses(*op)) continue;
    for (const ValueId out : data_outputs(graph, *op))
      for (const ValueId in : data_inputs(graph, *op)) size(in) = larger(size(in), size(out));
  }
}

std::string FixedScales::reason_against(ValueId result, const TensorGrid& grid, double least) const {
  const CalibratedTensor* tensor = calibrated_tensor(graph_, calibrated_, result);
  if (tensor == nullptr) return {};
  const Interval ends = interval_of(grid);
  if (tensor->unmasked.least) least = std::max(least, *tensor->unmasked.least);
  if (least < ends.low - grid.scale)
    return fmt::format("its results go down to {:.4g}, and the scale of its kernel ends at {:.4g}", least, ends.low);
  if (ends.low < 0) return {};
  const auto& [most, mean_square] = sizes_[static_cast<size_t>(result)];
  if (most / grid.scale < kLeastStepsOfLargest)
    return fmt::format("the scale of its kernel has {:.3g} steps for the largest result", most / grid.scale);
  if (mean_square > 0 && static_cast<double>(grid.scale) * grid.scale / 12 > kMostNoise * mean_square)
    return fmt::format("the scale of its kernel has {:.3g} steps for the root mean square of its results",
                       std::sqrt(mean_square) / grid.scale);
  return {};
}

}  // namespace lowtide::layout
