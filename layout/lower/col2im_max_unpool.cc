// SPDX-License-Identifier: Apache-2.0
// Col2Im and MaxUnpool: images assembled of their pieces.
//
// Col2Im adds values of the same position, as SCATTER_ND does; the pads are part of the image while it is scattered and
// are cropped afterwards. In MaxUnpool the indices may be those of windows that overlap, whatever its own attributes
// say: the last value of a position counts. Sources: ONNX's Col2Im and MaxUnpool; LiteRT's scatter_nd.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "layout/lower/attributes.h"
#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

int64_t checked_product(Lowering& lo, std::span<const int64_t> sizes) {
  uint64_t product = 1;
  for (int64_t size : sizes) product = stream::checked_mul(product, static_cast<uint64_t>(size));
  if (product > static_cast<uint64_t>(std::numeric_limits<int32_t>::max()))
    lo.unsupported("an image of more than 2^31 - 1 elements is not supported");
  return static_cast<int64_t>(product);
}

// The flat image position of each tap of the block at each block position: [taps * positions, 1]. It is a sum of one
// short sequence per axis, so that the list itself is a recipe and only made when it is written.
Val places(Lowering& lo, std::span<const int64_t> block, std::span<const int64_t> positions,
           std::span<const int64_t> image, std::span<const int64_t> stride, std::span<const int64_t> dilation) {
  Builder& b = lo.b;
  const size_t rank = block.size();
  Val all;
  int64_t step = 1, count = 1;
  for (size_t i = rank; i-- > 0;) {
    auto sequence = [&](int64_t delta, int64_t length, size_t axis) {
      Shape shape(2 * rank, 1);
      shape[axis] = length;
      Val v = b.reshape(b.constant(stream::recipe::iota(0, delta * step, DType::kInt32, length)), shape);
      all = all ? b.add(all, v) : v;
      count *= length;
    };
    sequence(dilation[i], block[i], i);
    sequence(stride[i], positions[i], rank + i);
    step *= image[i];
  }
  return b.reshape(all, {count, 1});
}

}  // namespace

void lower_col2im(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0);
  const std::vector<int64_t> image = lo.need_ints(lo.input(1), "image_shape"),
                             block = lo.need_ints(lo.input(2), "block_shape");
  const size_t rank = image.size();
  if (lo.rank(x) != 3 || rank == 0 || block.size() != rank)
    lo.malformed(
        fmt::format("the input must have rank 3, and image_shape one or more elements, as many as block_shape; the "
                    "rank is {}, the lengths are {} and {}",
                    lo.rank(x), rank, block.size()));
  const std::vector<int64_t> stride = attr_int_list(lo, "strides", rank, 1, 1),
                             dilation = attr_int_list(lo, "dilations", rank, 1, 1);
  const std::vector<int64_t> pads = attr_int_list(lo, "pads", 2 * rank, 0, 0);
  std::vector<int64_t> padded, positions;
  for (size_t i = 0; i < rank; ++i) {
    if (block[i] < 1 || image[i] < 1)
      lo.malformed(
          fmt::format("image_shape and block_shape must be positive; they contain {} and {}", image[i], block[i]));
    if (std::max({image[i], block[i], pads[i], pads[rank + i]}) > std::numeric_limits<int32_t>::max())
      lo.unsupported("an image or a block whose dimensions do not fit TFLite's 32 bits is not supported");
    padded.push_back(image[i] + pads[i] + pads[rank + i]);
    const int64_t room = padded[i] - ((block[i] - 1) * dilation[i] + 1);
    if (room < 0)
      lo.malformed(fmt::format("a block of {} elements with dilation {} does not fit a padded image of {} elements",
                               block[i], dilation[i], padded[i]));
    positions.push_back(room / stride[i] + 1);
  }
  const Shape shape = lo.shape(x);
  const int64_t taps = checked_product(lo, block), count = checked_product(lo, positions),
                area = checked_product(lo, padded);
  const int64_t columns = lo.need_static(shape[1], "the number of channels");
  if (columns % taps != 0 || (stream::is_static(shape[2]) && shape[2] != count))
    lo.misfit(fmt::format("an input of shape {} does not have {} taps at {} positions", stream::to_string(shape), taps,
                          count));
  const int64_t channels = columns / taps;

  // [N, C, taps, positions] -> [taps * positions, N * C], scattered to [area, N * C] -> [N, C, image].
  const Dim planes = b.graph.symbols.mul(shape[0], channels);
  Val pieces = b.transpose(reshape_to(lo, x, std::vector<Dim>{planes, taps * count}), {1, 0});
  Val indices = places(lo, block, positions, padded, stride, dilation);
  Val whole = b.scatter_nd(indices, pieces, b.dims(std::vector<Dim>{area, planes}));
  Shape out = {shape[0], channels};
  out.insert(out.end(), padded.begin(), padded.end());
  Val y = reshape_to(lo, b.transpose(whole, {1, 0}), out);
  if (padded != image) {
    std::vector<int64_t> begin = {0, 0};
    std::vector<Dim> size = {-1, -1};
    begin.insert(begin.end(), pads.begin(), pads.begin() + static_cast<int64_t>(rank));
    size.insert(size.end(), image.begin(), image.end());
    y = b.slice(y, begin, size);
  }
  lo.output(0, y);
}

void lower_max_unpool(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0), where = lo.input(1);
  const std::vector<int64_t> shape = lo.need_static(lo.shape(x), "the input's shape");
  const size_t rank = shape.size() < 2 ? 0 : shape.size() - 2;
  if (rank < 1) lo.malformed(fmt::format("the input must have rank 3 or more; it has rank {}", shape.size()));
  if (lo.shape(where) != lo.shape(x))
    lo.misfit(fmt::format("indices and input must have the same shape; the shapes are {} and {}",
                          stream::to_string(lo.shape(where)), stream::to_string(lo.shape(x))));
  if (!lo.has_attr("kernel_shape")) lo.malformed("attribute 'kernel_shape' is missing");
  const std::vector<int64_t> kernel = attr_int_list(lo, "kernel_shape", rank, 1, 1),
                             stride = attr_int_list(lo, "strides", rank, 1, 1);
  const std::vector<int64_t> pads = attr_int_list(lo, "pads", 2 * rank, 0, 0);
  std::vector<int64_t> out = {shape[0], shape[1]};
  for (size_t i = 0; i < rank; ++i) {
    if (shape[i + 2] > std::numeric_limits<int32_t>::max())
      lo.unsupported("an image whose dimensions do not fit TFLite's 32 bits is not supported");
    out.push_back((shape[i + 2] - 1) * stride[i] - pads[i] - pads[rank + i] + kernel[i]);
    if (out.back() < 1) lo.malformed(fmt::format("the output would have size {} along spatial axis {}", out.back(), i));
  }
  if (lo.has_input(2) && lo.need_ints(lo.input(2), "output_shape") != out)
    lo.unsupported(
        "an output_shape that differs from the default one is not supported: the standard and ONNX Runtime "
        "interpret the indices differently",
        "remove output_shape and pad the result");
  const int64_t elements = checked_product(lo, out), pieces = checked_product(lo, shape);
  const Val zero = b.scalar_like(0, x);
  if (pieces == 0) return lo.output(0, filled_with(lo, out, zero));
  const Val indices = b.reshape(b.cast(where, DType::kInt32), {pieces});
  const Val flat = last_updates_of_rows(lo, b.reshape(x, {pieces}), indices, elements, zero);
  lo.output(0, b.reshape(flat, out));
}

}  // namespace lowtide::layout
