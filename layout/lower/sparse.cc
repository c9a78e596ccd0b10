// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/sparse.h"

#include <fmt/format.h>

#include <cstring>

#include "stream/error.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::layout {

using stream::Code;
using stream::Error;

stream::RecipeRef dense(const onnx::SparseTensor& sparse, stream::Budget& budget) {
  const stream::Where where{.slot = fmt::format("sparse tensor '{}'", sparse.values.name)};
  const uint64_t elements = stream::element_count(sparse.dims);
  if (!sparse.values.data || !sparse.indices.data)
    throw Error(Code::kMalformed, "the values or the indices are missing", where);
  if (elements > stream::kSmallElements || !stream::is_small(*sparse.values.data) ||
      !stream::is_small(*sparse.indices.data))
    throw stream::Unsupported(fmt::format("it has {} elements, sparse tensors of more than {} are not supported",
                                          elements, stream::kSmallElements),
                              "store it as a dense initializer", where);
  const size_t lane = static_cast<size_t>(stream::lane_bytes(sparse.values.dtype));
  const std::vector<std::byte> values = stream::evaluate(sparse.values.data, budget);
  const std::vector<int64_t> indices = stream::evaluate_ints(sparse.indices.data, budget);
  const size_t count = values.size() / lane;
  const size_t rank = sparse.indices.dims.size() == 2 ? sparse.dims.size() : 1;
  if (indices.size() != count * rank)
    throw Error(Code::kMalformed, fmt::format("{} indices for {} values", indices.size(), count), where);

  std::vector<std::byte> out(elements * lane);
  int64_t before = -1;
  for (size_t i = 0; i < count; ++i) {
    uint64_t flat = 0;
    for (size_t axis = 0; axis < rank; ++axis) {
      const int64_t index = indices[i * rank + axis];
      const int64_t extent =
          rank == 1 && sparse.indices.dims.size() != 2 ? static_cast<int64_t>(elements) : sparse.dims[axis];
      if (index < 0 || index >= extent)
        throw Error(Code::kMalformed, fmt::format("index {} is out of range 0..{}", index, extent - 1), where);
      flat = flat * static_cast<uint64_t>(extent) + static_cast<uint64_t>(index);
    }
    if (static_cast<int64_t>(flat) <= before)
      throw Error(Code::kMalformed, "the indices are not in ascending order", where);
    before = static_cast<int64_t>(flat);
    std::memcpy(out.data() + flat * lane, values.data() + i * lane, lane);
  }
  return stream::recipe::inline_lanes(std::move(out), sparse.values.dtype, sparse.dims);
}

}  // namespace lowtide::layout
