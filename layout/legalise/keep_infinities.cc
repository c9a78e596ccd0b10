// SPDX-License-Identifier: Apache-2.0
#include "layout/legalise/keep_infinities.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "layout/core/builder.h"
#include "layout/core/builtin.h"
#include "layout/core/magnitudes.h"
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

// The largest magnitudes of constants, each of which is looked at once: NaN where a number is NaN, or where they cannot
// be computed.
class LargestMagnitudes {
 public:
  explicit LargestMagnitudes(core::Graph& graph) : graph_(graph) {}
  double of(ValueId constant) {
    auto [it, is_new] = known_.try_emplace(graph_.at(constant).constant.get());
    if (is_new) {
      const auto found = core::magnitudes_of(graph_, constant);
      it->second = found ? found->most : std::numeric_limits<double>::quiet_NaN();
    }
    return it->second;
  }
  bool is_known(ValueId constant) const { return known_.contains(graph_.at(constant).constant.get()); }

 private:
  core::Graph& graph_;
  std::map<const stream::Recipe*, double> known_;
};

// Infinities of constants, where outputs and tests for NaN show them; those of inputs, where tests for NaN do.
enum class InfinitySource { kConstants, kInputs };

// What shows an infinity of a value: nothing, the rows of infinities of a softmax that is tested for NaN, an output.
enum class ShownBy : char { kNothing, kSoftmax, kOutput };

class Following {
 public:
  Following(core::Graph& graph, InfinitySource source)
      : graph_(graph), replacements_(graph), largest_(graph), source_(source) {}

  // Masks may be large, and so may weights: a large constant is first assumed to hold an infinity, and is read
  // only where an output or a test would show it.
  void run() {
    do {
      reached_.assign(graph_.values.size(), false);
      shown_.assign(graph_.values.size(), ShownBy::kNothing);
      guessed_.clear();
      if (!forwards()) return;
      backwards();
    } while (read_guessed());
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

  // Whether a constant that the op reads holds an infinity, or may do so: a large one of ADD or SUB that was not read.
  bool may_hold_infinity(const Op& op, ValueId id) {
    const core::Value& value = graph_.at(id);
    if (!value.is_constant() || !stream::is_float(value.dtype)) return false;
    if (const auto numbers = graph_.numbers(id))
      return std::any_of(numbers->begin(), numbers->end(), [](double x) { return std::isinf(x); });
    if (op.kind != Kind::kAdd && op.kind != Kind::kSub) return false;
    if (largest_.is_known(id)) return !std::isfinite(largest_.of(id));
    guessed_.push_back(id);
    return true;
  }

  // Reads the constants whose infinities would be shown; true where a guess was wrong.
  bool read_guessed() {
    bool any_wrong = false;
    for (const ValueId id : guessed_)
      if (shown_[index(id)] != ShownBy::kNothing && std::isfinite(largest_.of(id))) any_wrong = true;
    return any_wrong;
  }

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
        if (source_ == InfinitySource::kConstants && !reached_[index(in)] && may_hold_infinity(op, in))
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
    return shown == ShownBy::kSoftmax || (graph_.at(operand).is_constant() && std::isfinite(largest_.of(operand)));
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
  LargestMagnitudes largest_;
  InfinitySource source_;
  std::vector<bool> reached_;
  std::vector<ShownBy> shown_;
  std::vector<ValueId> guessed_;  // large constants that were not read, and are taken to hold an infinity
};

}  // namespace

void keep_infinities(core::Graph& graph) {
  for (const InfinitySource source : {InfinitySource::kConstants, InfinitySource::kInputs})
    Following(graph, source).run();
}

}  // namespace lowtide::layout
