// SPDX-License-Identifier: Apache-2.0
// A STRIDED_SLICE that turns one axis round is a REVERSE_V2: as many ops, and a kernel that GPU delegates have too
// ("Reverse slices are not supported."). They compute it wrong for channels whose number is no multiple of 4: these
// stay a STRIDED_SLICE, and --for gpu makes another axis of them.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <optional>

#include "layout/plain/gpu_rules.h"

namespace lowtide::layout {
namespace {

// Whether GPU delegates turn the axis round rightly.
bool is_turned_rightly(const core::Shape& shape, size_t axis) {
  return axis + 1 < shape.size() || (!core::is_symbol(shape[axis]) && shape[axis] % 4 == 0);
}

// The axis that a STRIDED_SLICE turns round, if it does nothing else.
std::optional<size_t> turned_axis(Rewriter& rewriter, const Op& op) {
  const core::Value& data = rewriter.value(op.inputs[0]);
  const auto strides = rewriter.graph.ints(op.inputs[3]);
  // As long as the data in each axis: then a step of -1 begins at the end, and one of 1 at the begin.
  if (!strides || data.shape != rewriter.value(op.outputs[0]).shape || strides->size() != data.shape.size() ||
      data.dtype != core::DType::kFloat32 || data.quantization ||
      std::get<core::StridedSliceOptions>(op.options).shrink_axis_mask != 0)
    return std::nullopt;
  const bool of_one = std::all_of(strides->begin(), strides->end(), [](int64_t step) { return std::abs(step) == 1; });
  if (!of_one || std::count(strides->begin(), strides->end(), -1) != 1) return std::nullopt;
  return static_cast<size_t>(std::find(strides->begin(), strides->end(), -1) - strides->begin());
}

bool reverse_instead(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  const auto axis = turned_axis(rewriter, op);
  if (!axis || !is_turned_rightly(rewriter.value(op.inputs[0]).shape, *axis)) return false;
  rewriter.b.origin = op.origin;
  const int axes[] = {static_cast<int>(*axis)};
  replace_result(rewriter, op.outputs[0], rewriter.b.reverse({op.inputs[0]}, axes));
  return true;
}

// Channels become the axis before the last: [a, b, channels, 1].
bool reverse_before_the_last(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  core::Builder& b = rewriter.b;
  const core::Shape shape = rewriter.value(op.inputs[0]).shape;
  if (!is_float(rewriter, op.inputs[0]) || shape.empty() || !stream::is_static(shape)) return false;
  if (op.kind == Kind::kReverseV2) {
    const auto axes = rewriter.graph.ints(op.inputs[1]);
    if (!axes || axes->size() != 1 || (axes->front() != -1 && axes->front() + 1 != std::ssize(shape))) return false;
  } else if (turned_axis(rewriter, op) != shape.size() - 1) {
    return false;
  }
  const core::Dim channels = shape.back();
  if (is_turned_rightly(shape, shape.size() - 1)) return false;
  const core::Dim first = shape.size() > 1 ? shape[0] : 1;
  const auto others = static_cast<core::Dim>(stream::element_count(shape)) / std::max<core::Dim>(first * channels, 1);
  b.origin = op.origin;
  constexpr int kChannels[] = {2};
  const Val turned = b.reverse(b.reshape({op.inputs[0]}, {first, others, channels, 1}), kChannels);
  replace_result(rewriter, op.outputs[0], b.reshape(turned, shape));
  return true;
}

constexpr std::array kReverseRules = {PlainRule{Kind::kStridedSlice, reverse_instead}};
constexpr std::array kGpuReverseRules = {PlainRule{Kind::kStridedSlice, reverse_before_the_last},
                                         PlainRule{Kind::kReverseV2, reverse_before_the_last}};

}  // namespace

std::span<const PlainRule> reverse_rules() { return kReverseRules; }
std::span<const PlainRule> gpu_reverse_rules() { return kGpuReverseRules; }

}  // namespace lowtide::layout
