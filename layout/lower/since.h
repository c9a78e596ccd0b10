// SPDX-License-Identifier: Apache-2.0
// The opset in which an operator of ai.onnx, or one of its attributes, appeared. Files in circulation use some of them
// under an older opset; ONNX Runtime accepts many of these, and so does the lowering, with a note. Not so inputs: the
// opset says how many there are, ONNX Runtime refuses one more, and the older form of an operator does not read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace lowtide::layout {

// The newest opset of ai.onnx that is known. An operator may change its meaning with every opset: models of newer ones
// are refused.
inline constexpr int64_t kNewestOpset = 26;

struct NewerAttribute {
  std::string_view name;
  int64_t since;
};

// `attribute` empty: of the operator itself. 1 for what exists since the first opset and for what is not listed.
int64_t since_version(std::string_view op, std::string_view attribute = {});
// The attributes of an operator that appeared after the operator.
std::vector<NewerAttribute> attributes_since(std::string_view op);

// An input that an operator does not have in some opsets: from `absent_from` on, until `since` brings it.
struct NewerInput {
  std::string_view op;
  size_t index;
  std::string_view name;
  int64_t absent_from, since;
};
// Null where the operator has the input in this opset, or where no opset that is known brings it.
const NewerInput* newer_input(std::string_view op, size_t index, int64_t opset);

}  // namespace lowtide::layout
