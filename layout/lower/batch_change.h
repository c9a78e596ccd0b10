// SPDX-License-Identifier: Apache-2.0
// Another batch for a model whose batch is fixed: --shape gives axis 0 of an input an extent that the file does not.
//
// The graph is lowered twice: with the file's shapes, to record the shape of every value, and with the new ones. What
// differs between both depends on the batch. Shapes that the graph computes follow; a constant shape that holds the old
// batch is derived again where only one reading is possible, and its node is refused otherwise.
//
// The trap: an extent of 1 is both a batch and an axis that was added for broadcasting. In [1,8,64] -> [8,1,64] a
// reshape has done the work of a transpose, which it cannot do for a batch of 4.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "layout/core/builder.h"
#include "layout/core/graph.h"
#include "stream/onnx/model.h"

namespace lowtide::layout {

// `shapes` with the extents of axis 0 that the file fixes; nullopt where none of them is another one.
std::optional<std::map<std::string, core::Shape>> shapes_of_file(const onnx::Model& model,
                                                                 const std::map<std::string, core::Shape>& shapes);

class BatchChange {
 public:
  // The first lowering is recorded until this is called; then the second one follows it.
  void follow() { following_ = true; }
  bool following() const { return following_; }

  // Before a node is lowered: records its inputs, or replaces a constant shape among them. Returns its place in the
  // record, for end(). Both throw Unsupported for a node that holds the batch in a constant, and for one that the first
  // lowering did not have at this place.
  size_t begin(const onnx::Node& node, core::Builder& b, std::vector<core::Val>& inputs);
  void end(size_t place, core::Builder& b, const std::vector<core::Val>& outputs);

 private:
  struct Record {
    const onnx::Node* node = nullptr;
    std::vector<core::Shape> inputs, outputs;
    std::vector<std::optional<core::Shape>> contents;  // of inputs that are known integers
  };
  struct Reading;  // one input, before and now

  void derive_reshape(const onnx::Node& node, core::Builder& b, const Record& before, const Reading& x,
                      std::vector<core::Val>& inputs) const;
  void derive_resize(const onnx::Node& node, core::Builder& b, const Record& before, const Reading& x,
                     std::vector<core::Val>& inputs) const;

  bool following_ = false;
  size_t next_ = 0;
  std::vector<Record> records_;
  std::vector<Record> now_;  // of nodes that were begun and not ended: nodes with subgraphs are nested
};

}  // namespace lowtide::layout
