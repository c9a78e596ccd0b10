// SPDX-License-Identifier: Apache-2.0
// QUANTIZE, DEQUANTIZE and BITCAST that follow each other become one or none.
#include <string>
#include <utility>

#include "layout/quantize/conditions.h"
#include "layout/quantize/rules.h"

namespace lowtide::layout {
namespace {

// LiteRT's kernels rescale between these types (tflite/kernels/quantize.cc), as far as the integers have room.
bool is_rescaled(const TensorGrid& from, const TensorGrid& to) {
  if (!has_kernels(from) || !has_kernels(to)) return false;
  const bool from_8 = stream::bits(from.dtype) == 8, to_8 = stream::bits(to.dtype) == 8;
  const bool to_16_or_8 = to.dtype == DType::kInt16 || to.dtype == DType::kInt8;
  if (!(from_8 && to_8) && !(from.dtype == DType::kInt16 && to_16_or_8)) return false;
  std::string reason;
  return sums_have_room(most_steps(from), static_cast<double>(from.scale) / to.scale, false, reason);
}

}  // namespace

bool join_quantize(Rewriter& rewriter, OpId id) {
  const Op& op = rewriter.op(id);
  const ValueId in = op.inputs[0], out = op.outputs[0];
  const auto to = grid_of(rewriter.value(out));
  if (!to) return false;
  rewriter.b.origin = op.origin;
  ValueId root = dequantized(rewriter, in);
  if (root == core::kAbsent && grid_of(rewriter.value(in))) root = before_shifts(rewriter, in);
  if (root != core::kAbsent) {
    const TensorGrid from = *grid_of(rewriter.value(root));
    if (from == *to) {
      rewriter.replace(out, root);
      return true;
    }
    if (root != in) {
      if (!is_shift(from, *to) && !is_rescaled(from, *to)) return false;
      rewriter.replace(out, quantized_to(rewriter, root, *to));
      return true;
    }
    // A shift of what a QUANTIZE has made: that QUANTIZE can make the other type.
    const OpId producer = rewriter.producer(root);
    if (!is_shift(from, *to) || producer < 0 || rewriter.op(producer).kind != Kind::kQuantize) return false;
    const ValueId source = rewriter.op(producer).inputs[0];
    if (const auto grid = grid_of(rewriter.value(source)); grid && !is_rescaled(*grid, *to)) return false;
    std::string& name = rewriter.graph.at(out).name;
    if (name.empty() && rewriter.uses(root) == 1) name = std::exchange(rewriter.graph.at(root).name, {});
    rewriter.replace(out, quantized_to(rewriter, source, *to));
    return true;
  }
  return false;
}

bool join_dequantize(Rewriter& rewriter, OpId id) {
  const ValueId in = rewriter.op(id).inputs[0];
  if (!grid_of(rewriter.value(in))) return false;
  const ValueId root = before_shifts(rewriter, in);
  if (root == in) return false;
  rewriter.set_input(id, 0, root);
  return true;
}

bool join_bitcast(Rewriter& rewriter, OpId id) {
  const Op& op = rewriter.op(id);
  const ValueId in = op.inputs[0], out = op.outputs[0];
  if (rewriter.value(in).dtype != rewriter.value(out).dtype) return false;
  const auto grid = grid_of(rewriter.value(in));
  if (grid && grid == grid_of(rewriter.value(out))) {
    rewriter.replace(out, in);
    return true;
  }
  const OpId producer = rewriter.producer(in);
  if (producer < 0 || rewriter.op(producer).kind != Kind::kBitcast) return false;
  const ValueId source = rewriter.op(producer).inputs[0];
  if (rewriter.value(source).dtype != rewriter.value(in).dtype) return false;
  rewriter.set_input(id, 0, source);
  return true;
}

}  // namespace lowtide::layout
