// SPDX-License-Identifier: Apache-2.0
#include "layout/merge_equal.h"

#include <set>
#include <unordered_map>
#include <unordered_set>

#include "stream/recipe/recipe_key.h"

namespace lowtide::layout {
namespace {

using core::Kind;
using core::Op;
using core::ValueId;

// A custom operator may give other results each time that it runs.
bool mergeable(const Op& op) { return op.kind != Kind::kDead && op.kind != Kind::kCustom && !core::runs_graphs(op); }

class Merging {
 public:
  explicit Merging(core::Graph& graph) : graph_(graph), to_(graph.values.size(), core::kAbsent) {}

  void constants() {
    stream::RecipeKeys keys(graph_.budget);
    std::unordered_map<int, std::vector<ValueId>> seen;
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const core::Value& value = graph_.values[v];
      if (!value.is_constant()) continue;
      std::vector<ValueId>& candidates = seen[keys.key(value.constant)];
      for (ValueId other : candidates)
        if (graph_.at(other).quantization == value.quantization) to_[v] = other;
      if (to_[v] == core::kAbsent) candidates.push_back(static_cast<ValueId>(v));
    }
  }

  // In topological order, so that an op's inputs are merged before the op is compared.
  void ops() {
    const auto hash = [this](size_t i) { return hash_of(graph_.ops[i]); };
    const auto equal = [this](size_t a, size_t b) { return same(graph_.ops[a], graph_.ops[b]); };
    std::unordered_set<size_t, decltype(hash), decltype(equal)> seen(graph_.ops.size(), hash, equal);
    const std::set<ValueId> outputs(graph_.outputs.begin(), graph_.outputs.end());
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      Op& op = graph_.ops[i];
      for (ValueId& in : op.inputs)
        if (in != core::kAbsent && to_[static_cast<size_t>(in)] != core::kAbsent) in = to_[static_cast<size_t>(in)];
      if (!mergeable(op)) continue;
      const auto [other, is_new] = seen.insert(i);
      if (is_new) continue;
      for (size_t out = 0; out < op.outputs.size(); ++out)
        merge_output(op.outputs[out], graph_.ops[*other].outputs[out]);
    }
    for (ValueId& out : graph_.outputs)
      if (to_[static_cast<size_t>(out)] != core::kAbsent) out = to_[static_cast<size_t>(out)];
  }

 private:
  static size_t hash_of(const Op& op) {
    size_t hash = static_cast<size_t>(op.kind);
    for (const ValueId in : op.inputs) hash = hash * 1'000'003 + static_cast<size_t>(in);
    return hash;
  }
  bool same(const Op& a, const Op& b) const {
    if (a.kind != b.kind || a.inputs != b.inputs || a.options != b.options || a.outputs.size() != b.outputs.size())
      return false;
    for (size_t i = 0; i < a.outputs.size(); ++i) {
      const core::Value &x = graph_.at(a.outputs[i]), &y = graph_.at(b.outputs[i]);
      // Symbolic shapes may differ; dtypes are part of what CAST and QUANTIZE compute.
      if (x.dtype != y.dtype || x.shape != y.shape || x.quantization != y.quantization) return false;
    }
    return true;
  }
  void merge_output(ValueId from, ValueId into) {
    to_[static_cast<size_t>(from)] = into;
    if (graph_.at(into).name.empty() || (graph_.has_onnx_name(from) && !graph_.has_onnx_name(into)))
      graph_.at(into).name = graph_.at(from).name;
    graph_.at(from).name.clear();
  }

  core::Graph& graph_;
  std::vector<ValueId> to_;  // by value: what it was merged into
};

}  // namespace

void merge_equal(core::Graph& graph) {
  Merging merging(graph);
  merging.constants();
  merging.ops();
  graph.tidy();
}

}  // namespace lowtide::layout
