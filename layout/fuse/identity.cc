// SPDX-License-Identifier: Apache-2.0
// Removes ops that give one of their operands back: x * 1, x / 1, x - 0, x + -0, AND with true, OR and XOR with false,
// SELECT by a constant, GATHER of all indices in order. GATHER from integers that are all equal becomes a constant, as
// of BERT's token types, which exporters expand and pick by position.
//
// The trap: x + 0 is not x for -0. It is removed where x is an integer, or cannot be -0.
#include <algorithm>
#include <array>
#include <cmath>

#include "layout/fuse/rules.h"

namespace lowtide::layout {
namespace {

template <typename Test>
bool all_numbers(Rewriter& rewriter, ValueId id, Test test) {
  const auto numbers = rewriter.graph.numbers(id);
  return numbers && !rewriter.value(id).quantization && !numbers->empty() &&
         std::all_of(numbers->begin(), numbers->end(), test);
}

bool are(Rewriter& rewriter, ValueId id, double wanted) {
  return all_numbers(rewriter, id, [&](double number) { return number == wanted; });
}

// Whether a float is never -0.
bool is_never_minus_zero(Rewriter& rewriter, ValueId id) {
  if (!stream::is_float(rewriter.value(id).dtype)) return true;
  const OpId producer = rewriter.producer(id);
  if (producer < 0) return false;
  switch (rewriter.op(producer).kind) {
    case Kind::kAbs:
    case Kind::kExp:
    case Kind::kSquare:
    case Kind::kLogistic:
    case Kind::kSoftmax:
      return true;
    default:
      return false;
  }
}

// Whether op(x, constant) is x; `second`: the constant is the second operand.
bool keeps_other(Rewriter& rewriter, Kind kind, ValueId other, ValueId constant, bool second) {
  switch (kind) {
    case Kind::kMul:
      return are(rewriter, constant, 1);
    case Kind::kDiv:
      return second && are(rewriter, constant, 1);
    case Kind::kSub:
      return second &&
             all_numbers(rewriter, constant, [](double number) { return number == 0 && !std::signbit(number); });
    case Kind::kAdd:
      return all_numbers(rewriter, constant, [](double number) { return number == 0 && std::signbit(number); }) ||
             (are(rewriter, constant, 0) && is_never_minus_zero(rewriter, other));
    case Kind::kLogicalAnd:
      return are(rewriter, constant, 1);
    case Kind::kLogicalOr:
      return are(rewriter, constant, 0);
    case Kind::kNotEqual:
      return rewriter.value(other).dtype == core::DType::kBool && are(rewriter, constant, 0);
    default:
      return false;
  }
}

// Replaces the op by one of its inputs, where that has its type and shape.
bool give_back(Rewriter& rewriter, OpId id, ValueId input) {
  const ValueId output = rewriter.op(id).outputs[0];
  const core::Value &from = rewriter.value(output), &to = rewriter.value(input);
  if (from.dtype != to.dtype || from.shape != to.shape || from.quantization || to.quantization) return false;
  rewriter.replace(output, input, Rewriter::kNoOrigin);
  return true;
}

bool drop_identity(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  if (const auto* options = std::get_if<core::BinaryOptions>(&op.options))
    if (options->activation != core::Activation::kNone) return false;
  for (size_t slot = 0; slot < 2; ++slot)
    if (keeps_other(rewriter, op.kind, op.inputs[1 - slot], op.inputs[slot], slot == 1) &&
        give_back(rewriter, id, op.inputs[1 - slot]))
      return true;
  return false;
}

bool drop_select(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  if (are(rewriter, op.inputs[0], 1)) return give_back(rewriter, id, op.inputs[1]);
  if (are(rewriter, op.inputs[0], 0)) return give_back(rewriter, id, op.inputs[2]);
  return false;
}

bool drop_gather(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  const auto& options = std::get<core::GatherOptions>(op.options);
  if (options.batch_dims != 0 || !rewriter.value(op.inputs[1]).is_constant() ||
      rewriter.value(op.inputs[1]).rank() != 1)
    return false;
  const auto indices = rewriter.graph.ints(op.inputs[1]);
  if (!indices) return false;
  for (size_t i = 0; i < indices->size(); ++i)
    if ((*indices)[i] != static_cast<int64_t>(i)) return false;
  return give_back(rewriter, id, op.inputs[0]);  // of equal shapes: all indices
}

// Whatever the indices are: ONNX gives no result for those outside. Not where the constant would be large: a few
// indices of a small file can ask for any number of elements.
bool gather_equals(Rewriter& rewriter, OpId id) {
  constexpr int64_t kExact = int64_t{1} << 53;  // b.filled takes a double
  const Op op = rewriter.op(id);
  const core::Value &data = rewriter.value(op.inputs[0]), &result = rewriter.value(op.outputs[0]);
  if (data.quantization || result.quantization || !rewriter.value(op.inputs[0]).is_constant()) return false;
  if (!stream::is_static(result.shape) ||
      !stream::has_at_most(std::max(stream::kSmallElements, data.constant->elements()), result.shape))
    return false;
  const auto numbers = rewriter.graph.ints(op.inputs[0]);
  if (!numbers || numbers->empty()) return false;
  const int64_t first = numbers->front();
  const bool is_exact = first >= (stream::is_signed_int(data.dtype) ? -kExact : 0) && first <= kExact;
  if (!is_exact || std::any_of(numbers->begin(), numbers->end(), [&](int64_t number) { return number != first; }))
    return false;
  rewriter.b.origin = op.origin;
  const Val made = rewriter.b.filled(static_cast<double>(first), data.dtype, result.shape);
  rewriter.note_new_ops();
  rewriter.replace(op.outputs[0], made.id, Rewriter::kNoOrigin);
  return true;
}

constexpr std::array kIdentityRules = {
    FuseRule{Kind::kMul, drop_identity},        FuseRule{Kind::kDiv, drop_identity},
    FuseRule{Kind::kSub, drop_identity},        FuseRule{Kind::kAdd, drop_identity},
    FuseRule{Kind::kLogicalAnd, drop_identity}, FuseRule{Kind::kLogicalOr, drop_identity},
    FuseRule{Kind::kNotEqual, drop_identity},   FuseRule{Kind::kSelectV2, drop_select},
    FuseRule{Kind::kGather, drop_gather},       FuseRule{Kind::kGather, gather_equals},
};

}  // namespace

std::span<const FuseRule> identity_rules() { return kIdentityRules; }

}  // namespace lowtide::layout
