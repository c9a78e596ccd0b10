// SPDX-License-Identifier: Apache-2.0
// The inverse deviation of a group or instance normalisation and its gamma are multiplied with each other first, as
// both are smaller than what they scale:
//
//     (x * s) * k  =  x * (s * k)        x [1, 64, 64, 128], s [1, 1, 1, 128] computed at run time, k constant
//
// (A constant s is folded by scale.cc.) Other factors stay in their order: coordinates are computed so, which are
// rounded to integers afterwards, and would be rounded otherwise.
#include <algorithm>
#include <array>

#include "layout/fuse/magnitudes.h"
#include "layout/fuse/rules.h"
#include "layout/fuse/scalars.h"

namespace lowtide::layout {
namespace {

// An inverse deviation is at most 2^63 where its square is a normal number: the product stays finite.
constexpr double kMostGamma = 0x1p60;

// Whether two shapes broadcast to `shape` of fewer elements than `whole`: every axis is 1 in both of them or as in
// `whole`, and one that is not 1 in `whole` is 1 in both.
bool is_small_product(const core::Shape& a, const core::Shape& b, const core::Shape& whole) {
  if (a.size() > whole.size() || b.size() > whole.size()) return false;
  bool is_smaller = false;
  for (size_t i = 0; i < whole.size(); ++i) {  // from the last axis on
    auto at = [&](const core::Shape& shape) { return i < shape.size() ? shape[shape.size() - 1 - i] : core::Dim{1}; };
    const core::Dim of = at(whole);
    for (const core::Dim dim : {at(a), at(b)})
      if (dim != 1 && dim != of) return false;
    is_smaller = is_smaller || (of != 1 && at(a) == 1 && at(b) == 1);
  }
  return is_smaller;
}

// By how much an RSQRT is multiplied, maybe repeated for the channels of a group, to make the value; nullopt where it
// is not made so.
std::optional<double> scale_of_inverse_deviation(Rewriter& rewriter, ValueId id) {
  double scale = 1;
  for (OpId producer = rewriter.producer(id); producer >= 0; producer = rewriter.producer(id)) {
    const Op& op = rewriter.op(producer);
    if (op.kind == Kind::kRsqrt) return scale;
    if (op.kind == Kind::kMul) {
      const auto sizes = magnitudes_of(rewriter, op.inputs[1]);
      if (!sizes) return std::nullopt;
      scale *= sizes->most;
    } else if (op.kind != Kind::kReshape && op.kind != Kind::kTranspose) {
      return std::nullopt;
    }
    id = op.inputs[0];
  }
  return std::nullopt;
}

bool join_small_factors(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  const core::Value& result = rewriter.value(op.outputs[0]);
  if (op.inputs.size() != 2 || !stream::is_float(result.dtype) || result.quantization) return false;
  for (size_t side : {size_t{0}, size_t{1}}) {
    const ValueId product = op.inputs[side], constant = op.inputs[1 - side];
    if (!rewriter.is_foldable(constant) || rewriter.uses(product) != 1) continue;
    const Op* inner = plain_producer(rewriter, product);
    if (!inner || inner->kind != Kind::kMul || rewriter.value(product).quantization) continue;
    const core::Shape whole = rewriter.value(product).shape;
    if (rewriter.value(op.outputs[0]).shape != whole) continue;
    for (size_t at : {size_t{0}, size_t{1}}) {
      const ValueId x = inner->inputs[at], small = inner->inputs[1 - at];
      if (rewriter.value(x).shape != whole) continue;
      if (!is_small_product(rewriter.value(small).shape, rewriter.value(constant).shape, whole)) continue;
      const auto scale = scale_of_inverse_deviation(rewriter, small);
      const auto sizes = scale ? magnitudes_of(rewriter, constant) : std::nullopt;  // last: it reads the constant
      if (!sizes || !(std::max(*scale, 1.0) * sizes->most <= kMostGamma)) continue;
      rewriter.b.origin = op.origin;
      const Val factor = rewriter.b.mul(Val{small}, Val{constant});
      const Val joined = rewriter.b.op(Kind::kMul, {Val{x}, factor}, op.options);
      rewriter.note_new_ops();
      rewriter.replace(op.outputs[0], joined.id);
      return true;
    }
  }
  return false;
}

constexpr std::array kSmallFactorRules = {FuseRule{Kind::kMul, join_small_factors}};

}  // namespace

std::span<const FuseRule> small_factor_rules() { return kSmallFactorRules; }

}  // namespace lowtide::layout
