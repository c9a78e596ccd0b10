// SPDX-License-Identifier: Apache-2.0
// Moves a factor of all elements up to constants, through ops that are linear: the 1 / sqrt(d) of attention, for
// example, into the weights that make the queries, also through heads that are split, repeated, and rotated by their
// position:
//
//     q = FC(x), (q * cos + rotated(q) * sin) * s        the weights of FC, times s
//
// A factor of one operand of a matrix product may move up on the side of the other.
//
// The traps: coordinates are rounded to integers afterwards, where an error of rounding in their last bit shows.
// Constants that are no weights are multiplied only where that is exact, or in front of a matrix product. And what is
// computed between the constants and the factor is multiplied too: only an ordinary factor cannot make it overflow.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "layout/core/builtin.h"
#include "layout/fuse/magnitudes.h"
#include "layout/fuse/rules.h"

namespace lowtide::layout {
namespace {

using core::Activation;
using stream::Binary;
using stream::RecipeRef;
namespace recipe = stream::recipe;

// A longer way up is not searched: each factor looks at this many ops at most.
constexpr size_t kMaxOps = 64;

// The number by which all elements are multiplied, or divided.
struct Factor {
  RecipeRef one;  // f32 [1], ordinary
  bool divides = false;
  bool is_exact = false;  // a power of two
  double size = 1;        // by which elements become larger
  double number = 1;      // the same with its sign
};

std::optional<Factor> factor_of(Rewriter& rewriter, ValueId id, bool divides) {
  if (!rewriter.is_foldable(id)) return std::nullopt;
  const core::Value& value = rewriter.value(id);
  if (value.dtype != core::DType::kFloat32 || value.quantization || value.constant->elements() != 1)
    return std::nullopt;
  const auto numbers = rewriter.graph.numbers(id);
  if (!numbers) return std::nullopt;
  const double number = std::abs(numbers->front()), size = divides ? 1 / number : number;
  const double factor = std::copysign(size, numbers->front());
  if (!(size >= kLeastOrdinaryFactor && size <= kMostOrdinaryFactor)) return std::nullopt;
  int exponent = 0;
  const bool is_exact = std::frexp(number, &exponent) == 0.5;
  return Factor{recipe::reshape(value.constant, {1}), divides, is_exact, size, factor};
}

// Which way up is taken where there are several.
struct Preference {
  bool ends_at_constants = false;  // at x * constant: the constant is multiplied, not x
  bool only_weights = false;       // other constants are not multiplied
  bool right = false;              // at a product of two computed values: the second
};

// The ops above a value that are multiplied when it is, up to constants that are multiplied.
class LinearRegion {
 public:
  LinearRegion(Rewriter& rewriter, const Factor& factor, Preference preference)
      : rewriter_(rewriter), factor_(factor), preference_(preference) {}

  // Whether all elements of the value can be multiplied by multiplying constants.
  bool grow(ValueId id) {
    if (values_.contains(id)) return true;
    const core::Value& value = rewriter_.value(id);
    const OpId producer = rewriter_.producer(id);
    if (value.dtype != core::DType::kFloat32 || value.quantization || producer < 0 || ops_.size() == kMaxOps)
      return false;
    const Op op = rewriter_.op(producer);
    for (ValueId output : op.outputs) values_.insert(output);
    ops_[producer];
    if (core::fused_activation(op) != Activation::kNone) return false;
    switch (op.kind) {
      case Kind::kReshape:
      case Kind::kTranspose:
      case Kind::kSlice:
      case Kind::kStridedSlice:
      case Kind::kSplitV:
      case Kind::kUnpack:
      case Kind::kTile:
      case Kind::kBroadcastTo:
      case Kind::kNeg:
      case Kind::kMean:
      case Kind::kSum:
      case Kind::kDiv:
        return multiply(producer, 0);
      case Kind::kSplit:
        return multiply(producer, 1);
      case Kind::kAdd:
      case Kind::kSub:
      case Kind::kConcatenation:
        for (size_t slot = 0; slot < op.inputs.size(); ++slot) {
          // As masks have them: an additive constant near the largest float would become infinite.
          if (rewriter_.is_foldable(op.inputs[slot]) && factor_.size > 1) return false;
          if (!multiply(producer, slot)) return false;
        }
        return true;
      case Kind::kMul:
      case Kind::kBatchMatmul:
        return multiply(producer, factor_slot(op));
      default:
        return multiply_weights(producer);
    }
  }

  // Whether the multiplied values are used in this region and by `user` only, and multiply nothing twice.
  bool closed(OpId user) const {
    for (ValueId value : values_) {
      const std::vector<OpId>& users = rewriter_.users(value);
      if (rewriter_.uses(value) != static_cast<int>(users.size())) return false;  // an output of the graph
      for (OpId id : users)
        if (id != user && !ops_.contains(id)) return false;
    }
    for (const auto& [id, slots] : ops_) {
      const std::vector<ValueId>& inputs = rewriter_.op(id).inputs;
      for (size_t slot = 0; slot < inputs.size(); ++slot)
        if (values_.contains(inputs[slot]) != slots.contains(slot)) return false;
    }
    return true;
  }

  void apply() {
    for (const auto& [id, slot] : constants_) {
      const core::Value old = rewriter_.value(rewriter_.op(id).inputs[slot]);
      core::Shape ones(old.shape.size(), 1);
      const Binary op = factor_.divides ? Binary::kDiv : Binary::kMul;
      const ValueId made =
          rewriter_.graph.add_constant(recipe::binary(op, old.constant, recipe::reshape(factor_.one, ones)), old.name);
      rewriter_.note_new_ops();
      rewriter_.set_input(id, slot, made);
    }
    // Scaled values do not have the numbers of the ONNX values whose names they had.
    std::optional<core::KeptRanges>& kept = rewriter_.graph.kept_ranges;
    for (ValueId id : values_) {
      std::string& name = rewriter_.graph.at(id).name;
      name = kept ? kept->times(std::move(name), factor_.number) : std::string();
    }
  }

 private:
  // The operand of a product that is multiplied.
  size_t factor_slot(const Op& op) const {
    for (size_t slot : {size_t{0}, size_t{1}})
      if (rewriter_.is_foldable(op.inputs[slot])) return preference_.ends_at_constants ? slot : 1 - slot;
    return preference_.right ? 1 : 0;
  }

  bool multiply(OpId id, size_t slot) {
    const ValueId input = rewriter_.op(id).inputs[slot];
    if (!rewriter_.is_foldable(input)) {
      ops_[id].insert(slot);
      return grow(input);
    }
    return !preference_.only_weights && multiply_constant(id, slot);
  }

  bool multiply_constant(OpId id, size_t slot) {
    const ValueId input = rewriter_.op(id).inputs[slot];
    const core::Value& value = rewriter_.value(input);
    if (value.dtype != core::DType::kFloat32 || value.quantization) return false;
    // A large constant with another user would be stored twice.
    if (rewriter_.uses(input) != 1 && value.constant->elements() > stream::kSmallElements) return false;
    if (!can_multiply(rewriter_, input, factor_.size)) return false;
    constants_.emplace_back(id, slot);
    return true;
  }

  bool multiply_weights(OpId id) {
    const Op op = rewriter_.op(id);
    const core::Builtin& row = core::builtin(op.kind);
    if (row.activation == core::kNoActivation || *row.weights == nullptr) return false;
    const core::Weights& where = **row.weights;
    if (!rewriter_.is_foldable(op.inputs[where.weights]) || rewriter_.uses(op.inputs[where.weights]) != 1) return false;
    if (core::has_input(op, where.bias) &&
        (!rewriter_.is_foldable(op.inputs[where.bias]) || !multiply_constant(id, where.bias)))
      return false;
    return multiply_constant(id, where.weights);
  }

  Rewriter& rewriter_;
  const Factor& factor_;
  Preference preference_;
  std::set<ValueId> values_;                        // multiplied
  std::map<OpId, std::set<size_t>> ops_;            // that make them, with the operands that are multiplied for it
  std::vector<std::pair<OpId, size_t>> constants_;  // operands of them
};

// Multiplies constants so that `value`, which is used by `user` only, is multiplied.
bool multiply_above(Rewriter& rewriter, ValueId value, const Factor& factor, OpId user) {
  const bool only_weights = !factor.is_exact && rewriter.op(user).kind != Kind::kBatchMatmul;
  for (bool ends_at_constants : {false, true})
    for (bool right : {false, true}) {
      LinearRegion region(rewriter, factor, {ends_at_constants, only_weights, right});
      if (!region.grow(value) || !region.closed(user)) continue;
      region.apply();
      return true;
    }
  return false;
}

// An op that multiplies or divides by one number: what, and by what.
struct Scaling {
  ValueId data;
  Factor factor;
};

std::optional<Scaling> scaling(Rewriter& rewriter, OpId id) {
  const Op& op = rewriter.op(id);
  const bool divides = op.kind == Kind::kDiv;
  if (core::fused_activation(op) != Activation::kNone) return std::nullopt;
  for (size_t side : {size_t{0}, size_t{1}}) {
    if (divides && side == 1) continue;
    const auto factor = factor_of(rewriter, op.inputs[1 - side], divides);
    if (!factor || rewriter.value(op.inputs[side]).shape != rewriter.value(op.outputs[0]).shape) continue;
    return Scaling{op.inputs[side], *factor};
  }
  return std::nullopt;
}

bool scale_upwards(Rewriter& rewriter, OpId id) {
  const auto found = scaling(rewriter, id);
  if (!found || rewriter.is_foldable(found->data) || !multiply_above(rewriter, found->data, found->factor, id))
    return false;
  rewriter.replace(rewriter.op(id).outputs[0], found->data);
  return true;
}

// a . (b * s) = (a * s) . b
bool scale_other_operand(Rewriter& rewriter, OpId id) {
  for (size_t side : {size_t{0}, size_t{1}}) {
    const ValueId scaled = rewriter.op(id).inputs[side], other = rewriter.op(id).inputs[1 - side];
    const OpId producer = rewriter.producer(scaled);
    if (producer < 0 || rewriter.uses(scaled) != 1 || scaled == other) continue;
    if (rewriter.op(producer).kind != Kind::kMul && rewriter.op(producer).kind != Kind::kDiv) continue;
    const auto found = scaling(rewriter, producer);
    if (!found || !multiply_above(rewriter, other, found->factor, id)) continue;
    rewriter.set_input(id, side, found->data);
    return true;
  }
  return false;
}

constexpr std::array kScaleUpwardsRules = {FuseRule{Kind::kMul, scale_upwards}, FuseRule{Kind::kDiv, scale_upwards},
                                           FuseRule{Kind::kBatchMatmul, scale_other_operand}};

}  // namespace

std::span<const FuseRule> scale_upwards_rules() { return kScaleUpwardsRules; }

}  // namespace lowtide::layout
