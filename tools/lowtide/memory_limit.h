// SPDX-License-Identifier: Apache-2.0
// --max-rss at each stage of a conversion: the budget for tiles and windows is what the process does not use already.
// The kernel's limit is set behind it (data_limit.h). The trap: how much memory a graph takes is known only when it is
// in memory. So a --max-rss that is too small is refused after everything that grows with the nodes is in memory, and
// before anything is written; the error names a limit that is enough.
#pragma once

#include <cstdint>
#include <filesystem>

#include "tools/lowtide/data_limit.h"

namespace lowtide::tools {

// Threads for reading and writing weights where the user names no number: two, or one on one core. More gain little,
// because the file system lets one thread at a time write to a file (docs/decisions/reading-and-writing.md), and each
// takes its own tiles from the limit.
int default_threads();

class MemoryLimit {
 public:
  explicit MemoryLimit(uint64_t asked);  // 0: the default, or more for a graph that needs more
  // Sets the kernel's limit so that the graph of a model can be allocated.
  void allow_graph(const std::filesystem::path& model) const;
  // Budget for reading a model and for passes on its graph, beside the graph itself.
  uint64_t graph_budget() const;
  // Budget for writing, at least `least` bytes. Throws Error(kBudget).
  uint64_t writing_budget(uint64_t least, int threads);
  // Throws Error(kBudget): a budget of `needed` bytes beside the memory in use would have been enough.
  [[noreturn]] void refuse_reading(uint64_t needed) const;
  uint64_t bytes() const { return bytes_; }

 private:
  uint64_t left() const;
  [[noreturn]] void refuse(uint64_t needed) const;

  uint64_t asked_, bytes_;
  DataLimit limit_;
};

}  // namespace lowtide::tools
