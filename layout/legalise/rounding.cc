// SPDX-License-Identifier: Apache-2.0
#include "layout/legalise/rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "layout/core/builtin.h"

namespace lowtide::layout {

using core::DType;
using core::Kind;
using core::Op;
using core::Val;

namespace {

bool is_computed_in_integers(const core::Graph& graph, const Op& op) {
  if (op.kind == Kind::kQuantize || op.kind == Kind::kDead || op.outputs.empty()) return false;
  const core::Integers integers = core::builtin(op.kind).integers;
  return integers != core::Integers::kNone && integers != core::Integers::kChosen &&
         graph.at(op.outputs[0]).quantization.has_value();
}

// Whether a value cannot be zero: a positive number was added to it, as normalisations do.
bool is_offset(core::Graph& graph, core::ValueId id) {
  while (graph.at(id).producer >= 0) {
    const Op& op = graph.ops[static_cast<size_t>(graph.at(id).producer)];
    if (op.kind == Kind::kExp) return true;
    if (op.kind == Kind::kAdd)
      return std::any_of(op.inputs.begin(), op.inputs.end(), [&](core::ValueId input) {
        const auto numbers = graph.numbers(input);
        return numbers && std::all_of(numbers->begin(), numbers->end(), [](double number) { return number > 0; });
      });
    if (op.kind != Kind::kSqrt && op.kind != Kind::kReshape && op.kind != Kind::kTranspose) return false;
    id = op.inputs[0];
  }
  return graph.at(id).is_constant();
}

// Whether the result depends on the sign of an operand that is zero.
bool tells_zeros_apart(core::Graph& graph, const Op& op) {
  switch (op.kind) {
    case Kind::kDiv:
      return stream::is_float(graph.at(op.inputs[0]).dtype) && !is_offset(graph, op.inputs[1]);
    case Kind::kRsqrt:
      return !is_offset(graph, op.inputs[0]);
    case Kind::kPow:
    case Kind::kAtan2:
    case Kind::kCustom:
      return true;
    case Kind::kBitcast:
      return graph.at(op.inputs[0]).dtype != graph.at(op.outputs[0]).dtype;
    default:
      return false;
  }
}

// The largest number that a value can have by the op that makes it; infinity where that says nothing. The model's
// inputs are taken to have the range of the scale that they are quantized to.
double most_by_producer(core::Graph& graph, core::ValueId id) {
  constexpr double kUnbounded = std::numeric_limits<double>::infinity();
  while (graph.at(id).producer >= 0) {
    const Op& op = graph.op(graph.at(id).producer);
    const core::Builtin& row = core::builtin(op.kind);
    const bool may_limit = row.activation != core::kNoActivation;
    const core::Activation activation = may_limit ? core::fused_activation(op) : core::Activation::kNone;
    if (op.kind == Kind::kLogistic || op.kind == Kind::kSoftmax || op.kind == Kind::kTanh ||
        op.kind == Kind::kRelu0To1 || op.kind == Kind::kReluN1To1 || activation == core::Activation::kReluN1To1)
      return 1;
    if (op.kind == Kind::kRelu6 || activation == core::Activation::kRelu6) return 6;
    if (op.kind == Kind::kMinimum) {
      for (const core::ValueId input : op.inputs)
        if (const auto numbers = graph.numbers(input); numbers && numbers->size() == 1) return numbers->front();
      return kUnbounded;
    }
    if (op.kind == Kind::kDequantize) {
      const core::Value& integers = graph.at(op.inputs[0]);
      if (!integers.quantization || integers.quantization->scale.size() != 1) return kUnbounded;
      // Zero points have the bits of the integers.
      return integers.quantization->scale[0] * std::ldexp(1.0, stream::bits(integers.dtype));
    }
    size_t data = 0, count = 0;
    for (size_t i = 0; i < op.inputs.size(); ++i)
      if (core::has_input(op, i) && row.inputs[i] == core::Role::kData) data = i, ++count;
    if (row.numbers != core::Numbers::kMoved || count != 1) return kUnbounded;
    id = op.inputs[data];
  }
  return 0;
}

// Kernels convert x / scale to 32 bits, where numbers from 2^31 on become the least one: XNNPACK to 16 bits, the
// built-in kernels to all types. Few values are known to be smaller; for types of 8 bits, which most models have, only
// what is known to be larger counts.
bool may_overflow(core::Graph& graph, const Op& op) {
  constexpr double kMostSteps = 0x1p30;
  const core::Value& result = graph.at(op.outputs[0]);
  const double steps = most_by_producer(graph, op.inputs[0]) / result.quantization->scale[0];
  if (steps < kMostSteps) return false;
  return result.dtype == DType::kInt16 || !std::isinf(steps);
}

bool has_no_kernel(const core::Value& value) {
  if (!value.quantization) return false;
  const auto& zero = value.quantization->zero_point;
  return value.dtype == DType::kUint16 || (value.dtype == DType::kInt16 && !zero.empty() && zero[0] != 0);
}

}  // namespace

Rounding::Rounding(core::Builder& builder, bool only_integers)
    : b_(builder),
      any_integer_kernel_(only_integers ||
                          std::any_of(b_.graph.ops.begin(), b_.graph.ops.end(),
                                      [&](const Op& op) { return is_computed_in_integers(b_.graph, op); })),
      zeros_differ_(std::any_of(b_.graph.ops.begin(), b_.graph.ops.end(),
                                [&](const Op& op) { return tells_zeros_apart(b_.graph, op); })) {}

bool Rounding::is_formula(const Op& quantize) const {
  return !any_integer_kernel_ || has_no_kernel(b_.graph.at(quantize.outputs[0]));
}

bool Rounding::takes(const Op& op) const {
  switch (op.kind) {
    case Kind::kQuantize: {
      const core::Value& result = b_.graph.at(op.outputs[0]);
      return b_.graph.at(op.inputs[0]).dtype == DType::kFloat32 && result.quantization &&
             result.quantization->scale.size() == 1 &&
             (is_formula(op) || (!limited_.contains(op.outputs[0]) && may_overflow(b_.graph, op)));
    }
    // The bits without scales, or the numbers.
    case Kind::kBitcast:
      return levels_.contains(op.inputs[0]) && b_.graph.at(op.inputs[0]).dtype == b_.graph.at(op.outputs[0]).dtype;
    case Kind::kDequantize:
      return levels_.contains(op.inputs[0]) || has_no_kernel(b_.graph.at(op.inputs[0]));
    default:
      return false;
  }
}

Op Rounding::expand(const Op& op) {
  Op last{.kind = Kind::kCast, .outputs = op.outputs, .origin = op.origin};
  const DType to = b_.graph.at(op.outputs[0]).dtype;
  if (op.kind == Kind::kDequantize) {
    const core::Quantization parameters = *b_.graph.at(op.inputs[0]).quantization;
    const float scale = parameters.scale[0];
    auto known = levels_.find(op.inputs[0]);
    if (known == levels_.end()) {  // integers that the model is given
      const Val stored = b_.cast(Val{op.inputs[0]}, DType::kFloat32);
      const auto zero = static_cast<double>(parameters.zero_point[0]);
      known = levels_.emplace(op.inputs[0], Levels{b_.sub(stored, zero), stored, false}).first;
    }
    // ROUND gives -0 for what is below zero; an integer has no sign of zero.
    Levels& levels = known->second;
    if (std::exchange(levels.may_be_minus_zero, false))
      levels.centred = b_.add(levels.centred, b_.scalar(0, DType::kFloat32));
    last.kind = Kind::kMul;
    last.inputs = {levels.centred.id, b_.scalar(scale, DType::kFloat32).id};
    last.options = core::BinaryOptions{};
    return last;
  }
  if (op.kind == Kind::kQuantize) {
    const core::Quantization parameters = *b_.graph.at(op.outputs[0]).quantization;
    const auto zero = parameters.zero_point.empty() ? 0.0 : static_cast<double>(parameters.zero_point[0]);
    const double count = std::ldexp(1.0, stream::bits(to));
    const double least = stream::is_signed_int(to) ? -count / 2 : 0;
    auto number = [&](double value) { return b_.scalar(value, DType::kFloat32); };
    if (!is_formula(op)) {
      limited_.insert(op.outputs[0]);
      Op kernel = op;
      const double end = parameters.scale[0] * (least + count - 1 - zero);
      // The last step of the largest scales is beyond the floats; infinity would limit nothing.
      constexpr double kMostFloat = std::numeric_limits<float>::max();
      kernel.inputs = {b_.minimum(Val{op.inputs[0]}, number(std::min(end, kMostFloat))).id};
      return kernel;
    }
    Val level = b_.round(b_.div(Val{op.inputs[0]}, number(parameters.scale[0])));
    level = b_.minimum(b_.maximum(level, number(least - zero)), number(least + count - 1 - zero));
    levels_[op.outputs[0]] = {level, zero == 0 ? level : b_.add(level, number(zero)), zeros_differ_};
  }
  const core::ValueId quantized = op.kind == Kind::kQuantize ? op.outputs[0] : op.inputs[0];
  last.inputs = {levels_.at(quantized).stored.id};
  last.options = core::IndexOptions{to};
  return last;
}

}  // namespace lowtide::layout
