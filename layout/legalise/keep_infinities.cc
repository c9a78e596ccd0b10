// SPDX-License-Identifier: Apache-2.0
#include "layout/legalise/keep_infinities.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "layout/core/builder.h"
#include "layout/core/builtin.h"
#include "layout/core/replacements.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::layout {
namespace {

using core::Kind;
using core::Op;
using core::Val;
using core::ValueId;

// Whether an infinity among the op's data is one in its result. A RELU6 fused into the op leaves none; a RELU those
// above.
bool carries(const Op& op) {
  const core::Activation activation = core::fused_activation(op);
  const bool bounded = activation != core::Activation::kNone && activation != core::Activation::kRelu;
  return !bounded && core::builtin(op.kind).keeps_infinities;
}

bool holds_infinity(core::Graph& graph, ValueId id) {
  const core::Value& value = graph.at(id);
  if (!value.is_constant() || !stream::is_float(value.dtype)) return false;
  auto numbers = graph.numbers(id);
  return numbers && std::any_of(numbers->begin(), numbers->end(), [](double x) { return std::isinf(x); });
}

// Whether a constant holds finite numbers only; false also where it is not read.
bool is_finite_constant(core::Graph& graph, ValueId id) {
  const auto numbers = graph.at(id).is_constant() ? graph.numbers(id) : std::nullopt;
  return numbers && std::all_of(numbers->begin(), numbers->end(), [](double x) { return std::isfinite(x); });
}

// Infinities of constants, where outputs and tests for NaN show them; those of inputs, where tests for NaN do.
enum class InfinitySource { kConstants, kInputs };

// What shows an infinity of a value: nothing, the rows of infinities of a softmax that is tested for NaN, an output.
enum class ShownBy : char { kNothing, kSoftmax, kOutput };

class Following {
 public:
  Following(core::Graph& graph, InfinitySource source)
      : graph_(graph),
        replacements_(graph),
        source_(source),
        reached_(graph.values.size()),
        shown_(graph.values.size(), ShownBy::kNothing) {}

  void run() {
    if (!forwards()) return;
    backwards();
    const size_t op_count = graph_.ops.size();
    for (size_t i = 0; i < op_count; ++i) {
      const Kind kind = graph_.ops[i].kind;
      if ((kind == Kind::kAdd || kind == Kind::kSub) && shown_[index(graph_.ops[i].outputs[0])] != ShownBy::kNothing)
        mend(i);
    }
    replacements_.apply();
    graph_.tidy();
  }

 private:
  static size_t index(ValueId id) { return static_cast<size_t>(id); }

  // Marks what an infinity can reach; false when there is none.
  bool forwards() {
    bool any = false;
    if (source_ == InfinitySource::kInputs)
      for (const ValueId in : graph_.inputs) reached_[index(in)] = stream::is_float(graph_.at(in).dtype);
    for (const Op& op : graph_.ops) {
      if (!carries(op)) continue;
      bool carried = false;
      for (ValueId in : op.inputs) {
        if (in == core::kAbsent) continue;
        if (source_ == InfinitySource::kConstants && !reached_[index(in)] && holds_infinity(graph_, in))
          reached_[index(in)] = true;
        carried = carried || reached_[index(in)];
      }
      any = any || carried;
      for (ValueId out : op.outputs)
        if (out != core::kAbsent) reached_[index(out)] = carried;
    }
    return any;
  }

  // Marks the values whose infinities an output of the graph or a test would show.
  void backwards() {
    if (source_ == InfinitySource::kConstants)
      for (ValueId out : graph_.outputs)
        if (reached_[index(out)]) shown_[index(out)] = ShownBy::kOutput;
    for (size_t i = graph_.ops.size(); i-- > 0;) {
      const Op& op = graph_.ops[i];
      if (tests_for_nan(op)) show_rows_of_infinities(op.inputs[0]);
      if (!carries(op)) continue;
      for (ValueId out : op.outputs)
        for (ValueId in : op.inputs)
          if (out != core::kAbsent && in != core::kAbsent && reached_[index(in)])
            shown_[index(in)] = std::max(shown_[index(in)], shown_[index(out)]);
    }
  }

  // x != x, or x >= 0, which is the same of a softmax and what plain/gpu_math.cc writes.
  bool tests_for_nan(const Op& op) const {
    if (op.kind == Kind::kNotEqual) return op.inputs[0] == op.inputs[1];
    if (op.kind != Kind::kGreaterEqual) return false;
    const auto bound = graph_.numbers(op.inputs[1]);
    return bound && std::all_of(bound->begin(), bound->end(), [](double number) { return number == 0; });
  }

  // A softmax is NaN in a row of infinities only, which a test for NaN behind it shows.
  void show_rows_of_infinities(ValueId tested) {
    for (core::OpId producer; (producer = graph_.at(tested).producer) >= 0;) {
      const Op& op = graph_.ops[static_cast<size_t>(producer)];
      const bool moved = op.kind == Kind::kReshape || op.kind == Kind::kTranspose;
      if (op.kind == Kind::kSoftmax && reached_[index(op.inputs[0])])
        shown_[index(op.inputs[0])] = std::max(shown_[index(op.inputs[0])], ShownBy::kSoftmax);
      if (!moved) return;
      tested = op.inputs[0];
    }
  }

  // Whether the sum of an infinity and this operand is taken to be that infinity. Scores in front of a softmax are, as
  // in fuse/nan_guard.cc: masks would cost one more op.
  bool is_taken_as_finite(ValueId operand, ShownBy shown) {
    return shown == ShownBy::kSoftmax || is_finite_constant(graph_, operand);
  }

  void mend(size_t position) {
    const Op op = replacements_.now(graph_.ops[position]);
    const core::Activation activation = core::fused_activation(op);
    core::fuse_activation(graph_.ops[position], core::Activation::kNone);
    const ValueId before = op.outputs[0];
    const ValueId clamped = graph_.add_value(graph_.at(before).dtype, graph_.at(before).shape);
    graph_.ops[position].outputs[0] = clamped;
    core::Builder b(graph_);
    b.origin = op.origin;
    Val result{clamped};
    for (size_t side : {size_t{0}, size_t{1}}) {
      const Val in{op.inputs[side]};
      if (!reached_[index(in.id)]) continue;
      const Val above_all = b.scalar_like(std::numeric_limits<double>::infinity(), in);
      Val infinite = b.equal(b.abs(in), above_all);
      // Where the sum is NaN, GREATER is false and the NaN stays.
      if (!is_taken_as_finite(op.inputs[1 - side], shown_[index(before)]))
        infinite = b.greater(Val{clamped}, b.select(infinite, b.neg(above_all), above_all));
      result = b.select(infinite, op.kind == Kind::kSub && side == 1 ? b.neg(in) : in, result);
    }
    if (activation == core::Activation::kRelu) result = b.relu(result);
    replacements_.note(before, result.id);
    // The ops after this one see the mended value, which an infinity reaches just as well.
    reached_.resize(graph_.values.size());
    shown_.resize(graph_.values.size(), ShownBy::kNothing);
    reached_[index(result.id)] = true;
    shown_[index(result.id)] = shown_[index(before)];
  }

  core::Graph& graph_;
  core::Replacements replacements_;
  InfinitySource source_;
  std::vector<bool> reached_;
  std::vector<ShownBy> shown_;
};

}  // namespace

void keep_infinities(core::Graph& graph) {
  for (const InfinitySource source : {InfinitySource::kConstants, InfinitySource::kInputs})
    Following(graph, source).run();
}

}  // namespace lowtide::layout
