// SPDX-License-Identifier: Apache-2.0
// Folds a per-channel scale and shift into the weights of the ops after it, for example the gamma and beta of a layer
// normalisation that feeds only fully connected layers and convolutions. (scale.cc folds into the op before.)
//
//     W (gamma * x + beta) + b  =  (W gamma) x + (W beta + b)
//
// The traps: a convolution pads with zeros after the shift, so a shift can be folded only when there is no padding. And
// x + beta may be small where x and beta are large: W x + W beta would have lost its digits.
#include <algorithm>
#include <array>

#include "layout/core/builtin.h"
#include "layout/fuse/magnitudes.h"
#include "layout/fuse/rules.h"

namespace lowtide::layout {
namespace {

using stream::Binary;
using stream::RecipeRef;
namespace recipe = stream::recipe;

// The constant as one element for each index of the last axis of `shape`; null when it varies along another axis.
RecipeRef per_channel(Rewriter& rewriter, ValueId constant, const core::Shape& shape) {
  const core::Value& value = rewriter.value(constant);
  if (!rewriter.is_foldable(constant) || shape.empty() || value.rank() > static_cast<int>(shape.size()) ||
      value.rank() == 0)
    return nullptr;
  if (value.shape.back() != shape.back() || static_cast<core::Dim>(value.constant->elements()) != shape.back())
    return nullptr;
  return recipe::reshape(value.constant, {shape.back()});
}

// An op that can fold the channels into its weights.
struct FoldTarget {
  OpId op;
  const core::Weights& where;
};

// All uses of a value, also through reshapes that keep the last axis; empty when one of them cannot fold it.
bool collect_fold_targets(Rewriter& rewriter, ValueId id, bool shifted, std::vector<FoldTarget>& targets) {
  if (rewriter.uses(id) != static_cast<int>(rewriter.users(id).size())) return false;  // a graph output
  const core::Dim channels = rewriter.value(id).shape.back();
  for (OpId user : rewriter.users(id)) {
    const Op& op = rewriter.op(user);
    if (op.inputs[0] != id || std::count(op.inputs.begin(), op.inputs.end(), id) != 1) return false;
    if (op.kind == Kind::kReshape) {
      if (rewriter.value(op.outputs[0]).rank() == 0 || rewriter.value(op.outputs[0]).shape.back() != channels)
        return false;
      if (!collect_fold_targets(rewriter, op.outputs[0], shifted, targets)) return false;
      continue;
    }
    const bool full = op.kind == Kind::kFullyConnected, conv = op.kind == Kind::kConv2d;
    if (!full && !conv) return false;
    const core::Weights& where = *core::weights_of(op.kind);
    if (!rewriter.is_foldable(op.inputs[where.weights])) return false;
    const core::Value& weights = rewriter.value(op.inputs[where.weights]);
    if (weights.dtype != core::DType::kFloat32 || weights.quantization || weights.shape.back() != channels)
      return false;
    if (rewriter.uses(op.inputs[where.weights]) != 1 && weights.constant->elements() > stream::kSmallElements)
      return false;
    if (shifted) {
      if (conv && std::get<core::Conv2dOptions>(op.options).padding == core::Padding::kSame &&
          (weights.shape[1] != 1 || weights.shape[2] != 1))
        return false;
      if (core::has_input(op, where.bias) && !rewriter.is_foldable(op.inputs[where.bias])) return false;
    }
    targets.push_back({user, where});
  }
  return true;
}

// With ranges of values by their names: whether the value has one, so that it can be quantized. Only elements that are
// moved have the range of what they are moved from.
bool keeps_range(Rewriter& rewriter, ValueId id) {
  if (!rewriter.graph.kept_ranges) return true;
  constexpr int kMostMoves = 8;
  for (int i = 0; i < kMostMoves && rewriter.producer(id) >= 0; ++i) {
    if (!rewriter.value(id).name.empty()) return true;
    const Op& op = rewriter.op(rewriter.producer(id));
    if (op.kind != Kind::kReshape && op.kind != Kind::kTranspose) return false;
    id = op.inputs[0];
  }
  return rewriter.producer(id) < 0;
}

struct Site {
  ValueId data;
  ValueId constant;
  RecipeRef channels;  // its elements
  std::vector<FoldTarget> targets;
};

std::optional<Site> match(Rewriter& rewriter, OpId id, bool shifted) {
  const Op& op = rewriter.op(id);
  if (core::fused_activation(op) != core::Activation::kNone) return std::nullopt;
  for (size_t side : {size_t{0}, size_t{1}}) {
    if (rewriter.is_foldable(op.inputs[side]) || !rewriter.is_foldable(op.inputs[1 - side])) continue;
    Site site{op.inputs[side], op.inputs[1 - side], nullptr, {}};
    const core::Value& in = rewriter.value(site.data);
    if (in.dtype != core::DType::kFloat32 || in.shape != rewriter.value(op.outputs[0]).shape) return std::nullopt;
    site.channels = per_channel(rewriter, op.inputs[1 - side], in.shape);
    if (!keeps_range(rewriter, site.data)) return std::nullopt;
    if (!site.channels || !collect_fold_targets(rewriter, op.outputs[0], shifted, site.targets) || site.targets.empty())
      return std::nullopt;
    return site;
  }
  return std::nullopt;
}

// The channels reshaped to broadcast along the input axis of the weights.
RecipeRef broadcast_along_axis(const RecipeRef& channels, const FoldTarget& target, int rank) {
  core::Shape shape(static_cast<size_t>(rank), 1);
  shape[static_cast<size_t>(*target.where.input_axis)] = channels->dims[0];
  return recipe::reshape(channels, shape);
}

void set_constant(Rewriter& rewriter, OpId id, size_t slot, RecipeRef made, std::string name) {
  if (rewriter.op(id).inputs.size() <= slot) rewriter.op(id).inputs.resize(slot + 1, core::kAbsent);
  const ValueId value = rewriter.graph.add_constant(std::move(made), std::move(name));
  rewriter.note_new_ops();
  rewriter.set_input(id, slot, value);
}

// A value and its reshapes.
void forget_scaled_names(Rewriter& rewriter, ValueId id) {
  rewriter.graph.at(id).name.clear();
  for (const OpId user : rewriter.users(id))
    if (rewriter.op(user).kind == Kind::kReshape) forget_scaled_names(rewriter, rewriter.op(user).outputs[0]);
}

// The op's uses read its data instead, which is another value: it does not get the name.
void bypass(Rewriter& rewriter, OpId id, const Site& site) {
  const ValueId out = rewriter.op(id).outputs[0];
  forget_scaled_names(rewriter, out);
  rewriter.replace(out, site.data, rewriter.op(site.targets[0].op).origin);
}

bool scale_into_next(Rewriter& rewriter, OpId id) {
  auto site = match(rewriter, id, false);
  const auto sizes = site ? magnitudes_of(rewriter, site->constant) : std::nullopt;
  if (!sizes || !std::all_of(site->targets.begin(), site->targets.end(), [&](const FoldTarget& target) {
        return can_multiply(rewriter, rewriter.op(target.op).inputs[target.where.weights], sizes->most);
      }))
    return false;
  for (const FoldTarget& target : site->targets) {
    const core::Value weights = rewriter.value(rewriter.op(target.op).inputs[target.where.weights]);
    set_constant(
        rewriter, target.op, target.where.weights,
        recipe::binary(Binary::kMul, weights.constant, broadcast_along_axis(site->channels, target, weights.rank())),
        weights.name);
  }
  bypass(rewriter, id, *site);
  return true;
}

// Whether the weights times the shift can be computed and added to the bias.
bool can_shift(Rewriter& rewriter, const FoldTarget& target, double shift) {
  const Op& op = rewriter.op(target.op);
  const auto can_grow = [&](ValueId constant) { return can_multiply(rewriter, constant, std::max(shift, 1.0)); };
  return can_grow(op.inputs[target.where.weights]) &&
         (!core::has_input(op, target.where.bias) || can_grow(op.inputs[target.where.bias]));
}

bool shift_into_next(Rewriter& rewriter, OpId id) {
  auto site = match(rewriter, id, true);
  const auto sizes = site ? magnitudes_of(rewriter, site->constant) : std::nullopt;
  if (!sizes || !(sizes->most <= kOrdinaryShift) ||
      !std::all_of(site->targets.begin(), site->targets.end(),
                   [&](const FoldTarget& target) { return can_shift(rewriter, target, sizes->most); }))
    return false;
  for (const FoldTarget& target : site->targets) {
    const Op& op = rewriter.op(target.op);
    const core::Value weights = rewriter.value(op.inputs[target.where.weights]);
    std::vector<int> axes;
    for (int axis = 0; axis < weights.rank(); ++axis)
      if (axis != *target.where.output_axis) axes.push_back(axis);
    RecipeRef shifted =
        recipe::binary(Binary::kMul, weights.constant, broadcast_along_axis(site->channels, target, weights.rank()));
    const core::Dim outputs = weights.shape[static_cast<size_t>(*target.where.output_axis)];
    RecipeRef sum = recipe::reshape(recipe::reduce(stream::Reduction::kSum, shifted, axes), {outputs});
    const bool has_bias = core::has_input(op, target.where.bias);
    if (has_bias) sum = recipe::binary(Binary::kAdd, rewriter.value(op.inputs[target.where.bias]).constant, sum);
    set_constant(rewriter, target.op, target.where.bias, std::move(sum), {});
  }
  bypass(rewriter, id, *site);
  return true;
}

constexpr std::array kAffineRules = {FuseRule{Kind::kAdd, shift_into_next}, FuseRule{Kind::kMul, scale_into_next}};

}  // namespace

std::span<const FuseRule> affine_rules() { return kAffineRules; }

}  // namespace lowtide::layout
