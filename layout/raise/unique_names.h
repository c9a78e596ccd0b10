// SPDX-License-Identifier: Apache-2.0
// Names of which each is given once: the second "x" becomes "x_2".
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace lowtide::layout {

class UniqueNames {
 public:
  std::string unique(std::string name) {
    if (taken_.insert(name).second && !name.empty()) return name;
    if (name.empty()) name = "t";
    // Counted on from the last time: many tensors may have one name.
    size_t& next = next_.try_emplace(name, 2).first->second;
    for (;;) {
      std::string other = fmt::format("{}_{}", name, next++);
      if (taken_.insert(other).second) return other;
    }
  }

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, size_t> next_;  // by name
};

}  // namespace lowtide::layout
