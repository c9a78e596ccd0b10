// SPDX-License-Identifier: Apache-2.0
// An operator that TFLite has no builtin for: the application brings its kernel, and finds it by name and version.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lowtide::core {

struct CustomOperator {
  std::string name;                 // without the number that tells attributes apart (emit/custom_operators.h)
  int32_t version = 1;              // 1 or more
  std::vector<uint8_t> attributes;  // a flexbuffer map; docs/custom-operators.md describes it
  // Each element of the results depends on the elements at the same place only (scalars aside): any axis order does, as
  // long as all data is stored in the same one.
  bool any_axis_order = false;
};

}  // namespace lowtide::core
