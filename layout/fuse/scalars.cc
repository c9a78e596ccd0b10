// SPDX-License-Identifier: Apache-2.0
#include "layout/fuse/scalars.h"

#include <cmath>

#include "layout/core/builtin.h"
#include "stream/recipe/halves.h"

namespace lowtide::layout {
namespace {

constexpr double kSame = 1e-4;  // exporters write roots and fitted constants with few digits

std::optional<double> scalar(Rewriter& rewriter, ValueId id) {
  if (id == core::kAbsent || !rewriter.value(id).is_constant() || rewriter.value(id).constant->elements() != 1)
    return std::nullopt;
  auto numbers = rewriter.graph.numbers(id);
  return numbers ? std::optional((*numbers)[0]) : std::nullopt;
}

template <typename Half>
bool holds(double number) {
  const auto as_float = static_cast<float>(number);
  return stream::computed(stream::stored<Half>(as_float)) == as_float;
}

// Whether a model with halves stores the wanted number as this one. A model in f32 says what it means with more digits:
// its numbers are not taken for others.
bool is_rounded_to_a_half(const core::Graph& graph, double number, double wanted) {
  constexpr double kHalfOfF16 = 0x1p-11, kHalfOfBF16 = 0x1p-8;  // of the last bit, by the smallest number
  const auto is_near = [&](double last) { return std::abs(number - wanted) <= (kSame + last) * std::abs(wanted); };
  return (graph.halves->contains(core::DType::kFloat16) && is_near(kHalfOfF16) && holds<stream::Half>(number)) ||
         (graph.halves->contains(core::DType::kBFloat16) && is_near(kHalfOfBF16) && holds<stream::BFloat16>(number));
}

}  // namespace

bool is_scalar(Rewriter& rewriter, ValueId id, double wanted) {
  const auto number = scalar(rewriter, id);
  if (!number) return false;
  if (wanted * 2 == std::round(wanted * 2)) return *number == wanted;
  return std::abs(*number - wanted) <= kSame * std::abs(wanted) ||
         is_rounded_to_a_half(rewriter.graph, *number, wanted);
}

const Op* plain_producer(Rewriter& rewriter, ValueId id) {
  const OpId producer = rewriter.producer(id);
  if (producer < 0) return nullptr;
  const Op& op = rewriter.op(producer);
  return core::fused_activation(op) != core::Activation::kNone ? nullptr : &op;
}

std::optional<ValueId> other_input(Rewriter& rewriter, OpId id, ValueId one) {
  const Op& op = rewriter.op(id);
  if (op.inputs.size() != 2) return std::nullopt;
  if (core::fused_activation(op) != core::Activation::kNone) return std::nullopt;
  if (op.inputs[0] == one) return op.inputs[1];
  if (op.inputs[1] == one) return op.inputs[0];
  return std::nullopt;
}

OpId sole_user(Rewriter& rewriter, ValueId id, Kind kind) {
  if (rewriter.uses(id) != 1 || rewriter.users(id).size() != 1) return -1;
  const OpId user = rewriter.users(id)[0];
  return rewriter.op(user).kind == kind ? user : -1;
}

std::optional<ValueId> scaled(Rewriter& rewriter, ValueId id, double factor) {
  const Op* op = plain_producer(rewriter, id);
  if (!op) return std::nullopt;
  if (op->kind == Kind::kMul)
    for (size_t side : {size_t{0}, size_t{1}})
      if (is_scalar(rewriter, op->inputs[side], factor)) return op->inputs[1 - side];
  if (op->kind == Kind::kDiv && is_scalar(rewriter, op->inputs[1], 1 / factor)) return op->inputs[0];
  return std::nullopt;
}

}  // namespace lowtide::layout
