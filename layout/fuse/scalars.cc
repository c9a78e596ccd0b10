// SPDX-License-Identifier: Apache-2.0
#include "layout/fuse/scalars.h"

#include <cmath>

#include "layout/core/builtin.h"

namespace lowtide::layout {
namespace {

constexpr double kSame = 1e-4;  // exporters write roots and fitted constants with few digits

std::optional<double> scalar(Rewriter& rewriter, ValueId id) {
  if (id == core::kAbsent || !rewriter.value(id).is_constant() || rewriter.value(id).constant->elements() != 1)
    return std::nullopt;
  auto numbers = rewriter.graph.numbers(id);
  return numbers ? std::optional((*numbers)[0]) : std::nullopt;
}

}  // namespace

bool is_scalar(Rewriter& rewriter, ValueId id, double wanted) {
  const double allowed = wanted * 2 == std::round(wanted * 2) ? 0 : kSame * std::abs(wanted);
  auto number = scalar(rewriter, id);
  return number && std::abs(*number - wanted) <= allowed;
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
