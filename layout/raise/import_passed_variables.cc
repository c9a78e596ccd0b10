// SPDX-License-Identifier: Apache-2.0
// Variables in subgraphs that IF and WHILE run. LiteRT holds one value for each name, which all subgraphs see; here the
// value is passed to the graphs that use it, and comes back from those that assign it.
#include <fmt/format.h>

#include <algorithm>

#include "layout/raise/import_graph.h"
#include "layout/raise/import_values.h"
#include "layout/raise/options.h"
#include "schemas/tflite_generated.h"
#include "stream/error.h"

namespace lowtide::layout {
namespace {

using stream::Unsupported;
using tflite::BuiltinOperator;

// A subgraph is looked through for each list of handles that it is called with.
constexpr size_t kMostSearched = size_t{1} << 22;
constexpr int kMostSearchedDepth = 16;
constexpr size_t kStepsOfHandle = 16;  // what is found is kept, too

}  // namespace

std::map<size_t, std::string> GraphImport::passed_handles(const SubgraphScope& scope, const tfl::Operator& op,
                                                          size_t first) const {
  std::map<size_t, std::string> out;
  for (size_t i = first; i < op.inputs.size(); ++i) {
    const auto known = handles_.find({&scope.from, op.inputs[i]});
    if (known != handles_.end()) out[i - first] = known->second;
  }
  return out;
}

VariableUses GraphImport::uses_of_called(uint32_t called, const std::map<size_t, std::string>& handles, int depth) {
  Handles inner;
  for (const auto& [place, name] : handles) inner[model_.subgraphs[called].inputs[place]] = name;
  return uses_in(called, inner, depth + 1);
}

void GraphImport::count_searched(size_t steps) {
  shared_.searched += steps;
  if (shared_.searched > kMostSearched)
    throw Unsupported("subgraphs that are called too often to be searched for variables");
}

const VariableUses& GraphImport::uses_in(uint32_t subgraph, const Handles& passed, int depth) {
  const auto known = shared_.uses.find({subgraph, passed});
  if (known != shared_.uses.end()) return known->second;
  if (depth > kMostSearchedDepth) throw Unsupported("subgraphs that are nested too deep to be searched for variables");
  for (const auto& [tensor, name] : passed) count_searched(kStepsOfHandle + name.size());
  VariableUses found = find_uses(subgraph, passed, depth);
  return shared_.uses.emplace(std::pair(subgraph, passed), std::move(found)).first->second;
}

VariableUses GraphImport::find_uses(uint32_t subgraph, Handles handles, int depth) {
  const tfl::Subgraph& from = model_.subgraphs[subgraph];
  VariableUses uses;
  const auto call = [&](const tfl::Operator& op, const char* option, size_t first) {
    const int called = int_option(op, option, -1);
    if (called < 0 || static_cast<size_t>(called) >= model_.subgraphs.size()) return;  // refused when it is imported
    const std::vector<int32_t>& inputs = model_.subgraphs[static_cast<size_t>(called)].inputs;
    Handles inner;
    for (size_t i = first; i < op.inputs.size() && i - first < inputs.size(); ++i)
      if (const auto known = handles.find(op.inputs[i]); known != handles.end())
        inner[inputs[i - first]] = known->second;
    for (const auto& [name, use] : uses_in(static_cast<uint32_t>(called), inner, depth + 1)) {
      count_searched(kStepsOfHandle + name.size());
      VariableUse& both = uses[name];
      if (!both.like || use.is_read) both.like = use.like;
      both.is_read = both.is_read || use.is_read;
      both.is_assigned = both.is_assigned || use.is_assigned;
    }
  };
  for (const tfl::Operator& op : from.operators) {
    count_searched(1 + op.inputs.size());
    switch (static_cast<BuiltinOperator>(op.code)) {
      case BuiltinOperator::VAR_HANDLE:
        if (op.outputs.size() == 1) handles[op.outputs[0]] = variable_name(op);
        break;
      case BuiltinOperator::READ_VARIABLE:
      case BuiltinOperator::ASSIGN_VARIABLE: {
        const bool assigns = static_cast<BuiltinOperator>(op.code) == BuiltinOperator::ASSIGN_VARIABLE;
        const auto known = op.inputs.empty() ? handles.end() : handles.find(op.inputs[0]);
        const int32_t tensor =
            assigns ? (op.inputs.size() == 2 ? op.inputs[1] : -1) : (op.outputs.size() == 1 ? op.outputs[0] : -1);
        if (known == handles.end() || tensor < 0) break;
        VariableUse& use = uses[known->second];
        if (!use.like || !assigns) use.like = &from.tensors[static_cast<size_t>(tensor)];
        use.is_read = use.is_read || !assigns;
        use.is_assigned = use.is_assigned || assigns;
        break;
      }
      case BuiltinOperator::IF:
        call(op, "then_subgraph_index", 1);
        call(op, "else_subgraph_index", 1);
        break;
      case BuiltinOperator::WHILE:
        call(op, "cond_subgraph_index", 0);
        call(op, "body_subgraph_index", 0);
        for (size_t i = 0; i < std::min(op.inputs.size(), op.outputs.size()); ++i)
          if (const auto known = handles.find(op.inputs[i]); known != handles.end())
            handles[op.outputs[i]] = std::string(known->second);
        break;
      case BuiltinOperator::STABLEHLO_COMPOSITE:
        call(op, "decomposition_subgraph_index", 0);
        break;
      default:
        break;
    }
  }
  return uses;
}

ValueId GraphImport::variable_now(const std::string& name, const tfl::Tensor& like) {
  Variable& held = variables_[name];
  if (held.value != kNotMade) return held.value;
  if (is_called_) throw Unsupported(fmt::format("the variable '{}' is not known in the graph around this one", name));
  need_numbers(like);
  return held.value = add_state(name, like, held.initial);
}

}  // namespace lowtide::layout
