// SPDX-License-Identifier: Apache-2.0
#include "stream/recipe/blocks.h"

#include <algorithm>
#include <numeric>
#include <variant>
#include <vector>

namespace lowtide::stream {
namespace {

constexpr uint64_t kLongEnough = 4096;  // bytes: the kernel reads a page even for less
constexpr uint64_t kClearly = 2;

using Order = std::vector<size_t>;  // axes, from the innermost

// Elements that lie together: whole axes from the innermost, and a part of the next.
uint64_t run(const Shape& size, const Shape& dims, const Order& order) {
  uint64_t elements = 1;
  for (size_t axis : order) {
    elements *= static_cast<uint64_t>(size[axis]);
    if (size[axis] < dims[axis]) break;
  }
  return elements;
}

// Makes the run longer by the axis that ends it, at most twice; false when there is no room, or nothing is left.
bool lengthen(Shape& size, const Shape& dims, const Order& order, uint64_t most) {
  auto ends = std::find_if(order.begin(), order.end(), [&](size_t axis) { return size[axis] < dims[axis]; });
  if (ends == order.end()) return false;
  Dim& extent = size[*ends];
  const auto others = Box{{}, size}.elements() / static_cast<uint64_t>(extent);
  const auto longer = std::min({2 * extent, dims[*ends], static_cast<Dim>(most / others)});
  if (longer <= extent) return false;
  extent = longer;
  return true;
}

Shape block(const Shape& dims, const Order& written, const Order& read, uint64_t most) {
  Shape size(dims.size(), 1);
  for (;;) {
    const bool shorter = run(size, dims, read) < run(size, dims, written);
    const Order &first = shorter ? read : written, &second = shorter ? written : read;
    if (!lengthen(size, dims, first, most) && !lengthen(size, dims, second, most)) return size;
  }
}

Shape strip(const Shape& dims, uint64_t most) {
  Shape size(dims.size(), 1);
  for (size_t axis = dims.size(); axis-- > 0;) {
    size[axis] = std::min(dims[axis], static_cast<Dim>(most));
    most /= static_cast<uint64_t>(size[axis]);
  }
  return size;
}

uint64_t blocks_along(Dim extent, Dim size) { return static_cast<uint64_t>((extent + size - 1) / size); }

}  // namespace

uint64_t Blocks::count() const {
  uint64_t count = 1;
  for (size_t axis = 0; axis < size.size(); ++axis) count *= blocks_along(recipe->dims[axis], size[axis]);
  return count;
}

Box Blocks::at(uint64_t index) const {
  Box box{Shape(size.size()), Shape(size.size())};
  for (size_t axis = size.size(); axis-- > 0;) {
    const uint64_t along = blocks_along(recipe->dims[axis], size[axis]);
    box.begin[axis] = static_cast<Dim>(index % along) * size[axis];
    box.size[axis] = std::min(size[axis], recipe->dims[axis] - box.begin[axis]);
    index /= along;
  }
  return box;
}

std::optional<Blocks> blocks_of(const RecipeRef& recipe, uint64_t bytes) {
  RecipeRef moved = recipe;
  while (std::holds_alternative<step::Reshape>(moved->step)) moved = moved->from[0];
  const auto* permute = std::get_if<step::Permute>(&moved->step);
  if (!permute || bits(moved->dtype) < 8 || moved->elements() == 0) return std::nullopt;
  const size_t rank = moved->dims.size();
  Order written(rank), read(rank);
  for (size_t axis = 0; axis < rank; ++axis) {
    written[rank - 1 - axis] = axis;
    read[rank - 1 - static_cast<size_t>(permute->perm[axis])] = axis;
  }
  const auto lane = static_cast<uint64_t>(lane_bytes(moved->dtype));
  const uint64_t most = std::max<uint64_t>(bytes / lane, 1);
  const uint64_t by_strips = run(strip(moved->dims, most), moved->dims, read);
  Shape size = block(moved->dims, written, read, most);
  const uint64_t by_blocks = std::min(run(size, moved->dims, read), run(size, moved->dims, written));
  if (by_strips * lane >= kLongEnough || by_blocks < kClearly * by_strips) return std::nullopt;
  return Blocks{std::move(moved), std::move(size)};
}

}  // namespace lowtide::stream
