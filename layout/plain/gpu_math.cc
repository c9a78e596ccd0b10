// SPDX-License-Identifier: Apache-2.0
// Ops without a GPU kernel, as ops that have one. LOG_SOFTMAX and LOCAL_RESPONSE_NORMALIZATION: "Operation is not
// supported."; the guard for NaN behind SOFTMAX, which compares a value with itself: "No support of few identical
// inputs in the same operation."
#include <algorithm>
#include <array>

#include "layout/plain/gpu_rules.h"

namespace lowtide::layout {
namespace {

using core::Shape;

constexpr int kOverChannels[] = {-1};

// x - max - log(sum(exp(x - max))) over the last axis: LiteRT's kernel and ONNX Runtime compute the same.
bool expand_log_softmax(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  core::Builder& b = rewriter.b;
  if (!is_float(rewriter, op.inputs[0])) return false;
  b.origin = op.origin;
  const Val x{op.inputs[0]};
  const Val shifted = b.sub(x, b.reduce_max(x, kOverChannels, true));
  replace_result(rewriter, op.outputs[0], b.sub(shifted, b.log(b.sum(b.exp(shifted), kOverChannels, true))));
  return true;
}

// x * (bias + alpha * sum of squares) ^ -beta. A 1x1 convolution sums neighbouring channels: its weights are alpha in a
// band, and its bias is the bias.
bool expand_local_response(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  core::Builder& b = rewriter.b;
  const Shape shape = rewriter.value(op.inputs[0]).shape;
  if (!is_float(rewriter, op.inputs[0]) || shape.size() != 4 || core::is_symbol(shape[3])) return false;
  const auto& options = std::get<core::LrnOptions>(op.options);
  const int64_t channels = shape[3];
  if (!stream::has_at_most(stream::kSmallElements, std::array{channels, channels})) return false;
  std::vector<float> band;
  for (int64_t out = 0; out < channels; ++out)
    for (int64_t in = 0; in < channels; ++in)
      band.push_back(std::abs(out - in) <= options.radius ? options.alpha : 0.0F);
  b.origin = op.origin;
  const Val x{op.inputs[0]};
  const Val weights = b.constant(stream::recipe::floats(band, {channels, 1, 1, channels}));
  const Val scale =
      b.conv_2d(b.square(x), weights, b.filled(options.bias, core::DType::kFloat32, {channels}), core::Conv2dOptions{});
  replace_result(rewriter, op.outputs[0], b.mul(x, b.pow(scale, b.scalar_like(-options.beta, x))));
  return true;
}

// What SOFTMAX gives is at least 0 or it is NaN: SELECT(p != p, other, p) is SELECT(p >= 0, p, other).
bool compare_with_zero(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  core::Builder& b = rewriter.b;
  const OpId condition = rewriter.producer(op.inputs[0]);
  if (condition < 0 || rewriter.op(condition).kind != Kind::kNotEqual) return false;
  const std::vector<ValueId> compared = rewriter.op(condition).inputs;
  const OpId softmax = rewriter.producer(compared[0]);
  if (compared[0] != compared[1] || softmax < 0 || rewriter.op(softmax).kind != Kind::kSoftmax ||
      !is_float(rewriter, compared[0]))
    return false;
  b.origin = op.origin;
  const Val is_number = b.greater_equal({compared[0]}, b.scalar_like(0, {compared[0]}));
  replace_result(rewriter, op.outputs[0], b.select(is_number, {op.inputs[2]}, {op.inputs[1]}));
  return true;
}

constexpr std::array kGpuMathRules = {PlainRule{Kind::kLogSoftmax, expand_log_softmax},
                                      PlainRule{Kind::kLocalResponseNormalization, expand_local_response},
                                      PlainRule{Kind::kSelectV2, compare_with_zero}};

}  // namespace

std::span<const PlainRule> gpu_math_rules() { return kGpuMathRules; }

}  // namespace lowtide::layout
