// SPDX-License-Identifier: Apache-2.0
// UNSORTED_SEGMENT_*, UNIQUE.
//
// UNSORTED_SEGMENT_*: LiteRT leaves out rows with a negative segment, refuses one beyond the last, and gives an empty
// segment the neutral element of its operation, which for extremes is the end of the type's range, not an infinity.
// ScatterElements is used because ONNX Runtime computes it in order. Older versions compute ScatterND with threads that
// race where rows share a place (microsoft/onnxruntime issue 18048).
// Source of semantics: tensorflow/lite/kernels/unsorted_segment.cc, unique.cc.
#include <fmt/format.h>

#include <limits>

#include "layout/raise/families.h"
#include "layout/raise/raising.h"

namespace lowtide::layout {
namespace {

struct SegmentForm {
  std::string_view reduction;
  double neutral;
};

SegmentForm segment_form(Raising& r) {
  const bool is_real = r.in(0).dtype == DType::kFloat32;
  using Real = std::numeric_limits<float>;
  using Whole = std::numeric_limits<int32_t>;
  switch (r.kind()) {
    case Kind::kUnsortedSegmentSum:
      return {"add", 0};
    case Kind::kUnsortedSegmentProd:
      return {"mul", 1};
    case Kind::kUnsortedSegmentMax:
      return {"max", is_real ? double{Real::lowest()} : double{Whole::lowest()}};
    default:
      return {"min", is_real ? double{Real::max()} : double{Whole::max()}};
  }
}

// The segments' dimensions of the data become one. Segment -1 gets a row of its own before the others, which is cut
// off.
void raise_unsorted_segment(Raising& r) {
  const DType dtype = r.in(0).dtype;
  if (r.in(0).quantization || (dtype != DType::kFloat32 && dtype != DType::kInt32))
    r.unsupported(fmt::format("{}data of {}; LiteRT has float32 and int32", r.in(0).quantization ? "quantized " : "",
                              dtype_name(dtype)));
  const Shape row(r.in(0).shape.begin() + r.in(1).rank(), r.in(0).shape.end());
  std::vector<int64_t> row_sizes;
  for (core::Dim dim : row) row_sizes.push_back(r.need_static(dim, "the size of a row is"));
  const SegmentForm form = segment_form(r);

  const std::string one = r.int64_list({1});
  const std::string count = r.node("Add", {r.node("Reshape", {r.int64_input(2), one}), one});
  std::string whole = count;
  if (!row.empty()) whole = r.node("Concat", {count, r.int64_list(row_sizes)}, {attribute("axis", int64_t{0})});
  const std::string neutral = r.node("Expand", {r.scalar(form.neutral, dtype), whole});

  std::vector<int64_t> flat = {-1}, column(row.size() + 1, 1);
  flat.insert(flat.end(), row_sizes.begin(), row_sizes.end());
  column[0] = -1;
  const std::string data = r.in(1).rank() == 1 ? r.stored(0) : r.node("Reshape", {r.stored(0), r.int64_list(flat)});
  const std::string segments = r.node("Max", {r.int64_input(1), r.scalar(-1, DType::kInt64)});
  const std::string places = r.node("Reshape", {r.node("Add", {segments, r.scalar(1, DType::kInt64)}),  //
                                                r.int64_list(column)});
  const std::string filled =
      r.node("ScatterElements", {neutral, r.node("Expand", {places, r.node("Shape", {data})}), data},
             {attribute("axis", int64_t{0}), attribute("reduction", form.reduction)});
  r.give_stored(r.node("Slice", {filled, one, r.int64_list({std::numeric_limits<int64_t>::max()}), r.int64_list({0})}));
}

// ONNX Runtime's Unique has few types.
void raise_unique(Raising& r) {
  const DType dtype = r.in(0).dtype, index = r.out(1).dtype;
  if (r.in(0).quantization || r.out().quantization) r.unsupported("quantized data");
  const bool has_kernel = dtype == DType::kFloat32 || dtype == DType::kInt64 || dtype == DType::kInt8;
  if (!has_kernel && !stream::is_integer(dtype)) r.unsupported(fmt::format("values of {}", dtype_name(dtype)));
  const std::string x = has_kernel ? r.stored(0) : r.cast(r.stored(0), DType::kInt64);
  // Values, the first place of each, for each element the place of its value. An empty name leaves an output out.
  const Names made = r.onnx.nodes("Unique", {x}, 3, {attribute("sorted", int64_t{0})});
  r.give_stored(has_kernel ? r.node("Identity", {made[0]}) : r.cast(made[0], dtype));
  r.give_stored(index == DType::kInt64 ? r.node("Identity", {made[2]}) : r.cast(made[2], index), 1);
}

constexpr RaiseRow kScatters[] = {
    {Kind::kUnsortedSegmentSum, 3, 3, raise_unsorted_segment},
    {Kind::kUnsortedSegmentProd, 3, 3, raise_unsorted_segment},
    {Kind::kUnsortedSegmentMax, 3, 3, raise_unsorted_segment},
    {Kind::kUnsortedSegmentMin, 3, 3, raise_unsorted_segment},
    {Kind::kUnique, 1, 1, raise_unique},
};

}  // namespace

std::span<const RaiseRow> raised_scatters() { return kScatters; }

}  // namespace lowtide::layout
