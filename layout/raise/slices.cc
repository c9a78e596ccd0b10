// SPDX-License-Identifier: Apache-2.0
// SLICE and STRIDED_SLICE: of quantized tensors they move the integers.
//
// The traps: begins and ends that masks replace; an axis that is dropped; a begin before the first element of a slice
// that goes backwards. There the slice is empty in TFLite, and ONNX begins with the first element: the end is put
// behind it.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "layout/raise/families.h"
#include "layout/raise/raising.h"

namespace lowtide::layout {
namespace {

constexpr int64_t kToTheEnd = Raising::kToTheEnd;
// Backwards ONNX Runtime takes the largest i32 and i64 for the place before the first element, and this one for what it
// is: there is nothing between any element and this end.
constexpr int64_t kBehindAll = kToTheEnd - 1;
constexpr int64_t kLargestInt32 = std::numeric_limits<int32_t>::max();

// A Slice over all axes.
std::string sliced(Raising& r, const std::string& x, const std::vector<int64_t>& starts,
                   const std::vector<int64_t>& ends, const std::vector<int64_t>& steps) {
  std::vector<int64_t> axes(starts.size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  return r.node("Slice", {x, r.int64_list(starts), r.int64_list(ends), r.int64_list(axes), r.int64_list(steps)});
}

void raise_slice(Raising& r) {
  if (r.in(0).rank() == 0) return r.give_copy();
  const auto begin = r.ints(1), size = r.ints(2);
  if (begin && size) {
    std::vector<int64_t> ends;
    for (size_t i = 0; i < begin->size(); ++i) {
      // ONNX counts a negative begin from the end, TFLite does not know one.
      if ((*begin)[i] < 0) r.unsupported(fmt::format("begin {} is negative", (*begin)[i]));
      const bool is_far = (*size)[i] < 0 || (*size)[i] > kToTheEnd - (*begin)[i];
      ends.push_back(is_far ? kToTheEnd : (*begin)[i] + (*size)[i]);
    }
    return r.give_data(sliced(r, r.data(0), *begin, ends, std::vector<int64_t>(ends.size(), 1)));
  }
  // A size of -1 reaches to the end.
  const std::string from = r.int64_input(1), extents = r.int64_input(2);
  const std::string is_open = r.node("Less", {extents, r.scalar(0, DType::kInt64)});
  const std::string far = r.int64_list({kToTheEnd});
  const std::string to = r.node("Where", {is_open, far, r.node("Add", {from, extents})});
  r.give_data(r.node("Slice", {r.data(0), from, to}));
}

// A list of flags, one for each bit.
std::string bits_of(Raising& r, int mask, size_t count) {
  std::vector<int64_t> bits;
  for (size_t i = 0; i < count; ++i) bits.push_back(core::has_bit(mask, i) ? 1 : 0);
  return r.cast(r.int64_list(bits), DType::kBool);
}

// Begins or ends that the model computes, and what stands for those that a mask opens.
std::string opened(Raising& r, const std::string& places, int mask, size_t count, const std::string& open) {
  return mask == 0 ? places : r.node("Where", {bits_of(r, mask, count), open, places});
}

// Strides that may be negative: where an axis is open, how it begins and ends depends on them.
struct ComputedStrides {
  std::string strides, first, last;
  std::string is_negative;  // empty: none is
};

ComputedStrides computed_strides(Raising& r, int shrink_mask, size_t count) {
  const std::string to_end = r.int64_list({kToTheEnd});
  const auto known = r.ints(3);
  const auto is_backwards = [&](size_t i) { return (*known)[i] < 0 && !core::has_bit(shrink_mask, i); };
  bool is_forwards = known.has_value();
  for (size_t i = 0; is_forwards && i < count; ++i) is_forwards = !is_backwards(i);
  if (is_forwards) return {r.int64_list(*known), r.int64_list({0}), to_end, {}};
  const std::string none = r.int64_list({0});
  // An axis that is dropped has one element.
  const std::string strides = opened(r, r.int64_input(3), shrink_mask, count, r.int64_list({1}));
  const std::string is_negative = r.node("Less", {strides, none});
  return {strides, r.node("Where", {is_negative, to_end, none}),
          r.node("Where", {is_negative, r.int64_list({-kToTheEnd}), to_end}), is_negative};
}

// Forwards, both formats clamp as numpy does. Backwards, the end is put behind the begin where the begin is before the
// first element. An axis that is dropped has one element, and the place behind -1 is the end.
void raise_computed_slice(Raising& r) {
  const auto& o = r.options<core::StridedSliceOptions>();
  const size_t count = r.in(0).shape.size();
  const int begin_mask = o.begin_mask, end_mask = o.end_mask & ~o.shrink_axis_mask;
  std::vector<int64_t> axes, dropped;
  for (size_t i = 0; i < count; ++i) {
    axes.push_back(static_cast<int64_t>(i));
    if (core::has_bit(o.shrink_axis_mask, i)) dropped.push_back(axes.back());
  }
  const ComputedStrides by = computed_strides(r, o.shrink_axis_mask, count);
  const std::string begin = opened(r, r.int64_input(1), begin_mask, count, by.first);
  std::string end = opened(r, r.int64_input(2), end_mask, count, by.last);
  if (!by.is_negative.empty()) {
    const std::string lowest = r.node("Neg", {r.node("Shape", {r.stored(0)})});
    const std::string is_far = r.node("Equal", {end, r.int64_list({kLargestInt32})});
    const std::string is_empty = r.node("Or", {r.node("Less", {begin, lowest}), is_far});
    end = r.node("Where", {r.node("And", {by.is_negative, is_empty}), r.int64_list({kBehindAll}), end});
  }
  if (!dropped.empty()) {
    const std::string next = r.node("Add", {begin, r.int64_list({1})});
    const std::string behind =
        r.node("Where", {r.node("Equal", {next, r.int64_list({0})}), r.int64_list({kToTheEnd}), next});
    end = r.node("Where", {bits_of(r, o.shrink_axis_mask, count), behind, end});
  }
  std::string made = r.node("Slice", {r.data(0), begin, end, r.int64_list(axes), by.strides});
  if (!dropped.empty()) made = r.node("Squeeze", {made, r.int64_list(dropped)});
  r.give_data(made);
}

void raise_strided_slice(Raising& r) {
  if (r.in(0).rank() == 0) return r.give_copy();
  const auto& o = r.options<core::StridedSliceOptions>();
  if (!r.ints(1) || !r.ints(2) || !r.ints(3)) return raise_computed_slice(r);
  const std::vector<int64_t> begin = r.need_ints(1, "a begin"), end = r.need_ints(2, "an end"),
                             stride = r.need_ints(3, "a stride");
  std::vector<int64_t> starts, ends, steps, dropped;
  for (size_t i = 0; i < begin.size(); ++i) {
    const bool forward = stride[i] > 0;
    const auto masked = [&](int mask) { return core::has_bit(mask, i); };
    if (masked(o.shrink_axis_mask)) {
      const core::Dim extent = r.in(0).shape[i];
      const int64_t first = stream::is_static(extent) ? -extent : std::numeric_limits<int64_t>::min();
      const int64_t place = masked(o.begin_mask) ? 0 : std::max(begin[i], first);
      starts.push_back(place);
      ends.push_back(place == -1 ? kToTheEnd : place + 1);
      steps.push_back(1);
      dropped.push_back(static_cast<int64_t>(i));
      continue;
    }
    // A begin before the first element: see above.
    const core::Dim extent = r.in(0).shape[i];
    const bool may_be_before = !forward && !masked(o.begin_mask) && begin[i] < -1;
    if (may_be_before && core::is_symbol(extent)) return raise_computed_slice(r);
    if (may_be_before && begin[i] < -extent) {
      starts.push_back(0);
      ends.push_back(kBehindAll);
      steps.push_back(stride[i]);
      continue;
    }
    starts.push_back(masked(o.begin_mask) ? (forward ? 0 : kToTheEnd) : begin[i]);
    const bool is_far = !forward && end[i] == kLargestInt32;
    ends.push_back(masked(o.end_mask) ? (forward ? kToTheEnd : -kToTheEnd) : is_far ? kBehindAll : end[i]);
    steps.push_back(stride[i]);
  }
  std::string made = sliced(r, r.data(0), starts, ends, steps);
  if (!dropped.empty()) made = r.node("Squeeze", {made, r.int64_list(dropped)});
  r.give_data(made);
}

constexpr RaiseRow kSlices[] = {
    {Kind::kSlice, 3, 3, raise_slice},
    {Kind::kStridedSlice, 4, 4, raise_strided_slice},
};

}  // namespace

std::span<const RaiseRow> raised_slices() { return kSlices; }

}  // namespace lowtide::layout
