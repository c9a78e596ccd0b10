// SPDX-License-Identifier: Apache-2.0
#include "layout/random_nodes.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "stream/recipe/recipe.h"

namespace lowtide::layout {
namespace {

using onnx::Attribute;
using onnx::Node;

Node named_node(const std::string& op, const std::string& domain = "", std::vector<std::string> inputs = {}) {
  Node out;
  out.op_type = op;
  out.domain = domain;
  out.inputs = std::move(inputs);
  out.outputs = {"out of " + op};
  return out;
}

onnx::Tensor boolean(const std::string& name, bool value) {
  onnx::Tensor out;
  out.name = name;
  out.dtype = stream::DType::kBool;
  out.data = stream::recipe::ints(std::vector<int64_t>{value ? 1 : 0}, out.dtype, {});
  return out;
}

Node constant_node(const std::string& name, bool value) {
  Node out = named_node("Constant");
  out.outputs = {name};
  out.attributes.emplace_back();
  out.attributes.back().name = "value";
  out.attributes.back().type = Attribute::Type::kTensor;
  out.attributes.back().tensors = {boolean("", value)};
  return out;
}

Node with_body(std::vector<Node> nodes) {
  Node out = named_node("If", "", {"condition"});
  out.attributes.emplace_back();
  out.attributes.back().name = "then_branch";
  out.attributes.back().graphs = {std::make_shared<onnx::Graph>()};
  out.attributes.back().graphs.front()->nodes = std::move(nodes);
  return out;
}

bool is_random(Node node, int64_t opset = 17, std::vector<onnx::Function> functions = {}) {
  onnx::Model model;
  model.opsets[""] = opset;
  model.functions = std::move(functions);
  model.graph.initializers = {boolean("off", false), boolean("on", true)};
  model.graph.nodes = {constant_node("never", false), std::move(node)};
  const std::vector<bool> found = random_nodes(model);
  EXPECT_EQ(found.size(), 2u);
  EXPECT_FALSE(found.front());
  return found.back();
}

onnx::Function function_of(const std::string& name, std::vector<Node> nodes) {
  onnx::Function out;
  out.name = name;
  out.domain = "own";
  out.opsets[""] = 17;
  out.nodes = std::move(nodes);
  return out;
}

TEST(RandomNodes, Operators) {
  for (const char* op : {"RandomNormal", "RandomUniformLike", "Multinomial", "Bernoulli"})
    EXPECT_TRUE(is_random(named_node(op)));
  for (const char* op : {"Add", "If", "Constant", "Identity"}) EXPECT_FALSE(is_random(named_node(op))) << op;
  EXPECT_TRUE(is_random(named_node("Noise", "own")));
  EXPECT_FALSE(is_random(named_node("Scaler", "ai.onnx.ml")));
  EXPECT_FALSE(is_random(named_node("Gelu", "com.microsoft")));
  EXPECT_TRUE(is_random(named_node("BiasDropout", "com.microsoft")));
}

TEST(RandomNodes, DropoutWhoseTrainingIsNotKnownToBeOff) {
  auto dropout = [](const std::string& mode) { return named_node("Dropout", "", {"x", "ratio", mode}); };
  for (const char* mode : {"off", "never", ""}) EXPECT_FALSE(is_random(dropout(mode))) << mode;
  for (const char* mode : {"on", "x"}) EXPECT_TRUE(is_random(dropout(mode))) << mode;
  EXPECT_FALSE(is_random(named_node("Dropout", "", {"x"}), 12));
  EXPECT_FALSE(is_random(named_node("Dropout", "", {"x"}), 7));
  Node old = named_node("Dropout", "", {"x"});
  EXPECT_TRUE(is_random(old, 6));
  old.attributes.emplace_back();
  old.attributes.back().name = "is_test";
  old.attributes.back().i = 1;
  EXPECT_FALSE(is_random(old, 6));
}

TEST(RandomNodes, BodiesAndFunctions) {
  EXPECT_TRUE(is_random(with_body({with_body({named_node("RandomNormal")})})));
  EXPECT_FALSE(is_random(with_body({named_node("Add")})));
  // A name of one body says nothing of the same name in another one.
  const Node dropout = named_node("Dropout", "", {"x", "", "mode"});
  EXPECT_FALSE(is_random(with_body({constant_node("mode", false), dropout})));
  Node both = with_body({constant_node("mode", false), dropout});
  both.attributes.push_back(with_body({constant_node("mode", true), dropout}).attributes.front());
  EXPECT_TRUE(is_random(both));
  const std::vector<onnx::Function> functions = {function_of("Outer", {named_node("Inner", "own")}),
                                                 function_of("Inner", {with_body({named_node("Bernoulli")})}),
                                                 function_of("Sure", {named_node("Add")})};
  EXPECT_TRUE(is_random(named_node("Outer", "own"), 17, functions));
  EXPECT_FALSE(is_random(named_node("Sure", "own"), 17, functions));
  EXPECT_FALSE(is_random(with_body({named_node("Sure", "own")}), 17, functions));
  EXPECT_TRUE(is_random(named_node("Itself", "own"), 17, {function_of("Itself", {named_node("Itself", "own")})}));
}

}  // namespace
}  // namespace lowtide::layout
