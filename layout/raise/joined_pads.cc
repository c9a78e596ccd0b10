// SPDX-License-Identifier: Apache-2.0
// PAD -> CONV_2D with VALID becomes Conv with pads. ONNX Runtime has integer kernels of a Conv with pads, and would
// compute a Pad between DequantizeLinear and QuantizeLinear first.
//
// The traps: pads of a Conv and of an AveragePool are zeros, those of a MaxPool are below all numbers; a pool's pads
// must be smaller than its window; kernels of PAD take integers as they are, whatever the scale of the result is.
#include "layout/raise/joined_pads.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "layout/core/never_negative.h"

namespace lowtide::layout {
namespace {

using core::Graph;
using core::Kind;
using core::Op;
using core::Value;
using core::ValueId;

constexpr size_t kFirstSpatialAxis = 2;

// The pads of the spatial axes, where the others have none.
std::optional<std::vector<int64_t>> spatial_pads(Graph& graph, const Op& pad) {
  const auto sides = graph.ints(pad.inputs[1]);
  const auto axes = static_cast<size_t>(graph.at(pad.inputs[0]).rank());
  if (!sides || sides->size() != 2 * axes || axes <= kFirstSpatialAxis) return std::nullopt;
  if (std::any_of(sides->begin(), sides->end(), [](int64_t side) { return side < 0; })) return std::nullopt;
  if (std::any_of(sides->begin(), sides->begin() + 2 * kFirstSpatialAxis, [](int64_t side) { return side != 0; }))
    return std::nullopt;
  std::vector<int64_t> out;
  for (size_t side = 0; side < 2; ++side)
    for (size_t axis = kFirstSpatialAxis; axis < axes; ++axis) out.push_back((*sides)[2 * axis + side]);
  return out;
}

bool is_least(double number, core::DType dtype) {
  switch (dtype) {
    case core::DType::kFloat32:
      return number <= static_cast<double>(std::numeric_limits<float>::lowest());
    case core::DType::kInt8:
      return number == std::numeric_limits<int8_t>::min();
    case core::DType::kUint8:
      return number == 0;
    default:
      return false;
  }
}

// What a PAD puts around the image.
struct PadBorder {
  std::vector<int64_t> pads;  // of the spatial axes
  bool is_zero, is_least;     // is_least: no number of the image is less
};

std::optional<PadBorder> border_of(Graph& graph, const Op& pad) {
  auto pads = spatial_pads(graph, pad);
  const Value &image = graph.at(pad.inputs[0]), &result = graph.at(pad.outputs[0]);
  const auto& scales = result.quantization;
  const bool are_numbers = stream::is_float(result.dtype) || (scales && scales->scale.size() == 1);
  if (!pads || !are_numbers || image.dtype != result.dtype || image.quantization != scales) return std::nullopt;
  const double zero = scales && !scales->zero_point.empty() ? static_cast<double>(scales->zero_point[0]) : 0;
  double number = zero;
  if (core::has_input(pad, 2)) {
    const auto given = graph.numbers(pad.inputs[2]);
    if (!given || given->size() != 1 || graph.at(pad.inputs[2]).quantization != scales) return std::nullopt;
    number = given->front();
  }
  const bool is_zero = number == zero;
  const bool has_least = is_least(number, result.dtype) || (is_zero && core::is_never_negative(graph, pad.inputs[0]));
  return PadBorder{.pads = *std::move(pads), .is_zero = is_zero, .is_least = has_least};
}

// ONNX Runtime refuses others.
bool are_in_window(const std::vector<int64_t>& pads, const core::PoolOptions& pool) {
  const int64_t window[] = {pool.filter_h, pool.filter_w};
  for (size_t i = 0; i < pads.size(); ++i)
    if (pads[i] >= window[i % 2]) return false;
  return true;
}

// Whether `op` can have the border as its pads.
bool takes(const Op& op, ValueId padded, const PadBorder& border) {
  const auto* image = std::get_if<core::ChannelsFirstOptions>(&op.options);
  if (!image || op.inputs[0] != padded || std::count(op.inputs.begin(), op.inputs.end(), padded) != 1) return false;
  switch (static_cast<Kind>(image->code)) {
    case Kind::kConv2d:
    case Kind::kDepthwiseConv2d:
      return border.is_zero && std::get<core::Conv2dOptions>(image->options).padding == core::Padding::kValid;
    case Kind::kConv3d:
      return border.is_zero && std::get<core::Conv3dOptions>(image->options).padding == core::Padding::kValid;
    case Kind::kAveragePool2d:
    case Kind::kMaxPool2d: {
      const auto& pool = std::get<core::PoolOptions>(image->options);
      const bool is_max = static_cast<Kind>(image->code) == Kind::kMaxPool2d;
      return (is_max ? border.is_least : border.is_zero) && pool.padding == core::Padding::kValid &&
             are_in_window(border.pads, pool);
    }
    default:
      return false;
  }
}

}  // namespace

JoinedPads join_pads(Graph& graph) {
  JoinedPads out;
  const auto users = graph.users();
  for (const Op& pad : graph.ops) {
    if (pad.kind != Kind::kPad && pad.kind != Kind::kPadv2) continue;
    const ValueId padded = pad.outputs[0], image = pad.inputs[0];
    const std::optional<PadBorder> border = border_of(graph, pad);
    const std::vector<core::OpId>& readers = users[static_cast<size_t>(padded)];
    if (!border || std::count(graph.outputs.begin(), graph.outputs.end(), padded) != 0 ||
        !std::all_of(readers.begin(), readers.end(),
                     [&](core::OpId reader) { return takes(graph.op(reader), padded, *border); }))
      continue;
    for (const core::OpId reader : readers) {
      Op& op = graph.op(reader);
      op.inputs[0] = image;
      out[op.outputs[0]] = border->pads;
    }
  }
  if (!out.empty()) graph.tidy();
  return out;
}

}  // namespace lowtide::layout
