// SPDX-License-Identifier: Apache-2.0
// DFT and STFT as products with constant matrices. The matrix is a recipe: it grows the file, not the memory.
//
// Complex numbers are pairs on the last axis; real input has only the first part. A DFT is one FULLY_CONNECTED over
// (time, part); inverse and onesided, it makes a real signal of half a spectrum, as numpy's irfft. An STFT is a
// convolution with that matrix as its kernel and the frame step as its stride; when the step is known at run time only,
// the frames are gathered instead. DFT's axis is an attribute (default 1) before opset 20, then an input (default -2).
#include <fmt/format.h>

#include <numbers>

#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

namespace recipe = stream::recipe;
using stream::Binary;
using stream::RecipeRef;
using stream::Unary;

constexpr int64_t kLongestTransform = 1 << 20;
constexpr int64_t kMostMatrixElements = 1 << 28;  // of a matrix: 1 GiB in the file

struct Transform {
  int64_t length;       // of the transform
  int64_t rows;         // elements of the signal that are used; after them it is 0
  int64_t parts;        // 1: real input, 2: complex
  int64_t frequencies;  // in the result; or times, if it is real
  bool inverse = false;
  bool real_result = false;  // of a half spectrum
  int64_t result_parts() const { return real_result ? 1 : 2; }
};

RecipeRef doubles(const std::vector<double>& numbers, Shape dims) {
  return recipe::values<double>(numbers, DType::kFloat64, std::move(dims));
}

void check_size(Lowering& lo, const Transform& of) {
  if (of.rows * of.frequencies > kMostMatrixElements / 4)
    lo.unsupported(fmt::format("a transform of length {} is not supported: its matrix would have {} elements",
                               of.length, of.result_parts() * of.parts * of.rows * of.frequencies),
                   "transform a shorter signal");
}

// Factors of cos and sin, of shape [1, part of the result, rows or 1, part of the signal].
std::pair<RecipeRef, RecipeRef> factors(const Transform& of) {
  // (cos - i sin)(a + i b), or (cos + i sin)(a + i b) / n for the inverse
  const double scale = of.inverse ? 1 / static_cast<double>(of.length) : 1, sine = of.inverse ? -scale : scale;
  const Shape parts = {1, 2, 1, of.parts};
  if (of.parts == 1) return {doubles({scale, 0}, parts), doubles({0, -sine}, parts)};
  return {doubles({scale, 0, 0, scale}, parts), doubles({0, sine, -sine, 0}, parts)};
}

// The same for a real result of a half spectrum. A value of the spectrum stands for its conjugate too, except those
// that are their own: the first, and the last of an even length. These are real, whatever their second part is.
std::pair<RecipeRef, RecipeRef> factors_of_half(const Transform& of) {
  std::vector<double> by_cos, by_sin;
  for (int64_t k = 0; k < of.rows; ++k) {
    const bool is_its_own = k == 0 || 2 * k == of.length;
    const double scale = 1 / static_cast<double>(of.length);
    by_cos.insert(by_cos.end(), {is_its_own ? scale : 2 * scale, 0});
    by_sin.insert(by_sin.end(), {0, is_its_own ? 0 : -2 * scale});
  }
  const Shape shape = {1, 1, of.rows, 2};
  return {doubles(by_cos, shape), doubles(by_sin, shape)};
}

// [frequencies, part of the result, rows, part of the signal], f32; computed in doubles, with angles below one turn.
RecipeRef matrix(const Transform& of) {
  RecipeRef time = recipe::reshape(recipe::iota(0, 1, DType::kInt64, of.rows), {1, 1, of.rows, 1});
  RecipeRef frequency = recipe::reshape(recipe::iota(0, 1, DType::kInt64, of.frequencies), {of.frequencies, 1, 1, 1});
  RecipeRef steps = recipe::binary(Binary::kFloorMod, recipe::binary(Binary::kMul, frequency, time),
                                   recipe::fill_value(static_cast<double>(of.length), DType::kInt64, {}));
  RecipeRef turn = doubles({2 * std::numbers::pi / static_cast<double>(of.length)}, {});
  RecipeRef angle = recipe::binary(Binary::kMul, recipe::cast(steps, DType::kFloat64), turn);
  const auto [by_cos, by_sin] = of.real_result ? factors_of_half(of) : factors(of);
  RecipeRef real = recipe::binary(Binary::kMul, recipe::unary(Unary::kCos, angle), by_cos);
  RecipeRef imaginary = recipe::binary(Binary::kMul, recipe::unary(Unary::kSin, angle), by_sin);
  return recipe::cast(recipe::binary(Binary::kAdd, real, imaginary), DType::kFloat32);
}

int64_t need_one(Lowering& lo, size_t i, const char* what, int64_t least) {
  const std::vector<int64_t> value = lo.need_ints(lo.input(i), what);
  if (value.size() != 1 || value[0] < least || value[0] > kLongestTransform)
    lo.malformed(fmt::format("'{}' must be a number from {} to {}", what, least, kLongestTransform));
  return value[0];
}

int64_t parts_of(Lowering& lo, Val x) {
  const int64_t parts = lo.need_static(lo.b.dim(x, -1), "the last dimension");
  if (parts != 1 && parts != 2)
    lo.malformed(
        fmt::format("the last axis of the signal must have 1 (real) or 2 (complex) elements; it has {}", parts));
  return parts;
}

int64_t frequencies_of(int64_t length, bool onesided) { return onesided ? length / 2 + 1 : length; }

// [batch, time, parts] -> [batch, frames, 2 * frequencies] by a convolution.
Val stft_by_convolution(Lowering& lo, Val x, Val window, const Transform& of, int64_t step) {
  Builder& b = lo.b;
  Val weights = b.constant(recipe::reshape(matrix(of), {of.frequencies * 2, 1, of.length, of.parts}));
  if (window) weights = b.mul(weights, b.reshape(window, {1, 1, of.length, 1}));
  Val y = b.conv_2d(unsqueeze_axes(lo, x, {1}), weights, {},
                    {.padding = Padding::kValid, .stride_w = static_cast<int>(step)});
  return squeeze_axes(lo, y, {1});
}

// The same with the frames gathered one after the other.
Val stft_by_gather(Lowering& lo, Val x, Val window, const Transform& of, Val step) {
  Builder& b = lo.b;
  const Dim batch = b.dim(x, 0), beyond = b.graph.symbols.sub(b.graph.symbols.add(b.dim(x, 1), 1), of.length);
  step = b.cast(step, DType::kInt32);
  const Val end = dim_as_scalar(lo, beyond, DType::kInt32);
  Val starts = b.range(b.i32_scalar(0), end, step);
  const Val within = iota(lo, of.length, DType::kInt32);
  Val places = b.add(unsqueeze_axes(lo, starts, {1}), within);
  Val frames = b.gather(x, places, 1);  // [batch, frames, length, parts]
  if (window) frames = b.mul(frames, b.reshape(window, {of.length, 1}));
  frames = reshape_to(lo, frames, std::vector<Dim>{batch, b.dim(starts, 0), of.length * of.parts});
  Val weights = b.constant(recipe::reshape(matrix(of), {of.frequencies * 2, of.length * of.parts}));
  return b.fully_connected(frames, weights, {}, true);
}

}  // namespace

void lower_dft(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0);
  if (lo.rank(x) < 2) lo.malformed(fmt::format("the signal must have rank 2 or more; it has rank {}", lo.rank(x)));
  int64_t asked = lo.opset() >= 20 ? -2 : lo.attr_i("axis", 1);
  if (lo.opset() >= 20 && lo.has_input(2)) {
    const std::vector<int64_t> given = lo.need_ints(lo.input(2), "axis");
    if (given.size() != 1) lo.malformed(fmt::format("input 2 ('axis') must have one element; it has {}", given.size()));
    asked = given[0];
  }
  const int last = lo.rank(x) - 1, axis = lo.axis(asked, lo.rank(x));
  if (axis == last) lo.malformed("'axis' must not be the last axis, which holds the parts of the complex numbers");
  const bool onesided = lo.attr_i("onesided", 0) != 0, inverse = lo.attr_i("inverse", 0) != 0;
  const bool is_half = onesided && inverse;

  const int64_t present = lo.need_static(b.dim(x, axis), "the signal's length");
  const int64_t by_default = is_half ? 2 * (present - 1) : present;
  const int64_t length = lo.has_input(1) ? need_one(lo, 1, "dft_length", 1) : by_default;
  if (length < 1 || length > kLongestTransform)
    lo.unsupported(
        fmt::format("a transform of length {} is not supported; the longest is {}", length, kLongestTransform));
  const int64_t frequencies = frequencies_of(length, onesided);
  if (is_half && present != frequencies)
    lo.unsupported(
        fmt::format("an inverse onesided DFT of {} values to a length of {} is not supported: runtimes "
                    "disagree on its result unless there are length / 2 + 1 = {} values",
                    present, length, frequencies));
  const Transform of = is_half ? Transform{length, present, parts_of(lo, x), length, true, true}
                               : Transform{length, std::min(present, length), parts_of(lo, x), frequencies, inverse};
  if (onesided && is_half != (of.parts == 2))
    lo.malformed(is_half ? "an inverse onesided transform needs a complex spectrum"
                         : "a onesided transform needs a real signal");
  check_size(lo, of);
  if (of.rows < present) {
    std::vector<int64_t> begin(static_cast<size_t>(lo.rank(x)), 0);
    std::vector<Dim> size(begin.size(), -1);
    size[static_cast<size_t>(axis)] = of.rows;
    x = b.slice(x, begin, size);
  }
  Perm perm;
  std::vector<Dim> others;
  for (int i = 0; i < last; ++i) {
    if (i == axis) continue;
    perm.push_back(i);
    others.push_back(b.dim(x, i));
  }
  perm.insert(perm.end(), {axis, last});
  std::vector<Dim> rows = others, spectrum = others;
  rows.push_back(of.rows * of.parts);
  spectrum.insert(spectrum.end(), {of.frequencies, of.result_parts()});
  if (others.empty()) rows.insert(rows.begin(), 1);
  x = reshape_to(lo, b.transpose(x, perm), rows);
  const DType dtype = lo.dtype(x);
  Val weights = b.constant(recipe::reshape(matrix(of), {of.frequencies * of.result_parts(), of.rows * of.parts}));
  Val y = b.cast(b.fully_connected(b.cast(x, DType::kFloat32), weights, {}, true), dtype);
  lo.output(0, b.transpose(reshape_to(lo, y, spectrum), stream::inverse(perm)));
}

void lower_stft(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0);
  const Val window = lo.optional_input(2);
  // [batch, length], as PyTorch writes real signals, is [batch, length, 1].
  if (lo.rank(x) == 2) x = unsqueeze_axes(lo, x, {2});
  if (lo.rank(x) != 3) lo.malformed(fmt::format("the signal must have rank 2 or 3; it has rank {}", lo.rank(x)));
  const bool onesided = lo.attr_i("onesided", 1) != 0;
  int64_t length;
  if (lo.has_input(3))
    length = need_one(lo, 3, "frame_length", 1);
  else
    length = lo.need_static(window ? b.dim(window, 0) : b.dim(x, 1), "the length of a frame");
  if (window && (lo.rank(window) != 1 || lo.need_static(b.dim(window, 0), "the window's length") != length))
    lo.malformed(fmt::format("the window must have rank 1 and the frame's length {}", length));
  if (length < 1 || length > kLongestTransform)
    lo.unsupported(
        fmt::format("frames of {} elements are not supported; the longest is {}", length, kLongestTransform));
  if (stream::is_static(b.dim(x, 1)) && b.dim(x, 1) < length)
    lo.malformed(fmt::format("the signal of {} elements is shorter than a frame of {}", b.dim(x, 1), length));
  const Transform of{length, length, parts_of(lo, x), frequencies_of(length, onesided), false};

  check_size(lo, of);
  const DType dtype = lo.dtype(x);
  const Dim batch = b.dim(x, 0);
  x = b.cast(x, DType::kFloat32);
  const Val factors = window ? b.cast(window, DType::kFloat32) : window;
  Val y = lo.ints(lo.input(1)) ? stft_by_convolution(lo, x, factors, of, need_one(lo, 1, "frame_step", 1))
                               : stft_by_gather(lo, x, factors, of, as_scalar(lo, lo.input(1)));
  const std::vector<Dim> spectra = {batch, b.dim(y, 1), of.frequencies, 2};
  lo.output(0, b.cast(reshape_to(lo, y, spectra), dtype));
}

}  // namespace lowtide::layout
