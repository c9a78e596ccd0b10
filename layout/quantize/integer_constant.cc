// SPDX-License-Identifier: Apache-2.0
#include "layout/quantize/integer_constant.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <variant>

namespace lowtide::layout {
namespace {

namespace recipe = stream::recipe;
namespace step = stream::step;
using stream::DType;
using stream::RecipeRef;
using stream::Shape;

// The axis of `to` that has the same elements at each index as `axis` of `from`, in a reshape between the two.
std::optional<int> axis_behind_reshape(const Shape& from, int axis, const Shape& to) {
  auto elements = [](const Shape& shape, size_t first, size_t last) {
    stream::Dim count = 1;
    for (size_t i = first; i < last; ++i) count *= shape[i];
    return count;
  };
  const auto at = static_cast<size_t>(axis);
  for (size_t i = 0; i < to.size(); ++i)
    if (to[i] == from[at] && elements(to, 0, i) == elements(from, 0, at)) return static_cast<int>(i);
  return std::nullopt;
}

std::optional<IntegerConstant> uniform(const RecipeRef& floats, const step::Fill& fill) {
  if (floats->dtype != DType::kFloat32) return std::nullopt;
  float value;
  std::memcpy(&value, fill.lane.data(), sizeof(value));
  if (!std::isfinite(value) || (value != 0 && !std::isnormal(value))) return std::nullopt;
  const int level = value > 0 ? 1 : value < 0 ? -1 : 0;
  return IntegerConstant{
      recipe::fill_value(level, DType::kInt8, floats->dims), {value == 0 ? 1 : std::fabs(value)}, {0}, -1};
}

std::optional<IntegerConstant> permuted(const RecipeRef& floats, const step::Permute& permute) {
  auto inner = integer_constant(floats->from[0]);
  if (!inner) return std::nullopt;
  inner->integers = recipe::permute(inner->integers, permute.perm);
  if (inner->axis >= 0)
    inner->axis =
        static_cast<int>(std::find(permute.perm.begin(), permute.perm.end(), inner->axis) - permute.perm.begin());
  return inner;
}

std::optional<IntegerConstant> reshaped(const RecipeRef& floats) {
  auto inner = integer_constant(floats->from[0]);
  if (!inner) return std::nullopt;
  if (inner->axis >= 0) {
    auto axis = axis_behind_reshape(floats->from[0]->dims, inner->axis, floats->dims);
    if (!axis) return std::nullopt;
    inner->axis = *axis;
  }
  inner->integers = recipe::reshape(inner->integers, floats->dims);
  return inner;
}

std::optional<IntegerConstant> sliced(const RecipeRef& floats, const step::Slice& slice) {
  auto inner = integer_constant(floats->from[0]);
  if (!inner) return std::nullopt;
  inner->integers = recipe::slice(inner->integers, slice.begin, floats->dims, slice.stride);
  if (inner->axis < 0) return inner;
  const auto at = static_cast<size_t>(inner->axis);
  std::vector<float> scale;
  std::vector<int64_t> zero;
  for (int64_t i = 0; i < floats->dims[at]; ++i) {
    const auto from = static_cast<size_t>(slice.begin[at] + i * slice.stride[at]);
    scale.push_back(inner->scale[from]);
    zero.push_back(inner->zero[from]);
  }
  inner->scale = std::move(scale);
  inner->zero = std::move(zero);
  return inner;
}

}  // namespace

bool IntegerConstant::all_zero_points_are(int64_t value) const {
  return std::all_of(zero.begin(), zero.end(), [value](int64_t z) { return z == value; });
}

std::optional<IntegerConstant> integer_constant(const RecipeRef& floats) {
  if (const auto* dequantize = std::get_if<step::Dequantize>(&floats->step)) {
    IntegerConstant out{floats->from[0], dequantize->scale, dequantize->zero, dequantize->axis};
    if (out.zero.empty()) out.zero.assign(out.scale.size(), 0);
    if (out.scale.size() == 1) out.axis = -1;
    return out;
  }
  if (const auto* fill = std::get_if<step::Fill>(&floats->step)) return uniform(floats, *fill);
  if (const auto* permute = std::get_if<step::Permute>(&floats->step)) return permuted(floats, *permute);
  if (std::holds_alternative<step::Reshape>(floats->step)) return reshaped(floats);
  if (const auto* slice = std::get_if<step::Slice>(&floats->step)) return sliced(floats, *slice);
  return std::nullopt;
}

RecipeRef shifted_integers(const RecipeRef& integers, int64_t offset, DType to) {
  const RecipeRef wide = recipe::cast(integers, DType::kInt32);
  return recipe::cast(recipe::binary(stream::Binary::kAdd, wide, recipe::ints(std::array{offset}, DType::kInt32, {})),
                      to);
}

}  // namespace lowtide::layout
