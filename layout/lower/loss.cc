// SPDX-License-Identifier: Apache-2.0
// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
//
// ONNX has the classes on axis 1; here they are moved last, and each target selects its class by a GATHER with
// batch_dims. A target equal to ignore_index need not be a valid class, and has weight 0, also in a weighted mean.
#include <fmt/format.h>

#include "layout/lower/attributes.h"
#include "stream/recipe/recipe_step.h"

namespace lowtide::layout {
namespace {

// [N, C, d1, ..., dk] -> [N, d1, ..., dk, C]
Val classes_last(Lowering& lo, Val x) {
  Perm perm{0};
  for (int i = 2; i < lo.rank(x); ++i) perm.push_back(i);
  perm.push_back(1);
  return lo.b.transpose(x, perm);
}

void check_operands(Lowering& lo) {
  const Shape &scores = lo.shape(lo.input(0)), &targets = lo.shape(lo.input(1));
  if (scores.size() < 2 || scores.size() != targets.size() + 1)
    lo.malformed(
        fmt::format("the scores must have rank 2 or more, and one axis more than the targets; the ranks are {} and {}",
                    scores.size(), targets.size()));
  for (size_t i = 0; i < targets.size(); ++i) {
    const Dim have = scores[i == 0 ? 0 : i + 1];
    if (stream::is_static(have) && stream::is_static(targets[i]) && have != targets[i])
      lo.misfit(fmt::format("targets of shape {} do not fit scores of shape {}", stream::to_string(targets),
                            stream::to_string(scores)));
  }
}

// The loss of targets [N, d1, .., dk] under log-probabilities [N, d1, .., dk, C].
Val likelihood_loss(Lowering& lo, Val log_probability, Val target, Val weight) {
  Builder& b = lo.b;
  const std::string reduction = lo.attr_s("reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none")
    lo.malformed("attribute 'reduction' must be 'mean', 'sum' or 'none'; it is '" + reduction + "'");
  const int64_t ignore_index = lo.attr_i("ignore_index", 0);
  // No target of 32 bits equals a number that needs more.
  const bool ignores = lo.has_attr("ignore_index") && stream::recipe::fits(ignore_index, lo.dtype(target));
  const DType dtype = lo.dtype(log_probability);
  const Shape shape = lo.shape(target);

  Val ignored;
  if (ignores) {
    ignored = b.equal(target, Val{b.graph.add_ints({&ignore_index, 1}, lo.dtype(target), {})});
    target = b.select(ignored, b.scalar(0, lo.dtype(target)), target);
  }
  Shape rows = lo.shape(log_probability);
  const Dim classes = rows.back();
  rows.pop_back();
  const Dim count = b.graph.symbols.product(rows);
  const Val one_each = b.reshape(target, {count, 1});
  Val picked = b.gather(b.reshape(log_probability, {count, classes}), one_each, 1, 1);
  Val loss = b.neg(b.reshape(picked, shape));
  Val counts;  // the weight of each target
  if (weight) {
    counts = b.gather(weight, target, 0);
    loss = b.mul(loss, counts);
  }
  // Chosen, not multiplied by 0: the row of an ignored target may hold NaN or an infinity.
  if (ignores) loss = b.select(ignored, b.scalar(0, dtype), loss);
  if (reduction == "none") return loss;
  Val sum = b.sum(loss, axes_from(0, lo.rank(loss)), false);
  if (reduction == "sum") return sum;
  if (ignores) counts = b.select(ignored, b.scalar(0, dtype), counts ? counts : b.scalar(1, dtype));
  if (!counts) return b.mean(loss, axes_from(0, lo.rank(loss)), false);
  return b.div(sum, b.sum(counts, axes_from(0, lo.rank(counts)), false));
}

}  // namespace

void lower_negative_log_likelihood_loss(Lowering& lo) {
  check_operands(lo);
  lo.output(0, likelihood_loss(lo, classes_last(lo, lo.input(0)), lo.input(1), lo.optional_input(2)));
}

void lower_softmax_cross_entropy_loss(Lowering& lo) {
  check_operands(lo);
  Val log_probability = lo.b.log_softmax(classes_last(lo, lo.input(0)));
  lo.output(0, likelihood_loss(lo, log_probability, lo.input(1), lo.optional_input(2)));
  if (!lo.wants_output(1)) return;
  Perm back{0, lo.rank(log_probability) - 1};
  for (int i = 1; i + 1 < lo.rank(log_probability); ++i) back.push_back(i);
  lo.output(1, lo.b.transpose(log_probability, back));
}

}  // namespace lowtide::layout
