// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/attributes.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "layout/lower/graph_inputs.h"

namespace lowtide::layout {

void ignore_consumed_inputs(Lowering& lo) {
  if (lo.opset() < 6) lo.ignore_attr("consumed_inputs");
}

std::vector<int64_t> attr_int_list(Lowering& lo, const char* name, size_t count, int64_t otherwise, int64_t least) {
  std::vector<int64_t> values = lo.attr_ints(name).value_or(std::vector<int64_t>(count, otherwise));
  if (values.size() != count)
    lo.malformed(fmt::format("attribute '{}' must have {} elements; it has {}", name, count, values.size()));
  for (int64_t value : values)
    if (value < least || value > std::numeric_limits<int32_t>::max())
      lo.malformed(fmt::format("attribute '{}' must not be below {} or above {}; it contains {}", name, least,
                               std::numeric_limits<int32_t>::max(), value));
  return values;
}

DType attr_dtype_or_0(Lowering& lo, const char* name, DType otherwise) {
  return lo.attr_i(name, 0) == 0 ? otherwise : lo.attr_dtype(name, otherwise);
}

DType attr_float_dtype(Lowering& lo, const char* name, DType otherwise) {
  const DType dtype = attr_dtype_or_0(lo, name, otherwise);
  if (!stream::is_float(dtype))
    lo.malformed(
        fmt::format("attribute '{}' must name a floating-point type; it names {}", name, stream::dtype_name(dtype)));
  return is_half(dtype) ? DType::kFloat32 : dtype;
}

std::vector<int> axes_from(int first, int rank) {
  std::vector<int> axes(static_cast<size_t>(std::max(0, rank - first)));
  std::iota(axes.begin(), axes.end(), first);
  return axes;
}

}  // namespace lowtide::layout
