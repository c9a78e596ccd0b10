// SPDX-License-Identifier: Apache-2.0
#include "layout/quantize/needed_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "layout/core/builtin.h"

namespace lowtide::layout {
namespace {

constexpr double kAny = std::numeric_limits<double>::infinity();
constexpr double kStepsOfSmallest = 16, kStepsOfUnit = 16;

bool is_integer_cast(const Graph& graph, const Op& op) {
  return op.kind == Kind::kCast && stream::is_float(graph.at(op.inputs[0]).dtype) &&
         stream::is_integer(graph.at(op.outputs[0]).dtype);
}

}  // namespace

NeededSteps::NeededSteps(Graph& graph, const Calibrated& calibrated)
    : graph_(graph), calibrated_(calibrated), users_(graph.users()) {
  for (std::vector<double>& steps : steps_) steps.assign(graph.values.size(), kAny);
  // Readers come before what they read.
  for (auto op = graph.ops.rbegin(); op != graph.ops.rend(); ++op)
    for (size_t i = 0; i < op->inputs.size(); ++i) {
      const ValueId in = op->inputs[i];
      if (in == core::kAbsent || graph.at(in).is_constant() || !stream::is_float(graph.at(in).dtype)) continue;
      for (const bool by_terms : {false, true}) {
        double& own = steps_[by_terms ? 1 : 0][static_cast<size_t>(in)];
        own = std::min(own, of_operand(*op, i, by_terms));
      }
    }
}

double NeededSteps::of_operand(const Op& op, size_t input, bool by_terms) const {
  if (op.outputs.empty()) return kAny;
  const double of_result = of(op.outputs[0], by_terms);
  const bool is_needed = of_result < kAny;
  auto near_zero = [&] {
    const auto least = least_magnitude(op.inputs[input]);
    return least ? *least / kStepsOfSmallest : kAny;
  };
  switch (op.kind) {
    case Kind::kDiv:
      if (input == 1) return near_zero();
      break;
    case Kind::kRsqrt:
    case Kind::kLog:
      return near_zero();
    case Kind::kPow: {
      const auto exponents = input == 0 ? graph_.numbers(op.inputs[1]) : std::nullopt;
      const bool divides =
          exponents && std::any_of(exponents->begin(), exponents->end(), [](double exponent) { return exponent < 0; });
      return divides ? near_zero() : kAny;
    }
    case Kind::kSqrt: {
      if (!is_needed) return kAny;
      // A step at x is one of 1 / (2 sqrt(x)) in the root: fine enough for all roots, or for those of two steps or
      // more.
      const double least = least_magnitude(op.inputs[0]).value_or(0);
      return std::max(2 * std::sqrt(least) * of_result, 4 * of_result * of_result);
    }
    case Kind::kSin:
    case Kind::kCos:
      return 1 / kStepsOfUnit;
    case Kind::kFloor:
    case Kind::kCeil:
    case Kind::kRound:
      return is_needed || are_fractions_taken(op.inputs[0], op.outputs[0]) ? 1 / kStepsOfUnit : kAny;
    case Kind::kFloorMod: {
      if (input != 0) return kAny;
      // By divisors that are not known, whole units.
      double least = kAny;
      if (const auto divisors = graph_.numbers(op.inputs[1]))
        for (const double divisor : *divisors)
          if (divisor != 0) least = std::min(least, std::fabs(divisor));
      return (least == kAny ? 1 : least) / kStepsOfUnit;
    }
    case Kind::kCast:
      if (!is_integer_cast(graph_, op)) return of_result;
      return are_integers_used(op.outputs[0]) ? 1 / kStepsOfUnit : kAny;
    case Kind::kAdd:
    case Kind::kSub:
    case Kind::kNeg:
    case Kind::kAbs:
    case Kind::kRelu:
      return of_result;
    case Kind::kMean:
      return by_terms ? of_result : kAny;
    case Kind::kSum:
      return by_terms ? of_result / terms(op) : kAny;
    default:
      break;
  }
  if ((op.kind == Kind::kMul || op.kind == Kind::kDiv) && is_needed) {
    const auto known = factor(op, input);
    return known ? of_result / *known : kAny;
  }
  if (!chooses(op) || !is_data_input(op, input)) return kAny;
  double least = kAny;
  for (size_t i = 0; i < op.outputs.size(); ++i)
    if (op.outputs[i] != core::kAbsent && core::builtin(op.kind).outputs[i] == core::Role::kData)
      least = std::min(least, of(op.outputs[i], by_terms));
  return least;
}

// Where calibration saw the value, or the one that its elements come from.
std::optional<double> NeededSteps::least_magnitude(ValueId id) const {
  for (;;) {
    if (const CalibratedTensor* tensor = calibrated_tensor(graph_, calibrated_, id)) {
      const Interval& seen = tensor->seen;
      return seen.low > 0 ? seen.low : seen.high < 0 ? -seen.high : 0;
    }
    const OpId producer = graph_.at(id).producer;
    if (producer < 0) return std::nullopt;
    const Op& op = graph_.ops[static_cast<size_t>(producer)];
    const std::vector<ValueId> data = data_inputs(graph_, op);
    if (core::builtin(op.kind).numbers != core::Numbers::kMoved || data.size() != 1) return std::nullopt;
    id = data[0];
  }
}

// x - FLOOR(x)
bool NeededSteps::are_fractions_taken(ValueId data, ValueId rounded) const {
  const std::vector<OpId>& readers = users_[static_cast<size_t>(rounded)];
  return std::any_of(readers.begin(), readers.end(), [&](OpId reader) {
    const Op& op = graph_.ops[static_cast<size_t>(reader)];
    return op.kind == Kind::kSub && (op.inputs[0] == data || op.inputs[1] == data);
  });
}

// For more than the floats that they are again: then a rounded number that is one off is no more than that.
bool NeededSteps::are_integers_used(ValueId id) const {
  const bool is_output = std::find(graph_.outputs.begin(), graph_.outputs.end(), id) != graph_.outputs.end();
  const std::vector<OpId>& readers = users_[static_cast<size_t>(id)];
  return is_output || std::any_of(readers.begin(), readers.end(), [&](OpId reader) {
           const Op& op = graph_.ops[static_cast<size_t>(reader)];
           return op.kind != Kind::kCast || !stream::is_float(graph_.at(op.outputs[0]).dtype);
         });
}

// How much larger the errors of an operand are in the result; nullopt: not known, or the result is 0.
std::optional<double> NeededSteps::factor(const Op& op, size_t input) const {
  if (op.kind == Kind::kDiv && input == 1) return std::nullopt;
  const auto others = graph_.numbers(op.inputs[1 - input]);
  if (!others || others->empty()) return std::nullopt;
  double most = 0;
  for (const double other : *others) most = std::max(most, std::fabs(op.kind == Kind::kDiv ? 1 / other : other));
  return most > 0 && std::isfinite(most) ? std::optional(most) : std::nullopt;
}

// How many elements meet in one sum; of extents that are known at run time only, one.
double NeededSteps::terms(const Op& op) const {
  auto count = [&](ValueId id) {
    double out = 1;
    for (const core::Dim extent : graph_.at(id).shape)
      if (!core::is_symbol(extent)) out *= static_cast<double>(std::max<core::Dim>(extent, 1));
    return out;
  };
  return std::max(count(op.inputs[0]) / count(op.outputs[0]), 1.0);
}

}  // namespace lowtide::layout
