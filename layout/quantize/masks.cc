// SPDX-License-Identifier: Apache-2.0
// First what there is, in the order of computation: numbers but for masks. Then what is needed, in the opposite order.
// Both are found for each value, and of what shares a grid the union counts.
#include "layout/quantize/masks.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "layout/core/builtin.h"
#include "layout/quantize/known_ranges.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::layout {
namespace {

using core::Role;

// How far below the least score masks stay: e^-8 is a tenth of a step of SOFTMAX in 8 bits, e^-16 rounds to 0 in
// floats. LOGISTIC, TANH and LOG_SOFTMAX round to the end of their grids there.
constexpr double kMargin8 = 8, kMargin16 = 16;
// So many masks add no more than 2 % to the sum of a row at kMargin8.
constexpr double kFewMasks = 64;
// Where the length of a row is known at run time only.
constexpr double kLongRow = 4096;
// Fewer steps for all numbers but masks are too few.
constexpr double kLeastSteps = 32;

// Half of what kernels of MUL take as a factor from data to result.
constexpr double kMostWidening = 128;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

bool is_plain(const Op& op) { return core::fused_activation(op) == core::Activation::kNone; }
bool is_plain_sum(const Op& op) { return (op.kind == Kind::kAdd || op.kind == Kind::kSub) && is_plain(op); }
// Of an operand of such a sum.
double sign_of(const Op& op, size_t input) { return op.kind == Kind::kSub && input == 1 ? -1 : 1; }

// Each element of its first result is one of its data.
bool gives_elements(const Op& op) {
  return (chooses(op) || op.kind == Kind::kTopkV2) && !op.outputs.empty() &&
         core::builtin(op.kind).outputs[0] == Role::kData;
}

// Of these all inputs are such data, and there may be many.
bool joins(const Op& op) { return op.kind == Kind::kConcatenation || op.kind == Kind::kPack; }

}  // namespace

Masks::Masks(Graph& graph, std::vector<std::optional<CalibratedValue>> values, std::function<ValueId(ValueId)> group_of,
             DType dtype, KnownConstants& constants)
    : graph_(graph),
      values_(std::move(values)),
      group_of_(std::move(group_of)),
      dtype_(dtype),
      constants_(constants),
      users_(graph.users()),
      outputs_(graph.outputs.begin(), graph.outputs.end()),
      sides_(values_.size()),
      is_learned_(values_.size(), false) {
  for (const Op& op : graph_.ops) {
    auto is_learned = [&](ValueId id) { return id != core::kAbsent && is_learned_[static_cast<size_t>(id)]; };
    if (core::weights_of(op.kind) == nullptr && std::none_of(op.inputs.begin(), op.inputs.end(), is_learned)) continue;
    for (const ValueId id : op.outputs)
      if (id != core::kAbsent) is_learned_[static_cast<size_t>(id)] = true;
  }
  std::vector<ValueId> known;
  for (size_t v = 0; v < values_.size(); ++v)
    if (values_[v] && producer(static_cast<ValueId>(v)) == nullptr) known.push_back(static_cast<ValueId>(v));
  for (const Op& op : graph_.ops)
    std::copy_if(op.outputs.begin(), op.outputs.end(), std::back_inserter(known),
                 [&](ValueId id) { return is_known(id); });
  for (const ValueId id : known) find_score(id);
  std::reverse(known.begin(), known.end());
  for (const ValueId id : known) find_need(id);
  for (const ValueId id : known) add_interval(id);
  for (const Op& op : graph_.ops) {
    if (!gives_elements(op) || !is_known(op.outputs[0])) continue;
    Interval& whole = intervals_[group_of_(op.outputs[0])];
    for (size_t i = 0; i < op.inputs.size(); ++i)
      if (const auto added = constant_in_result(op, i)) whole = unite(whole, *added);
  }
}

Interval Masks::from(End end, const Interval& x) { return end == End::kLow ? x : Interval{-x.high, -x.low}; }

// The end of an operand, with a factor of this sign, from which an end of the result comes, and the other way round.
Masks::End Masks::turned(End end, double sign) {
  if (sign >= 0) return end;
  return end == End::kLow ? End::kHigh : End::kLow;
}

const Op* Masks::producer(ValueId id) const {
  const OpId op = graph_.at(id).producer;
  return op < 0 ? nullptr : &graph_.ops[static_cast<size_t>(op)];
}

std::optional<Interval> Masks::range(ValueId id) {
  if (graph_.at(id).is_constant()) return constants_.of(id).range;
  return is_known(id) ? std::optional(value(id).interval) : std::nullopt;
}

// The number by which the operand is multiplied, if it is the same one for all elements.
std::optional<double> Masks::factor(const Op& op, size_t input) {
  if (op.kind == Kind::kNeg) return -1;
  const bool is_quotient = op.kind == Kind::kDiv;
  if ((op.kind != Kind::kMul && !(is_quotient && input == 0)) || !is_plain(op)) return std::nullopt;
  const auto numbers = graph_.numbers(op.inputs[1 - input]);
  if (!numbers || numbers->empty()) return std::nullopt;
  const double number = numbers->front();
  const bool is_one = std::all_of(numbers->begin(), numbers->end(), [&](double other) { return other == number; });
  if (!is_one || number == 0 || !std::isfinite(number)) return std::nullopt;
  return is_quotient ? 1 / number : number;
}

double Masks::margin(const core::Shape& shape) const {
  if (dtype_ != DType::kInt8) return kMargin16;
  const core::Dim last = shape.empty() ? 1 : shape.back();
  const double row = core::is_symbol(last) ? kLongRow : static_cast<double>(last);
  return kMargin8 + std::log(std::max(1.0, row / kFewMasks));
}

// Of a clip: no element of its result is below this.
double Masks::limit_of(const Op& op, size_t data, End end) {
  if (op.kind != Kind::kMaximum && op.kind != Kind::kMinimum) return from(end, limits_of_activation(op)).low;
  const ValueId limit = op.inputs[1 - data];
  const bool is_at_end = (op.kind == Kind::kMaximum) == (end == End::kLow);
  if (!is_at_end || !graph_.at(limit).is_constant() || !constants_.of(limit).all) return -kInfinite;
  return from(end, *constants_.of(limit).all).low;
}

// ---- what there is ----

bool Masks::has_masks(ValueId id, End end) const {
  const Score& found = side(id, end).score;
  return found.has_masks || found.least == kInfinite;
}

void Masks::find_score(ValueId id) {
  for (const End end : {End::kLow, End::kHigh}) {
    Side& own = side(id, end);
    own.score = score_of(id, end);
    own.may_have_masks = may_have_masks(id, end);
    Group& group = groups_[group_of_(id)];
    group.is_zero = group.is_zero && is_zero(id);
    GroupSide& all = group.sides[static_cast<size_t>(end)];
    all.least = std::min(all.least, own.score.least);
    all.has_masks = all.has_masks || has_masks(id, end);
    all.may_have_masks = all.may_have_masks || own.may_have_masks;
  }
}

Masks::Score Masks::score_of(ValueId id, End end) {
  const CalibratedValue& own = value(id);
  const Interval seen = from(end, own.seen), interval = from(end, own.interval);
  if (seen.low > kMask) return {interval.low, false};
  const Op* op = producer(id);
  if (op != nullptr && gives_elements(*op))
    if (const auto found = chosen_score(*op, seen.low, end)) return *found;
  const bool is_low = end == End::kLow;
  if (is_low ? own.unmasked.is_empty : own.unmasked.is_empty_above) return {kInfinite, true};
  const auto found = op == nullptr ? std::nullopt : computed_score(*op, end);
  // Where no number was seen that has no mask, rows of masks are what counts.
  if (found && found->has_masks && found->least <= seen.high) return {std::max(seen.low, found->least), true};
  const std::optional<double> least = own.unmasked.least_from(is_low);
  return least ? Score{*least, true} : Score{interval.low, false};
}

// Of all that is not constant among the data, even where masks are chosen in place of it: what the result has below all
// that comes in is a constant.
std::optional<Masks::Score> Masks::chosen_score(const Op& op, double least_seen, End end) {
  Score all{kInfinite, false};
  double comes_in = kInfinite;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!is_data_input(op, i) || graph_.at(op.inputs[i]).is_constant()) continue;
    if (!is_known(op.inputs[i])) return std::nullopt;
    all.least = std::min(all.least, std::max(side(op.inputs[i], end).score.least, limit_of(op, i, end)));
    all.has_masks = all.has_masks || has_masks(op.inputs[i], end);
    comes_in = std::min(comes_in, from(end, value(op.inputs[i]).seen).low);
  }
  if (comes_in == kInfinite) return std::nullopt;
  all.has_masks = all.has_masks || least_seen < comes_in;
  all.least = std::max(all.least, least_seen);
  return all;
}

std::optional<Masks::Score> Masks::computed_score(const Op& op, End end) {
  if (is_plain_sum(op)) {
    const auto left = term(op.inputs[0], end), right = term(op.inputs[1], turned(end, sign_of(op, 1)));
    if (!left || !right) return std::nullopt;
    return Score{left->least + right->least, left->has_masks || right->has_masks};
  }
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const auto by = factor(op, i);
    auto data = by ? term(op.inputs[i], turned(end, *by)) : std::nullopt;
    if (!data) continue;
    data->least *= std::fabs(*by);
    return data;
  }
  return std::nullopt;
}

// Of an operand; nullopt: not known.
std::optional<Masks::Score> Masks::term(ValueId id, End end) {
  const auto own = range(id);
  if (!own) return std::nullopt;
  std::optional<double> least;
  if (graph_.at(id).is_constant())
    least = constants_.of(id).unmasked.least_from(end == End::kLow);
  else if (const Score& found = side(id, end).score; found.has_masks && found.least != kInfinite)
    least = found.least;
  return least ? Score{*least, true} : Score{from(end, *own).low, false};
}

// Masks that no sample had. What a dead layer gives is always 0, too.
bool Masks::may_have_masks(ValueId id, End end) {
  if (is_zero(id) && !is_learned_[static_cast<size_t>(id)]) return true;
  const Op* op = producer(id);
  if (op == nullptr) return false;
  auto may = [&](ValueId in, End from_end) { return is_known(in) && side(in, from_end).may_have_masks; };
  if (is_plain_sum(*op)) return may(op->inputs[0], end) || may(op->inputs[1], turned(end, sign_of(*op, 1)));
  for (size_t i = 0; i < op->inputs.size(); ++i) {
    if (gives_elements(*op) && is_data_input(*op, i)) {
      const auto constant = chosen_constant(*op, i);
      const double least = constant ? from(end, *constant).low : 0;
      if (may(op->inputs[i], end) || (least <= kMask && least < from(end, value(id).seen).low)) return true;
    } else if (const auto by = factor(*op, i)) {
      return may(op->inputs[i], turned(end, *by));
    }
  }
  return false;
}

bool Masks::has_moving_data(const Op& op) const { return joins(op) || !data_inputs(graph_, op).empty(); }

// What a constant among the data of a choice may add to the result, with infinities and 0.
std::optional<Interval> Masks::chosen_constant(const Op& op, size_t i) {
  if (!gives_elements(op) || !is_data_input(op, i)) return std::nullopt;
  const core::Value& constant = graph_.at(op.inputs[i]);
  if (!constant.is_constant() || !stream::is_small(*constant.constant)) return std::nullopt;
  // A table of constants alone has more than what is chosen of it.
  if (op.kind != Kind::kSelectV2 && !has_moving_data(op)) return std::nullopt;
  const auto& all = constants_.of(op.inputs[i]).all;
  if (!all) return std::nullopt;
  Interval out = unite(*all, {});
  if (op.kind == Kind::kMaximum) out.low = 0;
  if (op.kind == Kind::kMinimum) out.high = 0;
  return out;
}

// ---- what is needed ----

void Masks::find_need(ValueId id) {
  for (const End end : {End::kLow, End::kHigh}) {
    double needed = outputs_.contains(id) ? needed_anyway(id, end) : kInfinite;
    Side& at = side(id, end);
    at.is_read = outputs_.contains(id);
    for (const OpId user : users(id)) {
      const Op& reader = graph_.ops[static_cast<size_t>(user)];
      needed = std::min(needed, needed_by(reader, id, end));
      (hides(reader, id, end) ? at.hides : at.is_read) = true;
    }
    at.needed = needed;
  }
}

// Whether masks at that end are no longer there in the end.
bool Masks::hides(const Op& reader, ValueId id, End end) {
  switch (reader.kind) {
    case Kind::kSoftmax:
    case Kind::kLogSoftmax:
    case Kind::kArgMax:
      return end == End::kLow;
    case Kind::kArgMin:
      return end == End::kHigh;
    case Kind::kLogistic:
    case Kind::kTanh:
      return true;
    default:
      break;
  }
  if (reader.outputs.empty() || !is_known(reader.outputs[0])) return false;
  if (joins(reader)) return side(reader.outputs[0], end).hides;
  for (size_t i = 0; i < reader.inputs.size(); ++i) {
    if (reader.inputs[i] != id) continue;
    const auto by = factor(reader, i);
    const bool keeps = by || is_plain_sum(reader) || (gives_elements(reader) && is_data_input(reader, i));
    const double sign = by ? *by : is_plain_sum(reader) ? sign_of(reader, i) : 1;
    if (keeps && side(reader.outputs[0], turned(end, sign)).hides) return true;
  }
  return false;
}

// All that the value has. It matters only where masks are in what shares its grid.
double Masks::needed_anyway(ValueId id, End end) const {
  const GroupSide& all = of_group(id, end);
  if (!value(id).is_finite || !(all.has_masks || all.may_have_masks)) return -kInfinite;
  return from(end, has_masks(id, end) ? value(id).seen : value(id).interval).low;
}

double Masks::needed_by(const Op& reader, ValueId id, End end) {
  const double least = side(id, end).score.least;
  const bool is_low = end == End::kLow;
  switch (reader.kind) {
    case Kind::kSoftmax: {
      const float beta = std::get<core::SoftmaxOptions>(reader.options).beta;
      if (is_low && beta > 0 && least != kInfinite) return least - margin(graph_.at(id).shape) / beta;
      break;
    }
    case Kind::kLogSoftmax:
      if (is_low && least != kInfinite) return needed_by_log_softmax(reader, id);
      break;
    case Kind::kArgMax:
    case Kind::kArgMin:
      if (is_low == (reader.kind == Kind::kArgMax) && least != kInfinite) return least - kMargin8;
      break;
    case Kind::kLogistic:
    case Kind::kTanh: {
      const GroupSide& all = of_group(id, end);
      if (all.has_masks || all.may_have_masks || !value(id).is_finite)
        return dtype_ == DType::kInt8 ? -kMargin8 : -kMargin16;
      break;
    }
    case Kind::kRelu:
    case Kind::kRelu6:
    case Kind::kReluN1To1:
    case Kind::kRelu0To1:
      return std::max(from(end, limits_of_activation(reader)).low, needed_anyway(id, end));
    default: {
      if (gives_elements(reader)) return needed_by_choice(reader, id, end);
      double needed = kInfinite;
      for (size_t i = 0; i < reader.inputs.size(); ++i)
        if (reader.inputs[i] == id) needed = std::min(needed, needed_of_operand(reader, i, end));
      if (needed != -kInfinite) return needed;
    }
  }
  return needed_anyway(id, end);
}

// Its result is the score less the logarithm of a sum, which is no less than the least score.
double Masks::needed_by_log_softmax(const Op& reader, ValueId id) {
  const double least = side(id, End::kLow).score.least;
  const double of_result = is_known(reader.outputs[0]) ? side(reader.outputs[0], End::kLow).needed : -kInfinite;
  if (of_result == -kInfinite) return needed_anyway(id, End::kLow);
  return least - std::max(kMargin16, -of_result);
}

// Numbers that are chosen are the same in the result. Places of the largest, too, need the order of all but masks.
double Masks::needed_by_choice(const Op& op, ValueId id, End end) {
  double needed = kInfinite;
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    if (op.outputs[i] == core::kAbsent || !is_used(op.outputs[i])) continue;
    if (core::builtin(op.kind).outputs[i] == Role::kData)
      needed = std::min(needed, is_known(op.outputs[i]) ? side(op.outputs[i], end).needed : -kInfinite);
    else
      needed = std::min(needed, end == End::kLow ? side(id, end).score.least - kMargin8 : -kInfinite);
  }
  for (size_t i = 0; !joins(op) && i < op.inputs.size(); ++i) {
    if (op.inputs[i] != id) continue;
    if (!is_data_input(op, i)) return needed_anyway(id, end);
    needed = std::max(needed, limit_of(op, i, end));
  }
  return needed == -kInfinite ? needed_anyway(id, end) : needed;
}

double Masks::needed_of_operand(const Op& op, size_t input, End end) {
  if (op.outputs.empty() || !is_known(op.outputs[0])) return -kInfinite;
  const auto by = factor(op, input);
  if (by) return side(op.outputs[0], turned(end, *by)).needed / std::fabs(*by);
  if (!is_plain_sum(op)) return -kInfinite;
  const End of_result = turned(end, sign_of(op, input));
  const double needed = side(op.outputs[0], of_result).needed;
  const auto other = needed == -kInfinite ? std::nullopt : range(op.inputs[1 - input]);
  return other ? needed - from(turned(of_result, sign_of(op, 1 - input)), *other).high : -kInfinite;
}

Interval Masks::needed_of_operand(const Op& op, size_t input) {
  return {needed_of_operand(op, input, End::kLow), -needed_of_operand(op, input, End::kHigh)};
}

bool Masks::needs_infinities(ValueId id) const {
  return !value(id).is_finite && side(id, End::kLow).needed == -kInfinite && side(id, End::kHigh).needed == -kInfinite;
}

// ---- intervals ----

void Masks::add_interval(ValueId id) {
  const CalibratedValue& own = value(id);
  const bool is_all_zero = groups_.at(group_of_(id)).is_zero;
  for (const End end : {End::kLow, End::kHigh}) {
    Side& at = side(id, end);
    at.low = from(end, own.interval).low;
    if (!std::isfinite(at.needed) || is_all_zero) continue;
    at.is_cut = has_masks(id, end) && from(end, own.seen).low < at.needed;
    at.low = std::min(
        0.0, at.is_cut || (is_open(at) && !is_zero(id)) || !own.is_finite ? at.needed : std::max(at.low, at.needed));
  }
  if (is_all_zero) {
    Side &low = side(id, End::kLow), &high = side(id, End::kHigh);
    const bool any_masks = is_unseen_mask(id);
    if (!any_masks || low.hides) low.low = room(id, End::kLow);
    if (!any_masks || high.hides) high.low = room(id, End::kHigh);
    // MUL takes such intervals, and those of one sign, for results far outside.
    if (low.low < 0 && high.low < 0) low.low = high.low = std::min(low.low, high.low);
  }
  // The trap: the other end was chosen for the steps of a grid that has the masks in it, and may be far too low, or
  // that of a symmetric interval. So it is the largest number that was seen.
  for (const End end : {End::kLow, End::kHigh}) {
    Side &at = side(id, end), &other = side(id, turned(end, -1));
    if (other.is_cut && !at.is_cut)
      at.low = std::min(at.low, std::max(from(end, own.seen).low, std::isfinite(at.needed) ? at.needed : -kInfinite));
  }
  const Interval added{side(id, End::kLow).low, -side(id, End::kHigh).low};
  const auto [it, is_new] = intervals_.try_emplace(group_of_(id), added);
  if (!is_new) it->second = unite(it->second, added);
}

// Of what is always 0 any scale is right: how far it may go until its readers need no more. Before they are multiplied,
// masks are mostly 0 and 1, and come from such numbers: kernels refuse scales that are very different.
double Masks::room(ValueId id, End end) {
  double out = 0;
  for (const OpId user : users(id)) {
    const Op& op = graph_.ops[static_cast<size_t>(user)];
    if (op.outputs.empty() || !is_known(op.outputs[0])) continue;
    if (joins(op)) out = std::min(out, side(op.outputs[0], end).low);
    for (size_t i = 0; !joins(op) && i < op.inputs.size(); ++i) {
      if (op.inputs[i] != id) continue;
      if (const auto by = factor(op, i)) {
        const double low = side(op.outputs[0], turned(end, *by)).low / std::fabs(*by);
        if (low < 0 && std::isfinite(low)) out = std::min({out, low, std::max(-1.0, low * kMostWidening)});
      } else if (is_plain_sum(op)) {
        const End of_result = turned(end, sign_of(op, i));
        const auto other = range(op.inputs[1 - i]);
        const double most = other ? from(turned(of_result, sign_of(op, 1 - i)), *other).high : kInfinite;
        if (std::isfinite(most)) out = std::min(out, side(op.outputs[0], of_result).low - most);
      } else if (gives_elements(op) && is_data_input(op, i)) {
        out = std::min(out, side(op.outputs[0], end).low);
      }
    }
  }
  return out;
}

std::optional<Interval> Masks::constant_in_result(const Op& op, size_t i) {
  const auto constant = chosen_constant(op, i);
  if (!constant || !is_known(op.outputs[0]) || !has_moving_data(op)) return std::nullopt;
  const CalibratedValue& result = value(op.outputs[0]);
  auto end_of = [&](End end) {
    const Side& at = side(op.outputs[0], end);
    const double low = from(end, *constant).low;
    const bool is_unseen = low < from(end, result.seen).low;
    if (is_unseen && result.is_finite && !is_open(at)) return std::max(low, from(end, result.interval).low);
    if (std::isfinite(at.needed)) return std::min(0.0, std::max(low, at.needed));
    return is_unseen ? std::max(low, from(end, result.interval).low) : low;
  };
  return Interval{end_of(End::kLow), -end_of(End::kHigh)};
}

std::optional<double> Masks::lost_constant(const Op& op, size_t i) {
  const auto constant = chosen_constant(op, i);
  if (!constant || !is_known(op.outputs[0])) return std::nullopt;
  const CalibratedValue& result = value(op.outputs[0]);
  for (const End end : {End::kLow, End::kHigh}) {
    const double low = from(end, *constant).low;
    const bool is_unseen = result.is_finite && low < from(end, result.seen).low;
    if (is_unseen && !is_open(side(op.outputs[0], end))) return end == End::kLow ? constant->low : constant->high;
  }
  return std::nullopt;
}

Interval Masks::harmless(ValueId root) {
  const Interval whole = intervals_.at(root);
  Interval out{-kInfinite, kInfinite}, own = whole;
  const Group& all = groups_.at(root);
  const GroupSide &low = all.sides[0], &high = all.sides[1];
  const bool is_low = low.has_masks && low.least != kInfinite && whole.low < low.least + kMask;
  const bool is_high = high.has_masks && high.least != kInfinite && -whole.high < high.least + kMask;
  if (is_low) own.low = low.least;
  if (is_high) own.high = -high.least;
  const double extent = dtype_ == DType::kInt8 ? whole.high - whole.low : 2 * std::max(whole.high, -whole.low);
  const double steps = dtype_ == DType::kInt8 ? 255 : 65534;
  if (!(own.high > own.low) || (own.high - own.low) / extent * steps >= kLeastSteps) return out;
  if (is_low) out.low = own.low - kLeastGap;
  if (is_high) out.high = own.high + kLeastGap;
  return out;
}

// ---- for the graph ----

bool Masks::is_limited(ValueId id) {
  const CalibratedValue& own = value(id);
  const Interval whole = intervals_.at(group_of_(id));
  for (const End end : {End::kLow, End::kHigh}) {
    const Side& at = side(id, end);
    const double low = from(end, whole).low;
    if (from(end, own.interval).low < low || (at.is_cut && from(end, own.seen).low < low)) return true;
    if (!std::isfinite(at.needed)) continue;
    if (!own.is_finite || (is_open(at) && at.needed < from(end, own.interval).low)) return true;
  }
  return false;
}

bool Masks::is_unseen_mask(ValueId id) const {
  auto is_one = [&](const Side& at) { return at.may_have_masks && at.hides; };
  return is_zero(id) && (is_one(side(id, End::kLow)) || is_one(side(id, End::kHigh)));
}

double Masks::farthest(ValueId id) {
  if (!value(id).is_finite || is_unseen_mask(id)) return kInfinite;
  Interval all = value(id).seen;
  if (const Op* op = producer(id))
    for (size_t i = 0; i < op->inputs.size(); ++i)
      if (const auto constant = chosen_constant(*op, i)) all = unite(all, *constant);
  return std::max(-all.low, all.high);
}

}  // namespace lowtide::layout
