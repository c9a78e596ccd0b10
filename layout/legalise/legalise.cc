// SPDX-License-Identifier: Apache-2.0
#include "layout/legalise/legalise.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "layout/core/builder.h"
#include "layout/core/builtin.h"
#include "layout/core/kernel_limits.h"
#include "layout/core/merge_axes.h"
#include "layout/core/reshape_list.h"
#include "layout/legalise/element_types.h"
#include "layout/legalise/rounding.h"
#include "layout/legalise/zero_bias.h"

namespace lowtide::layout {

using core::DType;
using core::Graph;
using core::kAbsent;
using core::Kind;
using core::Op;
using core::Role;
using core::Val;
using core::ValueId;
using stream::Unsupported;

namespace {

class Legaliser {
 public:
  Legaliser(Graph& graph, NarrowedTypes* narrowed, bool only_integers)
      : graph_(graph), builder_(graph), rounding_(builder_, only_integers), narrowed_(narrowed) {}

  std::vector<Unsupported> run() {
    std::deque<Op> ops = std::exchange(graph_.ops, {});
    for (core::Value& value : graph_.values) value.producer = -1;  // until push(); those of refused ops stay so
    for (; !ops.empty(); ops.pop_front()) {
      const Kind kind = ops.front().kind;
      builder_.origin = ops.front().origin;
      try {
        legalise(std::move(ops.front()));
      } catch (Unsupported& refused) {
        refused.add_place({.node = graph_.origins[builder_.origin], .op = std::string(kind_name(kind))});
        refused_.push_back(refused);
      }
    }
    for (ValueId& output : graph_.outputs) output = known(output);
    return std::move(refused_);
  }

 private:
  void legalise(Op op) {
    for (ValueId& in : op.inputs) in = known(in);
    if (op.kind == Kind::kCast && !is_quantized(op) && is_undone(op)) return;
    if (rounding_.takes(op)) return expand(op);
    const core::KernelLimits* limits = core::kernel_limits(op.kind);
    if (limits) fit_indices(op);
    if (!limits) return push(std::move(op));
    if (is_quantized(op)) return push_quantized(std::move(op), *limits);
    if (op.kind == Kind::kPad || op.kind == Kind::kPadv2) pad_by_axis(op, *limits);
    std::vector<std::pair<ValueId, ValueId>> restore;  // what the op gives now, what it gave
    const ComputeType type = fit_types(op, restore);
    const size_t narrowed = restore.size();
    fit_rank(op, *limits, restore);
    fit_broadcast(op, *limits);
    push(std::move(op));
    // The merged axes first, then the element type: the reverse of the order above.
    for (size_t i = narrowed; i < restore.size(); ++i) reshape_into(restore[i].first, restore[i].second);
    for (size_t i = 0; i < narrowed; ++i) pass_back(restore[i].first, restore[i].second, type);
  }

  // What a QUANTIZE or DEQUANTIZE without a kernel is composed of has limits of its own.
  void expand(const Op& op) {
    const size_t mark = graph_.ops.size();
    Op last = rounding_.expand(op);
    const auto first = graph_.ops.begin() + static_cast<std::ptrdiff_t>(mark);
    std::vector<Op> made(std::make_move_iterator(first), std::make_move_iterator(graph_.ops.end()));
    graph_.ops.resize(mark);
    for (const Op& part : made)
      for (ValueId out : part.outputs) graph_.at(out).producer = -1;  // until push(), as in run()
    for (Op& part : made) legalise(std::move(part));
    legalise(std::move(last));
  }

  // Data with scales has kernels of its own, which were chosen when the scales were set.
  bool is_quantized(const Op& op) const {
    auto has_scale = [&](ValueId id) { return id != kAbsent && graph_.at(id).quantization.has_value(); };
    return std::any_of(op.inputs.begin(), op.inputs.end(), has_scale) ||
           std::any_of(op.outputs.begin(), op.outputs.end(), has_scale);
  }

  // Its kernel was chosen with its scales, but a TRANSPOSE that was moved to integers may have more axes.
  void push_quantized(Op op, const core::KernelLimits& limits) {
    std::vector<std::pair<ValueId, ValueId>> restore;
    if (kernel_rank(graph_, op) > limits.max_rank) merge_axes(builder_, op, restore);
    push(std::move(op));
    for (const auto& [made, old] : restore) reshape_into(made, old);
  }

  void push(Op op) {
    for (ValueId out : op.outputs)
      if (out != kAbsent) graph_.at(out).producer = static_cast<core::OpId>(graph_.ops.size());
    graph_.add_op(std::move(op));
  }

  ValueId like(ValueId old, DType dtype) {
    const core::Shape shape = graph_.at(old).shape;
    return graph_.add_value(dtype, shape);
  }

  // ---- element types ----

  // Axes, shapes, counts: they fit i32.
  void fit_indices(Op& op) {
    const core::Builtin& row = core::builtin(op.kind);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Role role = row.inputs[i];
      if ((role != Role::kIndices && role != Role::kIndices32) || op.inputs[i] == kAbsent) continue;
      const DType dtype = graph_.at(op.inputs[i]).dtype;
      if (dtype == DType::kInt32 || (dtype == DType::kInt64 && role == Role::kIndices)) continue;
      op.inputs[i] = builder_.cast(Val{op.inputs[i]}, DType::kInt32).id;
    }
  }

  // A value for what CASTs to a wider type and back made of it.
  ValueId known(ValueId id) const {
    const auto it = same_.find(id);
    return it == same_.end() ? id : it->second;
  }

  // Reads a value that was widened as it was before; whether nothing is left to be done then. Of floats only that:
  // kernels differ in what they make of numbers that no integer has.
  bool is_undone(Op& op) {
    const ValueId out = op.outputs[0];
    const DType to = graph_.at(out).dtype;
    if (const auto it = widened_.find(op.inputs[0]); it != widened_.end()) {
      const DType before = graph_.at(it->second).dtype;
      if (before == to) {
        same_[out] = it->second;
        return true;
      }
      if (!stream::is_float(before) && core::kernel_takes(Kind::kCast, before)) op.inputs[0] = it->second;
    }
    if (is_exact(graph_.at(op.inputs[0]).dtype, to)) widened_[out] = op.inputs[0];
    return false;
  }

  DType data_type(const Op& op) const {
    const core::Builtin& row = core::builtin(op.kind);
    for (size_t i = 0; i < op.inputs.size(); ++i)
      if (op.inputs[i] != kAbsent && row.inputs[i] == Role::kData) return graph_.at(op.inputs[i]).dtype;
    return DType::kUndefined;
  }

  ComputeType fit_types(Op& op, std::vector<std::pair<ValueId, ValueId>>& restore) {
    const DType own = data_type(op);
    if (own == DType::kUndefined || op.kind == Kind::kBitcast) return {own};
    if (op.kind == Kind::kCast) {
      check_cast(op);
      return {own};
    }
    auto type = compute_type(op.kind, own);
    if (!type)
      throw Unsupported(fmt::format("no kernel of {} takes {}", kind_name(op.kind), dtype_name(own)),
                        "cast its inputs to float in the model");
    const bool narrows = (own == DType::kFloat64 && type->dtype == DType::kFloat32) ||
                         (own == DType::kInt64 && type->dtype == DType::kInt32);
    if (narrows && narrowed_) narrowed_->emplace(op.origin, own, type->dtype);
    const core::Builtin& row = core::builtin(op.kind);
    if (type->dtype == own && row.numbers == core::Numbers::kMoved)
      if (auto narrow = known_narrow(op)) type->dtype = *narrow;
    if (type->dtype == own) return *type;
    for (size_t i = 0; i < op.inputs.size(); ++i)
      if (row.inputs[i] == Role::kData && op.inputs[i] != kAbsent) op.inputs[i] = passed(op.inputs[i], *type);
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      if (row.outputs[i] != Role::kData || graph_.at(op.outputs[i]).dtype != own) continue;
      const ValueId narrow = like(op.outputs[i], type->dtype);
      restore.emplace_back(narrow, op.outputs[i]);
      op.outputs[i] = narrow;
    }
    return *type;
  }

  void check_cast(const Op& op) const {
    const DType from = graph_.at(op.inputs[0]).dtype, to = graph_.at(op.outputs[0]).dtype;
    auto has_4_bits = [](DType dtype) { return dtype == DType::kInt4 || dtype == DType::kUint4; };
    if ((has_4_bits(from) && to == DType::kFloat32) || (from == DType::kFloat32 && has_4_bits(to))) return;
    for (DType dtype : {from, to})
      if (!core::kernel_takes(Kind::kCast, dtype))
        throw Unsupported(fmt::format("no kernel casts from or to {}", dtype_name(dtype)),
                          "run the cast outside the model, or make its input an initializer");
  }

  // The narrower type in which all data of a moving op was computed, if there is one: the data is moved in that type
  // and widened where an op takes the wide one.
  std::optional<DType> known_narrow(const Op& op) const {
    const core::Builtin& row = core::builtin(op.kind);
    std::optional<DType> narrow;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (row.inputs[i] != Role::kData || op.inputs[i] == kAbsent) continue;
      auto found = narrow_.find(op.inputs[i]);
      if (found == narrow_.end()) return std::nullopt;
      const DType dtype = graph_.at(found->second).dtype;
      if (narrow && *narrow != dtype) return std::nullopt;
      narrow = dtype;
    }
    return narrow && core::kernel_takes(op.kind, *narrow) ? narrow : std::nullopt;
  }

  Val smallest() { return Val{graph_.add_ints(std::array{std::numeric_limits<int64_t>::min()}, DType::kInt64, {})}; }

  // `id` in the type that its user computes in; made once.
  ValueId passed(ValueId id, ComputeType type) {
    if (auto it = widened_.find(id); it != widened_.end() && graph_.at(it->second).dtype == type.dtype)
      return it->second;
    auto [it, is_new] = passed_.try_emplace({id, type.dtype, type.passage}, kAbsent);
    if (!is_new) return it->second;
    Val v{id};
    if (type.passage == Passage::kCast)
      v = builder_.cast(v, type.dtype);
    else
      v = builder_.op(Kind::kBitcast, {v}, core::IndexOptions{type.dtype});
    if (type.passage == Passage::kOrdered) v = builder_.add(v, smallest());
    passed_[{id, type.dtype, type.passage}] = v.id;
    return v.id;
  }

  // Adds the op that makes `old` from `made`, the result in the computed type.
  void pass_back(ValueId made, ValueId old, ComputeType type) {
    const DType own = graph_.at(old).dtype;
    if (type.passage == Passage::kOrdered) made = builder_.add(Val{made}, smallest()).id;
    const Kind kind = type.passage == Passage::kCast ? Kind::kCast : Kind::kBitcast;
    push({.kind = kind,
          .inputs = {made},
          .outputs = {old},
          .options = core::IndexOptions{own},
          .origin = builder_.origin});
    if (type.passage == Passage::kCast && is_exact(type.dtype, own)) narrow_[old] = widened_[old] = made;
  }

  // ---- axes ----

  void fit_rank(Op& op, const core::KernelLimits& limits, std::vector<std::pair<ValueId, ValueId>>& restore) {
    const int rank = kernel_rank(graph_, op);
    if (rank < limits.min_rank)
      throw Unsupported(fmt::format("no kernel of {} takes rank {}", kind_name(op.kind), rank));
    if (rank <= limits.max_rank) return;
    if (!merge_axes(builder_, op, restore) || kernel_rank(graph_, op) > limits.max_rank)
      throw Unsupported(fmt::format("no kernel of {} takes rank {}, and its axes cannot be merged to {}",
                                    kind_name(op.kind), rank, limits.max_rank),
                        "reshape to fewer axes in the model");
  }

  // Padded axes cannot be merged. Where there are too many, they are padded one after the other: here all but the last.
  void pad_by_axis(Op& op, const core::KernelLimits& limits) {
    auto table = graph_.ints(op.inputs[1]);
    if (!table || kernel_rank(graph_, op) <= limits.max_rank) return;
    std::vector<size_t> padded;
    for (size_t axis = 0; axis < table->size() / 2; ++axis)
      if ((*table)[2 * axis] != 0 || (*table)[2 * axis + 1] != 0) padded.push_back(axis);
    constexpr size_t kAlways = 2;  // two padded axes and the merged axes around them: rank 5
    const core::Shape table_shape = graph_.at(op.inputs[1]).shape;
    for (size_t i = 0; i + kAlways < padded.size(); ++i) {
      const size_t axis = padded[i];
      std::vector<int64_t> one(table->size(), 0);
      core::Shape shape = graph_.at(op.inputs[0]).shape;
      for (size_t side : {2 * axis, 2 * axis + 1}) {
        one[side] = std::exchange((*table)[side], 0);
        shape[axis] = graph_.symbols.add(shape[axis], one[side]);
      }
      Op part = op;
      part.inputs[1] = graph_.add_ints(one, DType::kInt32, table_shape);
      part.outputs = {graph_.add_value(graph_.at(op.inputs[0]).dtype, shape)};
      op.inputs[0] = part.outputs[0];
      legalise(std::move(part));
    }
    op.inputs[1] = graph_.add_ints(*table, DType::kInt32, table_shape);
  }

  void fit_broadcast(Op& op, const core::KernelLimits& limits) {
    if (!core::builtin(op.kind).broadcasts || limits.broadcast_rank > 0) return;
    const core::Shape full = graph_.at(op.outputs[0]).shape;
    for (ValueId& in : op.inputs) {
      const Val tiled = builder_.tile_to(Val{in}, full);
      in = tiled ? tiled.id : builder_.broadcast_to(Val{in}, full).id;
    }
  }

  // RESHAPE into a value that is in the graph already.
  void reshape_into(ValueId from, ValueId to) {
    const core::Shape wanted = graph_.at(to).shape;  // values are added below
    const auto list = core::constant_reshape_list(wanted);
    const Val shape = list ? builder_.i32(*list) : builder_.dims(wanted, DType::kInt32, Val{from});
    push({.kind = Kind::kReshape, .inputs = {from, shape.id}, .outputs = {to}, .origin = builder_.origin});
  }

  Graph& graph_;
  core::Builder builder_;
  Rounding rounding_;
  NarrowedTypes* narrowed_;  // may be null
  std::vector<Unsupported> refused_;
  std::map<std::tuple<ValueId, DType, Passage>, ValueId> passed_;
  std::map<ValueId, ValueId> narrow_;   // a value -> the same numbers as they were computed, in a narrower type
  std::map<ValueId, ValueId> widened_;  // the same, and what a CAST of the model widened
  std::map<ValueId, ValueId> same_;     // what a CAST gave -> what it is
};

}  // namespace

std::vector<Unsupported> legalise(Graph& graph, NarrowedTypes* narrowed, bool only_integers) {
  add_zero_biases(graph);
  std::vector<Unsupported> refused = Legaliser(graph, narrowed, only_integers).run();
  graph.tidy();
  return refused;
}

}  // namespace lowtide::layout
