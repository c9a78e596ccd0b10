// SPDX-License-Identifier: Apache-2.0
// What the program knows of the ONNX operators, for `lowtide ops`: the rows of table.cc and since.cc, and the builtins
// of the golden listings (becomes.inc).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "layout/lower/since.h"

namespace lowtide::layout {

struct KnownOperator {
  std::string_view domain;  // "" is ai.onnx
  std::string_view op;
  int64_t since = 1;  // the opset of ai.onnx in which it appeared
  int min_inputs = 0;
  std::optional<int> max_inputs, max_outputs;  // nothing: any number
  std::vector<NewerAttribute> attributes;      // those that appeared after it
  // Those that it became where it stood alone in a golden case; other models may need others. Nothing: it stands alone
  // in none, such as If.
  std::optional<std::vector<std::string_view>> builtins;
};

// All operators, sorted by domain and name.
std::vector<KnownOperator> known_operators();

}  // namespace lowtide::layout
