// SPDX-License-Identifier: Apache-2.0
// What --max-rss means at each stage of a conversion: how much is left for tiles and windows beside what the process
// has, and the kernel's limit behind it (data_limit.h).
//
// The trap: how much memory a graph takes shows only when it is there. So a --max-rss that is too small is refused when
// all that grows with the nodes is in memory, and before anything is written: the number that is named then will do.
#pragma once

#include <cstdint>
#include <filesystem>

#include "tools/lowtide/data_limit.h"

namespace lowtide::tools {

class MemoryLimit {
 public:
  explicit MemoryLimit(uint64_t asked);  // 0: the usual, or more when the graph alone is that large
  // Lets the process grow by what the graph of a model may take.
  void allow_graph(const std::filesystem::path& model) const;
  // For reading a model and working on its graph, beside what of it is there.
  uint64_t graph_budget() const;
  // For writing with at least `least` bytes. Throws Error(kBudget).
  uint64_t writing_budget(uint64_t least, int threads);
  // Throws Error(kBudget): a budget of `needed` would have done beside what the process has now.
  [[noreturn]] void refuse_reading(uint64_t needed) const;
  uint64_t bytes() const { return bytes_; }

 private:
  uint64_t left() const;
  [[noreturn]] void refuse(uint64_t needed) const;

  uint64_t asked_, bytes_;
  DataLimit limit_;
};

}  // namespace lowtide::tools
