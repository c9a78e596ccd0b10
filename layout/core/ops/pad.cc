// SPDX-License-Identifier: Apache-2.0
// Traits of ops that add a border or trade space for batch: PAD, PADV2, MIRROR_PAD, SPACE_TO_BATCH_ND,
// BATCH_TO_SPACE_ND, DILATE.
//
// The trap: paddings are [rank, 2], one row an axis, where ONNX lists all befores, then all afters.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "layout/core/ops/axes.h"
#include "stream/error.h"
#include "stream/recipe/pour.h"

namespace lowtide::core {
namespace {

namespace recipe = stream::recipe;
using Types = std::vector<TensorType>;
using Recipes = std::vector<RecipeRef>;

void need_table(const OpView& op, size_t input, int rows) {
  const Shape& shape = op.shape(input);
  if (shape.size() != 2 || shape[0] != rows || shape[1] != 2)
    reject(op, fmt::format("the paddings have shape {}, not [{},2]", stream::to_string(shape), rows));
}

// MIRROR_PAD's border may be as wide as the tensor (symmetric) or one less (reflect).
void check_mirror(const OpView& op, Dim extent, Dim pad) {
  if (op.kind != Kind::kMirrorPad || is_symbol(extent) || is_symbol(pad)) return;
  const Dim most = op.get<MirrorPadOptions>().symmetric ? extent : extent - 1;
  if (pad > most) reject(op, fmt::format("a mirrored border of {} beside {} elements", pad, extent));
}

Types infer_pad(const OpView& op) {
  need_inputs(op, op.kind == Kind::kPadv2 ? 3 : 2);
  need_table(op, 1, op.rank(0));
  const std::vector<Dim>* table = op.contents(1);
  Shape out;
  for (size_t a = 0; a < op.shape(0).size(); ++a) {
    if (!table) {
      out.push_back(op.symbols().fresh("pad"));
      continue;
    }
    const Dim extent = op.shape(0)[a];
    for (Dim pad : {(*table)[2 * a], (*table)[2 * a + 1]}) {
      if (pad < 0 && !is_symbol(pad)) reject(op, fmt::format("a padding of {}", pad));
      check_mirror(op, extent, pad);
    }
    out.push_back(op.symbols().add(op.symbols().add(extent, (*table)[2 * a]), (*table)[2 * a + 1]));
  }
  if (op.kind == Kind::kPadv2 && op.dtype(2) != op.dtype(0)) reject(op, "the border's dtype is not the data's");
  return {{op.dtype(0), std::move(out), std::nullopt}};
}

Recipes fold_pad(const OpView& op) {
  auto table = op.ints(1);
  if (!table || op.in(0).quantization) return {};  // a quantized border is the zero point
  std::vector<std::byte> lane(static_cast<size_t>(stream::lane_bytes(op.dtype(0))));
  if (op.kind == Kind::kPadv2) lane = stream::evaluate(op.recipe(2), op.graph.budget);
  std::vector<int64_t> before, after;
  for (size_t i = 0; i < table->size(); i += 2) {
    before.push_back((*table)[i]);
    after.push_back((*table)[i + 1]);
  }
  return {recipe::pad(op.recipe(0), before, after, std::move(lane))};
}

std::optional<Movement> commute_pad(const OpView& op, std::span<const ValueId> outputs, Slot slot, const Perm& perm) {
  if (!op.ints(1)) return std::nullopt;
  return follow_first(op, outputs, slot, perm);
}
void rewrite_pad(Graph& graph, Op& op, const Movement& movement) {
  permute_entries(graph, op, 1, movement.inputs[0], 2);
}

// ---- SPACE_TO_BATCH_ND (data, block, paddings), BATCH_TO_SPACE_ND (data, block, crops): axis 0 is the batch, the
//      blocked axes follow ----

Types infer_space_batch(const OpView& op) {
  need_inputs(op, 3);
  const int rank = op.rank(0);
  if (rank != 3 && rank != 4) reject(op, fmt::format("rank {}, but 3 or 4 is needed", rank));
  const std::vector<int64_t> block = need_ints(op, 1, "block shape"), border = need_ints(op, 2, "border");
  if (static_cast<int>(block.size()) != rank - 2) reject(op, fmt::format("{} block sizes", block.size()));
  need_table(op, 2, rank - 2);
  Symbols& symbols = op.symbols();
  const bool forward = op.kind == Kind::kSpaceToBatchNd;
  Shape out = op.shape(0);
  for (size_t i = 0; i < block.size(); ++i) {
    if (block[i] <= 0) reject(op, fmt::format("a block of {}", block[i]));
    const Dim around = symbols.add(border[2 * i], border[2 * i + 1]);
    Dim& extent = out[i + 1];
    Dim& wide = forward ? extent : out[0];  // what the block divides
    if (forward) extent = symbols.add(extent, around);
    auto part = symbols.exact_div(wide, block[i]);
    if (!part && !is_symbol(wide)) reject(op, fmt::format("a block of {} does not divide {}", block[i], wide));
    wide = part ? *part : symbols.floor_div(wide, block[i]);
    if (forward)
      out[0] = symbols.mul(out[0], block[i]);
    else
      extent = symbols.sub(symbols.mul(extent, block[i]), around);
    if (extent < 0 && !is_symbol(extent)) reject(op, fmt::format("an extent of {}", extent));
  }
  return {{op.dtype(0), std::move(out), std::nullopt}};
}

// ---- DILATE (data, dilations, filling): dilation - 1 fillings between elements ----

Types infer_dilate(const OpView& op) {
  need_inputs(op, 3);
  const std::vector<int64_t> dilations = need_ints(op, 1, "dilations");
  if (static_cast<int>(dilations.size()) != op.rank(0)) reject(op, fmt::format("{} dilations", dilations.size()));
  Shape out;
  for (size_t a = 0; a < dilations.size(); ++a) {
    if (dilations[a] < 1) reject(op, fmt::format("a dilation of {}", dilations[a]));
    out.push_back(op.symbols().add(op.symbols().mul(op.symbols().sub(op.shape(0)[a], 1), dilations[a]), 1));
    if (out.back() < 0 && !is_symbol(out.back())) out.back() = 0;  // no elements, no gaps
  }
  return {{op.dtype(0), std::move(out), std::nullopt}};
}
void rewrite_dilate(Graph& graph, Op& op, const Movement& movement) {
  permute_entries(graph, op, 1, movement.inputs[0]);
}

constexpr std::array kPadRows = {
    Traits{Kind::kPad, infer_pad, fold_pad, commute_pad, rewrite_pad},
    Traits{Kind::kPadv2, infer_pad, fold_pad, commute_pad, rewrite_pad},
    Traits{Kind::kMirrorPad, infer_pad, nullptr, commute_pad, rewrite_pad},
    Traits{Kind::kSpaceToBatchNd, infer_space_batch},
    Traits{Kind::kBatchToSpaceNd, infer_space_batch},
    Traits{Kind::kDilate, infer_dilate, nullptr, commute_pad, rewrite_dilate},
};

}  // namespace

std::span<const Traits> pad_traits() { return kPadRows; }

}  // namespace lowtide::core
