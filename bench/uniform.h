// SPDX-License-Identifier: Apache-2.0
// A counter-based generator of uniform floats: element i depends on (seed, name, i) only, so any part of a tensor
// can be made alone, in any order, with the same bits.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace lowtide::bench {

class Uniform {
 public:
  /// Values in [low, high); tensors of different names are independent.
  Uniform(uint64_t seed, std::string_view name, float low, float high);

  /// Elements first, first + 1, ... of the tensor.
  void fill(uint64_t first, std::span<float> out) const;

 private:
  uint64_t key_;
  double middle_;
  double step_;
};

}  // namespace lowtide::bench
