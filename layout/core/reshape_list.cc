// SPDX-License-Identifier: Apache-2.0
#include "layout/core/reshape_list.h"

#include <algorithm>

namespace lowtide::core {

std::optional<std::vector<int64_t>> constant_reshape_list(std::span<const Dim> shape) {
  const auto open = std::count_if(shape.begin(), shape.end(), is_symbol);
  const bool has_zero = std::find(shape.begin(), shape.end(), 0) != shape.end();
  if (open > 1 || (open == 1 && has_zero)) return std::nullopt;
  std::vector<int64_t> list(shape.begin(), shape.end());
  std::replace_if(list.begin(), list.end(), is_symbol, -1);
  return list;
}

}  // namespace lowtide::core
