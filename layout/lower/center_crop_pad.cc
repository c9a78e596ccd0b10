// SPDX-License-Identifier: Apache-2.0
// CenterCropPad.
#include <string>

#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

// Sizes known at run time only: the model does the same arithmetic for all axes at once.
Val crop_pad_at_run_time(Lowering& lo, Val x, Val wanted, const std::vector<int>& axes) {
  const std::vector<int64_t> places(axes.begin(), axes.end());
  Val have = lo.b.shape_of(x), zero = lo.b.i32_scalar(0), two = lo.b.i32_scalar(2);
  Val listed = scattered_to_axes(lo, as_i32_clamped(lo, wanted), lo.b.i32(places), lo.rank(x), -1);
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
    lo.misfit("input 1 ('shape') must have " + std::to_string(axes.size()) +
              " elements, one for each axis; its shape is " + stream::to_string(listed));
  const auto wanted = lo.ints(lo.input(1));
  if (!wanted || !stream::is_static(lo.shape(x))) {
    lo.output(0, crop_pad_at_run_time(lo, x, lo.input(1), axes));
    return;
  }
  std::vector<int64_t> begin(static_cast<size_t>(lo.rank(x)), 0), before = begin, after = begin;
  std::vector<Dim> size(begin.size(), -1);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto a = static_cast<size_t>(axes[i]);
    if ((*wanted)[i] < 0)
      lo.malformed("input 1 ('shape') must not be negative; it contains " + std::to_string((*wanted)[i]));
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

}  // namespace lowtide::layout
