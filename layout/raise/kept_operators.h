// SPDX-License-Identifier: Apache-2.0
// Custom operators of a TFLite model that stay what they are, as nodes of a domain of their own (--custom-ops).
#pragma once

#include <set>
#include <string>
#include <vector>

#include "stream/tflite/model.h"

namespace lowtide::layout {

// The domain of such nodes; the operator's name is the one that it has in the file.
inline constexpr const char* kKeptDomain = "tflite.custom";

struct KeptOperators {
  bool all = false;             // each that has no form in ONNX
  std::set<std::string> named;  // these always

  // Of names that no operator of the model has.
  std::vector<std::string> notes(const tfl::Model& model) const;
};

}  // namespace lowtide::layout
