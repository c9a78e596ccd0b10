// SPDX-License-Identifier: Apache-2.0
#include "stream/onnx/model.h"

#include <algorithm>

namespace lowtide::onnx {

const Attribute* Node::find(std::string_view attribute) const {
  auto it = std::find_if(attributes.begin(), attributes.end(), [&](const Attribute& a) { return a.name == attribute; });
  return it == attributes.end() ? nullptr : &*it;
}

const std::string& Node::label() const {
  if (!name.empty()) return name;
  for (const std::string& output : outputs)
    if (!output.empty()) return output;
  return name;
}

}  // namespace lowtide::onnx
