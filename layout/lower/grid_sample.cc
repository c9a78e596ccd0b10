// GridSample and AffineGrid. A grid holds positions from -1 to 1, the fastest axis first; an affine grid is a product
// of the transformation with the positions of an untransformed one. Sources: ONNX's GridSample (16, 20, 22) and
// AffineGrid (20).
#include <fmt/format.h>

#include <algorithm>

#include "layout/lower/extents.h"
#include "layout/lower/sampling.h"

namespace lowtide::layout {
namespace {

Sampling read_mode(Lowering& lo) {
  const std::string mode = lo.attr_s("mode", "linear");
  if (mode == "nearest") return Sampling::kNearest;
  if (mode == "linear" || mode == "bilinear") return Sampling::kLinear;
  if (mode == "cubic" || mode == "bicubic") return Sampling::kCubic;
  lo.malformed(fmt::format("mode '{}' is unknown", mode));
}

Outside read_padding(Lowering& lo) {
  const std::string mode = lo.attr_s("padding_mode", "zeros");
  if (mode == "zeros") return Outside::kZeros;
  if (mode == "border") return Outside::kBorder;
  if (mode == "reflection") return Outside::kReflection;
  lo.malformed(fmt::format("padding_mode '{}' is unknown", mode));
}

// From -1..1 to elements, in ONNX Runtime's order of operations: it decides ties.
Val in_elements(Lowering& lo, Val grid, std::span<const int64_t> sizes, bool align_corners) {
  Builder& b = lo.b;
  std::vector<float> lengths;  // the grid's axes begin with the fastest
  for (size_t i = sizes.size(); i-- > 0;)
    lengths.push_back(static_cast<float>(align_corners ? sizes[i] - 1 : sizes[i]));
  Val length = b.constant(stream::recipe::floats(lengths, {static_cast<Dim>(lengths.size())}));
  Val from_one = b.add(grid, 1);
  return align_corners ? b.mul(b.mul(from_one, 0.5), length) : b.mul(b.sub(b.mul(from_one, length), 1), 0.5);
}

}  // namespace

void lower_grid_sample(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0), grid = lo.input(1);
  const int spatial = lo.rank(x) - 2;
  if (spatial < 1 || lo.rank(grid) != lo.rank(x)) lo.malformed("input and grid must have one rank, at least 3");
  const Shape shape = lo.shape(x), to = lo.shape(grid);
  const Sampling mode = read_mode(lo);
  const Outside outside = read_padding(lo);
  const bool align_corners = lo.attr_i("align_corners", 0) != 0;
  if (stream::is_static(to.back()) && to.back() != spatial)
    lo.malformed(fmt::format("the grid has {} coordinates for {} axes", to.back(), spatial));
  if (mode != Sampling::kNearest && !stream::is_float(lo.dtype(x)))
    lo.unsupported(fmt::format("interpolation of {}", stream::dtype_name(lo.dtype(x))));
  std::vector<int64_t> sizes;
  for (int i = 0; i < spatial; ++i) {
    sizes.push_back(lo.need_static(shape[static_cast<size_t>(i) + 2], "the size of the image"));
    if (sizes.back() < 1) lo.unsupported("sampling an image without elements");
  }

  // Positions [N, Q, axes], the slowest axis first.
  core::Symbols& symbols = b.graph.symbols;
  const Dim samples = symbols.product(std::span(to).subspan(1, to.size() - 2));
  Val at = in_elements(lo, b.cast(grid, DType::kFloat32), sizes, align_corners);
  at = reshape_to(lo, at, std::vector<Dim>{to[0], samples, spatial});
  if (spatial > 1) at = b.reverse(at, std::vector<int>{2});

  Perm perm = {0};
  for (int i = 0; i < spatial; ++i) perm.push_back(i + 2);
  perm.push_back(1);
  int64_t area = 1;
  for (int64_t size : sizes) area *= size;
  Val image = reshape_to(lo, b.transpose(x, perm), std::vector<Dim>{symbols.mul(shape[0], area), shape[1]});
  Val first;
  if (shape[0] != 1) first = b.mul(add_ones(lo, counting(lo, shape[0], DType::kInt32), {1}), b.i32_scalar(area));
  Val y = sampled(lo, image, first, at, {mode, outside, align_corners, false, sizes});
  Shape out = {to[0], shape[1]};
  out.insert(out.end(), to.begin() + 1, to.end() - 1);
  lo.output(0, reshape_to(lo, b.transpose(y, {0, 2, 1}), out));
}

void lower_affine_grid(Lowering& lo) {
  Builder& b = lo.b;
  Val theta = lo.input(0);
  const std::vector<int64_t> size = lo.need_ints(lo.input(1), "size");
  const bool align_corners = lo.attr_i("align_corners", 0) != 0;
  if (size.size() != 4 && size.size() != 5) lo.malformed(fmt::format("size has {} numbers, not 4 or 5", size.size()));
  const std::vector<int64_t> sizes(size.begin() + 2, size.end());
  Shape box(sizes.begin(), sizes.end());
  const Dim axes = static_cast<Dim>(sizes.size());
  for (int64_t extent : sizes)
    if (extent < 1 || (align_corners && extent == 1))
      lo.unsupported(fmt::format("an affine grid over an axis of {}", extent));
  // [positions, axes + 1]: the fastest axis first, and ones.
  std::vector<Val> columns;
  for (size_t i = sizes.size(); i-- > 0;) {
    const double step = align_corners ? 2.0 / static_cast<double>(sizes[i] - 1) : 2.0 / static_cast<double>(sizes[i]);
    std::vector<float> along;
    if (sizes[i] > (1 << 20)) lo.unsupported(fmt::format("an affine grid over an axis of {}", sizes[i]));
    for (int64_t k = 0; k < sizes[i]; ++k)
      along.push_back(static_cast<float>((align_corners ? -1 : -1 + step / 2) + static_cast<double>(k) * step));
    Shape shape(sizes.size(), 1);
    shape[i] = sizes[i];
    columns.push_back(b.broadcast_to(b.constant(stream::recipe::floats(along, shape)), box));
  }
  columns.push_back(b.filled(1, DType::kFloat32, box));
  const Dim count = b.graph.symbols.product(box);
  for (Val& column : columns) column = b.reshape(column, {count, 1});
  Val base = b.cast(b.concat(columns, 1), lo.dtype(theta));
  Val grid = b.batch_matmul(base, theta, false, true);  // [N, positions, axes]
  Shape out = {lo.shape(theta)[0]};
  out.insert(out.end(), box.begin(), box.end());
  out.push_back(axes);
  lo.output(0, reshape_to(lo, grid, out));
}

}  // namespace lowtide::layout
