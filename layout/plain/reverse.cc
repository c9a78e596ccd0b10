// SPDX-License-Identifier: Apache-2.0
// A STRIDED_SLICE that turns one axis round is a REVERSE_V2: as many ops, and a kernel that GPU delegates have too
// ("Reverse slices are not supported.").
#include <algorithm>
#include <array>
#include <cstdlib>

#include "layout/plain/rules.h"

namespace lowtide::layout {
namespace {

bool reverse_instead(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  const core::Value& data = rewriter.value(op.inputs[0]);
  const auto strides = rewriter.graph.ints(op.inputs[3]);
  // As long as the data in each axis: then a step of -1 begins at the end, and one of 1 at the begin.
  if (!strides || data.shape != rewriter.value(op.outputs[0]).shape || strides->size() != data.shape.size() ||
      data.dtype != core::DType::kFloat32 || data.quantization ||
      std::get<core::StridedSliceOptions>(op.options).shrink_axis_mask != 0)
    return false;
  const bool of_one = std::all_of(strides->begin(), strides->end(), [](int64_t step) { return std::abs(step) == 1; });
  if (!of_one || std::count(strides->begin(), strides->end(), -1) != 1) return false;
  rewriter.b.origin = op.origin;
  const int axes[] = {static_cast<int>(std::find(strides->begin(), strides->end(), -1) - strides->begin())};
  replace_result(rewriter, op.outputs[0], rewriter.b.reverse({op.inputs[0]}, axes));
  return true;
}

constexpr std::array kReverseRules = {PlainRule{Kind::kStridedSlice, reverse_instead}};

}  // namespace

std::span<const PlainRule> reverse_rules() { return kReverseRules; }

}  // namespace lowtide::layout
