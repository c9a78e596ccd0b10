// SPDX-License-Identifier: Apache-2.0
// Boxes: rectangular parts of a tensor, and how they meet flat ranges, pieces that fit a tile, and loops over several
// arrays at once. Extents and positions are in elements. The trap: a box is contiguous in its own dense copy, but only
// its runs are contiguous in the tensor.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "stream/shape.h"

namespace lowtide::stream {

struct Box {
  Shape begin, size;

  int rank() const { return static_cast<int>(size.size()); }
  uint64_t elements() const {
    uint64_t count = 1;
    for (Dim extent : size) count *= static_cast<uint64_t>(extent);
    return count;
  }
};

inline Box whole(std::span<const Dim> dims) { return {Shape(dims.size(), 0), Shape(dims.begin(), dims.end())}; }
// Elements from one index of an axis to the next in a dense row-major array.
Shape dense_strides(std::span<const Dim> dims);

// Adds one to the last of the first `axes` coordinates, with carry; false once all were visited.
inline bool advance(Shape& at, std::span<const Dim> size, int axes) {
  for (int axis = axes - 1; axis >= 0; --axis) {
    if (++at[axis] < size[axis]) return true;
    at[axis] = 0;
  }
  return false;
}

// Calls visit(piece, offset) for pieces of at most `max_elements` (at least 1) in row-major order. Each is contiguous
// in the dense copy of the box, where it starts at `offset`. The box is not empty.
template <typename Visit>
void for_each_piece(const Box& box, uint64_t max_elements, Visit&& visit) {
  uint64_t inner = 1;
  int axis = box.rank() - 1;
  for (; axis >= 0 && inner * static_cast<uint64_t>(box.size[axis]) <= max_elements; --axis) inner *= box.size[axis];
  if (axis < 0) {
    visit(box, uint64_t{0});
    return;
  }
  auto step = static_cast<int64_t>(std::max<uint64_t>(max_elements / inner, 1));
  Box piece = box;
  std::fill_n(piece.size.begin(), axis, 1);
  Shape at(box.size.size(), 0);
  uint64_t offset = 0;
  do {
    for (int outer = 0; outer < axis; ++outer) piece.begin[outer] = box.begin[outer] + at[outer];
    for (int64_t i = 0; i < box.size[axis]; i += step) {
      piece.begin[axis] = box.begin[axis] + i;
      piece.size[axis] = std::min(step, box.size[axis] - i);
      visit(std::as_const(piece), offset);
      offset += inner * static_cast<uint64_t>(piece.size[axis]);
    }
  } while (advance(at, box.size, axis));
}

// Calls visit(first, count) for the longest contiguous runs of the box in the tensor, ascending. Not empty.
template <typename Visit>
void for_each_run(const Box& box, std::span<const Dim> dims, Visit&& visit) {
  Shape strides = dense_strides(dims);
  int axis = box.rank() - 1;
  while (axis > 0 && box.size[axis] == dims[axis]) --axis;
  uint64_t count = axis < 0 ? 1 : static_cast<uint64_t>(box.size[axis] * strides[axis]);
  uint64_t first = 0;
  for (int i = 0; i < box.rank(); ++i) first += static_cast<uint64_t>(box.begin[i] * strides[i]);
  Shape at(box.size.size(), 0);
  do {
    uint64_t offset = first;
    for (int i = 0; i < axis; ++i) offset += static_cast<uint64_t>(at[i] * strides[i]);
    visit(offset, count);
  } while (advance(at, box.size, axis));
}

// The elements of a box that is one run of the tensor. Not empty.
struct Run {
  uint64_t first, count;
};
inline std::optional<Run> one_run(const Box& box, std::span<const Dim> dims) {
  size_t axis = dims.size();
  while (axis > 0 && box.size[axis - 1] == dims[axis - 1]) --axis;
  for (size_t outer = 0; outer + 1 < axis; ++outer)
    if (box.size[outer] != 1) return std::nullopt;
  uint64_t first = 0;
  for (size_t i = 0; i < dims.size(); ++i)
    first = first * static_cast<uint64_t>(dims[i]) + static_cast<uint64_t>(box.begin[i]);
  return Run{first, box.elements()};
}

// Calls visit(box, offset) for the few boxes, ascending, that make up `count` flat elements from `first`.
template <typename Visit>
void for_each_box(std::span<const Dim> dims, uint64_t first, uint64_t count, Visit&& visit) {
  Shape strides = dense_strides(dims);
  Box box = whole(dims);
  uint64_t offset = 0;
  while (offset < count) {
    uint64_t rest = first + offset;
    int axis = -1;  // the outermost axis on which whole steps can be taken from here
    for (int i = 0; i < box.rank(); ++i) {
      auto stride = static_cast<uint64_t>(strides[i]);
      box.begin[i] = static_cast<int64_t>(rest / stride);
      rest %= stride;
      if (axis < 0 && rest == 0 && stride <= count - offset) axis = i;
    }
    for (int i = 0; i < box.rank(); ++i) box.size[i] = i < axis ? 1 : dims[i];
    if (axis >= 0) {
      auto steps = static_cast<int64_t>((count - offset) / static_cast<uint64_t>(strides[axis]));
      box.size[axis] = std::min(steps, dims[axis] - box.begin[axis]);
    }
    visit(std::as_const(box), offset);
    offset += box.elements();
  }
}

// A loop nest over up to four arrays: one stride for each array and axis, in elements; 0 repeats, negative runs back.
struct Nest {
  static constexpr int kArrays = 4;
  Shape size;
  std::array<Shape, kArrays> strides;

  // Drops axes of extent 1 and merges neighbours that are one axis for every array. The order of visits stays.
  void collapse(int arrays);
};

// Strides of a dense operand of extents `size` (1 where it repeats) in a nest of extents `box`, equal ranks.
Shape broadcast_strides(std::span<const Dim> size, std::span<const Dim> box);

// Calls visit(offsets) for every index of all axes but the last `inner` ones, in row-major order.
template <typename Visit>
void for_each_outer(const Nest& nest, int inner, Visit&& visit) {
  int axes = static_cast<int>(nest.size.size()) - inner;
  Shape at(nest.size.size(), 0);
  std::array<int64_t, Nest::kArrays> offsets{};
  bool more = true;
  while (more) {
    visit(offsets);
    more = false;
    for (int axis = axes - 1; axis >= 0 && !more; --axis) {
      more = ++at[axis] < nest.size[axis];
      if (!more) at[axis] = 0;
      int64_t steps = more ? 1 : 1 - nest.size[axis];
      for (int k = 0; k < Nest::kArrays; ++k)
        if (!nest.strides[k].empty()) offsets[k] += steps * nest.strides[k][axis];
    }
  }
}

}  // namespace lowtide::stream
