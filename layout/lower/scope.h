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
  kIsF16 = 8,       // f32 here, f16 in ONNX (docs/decisions/half-precision.md)
  kIsBF16 = 16,     // likewise bf16
};

// The mark of f32 that is `dtype` in ONNX; 0 for other types than halves.
inline uint8_t half_mark(core::DType dtype) {
  if (dtype == core::DType::kFloat16) return kIsF16;
  return dtype == core::DType::kBFloat16 ? kIsBF16 : 0;
}

struct Scope {
  struct Named {
    Val v;
    uint8_t marks;
  };

  const onnx::Graph& graph;
  Scope* outer = nullptr;
  core::SubgraphBuilder* subgraph = nullptr;  // of the values, when the outer scope's are of the graph around it
  std::unordered_map<std::string_view, Named> names = {};  // the strings are the ONNX graph's

  // Absent when there is none. A value of a graph around it becomes one of this graph.
  Val find(const std::string& name) const;
  bool has(const std::string& name, Mark mark) const;
  // f16 or bf16 where the value is that in ONNX, else kUndefined.
  core::DType half(const std::string& name) const;
  // Throws Error(kMalformed) where the graph has the name already.
  void add(const std::string& name, Val v, uint8_t marks = 0);
  // Of a value that was added to this graph.
  void mark(const std::string& name, uint8_t marks) { names.at(name).marks |= marks; }
};

// Throws Error(kMalformed) where two outputs of nodes have one name.
void check_names(const onnx::Graph& graph);

}  // namespace lowtide::layout
