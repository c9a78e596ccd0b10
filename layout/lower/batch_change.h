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
#include <set>
#include <string>
#include <vector>

#include "layout/core/builder.h"
#include "layout/core/graph.h"
#include "layout/lower/batch_reshape.h"
#include "stream/onnx/model.h"

namespace lowtide::layout {

// `shapes` with the extents of axis 0 that the file fixes; nullopt where none of them is another one.
std::optional<std::map<std::string, core::Shape>> shapes_of_file(const onnx::Model& model,
                                                                 const std::map<std::string, core::Shape>& shapes);

class BatchChange {
 public:
  // With the shapes of inputs that the file gives, from shapes_of_file(), and the new ones.
  BatchChange(const std::map<std::string, core::Shape>& before, const std::map<std::string, core::Shape>& now);

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
    std::vector<bool> constant;
  };
  struct Reading;  // one input or output, before and now

  void derive_reshape(const onnx::Node& node, core::Builder& b, const Record& before, const Reading& x,
                      std::vector<core::Val>& inputs);
  void derive_resize(const onnx::Node& node, core::Builder& b, const Record& before, const Reading& x,
                     std::vector<core::Val>& inputs) const;
  void check_steps(const onnx::Node& node, const Reading& x) const;
  static void check_groups(const onnx::Node& node, const Record& before, const Record& now);
  static void check_indices(const onnx::Node& node, const Record& before, const Record& now);
  static void check_slice(const Record& before, const Record& now, const Reading& y);
  static void check_labels(const Record& before, const Record& now, size_t k, size_t axis);
  static bool other_decides(const Record& before, const Record& now, size_t k);
  // Throws where the input `k` follows the batch and the output `y` does not.
  static void check_follows(const Record& before, const Record& now, size_t k, const Reading& y);

  std::set<OtherBatch> batches_;
  bool following_ = false;
  // A reshape took a batch of 1 for the first of several axes of 1: what it gives may have the batch at another one.
  bool is_guessed_ = false;
  size_t next_ = 0;
  std::vector<Record> records_;
  std::vector<Record> now_;  // of nodes that were begun and not ended: nodes with subgraphs are nested
};

}  // namespace lowtide::layout
