// SPDX-License-Identifier: Apache-2.0
// A product of small constants is computed once: the first turn of an unrolled LSTM multiplies its initial state by the
// recurrent weights. Runtimes compute it in each run, and GPU delegates take no constant as data of FULLY_CONNECTED.
#include <array>
#include <cmath>

#include "layout/plain/rules.h"

namespace lowtide::layout {
namespace {

constexpr int64_t kMostProducts = int64_t{1} << 22;  // a few milliseconds

bool fold_product(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  const auto& options = std::get<core::FullyConnectedOptions>(op.options);
  const ValueId out = op.outputs[0];
  if (options.activation != core::Activation::kNone || rewriter.value(out).dtype != core::DType::kFloat32) return false;
  for (ValueId in : op.inputs)
    if (in != core::kAbsent && (!rewriter.is_constant(in) || rewriter.value(in).quantization ||
                                rewriter.value(in).dtype != core::DType::kFloat32))
      return false;
  const core::Shape shape = rewriter.value(out).shape;
  const core::Shape& weights_shape = rewriter.value(op.inputs[1]).shape;
  if (weights_shape.size() != 2 || shape.empty() || !stream::is_static(shape)) return false;
  const int64_t units = weights_shape[0], depth = weights_shape[1];
  const auto data = rewriter.graph.numbers(op.inputs[0]), weights = rewriter.graph.numbers(op.inputs[1]);
  if (!data || !weights || units == 0 || depth == 0) return false;
  const auto rows = static_cast<int64_t>(data->size()) / depth;
  if (rows * units > static_cast<int64_t>(stream::kSmallElements) || rows * units > kMostProducts / depth) return false;
  std::vector<double> bias(static_cast<size_t>(units), 0);
  if (core::has_input(op, 2)) {
    const auto given = rewriter.graph.numbers(op.inputs[2]);
    if (!given || given->size() != bias.size()) return false;
    bias = *given;
  }
  std::vector<float> result;
  result.reserve(static_cast<size_t>(rows * units));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t unit = 0; unit < units; ++unit) {
      double sum = bias[static_cast<size_t>(unit)];
      for (int64_t k = 0; k < depth; ++k)
        sum += (*data)[static_cast<size_t>(row * depth + k)] * (*weights)[static_cast<size_t>(unit * depth + k)];
      result.push_back(static_cast<float>(sum));
    }
  }
  rewriter.b.origin = op.origin;
  replace_result(rewriter, out, rewriter.b.constant(stream::recipe::floats(result, shape)));
  return true;
}

constexpr std::array kFoldRules = {PlainRule{Kind::kFullyConnected, fold_product}};

}  // namespace

std::span<const PlainRule> fold_rules() { return kFoldRules; }

}  // namespace lowtide::layout
