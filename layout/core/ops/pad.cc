// SPDX-License-Identifier: Apache-2.0
// Ops that add a border: PAD, PADV2, MIRROR_PAD.
//
// The trap: paddings are [rank, 2], one row an axis, where ONNX lists all befores, then all afters.
#include <fmt/format.h>

#include <array>

#include "layout/core/ops/axes.h"
#include "layout/core/ops/rows.h"
#include "stream/error.h"
#include "stream/recipe/recipe_reader.h"

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
  if (pad > most) reject(op, fmt::format("a mirrored border of {} exceeds {}", pad, most));
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
      if (pad < 0 && !is_symbol(pad)) reject(op, fmt::format("padding {} is negative", pad));
      check_mirror(op, extent, pad);
    }
    out.push_back(op.symbols().add(op.symbols().add(extent, (*table)[2 * a]), (*table)[2 * a + 1]));
  }
  if (op.kind == Kind::kPadv2 && op.dtype(2) != op.dtype(0))
    reject(op, "the border and the data have different dtypes");
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

bool merge_padded(AxisMerger& m) {
  auto table = m.ints(1);
  if (!table) return false;
  AxisMarks marks;
  for (size_t i = 0; i < m.in(0).size(); ++i) {
    const bool padded = (*table)[2 * i] != 0 || (*table)[2 * i + 1] != 0;
    marks.push_back(padded ? kAlone + static_cast<int64_t>(i) : m.in(0)[i] == 1 ? kAny : 0);
  }
  const AxisGroups groups = group_axes(marks);
  std::vector<int64_t> fewer(static_cast<size_t>(groups.count) * 2, 0);
  for (size_t i = 0; i < marks.size(); ++i) {
    if (marks[i] < kAlone) continue;
    fewer[2 * groups.group_of(i)] = (*table)[2 * i];
    fewer[2 * groups.group_of(i) + 1] = (*table)[2 * i + 1];
  }
  m.merge_input(0, groups);
  m.op.inputs[1] = m.b.graph.add_ints(fewer, DType::kInt32, {groups.count, 2});
  m.merge_output(0, groups);
  return true;
}

constexpr std::array kPadRows = {
    moving(Kind::kPad, {infer_pad, fold_pad, commute_pad, rewrite_pad, merge_padded}, {kData, kIndices}),
    moving(Kind::kPadv2, {infer_pad, fold_pad, commute_pad, rewrite_pad, merge_padded}, {kData, kIndices, kData}),
    moving(Kind::kMirrorPad, {infer_pad, kNotFolded, commute_pad, rewrite_pad, merge_padded}, {kData, kIndices}),
};

}  // namespace

std::span<const Builtin> pad_builtins() { return kPadRows; }

}  // namespace lowtide::core
