// SPDX-License-Identifier: Apache-2.0
// MUL, DIV, ADD and SUB by a constant per channel vanish into the weights and the bias of the op before them: this is
// where batch normalisation goes. The weights stay recipes; a multiplication is one more step of them.
#include <algorithm>
#include <array>
#include <cmath>

#include "layout/fuse/rules.h"
#include "layout/fuse/weighted.h"

namespace lowtide::layout {
namespace {

using core::Activation;
using stream::Binary;
using stream::RecipeRef;
namespace recipe = stream::recipe;

// No infinity, NaN or (as a divisor) zero: x * inf is not x times infinite weights, where a weight or an input is 0.
bool is_tame(Rewriter& rewriter, ValueId constant, bool divides) {
  auto numbers = rewriter.graph.numbers(constant);
  return !numbers || std::all_of(numbers->begin(), numbers->end(),
                                 [&](double x) { return std::isfinite(x) && !(divides && x == 0); });
}

// The constant as a vector of one element a channel, when it is constant along all axes but the last of `shape` (which
// is what the op makes); null otherwise.
RecipeRef per_channel(Rewriter& rewriter, ValueId constant, const core::Shape& shape, bool divides) {
  const core::Value& value = rewriter.value(constant);
  if (!value.is_constant() || shape.empty() || !stream::is_static(shape.back())) return nullptr;
  if (value.rank() > static_cast<int>(shape.size())) return nullptr;
  const auto elements = static_cast<core::Dim>(value.constant->elements());
  if (!is_tame(rewriter, constant, divides)) return nullptr;
  if (elements == 1) return recipe::broadcast(recipe::reshape(value.constant, {1}), {shape.back()});
  if (value.shape.back() != shape.back() || elements != shape.back()) return nullptr;
  return recipe::reshape(value.constant, {shape.back()});
}

struct Site {
  OpId maker = -1;  // the op with weights
  Weighted where;
  ValueId constant = core::kAbsent;
  RecipeRef channels;
  bool constant_first = false;
};

// maker -> (this op, with a constant): nobody else needs what the maker makes.
std::optional<Site> match(Rewriter& rewriter, OpId id) {
  const Op& op = rewriter.op(id);
  for (size_t side : {size_t{0}, size_t{1}}) {
    const ValueId data = op.inputs[side], constant = op.inputs[1 - side];
    if (!rewriter.is_constant(constant)) continue;
    const OpId maker = rewriter.producer(data);
    if (maker < 0 || rewriter.uses(data) != 1 || rewriter.value(data).dtype != core::DType::kFloat32)
      return std::nullopt;
    const Op& source = rewriter.op(maker);
    if (source.inputs.size() < 2 || source.inputs[1] == core::kAbsent) return std::nullopt;
    auto where = weighted(source, rewriter.value(source.inputs[1]).rank());
    if (!where || where->activation != Activation::kNone) return std::nullopt;
    // The op must not broadcast the data to a larger shape.
    if (rewriter.value(op.outputs[0]).shape != rewriter.value(data).shape) return std::nullopt;
    RecipeRef channels = per_channel(rewriter, constant, rewriter.value(data).shape, op.kind == Kind::kDiv);
    if (!channels) return std::nullopt;
    return Site{maker, *where, constant, std::move(channels), side == 1};
  }
  return std::nullopt;
}

// The op's constant bias as a recipe of zeros when there is none; null when it is computed at run time.
RecipeRef bias_of(Rewriter& rewriter, const Op& maker, const Weighted& where, core::Dim channels) {
  if (where.bias >= maker.inputs.size() || maker.inputs[where.bias] == core::kAbsent)
    return recipe::fill_value(0, core::DType::kFloat32, {channels});
  return rewriter.value(maker.inputs[where.bias]).constant;
}

void set_bias(Rewriter& rewriter, OpId maker, const Weighted& where, RecipeRef bias) {
  Op& op = rewriter.op(maker);
  if (op.inputs.size() <= where.bias) op.inputs.resize(where.bias + 1, core::kAbsent);
  const ValueId made = rewriter.graph.add_constant(std::move(bias));
  rewriter.note_new_ops();
  rewriter.set_input(maker, where.bias, made);
}

void finish(Rewriter& rewriter, OpId id, OpId maker) {
  const Op& op = rewriter.op(id);
  const ValueId made = rewriter.op(maker).outputs[0], out = op.outputs[0];
  std::string name = rewriter.value(out).name;
  const Activation activation = std::get<core::BinaryOptions>(op.options).activation;
  rewriter.replace(out, made);
  if (!name.empty()) rewriter.graph.at(made).name = std::move(name);
  // An activation already fused into this op goes on to the maker.
  if (activation == Activation::kNone) return;
  Op& target = rewriter.op(maker);
  if (auto* conv = std::get_if<core::Conv2dOptions>(&target.options)) conv->activation = activation;
  if (auto* full = std::get_if<core::FullyConnectedOptions>(&target.options)) full->activation = activation;
  if (auto* back = std::get_if<core::TransposeConvOptions>(&target.options)) back->activation = activation;
  if (auto* volume = std::get_if<core::Conv3dOptions>(&target.options)) volume->activation = activation;
}

bool fuse_scale(Rewriter& rewriter, OpId id) {
  auto site = match(rewriter, id);
  const bool divides = rewriter.op(id).kind == Kind::kDiv;
  if (!site || (divides && site->constant_first)) return false;
  const Op& maker = rewriter.op(site->maker);
  const ValueId weights = maker.inputs[site->where.weights];
  // Weights that somebody else uses too would be stored twice.
  if (!rewriter.is_constant(weights) ||
      (rewriter.uses(weights) > 1 && rewriter.value(weights).constant->elements() > stream::kSmallElements))
    return false;
  const auto channels = rewriter.value(maker.outputs[0]).shape.back();
  RecipeRef bias = bias_of(rewriter, maker, site->where, channels);
  if (!bias) return false;
  const Binary op = divides ? Binary::kDiv : Binary::kMul;
  core::Shape along(static_cast<size_t>(rewriter.value(weights).rank()), 1);
  along[static_cast<size_t>(site->where.channel_axis)] = channels;
  if (rewriter.value(weights).shape[static_cast<size_t>(site->where.channel_axis)] != channels) return false;
  RecipeRef scaled = recipe::binary(op, rewriter.value(weights).constant, recipe::reshape(site->channels, along));
  const bool has_bias = site->where.bias < maker.inputs.size() && maker.inputs[site->where.bias] != core::kAbsent;
  const ValueId made = rewriter.graph.add_constant(std::move(scaled), rewriter.value(weights).name);
  rewriter.note_new_ops();
  rewriter.set_input(site->maker, site->where.weights, made);
  if (has_bias) set_bias(rewriter, site->maker, site->where, recipe::binary(op, bias, site->channels));
  finish(rewriter, id, site->maker);
  return true;
}

bool fuse_shift(Rewriter& rewriter, OpId id) {
  auto site = match(rewriter, id);
  const bool subtracts = rewriter.op(id).kind == Kind::kSub;
  if (!site || (subtracts && site->constant_first)) return false;
  const Op& maker = rewriter.op(site->maker);
  const auto channels = rewriter.value(maker.outputs[0]).shape.back();
  RecipeRef bias = bias_of(rewriter, maker, site->where, channels);
  if (!bias) return false;
  set_bias(rewriter, site->maker, site->where,
           recipe::binary(subtracts ? Binary::kSub : Binary::kAdd, bias, site->channels));
  finish(rewriter, id, site->maker);
  return true;
}

// A factor for all elements passes upwards through what only moves elements, and through a product (into the operand
// that can take it), until it reaches weights: where the 1 / sqrt(d) of attention goes.
OpId weights_above(Rewriter& rewriter, ValueId id) {
  const OpId maker = rewriter.producer(id);
  if (maker < 0 || rewriter.uses(id) != 1) return -1;
  const Op& op = rewriter.op(maker);
  if (op.kind == Kind::kReshape || op.kind == Kind::kTranspose) return weights_above(rewriter, op.inputs[0]);
  if (op.kind == Kind::kBatchMatmul) {
    const OpId left = weights_above(rewriter, op.inputs[0]);
    return left >= 0 ? left : weights_above(rewriter, op.inputs[1]);
  }
  if (op.inputs.size() < 2 || !rewriter.is_constant(op.inputs[1])) return -1;
  auto where = weighted(op, rewriter.value(op.inputs[1]).rank());
  if (!where || where->activation != Activation::kNone || rewriter.uses(op.inputs[1]) != 1) return -1;
  const bool has_bias = op.inputs.size() > where->bias && op.inputs[where->bias] != core::kAbsent;
  return has_bias && !rewriter.is_constant(op.inputs[where->bias]) ? -1 : maker;
}

bool scale_upwards(Rewriter& rewriter, OpId id) {
  const Op& op = rewriter.op(id);
  const bool divides = op.kind == Kind::kDiv;
  if (std::get<core::BinaryOptions>(op.options).activation != Activation::kNone) return false;
  for (size_t side : {size_t{0}, size_t{1}}) {
    const ValueId data = op.inputs[side], factor = op.inputs[1 - side];
    if (!rewriter.is_constant(factor) || rewriter.value(factor).constant->elements() != 1 || (divides && side == 1))
      continue;
    if (!is_tame(rewriter, factor, divides)) return false;
    const core::Value& in = rewriter.value(data);
    if (in.dtype != core::DType::kFloat32 || in.shape != rewriter.value(op.outputs[0]).shape) return false;
    const OpId maker = weights_above(rewriter, data);
    if (maker < 0) return false;
    const Op& target = rewriter.op(maker);
    const Weighted where = *weighted(target, rewriter.value(target.inputs[1]).rank());
    const Binary scale = divides ? Binary::kDiv : Binary::kMul;
    const RecipeRef one = recipe::reshape(rewriter.value(factor).constant, {1});
    const bool has_bias = target.inputs.size() > where.bias && target.inputs[where.bias] != core::kAbsent;
    if (has_bias)
      set_bias(rewriter, maker, where, recipe::binary(scale, rewriter.value(target.inputs[where.bias]).constant, one));
    const core::Value weights = rewriter.value(rewriter.op(maker).inputs[where.weights]);
    const ValueId made = rewriter.graph.add_constant(recipe::binary(scale, weights.constant, one), weights.name);
    rewriter.note_new_ops();
    rewriter.set_input(maker, where.weights, made);
    rewriter.replace(rewriter.op(id).outputs[0], data);
    return true;
  }
  return false;
}

constexpr std::array kScaleRules = {FuseRule{Kind::kMul, fuse_scale},    FuseRule{Kind::kMul, scale_upwards},
                                    FuseRule{Kind::kDiv, scale_upwards}, FuseRule{Kind::kDiv, fuse_scale},
                                    FuseRule{Kind::kAdd, fuse_shift},    FuseRule{Kind::kSub, fuse_shift}};

}  // namespace

std::span<const FuseRule> scale_rules() { return kScaleRules; }

}  // namespace lowtide::layout
