// SPDX-License-Identifier: Apache-2.0
// Fuses a PAD into the op after it: into another PAD, or into SAME padding where that pads equally.
//
// The trap: SAME puts the odd element last and depends on the input's size, so the amounts are computed and compared; a
// pool with SAME ignores padded elements, so only a padding by minus infinity can be fused into MAX_POOL_2D, and none
// into AVERAGE_POOL_2D.
#include <algorithm>
#include <array>
#include <limits>

#include "layout/fuse/rules.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::layout {
namespace {

using core::Padding;

struct Pads {
  std::vector<int64_t> table;  // before, after for each axis
  double value = 0;
  std::vector<std::byte> lane;  // the value's bits, of which `value` has 53; empty where all are 0
};

std::optional<Pads> pads_of(Rewriter& rewriter, OpId id) {
  const Op& op = rewriter.op(id);
  auto table = rewriter.graph.ints(op.inputs[1]);
  if (!table || std::any_of(table->begin(), table->end(), [](int64_t p) { return p < 0; })) return std::nullopt;
  Pads pads{*table};
  if (op.kind == Kind::kPadv2) {
    auto value = rewriter.graph.numbers(op.inputs[2]);
    if (!value || value->size() != 1) return std::nullopt;
    pads.value = (*value)[0];
    pads.lane = stream::evaluate(rewriter.value(op.inputs[2]).constant, rewriter.graph.budget);
    if (std::all_of(pads.lane.begin(), pads.lane.end(), [](std::byte bits) { return bits == std::byte{0}; }))
      pads.lane.clear();
  }
  return pads;
}

OpId sole_pad(const Rewriter& rewriter, ValueId value) {
  OpId producer = rewriter.sole_producer(value, Kind::kPad);
  return producer >= 0 ? producer : rewriter.sole_producer(value, Kind::kPadv2);
}

bool merge_pads(Rewriter& rewriter, OpId id) {
  const OpId before = sole_pad(rewriter, rewriter.op(id).inputs[0]);
  if (before < 0 || rewriter.value(rewriter.op(before).outputs[0]).quantization) return false;
  auto outer = pads_of(rewriter, id), inner = pads_of(rewriter, before);
  if (!outer || !inner || outer->table.size() != inner->table.size()) return false;
  if (outer->lane != inner->lane) return false;
  for (size_t i = 0; i < outer->table.size(); ++i) {
    outer->table[i] += inner->table[i];
    if (outer->table[i] > std::numeric_limits<int32_t>::max()) return false;
  }
  const ValueId old = rewriter.op(id).inputs[1];
  const ValueId table = rewriter.graph.add_ints(outer->table, rewriter.value(old).dtype, rewriter.value(old).shape);
  rewriter.note_new_ops();
  rewriter.set_input(id, 1, table);
  rewriter.set_input(id, 0, rewriter.op(before).inputs[0]);
  return true;
}

// The padding of SAME along an axis, as LiteRT computes it.
std::pair<int64_t, int64_t> same_padding(int64_t size, int64_t filter, int64_t stride, int64_t dilation) {
  const int64_t effective_kernel = (filter - 1) * dilation + 1;
  const int64_t windows = (size + stride - 1) / stride;
  const int64_t total = std::max<int64_t>(0, (windows - 1) * stride + effective_kernel - size);
  return {total / 2, total - total / 2};
}

struct Window {
  int64_t filter, stride, dilation;
};

// Whether the pads are exactly those of SAME for H and W of the unpadded image.
bool is_same(const Pads& pads, const core::Shape& image, Window h, Window w) {
  if (image.size() != 4 || pads.table.size() != 8 || !stream::is_static(image[1]) || !stream::is_static(image[2]))
    return false;
  if (pads.table[0] || pads.table[1] || pads.table[6] || pads.table[7]) return false;
  return same_padding(image[1], h.filter, h.stride, h.dilation) == std::pair(pads.table[2], pads.table[3]) &&
         same_padding(image[2], w.filter, w.stride, w.dilation) == std::pair(pads.table[4], pads.table[5]);
}

bool pad_into_conv(Rewriter& rewriter, OpId id) {
  const Op& op = rewriter.op(id);
  auto options = std::get<core::Conv2dOptions>(op.options);
  const OpId before = sole_pad(rewriter, op.inputs[0]);
  if (options.padding != Padding::kValid || before < 0) return false;
  auto pads = pads_of(rewriter, before);
  if (!pads || pads->value != 0) return false;
  const ValueId image = rewriter.op(before).inputs[0];
  const core::Shape& weights = rewriter.value(op.inputs[1]).shape;  // OHWI, or 1HWC
  if (!stream::is_static(weights[1]) || !stream::is_static(weights[2])) return false;
  if (!is_same(*pads, rewriter.value(image).shape, {weights[1], options.stride_h, options.dilation_h},
               {weights[2], options.stride_w, options.dilation_w}))
    return false;
  options.padding = Padding::kSame;
  rewriter.op(id).options = options;
  rewriter.set_input(id, 0, image);
  return true;
}

bool pad_into_max_pool(Rewriter& rewriter, OpId id) {
  const Op& op = rewriter.op(id);
  auto options = std::get<core::PoolOptions>(op.options);
  const OpId before = sole_pad(rewriter, op.inputs[0]);
  if (options.padding != Padding::kValid || before < 0) return false;
  auto pads = pads_of(rewriter, before);
  if (!pads || !(pads->value <= std::numeric_limits<float>::lowest())) return false;  // also for NaN
  const ValueId image = rewriter.op(before).inputs[0];
  if (!is_same(*pads, rewriter.value(image).shape, {options.filter_h, options.stride_h, 1},
               {options.filter_w, options.stride_w, 1}))
    return false;
  options.padding = Padding::kSame;
  rewriter.op(id).options = options;
  rewriter.set_input(id, 0, image);
  return true;
}

constexpr std::array kPadRules = {
    FuseRule{Kind::kPad, merge_pads}, FuseRule{Kind::kPadv2, merge_pads}, FuseRule{Kind::kConv2d, pad_into_conv},
    FuseRule{Kind::kDepthwiseConv2d, pad_into_conv}, FuseRule{Kind::kMaxPool2d, pad_into_max_pool}};

}  // namespace

std::span<const FuseRule> pad_rules() { return kPadRules; }

}  // namespace lowtide::layout
