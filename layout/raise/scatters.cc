// SPDX-License-Identifier: Apache-2.0
// UNSORTED_SEGMENT_*, SCATTER_ND, UNIQUE.
//
// UNSORTED_SEGMENT_*: LiteRT leaves out rows with a negative segment, refuses one beyond the last, and gives an empty
// segment the neutral element of its operation, which for extremes is the end of the type's range, not an infinity.
// ScatterElements is used because ONNX Runtime computes it in order. Older versions compute ScatterND with threads that
// race where rows share a place (microsoft/onnxruntime issue 18048).
// SCATTER_ND whose constant indices name a place twice is a ScatterElements too; where they do not, no two threads
// meet. It adds in any case: 0 + -0 is 0. Source of semantics: tensorflow/lite/kernels/unsorted_segment.cc,
// scatter_nd.cc, unique.cc.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <vector>

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

// The rows that constant indices [..., axes] name, counted in [shape[0] * ... * shape[axes - 1]]. LiteRT fails at a
// place outside; ONNX would count a negative one from the end.
std::vector<int64_t> scattered_rows(Raising& r, std::span<const int64_t> indices, std::span<const core::Dim> outer) {
  std::vector<int64_t> rows;
  for (size_t i = 0; i + outer.size() <= indices.size(); i += outer.size()) {
    int64_t row = 0;
    for (size_t axis = 0; axis < outer.size(); ++axis) {
      const int64_t place = indices[i + axis];
      if (place < 0 || place >= outer[axis])
        r.unsupported(fmt::format("the index {} is outside of an axis of {} elements", place, outer[axis]));
      row = row * outer[axis] + place;
    }
    rows.push_back(row);
  }
  return rows;
}

bool has_equal_rows(std::vector<int64_t> rows) {
  std::sort(rows.begin(), rows.end());
  return std::adjacent_find(rows.begin(), rows.end()) != rows.end();
}

// Into zeros; what comes to one place is added.
void raise_scatter_nd(Raising& r) {
  if (r.out().quantization) r.unsupported("quantized data: its zeros are not the numbers' zero");
  const DType dtype = r.out().dtype;
  const bool has_kernel = dtype == DType::kFloat32 || dtype == DType::kInt32 || dtype == DType::kInt64;
  const DType computed = has_kernel ? dtype : stream::is_float(dtype) ? DType::kFloat32 : DType::kInt64;
  const std::string updates = has_kernel ? r.stored(1) : r.cast(r.stored(1), computed);
  const auto give = [&](const std::string& made) { r.give_stored(has_kernel ? made : r.cast(made, dtype)); };
  const Shape& shape = r.out().shape;
  const std::optional<std::vector<int64_t>> indices = r.ints(0);
  const Shape& listed = r.in(0).shape;
  if (indices && !indices->empty() && stream::is_static(shape)) {
    stream::element_count(shape);  // throws where it does not fit 64 bits, so that no row's number wraps
    const auto axes = static_cast<size_t>(listed.back());
    const std::span<const core::Dim> outer = std::span(shape).first(axes), inner = std::span(shape).subspan(axes);
    const std::vector<int64_t> rows = scattered_rows(r, *indices, outer);
    if (has_equal_rows(rows)) {
      const auto count = static_cast<int64_t>(rows.size()), size = static_cast<int64_t>(stream::element_count(inner));
      const auto all = static_cast<int64_t>(stream::element_count(outer));
      const std::string zeros = r.node("Expand", {r.scalar(0, computed), r.int64_list({all, size})});
      const std::string column = r.onnx.initializer(stream::recipe::ints(rows, DType::kInt64, {count, 1}), "rows");
      const std::string places = r.node("Expand", {column, r.int64_list({count, size})});
      const std::string made = r.node("ScatterElements", {zeros, places, r.reshaped(updates, {count, size})},
                                      {attribute("axis", int64_t{0}), attribute("reduction", std::string_view("add"))});
      return give(r.reshaped(made, shape));
    }
  }
  const std::string zeros = r.node("Expand", {r.scalar(0, computed), r.int64_input(2)});
  give(r.node("ScatterND", {zeros, r.int64_input(0), updates}, {attribute("reduction", std::string_view("add"))}));
}

}  // namespace

// Indices: a number, a list, or rows of places. What comes to one place last stays.
void raise_sparse_to_dense(Raising& r) {
  const Shape& shape = r.out().shape;
  const auto total = static_cast<int64_t>(stream::element_count(shape));
  const Shape& listed = r.in(0).shape;
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  std::string places = r.int64_input(0);
  if (listed.size() == 2) {
    const std::string offsets = r.node("Mul", {places, r.int64_list(strides)});
    places = r.node("ReduceSum", {offsets, r.int64_list({1})}, {attribute("keepdims", int64_t{0})});
  } else if (listed.empty()) {
    places = r.reshaped(places, {1});
  }
  const std::string count = listed.empty()                 ? r.int64_list({1})
                            : stream::is_static(listed[0]) ? r.int64_list({listed[0]})
                                                           : r.node("Shape", {places});
  const std::string values = r.in(2).rank() == 0 ? r.node("Expand", {r.stored(2), count}) : r.stored(2);
  const std::string rest = r.reshaped(r.stored(3), {});
  const std::string empty = r.node("Expand", {rest, r.int64_list({total})});
  const std::string filled = r.node("ScatterElements", {empty, places, values}, {attribute("axis", int64_t{0})});
  r.give_stored(r.reshaped(filled, shape));
}

namespace {

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
    {Kind::kScatterNd, 3, 3, raise_scatter_nd},
    {Kind::kUnique, 1, 1, raise_unique},
};

}  // namespace

std::span<const RaiseRow> raised_scatters() { return kScatters; }

}  // namespace lowtide::layout
