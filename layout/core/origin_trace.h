// SPDX-License-Identifier: Apache-2.0
// Which ONNX nodes became which op, for reports. An op has one origin, but stands for several ONNX nodes when nodes
// were fused into it: fusing notes pairs of origins (Graph::fused_origins), and they are followed here, at the end.
//
// The trap: a node that was fused into another one is counted only if no op of its own is left.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "layout/core/graph.h"

namespace lowtide::core {

// What became of the ONNX nodes of one graph.
struct OriginResult {
  // The nodes of op i, as indices into Graph::origins: nodes[first[i]] to nodes[first[i + 1]]. Its own origin is the
  // first, those that were fused into it follow.
  std::vector<uint32_t> first, nodes;
  // By index into Graph::origins. kFolded: lowering it gave no op, because its result is known at conversion or is one
  // of its inputs. kRemoved: its ops were not needed, or equal to others.
  enum class Fate : uint8_t { kOps, kFolded, kRemoved };
  std::vector<Fate> fates;
};

class OriginTrace {
 public:
  // The model as lowering left it.
  void lowered(const Model& model);
  // The final state of one of its graphs.
  OriginResult result(const Graph& graph) const;

 private:
  std::map<const Graph*, std::vector<bool>> has_op_;  // by origin, after lowering
};

}  // namespace lowtide::core
