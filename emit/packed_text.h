// SPDX-License-Identifier: Apache-2.0
// Text that grows with the number of nodes and is needed at the end only, such as the rows of a report: kept compressed
// (listings of a graph become a tenth or less), so that it needs little memory and no temporary file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lowtide::emit {

class PackedText {
 public:
  void add(std::string_view text);
  uint64_t size() const { return size_; }  // of the text, bytes
  // The whole text in pieces, in order.
  void read(const std::function<void(std::string_view)>& on_piece) const;

 private:
  struct Block {
    std::string packed;
    size_t bytes;  // of the text in it
  };
  void pack();
  std::vector<Block> blocks_;
  std::string open_;  // the end of the text, not compressed yet
  uint64_t size_ = 0;
};

}  // namespace lowtide::emit
