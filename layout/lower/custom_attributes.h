// SPDX-License-Identifier: Apache-2.0
// The attributes of an ONNX node as a flexbuffer map, for the kernel of a custom operator. docs/custom-operators.md has
// the table of types.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "stream/file/budget.h"
#include "stream/onnx/model.h"

namespace lowtide::layout {

// Tensors among the attributes have at most so many bytes: a flexbuffer is made in memory, and read by the kernel.
inline constexpr uint64_t kMostAttributeBytes = uint64_t{64} << 10;

// The bytes depend on the attributes only, not on their order. Those named in `left_out` are not in the map. Throws
// Unsupported for an attribute that has no form in a flexbuffer, and for a tensor that is too large.
std::vector<uint8_t> attributes_as_flexbuffer(const onnx::Node& node, int64_t opset,
                                              const std::set<std::string>& left_out, stream::Budget& budget);

}  // namespace lowtide::layout
