// SPDX-License-Identifier: Apache-2.0
#include "layout/plain/few_axes.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "layout/core/builtin.h"
#include "layout/core/kernel_limits.h"
#include "layout/core/merge_axes.h"
#include "layout/plain/rules.h"

namespace lowtide::layout {
namespace {

using core::Builder;
using core::Dim;
using core::kAbsent;
using core::Perm;
using core::Role;
using core::Shape;

constexpr int kFewAxes = 4;
constexpr double kWorthMore = 1.05;  // of the elements written (docs/decisions/few-axes.md)
constexpr int kMostReshaped = 8;     // RESHAPE takes no more axes; legalise() knows what to do with them

int highest_rank(const core::Graph& graph, const Op& op) {
  const core::Builtin& row = core::builtin(op.kind);
  int highest = 0;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (op.inputs[i] != kAbsent && row.inputs[i] == Role::kData)
      highest = std::max(highest, graph.at(op.inputs[i]).rank());
  for (ValueId out : op.outputs)
    if (out != kAbsent) highest = std::max(highest, graph.at(out).rank());
  return highest;
}

bool has_scales_per_axis(const core::Graph& graph, const Op& op) {
  auto found = [&](ValueId id) {
    return id != kAbsent && graph.at(id).quantization && graph.at(id).quantization->scale.size() > 1;
  };
  return std::any_of(op.inputs.begin(), op.inputs.end(), found) ||
         std::any_of(op.outputs.begin(), op.outputs.end(), found);
}

// A TRANSPOSE without axes of extent 1, and with axes that stay neighbours as one: window partitions of six axes move
// four.
bool merge_transpose(Builder& b, Op& op, std::vector<std::pair<ValueId, ValueId>>& restore) {
  auto perm = b.graph.ints(op.inputs[1]);
  if (!perm) return false;
  const Shape full = b.graph.at(op.inputs[0]).shape;
  std::vector<int> place(full.size(), -1);  // of an axis among those that are longer than 1
  Shape longer;
  for (size_t axis = 0; axis < full.size(); ++axis) {
    if (full[axis] == 1) continue;
    place[axis] = static_cast<int>(longer.size());
    longer.push_back(full[axis]);
  }
  Perm order;
  for (int64_t axis : *perm)
    if (place[static_cast<size_t>(axis)] >= 0) order.push_back(place[static_cast<size_t>(axis)]);
  if (longer.empty()) return false;
  op.inputs[0] = b.reshape(Val{op.inputs[0]}, longer).id;
  std::vector<int64_t> wide(order.begin(), order.end());
  op.inputs[1] = b.i32(wide).id;
  core::AxisMerger merger{b, op, restore};
  Shape out;
  for (int axis : order) out.push_back(longer[static_cast<size_t>(axis)]);
  merger.replace_output(0, out);
  if (longer.size() <= kFewAxes) return true;
  const ValueId old = restore.back().second;
  restore.pop_back();
  std::vector<std::pair<ValueId, ValueId>> inner;
  if (!core::merge_axes(b, op, inner)) return false;
  restore.emplace_back(inner.back().first, old);
  return true;
}

// One shape for all operands that are no scalars: the one that an operand had before a RESHAPE made more axes of it;
// unless `only_known`, the leading axes become one where there is none.
bool merge_alike(Rewriter& rewriter, Op& op, bool only_known, std::vector<std::pair<ValueId, ValueId>>& restore) {
  Builder& b = rewriter.b;
  const Shape full = b.graph.at(op.outputs[0]).shape;
  auto is_scalar = [&](ValueId id) {
    const Shape& shape = b.graph.at(id).shape;
    return std::all_of(shape.begin(), shape.end(), [](Dim dim) { return dim == 1; });
  };
  for (ValueId in : op.inputs)
    if (in == kAbsent || (!is_scalar(in) && b.graph.at(in).shape != full)) return false;
  Shape to(full.end() - kFewAxes, full.end());
  for (size_t axis = 0; axis + kFewAxes < full.size(); ++axis) to[0] = b.graph.symbols.mul(to[0], full[axis]);
  bool found = false;
  for (ValueId in : op.inputs) {
    const OpId producer = is_scalar(in) ? -1 : rewriter.producer(in);
    if (producer < 0 || rewriter.op(producer).kind != Kind::kReshape) continue;
    const Shape& before = b.graph.at(rewriter.op(producer).inputs[0]).shape;
    if (before.empty() || before.size() > kFewAxes || !can_reshape_to(before)) continue;
    to = before;
    found = true;
    break;
  }
  // The kernel gives the shape of its operands.
  if (std::all_of(op.inputs.begin(), op.inputs.end(), is_scalar)) to = Shape{1};
  if (!can_reshape_to(to) || (only_known && !found)) return false;
  for (ValueId& in : op.inputs) in = is_scalar(in) ? b.reshape(Val{in}, Shape{1}).id : b.reshape(Val{in}, to).id;
  core::AxisMerger{b, op, restore}.replace_output(0, to);
  return true;
}

// GATHER along one axis: the axes before it and those behind it are one each.
bool merge_gather(Builder& b, Op& op, std::vector<std::pair<ValueId, ValueId>>& restore) {
  auto& options = std::get<core::GatherOptions>(op.options);
  const int rank = b.graph.at(op.inputs[0]).rank();
  const int axis = options.axis < 0 ? options.axis + rank : options.axis;
  if (options.batch_dims != 0 || b.graph.at(op.inputs[1]).rank() != 1) return false;
  options.axis = axis;
  return core::AxisMerger{b, op, restore}.along_one_axis(axis, 0, 1, [&](int to) { options.axis = to; });
}

// Where the op that is no elementwise one has its axis; nothing for ops that are not rewritten by drop_ones().
struct OwnAxis {
  size_t first_data;
  int axis;  // kNone: a SLICE, whose lists say what it does to each axis
};
std::optional<OwnAxis> own_axis(Builder& b, const Op& op) {
  const auto from_front = [&](int64_t axis) {
    return static_cast<int>(axis < 0 ? axis + b.graph.at(op.outputs[0]).rank() : axis);
  };
  if (core::builtin(op.kind).is_elementwise()) return OwnAxis{0, core::kNone};
  if (op.kind == Kind::kSlice && b.graph.ints(op.inputs[1]) && b.graph.ints(op.inputs[2]))
    return OwnAxis{0, core::kNone};
  if (op.kind == Kind::kConcatenation) return OwnAxis{0, from_front(std::get<core::ConcatOptions>(op.options).axis)};
  if (op.kind != Kind::kSplit) return std::nullopt;
  auto axis = b.graph.ints(op.inputs[0]);
  if (!axis) return std::nullopt;
  return OwnAxis{1, from_front((*axis)[0])};
}

// Without the axes that have extent 1 in all operands and results, when that suffices: the other axes stay as the ops
// around this one have them.
bool drop_ones(Builder& b, Op& op, std::vector<std::pair<ValueId, ValueId>>& restore) {
  const auto own = own_axis(b, op);
  if (!own) return false;
  const auto rank = static_cast<size_t>(b.graph.at(op.outputs[0]).rank());
  const size_t data_end = op.kind == Kind::kSlice ? 1 : op.inputs.size();
  auto lifted = [&](ValueId id) {
    Shape shape = b.graph.at(id).shape;
    shape.insert(shape.begin(), rank - std::min(rank, shape.size()), 1);
    return shape;
  };
  std::vector<bool> stays(rank, false);
  auto look_at = [&](ValueId id) {
    const Shape shape = lifted(id);
    for (size_t axis = 0; axis < rank; ++axis) stays[axis] = stays[axis] || shape[axis] != 1;
  };
  for (size_t i = own->first_data; i < data_end; ++i) look_at(op.inputs[i]);
  for (ValueId out : op.outputs) look_at(out);
  if (own->axis != core::kNone) stays[static_cast<size_t>(own->axis)] = true;
  const auto left = std::count(stays.begin(), stays.end(), true);
  if (left == 0 || left > kFewAxes) return false;
  auto kept = [&](const auto& list) {
    std::decay_t<decltype(list)> shorter;
    for (size_t axis = 0; axis < rank; ++axis)
      if (stays[axis]) shorter.push_back(list[axis]);
    return shorter;
  };
  for (size_t i = own->first_data; i < data_end; ++i)
    if (b.graph.at(op.inputs[i]).rank() > 0) op.inputs[i] = b.reshape(Val{op.inputs[i]}, kept(lifted(op.inputs[i]))).id;
  if (op.kind == Kind::kSlice) {
    for (size_t list : {size_t{1}, size_t{2}}) op.inputs[list] = b.i32(kept(*b.graph.ints(op.inputs[list]))).id;
  }
  const auto moved =
      own->axis == core::kNone ? 0 : static_cast<int>(std::count(stays.begin(), stays.begin() + own->axis, true));
  if (auto* options = std::get_if<core::ConcatOptions>(&op.options)) options->axis = moved;
  if (op.kind == Kind::kSplit) op.inputs[0] = b.i32_scalar(moved).id;
  for (size_t i = 0; i < op.outputs.size(); ++i)
    core::AxisMerger{b, op, restore}.replace_output(i, kept(b.graph.at(op.outputs[i]).shape));
  return true;
}

bool merge(Rewriter& rewriter, Op& op, std::vector<std::pair<ValueId, ValueId>>& restore) {
  if (op.kind == Kind::kTranspose) return merge_transpose(rewriter.b, op, restore);
  if (op.kind == Kind::kGather) return merge_gather(rewriter.b, op, restore);
  const bool elementwise = core::builtin(op.kind).is_elementwise();
  if (elementwise && merge_alike(rewriter, op, true, restore)) return true;
  if (drop_ones(rewriter.b, op, restore)) return true;
  if (elementwise && merge_alike(rewriter, op, false, restore)) return true;
  return core::merge_axes(rewriter.b, op, restore);
}

// Whether what was made to replace an op reads the op's own result: a dimension that only SHAPE of it tells. What the
// op itself reads cannot. A dimension takes few ops: true as well where there are more producers than are looked at.
bool may_read(Rewriter& rewriter, const Op& made, OpId replaced) {
  constexpr size_t kMostProducers = 256;
  if (std::all_of(rewriter.op(replaced).outputs.begin(), rewriter.op(replaced).outputs.end(),
                  [&](ValueId out) { return stream::is_static(rewriter.value(out).shape); }))
    return false;
  std::vector<ValueId> open(made.inputs.begin(), made.inputs.end());
  std::set<OpId> seen;
  for (const ValueId in : rewriter.op(replaced).inputs) {
    OpId before = rewriter.producer(in);
    while (seen.insert(before).second && before >= 0 && rewriter.op(before).kind == Kind::kReshape)
      before = rewriter.producer(rewriter.op(before).inputs[0]);  // of which a RESHAPE is made anew
  }
  const size_t known = seen.size();
  while (!open.empty()) {
    if (seen.size() - known > kMostProducers) return true;
    const ValueId value = open.back();
    open.pop_back();
    const OpId producer = value == kAbsent ? -1 : rewriter.producer(value);
    if (producer == replaced) return true;
    if (producer < 0 || !seen.insert(producer).second) continue;
    open.insert(open.end(), rewriter.op(producer).inputs.begin(), rewriter.op(producer).inputs.end());
  }
  return false;
}

bool fewer_axes(Rewriter& rewriter, OpId id) {
  core::Graph& graph = rewriter.graph;
  const Op old = rewriter.op(id);
  if (old.kind == Kind::kReshape || !core::kernel_limits(old.kind)) return false;
  const int rank = highest_rank(graph, old);
  if (rank <= kFewAxes || rank > kMostReshaped || has_scales_per_axis(graph, old)) return false;
  for (ValueId value : old.inputs)
    if (value != kAbsent && !can_reshape_to(graph.at(value).shape)) return false;
  for (ValueId value : old.outputs)
    if (!can_reshape_to(graph.at(value).shape)) return false;
  const size_t before = graph.ops.size();
  Op op = old;
  rewriter.b.origin = old.origin;
  std::vector<std::pair<ValueId, ValueId>> restore;
  bool merged = false;
  try {
    merged = merge(rewriter, op, restore) && highest_rank(graph, op) <= kFewAxes;
    merged = merged && !may_read(rewriter, op, id);
  } catch (const stream::Unsupported&) {  // a dimension cannot be computed at run time: the op stays as it is
  }
  if (!merged) {
    for (size_t i = before; i < graph.ops.size(); ++i) graph.ops[i].kind = Kind::kDead;
    rewriter.note_new_ops();
    return false;
  }
  graph.add_op(op);
  const auto made = static_cast<OpId>(graph.ops.size() - 1);
  for (ValueId out : op.outputs) graph.at(out).producer = made;
  for (const auto& [fresh, was] : restore) {
    graph.at(fresh).quantization = graph.at(was).quantization;
    const Shape shape = graph.at(was).shape;
    const Val back = rewriter.b.reshape(Val{fresh}, shape);
    graph.at(back.id).quantization = graph.at(was).quantization;
    rewriter.note_new_ops();
    rewriter.replace(was, back.id);
  }
  return true;
}

// Of all ops; none with dynamic dimensions.
std::optional<double> elements_written(const core::Graph& graph) {
  double count = 0;
  for (const Op& op : graph.ops) {
    if (op.kind == Kind::kDead) continue;
    for (const ValueId out : op.outputs) {
      if (out == kAbsent) continue;
      if (!stream::is_static(graph.at(out).shape)) return std::nullopt;
      count += static_cast<double>(stream::element_count(graph.at(out).shape));
    }
  }
  return count;
}

}  // namespace

bool has_many_axes(const core::Graph& graph) {
  return std::any_of(graph.ops.begin(), graph.ops.end(), [&](const Op& op) {
    return op.kind != Kind::kDead && op.kind != Kind::kReshape && core::kernel_limits(op.kind) &&
           highest_rank(graph, op) > kFewAxes;
  });
}

bool is_worth_few_axes(const core::Graph& before, const core::Graph& after) {
  auto has_few = [&](ValueId id) { return id == kAbsent || after.at(id).rank() <= kFewAxes; };
  const bool all_few = std::all_of(after.ops.begin(), after.ops.end(), [&](const Op& op) {
    return op.kind == Kind::kDead || (std::all_of(op.inputs.begin(), op.inputs.end(), has_few) &&
                                      std::all_of(op.outputs.begin(), op.outputs.end(), has_few));
  });
  if (!all_few) return false;
  const std::optional<double> was = elements_written(before), is = elements_written(after);
  return was && is && *is <= *was * kWorthMore;
}

void few_axes(core::Graph& graph) {
  static constexpr std::array<core::Rule, 1> kRules = {fewer_axes};
  core::apply_rules(graph, [](Kind) { return std::span<const core::Rule>(kRules); });
}

}  // namespace lowtide::layout
