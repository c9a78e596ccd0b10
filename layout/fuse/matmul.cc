// SPDX-License-Identifier: Apache-2.0
// A TRANSPOSE of an operand of BATCH_MATMUL becomes a flag of the kernel.
#include <array>

#include "layout/fuse/rules.h"

namespace lowtide::layout {
namespace {

using core::Perm;

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

constexpr std::array kMatmulRules = {FuseRule{Kind::kBatchMatmul, transpose_into_matmul}};

}  // namespace

std::span<const FuseRule> matmul_rules() { return kMatmulRules; }

}  // namespace lowtide::layout
