// SPDX-License-Identifier: Apache-2.0
// Sources: LiteRT's reference/resize_nearest_neighbor.h (GetNearestNeighbor), and optimized_ops.h for 8 bits; ONNX
// Runtime's upsamplebase.h.
#include "layout/raise/nearest_places.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace lowtide::layout {
namespace {

constexpr int64_t kMostListedPlaces = 1 << 20;
constexpr int64_t kFixedPointOne = 1 << 16;  // of the kernel for 8 bits

bool is_listed(const NearestAxis& axis) {
  return stream::is_static(axis.from) && stream::is_static(axis.to) && axis.from <= kMostListedPlaces &&
         axis.to <= kMostListedPlaces;
}

bool is_fixed_point(const NearestAxis& axis) { return axis.has_bytes && axis.coordinates == Coordinates::kAsymmetric; }

int64_t place_in_litert(const NearestAxis& axis, int64_t i) {
  const bool aligns = axis.coordinates == Coordinates::kAlignCorners;
  if (is_fixed_point(axis))
    return std::min(i * (axis.from * kFixedPointOne / axis.to + 1) / kFixedPointOne, axis.from - 1);
  const float ratio = aligns && axis.to > 1 ? static_cast<float>(axis.from - 1) / static_cast<float>(axis.to - 1)
                                            : static_cast<float>(axis.from) / static_cast<float>(axis.to);
  const float at = (static_cast<float>(i) + (axis.coordinates == Coordinates::kHalfPixel ? 0.5F : 0.0F)) * ratio;
  return std::min(static_cast<int64_t>(aligns ? std::round(at) : std::floor(at)), axis.from - 1);
}

// What ONNX Runtime rounds down.
double place_in_onnx_runtime(const NearestAxis& axis, int64_t i) {
  const float from = static_cast<float>(axis.from), to = static_cast<float>(axis.to), x = static_cast<float>(i);
  const float scale = to / from;
  constexpr double kHalf = 0.5;
  switch (axis.coordinates) {
    case Coordinates::kHalfPixel:
      return kHalf + double{(x + 0.5F) / scale - 0.5F};
    case Coordinates::kAlignCorners:
      return kHalf + double{axis.to == 1 ? 0.0F : x * (from - 1) / (to - 1)};
    case Coordinates::kAsymmetric:
      break;
  }
  return double{x / scale};
}

// In all versions of ONNX Runtime: 1.31 takes the next row from 1e-6 before its beginning on, older sources do not.
bool takes_the_same(const NearestAxis& axis, int64_t i) {
  constexpr double kUnsure = 1e-5;
  const auto row = [&](double at) {
    return std::clamp<int64_t>(static_cast<int64_t>(std::floor(at)), 0, axis.from - 1);
  };
  const double at = place_in_onnx_runtime(axis, i);
  const int64_t wanted = place_in_litert(axis, i);
  return row(at) == wanted && row(at + kUnsure) == wanted;
}

// Twice or four times as many, or as few. Both compute with powers of two then, without an error: up to 16,384 rows,
// where the kernel for 8 bits begins to take neighbours.
bool is_by_power_of_two(core::Symbols& symbols, core::Dim a, core::Dim b) {
  if (a == 0 || b == 0) return false;
  const std::optional<core::Dim> times = symbols.exact_div(a, b);
  return times && (*times == 2 || *times == 4);
}

// Sizes as i64 lists of one. They are not known, or there are too many places for a list.
std::string computed_places(Raising& r, const NearestAxis& axis, const std::string& from, const std::string& to) {
  const std::string one = r.int64_list({1}), last = r.node("Sub", {from, one});
  const std::string index =
      r.node("Range", {r.scalar(0, DType::kInt64), r.reshaped(to, {}), r.scalar(1, DType::kInt64)});
  if (is_fixed_point(axis)) {
    const std::string unit = r.int64_list({kFixedPointOne});
    const std::string quotient = r.node("Div", {r.node("Mul", {from, unit}), r.node("Max", {to, one})});
    const std::string at = r.node("Mul", {index, r.node("Add", {quotient, one})});
    return r.node("Min", {r.node("Div", {at, unit}), last});
  }
  const auto real = [&](const std::string& number) { return r.cast(number, DType::kFloat32); };
  const bool aligns = axis.coordinates == Coordinates::kAlignCorners;
  const std::string steps = aligns ? r.node("Max", {r.node("Sub", {to, one}), one}) : to;
  const std::string ratio = r.node("Div", {real(aligns ? last : from), real(steps)});
  std::string at = real(index);
  if (axis.coordinates == Coordinates::kHalfPixel) at = r.node("Add", {at, r.scalar(0.5, DType::kFloat32)});
  at = r.node("Mul", {at, ratio});
  // A half is rounded up, and ONNX's Round takes the even number. In 64 bits the sum is exact.
  if (aligns) at = r.node("Add", {r.cast(at, DType::kFloat64), r.scalar(0.5, DType::kFloat64)});
  return r.node("Min", {r.cast(r.node("Floor", {at}), DType::kInt64), last});
}

}  // namespace

std::string_view name_of(Coordinates coordinates) {
  switch (coordinates) {
    case Coordinates::kAlignCorners:
      return "align_corners";
    case Coordinates::kHalfPixel:
      return "half_pixel";
    case Coordinates::kAsymmetric:
      break;
  }
  return "asymmetric";
}

bool resize_takes_the_same(core::Symbols& symbols, const NearestAxis& axis) {
  if (axis.from == axis.to) return true;
  if (!stream::is_static(axis.from) || !stream::is_static(axis.to))
    return axis.coordinates != Coordinates::kAlignCorners &&
           (is_by_power_of_two(symbols, axis.to, axis.from) || is_by_power_of_two(symbols, axis.from, axis.to));
  if (!is_listed(axis)) return false;
  for (int64_t i = 0; i < axis.to; ++i)
    if (!takes_the_same(axis, i)) return false;
  return true;
}

std::string nearest_places(Raising& r, const NearestAxis& sizes, size_t axis) {
  if (is_listed(sizes)) {
    std::vector<int64_t> places;
    for (int64_t i = 0; i < sizes.to; ++i) places.push_back(place_in_litert(sizes, i));
    return r.int64_list(places);
  }
  // One size of a list of them, or one that is known.
  const auto size = [&](core::Dim known, const std::string& all, size_t place) {
    if (stream::is_static(known)) return r.int64_list({known});
    const auto at = static_cast<int64_t>(place);
    return r.node("Slice", {all, r.int64_list({at}), r.int64_list({at + 1})});
  };
  const std::string from = size(sizes.from, stream::is_static(sizes.from) ? "" : r.node("Shape", {r.stored(0)}), axis);
  const std::string to = size(sizes.to, stream::is_static(sizes.to) ? "" : r.int64_input(1), axis - 2);
  return computed_places(r, sizes, from, to);
}

}  // namespace lowtide::layout
