// SPDX-License-Identifier: Apache-2.0
// Who is told how far the reading or writing of weights is. The library never prints: the tool implements this.
#pragma once

#include <cstdint>
#include <string_view>

namespace lowtide::stream {

class Progress {
 public:
  virtual ~Progress() = default;
  // A stage of `total` bytes begins; `what` is a word for people, such as "writing".
  virtual void begin(std::string_view what, uint64_t total) = 0;
  // `bytes` more are done. Called from several threads.
  virtual void advance(uint64_t bytes) = 0;
};

}  // namespace lowtide::stream
