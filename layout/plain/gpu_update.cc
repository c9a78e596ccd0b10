// SPDX-License-Identifier: Apache-2.0
// DYNAMIC_UPDATE_SLICE at a constant place: "start_indices must be a runtime tensor". Where the update is as long as
// the data on all axes but one, it is put between SLICEs of the data.
#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "layout/plain/gpu_rules.h"

namespace lowtide::layout {
namespace {

// The only axis on which the update is shorter; none if there are several, or none at all.
std::optional<size_t> shorter_axis(const core::Shape& data, const core::Shape& update) {
  std::optional<size_t> found;
  for (size_t i = 0; i < data.size(); ++i) {
    if (data[i] == update[i]) continue;
    if (found || core::is_symbol(data[i]) || core::is_symbol(update[i])) return std::nullopt;
    found = i;
  }
  return found;
}

bool put_between(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  const ValueId data = op.inputs[0], update = op.inputs[1];
  const core::Shape shape = rewriter.value(data).shape, part = rewriter.value(update).shape;
  if (!is_float(rewriter, data) || !is_float(rewriter, update) || !rewriter.graph.ints(op.inputs[2])) return false;
  const std::vector<int64_t> start = *rewriter.graph.ints(op.inputs[2]);
  const std::optional<size_t> axis = shorter_axis(shape, part);
  if (!axis || part[*axis] == 0) return false;
  // The kernel moves what would reach over the border back inside.
  const int64_t begin = std::clamp<int64_t>(start[*axis], 0, shape[*axis] - part[*axis]);
  const int64_t end = begin + part[*axis];
  rewriter.b.origin = op.origin;
  std::vector<int64_t> from(shape.size(), 0);
  std::vector<core::Dim> size(shape.size(), -1);
  std::vector<Val> parts;
  if (begin > 0) {
    size[*axis] = begin;
    parts.push_back(rewriter.b.slice({data}, from, size));
  }
  parts.push_back({update});
  if (end < shape[*axis]) {
    from[*axis] = end;
    size[*axis] = shape[*axis] - end;
    parts.push_back(rewriter.b.slice({data}, from, size));
  }
  replace_result(rewriter, op.outputs[0], rewriter.b.concat(parts, static_cast<int>(*axis)));
  return true;
}

constexpr std::array kGpuUpdateRules = {PlainRule{Kind::kDynamicUpdateSlice, put_between}};

}  // namespace

std::span<const PlainRule> gpu_update_rules() { return kGpuUpdateRules; }

}  // namespace lowtide::layout
