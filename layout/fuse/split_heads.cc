// SPDX-License-Identifier: Apache-2.0
// Takes the parts of a product apart before its heads are moved, as attention writes queries, keys and values:
//
//     [B,N,3*H*D] -> RESHAPE [B,N,3,H,D] -> TRANSPOSE [3,B,H,N,D] -> GATHER 0, 1, 2        five axes
//     [B,N,3*H*D] -> SPLIT, for each part RESHAPE [B,N,H,D] -> TRANSPOSE [B,H,N,D]         four
//
// As many bytes are moved, but each part's own TRANSPOSE can merge with those behind it. Before layouts are settled, so
// that they see these. PyTorch's MultiheadAttention has a RESHAPE that drops an axis of 1 before the GATHERs, and
// its parts need no TRANSPOSE.
#include <algorithm>
#include <array>
#include <map>

#include "layout/core/reshape_groups.h"
#include "layout/fuse/rules.h"

namespace lowtide::layout {
namespace {

using core::Dim;
using core::Perm;
using core::Shape;

// What a user picks of the transposed value: one place of `axis`, or all of them one by one.
struct Pick {
  OpId user;
  int axis;
  std::optional<int64_t> place;
};

std::optional<Pick> pick_of(Rewriter& rewriter, OpId user, ValueId picked) {
  const Op& op = rewriter.op(user);
  const core::Value& data = rewriter.value(picked);
  if (op.kind == Kind::kGather && op.inputs[0] == picked && op.inputs[1] != picked) {
    const auto& options = std::get<core::GatherOptions>(op.options);
    auto index = rewriter.graph.ints(op.inputs[1]);
    if (!index || options.batch_dims != 0 || rewriter.value(op.inputs[1]).rank() != 0) return std::nullopt;
    return Pick{user, options.axis < 0 ? options.axis + data.rank() : options.axis, (*index)[0]};
  }
  if (op.kind == Kind::kSplit && op.inputs[1] == picked) {
    auto axis = rewriter.graph.ints(op.inputs[0]);
    if (!axis) return std::nullopt;
    const auto at = static_cast<int>((*axis)[0] < 0 ? (*axis)[0] + data.rank() : (*axis)[0]);
    if (data.shape[static_cast<size_t>(at)] != static_cast<Dim>(op.outputs.size())) return std::nullopt;
    return Pick{user, at, std::nullopt};
  }
  return std::nullopt;
}

// By axis of `fewer`: the axis of `shape` that it is; nullopt where more than axes of 1 are dropped.
std::optional<std::vector<int>> kept_axes(const Shape& shape, const Shape& fewer) {
  std::vector<int> kept;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (kept.size() < fewer.size() && shape[i] == fewer[kept.size()])
      kept.push_back(static_cast<int>(i));
    else if (shape[i] != 1)
      return std::nullopt;
  }
  if (kept.size() != fewer.size()) return std::nullopt;
  return kept;
}

// The axis of the RESHAPE's input of which the parts are consecutive pieces, and the length of a piece.
struct Pieces {
  int axis;
  int64_t length;
};

std::optional<Pieces> pieces_of(core::Symbols& symbols, const Shape& whole, const Shape& apart, int axis) {
  for (const core::ReshapeGroup& group : core::reshape_groups(symbols, whole, apart)) {
    const auto at = std::find(group.out.begin(), group.out.end(), axis);
    if (at == group.out.end()) continue;
    auto extent = [&](int a) { return apart[static_cast<size_t>(a)]; };
    if (group.in.size() != 1 || !std::all_of(group.out.begin(), at, [&](int a) { return extent(a) == 1; }))
      return std::nullopt;
    int64_t length = 1;
    for (auto inner = at + 1; inner != group.out.end(); ++inner) {
      if (core::is_symbol(extent(*inner))) return std::nullopt;
      length *= extent(*inner);
    }
    if (whole[static_cast<size_t>(group.in[0])] != length * extent(axis)) return std::nullopt;
    return Pieces{group.in[0], length};
  }
  return std::nullopt;
}

// Axes of 1 may go anywhere.
bool moves_elements(const Shape& shape, const Perm& perm) {
  Perm others;
  for (const int axis : perm)
    if (shape[static_cast<size_t>(axis)] != 1) others.push_back(axis);
  return !std::is_sorted(others.begin(), others.end());
}

bool split_heads(Rewriter& rewriter, OpId id) {
  const Op turn = rewriter.op(id);
  const OpId reshape = rewriter.sole_producer(turn.inputs[0], Kind::kReshape);
  auto perm = rewriter.graph.ints(turn.inputs[1]);
  ValueId moved = turn.outputs[0];
  std::vector<OpId> users = rewriter.users(moved);
  std::vector<int> kept = stream::identity_perm(rewriter.value(moved).rank());
  const bool is_reshaped =
      users.size() == 1 && rewriter.op(users[0]).kind == Kind::kReshape && rewriter.uses(moved) == 1;
  if (is_reshaped) {
    const ValueId fewer = rewriter.op(users[0]).outputs[0];
    const auto found = kept_axes(rewriter.value(moved).shape, rewriter.value(fewer).shape);
    if (!found || rewriter.value(fewer).quantization) return false;
    kept = *found;
    moved = fewer;
    users = rewriter.users(moved);
  }
  if (reshape < 0 || !perm || users.empty() || rewriter.uses(moved) != static_cast<int>(users.size())) return false;
  std::vector<Pick> picks;
  for (OpId user : users) {
    auto pick = pick_of(rewriter, user, moved);
    if (pick) pick->axis = kept[static_cast<size_t>(pick->axis)];
    if (!pick || (!picks.empty() && pick->axis != picks[0].axis)) return false;
    picks.push_back(*pick);
  }
  const ValueId source = rewriter.op(reshape).inputs[0];
  const core::Value whole = rewriter.value(source), apart = rewriter.value(turn.inputs[0]);  // values are added below
  const auto taken = static_cast<int>((*perm)[static_cast<size_t>(picks[0].axis)]);
  const Dim count = apart.shape[static_cast<size_t>(taken)];
  if (whole.is_constant() || whole.quantization || apart.quantization || core::is_symbol(count) || count < 2)
    return false;
  auto pieces = pieces_of(rewriter.graph.symbols, whole.shape, apart.shape, taken);
  Shape part_shape = apart.shape;
  part_shape.erase(part_shape.begin() + taken);
  if (!pieces || std::count_if(part_shape.begin(), part_shape.end(), core::is_symbol) > 1) return false;
  std::map<int64_t, Val> parts;  // by place, those that are used
  for (const Pick& pick : picks) {
    if (pick.place && (*pick.place < 0 || *pick.place >= count)) return false;
    if (pick.place) parts[*pick.place] = {};
    for (int64_t i = 0; !pick.place && i < count; ++i) parts[i] = {};
  }
  Perm order;
  for (int64_t axis : *perm)
    if (axis != taken) order.push_back(static_cast<int>(axis > taken ? axis - 1 : axis));

  if (is_reshaped && moves_elements(part_shape, order)) return false;

  // All parts: one SPLIT. Some of them: SLICEs.
  rewriter.b.origin = turn.origin;
  if (static_cast<Dim>(parts.size()) == count) {
    const std::vector<int64_t> lengths(parts.size(), pieces->length);
    const std::vector<Val> made = rewriter.b.split({source}, lengths, pieces->axis);
    for (auto& [place, part] : parts) part = made[static_cast<size_t>(place)];
  } else {
    const size_t rank = whole.shape.size();
    for (auto& [place, part] : parts) {
      std::vector<int64_t> begin(rank, 0), size(rank, -1);
      begin[static_cast<size_t>(pieces->axis)] = place * pieces->length;
      size[static_cast<size_t>(pieces->axis)] = pieces->length;
      part = rewriter.b.slice({source}, begin, size);
    }
  }
  for (auto& [place, part] : parts) part = rewriter.b.transpose(rewriter.b.reshape(part, part_shape), order);
  for (const Pick& pick : picks) {
    const std::vector<ValueId> outputs = rewriter.op(pick.user).outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const int64_t place = pick.place.value_or(static_cast<int64_t>(i));
      const Shape shape = rewriter.value(outputs[i]).shape;
      const Val made = rewriter.b.reshape(parts.at(place), shape);
      rewriter.note_new_ops();
      rewriter.replace(outputs[i], made.id);
    }
  }
  return true;
}

constexpr std::array kSplitHeadsRules = {FuseRule{Kind::kTranspose, split_heads}};

}  // namespace

std::span<const FuseRule> split_heads_rules() { return kSplitHeadsRules; }

}  // namespace lowtide::layout
