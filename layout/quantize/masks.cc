// SPDX-License-Identifier: Apache-2.0
#include "layout/quantize/masks.h"

#include <algorithm>
#include <utility>

#include "layout/core/builtin.h"
#include "layout/quantize/known_ranges.h"

namespace lowtide::layout {
namespace {

// How far below the least score masks stay: e^-8 is a tenth of a step of SOFTMAX in 8 bits, e^-16 rounds to 0 in
// floats.
constexpr double kMargin8 = 8, kMargin16 = 16;
// Numbers from here on are masks; models have -100 at least, and learned biases end before.
constexpr double kMask = -64;
// Sums of sums that are followed; models add two masks at most.
constexpr int kMostSums = 16;

bool is_plain_add(const Op& op) {
  return op.kind == Kind::kAdd && core::fused_activation(op) == core::Activation::kNone;
}

// Of a number that is added: the least that is no mask.
double least_unmasked(const std::vector<double>& numbers, double sign) {
  double least = 0;
  for (const double number : numbers)
    if (sign * number > kMask) least = std::min(least, sign * number);
  return least;
}

}  // namespace

Masks::Masks(Graph& graph, std::vector<std::optional<Interval>> ranges, std::set<ValueId> with_gap, GridGroups groups,
             DType dtype)
    : graph_(graph),
      ranges_(std::move(ranges)),
      with_gap_(std::move(with_gap)),
      groups_(std::move(groups)),
      margin_(dtype == DType::kInt8 ? kMargin8 : kMargin16),
      users_(graph.users()) {
  for (size_t v = 0; v < ranges_.size(); ++v)
    if (ranges_[v]) members_[groups_.of(static_cast<ValueId>(v))].push_back(static_cast<ValueId>(v));
}

std::optional<Interval> Masks::range(ValueId id) {
  return graph_.at(id).is_constant() ? constant_range(graph_, id, nullptr) : ranges_[static_cast<size_t>(id)];
}

std::optional<double> Masks::found_once(Found& found, ValueId root, Find find) {
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
    const auto score = beta > 0 ? least_score(groups_.of(id)) : std::nullopt;
    return score ? std::optional(*score - margin_ / beta) : std::nullopt;
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
  const auto other = range(add.inputs[1 - input]);
  return least && other ? std::optional(*least - other->high) : std::nullopt;
}

std::optional<double> Masks::least_score(ValueId root) { return found_once(scores_, root, &Masks::find_least_score); }

// Of all that comes into the group, but for constants and masks that are chosen in place of scores.
std::optional<double> Masks::find_least_score(ValueId root) {
  std::optional<double> least;
  for (const ValueId id : members_[root]) {
    const OpId producer = graph_.at(id).producer;
    if (producer >= 0 && groups_.chooses(producer)) continue;
    const auto own = least_score_of(id);
    if (own) least = std::min(least.value_or(*own), *own);
  }
  return least;
}

std::optional<double> Masks::least_score_of(ValueId id) {
  const double low = ranges_[static_cast<size_t>(id)]->low;
  if (low > kMask || !with_gap_.contains(id)) return low;
  const OpId producer = graph_.at(id).producer;
  const Op* made_by = producer < 0 ? nullptr : &graph_.ops[static_cast<size_t>(producer)];
  if (made_by != nullptr && (made_by->kind == Kind::kAdd || made_by->kind == Kind::kSub)) {
    const auto left = least_term(made_by->inputs[0], 1);
    const auto right = least_term(made_by->inputs[1], made_by->kind == Kind::kAdd ? 1 : -1);
    return left && right ? std::max(low, *left + *right) : low;
  }
  const bool is_mask = ranges_[static_cast<size_t>(id)]->high <= 0;
  return is_mask ? std::nullopt : std::optional(low);
}

// Of what is added (sign 1) or subtracted (-1); nullopt: not known.
std::optional<double> Masks::least_term(ValueId id, double sign) {
  if (graph_.at(id).is_constant()) {
    const auto numbers = graph_.numbers(id);
    return numbers ? std::optional(least_unmasked(*numbers, sign)) : std::nullopt;
  }
  const auto own = range(id);
  if (!own) return std::nullopt;
  if (sign > 0) return least_score(groups_.of(id)).value_or(0);
  const bool is_mask = with_gap_.contains(id) && own->low >= 0 && -own->high <= kMask;
  return is_mask ? 0 : -own->high;
}

}  // namespace lowtide::layout
