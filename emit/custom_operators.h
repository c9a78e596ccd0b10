// SPDX-License-Identifier: Apache-2.0
// The custom operators of a model: under which names they are written, and how they are listed.
//
// The trap: LiteRT's C API gives a kernel one pointer for a (name, version), and never says which node runs. A kernel
// can know its attributes only by its name. So operators of one name whose attributes differ get numbers: Clamp#1,
// Clamp#2, in the order in which the attributes are first met.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "layout/core/custom_operator.h"
#include "layout/core/graph.h"
#include "stream/tflite/model.h"

namespace lowtide::emit {

// A name in the file, and the nodes that have it.
struct CustomUse {
  std::string name;
  int32_t version = 1;
  std::vector<uint8_t> options;
  uint64_t option_bytes = 0;       // more than options.size() where they were too large to be read
  std::vector<std::string> nodes;  // ONNX's names, or those of the first outputs
};

class CustomNames {
 public:
  // Throws Unsupported when a numbered name is another operator's own.
  explicit CustomNames(const core::Model& model);
  const std::string& of(const core::CustomOperator& custom) const;
  const std::vector<CustomUse>& uses() const { return uses_; }

 private:
  std::vector<CustomUse> uses_;
  std::map<std::pair<std::string, std::vector<uint8_t>>, size_t> index_;  // by the operator's name and its attributes
};

std::vector<CustomUse> custom_uses(const tfl::Model& model);

// A few lines for each, of its attributes and its nodes.
std::string custom_text(const std::vector<CustomUse>& uses);
// A list of objects; what JSON cannot say is text: NaN, and bytes in hexadecimal.
nlohmann::ordered_json custom_values(const std::vector<CustomUse>& uses);

}  // namespace lowtide::emit
