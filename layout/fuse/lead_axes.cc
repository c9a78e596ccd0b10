// SPDX-License-Identifier: Apache-2.0
// Moves a RESHAPE that keeps the last axis behind ops that work on the last axis or elementwise (a layer normalisation,
// a fully connected layer), when it can then merge with the reshapes that follow:
//
//     CONV_2D -> RESHAPE -> layer norm -> FULLY_CONNECTED -> RESHAPE      one RESHAPE less
//
// Where it does not keep the last axis, it gets the leading axes of the RESHAPEs that follow, and these go:
//
//     [B,T,H,D] -> RESHAPE [B*T,H*D] -> FULLY_CONNECTED -> RESHAPE [B,T,N]        RESHAPE [B,T,H*D] -> FULLY_CONNECTED
//
// Several RESHAPEs of one form may lead to the same ops: a network of one dimension adds the results of its
// convolutions.
#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "layout/core/builtin.h"
#include "layout/fuse/behind_reshape.h"
#include "layout/fuse/rules.h"

namespace lowtide::layout {
namespace {

using core::Shape;

bool is_last_axis_reduction(Rewriter& rewriter, const Op& op) {
  const auto* options = std::get_if<core::ReduceOptions>(&op.options);
  if (!options || !options->keep_dims) return false;
  auto axes = rewriter.graph.ints(op.inputs[1]);
  return axes && axes->size() == 1 && (*axes)[0] == rewriter.value(op.inputs[0]).rank() - 1;
}

class LeadingAxesGroup : private BehindReshape {
 public:
  LeadingAxesGroup(Rewriter& rewriter, OpId reshape)
      : BehindReshape(rewriter, reshape), rank_(rewriter.value(start_).rank()), starts_{start_} {
    closed_ =
        grow([this](OpId id) { return join(id); }) && !ops_.empty() && ends_in_reshapes() && weights_are_outside();
  }

  bool closed() const { return closed_; }

  // Removes the RESHAPE: all ops of the group get the leading axes of its source.
  void apply() {
    Shape lead = rewriter_.value(source_).shape;
    lead.pop_back();
    give_lead(lead);
    for (ValueId start : starts_) {
      const ValueId source = rewriter_.op(rewriter_.producer(start)).inputs[0];
      rewriter_.replace(start, source);
    }
  }

  // The leading axes that all RESHAPEs behind the group give; none where they differ, or are those of the group.
  std::optional<Shape> lead_behind() const {
    std::optional<Shape> lead;
    for (ValueId value : values_)
      for (OpId user : rewriter_.users(value)) {
        if (ops_.contains(user)) continue;
        Shape shape = rewriter_.value(rewriter_.op(user).outputs[0]).shape;
        if (shape.empty() || shape.back() != rewriter_.value(value).shape.back()) return std::nullopt;
        shape.pop_back();
        if (lead && *lead != shape) return std::nullopt;
        lead = std::move(shape);
      }
    const bool is_own = lead && std::equal(lead->begin(), lead->end(), rewriter_.value(start_).shape.begin(),
                                           std::prev(rewriter_.value(start_).shape.end()));
    return is_own ? std::nullopt : lead;
  }

  // The RESHAPE, and all ops of the group, get these leading axes.
  void apply_behind(const Shape& lead) {
    give_lead(lead);
    for (ValueId start : starts_) {
      Shape shape = lead;
      shape.push_back(rewriter_.value(start).shape.back());
      rewriter_.b.origin = rewriter_.op(rewriter_.producer(start)).origin;
      const Val made = rewriter_.b.reshape({start}, shape);
      rewriter_.note_new_ops();
      rewriter_.replace(start, made.id);
    }
  }

 private:
  void give_lead(const Shape& lead) {
    for (OpId id : ops_) {
      for (ValueId out : rewriter_.op(id).outputs) {
        Shape shape = lead;
        shape.push_back(rewriter_.value(out).shape.back());
        rewriter_.graph.at(out).shape = std::move(shape);
      }
      if (core::builtin(rewriter_.op(id).kind).is_elementwise()) drop_leading_axes_of_constants(id);
      if (!std::holds_alternative<core::ReduceOptions>(rewriter_.op(id).options)) continue;
      const core::Value axes = rewriter_.value(rewriter_.op(id).inputs[1]);
      const int64_t last = static_cast<int64_t>(lead.size());
      const ValueId made = rewriter_.graph.add_ints({&last, 1}, axes.dtype, axes.shape);
      rewriter_.note_new_ops();
      rewriter_.set_input(id, 1, made);
    }
  }

  Join join(OpId id) {
    std::set<ValueId> others;
    const Join found = ignores_leading_axes(rewriter_.op(id), others);
    if (found != Join::kYes) return found;
    ops_.insert(id);
    add_value(rewriter_.op(id).outputs[0]);
    for (ValueId other : others) add_value(other);
    starts_.insert(others.begin(), others.end());
    return found;
  }

  // The group may get fewer axes than these constants have.
  void drop_leading_axes_of_constants(OpId id) {
    for (size_t slot = 0; slot < rewriter_.op(id).inputs.size(); ++slot) {
      const ValueId in = rewriter_.op(id).inputs[slot];
      if (!rewriter_.is_foldable(in) || rewriter_.value(in).rank() <= 1) continue;
      const core::Value constant = rewriter_.value(in);
      const ValueId made = rewriter_.graph.add_constant(
          stream::recipe::reshape(constant.constant, {constant.shape.back()}), constant.name);
      rewriter_.note_new_ops();
      rewriter_.set_input(id, slot, made);
    }
  }

  // A product may have joined before what makes its weight did.
  bool weights_are_outside() const {
    return std::none_of(ops_.begin(), ops_.end(), [&](OpId id) {
      const Op& op = rewriter_.op(id);
      return op.kind == Kind::kFullyConnected && values_.contains(op.inputs[1]);
    });
  }

  // A constant that varies along the last axis at most.
  bool is_along_last_axis(ValueId id) const {
    if (!rewriter_.is_foldable(id)) return false;
    const core::Value& value = rewriter_.value(id);
    return value.rank() <= 1 ||
           (!value.quantization && static_cast<core::Dim>(value.constant->elements()) == value.shape.back());
  }

  // The result of a RESHAPE like the first one.
  bool is_like_start(ValueId id) const {
    const OpId producer = rewriter_.producer(id);
    if (producer < 0 || rewriter_.op(producer).kind != Kind::kReshape) return false;
    const core::Value& from = rewriter_.value(rewriter_.op(producer).inputs[0]);
    return !from.is_constant() && from.shape == rewriter_.value(source_).shape &&
           rewriter_.value(id).shape == rewriter_.value(start_).shape;
  }

  // `others` gets the starts beside the known ones.
  Join ignores_leading_axes(const Op& op, std::set<ValueId>& others) const {
    auto if_so = [](bool may) { return may ? Join::kYes : Join::kNever; };
    if (op.outputs.size() != 1 || rewriter_.value(op.outputs[0]).rank() != rank_ ||
        rewriter_.value(op.outputs[0]).quantization)
      return Join::kNever;
    if (op.kind == Kind::kFullyConnected)
      return if_so(values_.contains(op.inputs[0]) && !values_.contains(op.inputs[1]) &&
                   std::get<core::FullyConnectedOptions>(op.options).keep_num_dims);
    if (op.kind == Kind::kSoftmax) return Join::kYes;
    if (op.kind == Kind::kMean || op.kind == Kind::kSum) return if_so(is_last_axis_reduction(rewriter_, op));
    if (!core::builtin(op.kind).is_elementwise()) return Join::kNever;
    Join found = Join::kYes;
    for (ValueId in : op.inputs) {
      if (values_.contains(in) || is_along_last_axis(in)) continue;
      if (is_like_start(in))
        others.insert(in);
      else if (rewriter_.producer(in) < 0)
        return Join::kNever;
      else
        found = Join::kNotYet;
    }
    return found;
  }

  int rank_;
  bool closed_ = false;
  std::set<ValueId> starts_;  // all of them
};

// Of a shape that a RESHAPE has as a constant, with no more axes than GPU delegates take. The extent of the last axis
// counts: a second open extent would be read from a value, and that may be one of those which the RESHAPEs replace.
bool is_plain_lead(const Shape& lead, core::Dim last) {
  constexpr size_t kMostLeadingAxes = 3;
  const auto open = std::count_if(lead.begin(), lead.end(), core::is_symbol) + (core::is_symbol(last) ? 1 : 0);
  return !lead.empty() && lead.size() <= kMostLeadingAxes && open <= 1 &&
         std::find(lead.begin(), lead.end(), 0) == lead.end();
}

bool move_reshape_behind(Rewriter& rewriter, OpId id) {
  const Op& op = rewriter.op(id);
  const Shape &in = rewriter.value(op.inputs[0]).shape, &out = rewriter.value(op.outputs[0]).shape;
  if (in.size() < 2 || out.size() < 2 || rewriter.value(op.inputs[0]).is_constant()) return false;
  const bool keeps_last = in.back() == out.back();
  const core::Dim last = out.back();
  LeadingAxesGroup group(rewriter, id);
  if (!group.closed()) return false;
  if (keeps_last) {
    group.apply();
    return true;
  }
  const std::optional<Shape> lead = group.lead_behind();
  if (!lead || !is_plain_lead(*lead, last)) return false;
  group.apply_behind(*lead);
  return true;
}

constexpr std::array kLeadAxesRules = {FuseRule{Kind::kReshape, move_reshape_behind}};

}  // namespace

std::span<const FuseRule> lead_axes_rules() { return kLeadAxesRules; }

}  // namespace lowtide::layout
