// SPDX-License-Identifier: Apache-2.0
// PyTorch guards attention against queries that may look at no key, whose softmax is NaN:
//
//     p = SOFTMAX(scores + mask), SELECT_V2(NOT_EQUAL(p, p), 0, p)  =  p
//
// The guard goes where the mask is a constant in which each query has a key, or where there is none. (Scores that
// overflow give NaN in place of the guard's number then.)
#include <algorithm>
#include <array>
#include <cmath>

#include "layout/fuse/magnitudes.h"
#include "layout/fuse/rules.h"
#include "layout/fuse/scalars.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::layout {
namespace {

// Larger ones could make infinities of ordinary numbers. No network has them.
constexpr double kLargestScale = 0x1p16, kLargestWeight = 0x1p48;

bool is_ordinary_constant(Rewriter& rewriter, ValueId constant) {
  const auto sizes = magnitudes_of(rewriter, constant);
  return sizes && sizes->most <= kLargestWeight;
}

// What is moved and scaled by single numbers to make this value; kAbsent where such a number makes infinities or NaN.
ValueId before_scales(Rewriter& rewriter, ValueId id) {
  for (OpId producer = rewriter.producer(id); producer >= 0; producer = rewriter.producer(id)) {
    const Op& op = rewriter.op(producer);
    const bool scales = (op.kind == Kind::kMul || op.kind == Kind::kDiv) && rewriter.is_foldable(op.inputs[1]) &&
                        rewriter.value(op.inputs[1]).constant->elements() == 1;
    if (!scales && op.kind != Kind::kReshape && op.kind != Kind::kTranspose) break;
    if (scales) {
      const auto size = magnitudes_of(rewriter, op.inputs[1]);
      const bool is_ordinary =
          size && (op.kind == Kind::kDiv ? size->least >= 1 / kLargestScale && std::isfinite(size->most)
                                         : size->most <= kLargestScale);
      if (!is_ordinary) return core::kAbsent;
    }
    id = op.inputs[0];
  }
  return id;
}

// A product of matrices, maybe scaled: finite where what is computed at run time is.
bool is_product(Rewriter& rewriter, ValueId id) {
  const OpId producer = rewriter.producer(before_scales(rewriter, id));
  if (producer < 0) return false;
  const Op& op = rewriter.op(producer);
  if (op.kind != Kind::kBatchMatmul && op.kind != Kind::kFullyConnected) return false;
  return std::all_of(op.inputs.begin(), op.inputs.end(), [&](ValueId in) {
    if (in == core::kAbsent) return true;
    const ValueId from = before_scales(rewriter, in);
    return from != core::kAbsent && (!rewriter.value(from).is_constant() || is_ordinary_constant(rewriter, from));
  });
}

// Whether each row of a constant that is added to `scores` has a number above minus infinity, and none is NaN.
bool each_row_has_an_entry(Rewriter& rewriter, ValueId mask) {
  const core::Value& value = rewriter.value(mask);
  if (value.dtype != core::DType::kFloat32 || value.rank() == 0 || value.quantization) return false;
  const stream::RecipeRef largest = stream::recipe::reduce(stream::Reduction::kMax, value.constant, {value.rank() - 1});
  if (!stream::is_small(*largest)) return false;
  const std::vector<double> rows = stream::evaluate_doubles(largest, rewriter.graph.budget);
  return std::all_of(rows.begin(), rows.end(), [](double x) { return std::isfinite(x); });
}

bool drop_guard(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  const ValueId softmax = op.inputs[2];
  const OpId test = rewriter.producer(op.inputs[0]), made = rewriter.producer(softmax);
  if (test < 0 || made < 0 || rewriter.op(test).kind != Kind::kNotEqual || rewriter.op(made).kind != Kind::kSoftmax)
    return false;
  if (rewriter.op(test).inputs[0] != softmax || rewriter.op(test).inputs[1] != softmax) return false;
  if (rewriter.value(op.outputs[0]).shape != rewriter.value(softmax).shape) return false;
  const ValueId scores = rewriter.op(made).inputs[0];
  bool is_finite = is_product(rewriter, scores);
  const Op* sum = is_finite ? nullptr : plain_producer(rewriter, scores);
  if (sum && sum->kind == Kind::kAdd)
    for (size_t side : {size_t{0}, size_t{1}})
      is_finite =
          is_finite || (rewriter.is_foldable(sum->inputs[side]) && is_product(rewriter, sum->inputs[1 - side]) &&
                        each_row_has_an_entry(rewriter, sum->inputs[side]));
  if (!is_finite) return false;
  rewriter.replace(op.outputs[0], softmax);
  return true;
}

constexpr std::array kNanGuardRules = {FuseRule{Kind::kSelectV2, drop_guard}};

}  // namespace

std::span<const FuseRule> nan_guard_rules() { return kNanGuardRules; }

}  // namespace lowtide::layout
