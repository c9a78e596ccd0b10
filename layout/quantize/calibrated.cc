// SPDX-License-Identifier: Apache-2.0
#include "layout/quantize/calibrated.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "stream/error.h"
#include "stream/nearest_name.h"
#include "stream/onnx/graph_digest.h"

namespace lowtide::layout {
namespace {

[[noreturn]] void refuse_ranges(const Calibrated& calibrated, std::string text) {
  throw stream::Error(stream::Code::kMalformed, std::move(text), {.file = calibrated.file});
}

// Narrower intervals than this get the grid of this one: kernels refuse scales that are not normal numbers.
constexpr double kLeastWidth = 0x1p-100;

double least_of(DType dtype) { return dtype == DType::kInt8 ? -128 : -32768; }
double most_of(DType dtype) { return dtype == DType::kInt8 ? 127 : 32767; }

}  // namespace

TensorGrid grid_over(const Interval& interval, DType dtype) {
  constexpr double kMost = std::numeric_limits<float>::max();
  const double low = std::clamp(interval.low, -kMost, 0.0), high = std::clamp(interval.high, 0.0, kMost);
  // What is 0 always has no scale of its own.
  if (high - low < kLeastWidth) return {dtype, 1.0F / 256, 0};
  if (dtype == DType::kInt16) return {dtype, static_cast<float>(std::max(-low, high) / most_of(dtype)), 0};
  const double least = least_of(dtype), most = most_of(dtype);
  const auto scale = static_cast<float>((high - low) / (most - least));
  const double zero = std::clamp(std::nearbyint(least - low / scale), least, most);
  return {dtype, scale, static_cast<int64_t>(zero)};
}

Interval interval_of(const TensorGrid& grid) {
  const auto zero = static_cast<double>(grid.zero);
  return {(least_of(grid.dtype) - zero) * grid.scale, (most_of(grid.dtype) - zero) * grid.scale};
}

void check_calibrated(Calibrated& calibrated, const onnx::Graph& graph) {
  const std::string digest = onnx::graph_digest(graph);
  if (digest != calibrated.graph)
    refuse_ranges(calibrated,
                  fmt::format("the ranges are those of another model: its digest is {}, and this model's is {}",
                              calibrated.graph, digest));
  std::unordered_set<std::string> names;
  for (const onnx::ValueInfo& input : graph.inputs) names.insert(input.name);
  for (const onnx::Node& node : graph.nodes)
    for (const std::string& output : node.outputs)
      if (!output.empty()) names.insert(output);
  auto check_known = [&](const std::string& name) {
    if (names.contains(name)) return;
    const std::vector<std::string> all(names.begin(), names.end());
    refuse_ranges(calibrated,
                  fmt::format("the model computes no tensor '{}'{}", name, stream::did_you_mean(name, all)));
  };
  for (const auto& [name, tensor] : calibrated.tensors) check_known(name);
  for (const std::string& name : calibrated.unseen) check_known(name);
  for (const auto& [name, tensor] : calibrated.tensors) names.erase(name);
  for (const std::string& name : calibrated.unseen) names.erase(name);
  calibrated.missing = std::move(names);
}

}  // namespace lowtide::layout
