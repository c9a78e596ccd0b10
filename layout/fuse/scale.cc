// SPDX-License-Identifier: Apache-2.0
// Folds MUL, DIV, ADD and SUB by a per-channel constant into the weights and bias of the op before, batch normalisation
// for example. Weights stay recipes, with one more step.
#include <array>
#include <cmath>

#include "layout/core/builtin.h"
#include "layout/fuse/behind_reshape.h"
#include "layout/fuse/magnitudes.h"
#include "layout/fuse/rules.h"

namespace lowtide::layout {
namespace {

using core::Activation;
using stream::Binary;
using stream::RecipeRef;
namespace recipe = stream::recipe;

// No infinity, NaN or (as a divisor) zero: folded into weights, they would make NaN of weights that are 0.
bool is_foldable_factor(Rewriter& rewriter, ValueId constant, bool divides) {
  const auto sizes = magnitudes_of(rewriter, constant);
  return sizes && std::isfinite(sizes->most) && !(divides && sizes->least == 0);
}

// The constant as a vector with one element per channel, if it varies along the last axis of `shape` (the op's result)
// only; else null.
RecipeRef scale_per_channel(Rewriter& rewriter, ValueId constant, const core::Shape& shape, bool divides) {
  const core::Value& value = rewriter.value(constant);
  if (!value.is_constant() || shape.empty() || !stream::is_static(shape.back())) return nullptr;
  if (value.rank() > static_cast<int>(shape.size())) return nullptr;
  const auto elements = static_cast<core::Dim>(value.constant->elements());
  const bool is_per_channel = elements == 1 || (elements == shape.back() && value.shape.back() == shape.back());
  // The numbers are read last: other constants may be large.
  if (!is_per_channel || !is_foldable_factor(rewriter, constant, divides)) return nullptr;
  if (elements == 1) return recipe::broadcast(recipe::reshape(value.constant, {1}), {shape.back()});
  return recipe::reshape(value.constant, {shape.back()});
}

struct ScaleSite {
  OpId producer = -1;            // the op with weights
  ValueId data = core::kAbsent;  // its result, or a RESHAPE of that
  const core::Weights* where = nullptr;
  ValueId constant = core::kAbsent;
  RecipeRef channels;
  bool constant_first = false;
};

// The weights of an op that can be scaled; null where an activation follows them, or where the op could not fuse the
// activation of the op behind it.
const core::Weights* scalable_weights(const Op& op) {
  const core::Builtin& row = core::builtin(op.kind);
  const bool scalable = row.activation != core::kNoActivation && core::fused_activation(op) == Activation::kNone;
  return scalable ? *row.weights : nullptr;
}

// producer -> (this op, with a constant), where the producer's result has no other use. RESHAPEs between them, as
// behind a convolution of one dimension, keep the last axis.
std::optional<ScaleSite> match_scale(Rewriter& rewriter, OpId id) {
  const Op& op = rewriter.op(id);
  for (size_t side : {size_t{0}, size_t{1}}) {
    const ValueId data = op.inputs[side], constant = op.inputs[1 - side];
    if (!rewriter.is_foldable(constant)) continue;
    const ValueId made = before_reshapes(rewriter, data);
    const OpId producer = rewriter.producer(made);
    if (producer < 0 || rewriter.uses(made) != 1 || rewriter.uses(data) != 1 ||
        rewriter.value(data).dtype != core::DType::kFloat32 || rewriter.value(made).shape.empty() ||
        rewriter.value(data).shape.empty() || rewriter.value(made).shape.back() != rewriter.value(data).shape.back())
      return std::nullopt;
    const core::Weights* where = scalable_weights(rewriter.op(producer));
    if (!where) return std::nullopt;
    // The op must not broadcast the data to a larger shape.
    if (rewriter.value(op.outputs[0]).shape != rewriter.value(data).shape) return std::nullopt;
    RecipeRef channels = scale_per_channel(rewriter, constant, rewriter.value(data).shape, op.kind == Kind::kDiv);
    if (!channels) return std::nullopt;
    return ScaleSite{producer, data, where, constant, std::move(channels), side == 1};
  }
  return std::nullopt;
}

// The op's constant bias, zeros when it has none; null when rules cannot compute with it.
RecipeRef bias_of(Rewriter& rewriter, const Op& producer, const core::Weights& where, core::Dim channels) {
  if (!core::has_input(producer, where.bias)) return recipe::fill_value(0, core::DType::kFloat32, {channels});
  const ValueId bias = producer.inputs[where.bias];
  return rewriter.is_foldable(bias) ? rewriter.value(bias).constant : nullptr;
}

// Whether (W x + bias) + constant may become W x + (bias + constant). A large constant may round x on purpose, or be
// taken away again: kernels that begin their sums with the bias would round each product. And where both are larger
// than what is between them, they may cancel each other.
bool can_add(Rewriter& rewriter, ValueId bias, ValueId constant) {
  constexpr double kMostBias = 0x1p16;
  const auto added = magnitudes_of(rewriter, constant);
  if (!added || !(added->most <= kMostBias)) return false;
  if (bias == core::kAbsent || added->most <= kOrdinaryShift) return true;
  const auto before = magnitudes_of(rewriter, bias);
  return before && before->most <= kOrdinaryShift;
}

void set_bias(Rewriter& rewriter, OpId producer, const core::Weights& where, RecipeRef bias) {
  Op& op = rewriter.op(producer);
  if (op.inputs.size() <= where.bias) op.inputs.resize(where.bias + 1, core::kAbsent);
  const ValueId made = rewriter.graph.add_constant(std::move(bias));
  rewriter.note_new_ops();
  rewriter.set_input(producer, where.bias, made);
}

// The producer's result, maybe behind RESHAPEs, takes the place of the op's.
void remove_scale(Rewriter& rewriter, OpId id, const ScaleSite& site) {
  const Op& op = rewriter.op(id);
  const ValueId out = op.outputs[0];
  std::string name = rewriter.value(out).name;
  const Activation activation = core::fused_activation(op);
  rewriter.replace(out, site.data);
  name_last(rewriter, rewriter.op(site.producer).outputs[0], site.data, std::move(name));
  // An activation that is fused into this op moves to the producer.
  core::fuse_activation(rewriter.op(site.producer), activation);
}

bool fuse_scale(Rewriter& rewriter, OpId id) {
  auto site = match_scale(rewriter, id);
  const bool divides = rewriter.op(id).kind == Kind::kDiv;
  if (!site || (divides && site->constant_first)) return false;
  const Op& producer = rewriter.op(site->producer);
  const ValueId weights = producer.inputs[site->where->weights];
  // Weights with another user would be stored twice.
  if (!rewriter.is_foldable(weights) ||
      (rewriter.uses(weights) > 1 && rewriter.value(weights).constant->elements() > stream::kSmallElements))
    return false;
  const auto channels = rewriter.value(producer.outputs[0]).shape.back();
  RecipeRef bias = bias_of(rewriter, producer, *site->where, channels);
  if (!bias) return false;
  const Binary op = divides ? Binary::kDiv : Binary::kMul;
  core::Shape along(static_cast<size_t>(rewriter.value(weights).rank()), 1);
  along[static_cast<size_t>(*site->where->output_axis)] = channels;
  if (rewriter.value(weights).shape[static_cast<size_t>(*site->where->output_axis)] != channels) return false;
  const bool has_bias = core::has_input(producer, site->where->bias);
  const auto sizes = magnitudes_of(rewriter, site->constant);
  const double factor = divides ? 1 / sizes->least : sizes->most;
  if (!can_multiply(rewriter, weights, factor) ||
      (has_bias && !can_multiply(rewriter, producer.inputs[site->where->bias], factor)))
    return false;
  RecipeRef scaled = recipe::binary(op, rewriter.value(weights).constant, recipe::reshape(site->channels, along));
  const ValueId made = rewriter.graph.add_constant(std::move(scaled), rewriter.value(weights).name);
  rewriter.note_new_ops();
  rewriter.set_input(site->producer, site->where->weights, made);
  if (has_bias) set_bias(rewriter, site->producer, *site->where, recipe::binary(op, bias, site->channels));
  remove_scale(rewriter, id, *site);
  return true;
}

bool fuse_shift(Rewriter& rewriter, OpId id) {
  auto site = match_scale(rewriter, id);
  const bool subtracts = rewriter.op(id).kind == Kind::kSub;
  if (!site || (subtracts && site->constant_first)) return false;
  const Op& producer = rewriter.op(site->producer);
  const auto channels = rewriter.value(producer.outputs[0]).shape.back();
  RecipeRef bias = bias_of(rewriter, producer, *site->where, channels);
  if (!bias) return false;
  const bool has_bias = core::has_input(producer, site->where->bias);
  if (!can_add(rewriter, has_bias ? producer.inputs[site->where->bias] : core::kAbsent, site->constant)) return false;
  set_bias(rewriter, site->producer, *site->where,
           recipe::binary(subtracts ? Binary::kSub : Binary::kAdd, bias, site->channels));
  remove_scale(rewriter, id, *site);
  return true;
}

// (V x + W y) + constant  =  (V x + constant) + W y
bool shift_one_operand(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  const ValueId data = op.inputs[rewriter.is_foldable(op.inputs[0]) ? 1 : 0];
  const ValueId constant = op.inputs[data == op.inputs[0] ? 1 : 0];
  const bool subtracts = op.kind == Kind::kSub;
  const OpId sum = rewriter.sole_producer(data, Kind::kAdd);
  // What the layer gives then has another range than the value of that name.
  if (sum < 0 || (subtracts && data != op.inputs[0]) || rewriter.graph.kept_ranges) return false;
  const core::Value& summed = rewriter.value(data);
  if (core::fused_activation(rewriter.op(sum)) != Activation::kNone || summed.dtype != core::DType::kFloat32 ||
      summed.quantization || rewriter.value(op.outputs[0]).shape != summed.shape)
    return false;
  const RecipeRef channels = scale_per_channel(rewriter, constant, summed.shape, false);
  // W y may be what takes a large constant away again.
  if (!channels || !(magnitudes_of(rewriter, constant)->most <= kOrdinaryShift)) return false;
  for (const ValueId operand : rewriter.op(sum).inputs) {
    const OpId layer = rewriter.producer(operand);
    const core::Weights* where = layer < 0 ? nullptr : scalable_weights(rewriter.op(layer));
    if (!where || rewriter.uses(operand) != 1 || rewriter.value(operand).shape != summed.shape) continue;
    const RecipeRef bias = bias_of(rewriter, rewriter.op(layer), *where, channels->dims[0]);
    if (!bias) continue;
    set_bias(rewriter, layer, *where, recipe::binary(subtracts ? Binary::kSub : Binary::kAdd, bias, channels));
    rewriter.graph.at(operand).name.clear();
    remove_scale(rewriter, id, {.producer = sum, .data = data});
    return true;
  }
  return false;
}

constexpr std::array kScaleRules = {FuseRule{Kind::kMul, fuse_scale},        FuseRule{Kind::kDiv, fuse_scale},
                                    FuseRule{Kind::kAdd, fuse_shift},        FuseRule{Kind::kSub, fuse_shift},
                                    FuseRule{Kind::kAdd, shift_one_operand}, FuseRule{Kind::kSub, shift_one_operand}};

}  // namespace

std::span<const FuseRule> scale_rules() { return kScaleRules; }

}  // namespace lowtide::layout
