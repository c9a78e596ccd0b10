// SPDX-License-Identifier: Apache-2.0
// Replaces a PReLU that is written out by PRELU, or LEAKY_RELU where one slope is for all. It is a sum of the positive
// part and a multiple of the negative one:
//
//     relu(x) - a * relu(-x)              Keras, where a is negated before: relu(x) + (-a) * relu(-x)
//     max(x, 0) + a * min(x, 0)
//     relu(x) + a * (x - |x|) * 0.5
//     (1 + a) / 2 * x + (1 - a) / 2 * |x|
#include <algorithm>
#include <array>
#include <cmath>

#include "layout/core/builtin.h"
#include "layout/fuse/rules.h"
#include "layout/fuse/scalars.h"

namespace lowtide::layout {
namespace {

using core::Activation;

constexpr int kMostFactors = 4;
constexpr int kKernelRank = 4;  // PRELU broadcasts no more

// A product of constants, and of a number.
struct Factors {
  double number = 1;
  std::vector<ValueId> constants;
};

// x of a * x, with a added to the factors; `id` itself where it is no such product.
ValueId without_factors(Rewriter& rewriter, ValueId id, Factors& factors) {
  for (int left = kMostFactors; left > 0; --left) {
    const Op* op = plain_producer(rewriter, id);
    if (op && op->kind == Kind::kNeg) {
      factors.number = -factors.number;
      id = op->inputs[0];
      continue;
    }
    if (!op || op->kind != Kind::kMul) return id;
    const size_t side = rewriter.is_foldable(op->inputs[0]) ? 0 : 1;
    if (!rewriter.is_foldable(op->inputs[side])) return id;
    factors.constants.push_back(op->inputs[side]);
    id = op->inputs[1 - side];
  }
  return id;
}

// max(x, 0) of some x; kAbsent where the value is something else.
ValueId positive_part(Rewriter& rewriter, ValueId id) {
  const Op* op = plain_producer(rewriter, id);
  if (!op) return core::kAbsent;
  if (op->kind == Kind::kRelu) return op->inputs[0];
  if (op->kind != Kind::kMaximum) return core::kAbsent;
  if (is_scalar(rewriter, op->inputs[1], 0)) return op->inputs[0];
  return is_scalar(rewriter, op->inputs[0], 0) ? op->inputs[1] : core::kAbsent;
}

bool is_negated(Rewriter& rewriter, ValueId id, ValueId x) {
  const Op* op = plain_producer(rewriter, id);
  return op && ((op->kind == Kind::kNeg && op->inputs[0] == x) || scaled(rewriter, id, -1) == x);
}

bool is_absolute(Rewriter& rewriter, ValueId id, ValueId x) {
  const Op* op = plain_producer(rewriter, id);
  return op && op->kind == Kind::kAbs && op->inputs[0] == x;
}

// The factor f where the value is f * min(x, 0).
std::optional<double> negative_part(Rewriter& rewriter, ValueId id, ValueId x) {
  const OpId producer = rewriter.producer(id);
  if (producer < 0) return std::nullopt;
  const Op& op = rewriter.op(producer);
  // RELU may be fused into a MUL by -1.
  if (op.kind == Kind::kMul && core::fused_activation(op) == Activation::kRelu)
    for (size_t side : {size_t{0}, size_t{1}})
      if (op.inputs[side] == x && is_scalar(rewriter, op.inputs[1 - side], -1)) return -1;
  if (core::fused_activation(op) != Activation::kNone) return std::nullopt;
  if (op.kind == Kind::kRelu && is_negated(rewriter, op.inputs[0], x)) return -1;
  if (op.kind == Kind::kMinimum)
    for (size_t side : {size_t{0}, size_t{1}})
      if (op.inputs[side] == x && is_scalar(rewriter, op.inputs[1 - side], 0)) return 1;
  if (op.kind == Kind::kSub && op.inputs[0] == x && is_absolute(rewriter, op.inputs[1], x)) return 2;
  return std::nullopt;
}

// Whether the slopes repeat along x, and do not make the result larger.
bool repeats_along(const core::Shape& slope, const core::Shape& x) {
  if (slope.size() > x.size()) return false;
  const size_t lead = x.size() - slope.size();
  for (size_t i = 0; i < slope.size(); ++i)
    if (slope[i] != 1 && slope[i] != x[lead + i]) return false;
  return true;
}

bool make_prelu(Rewriter& rewriter, OpId id, ValueId x, const Factors& factors) {
  const ValueId out = rewriter.op(id).outputs[0];
  const core::Value in = rewriter.value(x);
  if (in.dtype != core::DType::kFloat32 || in.quantization || rewriter.value(out).quantization ||
      rewriter.value(out).shape != in.shape || in.is_constant())
    return false;
  bool is_one = true;
  for (const ValueId constant : factors.constants) {
    is_one = is_one && rewriter.value(constant).constant->elements() == 1;
    if (!repeats_along(rewriter.value(constant).shape, in.shape)) return false;
  }
  if (!is_one && in.rank() > kKernelRank) return false;
  rewriter.b.origin = rewriter.op(id).origin;
  Val slope;
  if (factors.number != 1 || factors.constants.empty()) slope = rewriter.b.scalar_like(factors.number, {x});
  for (const ValueId constant : factors.constants) slope = slope ? rewriter.b.mul({constant}, slope) : Val{constant};
  const auto only = is_one ? rewriter.graph.numbers(slope.id) : std::nullopt;
  const Val made = only ? rewriter.b.leaky_relu({x}, static_cast<float>((*only)[0])) : rewriter.b.prelu({x}, slope);
  rewriter.note_new_ops();
  rewriter.replace(out, made.id);
  return true;
}

bool sum_of_parts(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  if (core::fused_activation(op) != Activation::kNone) return false;
  for (size_t side : {size_t{0}, size_t{1}}) {
    if (side == 1 && op.kind == Kind::kSub) break;
    const ValueId x = positive_part(rewriter, op.inputs[side]);
    if (x == core::kAbsent) continue;
    Factors factors{.number = op.kind == Kind::kSub ? -1.0 : 1.0, .constants = {}};
    const ValueId part = without_factors(rewriter, op.inputs[1 - side], factors);
    const auto factor = negative_part(rewriter, part, x);
    if (!factor) continue;
    factors.number *= *factor;
    return make_prelu(rewriter, id, x, factors);
  }
  return false;
}

std::optional<double> only_number(Rewriter& rewriter, const Factors& factors) {
  double product = factors.number;
  for (const ValueId constant : factors.constants) {
    const auto numbers = rewriter.graph.numbers(constant);
    if (!numbers || numbers->size() != 1) return std::nullopt;
    product *= (*numbers)[0];
  }
  return product;
}

// p x + q |x| with p + q = 1: x where it is positive, (p - q) x elsewhere.
bool sum_with_absolute(Rewriter& rewriter, OpId id) {
  constexpr double kRounded = 0x1p-23;
  const Op op = rewriter.op(id);
  if (core::fused_activation(op) != Activation::kNone) return false;
  for (size_t side : {size_t{0}, size_t{1}}) {
    Factors of_x, of_absolute;
    const ValueId x = without_factors(rewriter, op.inputs[side], of_x);
    if (!is_absolute(rewriter, without_factors(rewriter, op.inputs[1 - side], of_absolute), x)) continue;
    const auto p = only_number(rewriter, of_x), q = only_number(rewriter, of_absolute);
    if (!p || !q || std::abs(*p + *q - 1) > kRounded || std::abs(*p) > 1 || std::abs(*q) > 1) return false;
    return make_prelu(rewriter, id, x, {.number = *p - *q, .constants = {}});
  }
  return false;
}

constexpr std::array kPreluRules = {FuseRule{Kind::kAdd, sum_of_parts}, FuseRule{Kind::kSub, sum_of_parts},
                                    FuseRule{Kind::kAdd, sum_with_absolute}};

}  // namespace

std::span<const FuseRule> prelu_rules() { return kPreluRules; }

}  // namespace lowtide::layout
