// SPDX-License-Identifier: Apache-2.0
// The MEAN of MEANs of few elements is one MEAN. A group normalisation takes the means of channels first, so that a
// large image stays one (layout/lower/norm.cc). Where the elements of a group are next to each other, they are a row:
//
//     [N,C,H,W] -> MEAN over H, W -> RESHAPE [N,G,C/G] -> MEAN over C/G      RESHAPE [N,G,C/G*H*W] -> MEAN over the
//     last
//
// Of few elements only: a MEAN costs XNNPACK several microseconds with two threads, which it wakes for each, and the
// RESHAPE copies the elements. Measured in CPU time of a group normalisation of C x H x W elements, one and two
// threads: 0.95 and 0.36 for 16 elements, 0.90 and 0.64 for 2,048, 1.38 and 1.12 for 16,384.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "layout/plain/rules.h"

namespace lowtide::layout {
namespace {

constexpr int64_t kFewElements = 2048;

// The number of leading axes that a reduction keeps, where it reduces all axes behind them.
std::optional<size_t> axes_before_reduced(Rewriter& rewriter, const Op& reduction) {
  auto axes = rewriter.graph.ints(reduction.inputs[1]);
  const auto rank = static_cast<int64_t>(rewriter.value(reduction.inputs[0]).rank());
  if (!axes || axes->empty()) return std::nullopt;
  for (int64_t& axis : *axes)
    if (axis < 0) axis += rank;
  std::sort(axes->begin(), axes->end());
  axes->erase(std::unique(axes->begin(), axes->end()), axes->end());
  const bool are_last = axes->back() == rank - 1 && std::ssize(*axes) == rank - axes->front();
  return are_last ? std::optional(static_cast<size_t>(axes->front())) : std::nullopt;
}

// The number of elements of a shape that is known; 0 for others, and for more than kFewElements.
int64_t few_elements(const core::Shape& shape) {
  int64_t elements = 1;
  for (core::Dim extent : shape) {
    if (core::is_symbol(extent) || extent > kFewElements) return 0;
    elements *= extent;
    if (elements > kFewElements) return 0;
  }
  return elements;
}

bool mean_of_means(Rewriter& rewriter, OpId id) {
  const Op outer = rewriter.op(id);
  const OpId reshape = rewriter.sole_producer(outer.inputs[0], Kind::kReshape);
  if (reshape < 0) return false;
  const OpId producer = rewriter.sole_producer(rewriter.op(reshape).inputs[0], Kind::kMean);
  if (producer < 0) return false;
  const Op inner = rewriter.op(producer);
  const ValueId source = inner.inputs[0];
  const int64_t elements = few_elements(rewriter.value(source).shape);
  if (elements == 0 || !is_float(rewriter, source) || !is_float(rewriter, outer.outputs[0])) return false;
  core::Shape rows = rewriter.value(outer.inputs[0]).shape;
  // The inner MEANs are all of as many elements, so that their mean is that of all.
  if (rows.empty() || axes_before_reduced(rewriter, outer) != rows.size() - 1 || !axes_before_reduced(rewriter, inner))
    return false;
  rows.back() = 1;
  const int64_t groups = few_elements(rows);
  if (groups == 0 || elements % groups != 0) return false;
  rows.back() = elements / groups;
  rewriter.b.origin = outer.origin;
  const bool keeps = std::get<core::ReduceOptions>(outer.options).keep_dims;
  const int last[] = {static_cast<int>(rows.size()) - 1};
  const Val made = rewriter.b.mean(rewriter.b.reshape({source}, rows), last, keeps);
  replace_result(rewriter, outer.outputs[0], made);
  return true;
}

constexpr std::array kMeanRules = {PlainRule{Kind::kMean, mean_of_means}};

}  // namespace

std::span<const PlainRule> mean_rules() { return kMeanRules; }

}  // namespace lowtide::layout
