// SPDX-License-Identifier: Apache-2.0
// The values that the nodes of an ONNX graph can name: those of the graph itself, then those of the graphs around it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "layout/lower/lowering.h"
#include "stream/onnx/model.h"

namespace lowtide::layout {

// What is known of a value besides its type; bits.
enum Mark : uint8_t {
  kIsString = 1,    // a string tensor
  kIsDeclared = 2,  // behind a refused node: its type is the one that the file declares, or follows from such types
  kIsComputed = 4,  // behind a refused node, and of unknown type: surely no constant
};

struct Scope {
  const onnx::Graph& graph;
  Scope* outer = nullptr;
  core::SubgraphBuilder* subgraph = nullptr;  // of the values, when the outer scope's are of the graph around it
  std::unordered_map<std::string_view, Val> names = {};      // the strings are the ONNX graph's
  std::unordered_map<std::string_view, uint8_t> marks = {};  // of the graph's own values that have any

  // Absent when there is none. A value of a graph around it becomes one of this graph.
  Val find(const std::string& name) const;
  bool has(const std::string& name, Mark mark) const;
  // Throws Error(kMalformed) where the graph has the name already.
  void add(const std::string& name, Val v);
};

// Throws Error(kMalformed) where two outputs of nodes have one name.
void check_names(const onnx::Graph& graph);

}  // namespace lowtide::layout
