// SPDX-License-Identifier: Apache-2.0
#include "stream/recipe/blocks.h"

#include <algorithm>
#include <numeric>
#include <variant>
#include <vector>

namespace lowtide::stream {
namespace {

constexpr uint64_t kLongEnough = 4096;  // bytes: the kernel reads a page even for less
constexpr uint64_t kWriteCost = 4;      // of a row, in units of a row that is read
constexpr double kClearly = 4.0 / 3;
constexpr uint64_t kFilePage = 4096;

using Order = std::vector<size_t>;  // axes, from the innermost

// Elements that are one run: whole axes from the innermost, and a part of the next.
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
    const bool is_shorter = run(size, dims, read) * kWriteCost < run(size, dims, written);
    const Order &first = is_shorter ? read : written, &second = is_shorter ? written : read;
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

uint64_t blocks_along(Dim extent, Dim size, Dim first) {
  return extent <= first ? 1 : 1 + static_cast<uint64_t>((extent - first + size - 1) / size);
}

// A permutation of whole bytes, and in which order its axes are written and read.
struct Permuted {
  RecipeRef recipe;
  Order written, read;
  uint64_t lane;
};

std::optional<Permuted> permuted(const RecipeRef& recipe) {
  RecipeRef moved = recipe;
  while (std::holds_alternative<step::Reshape>(moved->step)) moved = moved->from[0];
  const auto* permute = std::get_if<step::Permute>(&moved->step);
  if (!permute || bits(moved->dtype) < 8 || moved->elements() == 0) return std::nullopt;
  const size_t rank = moved->dims.size();
  Permuted out{moved, Order(rank), Order(rank), static_cast<uint64_t>(lane_bytes(moved->dtype))};
  for (size_t axis = 0; axis < rank; ++axis) {
    out.written[rank - 1 - axis] = axis;
    out.read[rank - 1 - static_cast<size_t>(permute->perm[axis])] = axis;
  }
  return out;
}

// Lets rows of blocks be whole pages of the file, where the tensor's rows are as long as some pages.
void align(Blocks& blocks, uint64_t lane, uint64_t position) {
  const auto rest = position % kFilePage;
  Dim& row = blocks.size.back();
  const auto page = static_cast<Dim>(kFilePage / lane), whole = blocks.recipe->dims.back();
  if (kFilePage % lane != 0 || rest % lane != 0 || row < page || row >= whole || whole % page != 0) return;
  row = row / page * page;
  blocks.first.back() = rest == 0 ? row : static_cast<Dim>((kFilePage - rest) / lane);
}

}  // namespace

void Blocks::keep_first(uint64_t elements) {
  dims[0] = static_cast<Dim>(elements / (recipe->elements() / static_cast<uint64_t>(recipe->dims[0])));
}

uint64_t Blocks::count() const {
  uint64_t count = 1;
  for (size_t axis = 0; axis < size.size(); ++axis) count *= blocks_along(dims[axis], size[axis], first[axis]);
  return count;
}

Box Blocks::at(uint64_t index) const {
  Box box{Shape(size.size()), Shape(size.size())};
  for (size_t axis = size.size(); axis-- > 0;) {
    const uint64_t along = blocks_along(dims[axis], size[axis], first[axis]);
    const auto place = static_cast<Dim>(index % along);
    box.begin[axis] = place == 0 ? 0 : first[axis] + (place - 1) * size[axis];
    box.size[axis] = std::min(place == 0 ? first[axis] : size[axis], dims[axis] - box.begin[axis]);
    index /= along;
  }
  return box;
}

std::optional<Blocks> blocks_of(const RecipeRef& recipe, uint64_t bytes, uint64_t position) {
  const std::optional<Permuted> moved = permuted(recipe);
  if (!moved) return std::nullopt;
  const Shape& dims = moved->recipe->dims;
  const uint64_t most = std::max<uint64_t>(bytes / moved->lane, 1);
  const uint64_t of_strip = run(strip(dims, most), dims, moved->read);
  if (of_strip * moved->lane >= kLongEnough) return std::nullopt;
  Blocks blocks{moved->recipe, dims, block(dims, moved->written, moved->read, most), {}};
  const double cost = 1.0 / static_cast<double>(run(blocks.size, dims, moved->read)) +
                      static_cast<double>(kWriteCost) / static_cast<double>(run(blocks.size, dims, moved->written));
  if (cost * kClearly > 1.0 / static_cast<double>(of_strip)) return std::nullopt;
  blocks.first = blocks.size;
  align(blocks, moved->lane, position);
  return blocks;
}

bool is_scattered(const RecipeRef& recipe, uint64_t bytes) {
  const std::optional<Permuted> moved = permuted(recipe);
  if (!moved) return false;
  const Shape part = strip(moved->recipe->dims, std::max<uint64_t>(bytes / moved->lane, 1));
  return run(part, moved->recipe->dims, moved->read) < Box{{}, part}.elements();
}

}  // namespace lowtide::stream
