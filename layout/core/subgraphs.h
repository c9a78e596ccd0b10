// SPDX-License-Identifier: Apache-2.0
// Control flow that the run decides: IF and WHILE, whose branches and bodies are graphs of their own.
//
//     x, w (constant), n                     graph 1, the body: inputs t, h, x; a constant w of its own
//     t, h = WHILE(0, h0, x)  ------------>  graph 2, the condition: inputs t, h, x
//
// A graph has no access to the one around it: a value that it uses from there becomes one more input of it and of the
// op (WHILE passes it from iteration to iteration), except constants, which are repeated: their recipe is shared, so
// that their bytes are stored once. Source of the semantics: LiteRT's tflite/kernels/if.cc and while.cc.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "layout/core/builder.h"

namespace lowtide::core {

// A graph under construction inside another. When it does not become a graph of an op, the graphs that were made for
// ops inside it are removed from the model with it.
class SubgraphBuilder {
 public:
  SubgraphBuilder(Model& model, Builder& around, std::string name);
  ~SubgraphBuilder();
  SubgraphBuilder(const SubgraphBuilder&) = delete;
  SubgraphBuilder& operator=(const SubgraphBuilder&) = delete;

  Graph& graph() { return *graph_; }
  Builder& b() { return builder_; }
  Builder& around() { return around_; }
  Val input(DType dtype, Shape shape);  // one more input
  // A value of the graph around, as it is called in this one. A sequence is one of the same elements.
  Val here(Val outer);
  // The values of the graph around that are inputs here, in the order of their first use.
  const std::vector<ValueId>& captured() const { return captured_; }

 private:
  friend class SubgraphOpBuilder;
  Val tensor_here(Val outer);
  Val list_here(Val outer);

  Model& model_;
  size_t graphs_before_;  // of the model
  std::unique_ptr<Graph> graph_;
  Builder builder_;
  Builder& around_;
  std::vector<ValueId> captured_;
  std::map<ValueId, Val> here_;
};

// Writes the ops of a subgraph and gives its results.
using Fill = std::function<std::vector<Val>(SubgraphBuilder&)>;
using FillWithState = std::function<std::vector<Val>(SubgraphBuilder&, std::span<const Val> state)>;

// Both branches must give the same number of values, of equal dtypes and ranks: throws Unsupported otherwise. Extents
// in which they differ become dynamic.
std::vector<Val> run_if(Model& model, Builder& b, Val condition, const Fill& yes, const Fill& no);

// Iterates as long as `condition`, evaluated before each iteration, is true; `body` gives the next state. Extents that
// an iteration changes become dynamic (body is called again then); dtypes and ranks must stay: throws Unsupported.
std::vector<Val> run_while(Model& model, Builder& b, std::span<const Val> state, const FillWithState& condition,
                           const FillWithState& body);

// Removes the graphs that no op names any more.
void drop_unused_graphs(Model& model);

}  // namespace lowtide::core
