// SPDX-License-Identifier: Apache-2.0
#include "layout/quantize/masks.h"

#include <algorithm>
#include <utility>

#include "layout/core/builtin.h"

namespace lowtide::layout {
namespace {

// How far below the least score masks stay: e^-8 is a tenth of a step of SOFTMAX in 8 bits, e^-16 rounds to 0 in
// floats.
constexpr double kMargin8 = 8, kMargin16 = 16;
// Sums of sums that are followed; models add two masks at most.
constexpr int kMostSums = 16;

bool is_plain_add(const Op& op) {
  return op.kind == Kind::kAdd && core::fused_activation(op) == core::Activation::kNone;
}

}  // namespace

Masks::Masks(Graph& graph, std::vector<std::optional<Interval>> ranges, std::vector<Unmasked> unmasked,
             GridGroups groups, DType dtype)
    : graph_(graph),
      ranges_(std::move(ranges)),
      unmasked_(std::move(unmasked)),
      groups_(std::move(groups)),
      margin_(dtype == DType::kInt8 ? kMargin8 : kMargin16),
      users_(graph.users()) {
  for (size_t v = 0; v < ranges_.size(); ++v)
    if (ranges_[v]) members_[groups_.of(static_cast<ValueId>(v))].push_back(static_cast<ValueId>(v));
}

const ConstantNumbers& Masks::constant(ValueId id) {
  const auto [it, is_new] = constants_.try_emplace(graph_.at(id).constant.get());
  if (is_new) it->second = constant_numbers(graph_, id);
  return it->second;
}

std::optional<Interval> Masks::range(ValueId id) {
  return graph_.at(id).is_constant() ? constant(id).range : ranges_[static_cast<size_t>(id)];
}

template <typename Result>
std::optional<Result> Masks::found_once(Found<Result>& found, ValueId root,
                                        std::optional<Result> (Masks::*find)(ValueId)) {
  const auto [it, is_new] = found.try_emplace(root, std::nullopt);
  if (!is_new || depth_ == kMostSums) return it->second;
  ++depth_;
  const auto result = (this->*find)(root);
  --depth_;
  return found[root] = result;
}

std::optional<double> Masks::least_of_group(ValueId root) { return found_once(leasts_, root, &Masks::find_least); }

std::optional<double> Masks::find_least(ValueId root) {
  std::optional<double> least;
  for (const ValueId id : members_[root]) {
    if (std::find(graph_.outputs.begin(), graph_.outputs.end(), id) != graph_.outputs.end()) return std::nullopt;
    for (const OpId user : users_[static_cast<size_t>(id)]) {
      if (groups_.chooses(user)) continue;
      const auto own = needed_by(graph_.ops[static_cast<size_t>(user)], id);
      if (!own) return std::nullopt;
      least = std::min(least.value_or(*own), *own);
    }
  }
  return least;
}

std::optional<double> Masks::needed_by(const Op& reader, ValueId id) {
  if (reader.kind == Kind::kSoftmax) {
    const float beta = std::get<core::SoftmaxOptions>(reader.options).beta;
    const auto found = beta > 0 ? score(groups_.of(id)) : std::nullopt;
    return found ? std::optional(found->least - margin_ / beta) : std::nullopt;
  }
  if (!is_plain_add(reader)) return std::nullopt;
  std::optional<double> least;
  for (size_t i = 0; i < reader.inputs.size(); ++i) {
    if (reader.inputs[i] != id) continue;
    const auto own = least_of_operand(reader, i);
    if (!own) return std::nullopt;
    least = std::min(least.value_or(*own), *own);
  }
  return least;
}

std::optional<double> Masks::least_of_operand(const Op& add, size_t input) {
  if (!is_plain_add(add)) return std::nullopt;
  const auto least = least_of_group(groups_.of(add.outputs[0]));
  if (!least) return std::nullopt;
  const auto other = range(add.inputs[1 - input]);
  return other ? std::optional(*least - other->high) : std::nullopt;
}

// Numbers of a group but for masks; nullopt: it has no others.
std::optional<Masks::Score> Masks::score(ValueId root) { return found_once(scores_, root, &Masks::find_score); }

// Of all that comes into the group, but for constants and masks that are chosen in place of scores.
std::optional<Masks::Score> Masks::find_score(ValueId root) {
  std::optional<Score> all;
  bool has_masks = false;
  double chosen = 0;  // least of the results
  for (const ValueId id : members_[root]) {
    const OpId producer = graph_.at(id).producer;
    if (producer >= 0 && groups_.chooses(producer)) {
      chosen = std::min(chosen, ranges_[static_cast<size_t>(id)]->low);
      continue;
    }
    const auto own = score_of(id);
    has_masks = has_masks || !own || own->has_masks;
    if (own) all = Score{all ? std::min(all->least, own->least) : own->least, false};
  }
  // What a result has below all that comes in is a constant.
  if (all) all->has_masks = has_masks || (chosen <= kMask && chosen < all->least);
  return all;
}

std::optional<Masks::Score> Masks::score_of(ValueId id) {
  const Interval& own = *ranges_[static_cast<size_t>(id)];
  const Unmasked& numbers = unmasked_[static_cast<size_t>(id)];
  if (own.low > kMask) return Score{own.low, false};
  if (numbers.is_empty) return std::nullopt;
  const OpId producer = graph_.at(id).producer;
  const auto sum = producer < 0 ? std::nullopt : score_of_sum(graph_.ops[static_cast<size_t>(producer)]);
  // Where no number was seen that has no mask, rows of masks are what counts.
  if (sum && sum->has_masks && sum->least <= own.high) return Score{std::max(own.low, sum->least), true};
  return numbers.least ? Score{*numbers.least, true} : Score{own.low, false};
}

std::optional<Masks::Score> Masks::score_of_sum(const Op& sum) {
  if (sum.kind != Kind::kAdd && sum.kind != Kind::kSub) return std::nullopt;
  const auto left = term(sum.inputs[0], 1);
  const auto right = term(sum.inputs[1], sum.kind == Kind::kAdd ? 1 : -1);
  if (!left || !right) return std::nullopt;
  return Score{left->least + right->least, left->has_masks || right->has_masks};
}

// Of what is added (sign 1) or subtracted (-1); nullopt: not known.
std::optional<Masks::Score> Masks::term(ValueId id, double sign) {
  const auto own = range(id);
  if (!own) return std::nullopt;
  const bool is_constant = graph_.at(id).is_constant();
  if (sign > 0 && !is_constant) {
    const auto found = score(groups_.of(id));
    return found && found->has_masks ? found : Score{own->low, false};
  }
  const Unmasked& numbers = is_constant ? constant(id).unmasked : unmasked_[static_cast<size_t>(id)];
  if (const auto masked = sign > 0 ? numbers.least : numbers.most) return Score{sign * *masked, true};
  return Score{sign > 0 ? own->low : -own->high, false};
}

}  // namespace lowtide::layout
