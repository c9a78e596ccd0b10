// SPDX-License-Identifier: Apache-2.0
// Between a convolution and a fully connected layer ONNX flattens [N,C,H,W], but CONV_2D returns [N,H,W,C]. The order
// of the flattened elements is folded into the weights, as a permutation in their recipe.
#include <array>

#include "layout/fuse/rules.h"

namespace lowtide::layout {
namespace {

using core::Perm;
namespace recipe = stream::recipe;

bool flatten_into_weights(Rewriter& rewriter, OpId id) {
  // Starts at the RESHAPE, so that all layers that share a flatten are rewritten together.
  const Op reshape = rewriter.op(id);
  const core::Shape in = rewriter.value(reshape.inputs[0]).shape, out = rewriter.value(reshape.outputs[0]).shape;
  if (out.size() != 2 || in.size() < 3 || in[0] != out[0]) return false;
  const core::Shape tail(in.begin() + 1, in.end());
  if (!stream::is_static(tail)) return false;
  if (rewriter.uses(reshape.outputs[0]) != static_cast<int>(rewriter.users(reshape.outputs[0]).size())) return false;
  const std::vector<OpId> layers = rewriter.users(reshape.outputs[0]);
  for (OpId layer : layers) {
    const Op& op = rewriter.op(layer);
    if (op.kind != Kind::kFullyConnected || op.inputs[0] != reshape.outputs[0]) return false;
    if (!rewriter.is_foldable(op.inputs[1]) || rewriter.uses(op.inputs[1]) != 1) return false;
    if (rewriter.value(op.inputs[1]).quantization) return false;
  }
  const OpId above = rewriter.producer(reshape.inputs[0]);
  if (above < 0 || rewriter.op(above).kind != Kind::kTranspose) return false;
  auto perm = rewriter.graph.ints(rewriter.op(above).inputs[1]);
  if (!perm || (*perm)[0] != 0) return false;
  // The flattened axis of the weights [N, C*H*W] is split and permuted to the order before the transpose. Axis 0 of the
  // weights (outputs) takes the place of the batch, so the permutation is the same as that of the data.
  const Perm undo = stream::inverse(Perm(perm->begin(), perm->end()));
  for (OpId layer : layers) {
    const core::Value weights = rewriter.value(rewriter.op(layer).inputs[1]);
    core::Shape apart{weights.shape[0]};
    apart.insert(apart.end(), tail.begin(), tail.end());
    auto moved = recipe::reshape(recipe::permute(recipe::reshape(weights.constant, apart), undo), weights.shape);
    const ValueId made = rewriter.graph.add_constant(std::move(moved), weights.name);
    rewriter.note_new_ops();
    rewriter.set_input(layer, 1, made);
  }
  rewriter.set_input(id, 0, rewriter.op(above).inputs[0]);
  return true;
}

// The same with its last two axes exchanged.
Perm with_last_two_swapped(Perm perm) {
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return perm;
}

// A TRANSPOSE that swaps the last two axes becomes the kernel's adj flag; one that does so but for axes of extent 1, of
// a single head for example, a RESHAPE besides.
bool transpose_into_matmul(Rewriter& rewriter, OpId id) {
  bool changed = false;
  for (size_t side : {size_t{0}, size_t{1}}) {
    const OpId producer = rewriter.producer(rewriter.op(id).inputs[side]);
    if (producer < 0 || rewriter.op(producer).kind != Kind::kTranspose) continue;
    auto given = rewriter.graph.ints(rewriter.op(producer).inputs[1]);
    if (!given || given->size() < 2) continue;
    const Perm perm(given->begin(), given->end()), rest = with_last_two_swapped(perm);
    ValueId source = rewriter.op(producer).inputs[0];
    const core::Shape shape = rewriter.value(source).shape;
    if (!stream::is_identity(rest)) {
      if (!stream::moves_no_bytes(shape, rest) || stream::moves_no_bytes(shape, perm)) continue;
      rewriter.b.origin = rewriter.op(id).origin;
      source = rewriter.b.reshape({source}, stream::permuted(shape, rest)).id;
      rewriter.note_new_ops();
    }
    auto& options = std::get<core::BatchMatmulOptions>(rewriter.op(id).options);
    bool& flag = side == 0 ? options.adj_x : options.adj_y;
    flag = !flag;
    rewriter.set_input(id, side, source);
    changed = true;
  }
  return changed;
}

constexpr std::array kMatmulRules = {FuseRule{Kind::kReshape, flatten_into_weights},
                                     FuseRule{Kind::kBatchMatmul, transpose_into_matmul}};

}  // namespace

std::span<const FuseRule> matmul_rules() { return kMatmulRules; }

}  // namespace lowtide::layout
