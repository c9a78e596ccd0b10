// SPDX-License-Identifier: Apache-2.0
// Between a convolution and a fully connected layer ONNX flattens [N,C,H,W], but CONV_2D returns [N,H,W,C]. The order
// of the flattened elements is folded into the weights, as a permutation in their recipe.
#include "layout/fuse/flatten.h"

#include <algorithm>
#include <array>

#include "layout/core/builtin.h"
#include "layout/fuse/rules.h"

namespace lowtide::layout {
namespace {

using core::Perm;
namespace recipe = stream::recipe;

constexpr int kMostBetween = 8;  // ops that are looked through, one after the other

bool has_one_grid(const core::Value& value) { return !value.quantization || value.quantization->scale.size() <= 1; }

bool is_one_number(Rewriter& rewriter, ValueId id) {
  return rewriter.is_foldable(id) && rewriter.value(id).constant->elements() == 1;
}

// Whether each element of the result is made of one element of `data` alone, and of numbers that are the same for all.
bool is_of_each_element(Rewriter& rewriter, const Op& op, ValueId data) {
  if (rewriter.value(op.outputs[0]).shape != rewriter.value(data).shape) return false;
  switch (op.kind) {
    case Kind::kAdd:
    case Kind::kSub:
    case Kind::kMul:
    case Kind::kDiv:
    case Kind::kMaximum:
    case Kind::kMinimum:
      return is_one_number(rewriter, op.inputs[0]) || is_one_number(rewriter, op.inputs[1]);
    case Kind::kCast:
    case Kind::kQuantize:
    case Kind::kDequantize:
    case Kind::kBitcast:
    case Kind::kRelu:
    case Kind::kRelu6:
    case Kind::kReluN1To1:
    case Kind::kRelu0To1:
    case Kind::kElu:
    case Kind::kLeakyRelu:
    case Kind::kLogistic:
    case Kind::kTanh:
    case Kind::kHardSwish:
    case Kind::kGelu:
    case Kind::kAbs:
    case Kind::kNeg:
    case Kind::kExp:
      return true;
    default:
      return false;
  }
}

// Adds the layers that read `id`; false where it has another use.
bool add_layers(Rewriter& rewriter, ValueId id, int left, std::vector<OpId>& layers) {
  const std::vector<OpId>& users = rewriter.users(id);
  if (users.empty() || rewriter.uses(id) != static_cast<int>(users.size()) || !has_one_grid(rewriter.value(id)))
    return false;
  return std::all_of(users.begin(), users.end(), [&](OpId user) {
    const Op& op = rewriter.op(user);
    if (op.kind != Kind::kFullyConnected)
      return left > 0 && is_of_each_element(rewriter, op, id) && add_layers(rewriter, op.outputs[0], left - 1, layers);
    layers.push_back(user);
    return op.inputs[0] == id && rewriter.is_foldable(op.inputs[1]) && rewriter.uses(op.inputs[1]) == 1 &&
           !rewriter.value(op.inputs[1]).quantization;
  });
}

// Whether another TRANSPOSE is above a BITCAST, which none goes behind here: settle_layouts lets the two meet. Mostly
// they are the inverse of each other, as TFLite to ONNX writes them.
bool may_meet_another(Rewriter& rewriter, ValueId id) {
  const OpId bits = rewriter.producer(id);
  if (bits < 0 || rewriter.op(bits).kind != Kind::kBitcast) return false;
  const OpId above = rewriter.producer(rewriter.op(bits).inputs[0]);
  return above >= 0 && rewriter.op(above).kind == Kind::kTranspose;
}

bool flatten_into_weights(Rewriter& rewriter, OpId id) {
  // Starts at the RESHAPE, so that all layers that share a flatten are rewritten together.
  const Op reshape = rewriter.op(id);
  const OpId above = rewriter.producer(reshape.inputs[0]);
  if (above < 0 || rewriter.op(above).kind != Kind::kTranspose) return false;
  auto perm = rewriter.graph.ints(rewriter.op(above).inputs[1]);
  if (!perm || (*perm)[0] != 0) return false;
  const std::vector<OpId> layers = layers_of_flatten(rewriter, id);
  if (layers.empty()) return false;
  const bool is_direct = rewriter.op(rewriter.users(reshape.outputs[0])[0]).kind == Kind::kFullyConnected;
  if (!is_direct && may_meet_another(rewriter, rewriter.op(above).inputs[0])) return false;
  // The flattened axis of the weights [N, C*H*W] is split and permuted to the order before the transpose. Axis 0 of the
  // weights (outputs) takes the place of the batch, so the permutation is the same as that of the data.
  const core::Shape& in = rewriter.value(reshape.inputs[0]).shape;
  const core::Shape tail(in.begin() + 1, in.end());
  const Perm undo = stream::inverse(Perm(perm->begin(), perm->end()));
  for (OpId layer : layers) {
    const core::Value weights = rewriter.value(rewriter.op(layer).inputs[1]);
    core::Shape apart{weights.shape[0]};
    apart.insert(apart.end(), tail.begin(), tail.end());
    auto moved = recipe::reshape(recipe::permute(recipe::reshape(weights.constant, apart), undo), weights.shape);
    const ValueId made = rewriter.graph.add_constant(std::move(moved), weights.name);
    rewriter.note_new_ops();
    rewriter.set_input(layer, 1, made);
  }
  rewriter.set_input(id, 0, rewriter.op(above).inputs[0]);
  return true;
}

constexpr std::array kFlattenRules = {FuseRule{Kind::kReshape, flatten_into_weights}};

}  // namespace

std::vector<OpId> layers_of_flatten(Rewriter& rewriter, OpId reshape) {
  const Op& op = rewriter.op(reshape);
  const core::Shape &in = rewriter.value(op.inputs[0]).shape, &out = rewriter.value(op.outputs[0]).shape;
  if (out.size() != 2 || in.size() < 3 || in[0] != out[0]) return {};
  if (!stream::is_static(core::Shape(in.begin() + 1, in.end()))) return {};
  std::vector<OpId> layers;
  return add_layers(rewriter, op.outputs[0], kMostBetween, layers) ? layers : std::vector<OpId>();
}

bool is_flattened_below(Rewriter& rewriter, ValueId id, const Perm& perm) {
  if (perm.empty() || perm[0] != 0) return false;
  for (int left = kMostBetween; left > 0; --left) {
    if (rewriter.uses(id) != 1 || rewriter.users(id).size() != 1 || !has_one_grid(rewriter.value(id))) return false;
    const OpId user = rewriter.users(id)[0];
    const Op& op = rewriter.op(user);
    if (op.kind == Kind::kReshape) return !layers_of_flatten(rewriter, user).empty();
    if (!is_of_each_element(rewriter, op, id)) return false;
    id = op.outputs[0];
  }
  return false;
}

std::span<const FuseRule> flatten_rules() { return kFlattenRules; }

}  // namespace lowtide::layout
