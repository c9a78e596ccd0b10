// SPDX-License-Identifier: Apache-2.0
// A TRANSPOSE of more than four axes that cannot be merged becomes several of four: each moves blocks of neighbouring
// axes, which are one axis for it. The delegate: "Tensor dimensions must be less than 5".
//
//     [C,r,s,H,W] -> [C,H,r,W,s]     as [C,r*s,H,W] -> [C,H,r*s,W], then [C*H,r,s,W] -> [C*H,r,W,s]
#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <numeric>

#include "layout/plain/gpu_rules.h"

namespace lowtide::layout {
namespace {

using core::Dim;
using core::Perm;
using core::Shape;

constexpr size_t kBlocks = 4, kMostMovedAxes = 6;  // six axes have 720 orders
constexpr size_t kMostReshapedAxes = 8;            // of RESHAPE

// One TRANSPOSE: the lengths of the blocks, and their order behind it.
struct BlockMove {
  std::vector<size_t> lengths;
  Perm order;
};

Perm moved_by(const Perm& axes, const BlockMove& move) {
  std::vector<size_t> begin(move.lengths.size(), 0);
  std::partial_sum(move.lengths.begin(), move.lengths.end() - 1, begin.begin() + 1);
  Perm out;
  for (int block : move.order)
    for (size_t i = 0; i < move.lengths[static_cast<size_t>(block)]; ++i)
      out.push_back(axes[begin[static_cast<size_t>(block)] + i]);
  return out;
}

// All moves of `count` axes in at most four blocks.
std::vector<BlockMove> block_moves(size_t count) {
  std::vector<BlockMove> out;
  for (unsigned cuts = 1; cuts < 1U << (count - 1); ++cuts) {
    BlockMove move;
    move.lengths.push_back(1);
    for (size_t i = 1; i < count; ++i)
      if ((cuts >> (i - 1) & 1U) != 0)
        move.lengths.push_back(1);
      else
        ++move.lengths.back();
    if (move.lengths.size() > kBlocks) continue;
    move.order.resize(move.lengths.size());
    std::iota(move.order.begin(), move.order.end(), 0);
    while (std::next_permutation(move.order.begin(), move.order.end())) out.push_back(move);
  }
  return out;
}

// The fewest moves to an order of axes, found breadth first.
std::vector<BlockMove> moves_to(const Perm& wanted) {
  Perm start(wanted.size());
  std::iota(start.begin(), start.end(), 0);
  const std::vector<BlockMove> moves = block_moves(wanted.size());
  std::map<Perm, std::pair<Perm, const BlockMove*>> from = {{start, {start, nullptr}}};
  std::deque<Perm> next = {start};
  while (!from.contains(wanted)) {
    const Perm order = next.front();
    next.pop_front();
    for (const BlockMove& move : moves) {
      Perm reached = moved_by(order, move);
      if (from.emplace(reached, std::pair{order, &move}).second) next.push_back(std::move(reached));
    }
  }
  std::vector<BlockMove> out;
  for (Perm at = wanted; from.at(at).second != nullptr; at = from.at(at).first) out.push_back(*from.at(at).second);
  std::reverse(out.begin(), out.end());
  return out;
}

bool transpose_in_steps(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  auto perm = rewriter.graph.ints(op.inputs[1]);
  const Shape full = rewriter.value(op.inputs[0]).shape;
  if (!perm || full.size() <= kBlocks || full.size() > kMostReshapedAxes || rewriter.value(op.outputs[0]).quantization)
    return false;
  std::vector<int> place(full.size(), -1);  // of an axis among those that are longer than 1
  Shape extents;
  for (size_t axis = 0; axis < full.size(); ++axis) {
    if (full[axis] == 1) continue;
    place[axis] = static_cast<int>(extents.size());
    extents.push_back(full[axis]);
  }
  Perm wanted;
  for (int64_t axis : *perm)
    if (place[static_cast<size_t>(axis)] >= 0) wanted.push_back(place[static_cast<size_t>(axis)]);
  const Shape result = rewriter.value(op.outputs[0]).shape;
  if (wanted.size() <= kBlocks || wanted.size() > kMostMovedAxes || !can_reshape_to(full)) return false;
  rewriter.b.origin = op.origin;
  Val x{op.inputs[0]};
  Perm axes(wanted.size());
  std::iota(axes.begin(), axes.end(), 0);
  for (const BlockMove& move : moves_to(wanted)) {
    Shape blocks;
    auto axis = axes.begin();
    for (size_t length : move.lengths) {
      Dim extent = 1;
      for (size_t i = 0; i < length; ++i, ++axis)
        extent = rewriter.graph.symbols.mul(extent, extents[static_cast<size_t>(*axis)]);
      blocks.push_back(extent);
    }
    x = rewriter.b.transpose(rewriter.b.reshape(x, blocks), move.order);
    axes = moved_by(axes, move);
  }
  replace_result(rewriter, op.outputs[0], rewriter.b.reshape(x, result));
  return true;
}

constexpr std::array kGpuTransposeRules = {PlainRule{Kind::kTranspose, transpose_in_steps}};

}  // namespace

std::span<const PlainRule> gpu_transpose_rules() { return kGpuTransposeRules; }

}  // namespace lowtide::layout
