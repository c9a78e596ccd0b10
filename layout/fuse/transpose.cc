// SPDX-License-Identifier: Apache-2.0
// Moves a TRANSPOSE behind ops that commute with it, so that a convolution and the ops to be fused into it become
// neighbours; settle_layouts decides where it finally is. Merges a TRANSPOSE of a TRANSPOSE.
#include <algorithm>
#include <array>

#include "layout/core/builtin.h"
#include "layout/core/orders.h"
#include "layout/fuse/flatten.h"
#include "layout/fuse/rules.h"

namespace lowtide::layout {
namespace {

using core::Perm;

std::optional<Perm> perm_of(Rewriter& rewriter, OpId id) {
  if (id < 0 || rewriter.op(id).kind != Kind::kTranspose) return std::nullopt;
  auto perm = rewriter.graph.ints(rewriter.op(id).inputs[1]);
  if (!perm) return std::nullopt;
  return Perm(perm->begin(), perm->end());
}

// op(TRANSPOSE(x), constants) becomes TRANSPOSE(op(x, permuted constants)).
bool sink(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  std::optional<size_t> data;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (rewriter.is_foldable(op.inputs[i])) continue;
    if (data) return false;
    data = i;
  }
  if (!data) return false;
  const OpId producer = rewriter.sole_producer(op.inputs[*data], Kind::kTranspose);
  auto perm = perm_of(rewriter, producer);
  if (!perm) return false;
  // Input `data` is used as it is before the transpose. Not behind ops that make the data larger (a broadcast, a wider
  // type), where it would cost more, but for one that ends in the weights of a layer.
  const bool costs_more =
      transpose_cost(rewriter.graph, op.outputs[0], *perm) > transpose_cost(rewriter.graph, op.inputs[*data], *perm);
  if (costs_more && !is_flattened_below(rewriter, op.outputs[0], *perm)) return false;
  core::OpView view{rewriter.graph, op.kind, op.inputs, op.options, 1};
  auto movement = core::builtin(op.kind).commute(view, op.outputs, {false, *data}, stream::inverse(*perm));
  if (!movement) return false;
  const ValueId source = rewriter.op(producer).inputs[0];
  const core::Value old = rewriter.value(op.outputs[0]);
  std::vector<Val> inputs;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    Val in{i == *data ? source : op.inputs[i]};
    if (i != *data && !movement->inputs[i].empty()) {
      in = rewriter.b.lift(in, static_cast<int>(movement->inputs[i].size()));
      in = {permuted_value(rewriter.graph, in.id, movement->inputs[i], true, op.origin, id)};
    }
    inputs.push_back(in);
  }
  rewriter.b.origin = op.origin;
  Val moved = rewriter.b.op(op.kind, inputs, op.options);
  Val back = rewriter.b.transpose(moved, *perm);
  rewriter.graph.at(back.id).quantization = old.quantization;
  rewriter.graph.at(moved.id).quantization = old.quantization;
  if (core::Quantization* quantized = old.quantization ? &*rewriter.graph.at(moved.id).quantization : nullptr;
      quantized && quantized->scale.size() > 1)
    quantized->axis = core::moved_axis(quantized->axis, stream::inverse(*perm));
  rewriter.note_new_ops();
  rewriter.replace(op.outputs[0], back.id);
  return true;
}

bool merge_transposes(Rewriter& rewriter, OpId id) {
  auto outer = perm_of(rewriter, id), inner = perm_of(rewriter, rewriter.producer(rewriter.op(id).inputs[0]));
  if (!outer || !inner) return false;
  const Op op = rewriter.op(id);
  const ValueId source = rewriter.op(rewriter.producer(op.inputs[0])).inputs[0];
  rewriter.b.origin = op.origin;
  Val made = rewriter.b.transpose({source}, stream::compose(*inner, *outer));
  rewriter.note_new_ops();
  rewriter.replace(op.outputs[0], made.id);
  return true;
}

constexpr std::array kFollowers = {
    Kind::kAdd,       Kind::kSub,   Kind::kMul,      Kind::kDiv,        Kind::kMaximum,   Kind::kMinimum,
    Kind::kPow,       Kind::kRelu,  Kind::kRelu6,    Kind::kReluN1To1,  Kind::kRelu0To1,  Kind::kElu,
    Kind::kLeakyRelu, Kind::kPrelu, Kind::kLogistic, Kind::kTanh,       Kind::kHardSwish, Kind::kGelu,
    Kind::kAbs,       Kind::kNeg,   Kind::kExp,      Kind::kLog,        Kind::kSqrt,      Kind::kRsqrt,
    Kind::kSquare,    Kind::kCast,  Kind::kQuantize, Kind::kDequantize,
};

constexpr auto rules() {
  std::array<FuseRule, kFollowers.size() + 1> rows{};
  for (size_t i = 0; i < kFollowers.size(); ++i) rows[i] = {kFollowers[i], sink};
  rows.back() = {Kind::kTranspose, merge_transposes};
  return rows;
}
constexpr auto kTransposeRules = rules();

}  // namespace

std::span<const FuseRule> transpose_rules() { return kTransposeRules; }

}  // namespace lowtide::layout
