// SPDX-License-Identifier: Apache-2.0
// Slice.
//
// Differences: both clamp as numpy does, but with a negative step ONNX also clamps a begin before the tensor to its
// first element, where STRIDED_SLICE returns no elements. In ONNX INT64_MAX means "to the end" of a slice that goes
// forward.
#include <algorithm>
#include <limits>
#include <string>

#include "layout/lower/attributes.h"
#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

constexpr int64_t kFar = std::numeric_limits<int32_t>::max();

// The slice of one axis. Begin and end are numbers or symbols; unset when known at run time only.
struct AxisSlice {
  std::optional<Dim> begin = 0, end = kFar;
  int64_t step = 1;
  int64_t listed = -1;  // index in the lists of starts and ends; -1: the axis is not sliced
};

// The standard clamps these ends as any other, which with a negative step leaves no element. To ONNX Runtime they mean
// "to the end" in both directions.
void refuse_disputed_end(Lowering& lo, Dim end, int64_t step) {
  if (step > 0 || (end != std::numeric_limits<int32_t>::max() && end != std::numeric_limits<int64_t>::max())) return;
  lo.unsupported("a slice with the step " + std::to_string(step) + " and the end " + std::to_string(end) +
                     " is not supported: it has no elements in ONNX, and reaches to the first one in ONNX Runtime",
                 "give the end " + std::to_string(std::numeric_limits<int64_t>::min()) + " to reach the first element");
}

bool is_number(const std::optional<Dim>& dim) { return dim && !core::is_symbol(*dim); }

// Clamps begin and end as ONNX does for a known size; with a negative step, an end of -kFar includes the first element.
void clamp_known(AxisSlice& slice, int64_t axis_size) {
  const bool forward = slice.step > 0;
  auto from_front = [&](int64_t at) { return at < 0 ? std::max<int64_t>(at, -kFar) + axis_size : at; };
  const int64_t last = std::max<int64_t>(axis_size - 1, 0);
  const int64_t begin = std::clamp<int64_t>(from_front(*slice.begin), 0, forward ? axis_size : last);
  const int64_t end = std::clamp<int64_t>(from_front(*slice.end), forward ? 0 : -1, forward ? axis_size : last);
  slice.begin = begin;
  slice.end = end < 0 ? -kFar : end;
  if (forward && end == axis_size) slice.end = kFar;
}

// Whether the slice goes backward from a place that may lie before the first element.
bool may_begin_before(const AxisSlice& slice) {
  return slice.step < 0 && !(is_number(slice.begin) && *slice.begin >= -1);
}

// Whether begin and end are numbers that can be given to STRIDED_SLICE; clamps them.
bool clamp_if_known(AxisSlice& slice, Dim axis_size) {
  if (slice.end && *slice.end == axis_size) slice.end = slice.step > 0 ? kFar : axis_size;
  const bool may_be_before = may_begin_before(slice);
  if (may_be_before && (!is_number(slice.begin) || core::is_symbol(axis_size))) return false;
  if (may_be_before) slice.begin = std::max<int64_t>(std::max(*slice.begin, -kFar) + axis_size, 0);
  if (!is_number(slice.begin) || !is_number(slice.end)) return false;
  if (!core::is_symbol(axis_size)) clamp_known(slice, axis_size);
  // Nothing, whatever the size. XNNPACK takes an end of 0 for the end of an axis of unknown size.
  if (slice.step > 0 && *slice.end == 0) slice.begin = slice.end = 1;
  slice.begin = std::clamp(*slice.begin, -kFar, kFar);
  slice.end = std::clamp(*slice.end, -kFar, kFar);
  return true;
}

// Whether SLICE, the simpler kernel, can be used: steps of 1 and known sizes. XNNPACK takes no SLICE with a size of -1,
// but it takes the masks of STRIDED_SLICE.
bool is_simple(Lowering& lo, Val x, const std::vector<AxisSlice>& slices) {
  return stream::is_static(lo.shape(x)) &&
         std::all_of(slices.begin(), slices.end(), [](const AxisSlice& slice) { return slice.step == 1; });
}

Val slice_simple(Lowering& lo, Val x, const std::vector<AxisSlice>& slices) {
  std::vector<int64_t> begin;
  std::vector<Dim> size;
  for (size_t axis = 0; axis < slices.size(); ++axis) {
    const AxisSlice& slice = slices[axis];
    size.push_back(slice.listed < 0 ? -1
                                    : std::max<int64_t>(std::min(*slice.end, lo.shape(x)[axis]) - *slice.begin, 0));
    begin.push_back(size.back() == 0 ? 0 : *slice.begin);
  }
  return lo.b.slice(x, begin, size);
}

Val slice_known(Lowering& lo, Val x, const std::vector<AxisSlice>& slices) {
  if (is_simple(lo, x, slices)) return slice_simple(lo, x, slices);
  std::vector<int64_t> begin, end, stride;
  for (const AxisSlice& slice : slices) {
    begin.push_back(*slice.begin);
    end.push_back(*slice.end);
    stride.push_back(slice.step);
  }
  return lo.b.strided_slice(x, begin, end, stride);
}

// Begins or ends of all axes as a run-time list: known entries as constants, the others taken from the input.
Val run_time_list(Lowering& lo, const std::vector<AxisSlice>& slices, Val listed,
                  std::optional<Dim> AxisSlice::*which) {
  listed = as_i32_clamped(lo, listed);
  std::vector<Val> parts;
  for (const AxisSlice& slice : slices) {
    if (is_number(slice.*which)) {
      parts.push_back(lo.b.i32({std::clamp(*(slice.*which), -kFar, kFar)}));
    } else {
      const Dim one = 1;
      parts.push_back(lo.b.slice(listed, {&slice.listed, 1}, {&one, 1}));
    }
  }
  return lo.b.concat(parts, 0);
}

// Begins before the first element become the first element.
Val clamped_to_first(Lowering& lo, Val begin, Val x) { return lo.b.maximum(begin, lo.b.neg(lo.b.shape_of(x))); }

Val slice_at_run_time(Lowering& lo, Val x, const std::vector<AxisSlice>& slices, Val starts, Val ends) {
  core::StridedSliceOptions options;
  std::vector<int64_t> stride;
  bool clamps = false;
  for (size_t axis = 0; axis < slices.size(); ++axis) {
    const AxisSlice& slice = slices[axis];
    clamps = clamps || may_begin_before(slice);
    stride.push_back(slice.step);
    if (is_number(slice.begin) && (slice.step > 0 ? *slice.begin == 0 : *slice.begin >= kFar))
      options.begin_mask |= 1 << axis;
    if (is_number(slice.end) && (slice.step > 0 ? *slice.end >= kFar : *slice.end <= -kFar))
      options.end_mask |= 1 << axis;
  }
  Val begin = run_time_list(lo, slices, starts, &AxisSlice::begin),
      end = run_time_list(lo, slices, ends, &AxisSlice::end);
  if (clamps) begin = clamped_to_first(lo, begin, x);
  return lo.b.op(Kind::kStridedSlice, {x, begin, end, lo.b.i32(stride)}, options);
}

// How many axes are sliced. All lists have that length, so one that tells it is enough.
int64_t listed_axes(Lowering& lo) {
  for (size_t i = 1; i < lo.input_count(); ++i)
    if (lo.has_input(i))
      if (const Dim length = lo.b.dim(lo.input(i), 0); !core::is_symbol(length)) return length;
  return lo.need_static(lo.b.dim(lo.input(1), 0), "the number of starts");
}

// Axes or steps known at run time only: the model scatters every list to all axes.
Val slice_with_run_time_axes(Lowering& lo, Val x) {
  const int rank = lo.rank(x);
  const Dim count = listed_axes(lo);
  const auto list = [&](size_t i) { return with_length(lo, lo.input(i), count); };
  Val starts = as_i32_clamped(lo, list(1)), ends = as_i32_clamped(lo, list(2));
  const auto known_ends = lo.dims(lo.input(2));
  const auto known_steps = lo.has_input(4) ? lo.ints(lo.input(4)) : std::nullopt;
  if (known_ends && known_steps)
    for (size_t i = 0; i < std::min(known_ends->size(), known_steps->size()); ++i)
      refuse_disputed_end(lo, (*known_ends)[i], (*known_steps)[i]);
  Val axes = lo.has_input(3) ? lo.b.cast(list(3), DType::kInt32) : iota(lo, count, DType::kInt32);
  Val begin = scattered_to_axes(lo, starts, axes, rank, 0), end = scattered_to_axes(lo, ends, axes, rank, kFar);
  Val stride = lo.b.i32(std::vector<int64_t>(static_cast<size_t>(rank), 1));
  if (lo.has_input(4)) stride = scattered_to_axes(lo, as_i32_clamped(lo, list(4)), axes, rank, 1);
  begin = clamped_to_first(lo, begin, x);
  return lo.b.op(Kind::kStridedSlice, {x, begin, end, stride}, core::StridedSliceOptions{});
}

struct SliceLists {
  std::optional<std::vector<Dim>> starts, ends;  // unset: computed at run time
  size_t count = 0;
  std::optional<std::vector<int64_t>> axes, steps;
};

SliceLists slice_lists(Lowering& lo) {
  SliceLists lists;
  if (lo.opset() < 10) {
    lists.starts = lo.attr_places("starts");
    lists.ends = lo.attr_places("ends");
    lists.axes = lo.attr_ints("axes");
    if (!lists.starts || !lists.ends) lo.malformed("attribute 'starts' or 'ends' is missing");
    lists.count = lists.starts->size();
    return lists;
  }
  lists.starts = lo.dims(lo.input(1));
  lists.ends = lo.dims(lo.input(2));
  lists.count = static_cast<size_t>(listed_axes(lo));
  if (lo.has_input(3)) lists.axes = lo.need_ints(lo.input(3), "axes");
  if (lo.has_input(4)) lists.steps = lo.need_ints(lo.input(4), "steps");
  return lists;
}

}  // namespace

void lower_slice(Lowering& lo) {
  Val x = lo.input(0);
  for (size_t i = 1; i < lo.input_count(); ++i)
    if (lo.has_input(i) && lo.rank(lo.input(i)) != 1) lo.malformed("starts, ends, axes and steps must have rank 1");
  if (lo.opset() >= 10 && ((lo.has_input(3) && !lo.ints(lo.input(3))) || (lo.has_input(4) && !lo.ints(lo.input(4))))) {
    lo.output(0, slice_with_run_time_axes(lo, x));
    return;
  }
  const SliceLists lists = slice_lists(lo);
  const bool lengths_fit =
      lists.count <= static_cast<size_t>(lo.rank(x)) && (!lists.axes || lists.axes->size() == lists.count) &&
      (!lists.steps || lists.steps->size() == lists.count) && (!lists.starts || lists.starts->size() == lists.count) &&
      (!lists.ends || lists.ends->size() == lists.count);
  if (!lengths_fit)
    lo.malformed("starts, ends, axes and steps must have the same length, at most the input's rank " +
                 std::to_string(lo.rank(x)));
  const std::vector<int> axes =
      lists.axes ? lo.axes(*lists.axes, lo.rank(x)) : axes_from(0, static_cast<int>(lists.count));

  std::vector<AxisSlice> slices(static_cast<size_t>(lo.rank(x)));
  bool known = true;
  for (size_t i = 0; i < lists.count; ++i) {
    AxisSlice& slice = slices[static_cast<size_t>(axes[i])];
    slice.listed = static_cast<int64_t>(i);
    slice.begin = lists.starts ? std::optional((*lists.starts)[i]) : std::nullopt;
    slice.end = lists.ends ? std::optional((*lists.ends)[i]) : std::nullopt;
    if (lists.steps) slice.step = (*lists.steps)[i];
    if (slice.step == 0) lo.malformed("steps must not be 0");
    if (slice.end && lo.b.dim(x, axes[i]) != 0) refuse_disputed_end(lo, *slice.end, slice.step);
    slice.step = std::clamp(slice.step, -kFar, kFar);  // no axis is longer
    known = clamp_if_known(slice, lo.b.dim(x, axes[i])) && known;
  }
  if (known) {
    lo.output(0, slice_known(lo, x, slices));
    return;
  }
  const auto count = static_cast<Dim>(lists.count);
  const Val starts = with_length(lo, lo.input(1), count), ends = with_length(lo, lo.input(2), count);
  lo.output(0, slice_at_run_time(lo, x, slices, starts, ends));
}

}  // namespace lowtide::layout
