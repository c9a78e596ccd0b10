// SPDX-License-Identifier: Apache-2.0
// Unmerges axes: where ops after a RESHAPE that merges axes reduce over whole merged axes or work elementwise, they can
// work on the separate axes, which settle_layouts can permute. Examples are a group normalisation written as an
// instance normalisation of a reshaped tensor, and a pooling over a flattened image:
//
//     [N,C,H,W] -> RESHAPE [N,G,K] -> over K -> RESHAPE [N,C,H,W]      [N,G,C/G,H,W], over the last three
//
// Without groups (G = 1, G = C) the RESHAPEs disappear.
#include <algorithm>
#include <array>

#include "layout/core/builtin.h"
#include "layout/fuse/behind_reshape.h"
#include "layout/fuse/rules.h"

namespace lowtide::layout {
namespace {

using core::Dim;
using core::ReduceOptions;
using core::Shape;

// Splits each axis of `out` into axes of `in`; empty when the shapes do not divide.
std::vector<Shape> split(core::Symbols& symbols, const Shape& in, const Shape& out) {
  std::vector<Shape> pieces;
  size_t next = 0;
  Dim left = 1;  // of the axis of `in` before `next`
  for (Dim rest : out) {
    Shape& axes = pieces.emplace_back();
    while (rest != 1) {
      while (left == 1 && next < in.size()) left = in[next++];
      if (left == 1 || left == 0 || rest == 0) return {};  // 1: no axis of `in` is left
      if (auto more = symbols.exact_div(rest, left)) {
        axes.push_back(left);
        rest = *more;
        left = 1;
      } else if (auto remains = symbols.exact_div(left, rest)) {
        axes.push_back(rest);
        rest = 1;
        left = *remains;
      } else {
        return {};
      }
    }
  }
  return pieces;
}

// The group of ops whose shapes are that of the RESHAPE's result, some axes reduced to 1.
class MergedAxesGroup : private BehindReshape {
 public:
  MergedAxesGroup(Rewriter& rewriter, OpId reshape) : BehindReshape(rewriter, reshape) {
    shape_ = rewriter.value(start_).shape;
    pieces_ = split(rewriter.graph.symbols, rewriter.value(source_).shape, shape_);
    if (std::none_of(pieces_.begin(), pieces_.end(), [](const Shape& axes) { return axes.size() > 1; })) return;
    closed_ = grow([this](OpId id) { return join(id); }) && reduces_ && ends_in_reshapes();
  }

  // Whether a merged axis is reduced, and no op outside the group uses the merged axes.
  bool closed() const { return closed_; }

  void apply() {
    core::Builder& b = rewriter_.b;
    for (OpId id : ops_) {
      b.origin = rewriter_.op(id).origin;
      const bool reduce = std::holds_alternative<ReduceOptions>(rewriter_.op(id).options);
      for (size_t slot = 0; slot < rewriter_.op(id).inputs.size(); ++slot) {
        const ValueId in = rewriter_.op(id).inputs[slot];
        if (values_.contains(in)) continue;
        Val made = reduce ? Val{axes_of(id)} : b.reshape({in}, unmerged(rewriter_.value(in).shape));
        rewriter_.note_new_ops();
        rewriter_.set_input(id, slot, made.id);
      }
    }
    b.origin = rewriter_.op(rewriter_.producer(start_)).origin;
    const Val unmerged_source = b.reshape({source_}, unmerged(shape_));
    rewriter_.note_new_ops();
    for (ValueId value : values_)
      if (value != start_) rewriter_.graph.at(value).shape = unmerged(rewriter_.value(value).shape);
    rewriter_.replace(start_, unmerged_source.id);
  }

 private:
  Join join(OpId id) {
    const Op& op = rewriter_.op(id);
    if (op.outputs.size() != 1 || rewriter_.value(op.outputs[0]).quantization) return Join::kNever;
    if (std::holds_alternative<ReduceOptions>(op.options)) return join_reduction(id);
    if (!core::builtin(op.kind).is_elementwise() || !fits(op.outputs[0])) return Join::kNever;
    for (ValueId in : op.inputs)
      if (!values_.contains(in) && !(rewriter_.is_foldable(in) && fits(in)))
        return rewriter_.producer(in) < 0 ? Join::kNever : Join::kNotYet;
    add_value(op.outputs[0]);
    ops_.insert(id);
    return Join::kYes;
  }

  // A reduction over whole axes. The results of those that keep reduced axes belong to the group; the others have no
  // merged axis.
  Join join_reduction(OpId id) {
    const Op& op = rewriter_.op(id);
    auto axes = rewriter_.graph.ints(op.inputs[1]);
    if (!axes) return Join::kNever;
    const bool keeps = std::get<ReduceOptions>(op.options).keep_dims;
    for (int64_t axis = 0; axis < rank(); ++axis) {
      const bool merged = pieces_[static_cast<size_t>(axis)].size() > 1;
      const bool reduced =
          std::count(axes->begin(), axes->end(), axis) || std::count(axes->begin(), axes->end(), axis - rank());
      if (merged && reduced) reduces_ = true;
      if (merged && !reduced && !keeps) return Join::kNever;
    }
    if (keeps) add_value(op.outputs[0]);
    drops_ones_ = drops_ones_ && keeps;
    ops_.insert(id);
    return Join::kYes;
  }

  int64_t rank() const { return static_cast<int64_t>(shape_.size()); }

  // Whether each axis has the group's size or 1.
  bool fits(ValueId id) const {
    const Shape& shape = rewriter_.value(id).shape;
    if (shape.size() > shape_.size()) return false;
    for (size_t i = 0; i < shape.size(); ++i)
      if (shape[i] != 1 && shape[i] != shape_[shape_.size() - shape.size() + i]) return false;
    return true;
  }

  // `shape` with the merged axes separate; axes of size 1 are omitted unless an op of the group drops reduced axes.
  Shape unmerged(Shape shape) const {
    shape.insert(shape.begin(), shape_.size() - shape.size(), 1);
    Shape result;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const Shape& pieces = pieces_[axis];
      if (pieces.empty() && !drops_ones_) result.push_back(1);
      for (Dim piece : pieces) result.push_back(shape[axis] == 1 ? 1 : piece);
    }
    return result;
  }

  // The axes of a reduction, numbered after unmerging.
  ValueId axes_of(OpId id) {
    const core::Value& old = rewriter_.value(rewriter_.op(id).inputs[1]);
    const std::vector<int64_t> axes = *rewriter_.graph.ints(rewriter_.op(id).inputs[1]);
    std::vector<int64_t> result;
    int64_t at = 0;
    for (int64_t axis = 0; axis < rank(); ++axis) {
      const auto& pieces = pieces_[static_cast<size_t>(axis)];
      const auto width = static_cast<int64_t>(pieces.empty() && !drops_ones_ ? 1 : pieces.size());
      const bool reduced =
          std::count(axes.begin(), axes.end(), axis) || std::count(axes.begin(), axes.end(), axis - rank());
      for (int64_t i = 0; reduced && i < width; ++i) result.push_back(at + i);
      at += width;
    }
    return rewriter_.graph.add_ints(result, old.dtype, {static_cast<Dim>(result.size())});
  }

  Shape shape_;                // of the RESHAPE's result
  std::vector<Shape> pieces_;  // of each of its axes
  bool closed_ = false, reduces_ = false, drops_ones_ = true;
};

bool unmerge_axes(Rewriter& rewriter, OpId id) {
  if (rewriter.value(rewriter.op(id).inputs[0]).is_constant()) return false;
  MergedAxesGroup group(rewriter, id);
  if (!group.closed()) return false;
  group.apply();
  return true;
}

constexpr std::array kMergedAxesRules = {FuseRule{Kind::kReshape, unmerge_axes}};

}  // namespace

std::span<const FuseRule> merged_axes_rules() { return kMergedAxesRules; }

}  // namespace lowtide::layout
