// SPDX-License-Identifier: Apache-2.0
// Slice, CenterCropPad, ReverseSequence.
//
// How the specifications differ: both clamp as numpy does, but walking backwards ONNX also clamps a begin that lies
// before the tensor up to its first element, where STRIDED_SLICE finds nothing. ONNX writes INT64_MAX for "to the end".
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include "layout/lower/extents.h"

namespace lowtide::layout {
namespace {

constexpr int64_t kFar = std::numeric_limits<int32_t>::max();

// What is asked of one axis. Begin and end are symbols or numbers; unset when only the run knows them.
struct Cut {
  std::optional<Dim> begin = 0, end = kFar;
  int64_t step = 1;
  int64_t listed = -1;  // place in the lists of starts and ends; -1: the axis stays whole
};

bool is_number(const std::optional<Dim>& dim) { return dim && !core::is_symbol(*dim); }

// Begin and end as ONNX clamps them for a known extent; an end of -kFar says: past the first element, backwards.
void clamp_known(Cut& cut, int64_t extent) {
  const bool forward = cut.step > 0;
  auto from_front = [&](int64_t at) { return at < 0 ? std::max<int64_t>(at, -kFar) + extent : at; };
  const int64_t last = std::max<int64_t>(extent - 1, 0);
  const int64_t begin = std::clamp<int64_t>(from_front(*cut.begin), 0, forward ? extent : last);
  const int64_t end = std::clamp<int64_t>(from_front(*cut.end), forward ? 0 : -1, forward ? extent : last);
  cut.begin = begin;
  cut.end = end < 0 ? -kFar : end;
  if (forward && end == extent) cut.end = kFar;
}

// Whether the cut, all numbers, can be handed to STRIDED_SLICE.
bool settled(Lowering& lo, Cut& cut, Dim extent) {
  if (cut.end && *cut.end == extent) cut.end = cut.step > 0 ? kFar : extent;
  if (!is_number(cut.begin) || !is_number(cut.end)) return false;
  if (!core::is_symbol(extent)) {
    clamp_known(cut, extent);
  } else if (cut.step < 0 && *cut.begin < -1) {
    lo.unsupported("a backward slice of a dynamic dimension that begins at " + std::to_string(*cut.begin),
                   "fix the input's shape with --shape INPUT=...");
  }
  cut.begin = std::clamp(*cut.begin, -kFar, kFar);
  cut.end = std::clamp(*cut.end, -kFar, kFar);
  return true;
}

// SLICE is the plainer kernel: steps of 1 within known extents.
bool is_plain(Lowering& lo, Val x, const std::vector<Cut>& cuts) {
  for (size_t axis = 0; axis < cuts.size(); ++axis)
    if (cuts[axis].step != 1 || (cuts[axis].listed >= 0 && core::is_symbol(lo.shape(x)[axis]))) return false;
  return true;
}

Val cut_plainly(Lowering& lo, Val x, const std::vector<Cut>& cuts) {
  std::vector<int64_t> begin;
  std::vector<Dim> size;
  for (size_t axis = 0; axis < cuts.size(); ++axis) {
    const Cut& cut = cuts[axis];
    size.push_back(cut.listed < 0 ? -1 : std::max<int64_t>(std::min(*cut.end, lo.shape(x)[axis]) - *cut.begin, 0));
    begin.push_back(size.back() == 0 ? 0 : *cut.begin);
  }
  return lo.b.slice(x, begin, size);
}

Val cut_known(Lowering& lo, Val x, const std::vector<Cut>& cuts) {
  if (is_plain(lo, x, cuts)) return cut_plainly(lo, x, cuts);
  std::vector<int64_t> begin, end, stride;
  for (const Cut& cut : cuts) {
    begin.push_back(*cut.begin);
    end.push_back(*cut.end);
    stride.push_back(cut.step);
  }
  return lo.b.strided_slice(x, begin, end, stride);
}

// Begins or ends as a run-time list over all axes: known entries as constants, the rest out of the input.
Val run_time_list(Lowering& lo, const std::vector<Cut>& cuts, Val listed, std::optional<Dim> Cut::*which) {
  listed = as_i32_clamped(lo, listed);
  std::vector<Val> parts;
  for (const Cut& cut : cuts) {
    if (is_number(cut.*which)) {
      parts.push_back(lo.b.i32({std::clamp(*(cut.*which), -kFar, kFar)}));
    } else {
      const Dim one = 1;
      parts.push_back(lo.b.slice(listed, {&cut.listed, 1}, {&one, 1}));
    }
  }
  return lo.b.concat(parts, 0);
}

Val cut_at_run_time(Lowering& lo, Val x, const std::vector<Cut>& cuts, Val starts, Val ends) {
  core::StridedSliceOptions options;
  std::vector<int64_t> stride;
  for (size_t axis = 0; axis < cuts.size(); ++axis) {
    const Cut& cut = cuts[axis];
    if (cut.step < 0 && !is_number(cut.begin)) lo.unsupported("a backward slice whose start is computed at run time");
    stride.push_back(cut.step);
    if (is_number(cut.begin) && (cut.step > 0 ? *cut.begin == 0 : *cut.begin >= kFar)) options.begin_mask |= 1 << axis;
    if (is_number(cut.end) && (cut.step > 0 ? *cut.end >= kFar : *cut.end <= -kFar)) options.end_mask |= 1 << axis;
  }
  Val begin = run_time_list(lo, cuts, starts, &Cut::begin), end = run_time_list(lo, cuts, ends, &Cut::end);
  return lo.b.op(Kind::kStridedSlice, {x, begin, end, lo.b.i32(stride)}, options);
}

// Axes or steps that only the run knows: every list is spread over all axes there.
Val cut_spread(Lowering& lo, Val x) {
  const int rank = lo.rank(x);
  Val starts = as_i32_clamped(lo, lo.input(1)), ends = as_i32_clamped(lo, lo.input(2));
  const Dim count = lo.need_static(lo.b.dim(starts, 0), "the number of starts");
  Val axes = lo.has_input(3) ? lo.b.cast(lo.input(3), DType::kInt32) : counting(lo, count, DType::kInt32);
  Val begin = spread_by_axes(lo, starts, axes, rank, 0), end = spread_by_axes(lo, ends, axes, rank, kFar);
  Val stride = lo.b.i32(std::vector<int64_t>(static_cast<size_t>(rank), 1));
  if (lo.has_input(4)) stride = spread_by_axes(lo, as_i32_clamped(lo, lo.input(4)), axes, rank, 1);
  begin = lo.b.maximum(begin, lo.b.neg(lo.b.shape_of(x)));  // before the first element is at the first
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
    lists.starts = lo.attr_ints("starts");
    lists.ends = lo.attr_ints("ends");
    lists.axes = lo.attr_ints("axes");
    if (!lists.starts || !lists.ends) lo.malformed("attribute 'starts' or 'ends' is missing");
    lists.count = lists.starts->size();
    return lists;
  }
  lists.starts = lo.dims(lo.input(1));
  lists.ends = lo.dims(lo.input(2));
  lists.count = static_cast<size_t>(lo.need_static(lo.b.dim(lo.input(1), 0), "the number of starts"));
  if (lo.has_input(3)) lists.axes = lo.need_ints(lo.input(3), "axes");
  if (lo.has_input(4)) lists.steps = lo.need_ints(lo.input(4), "steps");
  return lists;
}

}  // namespace

void lower_slice(Lowering& lo) {
  Val x = lo.input(0);
  for (size_t i = 1; i < lo.input_count(); ++i)
    if (lo.has_input(i) && lo.rank(lo.input(i)) != 1) lo.malformed("starts, ends, axes and steps must be lists");
  if (lo.opset() >= 10 && ((lo.has_input(3) && !lo.ints(lo.input(3))) || (lo.has_input(4) && !lo.ints(lo.input(4))))) {
    lo.output(0, cut_spread(lo, x));
    return;
  }
  const SliceLists lists = slice_lists(lo);
  std::vector<int> axes;
  if (lists.axes)
    axes = lo.axes(*lists.axes, lo.rank(x));
  else
    for (size_t i = 0; i < lists.count; ++i) axes.push_back(static_cast<int>(i));
  const bool lengths_fit = axes.size() == lists.count && (!lists.steps || lists.steps->size() == lists.count) &&
                           (!lists.starts || lists.starts->size() == lists.count) &&
                           (!lists.ends || lists.ends->size() == lists.count);
  if (!lengths_fit || static_cast<int>(lists.count) > lo.rank(x))
    lo.malformed("starts, ends, axes and steps differ in length");

  std::vector<Cut> cuts(static_cast<size_t>(lo.rank(x)));
  bool known = true;
  for (size_t i = 0; i < lists.count; ++i) {
    Cut& cut = cuts[static_cast<size_t>(axes[i])];
    cut.listed = static_cast<int64_t>(i);
    cut.begin = lists.starts ? std::optional((*lists.starts)[i]) : std::nullopt;
    cut.end = lists.ends ? std::optional((*lists.ends)[i]) : std::nullopt;
    if (lists.steps) cut.step = (*lists.steps)[i];
    if (cut.step == 0 || cut.step < -kFar || cut.step > kFar) lo.malformed("a step of " + std::to_string(cut.step));
    known = settled(lo, cut, lo.b.dim(x, axes[i])) && known;
  }
  lo.output(0, known ? cut_known(lo, x, cuts) : cut_at_run_time(lo, x, cuts, lo.input(1), lo.input(2)));
}

namespace {

// Sizes that only the run knows: the same arithmetic inside the graph, for all axes at once.
Val crop_pad_at_run_time(Lowering& lo, Val x, Val wanted, const std::vector<int>& axes) {
  const std::vector<int64_t> places(axes.begin(), axes.end());
  Val have = lo.b.shape_of(x), zero = lo.b.i32_scalar(0), two = lo.b.i32_scalar(2);
  Val listed = spread_by_axes(lo, as_i32_clamped(lo, wanted), lo.b.i32(places), lo.rank(x), -1);
  wanted = lo.b.select(lo.b.less(listed, zero), have, listed);
  Val less = lo.b.maximum(lo.b.sub(have, wanted), zero), more = lo.b.maximum(lo.b.sub(wanted, have), zero);
  Val cropped = lo.b.op(Kind::kSlice, {x, lo.b.floor_div(less, two), lo.b.minimum(have, wanted)});
  Val before = lo.b.floor_div(more, two);
  return lo.b.op(Kind::kPad, {cropped, lo.b.pack(std::vector<Val>{before, lo.b.sub(more, before)}, 1)});
}

}  // namespace

void lower_center_crop_pad(Lowering& lo) {
  Val x = lo.input(0);
  std::vector<int> axes(static_cast<size_t>(lo.rank(x)));
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int>(i);
  if (auto given = lo.attr_ints("axes")) axes = lo.axes(*given, lo.rank(x));
  const Shape& listed = lo.shape(lo.input(1));
  if (listed.size() != 1 || (!core::is_symbol(listed[0]) && listed[0] != static_cast<Dim>(axes.size())))
    lo.malformed("as many sizes as axes are needed");
  const auto wanted = lo.ints(lo.input(1));
  if (!wanted || !stream::is_static(lo.shape(x))) {
    lo.output(0, crop_pad_at_run_time(lo, x, lo.input(1), axes));
    return;
  }
  std::vector<int64_t> begin(static_cast<size_t>(lo.rank(x)), 0), before = begin, after = begin;
  std::vector<Dim> size(begin.size(), -1);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto a = static_cast<size_t>(axes[i]);
    if ((*wanted)[i] < 0) lo.malformed("a size of " + std::to_string((*wanted)[i]));
    const int64_t more = (*wanted)[i] - lo.shape(x)[a];
    if (more < 0) {
      begin[a] = -more / 2;
      size[a] = (*wanted)[i];
    } else {
      before[a] = more / 2;
      after[a] = more - more / 2;
    }
  }
  lo.output(0, lo.b.pad(lo.b.slice(x, begin, size), before, after, 0));
}

void lower_reverse_sequence(Lowering& lo) {
  Val x = lo.input(0);
  const int64_t time = lo.attr_i("time_axis", 0), batch = lo.attr_i("batch_axis", 1);
  if (!(time == 0 && batch == 1) && !(time == 1 && batch == 0))
    lo.malformed("time_axis and batch_axis must be 0 and 1");
  const core::ReverseSequenceOptions options{static_cast<int>(time), static_cast<int>(batch)};
  if (auto lengths = lo.ints(lo.input(1)); lengths && !core::is_symbol(lo.b.dim(x, options.sequence_axis)))
    for (int64_t length : *lengths)
      if (length < 0 || length > lo.b.dim(x, options.sequence_axis))
        lo.malformed(
            fmt::format("a sequence of {} steps, of {} there are", length, lo.b.dim(x, options.sequence_axis)));
  lo.output(0, lo.b.op(Kind::kReverseSequence, {x, lo.input(1)}, options));
}

}  // namespace lowtide::layout
