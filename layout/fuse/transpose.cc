// TRANSPOSE steps behind the ops that can follow it, so that a convolution and what is fused into it become neighbours;
// where it ends up is settle_layouts' decision, not made here. TRANSPOSE of TRANSPOSE becomes one; one that swaps the
// last two axes before a BATCH_MATMUL becomes its adj flag.
#include <algorithm>
#include <array>

#include "layout/fuse/rules.h"
#include "layout/settle/orders.h"
#include "layout/traits.h"

namespace lowtide::layout {
namespace {

using core::Perm;

std::optional<Perm> perm_of(Rewriter& rewriter, OpId id) {
  if (id < 0 || rewriter.op(id).kind != Kind::kTranspose) return std::nullopt;
  auto perm = rewriter.graph.ints(rewriter.op(id).inputs[1]);
  if (!perm) return std::nullopt;
  return Perm(perm->begin(), perm->end());
}

// What is fused into a weighted op: these are brought next to it.
bool fusible(Kind kind) {
  switch (kind) {
    case Kind::kAdd:
    case Kind::kSub:
    case Kind::kMul:
    case Kind::kDiv:
    case Kind::kRelu:
    case Kind::kRelu6:
    case Kind::kReluN1To1:
      return true;
    default:
      return false;
  }
}

// op(TRANSPOSE(x), constants) becomes TRANSPOSE(op(x, permuted constants)).
bool sink(Rewriter& rewriter, OpId id) {
  if (!fusible(rewriter.op(id).kind)) return false;
  const Op op = rewriter.op(id);
  std::optional<size_t> data;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (rewriter.is_constant(op.inputs[i])) continue;
    if (data) return false;
    data = i;
  }
  if (!data) return false;
  const OpId maker = rewriter.sole_producer(op.inputs[*data], Kind::kTranspose);
  auto perm = perm_of(rewriter, maker);
  if (!perm) return false;
  // Input `data` is to be taken as it was before the transpose.
  core::OpView view{rewriter.graph, op.kind, op.inputs, op.options, 1};
  auto movement = core::traits(op.kind).commute(view, op.outputs, {false, *data}, stream::inverse(*perm));
  if (!movement) return false;
  const ValueId source = rewriter.op(maker).inputs[0];
  const core::Value old = rewriter.value(op.outputs[0]);
  std::vector<Val> inputs;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    Val in{i == *data ? source : op.inputs[i]};
    if (i != *data && !movement->inputs[i].empty()) {
      in = rewriter.b.lift(in, static_cast<int>(movement->inputs[i].size()));
      in = {permuted_value(rewriter.graph, in.id, movement->inputs[i], true, op.origin)};
    }
    inputs.push_back(in);
  }
  rewriter.b.origin = op.origin;
  Val moved = rewriter.b.op(op.kind, inputs, op.options);
  Val back = rewriter.b.transpose(moved, *perm);
  rewriter.graph.at(back.id).quantization = old.quantization;
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

bool swaps_last_two(const Perm& perm) {
  const auto rank = static_cast<int>(perm.size());
  if (rank < 2) return false;
  Perm swapped = stream::identity_perm(rank);
  std::swap(swapped[static_cast<size_t>(rank) - 1], swapped[static_cast<size_t>(rank) - 2]);
  return perm == swapped;
}

bool transpose_into_matmul(Rewriter& rewriter, OpId id) {
  bool changed = false;
  for (size_t side : {size_t{0}, size_t{1}}) {
    const OpId maker = rewriter.producer(rewriter.op(id).inputs[side]);
    auto perm = perm_of(rewriter, maker);
    if (!perm || !swaps_last_two(*perm)) continue;
    auto& options = std::get<core::BatchMatmulOptions>(rewriter.op(id).options);
    bool& flag = side == 0 ? options.adj_x : options.adj_y;
    flag = !flag;
    rewriter.set_input(id, side, rewriter.op(maker).inputs[0]);
    changed = true;
  }
  return changed;
}

constexpr std::array kRules = {
    FuseRule{Kind::kAdd, sink},
    FuseRule{Kind::kSub, sink},
    FuseRule{Kind::kMul, sink},
    FuseRule{Kind::kDiv, sink},
    FuseRule{Kind::kRelu, sink},
    FuseRule{Kind::kRelu6, sink},
    FuseRule{Kind::kReluN1To1, sink},
    FuseRule{Kind::kTranspose, merge_transposes},
    FuseRule{Kind::kBatchMatmul, transpose_into_matmul},
};

}  // namespace

std::span<const FuseRule> transpose_rules() { return kRules; }

}  // namespace lowtide::layout
