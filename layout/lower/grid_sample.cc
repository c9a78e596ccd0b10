// SPDX-License-Identifier: Apache-2.0
// GridSample and AffineGrid. A grid holds positions from -1 to 1, the last axis first; an affine grid is the product of
// a transformation with the positions of the untransformed grid. Sources: ONNX's GridSample (16, 20, 22) and AffineGrid
// (20).
#include <fmt/format.h>

#include <algorithm>

#include "layout/lower/image_sampling.h"
#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

Sampling read_mode(Lowering& lo) {
  const std::string mode = lo.attr_s("mode", "linear");
  if (mode == "nearest") return Sampling::kNearest;
  if (mode == "linear" || mode == "bilinear") return Sampling::kLinear;
  if (mode == "cubic" || mode == "bicubic") return Sampling::kCubic;
  lo.malformed(fmt::format("attribute 'mode' has the unknown value '{}'", mode));
}

Outside read_padding(Lowering& lo) {
  const std::string mode = lo.attr_s("padding_mode", "zeros");
  if (mode == "zeros") return Outside::kZeros;
  if (mode == "border") return Outside::kBorder;
  if (mode == "reflection") return Outside::kReflection;
  lo.malformed(fmt::format("attribute 'padding_mode' has the unknown value '{}'", mode));
}

// Converts -1..1 to element positions, [N, axes, Q]. The order of operations is ONNX Runtime's, because it decides
// ties.
Val in_elements(Lowering& lo, Val grid, std::span<const Dim> sizes, bool align_corners) {
  Builder& b = lo.b;
  std::vector<Dim> lengths;  // the grid names the last axis first
  for (size_t i = sizes.size(); i-- > 0;)
    lengths.push_back(align_corners ? b.graph.symbols.sub(sizes[i], 1) : sizes[i]);
  Val length = b.cast(b.reshape(b.dims(lengths), {static_cast<Dim>(lengths.size()), 1}), DType::kFloat32);
  Val from_one = b.add(grid, 1);
  return align_corners ? b.mul(b.mul(from_one, 0.5), length) : b.mul(b.sub(b.mul(from_one, length), 1), 0.5);
}

// One element of a list of sizes as a scalar, known or not.
Val size_at(Lowering& lo, Val sizes, int64_t i) {
  if (auto known = lo.dims(sizes)) return dim_as_scalar(lo, known->at(static_cast<size_t>(i)), DType::kInt32);
  const Dim one[] = {1};
  return lo.b.reshape(lo.b.cast(lo.b.slice(sizes, {&i, 1}, one), DType::kInt32), {});
}

// The positions of `size` elements between -1 and 1.
Val normalized_positions(Lowering& lo, Val size, bool align_corners) {
  Builder& b = lo.b;
  const Val step = b.i32_scalar(1);
  Val i = b.cast(b.range(b.i32_scalar(0), size, step), DType::kFloat32);
  Val whole = b.cast(size, DType::kFloat32);
  if (align_corners) {
    const Val gaps = b.sub(whole, 1);
    return b.sub(b.div(b.mul(i, 2), gaps), 1);
  }
  return b.sub(b.div(b.add(b.mul(i, 2), 1), whole), 1);
}

}  // namespace

void lower_grid_sample(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0), grid = lo.input(1);
  const int spatial = lo.rank(x) - 2;
  if (spatial < 1 || lo.rank(grid) != lo.rank(x))
    lo.malformed(fmt::format("input and grid must have the same rank, 3 or more; the ranks are {} and {}", lo.rank(x),
                             lo.rank(grid)));
  const Shape shape = lo.shape(x), to = lo.shape(grid);
  if (stream::is_static(shape[0]) && stream::is_static(to[0]) && shape[0] != to[0])
    lo.malformed(fmt::format("input and grid must have the same batch; the batches are {} and {}", shape[0], to[0]));
  const Sampling mode = read_mode(lo);
  const Outside outside = read_padding(lo);
  const bool align_corners = lo.attr_i("align_corners", 0) != 0;
  if (stream::is_static(to.back()) && to.back() != spatial)
    lo.malformed(fmt::format("the last axis of the grid must have {} elements, one for each spatial axis; it has {}",
                             spatial, to.back()));
  if (mode != Sampling::kNearest && !stream::is_float(lo.dtype(x)))
    lo.unsupported(fmt::format("interpolation of {} is not supported", stream::dtype_name(lo.dtype(x))));
  const std::vector<Dim> sizes(shape.begin() + 2, shape.end());
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end())
    lo.unsupported("sampling an image without elements is not supported");

  core::Symbols& symbols = b.graph.symbols;
  const Dim samples = symbols.product(std::span(to).subspan(1, to.size() - 2));
  Val at = reshape_to(lo, b.cast(grid, DType::kFloat32), std::vector<Dim>{to[0], samples, spatial});
  at = in_elements(lo, b.transpose(at, {0, 2, 1}), sizes, align_corners);

  Perm perm = {0};
  for (int i = 0; i < spatial; ++i) perm.push_back(i + 2);
  perm.push_back(1);
  const Dim area = symbols.product(sizes);
  Val image = reshape_to(lo, b.transpose(x, perm), std::vector<Dim>{symbols.mul(shape[0], area), shape[1]});
  Val first;
  if (shape[0] != 1) {
    const Val rows = dim_as_scalar(lo, area, DType::kInt32);
    first = b.mul(unsqueeze_axes(lo, iota(lo, shape[0], DType::kInt32), {1}), rows);
  }
  Val y = sampled(lo, image, first, at, {mode, outside, align_corners, false, sizes, true});
  std::vector<Dim> out(to.begin(), to.end() - 1);
  out.push_back(shape[1]);
  lo.output(0, b.transpose(reshape_to(lo, y, out), stream::inverse(perm)));
}

// theta [N, axes, axes + 1] times the position (last axis first, then 1) of each element.
void lower_affine_grid(Lowering& lo) {
  Builder& b = lo.b;
  Val theta = lo.input(0), sizes = lo.input(1);
  const bool align_corners = lo.attr_i("align_corners", 0) != 0;
  if (lo.rank(theta) != 3 || lo.rank(sizes) != 1)
    lo.malformed(fmt::format("theta must have rank 3 and size rank 1; they have ranks {} and {}", lo.rank(theta),
                             lo.rank(sizes)));
  // The axes of theta tell the length of a list that is known at run time only.
  if (core::is_symbol(b.dim(sizes, 0)) && !core::is_symbol(b.dim(theta, 1)))
    sizes = with_length(lo, sizes, b.dim(theta, 1) + 2);
  const int64_t axes = lo.need_static(b.dim(sizes, 0), "the length of input 1 ('size')") - 2;
  if ((axes != 2 && axes != 3) || b.dim(theta, 1) != axes || b.dim(theta, 2) != axes + 1)
    lo.misfit(fmt::format("theta {} does not fit a size of {} elements", stream::to_string(lo.shape(theta)), axes + 2));
  const auto count = static_cast<size_t>(axes);
  const Dim batch = b.dim(theta, 0);
  auto column = [&](int64_t i) {  // [N, 1 .., axes]
    Shape shape(count + 2, 1);
    shape.front() = batch;
    shape.back() = axes;
    return b.reshape(b.slice(theta, std::vector<int64_t>{0, 0, i}, std::vector<Dim>{-1, -1, 1}), shape);
  };
  Val grid = column(axes);
  for (int64_t i = 0; i < axes; ++i) {
    Val size = size_at(lo, sizes, axes + 1 - i);
    if (auto known = lo.ints(size); known && ((*known)[0] < 1 || (align_corners && (*known)[0] == 1)))
      lo.unsupported(fmt::format("an affine grid over an axis of {} elements is not supported", (*known)[0]));
    Val along = b.cast(normalized_positions(lo, size, align_corners), lo.dtype(theta));
    Shape shape(count + 2, 1);
    shape[count - static_cast<size_t>(i)] = b.dim(along, 0);
    along = reshape_to(lo, along, shape);
    grid = b.add(grid, b.mul(column(i), along));
  }
  lo.output(0, grid);
}

}  // namespace lowtide::layout
