// SPDX-License-Identifier: Apache-2.0
// The descriptions of targets that the program brings: tools/lowtide/targets, by the build.
#pragma once

#include <span>
#include <string_view>

namespace lowtide::tools {

struct ShippedTarget {
  std::string_view name, json;
};

std::span<const ShippedTarget> shipped_targets();          // of `lowtide partition --target`
std::span<const ShippedTarget> shipped_builtin_targets();  // of `lowtide convert --for`

}  // namespace lowtide::tools
