// SPDX-License-Identifier: Apache-2.0
// com.microsoft's FusedConv, NhwcFusedConv, FusedGemm, FusedMatMul (TransposeMatMul) and BiasSoftmax, which ONNX
// Runtime's optimiser writes: the operator, an optional addition, and an activation by name.
#include <fmt/format.h>

#include <limits>
#include <string_view>
#include <utility>

#include "layout/lower/conv.h"
#include "layout/lower/matmul.h"
#include "layout/lower/recurrent.h"
#include "layout/lower/sliding_window.h"
#include "layout/lower/softmax.h"

namespace lowtide::layout {
namespace {

// max(low, min(high, x)), without bounds that change nothing.
Val clipped(Builder& b, Val x, float low, float high) {
  if (low == 0 && high == 6) return b.relu6(x);
  if (low > std::numeric_limits<float>::lowest()) x = b.maximum(x, b.scalar_like(low, x));
  if (high < std::numeric_limits<float>::max()) x = b.minimum(x, b.scalar_like(high, x));
  return x;
}

// The activations that ONNX Runtime fuses, each with the number of its parameters; Selu's are alpha and gamma.
constexpr std::pair<std::string_view, size_t> kActivations[] = {
    {"", 0},     {"Clip", 2},    {"Elu", 1},      {"HardSigmoid", 2}, {"LeakyRelu", 1}, {"Relu", 0},
    {"Selu", 2}, {"Sigmoid", 0}, {"Softplus", 0}, {"Softsign", 0},    {"Tanh", 0},      {"ThresholdedRelu", 1}};

size_t parameter_count(Lowering& lo, const std::string& name) {
  for (const auto& [known, count] : kActivations)
    if (known == name) return count;
  lo.unsupported(fmt::format("the fused activation '{}' is not supported", name));
}

// `p` has as many parameters as the activation takes.
Val activated(Lowering& lo, Val x, const std::string& name, const std::vector<float>& p) {
  Builder& b = lo.b;
  if (name.empty()) return x;
  if (name == "Relu") return b.relu(x);
  if (name == "Tanh") return b.tanh(x);
  if (name == "Sigmoid") return b.logistic(x);
  if (name == "LeakyRelu") return b.leaky_relu(x, p[0]);
  if (name == "Clip") return clipped(b, x, p[0], p[1]);
  if (name == "HardSigmoid") return clipped(b, b.add(b.mul(x, p[0]), p[1]), 0, 1);
  if (name == "Elu") return apply(b, {"elu", p[0]}, x);
  if (name == "Selu") return b.mul(apply(b, {"elu", p[0]}, x), p[1]);
  if (name == "ThresholdedRelu") return apply(b, {"thresholdedrelu", p[0]}, x);
  return apply(b, {name == "Softsign" ? "softsign" : "softplus"}, x);
}

// The permutation of transBatch: axis 0 becomes the last but one.
Perm batch_last(int rank) {
  Perm perm;
  for (int i = 1; i + 1 < rank; ++i) perm.push_back(i);
  perm.insert(perm.end(), {0, rank - 1});
  return perm;
}

Val operand(Lowering& lo, Val x, bool batch, bool matrix) {
  const int rank = lo.rank(x);
  if (rank < 2) return x;
  if (batch) x = lo.b.transpose(x, batch_last(rank));
  if (!matrix) return x;
  Perm perm = stream::identity_perm(rank);
  std::swap(perm[static_cast<size_t>(rank) - 1], perm[static_cast<size_t>(rank) - 2]);
  return lo.b.transpose(x, perm);
}

// `added` (input 3) is added before the activation; it may be absent.
Val fused_conv(Lowering& lo, Val x, Val added) {
  Val y = convolution(lo, x, lo.input(1), lo.optional_input(2));
  if (added) y = lo.b.add(y, added);
  const std::string name = lo.attr_s("activation", "");
  const std::vector<float> list = lo.attr_floats("activation_params").value_or(std::vector<float>());
  const size_t wanted = parameter_count(lo, name);
  if (list.size() < wanted)
    lo.malformed(fmt::format("activation '{}' needs {} activation_params; there are {}", name, wanted, list.size()));
  return activated(lo, y, name, list);
}

}  // namespace

void lower_fused_conv(Lowering& lo) { lo.output(0, fused_conv(lo, lo.input(0), lo.optional_input(3))); }

// Data is channels-last, the weights have ONNX's order.
void lower_nhwc_fused_conv(Lowering& lo) {
  const Val added = lo.has_input(3) ? channels_first(lo, lo.input(3)) : Val{};
  lo.output(0, channels_last(lo, fused_conv(lo, channels_first(lo, lo.input(0)), added)));
}

void lower_fused_gemm(Lowering& lo) {
  Val y = gemm(lo);
  const std::string name = lo.attr_s("activation", "");
  const char* second = name == "Selu" ? "activation_gamma" : "activation_beta";
  std::vector<float> parameters;
  for (const char* attribute : {"activation_alpha", second}) {
    if (parameters.size() == parameter_count(lo, name)) break;
    if (!lo.has_attr(attribute)) lo.malformed(fmt::format("activation '{}' needs the attribute '{}'", name, attribute));
    parameters.push_back(lo.attr_f(attribute, 0));
  }
  // Parameters that this activation does not have.
  for (const char* attribute : {"activation_alpha", "activation_beta", "activation_gamma"}) lo.ignore_attr(attribute);
  lo.output(0, activated(lo, y, name, parameters));
}

void lower_fused_matmul(Lowering& lo) {
  Val a = operand(lo, lo.input(0), lo.attr_i("transBatchA", 0) != 0, lo.attr_i("transA", 0) != 0);
  Val b = operand(lo, lo.input(1), lo.attr_i("transBatchB", 0) != 0, lo.attr_i("transB", 0) != 0);
  const float alpha = lo.attr_f("alpha", 1);
  Val y = matmul(lo, a, b);
  lo.output(0, alpha == 1 ? y : lo.b.mul(y, alpha));
}

// Softmax of a sum, by the rules before opset 13. The bias broadcasts as in the Add that was fused.
void lower_bias_softmax(Lowering& lo) {
  lo.ignore_attr("is_inner_broadcast");  // follows from the shapes
  constexpr int64_t kFlattens = 12;
  lo.output(0, softmax_of(lo, lo.b.add(lo.input(0), lo.input(1)), kFlattens, 1));
}

}  // namespace lowtide::layout
