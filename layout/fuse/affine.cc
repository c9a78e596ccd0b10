// SPDX-License-Identifier: Apache-2.0
// Folds a scale and a shift, of each channel or of all, into the weights of the ops after them, for example the gamma
// and beta of a layer normalisation that feeds only fully connected layers and convolutions, or the mean and deviation
// of an image. (scale.cc folds into the op before.)
//
//     W (gamma * x + beta) + b  =  (W gamma) x + (W beta + b)
//
// The traps: a convolution pads with zeros after the shift, so a shift can be folded only when there is no padding. And
// x + beta may be small where x and beta are large: W x + W beta would have lost its digits.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "layout/core/builtin.h"
#include "layout/fuse/magnitudes.h"
#include "layout/fuse/rules.h"

namespace lowtide::layout {
namespace {

using stream::Binary;
using stream::RecipeRef;
namespace recipe = stream::recipe;

// x + beta is in the range of the weights behind it, and may have only the few last digits of a large beta: those of
// pixels less 1000 are 2^-14 apart, and W x is rounded 2^10 times as coarsely as W (x + beta). With this shift no more
// than 6 of the 24 bits are lost. (fuse_shift() adds to what a layer has rounded already: kOrdinaryShift.)
constexpr double kMostForwardShift = 0x1p6;
// How many RESHAPEs and TRANSPOSEs one behind the other are looked through: each is a call inside the call before.
constexpr int kMostMovesBetween = 64;

// Where the elements of a constant belong: at the indices of one axis, or, of a single one, everywhere.
struct Channels {
  std::optional<size_t> axis;
  core::Dim count = 1;
};

// The channels of `shape` that a constant broadcast to it has one element for.
std::optional<Channels> channels_of(const core::Shape& constant, const core::Shape& shape) {
  if (constant.size() > shape.size()) return std::nullopt;
  Channels channels;
  for (size_t i = 0, from = shape.size() - constant.size(); i < constant.size(); ++i) {
    if (constant[i] == 1) continue;
    if (channels.axis || constant[i] != shape[from + i]) return std::nullopt;
    channels = {from + i, constant[i]};
  }
  return channels;
}

// The channels behind a RESHAPE that keeps the last axis or a TRANSPOSE; nullopt behind other ops.
std::optional<Channels> channels_behind(Rewriter& rewriter, const Op& op, Channels channels) {
  if (op.kind != Kind::kReshape && op.kind != Kind::kTranspose) return std::nullopt;
  if (!channels.axis) return channels;
  const core::Shape &in = rewriter.value(op.inputs[0]).shape, &out = rewriter.value(op.outputs[0]).shape;
  if (op.kind == Kind::kReshape) {
    if (*channels.axis + 1 != in.size() || out.empty() || out.back() != channels.count) return std::nullopt;
    return Channels{out.size() - 1, channels.count};
  }
  const auto perm = rewriter.graph.ints(op.inputs[1]);
  if (!perm) return std::nullopt;
  const auto at = std::find(perm->begin(), perm->end(), static_cast<int64_t>(*channels.axis));
  return Channels{static_cast<size_t>(at - perm->begin()), channels.count};
}

// An op that can fold the channels into its weights.
struct FoldTarget {
  OpId op;
  const core::Weights& where;
};

bool can_fold_into(Rewriter& rewriter, const Op& op, Channels channels, bool shifted) {
  const bool full = op.kind == Kind::kFullyConnected, conv = op.kind == Kind::kConv2d;
  if (!full && !conv) return false;
  const core::Weights& where = *core::weights_of(op.kind);
  if (!rewriter.is_foldable(op.inputs[where.weights])) return false;
  const core::Value& weights = rewriter.value(op.inputs[where.weights]);
  if (weights.dtype != core::DType::kFloat32 || weights.quantization) return false;
  if (channels.axis &&
      (*channels.axis + 1 != rewriter.value(op.inputs[0]).shape.size() || weights.shape.back() != channels.count))
    return false;
  if (rewriter.uses(op.inputs[where.weights]) != 1 && weights.constant->elements() > stream::kSmallElements)
    return false;
  if (!shifted) return true;
  if (conv && std::get<core::Conv2dOptions>(op.options).padding == core::Padding::kSame &&
      (weights.shape[1] != 1 || weights.shape[2] != 1))
    return false;
  return !core::has_input(op, where.bias) || rewriter.is_foldable(op.inputs[where.bias]);
}

// All uses of a value, also through RESHAPEs and TRANSPOSEs; false when one of them cannot fold it.
bool collect_fold_targets(Rewriter& rewriter, ValueId id, Channels channels, bool shifted,
                          std::vector<FoldTarget>& targets, int moves = 0) {
  if (rewriter.uses(id) != static_cast<int>(rewriter.users(id).size())) return false;  // a graph output
  for (OpId user : rewriter.users(id)) {
    const Op& op = rewriter.op(user);
    if (op.inputs[0] != id || std::count(op.inputs.begin(), op.inputs.end(), id) != 1) return false;
    if (const auto behind = channels_behind(rewriter, op, channels)) {
      if (moves == kMostMovesBetween ||
          !collect_fold_targets(rewriter, op.outputs[0], *behind, shifted, targets, moves + 1))
        return false;
      continue;
    }
    if (!can_fold_into(rewriter, op, channels, shifted)) return false;
    targets.push_back({user, *core::weights_of(op.kind)});
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

// What --input-uint8 writes stays in the file: `lowtide verify` reads there how the integers become floats.
bool is_of_raw_image(Rewriter& rewriter, ValueId id) {
  constexpr int kMostOps = 4;  // CAST, SUB, and where axes are moved
  for (int i = 0; i < kMostOps && rewriter.producer(id) >= 0; ++i) {
    const Op& op = rewriter.op(rewriter.producer(id));
    if (op.kind != Kind::kCast && op.kind != Kind::kSub && op.kind != Kind::kReshape && op.kind != Kind::kTranspose)
      return false;
    id = op.inputs[0];
  }
  return rewriter.producer(id) < 0 && rewriter.value(id).dtype == core::DType::kUint8;
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
  const bool commutes = op.kind == Kind::kMul || op.kind == Kind::kAdd;
  for (size_t side : {size_t{0}, size_t{1}}) {
    if (rewriter.is_foldable(op.inputs[side]) || !rewriter.is_foldable(op.inputs[1 - side])) continue;
    if (side == 1 && !commutes) return std::nullopt;
    Site site{op.inputs[side], op.inputs[1 - side], nullptr, {}};
    const core::Value& in = rewriter.value(site.data);
    if (in.dtype != core::DType::kFloat32 || in.shape != rewriter.value(op.outputs[0]).shape) return std::nullopt;
    const core::Value& constant = rewriter.value(site.constant);
    const auto channels = channels_of(constant.shape, in.shape);
    if (!channels || !keeps_range(rewriter, site.data) || is_of_raw_image(rewriter, site.data)) return std::nullopt;
    if (!collect_fold_targets(rewriter, op.outputs[0], *channels, shifted, site.targets) || site.targets.empty())
      return std::nullopt;
    site.channels = recipe::reshape(constant.constant, {channels->count});
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

// A value and what is moved of it.
void forget_scaled_names(Rewriter& rewriter, ValueId id) {
  rewriter.graph.at(id).name.clear();
  for (const OpId user : rewriter.users(id))
    if (rewriter.op(user).kind == Kind::kReshape || rewriter.op(user).kind == Kind::kTranspose)
      forget_scaled_names(rewriter, rewriter.op(user).outputs[0]);
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
  if (!sizes) return false;
  const bool divides = rewriter.op(id).kind == Kind::kDiv;
  if (divides && !(sizes->least > 0 && std::isfinite(sizes->most))) return false;
  const double factor = divides ? 1 / sizes->least : sizes->most;
  if (!std::all_of(site->targets.begin(), site->targets.end(), [&](const FoldTarget& target) {
        return can_multiply(rewriter, rewriter.op(target.op).inputs[target.where.weights], factor);
      }))
    return false;
  for (const FoldTarget& target : site->targets) {
    const core::Value weights = rewriter.value(rewriter.op(target.op).inputs[target.where.weights]);
    set_constant(rewriter, target.op, target.where.weights,
                 recipe::binary(divides ? Binary::kDiv : Binary::kMul, weights.constant,
                                broadcast_along_axis(site->channels, target, weights.rank())),
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
  if (!sizes || !(sizes->most <= kMostForwardShift) ||
      !std::all_of(site->targets.begin(), site->targets.end(),
                   [&](const FoldTarget& target) { return can_shift(rewriter, target, sizes->most); }))
    return false;
  const bool subtracts = rewriter.op(id).kind == Kind::kSub;
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
    if (subtracts) sum = recipe::binary(Binary::kMul, sum, recipe::floats(std::array{-1.0f}, {1}));
    if (has_bias) sum = recipe::binary(Binary::kAdd, rewriter.value(op.inputs[target.where.bias]).constant, sum);
    set_constant(rewriter, target.op, target.where.bias, std::move(sum), {});
  }
  bypass(rewriter, id, *site);
  return true;
}

constexpr std::array kAffineRules = {FuseRule{Kind::kAdd, shift_into_next}, FuseRule{Kind::kSub, shift_into_next},
                                     FuseRule{Kind::kMul, scale_into_next}, FuseRule{Kind::kDiv, scale_into_next}};

}  // namespace

std::span<const FuseRule> affine_rules() { return kAffineRules; }

}  // namespace lowtide::layout
