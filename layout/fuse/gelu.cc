// SPDX-License-Identifier: Apache-2.0
// Replaces exported forms of Gelu, exact (erf) or approximate (tanh), by GELU.
//
//     x * 0.5 * (1 + erf(x / sqrt 2))                              factors in any order, / sqrt 2 or * 0.7071
//     x * 0.5 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3)))      x^3 as a power or as products
//
// Without the factor 0.5, which onnxsim multiplies into the weights behind, it is two times a GELU.
#include <array>
#include <cmath>

#include "layout/fuse/rules.h"
#include "layout/fuse/scalars.h"

namespace lowtide::layout {
namespace {

// A value that is a GELU of some x, times a number.
struct Multiple {
  ValueId value;
  double factor;
};

// Finds the Gelu x * 0.5 * one_plus, its factors in any order, from `one_plus` = 1 + erf(..).
std::optional<Multiple> product_below(Rewriter& rewriter, ValueId one_plus, ValueId x) {
  const OpId first = sole_user(rewriter, one_plus, Kind::kMul);
  if (first < 0) return std::nullopt;
  auto factor = other_input(rewriter, first, one_plus);
  if (!factor) return std::nullopt;
  const ValueId product = rewriter.op(first).outputs[0];
  if (scaled(rewriter, *factor, 0.5) == x) return Multiple{product, 1};
  if (*factor == x) {
    const OpId half = sole_user(rewriter, product, Kind::kMul) >= 0 ? sole_user(rewriter, product, Kind::kMul)
                                                                    : sole_user(rewriter, product, Kind::kDiv);
    if (half >= 0 && scaled(rewriter, rewriter.op(half).outputs[0], 0.5) == product)
      return Multiple{rewriter.op(half).outputs[0], 1};
    return Multiple{product, 2};
  }
  if (is_scalar(rewriter, *factor, 0.5)) {
    const OpId last = sole_user(rewriter, product, Kind::kMul);
    if (last >= 0 && other_input(rewriter, last, product) == x) return Multiple{rewriter.op(last).outputs[0], 1};
  }
  return std::nullopt;
}

bool replace_by_gelu(Rewriter& rewriter, OpId inner, ValueId x, bool approximate) {
  const ValueId value = rewriter.op(inner).outputs[0];
  const OpId add = sole_user(rewriter, value, Kind::kAdd);
  if (add < 0) return false;
  auto one = other_input(rewriter, add, value);
  if (!one || !is_scalar(rewriter, *one, 1)) return false;
  const auto result = product_below(rewriter, rewriter.op(add).outputs[0], x);
  if (!result || rewriter.value(result->value).shape != rewriter.value(x).shape) return false;
  rewriter.b.origin = rewriter.op(inner).origin;
  Val made = rewriter.b.gelu({x}, approximate);
  if (result->factor != 1) made = rewriter.b.mul(made, result->factor);
  rewriter.note_new_ops();
  rewriter.replace(result->value, made.id);
  return true;
}

bool exact_gelu(Rewriter& rewriter, OpId id) {
  auto x = scaled(rewriter, rewriter.op(id).inputs[0], std::sqrt(0.5));
  return x && replace_by_gelu(rewriter, id, *x, false);
}

bool is_cube(Rewriter& rewriter, ValueId id, ValueId x) {
  const Op* op = plain_producer(rewriter, id);
  if (!op) return false;
  if (op->kind == Kind::kPow) return op->inputs[0] == x && is_scalar(rewriter, op->inputs[1], 3);
  if (op->kind != Kind::kMul) return false;
  auto square = other_input(rewriter, rewriter.producer(id), x);
  const Op* inner = square ? plain_producer(rewriter, *square) : nullptr;
  if (!inner) return false;
  switch (inner->kind) {  // first: an op of another kind may have no inputs
    case Kind::kSquare:
      return inner->inputs[0] == x;
    case Kind::kMul:
      return inner->inputs[0] == x && inner->inputs[1] == x;
    case Kind::kPow:
      return inner->inputs[0] == x && is_scalar(rewriter, inner->inputs[1], 2);
    default:
      return false;
  }
}

bool tanh_gelu(Rewriter& rewriter, OpId id) {
  auto sum = scaled(rewriter, rewriter.op(id).inputs[0], std::sqrt(2 / M_PI));
  const Op* add = sum ? plain_producer(rewriter, *sum) : nullptr;
  if (!add || add->kind != Kind::kAdd) return false;
  for (size_t side : {size_t{0}, size_t{1}}) {
    const ValueId x = add->inputs[side];
    auto cube = scaled(rewriter, add->inputs[1 - side], 0.044715);
    if (cube && is_cube(rewriter, *cube, x)) return replace_by_gelu(rewriter, id, x, true);
  }
  return false;
}

constexpr std::array kGeluRules = {FuseRule{core::Kind::kErf, exact_gelu}, FuseRule{Kind::kTanh, tanh_gelu}};

}  // namespace

std::span<const FuseRule> gelu_rules() { return kGeluRules; }

}  // namespace lowtide::layout
