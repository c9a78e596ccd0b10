// SPDX-License-Identifier: Apache-2.0
// RSQRT in the place of a division by a SQRT:
//
//     1 / SQRT(mean of squares + epsilon)  =  RSQRT(...)        the deviation in a root-mean-square normalisation
//
// The trap: XNNPACK's RSQRT of 0 and of numbers below 1e-37 is NaN, so the root must be of a number that is above.
#include <algorithm>
#include <array>

#include "layout/fuse/rules.h"
#include "layout/fuse/scalars.h"

namespace lowtide::layout {
namespace {

constexpr double kLeast = 1e-30;
constexpr int kMaxDepth = 8;

bool are_at_least(Rewriter& rewriter, ValueId id, double least) {
  const auto numbers = rewriter.graph.numbers(id);
  return numbers && !rewriter.value(id).quantization && !numbers->empty() &&
         std::all_of(numbers->begin(), numbers->end(), [&](double x) { return x >= least; });
}

// Whether no element can be below 0.
bool is_not_negative(Rewriter& rewriter, ValueId id, int depth = 0) {
  if (depth == kMaxDepth) return false;
  if (rewriter.value(id).is_constant()) return are_at_least(rewriter, id, 0);
  const OpId producer = rewriter.producer(id);
  if (producer < 0) return false;
  const Op& op = rewriter.op(producer);
  switch (op.kind) {
    case Kind::kSquare:
    case Kind::kAbs:
    case Kind::kExp:
    case Kind::kLogistic:
    case Kind::kRelu:
    case Kind::kSoftmax:
      return true;
    case Kind::kMul:
      return op.inputs[0] == op.inputs[1] ||
             (is_not_negative(rewriter, op.inputs[0], depth + 1) && is_not_negative(rewriter, op.inputs[1], depth + 1));
    case Kind::kAdd:
      return is_not_negative(rewriter, op.inputs[0], depth + 1) && is_not_negative(rewriter, op.inputs[1], depth + 1);
    case Kind::kMean:
    case Kind::kSum:
    case Kind::kReduceMax:
    case Kind::kReshape:
    case Kind::kTranspose:
      return is_not_negative(rewriter, op.inputs[0], depth + 1);
    default:
      return false;
  }
}

bool is_safe(Rewriter& rewriter, ValueId id) {
  const Op* sum = plain_producer(rewriter, id);
  if (!sum || sum->kind != Kind::kAdd) return false;
  for (size_t side : {size_t{0}, size_t{1}})
    if (are_at_least(rewriter, sum->inputs[side], kLeast) && is_not_negative(rewriter, sum->inputs[1 - side]))
      return true;
  return false;
}

bool divide_by_root(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  const core::Value result = rewriter.value(op.outputs[0]);  // a copy: new values move the others
  const OpId root = rewriter.sole_producer(op.inputs[1], Kind::kSqrt);
  if (root < 0 || result.dtype != core::DType::kFloat32 || result.quantization) return false;
  const ValueId x = rewriter.op(root).inputs[0];
  if (!is_safe(rewriter, x)) return false;
  rewriter.b.origin = op.origin;
  const Val factor = rewriter.b.rsqrt(Val{x});
  const bool is_one = is_scalar(rewriter, op.inputs[0], 1) && result.shape == rewriter.value(x).shape &&
                      std::get<core::BinaryOptions>(op.options).activation == core::Activation::kNone;
  const Val made = is_one ? factor : rewriter.b.op(Kind::kMul, {Val{op.inputs[0]}, factor}, op.options);
  rewriter.note_new_ops();
  rewriter.replace(op.outputs[0], made.id);
  return true;
}

constexpr std::array kReciprocalRootRules = {FuseRule{Kind::kDiv, divide_by_root}};

}  // namespace

std::span<const FuseRule> reciprocal_root_rules() { return kReciprocalRootRules; }

}  // namespace lowtide::layout
