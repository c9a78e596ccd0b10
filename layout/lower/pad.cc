// SPDX-License-Identifier: Apache-2.0
// Pad in the modes constant, reflect, edge and wrap.
//
// Differences: ONNX lists all pads at the beginnings of axes, then all at their ends, and negative ones crop; TFLite
// has one row per axis and no negative numbers. TFLite has no modes edge and wrap: they become gathers by the indices
// of the border.
#include <algorithm>
#include <string>

#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

constexpr int64_t kWidest = INT32_MAX;
constexpr int64_t kMostIndices = 1 << 20;  // of a border that is gathered
// From here on the border is gathered by itself and joined to the axis: a list of all places takes 16 KB or more, and
// the join is faster, 2 to 25 times for rows without inner axes (on 4,096 to 480,000 elements), equal for images.
constexpr int64_t kLongAxis = 4096;

struct Border {
  std::vector<int64_t> before, after;  // one for each axis of the data
};

Border listed_border(Lowering& lo, Val x, const std::vector<int64_t>& pads, const std::vector<int>& axes) {
  if (pads.size() != 2 * axes.size())
    lo.malformed("'pads' must have two elements for each of the " + std::to_string(axes.size()) + " axes; it has " +
                 std::to_string(pads.size()));
  for (int64_t pad : pads)
    if (pad < -kWidest || pad > kWidest) lo.malformed("'pads' must fit 32 bits; it contains " + std::to_string(pad));
  Border border{std::vector<int64_t>(static_cast<size_t>(lo.rank(x)), 0), {}};
  border.after = border.before;
  for (size_t i = 0; i < axes.size(); ++i) {
    border.before[static_cast<size_t>(axes[i])] = pads[i];
    border.after[static_cast<size_t>(axes[i])] = pads[axes.size() + i];
  }
  return border;
}

// Crops x by the negative pads and sets them to 0.
Val cropped(Lowering& lo, Val x, Border& border) {
  constexpr int64_t kToTheEnd = INT32_MAX;
  std::vector<int64_t> begin, end, stride(border.before.size(), 1);
  bool any = false;
  for (size_t a = 0; a < border.before.size(); ++a) {
    const int64_t front = std::max<int64_t>(-border.before[a], 0), back = std::max<int64_t>(-border.after[a], 0);
    any = any || front > 0 || back > 0;
    if (Dim axis_size = lo.shape(x)[a]; !core::is_symbol(axis_size) && front + back > axis_size)
      lo.malformed("negative pads crop " + std::to_string(front + back) + " elements of axis " + std::to_string(a) +
                   ", which has only " + std::to_string(axis_size));
    begin.push_back(front);
    end.push_back(back > 0 ? -back : kToTheEnd);
    border.before[a] = std::max<int64_t>(border.before[a], 0);
    border.after[a] = std::max<int64_t>(border.after[a], 0);
  }
  return any ? lo.b.strided_slice(x, begin, end, stride) : x;
}

Val bordered(Lowering& lo, Val x, const Border& border, Val value) {
  if (!value) return lo.b.pad(x, border.before, border.after, 0);
  if (auto known = lo.numbers(value)) {
    if (known->size() != 1)
      lo.malformed("input 2 ('constant_value') must have one element; it has " + std::to_string(known->size()));
    if (lo.dtype(value) == lo.dtype(x) && stream::is_float(lo.dtype(x)))
      return lo.b.pad(x, border.before, border.after, (*known)[0]);
  }
  const bool none = std::all_of(border.before.begin(), border.before.end(), [](int64_t n) { return n == 0; }) &&
                    std::all_of(border.after.begin(), border.after.end(), [](int64_t n) { return n == 0; });
  if (none) return x;
  std::vector<int64_t> table;
  for (size_t a = 0; a < border.before.size(); ++a) table.insert(table.end(), {border.before[a], border.after[a]});
  Val paddings{lo.b.graph.add_ints(table, DType::kInt32, {lo.rank(x), 2})};
  return lo.b.op(Kind::kPadv2, {x, paddings, as_scalar(lo, value)});
}

// For an axis of which one side is cropped and elements are added to the other side. A crop of more elements than the
// axis has also removes added ones. Where the extent is known, fewer are added; otherwise the crop is moved to `late`,
// which is applied to the padded result.
void share_crop(Dim extent, int64_t& crop, int64_t& added, int64_t& late) {
  if (crop >= 0 || added <= 0) return;
  if (core::is_symbol(extent)) {
    std::swap(crop, late);
  } else if (extent + crop < 0 && extent + crop + added >= 0) {
    added += extent + crop;
    crop = -extent;
  }
}

Val constant_border(Lowering& lo, Val x, Border border, Val value) {
  const std::vector<int64_t> none(border.before.size(), 0);
  Border late{none, none};
  for (size_t a = 0; a < none.size(); ++a) {
    share_crop(lo.shape(x)[a], border.before[a], border.after[a], late.before[a]);
    share_crop(lo.shape(x)[a], border.after[a], border.before[a], late.after[a]);
  }
  x = cropped(lo, x, border);
  return cropped(lo, bordered(lo, x, border, value), late);
}

// The index of the element that is copied to position `at`, which may be outside 0..n-1.
int64_t edge_source(int64_t at, int64_t n) { return std::clamp<int64_t>(at, 0, n - 1); }
int64_t wrap_source(int64_t at, int64_t n) { return ((at % n) + n) % n; }
int64_t reflect_source(int64_t at, int64_t n) {
  if (n == 1) return 0;
  const int64_t period = 2 * (n - 1), within = wrap_source(at, period);
  return within < n ? within : period - within;
}

using Source = int64_t (*)(int64_t, int64_t);

// An axis of an extent that is known at run time only: positions modulo the extent.
Val wrapped_axis(Lowering& lo, Val x, const Border& border, size_t axis) {
  Builder& b = lo.b;
  core::Symbols& symbols = b.graph.symbols;
  const Dim n = lo.shape(x)[axis];
  const Dim end = symbols.add(n, border.after[axis]);
  const Val places =
      b.range(b.i32_scalar(-border.before[axis]), dim_as_scalar(lo, end, DType::kInt32), b.i32_scalar(1));
  return b.gather(x, b.floor_mod(places, dim_as_scalar(lo, n, DType::kInt32)), static_cast<int>(axis));
}

// How many places are listed to gather an axis of n elements with its border.
int64_t listed_places(const Border& border, size_t axis, int64_t n) {
  return border.before[axis] + border.after[axis] + (n < kLongAxis ? n : 0);
}

Val gathered_axis(Lowering& lo, Val x, const Border& border, size_t axis, Source source) {
  Builder& b = lo.b;
  const int64_t n = lo.need_static(lo.shape(x)[axis], "a padded dimension");
  if (n == 0) lo.malformed("axis " + std::to_string(axis) + " has no elements to copy to its border");
  if (listed_places(border, axis, n) > kMostIndices)
    lo.unsupported("padding an axis by more than " + std::to_string(kMostIndices) +
                   " copied elements is not supported");
  const int at_axis = static_cast<int>(axis);
  const auto gathered = [&](int64_t from, int64_t to) {
    std::vector<int64_t> indices;
    for (int64_t at = from; at < to; ++at) indices.push_back(source(at, n));
    return b.gather(x, b.i32(indices), at_axis);
  };
  const int64_t start = -border.before[axis], end = n + border.after[axis];
  if (n < kLongAxis) return gathered(start, end);
  std::vector<Val> parts;
  if (start < 0) parts.push_back(gathered(start, 0));
  parts.push_back(x);
  if (end > n) parts.push_back(gathered(n, end));
  return b.concat(parts, at_axis);
}

Val gathered_border(Lowering& lo, Val x, const Border& border, Source source) {
  for (size_t a = 0; a < border.before.size(); ++a) {
    if (border.before[a] == 0 && border.after[a] == 0) continue;
    const bool wraps_open = core::is_symbol(lo.shape(x)[a]) && source == wrap_source;
    x = wraps_open ? wrapped_axis(lo, x, border, a) : gathered_axis(lo, x, border, a, source);
  }
  return x;
}

// Whether the axes that have a border are of known extents, few enough for a list of places, and GATHER keeps the bits.
bool can_gather(Lowering& lo, Val x, const Border& border) {
  if (!lo.b.moves_exactly(Kind::kGather, x)) return false;
  for (size_t a = 0; a < border.before.size(); ++a) {
    if (border.before[a] == 0 && border.after[a] == 0) continue;
    const Dim n = lo.shape(x)[a];
    if (core::is_symbol(n) || listed_places(border, a, n) > kMostIndices) return false;
  }
  return true;
}

// By GATHER where that is possible: it copies whole rows, and LiteRT's MIRROR_PAD computes a place for each element (37
// times as slow for an image of 40x56x24). MIRROR_PAD reflects at most n - 1 elements.
Val reflect_border(Lowering& lo, Val x, const Border& border) {
  if (can_gather(lo, x, border)) return gathered_border(lo, x, border, reflect_source);
  for (size_t a = 0; a < border.before.size(); ++a) {
    const Dim n = lo.shape(x)[a];
    if (!core::is_symbol(n) && std::max(border.before[a], border.after[a]) >= n &&
        (border.before[a] || border.after[a]))
      return gathered_border(lo, x, border, reflect_source);
  }
  return lo.b.mirror_pad(x, border.before, border.after, false);
}

// On a dynamic axis a border of one element is that of a symmetric MIRROR_PAD; a wider one is made by tiling the end
// elements.
Val edge_border(Lowering& lo, Val x, const Border& border) {
  const auto widest = std::max(*std::max_element(border.before.begin(), border.before.end()),
                               *std::max_element(border.after.begin(), border.after.end()));
  if (widest <= 1 && !can_gather(lo, x, border)) return lo.b.mirror_pad(x, border.before, border.after, true);
  for (size_t a = 0; a < border.before.size(); ++a) {
    if (!core::is_symbol(lo.shape(x)[a])) {
      Border one{std::vector<int64_t>(border.before.size(), 0), std::vector<int64_t>(border.before.size(), 0)};
      one.before[a] = border.before[a];
      one.after[a] = border.after[a];
      x = gathered_border(lo, x, one, edge_source);
      continue;
    }
    std::vector<int64_t> begin(border.before.size(), 0), end(begin.size(), INT32_MAX), stride(begin.size(), 1),
        times(stride);
    std::vector<Val> parts;
    end[a] = 1;
    times[a] = border.before[a];
    if (times[a] > 0) parts.push_back(lo.b.tile(lo.b.strided_slice(x, begin, end, stride), times));
    parts.push_back(x);
    begin[a] = -1;
    end[a] = INT32_MAX;
    times[a] = border.after[a];
    if (times[a] > 0) parts.push_back(lo.b.tile(lo.b.strided_slice(x, begin, end, stride), times));
    x = lo.b.concat(parts, static_cast<int>(a));
  }
  return x;
}

// Where the pads, or the axes that they are of, are known at run time only: before and after each axis of x, i32.
struct RunTimeBorder {
  Val before, after;
  bool may_crop = true;  // some may be negative
};

// How many axes are padded: the list of axes says so, or the list of pads, which is twice as long.
int64_t padded_axes(Lowering& lo, Val pads, Val axes) {
  const Dim listed = lo.b.dim(axes, 0), twice = lo.b.dim(pads, 0);
  if (core::is_symbol(listed) && !core::is_symbol(twice) && twice % 2 == 0) return twice / 2;
  return lo.need_static(listed, "the number of axes");
}

RunTimeBorder run_time_border(Lowering& lo, Val x, Val pads, Val axes) {
  Builder& b = lo.b;
  if (lo.rank(pads) == 2 && b.dim(pads, 0) == 1) pads = squeeze_axes(lo, pads, {0});  // as ONNX Runtime takes it
  if (lo.rank(pads) != 1 || (axes && lo.rank(axes) != 1)) lo.malformed("'pads' and 'axes' must have rank 1");
  const bool may_crop = !never_negative(lo, pads);
  const Dim count = axes ? padded_axes(lo, pads, axes) : lo.rank(x);
  pads = as_i32_clamped(lo, pads);
  const int64_t first[] = {0}, second[] = {count};
  const Dim size[] = {count};
  RunTimeBorder out{b.slice(pads, first, size), b.slice(pads, second, size), may_crop};
  if (axes) {
    axes = b.cast(with_length(lo, axes, count), DType::kInt32);
    out.before = scattered_to_axes(lo, out.before, axes, lo.rank(x), 0);
    out.after = scattered_to_axes(lo, out.after, axes, lo.rank(x), 0);
  }
  return out;
}

// PAD takes no negative numbers: they crop what it made, which may be more than x has.
Val constant_run_time_border(Lowering& lo, Val x, const RunTimeBorder& border, Val value) {
  Builder& b = lo.b;
  const Val zero = b.i32_scalar(0);
  Val table = b.pack(std::vector<Val>{border.before, border.after}, 1);
  if (border.may_crop) table = b.maximum(table, zero);
  x = value ? b.op(Kind::kPadv2, {x, table, as_scalar(lo, value)}) : b.op(Kind::kPad, {x, table});
  if (!border.may_crop) return x;
  const Val ones = b.i32(std::vector<int64_t>(static_cast<size_t>(lo.rank(x)), 1));
  const Val begin = b.maximum(b.neg(border.before), zero);
  const Val end = b.add(b.shape_of(x), b.minimum(border.after, zero));
  return b.op(Kind::kStridedSlice, {x, begin, end, ones}, core::StridedSliceOptions{});
}

// Position j of an axis of n elements, which may be outside of it, to the one inside whose element stands there.
Val source_at_run_time(Builder& b, const std::string& mode, Val j, Val n) {
  Val last = b.sub(n, b.i32_scalar(1));
  if (mode == "edge") return b.minimum(b.maximum(j, b.i32_scalar(0)), last);
  if (mode == "wrap") return b.floor_mod(j, n);
  // reflect: there and back again, the ends once each.
  Val period = b.mul(last, b.i32_scalar(2));
  Val place = b.floor_mod(j, b.maximum(period, b.i32_scalar(1)));
  return b.minimum(place, b.sub(period, place));
}

// Negative pads crop first; the border is that of what is left.
Val gathered_run_time_border(Lowering& lo, Val x, const RunTimeBorder& border, const std::string& mode) {
  Builder& b = lo.b;
  Val zero = b.i32_scalar(0), one = b.i32_scalar(1);
  Val front = b.maximum(b.neg(border.before), zero), back = b.maximum(b.neg(border.after), zero);
  Val left = b.sub(b.sub(b.dims(lo.shape(x)), front), back);
  Val start = b.neg(b.maximum(border.before, zero)), limit = b.add(left, b.maximum(border.after, zero));
  for (int axis = 0; axis < lo.rank(x); ++axis) {
    auto of = [&](Val list) {
      const int64_t at[] = {axis};
      const Dim size[] = {1};
      return b.reshape(b.slice(list, at, size), {});
    };
    Val j = b.range(of(start), of(limit), one);
    x = b.gather(x, b.add(source_at_run_time(b, mode, j, of(left)), of(front)), axis);
  }
  return x;
}

void check_mode(Lowering& lo, const std::string& mode) {
  // ONNX has 'wrap' from opset 19 on; ONNX Runtime knows it in all, and PyTorch writes it at 18.
  if (mode == "constant" || mode == "reflect" || mode == "edge" || mode == "wrap") return;
  lo.malformed("attribute 'mode' has the value '" + mode + "', which is unknown at opset " +
               std::to_string(lo.opset()));
}

}  // namespace

void lower_pad(Lowering& lo) {
  Val x = lo.input(0), value;
  const std::string mode = lo.attr_s("mode", "constant");
  check_mode(lo, mode);
  std::vector<int> axes(static_cast<size_t>(lo.rank(x)));
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int>(i);
  std::optional<std::vector<int64_t>> pads;
  if (lo.opset() < 11) {
    pads = lo.attr_ints(lo.opset() < 2 ? "paddings" : "pads");
    if (!pads) lo.malformed("attribute 'pads' is missing");
    if (!stream::is_float(lo.dtype(x)))
      lo.malformed("before opset 11 the input must be a float tensor; it is " +
                   std::string(stream::dtype_name(lo.dtype(x))));
    value = lo.b.scalar_like(lo.attr_f("value", 0), x);
  } else {
    value = lo.optional_input(2);
    pads = lo.ints(lo.input(1));
    const auto listed = lo.has_input(3) ? lo.ints(lo.input(3)) : std::nullopt;
    if (lo.rank(x) > 0 && (!pads || (lo.has_input(3) && !listed))) {
      const RunTimeBorder border = run_time_border(lo, x, lo.input(1), lo.optional_input(3));
      lo.output(0, mode == "constant" ? constant_run_time_border(lo, x, border, value)
                                      : gathered_run_time_border(lo, x, border, mode));
      return;
    }
    if (listed) axes = lo.axes(*listed, lo.rank(x));
  }
  if (lo.rank(x) == 0) {
    lo.output(0, x);
    return;
  }
  Border border = listed_border(lo, x, *pads, axes);
  if (mode == "constant") {
    lo.output(0, constant_border(lo, x, border, value));
    return;
  }
  x = cropped(lo, x, border);
  if (mode == "reflect")
    lo.output(0, reflect_border(lo, x, border));
  else if (mode == "edge")
    lo.output(0, edge_border(lo, x, border));
  else
    lo.output(0, gathered_border(lo, x, border, wrap_source));
}

}  // namespace lowtide::layout
