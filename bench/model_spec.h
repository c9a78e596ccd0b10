// SPDX-License-Identifier: Apache-2.0
// What a test model shall be, and what became of it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace lowtide::bench {

struct ModelSpec {
  std::string kind;                    // a ModelKind::name
  uint64_t size_bytes = 0;             // of all weights; 0 takes the kind's own size
  std::optional<uint64_t> nodes = {};  // many-nodes: how many; without it its own number
  uint64_t files = 1;                  // that external weights are spread over
  bool external = false;               // weights in "<out>.data"; done anyway from 2 GiB on, where protobuf ends
  std::optional<int> input_size = {};  // height and width; without it the kind's own
  uint64_t seed = 0;                   // equal specs give equal bytes
  int opset = 17;                      // 13 to 23
  bool sparse = false;                 // external; a weight begins with values and goes on as a hole, which is zeros
  bool plain_kernels = false;          // conv-stack, one-tensor: 1x1 kernels, whose bytes are the same in OIHW and OHWI
};

struct MadeModel {
  uint64_t weight_bytes;  // what size_bytes asks for, as near as the kind's width allows
  uint64_t model_bytes;   // of `out`
  uint64_t data_bytes;    // of "<out>.data", or of all files together; 0 when the weights are inline
};

/// Called with the bytes of weights made so far and in all, at least once for each tensor.
using Progress = std::function<void(uint64_t done, uint64_t total)>;

}  // namespace lowtide::bench
