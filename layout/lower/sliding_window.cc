// SPDX-License-Identifier: Apache-2.0
// See window.h. Sources: ONNX's Conv, MaxPool and AveragePool; LiteRT's tflite/kernels/padding.h.
#include "layout/lower/sliding_window.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "layout/lower/attributes.h"

namespace lowtide::layout {
namespace {

constexpr int64_t kMostListed = 1 << 20;  // elements of a list whose length is what matters

enum class AutoPad { kNotSet, kValid, kSameUpper, kSameLower };

AutoPad read_auto_pad(Lowering& lo) {
  std::string text = lo.attr_s("auto_pad", "NOTSET");
  if (text == "NOTSET" || text.empty()) return AutoPad::kNotSet;
  if (text == "VALID") return AutoPad::kValid;
  if (text == "SAME_UPPER") return AutoPad::kSameUpper;
  if (text == "SAME_LOWER") return AutoPad::kSameLower;
  lo.malformed(fmt::format("attribute 'auto_pad' has the unknown value '{}'", text));
}

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

// A size as stride * whole + rest; the rest may not be known.
struct StrideQuotient {
  Dim whole = 0;
  std::optional<int64_t> rest;
};

StrideQuotient divide(core::Symbols& symbols, Dim size, int64_t stride) {
  Dim rest = symbols.mod(size, stride);
  if (core::is_symbol(rest)) return {symbols.floor_div(size, stride), std::nullopt};
  return {*symbols.exact_div(symbols.sub(size, rest), stride), rest};
}

// floor((size + plus) / stride)
Dim floor_of(core::Symbols& symbols, Dim size, int64_t plus, int64_t stride) {
  StrideQuotient d = divide(symbols, size, stride);
  if (d.rest) return symbols.add(d.whole, floor_div(*d.rest + plus, stride));
  return symbols.floor_div(symbols.add(size, plus), stride);
}

// The total padding of SAME; nullopt when it depends on a dynamic size.
std::optional<int64_t> same_total(core::Symbols& symbols, const WindowAxis& axis) {
  if (axis.effective_kernel() == 1) return 0;
  StrideQuotient d = divide(symbols, axis.size, axis.stride);
  if (!d.rest) return std::nullopt;
  return std::max<int64_t>(0, axis.effective_kernel() - (*d.rest == 0 ? axis.stride : *d.rest));
}

// The padding of SAME is negative where the stride is longer than what a window needs. By ONNX's formula a pool then
// leaves elements out at the beginning, too; ONNX Runtime does that in some of its pools and refuses it in others.
void refuse_negative_same(Lowering& lo, const WindowAxis& axis) {
  const std::optional<int64_t> rest = divide(lo.b.graph.symbols, axis.size, axis.stride).rest;
  const int64_t least = axis.effective_kernel() - (rest && *rest != 0 ? *rest : axis.stride);
  if (least >= -1 || axis.size == 0) return;  // the one element is left out at the end
  lo.unsupported(
      fmt::format("a pool with auto_pad SAME, a window of {} elements and the stride {} is not supported: the "
                  "padding would be negative, which runtimes take differently",
                  axis.effective_kernel(), axis.stride),
      core::is_symbol(axis.size) ? "fix the input's shape with --shape INPUT=..., or give 'pads' instead"
                                 : "give 'pads' instead");
}

// With ceil_mode the last window may extend outside, unless it would start after the elements and the pads at the
// beginning: as many windows as with so many pads at the end.
int64_t ceil_pads(const WindowAxis& axis) {
  return std::min(axis.declared_after + axis.stride, axis.effective_kernel()) - 1;
}

// The windows of a pool where a window is longer than the axis with its pads, by `missing` elements. ONNX Runtime
// divides towards zero when it counts them: there is one where less than a stride is missing.
int64_t short_windows(const WindowAxis& axis, int64_t missing) { return 1 - missing / axis.stride; }

// The elements that an axis must have, without its pads, to hold a window.
int64_t needed_size(const WindowAxis& axis) { return axis.effective_kernel() - axis.before - axis.declared_after; }

// True where a size cannot be less than `least`: it is positive, and a multiple of something that is not.
bool is_at_least(const core::Symbols& symbols, Dim size, int64_t least) {
  int64_t divisor = 0;
  for (const core::Symbols::Term& term : symbols.terms(size)) divisor = std::gcd(divisor, term.factor);
  return divisor >= least;
}

// Lengthens an axis of unknown size that may be too short by less than a stride; one that is shorter still has no
// window, as in ONNX Runtime.
void lengthen(core::Symbols& symbols, WindowAxis& axis) {
  const int64_t needed = needed_size(axis);
  if (!core::is_symbol(axis.size) || needed < 2 || axis.stride < 2 || is_at_least(symbols, axis.size, needed)) return;
  Dim longer = symbols.max(axis.size, needed);
  if (needed > axis.stride) longer = symbols.min(longer, symbols.add(axis.size, axis.stride - 1));
  axis.lengthened = symbols.sub(longer, axis.size);
  axis.size = longer;
}

// The size with its pads, where `last` is how far the last stride begins from the first: what the last window and the
// last stride need. The elements behind the last window do not count.
Dim size_for_same(core::Symbols& symbols, const WindowAxis& axis, Dim last) {
  return symbols.add(last, std::max(axis.effective_kernel(), axis.stride));
}

// SAME where the total depends on a dynamic size.
void place_same(core::Symbols& symbols, WindowAxis& axis) {
  const Dim last = symbols.mul(symbols.sub(axis.out, 1), axis.stride);
  Dim total = symbols.sub(symbols.add(last, axis.effective_kernel()), axis.size);
  if (axis.effective_kernel() < axis.stride) total = symbols.max(total, 0);
  axis.before = symbols.floor_div(symbols.add(total, axis.more_before ? 1 : 0), 2);
  axis.after = symbols.sub(symbols.sub(size_for_same(symbols, axis, last), axis.size), axis.before);
  axis.declared_after = axis.after;
  axis.fits_valid = false;
  axis.fits_same = !axis.more_before;
}

void place(Lowering& lo, WindowAxis& axis, AutoPad auto_pad, bool ceil_mode, ShortWindow short_window) {
  core::Symbols& symbols = lo.b.graph.symbols;
  const bool is_same = auto_pad == AutoPad::kSameUpper || auto_pad == AutoPad::kSameLower;
  if (short_window == ShortWindow::kOne && is_same) refuse_negative_same(lo, axis);
  if (short_window == ShortWindow::kOne && !ceil_mode && !is_same) lengthen(symbols, axis);
  std::optional<int64_t> total = same_total(symbols, axis);
  const Dim same_count = floor_of(symbols, axis.size, axis.stride - 1, axis.stride);
  if (is_same) {
    axis.out = same_count;
    axis.more_before = auto_pad == AutoPad::kSameLower;
    if (!total) return place_same(symbols, axis);
    axis.before = axis.more_before ? *total - *total / 2 : *total / 2;
    axis.declared_after = *total - axis.before;
  } else {
    const int64_t plus = axis.before + axis.declared_after - axis.effective_kernel();
    const int64_t reached = ceil_mode ? plus - axis.declared_after + ceil_pads(axis) : plus;
    axis.out = symbols.add(floor_of(symbols, axis.size, reached, axis.stride), 1);
    const bool is_longer = short_window == ShortWindow::kOne && !ceil_mode && !core::is_symbol(axis.size) &&
                           axis.size > 0 && axis.size + plus < 0;
    if (is_longer) axis.out = short_windows(axis, -axis.size - plus);
    axis.is_short = is_longer && axis.out == 1;
  }
  const int64_t least = short_window == ShortWindow::kOne ? 0 : 1;  // to ONNX Runtime, a pool may have no window
  if (!core::is_symbol(axis.out) && axis.out < least && axis.size != 0)
    lo.malformed(fmt::format("a window of {} elements is larger than an axis of {} elements with pads {} and {}",
                             axis.effective_kernel(), axis.size, axis.before, axis.declared_after));
  const Dim valid_count = symbols.add(floor_of(symbols, axis.size, -axis.effective_kernel(), axis.stride), 1);
  axis.fits_valid = axis.before == 0 && axis.out == valid_count;
  // SAME pads a window of two elements at the end only, whatever the size.
  const bool same_before = total ? axis.before == *total / 2 : axis.before == 0 && axis.effective_kernel() <= 2;
  axis.fits_same = same_before && axis.out == same_count;
  // The padding that the last window needs.
  Dim needed = symbols.add(symbols.mul(symbols.sub(axis.out, 1), axis.stride), axis.effective_kernel() - axis.before);
  needed = symbols.sub(needed, axis.size);
  axis.after = !core::is_symbol(needed) ? std::max<int64_t>(0, needed)
               : ceil_mode && !is_same  ? ceil_pads(axis)
                                        : axis.declared_after;
}

}  // namespace

std::vector<WindowAxis> read_window(Lowering& lo, std::span<const Dim> sizes,
                                    std::optional<std::vector<int64_t>> weights, bool ceil_mode,
                                    ShortWindow short_window) {
  const size_t count = sizes.size();
  if (!weights && !lo.has_attr("kernel_shape")) lo.malformed("attribute 'kernel_shape' is missing");
  std::vector<int64_t> kernel = lo.attr_ints("kernel_shape").value_or(weights.value_or(std::vector<int64_t>()));
  if (kernel.size() != count)
    lo.malformed(fmt::format("attribute 'kernel_shape' must have {} elements; it has {}", count, kernel.size()));
  if (weights && kernel != *weights)
    lo.malformed(fmt::format("attribute 'kernel_shape' is {}, but the weights have {}", stream::to_string(kernel),
                             stream::to_string(*weights)));
  const std::vector<int64_t> stride = attr_int_list(lo, "strides", count, 1, 1),
                             dilation = attr_int_list(lo, "dilations", count, 1, 1);
  const AutoPad auto_pad = read_auto_pad(lo);
  std::vector<int64_t> pads = attr_int_list(lo, "pads", 2 * count, 0, 0);
  if (auto_pad != AutoPad::kNotSet) std::fill(pads.begin(), pads.end(), 0);
  std::vector<WindowAxis> axes(count);
  for (size_t i = 0; i < count; ++i) {
    if (kernel[i] < 1 || kernel[i] > std::numeric_limits<int32_t>::max() / dilation[i])
      lo.malformed(fmt::format("kernel size {} with dilation {} is out of range", kernel[i], dilation[i]));
    axes[i] = {.kernel = kernel[i],
               .stride = stride[i],
               .dilation = dilation[i],
               .size = sizes[i],
               .before = pads[i],
               .declared_after = pads[count + i]};
    place(lo, axes[i], auto_pad, ceil_mode, short_window);
  }
  return axes;
}

namespace {

// [1, 2]: the pads before and after axis `at` of x.
Val pads_of_axis(Lowering& lo, Val x, int at, const WindowAxis& axis) {
  Builder& b = lo.b;
  if (!axis.is_padded_at_run_time()) {
    const int64_t pads[] = {axis.before, axis.after};
    return {b.graph.add_ints(pads, DType::kInt32, {1, 2})};
  }
  if (axis.stride > kMostListed) lo.need_static(axis.size, "the size of an axis with auto_pad SAME and a long stride");
  // A table by the elements of the last stride, of which there is one at least. RANGE lists where strides begin, and
  // the elements of the last one. Only ops whose results LiteRT computes when it allocates tensors: see lengthen_image.
  std::vector<int64_t> table = {0, 0};
  for (int64_t rest = 1; rest <= axis.stride; ++rest) {
    const int64_t total = std::max<int64_t>(axis.effective_kernel() - rest, 0);
    table.push_back((total + (axis.more_before ? 1 : 0)) / 2);
    table.push_back(size_for_same(b.graph.symbols, axis, 0) - rest - table.back());
  }
  const auto element = [&](Val list, int64_t place) {
    return b.op(Kind::kStridedSlice, {list, b.i32({place}), b.i32({place + 1}), b.i32({1})},
                core::StridedSliceOptions{.shrink_axis_mask = 1});
  };
  const Val size = element(b.shape_of(x), at);
  const Val last = element(b.range(b.i32_scalar(0), size, b.i32_scalar(axis.stride)), -1);
  const Val rest = b.shape_of(b.range(last, size, b.i32_scalar(1)));
  return b.gather(Val{b.graph.add_ints(table, DType::kInt32, {axis.stride + 1, 2})}, rest, 0);
}

Val pad_at_run_time(Lowering& lo, Val x, std::span<const WindowAxis> axes, size_t first_axis, double value) {
  std::vector<Val> rows;
  std::vector<Dim> known;
  for (int at = 0; at < lo.rank(x); ++at) {
    const size_t i = static_cast<size_t>(at) - first_axis;  // wraps before the first axis
    const WindowAxis& axis = i < axes.size() ? axes[i] : WindowAxis{};
    rows.push_back(pads_of_axis(lo, x, at, axis));
    known.insert(known.end(), {axis.before, axis.after});
  }
  const Val table = lo.b.concat(rows, 0);
  lo.b.graph.at(table.id).contents = known;
  return value == 0 ? lo.b.op(Kind::kPad, {x, table}) : lo.b.op(Kind::kPadv2, {x, table, lo.b.scalar_like(value, x)});
}

}  // namespace

Padding choose_padding(Lowering& lo, Val& x, std::span<const WindowAxis> axes, size_t first_axis, double value) {
  if (std::all_of(axes.begin(), axes.end(), [](const WindowAxis& a) { return a.fits_valid; })) return Padding::kValid;
  if (std::all_of(axes.begin(), axes.end(), [](const WindowAxis& a) { return a.fits_same; })) return Padding::kSame;
  if (std::ranges::any_of(axes, &WindowAxis::is_padded_at_run_time)) {
    x = pad_at_run_time(lo, x, axes, first_axis, value);
    return Padding::kValid;
  }
  std::vector<int64_t> before(static_cast<size_t>(lo.rank(x)), 0), after = before;
  for (size_t i = 0; i < axes.size(); ++i) {
    before[first_axis + i] = axes[i].before;
    after[first_axis + i] = axes[i].after;
  }
  x = lo.b.pad(x, before, after, value);
  return Padding::kValid;
}

Val lengthen_image(Lowering& lo, Val image, const WindowAxis& h, const WindowAxis& w, double border) {
  if (h.lengthened == 0 && w.lengthened == 0) return image;
  // Only ops whose results LiteRT computes when it allocates tensors (SHAPE, STRIDED_SLICE, GATHER): so the image keeps
  // a shape that is known then, and the ops behind it stay with XNNPACK. A list of as many elements as are needed,
  // without as many as there are, has as many as are missing; one with two axes tells both at once.
  Builder& b = lo.b;
  const std::array<const WindowAxis*, 2> axes = {&h, &w};
  Shape listed = {1, 1, 1, 1}, missing = {0, 0, 0, 0};
  core::StridedSliceOptions options{.begin_mask = 0b1001};
  std::vector<int64_t> most(4, std::numeric_limits<int32_t>::max());
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i]->lengthened == 0) {
      options.begin_mask |= 1 << (i + 1);
      continue;
    }
    listed[i + 1] = needed_size(*axes[i]);
    missing[i + 1] = axes[i]->lengthened;
    options.end_mask |= 1 << (i + 1);
    most[i + 1] = axes[i]->stride - 1;
  }
  if (listed[1] > kMostListed / listed[2])
    lo.unsupported(fmt::format("windows of {} x {} elements over axes whose sizes are not known are not supported",
                               listed[1], listed[2]),
                   "give the input's shape with --shape");
  const std::vector<int64_t> zeros(4, 0), ones(4, 1);
  Val list = b.op(Kind::kStridedSlice,
                  {b.filled(0, DType::kInt8, listed), b.shape_of(image), b.i32(zeros), b.i32(ones)}, options);
  if (listed[1] > most[1] + 1 || listed[2] > most[2] + 1) list = b.strided_slice(list, zeros, most, ones);
  b.graph.at(list.id).shape = missing;
  const std::vector<int64_t> behind = {0, 0, 0, 1, 0, 2, 0, 3};  // none before, on each axis
  Val table = b.gather(b.shape_of(list), Val{b.graph.add_ints(behind, DType::kInt32, {4, 2})}, 0);
  return border == 0 ? b.op(Kind::kPad, {image, table})
                     : b.op(Kind::kPadv2, {image, table, b.scalar_like(border, image)});
}

Val to_image(Lowering& lo, Val x) {
  const int rank = lo.rank(x);
  Perm perm = {0};
  for (int i = 2; i < rank; ++i) perm.push_back(i);
  perm.push_back(1);
  x = lo.b.transpose(x, perm);
  if (rank != 3) return x;
  const Shape shape = lo.shape(x);
  return lo.b.reshape(x, {shape[0], 1, shape[1], shape[2]});
}

Val from_image(Lowering& lo, Val y, int spatial) {
  if (spatial == 1) {
    const Shape shape = lo.shape(y);
    y = lo.b.reshape(y, {shape[0], shape[2], shape[3]});
  }
  const int rank = lo.rank(y);
  Perm perm = {0, rank - 1};
  for (int i = 1; i < rank - 1; ++i) perm.push_back(i);
  return lo.b.transpose(y, perm);
}

namespace {

Perm channels_first_perm(int rank) {
  Perm perm = {0, rank - 1};
  for (int axis = 1; axis + 1 < rank; ++axis) perm.push_back(axis);
  return perm;
}

}  // namespace

Val channels_first(Lowering& lo, Val x) {
  if (lo.rank(x) < 3) lo.malformed(fmt::format("the input must have rank 3 or more; it has rank {}", lo.rank(x)));
  return lo.b.transpose(x, channels_first_perm(lo.rank(x)));
}

Val channels_last(Lowering& lo, Val y) { return lo.b.transpose(y, stream::inverse(channels_first_perm(lo.rank(y)))); }

std::vector<WindowAxis> as_image(std::vector<WindowAxis> axes) {
  if (axes.size() == 1) axes.insert(axes.begin(), WindowAxis{});
  return axes;
}

int to_int(Lowering& lo, int64_t value, const char* what) {
  if (value < 0 || value > std::numeric_limits<int32_t>::max())
    lo.malformed(fmt::format("'{}' must be from 0 to 2^31 - 1; it is {}", what, value));
  return static_cast<int>(value);
}

}  // namespace lowtide::layout
