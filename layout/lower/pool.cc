// SPDX-License-Identifier: Apache-2.0
// MaxPool, AveragePool, LpPool, GlobalMaxPool, GlobalAveragePool, GlobalLpPool, and com.microsoft's NhwcMaxPool.
//
// TFLite pools images only, without dilation, and AVERAGE_POOL_2D divides by the number of elements inside the image.
// ONNX has any number of axes, dilations, ceil_mode, and explicit pads that an average counts (count_include_pad) or
// not. So:
// * 1-D is an image of height 1; 3-D takes two passes (rows and columns, then depth): maxima, sums and averages are
//   separable;
// * a dilated maximum gathers its taps side by side and pools them;
// * dilated averages and sums are depthwise convolutions;
// * where the divisor differs, the result is multiplied by a constant for each position.
// Sources: ONNX's MaxPool, AveragePool, LpPool; ONNX Runtime's divisor (elements of the pads count, those that only
// ceil_mode reaches do not); LiteRT's reference/pooling.h.
#include "layout/lower/pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "layout/core/never_negative.h"
#include "layout/lower/attributes.h"
#include "layout/lower/shapes_and_indices.h"
#include "layout/lower/sliding_window.h"

namespace lowtide::layout {
namespace {

// Along one axis: more are not listed in memory.
constexpr int64_t kMostTaps = 1 << 20;
constexpr int64_t kMostWindows = 1 << 20;

// Applies a 2-D pool to x, which has one to three spatial axes and ONNX's order.
template <typename Pool>
Val over_images(Lowering& lo, Val x, std::vector<WindowAxis> axes, Pool pool) {
  Builder& b = lo.b;
  core::Symbols& symbols = b.graph.symbols;
  const int spatial = static_cast<int>(axes.size());
  if (std::any_of(axes.begin(), axes.end(), [](const WindowAxis& axis) { return axis.out == 0; })) {
    Shape none = lo.shape(x);
    for (size_t i = 0; i < axes.size(); ++i) none[i + 2] = axes[i].out;
    return filled_with(lo, none, b.scalar_like(0, x));
  }
  x = to_image(lo, x);
  if (spatial < 3) {
    axes = as_image(std::move(axes));
    return from_image(lo, pool(x, axes[0], axes[1]), spatial);
  }
  const Shape s = lo.shape(x);  // [N, D, H, W, C]
  Val y = pool(b.reshape(x, {symbols.mul(s[0], s[1]), s[2], s[3], s[4]}), axes[1], axes[2]);
  y = pool(b.reshape(y, {s[0], s[1], symbols.mul(axes[1].out, axes[2].out), s[4]}), axes[0],
           WindowAxis{.size = symbols.mul(axes[1].out, axes[2].out), .out = symbols.mul(axes[1].out, axes[2].out)});
  return from_image(lo, b.reshape(y, {s[0], axes[0].out, axes[1].out, axes[2].out, s[4]}), 3);
}

core::PoolOptions pool_options(Padding padding, const WindowAxis& h, const WindowAxis& w) {
  return {.padding = padding,
          .stride_h = static_cast<int>(h.stride),
          .stride_w = static_cast<int>(w.stride),
          .filter_h = static_cast<int>(h.kernel),
          .filter_w = static_cast<int>(w.kernel)};
}

bool does_nothing(const WindowAxis& axis) { return axis.kernel == 1 && axis.stride == 1 && axis.fits_valid; }

std::vector<WindowAxis> read_pool_axes(Lowering& lo, Val x) {
  const int spatial = lo.rank(x) - 2;
  if (spatial < 1) lo.malformed(fmt::format("the input must have rank 3 or more; it has rank {}", lo.rank(x)));
  if (spatial > 3) lo.unsupported(fmt::format("pooling over {} axes is not supported: the most is 3", spatial));
  const Shape sizes(lo.shape(x).begin() + 2, lo.shape(x).end());
  const bool ceil_mode = lo.attr_i("ceil_mode", 0) == 1;  // any other number is 0 to ONNX Runtime
  std::vector<WindowAxis> axes = read_window(lo, sizes, std::nullopt, ceil_mode, ShortWindow::kOne);
  const bool dilated = std::any_of(axes.begin(), axes.end(), [](const WindowAxis& axis) { return axis.dilation > 1; });
  if (dilated && lo.attr_s("auto_pad", "NOTSET").starts_with("SAME"))
    lo.unsupported("auto_pad SAME with dilations is not supported: ONNX Runtime pads as if there were none",
                   "give 'pads' instead");
  for (const WindowAxis& axis : axes)
    if (axis.before >= axis.effective_kernel() || axis.declared_after >= axis.effective_kernel())
      lo.malformed(fmt::format("pads must be smaller than the window of {}; they are {} and {}",
                               axis.effective_kernel(), axis.before, axis.declared_after));
  return axes;
}

// ---- maxima ----

// The padding value of a maximum: the lowest number.
double lowest_padding(Lowering& lo, DType dtype) {
  if (stream::is_float(dtype)) return -std::numeric_limits<double>::infinity();
  switch (dtype) {
    case DType::kInt8:
      return std::numeric_limits<int8_t>::min();
    case DType::kInt16:
      return std::numeric_limits<int16_t>::min();
    case DType::kInt32:
      return std::numeric_limits<int32_t>::min();
    case DType::kInt64:
      return static_cast<double>(std::numeric_limits<int64_t>::min());
    case DType::kUint8:
    case DType::kUint16:
    case DType::kUint32:
    case DType::kUint64:
      return 0;
    default:
      lo.malformed(fmt::format("the input must have a numeric type; it is {}", stream::dtype_name(dtype)));
  }
}

// The positions of all windows' taps. A tap outside the image is replaced by the nearest one inside, which changes
// neither the maximum nor which of several equal elements is the first.
std::vector<int64_t> taps(Lowering& lo, const WindowAxis& axis) {
  const int64_t size = lo.need_static(axis.size, "the size of an axis that is pooled with dilations");
  const int64_t out = lo.need_static(axis.out, "the size of an axis that is pooled with dilations");
  if (out > kMostTaps / axis.kernel)
    lo.unsupported(fmt::format("pooling with dilations over {} windows of {} elements is not supported: too many", out,
                               axis.kernel));
  std::vector<int64_t> positions;
  for (int64_t window = 0; window < out; ++window) {
    std::vector<int64_t> inside;
    for (int64_t tap = 0; tap < axis.kernel; ++tap) {
      const int64_t at = window * axis.stride - axis.before + tap * axis.dilation;
      if (at >= 0 && at < size) inside.push_back(at);
    }
    if (inside.empty()) lo.unsupported("a pooling window that contains only padding is not supported");
    for (int64_t tap = 0; tap < axis.kernel; ++tap) {
      const int64_t at = window * axis.stride - axis.before + tap * axis.dilation;
      positions.push_back(std::clamp(at, inside.front(), inside.back()));
    }
  }
  return positions;
}

// Gathers the taps of the windows along an axis side by side, so that the stride of the pool is the kernel's size.
Val gather_taps(Lowering& lo, Val x, WindowAxis& axis, int at) {
  if (does_nothing(axis)) return x;
  const std::vector<int64_t> positions = taps(lo, axis);
  axis = {.kernel = axis.kernel, .stride = axis.kernel, .size = static_cast<Dim>(positions.size()), .out = axis.out};
  return lo.b.gather(x, lo.b.i32(positions), at);
}

// The same along an axis whose size is known at run time only, or whose taps are too many for a list in memory: the
// image is padded, so that each tap is an element.
Val gather_padded_taps(Lowering& lo, Val x, WindowAxis& axis, int at, double border) {
  Builder& b = lo.b;
  std::vector<int64_t> before(4, 0), after(4, 0);
  before[static_cast<size_t>(at)] = axis.before;
  after[static_cast<size_t>(at)] = axis.effective_kernel() - 1;  // a window starts at an element or a pad before them
  x = b.pad(x, before, after, border);
  const Dim rows[] = {axis.out, 1};
  const Val start = b.mul(reshape_to(lo, iota(lo, axis.out, DType::kInt32), rows), b.i32_scalar(axis.stride));
  const Val tap = b.constant(stream::recipe::iota(0, axis.dilation, DType::kInt32, axis.kernel));
  const Dim positions = b.graph.symbols.mul(axis.out, axis.kernel), list[] = {positions};
  axis = {.kernel = axis.kernel, .stride = axis.kernel, .size = positions, .out = axis.out};
  return b.gather(x, reshape_to(lo, b.add(start, tap), list), at);
}

Val max_pool_image(Lowering& lo, Val x, WindowAxis h, WindowAxis w) {
  if (does_nothing(h) && does_nothing(w)) return x;
  // Where no number is less, zeros will do, by the simpler PAD.
  const double border = core::is_never_negative(lo.b.graph, x.id) ? 0 : lowest_padding(lo, lo.dtype(x));
  if (h.dilation > 1 || w.dilation > 1) {
    for (auto& [axis, at] : {std::pair<WindowAxis&, int>{w, 2}, {h, 1}}) {
      const bool is_listed = !core::is_symbol(axis.size) && axis.out <= kMostTaps / axis.kernel;
      x = !is_listed && !does_nothing(axis) ? gather_padded_taps(lo, x, axis, at, border)
                                            : gather_taps(lo, x, axis, at);
    }
  }
  const std::array<WindowAxis, 2> axes = {h, w};
  x = lengthen_image(lo, x, h, w, border);
  const Padding padding = choose_padding(lo, x, axes, 1, border);
  return lo.b.max_pool_2d(x, pool_options(padding, h, w));
}

// The positions of the maxima in the flattened input, row-major or (storage_order 1) column-major. The taps of every
// window are gathered, ARG_MAX selects one, and a table maps window and tap to the position.
Val max_indices(Lowering& lo, Val x, const std::vector<WindowAxis>& axes, bool columns_first) {
  Builder& b = lo.b;
  const std::vector<int64_t> shape = lo.need_static(lo.shape(x), "the input's shape, when the output Indices is used");
  const size_t spatial = axes.size();
  // [N, C, out, kernel] for each axis in turn, then outs before kernels.
  Shape split = {shape[0], shape[1]};
  std::vector<std::vector<int64_t>> positions;
  Val windows = x;
  for (size_t i = 0; i < spatial; ++i) {
    positions.push_back(taps(lo, axes[i]));
    windows = b.gather(windows, b.i32(positions[i]), static_cast<int>(i) + 2);
    split.insert(split.end(), {axes[i].out, axes[i].kernel});
  }
  windows = b.reshape(windows, split);
  Perm perm = {0, 1};
  Shape outs = {shape[0], shape[1]};
  int64_t count = 1, area = 1, places = 1;
  for (size_t i = 0; i < spatial; ++i) {
    perm.push_back(static_cast<int>(2 + 2 * i));
    outs.push_back(axes[i].out);
    count *= axes[i].kernel;
    area *= shape[i + 2];
    places *= axes[i].out;
  }
  for (size_t i = 0; i < spatial; ++i) perm.push_back(static_cast<int>(3 + 2 * i));
  const int64_t planes = shape[0] * shape[1];
  const int64_t limit = std::numeric_limits<int32_t>::max();
  if (count > limit / std::max<int64_t>(places, 1) || planes > limit / std::max<int64_t>(area, 1))
    lo.unsupported("the output Indices of an input with more than 2^31 - 1 elements or taps is not supported",
                   "pool a smaller input or remove the output Indices");
  windows = b.reshape(b.transpose(windows, perm), {planes, places, count});
  Val tap = b.arg_max(windows, 2, DType::kInt32);  // [planes, places]

  // The position in a plane by window and tap: a sum of one table [out, kernel] per axis.
  Val table;
  int64_t step = 1;
  for (size_t k = 0; k < spatial; ++k) {
    const size_t i = columns_first ? k : spatial - 1 - k;
    Shape both(2 * spatial, 1);
    both[i] = axes[i].out;
    both[spatial + i] = axes[i].kernel;
    for (int64_t& position : positions[i]) position *= step;
    Val part = b.reshape(b.i32(positions[i]), both);
    table = table ? b.add(table, part) : part;
    step *= shape[i + 2];
  }
  auto sequence = [&](int64_t delta, int64_t length) {
    return b.constant(stream::recipe::iota(0, delta, DType::kInt32, length));
  };
  Val entry = b.add(tap, sequence(count, places));
  Val flat = b.gather(b.reshape(table, {places * count}), entry, 0);
  flat = b.add(flat, b.reshape(sequence(area, planes), {planes, 1}));
  return b.reshape(b.cast(flat, DType::kInt64), outs);
}

// ---- averages and sums ----

// The sum over windows, with zeros outside, by a depthwise convolution with equal weights.
Val weighted_sum(Lowering& lo, Val x, const WindowAxis& h, const WindowAxis& w, double weight) {
  Builder& b = lo.b;
  const int64_t channels = lo.need_static(lo.b.dim(x, 3), "the number of channels that are pooled");
  const std::array<WindowAxis, 2> axes = {h, w};
  x = lengthen_image(lo, x, h, w, 0);
  const Padding padding = choose_padding(lo, x, axes, 1, 0);
  core::Conv2dOptions options{.padding = padding,
                              .stride_h = static_cast<int>(h.stride),
                              .stride_w = static_cast<int>(w.stride),
                              .dilation_h = static_cast<int>(h.dilation),
                              .dilation_w = static_cast<int>(w.dilation),
                              .depth_multiplier = 1};
  return b.depthwise_conv_2d(x, b.filled(weight, lo.dtype(x), {1, h.kernel, w.kernel, channels}), {}, options);
}

// The divisor of each window along an axis.
std::vector<int64_t> divisors(Lowering& lo, const WindowAxis& axis, bool include_pad) {
  const int64_t size = lo.need_static(axis.size, "the size of an axis whose average does not count pads");
  const int64_t out = lo.need_static(axis.out, "the size of an axis whose average does not count pads");
  if (out > kMostWindows)
    lo.unsupported(
        fmt::format("an average with pads over {} windows is not supported: the most is {}", out, kMostWindows));
  const int64_t from = include_pad ? -axis.before : 0, to = size + (include_pad ? axis.declared_after : 0);
  std::vector<int64_t> counts;
  for (int64_t window = 0; window < out; ++window) {
    const int64_t first = window * axis.stride - axis.before;
    const auto taps_before = [&](int64_t end) {
      return std::clamp<int64_t>((end - first + axis.dilation - 1) / axis.dilation, 0, axis.kernel);
    };
    counts.push_back(taps_before(to) - taps_before(from));
  }
  if (std::find(counts.begin(), counts.end(), 0) != counts.end())
    lo.unsupported("a pooling window that contains only padding is not supported");
  return counts;
}

// kernel / divisor for each window along an axis, as [1, out, 1, 1] or [1, 1, out, 1]; absent when all are 1.
Val correction(Lowering& lo, const WindowAxis& axis, bool include_pad, DType dtype, Shape shape) {
  // All windows contain only elements, or elements and counted pads.
  if ((axis.before == 0 && axis.fits_valid) || (include_pad && axis.after <= axis.declared_after)) return {};
  const std::vector<int64_t> counts = divisors(lo, axis, include_pad);
  std::vector<float> factors;
  for (int64_t count : counts)
    factors.push_back(static_cast<float>(static_cast<double>(axis.kernel) / static_cast<double>(count)));
  if (std::all_of(factors.begin(), factors.end(), [](float f) { return f == 1; })) return {};
  return lo.b.cast(lo.b.constant(stream::recipe::floats(factors, std::move(shape))), dtype);
}

Val average_pool_image(Lowering& lo, Val x, WindowAxis h, WindowAxis w, bool include_pad) {
  if (does_nothing(h) && does_nothing(w)) return x;
  Builder& b = lo.b;
  const bool dilated = h.dilation > 1 || w.dilation > 1;
  // An average that does not count pads does not count the elements of a lengthened axis either.
  const bool lengthened = (h.lengthened != 0 || w.lengthened != 0) && !include_pad;
  const bool valid = h.fits_valid && w.fits_valid && !lengthened;
  // The kernel's divisor, the number of elements inside, is the right one.
  if (!dilated && (valid || (!include_pad && !lengthened && h.fits_same && w.fits_same)))
    return b.average_pool_2d(lengthen_image(lo, x, h, w, 0),
                             pool_options(valid ? Padding::kValid : Padding::kSame, h, w));
  auto over_all_taps = [&](Val image, WindowAxis ph, WindowAxis pw) {
    if (dilated) return weighted_sum(lo, image, ph, pw, 1.0 / static_cast<double>(h.kernel * w.kernel));
    ph.fits_same = pw.fits_same = false;  // SAME would divide by the elements inside
    const std::array<WindowAxis, 2> axes = {ph, pw};
    image = lengthen_image(lo, image, ph, pw, 0);
    const Padding padding = choose_padding(lo, image, axes, 1, 0);
    return b.average_pool_2d(image, pool_options(padding, h, w));
  };
  Val y = over_all_taps(x, h, w);
  // The number of taps that count is known at run time only: it is the same pool of an image of ones.
  const bool beyond_pads = h.after > h.declared_after || w.after > w.declared_after;
  if ((!include_pad || beyond_pads) && (core::is_symbol(h.size) || core::is_symbol(w.size))) {
    core::Symbols& symbols = b.graph.symbols;
    std::vector<Dim> counted = {1};
    std::array<WindowAxis, 2> axes = {h, w};
    for (WindowAxis& axis : axes) {
      counted.push_back(symbols.sub(axis.size, axis.lengthened));
      if (!include_pad) continue;
      counted.back() = symbols.add(counted.back(), axis.before + axis.declared_after);
      axis.after = std::max<int64_t>(0, axis.after - axis.declared_after);
      axis.before = 0;
    }
    counted.push_back(1);
    return b.div(y, over_all_taps(filled_with(lo, counted, b.scalar_like(1, x)), axes[0], axes[1]));
  }
  Val row = correction(lo, h, include_pad, lo.dtype(x), {1, core::is_symbol(h.out) ? 1 : h.out, 1, 1});
  Val column = correction(lo, w, include_pad, lo.dtype(x), {1, 1, core::is_symbol(w.out) ? 1 : w.out, 1});
  if (row && column) return b.mul(y, b.mul(row, column));
  if (row || column) return b.mul(y, row ? row : column);
  return y;
}

// |x| to the power p, and back.
Val to_power(Lowering& lo, Val x, double p) {
  if (p == 1) return lo.b.abs(x);
  if (p == 2) return lo.b.square(x);
  return lo.b.pow(lo.b.abs(x), lo.b.scalar_like(p, x));
}
Val from_power(Lowering& lo, Val x, double p) {
  if (p == 1) return x;
  if (p == 2) return lo.b.sqrt(x);
  return lo.b.pow(x, lo.b.scalar_like(1 / p, x));
}
// An integer from version 2 on, a float before.
double read_p(Lowering& lo) {
  const double p = lo.opset() < 2 ? lo.attr_f("p", 2) : static_cast<double>(lo.attr_i("p", 2));
  if (!(p > 0)) lo.malformed(fmt::format("attribute 'p' must be positive; it is {}", p));
  return p;
}

std::vector<int> spatial_axes(Lowering& lo, Val x) {
  if (lo.rank(x) < 3) lo.malformed(fmt::format("the input must have rank 3 or more; it has rank {}", lo.rank(x)));
  return axes_from(2, lo.rank(x));
}

Val max_pool(Lowering& lo, Val x, const std::vector<WindowAxis>& axes) {
  return over_images(lo, x, axes, [&](Val image, const WindowAxis& h, const WindowAxis& w) {
    return max_pool_image(lo, image, h, w);
  });
}

}  // namespace

Val average_pool(Lowering& lo, Val x) {
  std::vector<WindowAxis> axes = read_pool_axes(lo, x);
  bool include_pad = lo.attr_i("count_include_pad", 0) != 0;
  // Of a window that is longer than the axis and its pads, ONNX Runtime counts all of it before opset 19, and from then
  // on what is inside the pads; with ceil_mode always the latter.
  const bool has_pads = std::any_of(
      axes.begin(), axes.end(), [](const WindowAxis& axis) { return axis.before != 0 || axis.declared_after != 0; });
  const bool may_be_short = std::any_of(axes.begin(), axes.end(),
                                        [](const WindowAxis& axis) { return axis.is_short || axis.lengthened != 0; });
  if (!has_pads && !may_be_short) include_pad = false;  // there are none to count
  if (include_pad && may_be_short) {
    if (lo.opset() >= 19 && has_pads)
      lo.unsupported(
          "count_include_pad with pads and a window that may be longer than the axis and its pads is not supported",
          "fix the inputs' shapes with --shape INPUT=...");
    if (lo.opset() >= 19) include_pad = false;
    for (WindowAxis& axis : axes)
      if (axis.is_short && include_pad) axis.declared_after = axis.after;
  }
  return over_images(lo, x, axes, [&](Val image, const WindowAxis& h, const WindowAxis& w) {
    return average_pool_image(lo, image, h, w, include_pad);
  });
}

void lower_max_pool(Lowering& lo) {
  Val x = lo.input(0);
  const std::vector<WindowAxis> axes = read_pool_axes(lo, x);
  const int64_t storage_order = lo.attr_i("storage_order", 0);
  if (storage_order != 0 && storage_order != 1)
    lo.malformed(fmt::format("attribute 'storage_order' must be 0 or 1; it is {}", storage_order));
  lo.output(0, max_pool(lo, x, axes));
  if (lo.wants_output(1)) lo.output(1, max_indices(lo, x, axes, storage_order == 1));
}

// com.microsoft: on channels-last integers.
void lower_nhwc_max_pool(Lowering& lo) {
  Val x = channels_first(lo, lo.input(0));
  lo.output(0, channels_last(lo, max_pool(lo, x, read_pool_axes(lo, x))));
}

void lower_average_pool(Lowering& lo) { lo.output(0, average_pool(lo, lo.input(0))); }

void lower_lp_pool(Lowering& lo) {
  Val x = lo.input(0);
  const std::vector<WindowAxis> axes = read_pool_axes(lo, x);
  const double p = read_p(lo);
  Val sum = over_images(lo, to_power(lo, x, p), axes, [&](Val image, const WindowAxis& h, const WindowAxis& w) {
    return does_nothing(h) && does_nothing(w) ? image : weighted_sum(lo, image, h, w, 1);
  });
  lo.output(0, from_power(lo, sum, p));
}

void lower_global_average_pool(Lowering& lo) {
  Val x = lo.input(0);
  lo.output(0, lo.b.mean(x, spatial_axes(lo, x), true));
}

void lower_global_max_pool(Lowering& lo) {
  Val x = lo.input(0);
  lo.output(0, lo.b.reduce_max(x, spatial_axes(lo, x), true));
}

void lower_global_lp_pool(Lowering& lo) {
  Val x = lo.input(0);
  const double p = read_p(lo);
  lo.output(0, from_power(lo, lo.b.sum(to_power(lo, x, p), spatial_axes(lo, x), true), p));
}

}  // namespace lowtide::layout
