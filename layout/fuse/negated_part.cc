// SPDX-License-Identifier: Apache-2.0
// The NEG of a rotary embedding goes into the table of sines:
//
//     CONCATENATION(NEG(b), a) * sin  =  CONCATENATION(b, a) * (-sin, sin)
#include <algorithm>
#include <array>

#include "layout/fuse/rules.h"
#include "layout/fuse/scalars.h"

namespace lowtide::layout {
namespace {

namespace recipe = stream::recipe;

// A product of concatenated parts, of which some are negated, with a constant.
struct NegatedParts {
  OpId concatenation = -1;
  size_t constant_slot = 0;
  core::Dim whole = 0;        // extent of the axis
  int axis = 0;               // of the constant's, from its end: -1 is the last
  std::vector<double> signs;  // for each index of the axis
};

std::optional<NegatedParts> negated_parts(Rewriter& rewriter, OpId id) {
  const Op& op = rewriter.op(id);
  if (op.kind != Kind::kMul || op.inputs.size() != 2) return std::nullopt;
  const size_t constant_slot = rewriter.is_foldable(op.inputs[0]) ? 0 : 1;
  if (!rewriter.is_foldable(op.inputs[constant_slot])) return std::nullopt;
  const OpId concatenation = rewriter.sole_producer(op.inputs[1 - constant_slot], Kind::kConcatenation);
  if (concatenation < 0) return std::nullopt;
  const Op& parts = rewriter.op(concatenation);
  const core::Value& joined = rewriter.value(parts.outputs[0]);
  const auto& options = std::get<core::ConcatOptions>(parts.options);
  if (options.activation != core::Activation::kNone || joined.dtype != core::DType::kFloat32 || joined.quantization)
    return std::nullopt;
  NegatedParts found{
      concatenation, constant_slot, 0, options.axis < 0 ? options.axis : options.axis - joined.rank(), {}};
  bool is_any_negated = false;
  for (ValueId part : parts.inputs) {
    const bool is_negated = rewriter.sole_producer(part, Kind::kNeg) >= 0;
    const core::Shape& shape = rewriter.value(part).shape;
    const core::Dim extent = shape[shape.size() - static_cast<size_t>(-found.axis)];
    if (!stream::is_static(extent) || static_cast<uint64_t>(extent) > stream::kSmallElements - found.signs.size())
      return std::nullopt;
    found.signs.insert(found.signs.end(), static_cast<size_t>(extent), is_negated ? -1 : 1);
    is_any_negated = is_any_negated || is_negated;
  }
  found.whole = static_cast<core::Dim>(found.signs.size());
  const core::Value& table = rewriter.value(op.inputs[constant_slot]);
  if (!is_any_negated || table.quantization || table.rank() < -found.axis) return std::nullopt;
  if (table.shape[table.shape.size() - static_cast<size_t>(-found.axis)] != found.whole) return std::nullopt;
  return found;
}

// A table with other uses would be stored twice: all of its products, those of queries and of keys in each layer, are
// rewritten together, at the last of them. If each of n products looked at all of them, it would be n * n looks.
bool negate_table(Rewriter& rewriter, OpId id) {
  const std::vector<ValueId>& inputs = rewriter.op(id).inputs;
  const ValueId table = inputs[rewriter.is_foldable(inputs[0]) ? 0 : 1];
  if (!rewriter.is_foldable(table) || rewriter.users(table).back() != id) return false;
  const auto found = negated_parts(rewriter, id);
  if (!found) return false;
  std::vector<std::pair<OpId, NegatedParts>> products;
  for (OpId user : rewriter.users(table)) {
    auto other = negated_parts(rewriter, user);
    if (!other || other->signs != found->signs || other->axis != found->axis) return false;
    products.emplace_back(user, std::move(*other));
  }
  if (rewriter.uses(table) != static_cast<int>(products.size())) return false;
  const core::Value old = rewriter.value(table);
  core::Shape along(old.shape.size(), 1);
  along[along.size() - static_cast<size_t>(-found->axis)] = found->whole;
  std::vector<float> signs(found->signs.begin(), found->signs.end());
  const ValueId made = rewriter.graph.add_constant(
      recipe::binary(stream::Binary::kMul, old.constant, recipe::floats(signs, along)), old.name);
  rewriter.note_new_ops();
  for (const auto& [product, parts] : products) {
    for (size_t slot = 0; slot < rewriter.op(parts.concatenation).inputs.size(); ++slot) {
      const OpId neg = rewriter.sole_producer(rewriter.op(parts.concatenation).inputs[slot], Kind::kNeg);
      if (neg >= 0) rewriter.set_input(parts.concatenation, slot, rewriter.op(neg).inputs[0]);
    }
    rewriter.graph.at(rewriter.op(parts.concatenation).outputs[0]).name.clear();
    rewriter.set_input(product, parts.constant_slot, made);
  }
  return true;
}

constexpr std::array kNegatedPartRules = {FuseRule{Kind::kMul, negate_table}};

}  // namespace

std::span<const FuseRule> negated_part_rules() { return kNegatedPartRules; }

}  // namespace lowtide::layout
