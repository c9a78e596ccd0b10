// Col2Im and MaxUnpool: images put together from pieces by SCATTER_ND, which adds up what falls on one place.
//
// Col2Im wants just that; the pads are part of the image while it is scattered and cut off then. MaxUnpool wants the
// last of several, which cannot be had: windows that overlap are refused. Sources: ONNX's Col2Im and MaxUnpool;
// LiteRT's scatter_nd.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "layout/lower/extents.h"

namespace lowtide::layout {
namespace {

std::vector<int64_t> numbers(Lowering& lo, const char* name, size_t count, int64_t otherwise, int64_t least) {
  std::vector<int64_t> values = lo.attr_ints(name).value_or(std::vector<int64_t>(count, otherwise));
  if (values.size() != count) lo.malformed(fmt::format("{} has {} numbers, not {}", name, values.size(), count));
  for (int64_t value : values)
    if (value < least || value > std::numeric_limits<int32_t>::max())
      lo.malformed(fmt::format("{} holds {}, which is out of range", name, value));
  return values;
}

int64_t checked_product(Lowering& lo, std::span<const int64_t> extents) {
  uint64_t product = 1;
  for (int64_t extent : extents) product = stream::checked_mul(product, static_cast<uint64_t>(extent));
  if (product > static_cast<uint64_t>(std::numeric_limits<int32_t>::max()))
    lo.unsupported("an image of more than 2^31 elements");
  return static_cast<int64_t>(product);
}

// Counts the places of a box up, the last axis first; false after the last one.
bool next(std::vector<int64_t>& at, std::span<const int64_t> box) {
  for (size_t i = at.size(); i-- > 0;) {
    if (++at[i] < box[i]) return true;
    at[i] = 0;
  }
  return false;
}

// For each tap of the block and each of its positions, its place in the flat image.
std::vector<int64_t> places(std::span<const int64_t> block, std::span<const int64_t> positions,
                            std::span<const int64_t> image, std::span<const int64_t> stride,
                            std::span<const int64_t> dilation) {
  std::vector<int64_t> flat, tap(block.size(), 0);
  do {
    std::vector<int64_t> at(block.size(), 0);
    do {
      int64_t place = 0;
      for (size_t i = 0; i < block.size(); ++i) place = place * image[i] + at[i] * stride[i] + tap[i] * dilation[i];
      flat.push_back(place);
    } while (next(at, positions));
  } while (next(tap, block));
  return flat;
}

}  // namespace

void lower_col2im(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0);
  const std::vector<int64_t> image = lo.need_ints(lo.input(1), "image_shape"),
                             block = lo.need_ints(lo.input(2), "block_shape");
  const size_t rank = image.size();
  if (lo.rank(x) != 3 || block.size() != rank)
    lo.malformed("the input must have rank 3, image_shape and block_shape one length");
  const std::vector<int64_t> stride = numbers(lo, "strides", rank, 1, 1),
                             dilation = numbers(lo, "dilations", rank, 1, 1);
  const std::vector<int64_t> pads = numbers(lo, "pads", 2 * rank, 0, 0);
  std::vector<int64_t> padded, positions;
  for (size_t i = 0; i < rank; ++i) {
    if (block[i] < 1 || image[i] < 1) lo.malformed("image_shape and block_shape must be positive");
    padded.push_back(image[i] + pads[i] + pads[rank + i]);
    const int64_t room = padded[i] - (static_cast<int64_t>(stream::checked_mul(static_cast<uint64_t>(block[i] - 1),
                                                                               static_cast<uint64_t>(dilation[i]))) +
                                      1);
    if (room < 0) lo.malformed(fmt::format("a block of {} does not fit into {} elements", block[i], padded[i]));
    positions.push_back(room / stride[i] + 1);
  }
  const Shape shape = lo.shape(x);
  const int64_t taps = checked_product(lo, block), count = checked_product(lo, positions),
                area = checked_product(lo, padded);
  const int64_t columns = lo.need_static(shape[1], "the number of channels");
  if (columns % taps != 0 || (stream::is_static(shape[2]) && shape[2] != count))
    lo.malformed(
        fmt::format("an input of {} does not hold {} taps at {} positions", stream::to_string(shape), taps, count));
  if (stream::checked_mul(static_cast<uint64_t>(taps), static_cast<uint64_t>(count)) > (uint64_t{1} << 24))
    lo.unsupported("Col2Im of this many positions");
  const int64_t channels = columns / taps;

  // [N, C, taps, positions] -> [taps * positions, N * C], scattered to [area, N * C] -> [N, C, image].
  const Dim planes = b.graph.symbols.mul(shape[0], channels);
  Val pieces = b.transpose(reshape_to(lo, x, std::vector<Dim>{planes, taps * count}), {1, 0});
  const std::vector<int64_t> flat = places(block, positions, padded, stride, dilation);
  Val indices = b.reshape(b.i32(flat), {taps * count, 1});
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
  if (rank < 1) lo.malformed(fmt::format("the input has rank {}, at least 3 is needed", shape.size()));
  if (lo.shape(where) != lo.shape(x)) lo.malformed("the indices have another shape than the input");
  if (!lo.has_attr("kernel_shape")) lo.malformed("kernel_shape is missing");
  const std::vector<int64_t> kernel = numbers(lo, "kernel_shape", rank, 1, 1),
                             stride = numbers(lo, "strides", rank, 1, 1);
  const std::vector<int64_t> pads = numbers(lo, "pads", 2 * rank, 0, 0);
  std::vector<int64_t> out = {shape[0], shape[1]};
  for (size_t i = 0; i < rank; ++i) {
    if (kernel[i] > stride[i])
      lo.unsupported("MaxUnpool of windows that overlap: what several windows picked would be added up");
    out.push_back((shape[i + 2] - 1) * stride[i] - pads[i] - pads[rank + i] + kernel[i]);
    if (out.back() < 1) lo.malformed("the output would have no elements");
  }
  if (lo.has_input(2) && lo.need_ints(lo.input(2), "output_shape") != out)
    lo.unsupported(
        "an output_shape that the input does not have by itself: the standard and ONNX Runtime count the indices "
        "in different shapes",
        "drop output_shape and pad the result");
  const int64_t elements = checked_product(lo, out), pieces = checked_product(lo, shape);
  Val indices = b.reshape(b.cast(where, DType::kInt32), {pieces, 1});
  Val flat = b.scatter_nd(indices, b.reshape(x, {pieces}), b.i32({elements}));
  lo.output(0, b.reshape(flat, out));
}

}  // namespace lowtide::layout
