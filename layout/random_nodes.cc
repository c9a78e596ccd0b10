// SPDX-License-Identifier: Apache-2.0
#include "layout/random_nodes.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "layout/model_functions.h"
#include "stream/recipe/recipe_reader.h"
#include "stream/shape.h"

namespace lowtide::layout {
namespace {

// Calls that are nested deeper are refused by inline_functions(); here they count as random.
constexpr int kMostCalls = 64;

// Where nodes stand: in the main graph, a function, or a body of a node there.
struct RandomScope {
  int64_t opset = 0;                     // of ai.onnx
  std::set<std::string_view> are_false;  // tensors of one boolean that is known to be false
};

int64_t onnx_opset(const std::map<std::string, int64_t>& opsets) {
  const auto found = opsets.find("");
  return found == opsets.end() ? 0 : found->second;
}

bool is_false(const onnx::Tensor& tensor) {
  if (tensor.dtype != stream::DType::kBool || !tensor.data || stream::element_count(tensor.dims) != 1) return false;
  constexpr uint64_t kEnough = 1 << 20;
  stream::Budget budget(kEnough);
  return stream::evaluate_ints(tensor.data, budget).front() == 0;
}

void add_false(const std::vector<onnx::Node>& nodes, RandomScope& scope) {
  for (const onnx::Node& node : nodes) {
    if (node.op_type != "Constant" || !node.domain.empty() || node.outputs.empty()) continue;
    const onnx::Attribute* value = node.find("value");
    if (value && value->tensors.size() == 1 && is_false(value->tensors.front()))
      scope.are_false.insert(node.outputs[0]);
  }
}

void add_false(const onnx::Graph& graph, RandomScope& scope) {
  for (const onnx::Tensor& tensor : graph.initializers)
    if (is_false(tensor)) scope.are_false.insert(tensor.name);
  add_false(graph.nodes, scope);
}

bool trains(const onnx::Node& dropout, const RandomScope& scope) {
  constexpr size_t kTrainingMode = 2;
  constexpr int64_t kFirstWithMode = 12, kFirstWithoutTest = 7;
  if (scope.opset >= kFirstWithMode) {
    const bool is_given = dropout.inputs.size() > kTrainingMode && !dropout.inputs[kTrainingMode].empty();
    return is_given && !scope.are_false.contains(dropout.inputs[kTrainingMode]);
  }
  if (scope.opset >= kFirstWithoutTest) return false;  // the runtime decides, and runs models for inference
  const onnx::Attribute* is_test = dropout.find("is_test");
  return !is_test || is_test->i == 0;
}

class RandomNodes {
 public:
  explicit RandomNodes(const onnx::Model& model) : model_(model), functions_(model), found_(model.functions.size()) {}

  std::vector<bool> find() {
    RandomScope scope{.opset = onnx_opset(model_.opsets), .are_false = {}};
    add_false(model_.graph, scope);
    std::vector<bool> out;
    for (const onnx::Node& node : model_.graph.nodes) out.push_back(is_random(node, scope, 0));
    return out;
  }

 private:
  enum class Found : uint8_t { kNothing, kRandom, kSure };

  bool is_random(const onnx::Node& node, const RandomScope& scope, int calls) {
    for (const onnx::Attribute& attribute : node.attributes)
      for (const auto& body : attribute.graphs) {
        RandomScope inside = scope;
        add_false(*body, inside);
        if (any_is_random(body->nodes, inside, calls)) return true;
      }
    // A function of the model goes before an operator of its name.
    if (const auto called = functions_.called_by(node)) return is_random_function(*called, calls + 1);
    const std::string_view op = node.op_type;
    if (node.domain.empty() && op == "Dropout") return trains(node, scope);
    if (node.domain.empty()) return op.starts_with("Random") || op == "Multinomial" || op == "Bernoulli";
    if (node.domain == "com.microsoft") return op == "Sampling" || op.ends_with("Dropout");
    return node.domain != "ai.onnx.ml";
  }

  bool any_is_random(const std::vector<onnx::Node>& nodes, const RandomScope& scope, int calls) {
    return std::any_of(nodes.begin(), nodes.end(),
                       [&](const onnx::Node& node) { return is_random(node, scope, calls); });
  }

  bool is_random_function(size_t number, int calls) {
    if (calls > kMostCalls) return true;
    if (found_[number] == Found::kNothing) {
      found_[number] = Found::kRandom;  // of one that calls itself, until it is refused
      const onnx::Function& function = model_.functions[number];
      RandomScope scope{.opset = onnx_opset(function.opsets), .are_false = {}};
      add_false(function.nodes, scope);
      if (!any_is_random(function.nodes, scope, calls)) found_[number] = Found::kSure;
    }
    return found_[number] == Found::kRandom;
  }

  const onnx::Model& model_;
  ModelFunctions functions_;
  std::vector<Found> found_;  // of each function
};

}  // namespace

std::vector<bool> random_nodes(const onnx::Model& model) { return RandomNodes(model).find(); }

}  // namespace lowtide::layout
