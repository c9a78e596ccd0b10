// SPDX-License-Identifier: Apache-2.0
#include "layout/quantize/masks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "layout/core/builtin.h"

namespace lowtide::layout {
namespace {

// How far below the least score masks stay: e^-8 is a tenth of a step of SOFTMAX in 8 bits, e^-16 rounds to 0 in
// floats. LOGISTIC and LOG_SOFTMAX round to the end of their grids there.
constexpr double kMargin8 = 8, kMargin16 = 16;
// So many masks add no more than 2 % to the sum of a row at kMargin8.
constexpr double kFewMasks = 64;
// Where the length of a row is known at run time only.
constexpr double kLongRow = 4096;
// Sums of sums that are followed; models add two masks at most.
constexpr int kMostSums = 16;
// Fewer steps for all numbers but masks are too few.
constexpr double kLeastSteps = 32;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

bool is_plain(const Op& op) {
  return core::builtin(op.kind).activation == core::kNoActivation ||
         core::fused_activation(op) == core::Activation::kNone;
}
bool is_plain_sum(const Op& op) { return (op.kind == Kind::kAdd || op.kind == Kind::kSub) && is_plain(op); }

}  // namespace

Masks::Masks(Graph& graph, std::vector<std::optional<CalibratedValue>> values, GridGroups groups, DType dtype)
    : graph_(graph),
      values_(std::move(values)),
      groups_(std::move(groups)),
      dtype_(dtype),
      users_(graph.users()),
      outputs_(graph.outputs.begin(), graph.outputs.end()) {
  for (size_t v = 0; v < values_.size(); ++v)
    if (values_[v]) members_[groups_.of(static_cast<ValueId>(v))].push_back(static_cast<ValueId>(v));
}

const ConstantNumbers& Masks::constant(ValueId id) {
  const auto [it, is_new] = constants_.try_emplace(graph_.at(id).constant.get());
  if (is_new) it->second = constant_numbers(graph_, id);
  return it->second;
}

std::optional<Interval> Masks::range(ValueId id) {
  if (graph_.at(id).is_constant()) return constant(id).range;
  return values_[static_cast<size_t>(id)] ? std::optional(value(id).interval) : std::nullopt;
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

// The number by which the operand is multiplied, if it is the same positive one for all elements.
std::optional<double> Masks::factor(const Op& op, size_t input) {
  const bool is_quotient = op.kind == Kind::kDiv;
  if ((op.kind != Kind::kMul && !(is_quotient && input == 0)) || !is_plain(op)) return std::nullopt;
  const auto numbers = graph_.numbers(op.inputs[1 - input]);
  if (!numbers || numbers->empty()) return std::nullopt;
  const double number = numbers->front();
  const bool is_one = std::all_of(numbers->begin(), numbers->end(), [&](double other) { return other == number; });
  if (!is_one || !(number > 0) || !std::isfinite(number)) return std::nullopt;
  return is_quotient ? 1 / number : number;
}

double Masks::margin(const core::Shape& shape) const {
  if (dtype_ != DType::kInt8) return kMargin16;
  const core::Dim last = shape.empty() ? 1 : shape.back();
  const double row = core::is_symbol(last) ? kLongRow : static_cast<double>(last);
  return kMargin8 + std::log(std::max(1.0, row / kFewMasks));
}

// ---- what is needed ----

double Masks::least_of_group(ValueId root) {
  return found_once(leasts_, root, &Masks::find_least).value_or(-kInfinite);
}

std::optional<double> Masks::find_least(ValueId root) {
  double least = kInfinite;
  for (const ValueId id : members_[root]) {
    if (outputs_.contains(id)) least = std::min(least, needed_anyway(id));
    for (const OpId user : users_[static_cast<size_t>(id)])
      if (!groups_.chooses(user)) least = std::min(least, needed_by(graph_.ops[static_cast<size_t>(user)], id));
  }
  return least;
}

// All that the value has.
double Masks::needed_anyway(ValueId id) {
  return has_masks(groups_.of(id)) ? value(id).seen.low : value(id).interval.low;
}

double Masks::needed_by(const Op& reader, ValueId id) {
  const auto found = score(groups_.of(id));
  switch (reader.kind) {
    case Kind::kSoftmax: {
      const float beta = std::get<core::SoftmaxOptions>(reader.options).beta;
      if (beta > 0 && found) return found->least - margin(graph_.at(id).shape) / beta;
      break;
    }
    case Kind::kLogSoftmax:
      if (found) return found->least - kMargin16;
      break;
    case Kind::kArgMax:
      if (found) return found->least - kMargin8;
      break;
    case Kind::kLogistic:
      return dtype_ == DType::kInt8 ? -kMargin8 : -kMargin16;
    default: {
      double least = kInfinite;
      for (size_t i = 0; i < reader.inputs.size(); ++i)
        if (reader.inputs[i] == id) least = std::min(least, needed_of_operand(reader, i).low);
      if (least != -kInfinite) return least;
    }
  }
  return needed_anyway(id);
}

Interval Masks::needed_of_operand(const Op& op, size_t input) {
  Interval out{-kInfinite, kInfinite};
  const auto by = factor(op, input);
  if (!by && !is_plain_sum(op)) return out;
  const double least = least_of_group(groups_.of(op.outputs[0]));
  if (by) {
    out.low = least / *by;
    return out;
  }
  const auto other = range(op.inputs[1 - input]);
  if (!other) return out;
  if (op.kind == Kind::kAdd)
    out.low = least - other->high;
  else if (input == 0)
    out.low = least + other->low;
  else
    out.high = other->high - least;
  return out;
}

// ---- what there is ----

bool Masks::has_masks(ValueId root) {
  const auto found = score(root);
  return !found || found->has_masks;
}

// Numbers of a group but for masks; nullopt: it has no others.
std::optional<Masks::Score> Masks::score(ValueId root) { return found_once(scores_, root, &Masks::find_score); }

// Of all that comes into the group, but for constants and masks that are chosen in place of scores.
std::optional<Masks::Score> Masks::find_score(ValueId root) {
  std::optional<Score> all;
  bool has_masks = false;
  double comes_in = 0, results = 0;
  for (const ValueId id : members_[root]) {
    const OpId producer = graph_.at(id).producer;
    const bool is_result = producer >= 0 && groups_.chooses(producer);
    double& low = is_result ? results : comes_in;
    low = std::min(low, value(id).seen.low);
    if (is_result) continue;
    const auto own = score_of(id);
    has_masks = has_masks || !own || own->has_masks;
    if (own) all = Score{all ? std::min(all->least, own->least) : own->least, false};
  }
  // What a result has below all that comes in is a constant.
  if (all) all->has_masks = has_masks || (results <= kMask && results < comes_in);
  return all;
}

std::optional<Masks::Score> Masks::score_of(ValueId id) {
  const CalibratedValue& own = value(id);
  if (own.seen.low > kMask) return Score{own.interval.low, false};
  if (own.unmasked.is_empty) return std::nullopt;
  const OpId producer = graph_.at(id).producer;
  const auto found = producer < 0 ? std::nullopt : computed_score(graph_.ops[static_cast<size_t>(producer)]);
  // Where no number was seen that has no mask, rows of masks are what counts.
  if (found && found->has_masks && found->least <= own.seen.high)
    return Score{std::max(own.seen.low, found->least), true};
  return own.unmasked.least ? Score{*own.unmasked.least, true} : Score{own.interval.low, false};
}

std::optional<Masks::Score> Masks::computed_score(const Op& op) {
  if (is_plain_sum(op)) {
    const auto left = term(op.inputs[0], 1);
    const auto right = term(op.inputs[1], op.kind == Kind::kAdd ? 1 : -1);
    if (!left || !right) return std::nullopt;
    return Score{left->least + right->least, left->has_masks || right->has_masks};
  }
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const auto by = factor(op, i);
    auto data = by ? term(op.inputs[i], 1) : std::nullopt;
    if (!data) continue;
    data->least *= *by;
    return data;
  }
  return std::nullopt;
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
  const Unmasked& numbers = is_constant ? constant(id).unmasked : value(id).unmasked;
  if (const auto masked = sign > 0 ? numbers.least : numbers.most) return Score{sign * *masked, true};
  return Score{sign > 0 ? own->low : -own->high, false};
}

std::optional<double> Masks::harmful_below(ValueId root) {
  const auto found = score(root);
  if (!found || !found->has_masks) return std::nullopt;
  Interval all{0, 0};
  for (const ValueId id : members_[root]) all = unite(all, value(id).seen);
  const double low = std::max(all.low, least_of_group(root));
  const double own = all.high - found->least;
  const bool is_8 = dtype_ == DType::kInt8;
  const double steps = is_8 ? 255 : 65534, whole = is_8 ? all.high - low : 2 * std::max(all.high, -low);
  if (!(own > 0) || low >= found->least + kMask || own / whole * steps >= kLeastSteps) return std::nullopt;
  return found->least - kLeastGap;
}

}  // namespace lowtide::layout
