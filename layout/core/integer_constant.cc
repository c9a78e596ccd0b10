// SPDX-License-Identifier: Apache-2.0
#include "layout/core/integer_constant.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <variant>

#include "stream/recipe/recipe_reader.h"

namespace lowtide::core {
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

std::optional<IntegerConstant> permuted(const RecipeRef& floats, const step::Permute& permute, stream::Budget& budget) {
  auto inner = integer_constant(floats->from[0], budget);
  if (!inner) return std::nullopt;
  inner->integers = recipe::permute(inner->integers, permute.perm);
  if (inner->axis >= 0)
    inner->axis =
        static_cast<int>(std::find(permute.perm.begin(), permute.perm.end(), inner->axis) - permute.perm.begin());
  return inner;
}

std::optional<IntegerConstant> reshaped(const RecipeRef& floats, stream::Budget& budget) {
  auto inner = integer_constant(floats->from[0], budget);
  if (!inner) return std::nullopt;
  if (inner->axis >= 0) {
    auto axis = axis_behind_reshape(floats->from[0]->dims, inner->axis, floats->dims);
    if (!axis) return std::nullopt;
    inner->axis = *axis;
  }
  inner->integers = recipe::reshape(inner->integers, floats->dims);
  return inner;
}

std::optional<IntegerConstant> sliced(const RecipeRef& floats, const step::Slice& slice, stream::Budget& budget) {
  auto inner = integer_constant(floats->from[0], budget);
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

// The axis that a list of numbers is along: the only one on which it is not broadcast; -1 for a single number. nullopt
// where there are several.
std::optional<int> axis_of_list(const Shape& list, const Shape& data) {
  int axis = -1;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] == 1) continue;
    if (axis >= 0) return std::nullopt;
    axis = static_cast<int>(data.size() - list.size() + i);
  }
  return axis;
}

// Integers times a number, or times one for each index of an axis: the scales take it. Batch normalisations that were
// fused into weights are such.
std::optional<IntegerConstant> scaled(const RecipeRef& floats, stream::Budget& budget) {
  const RecipeRef &numbers = floats->from[0], &factor = floats->from[1];
  if (floats->dims != numbers->dims || !stream::is_small(*factor)) return std::nullopt;
  const auto axis = axis_of_list(factor->dims, floats->dims);
  auto inner = axis ? integer_constant(numbers, budget) : std::nullopt;
  if (!inner || (*axis >= 0 && inner->axis >= 0 && inner->axis != *axis)) return std::nullopt;
  const std::vector<double> factors = stream::evaluate_doubles(factor, budget);
  const size_t count = std::max(factors.size(), inner->scale.size());
  std::vector<float> scale;
  std::vector<int64_t> zero;
  for (size_t i = 0; i < count; ++i) {
    const size_t at = inner->scale.size() == 1 ? 0 : i;
    scale.push_back(static_cast<float>(inner->scale[at] * factors[factors.size() == 1 ? 0 : i]));
    zero.push_back(inner->zero[at]);
    if (!(scale.back() > 0) || !std::isnormal(scale.back())) return std::nullopt;
  }
  if (*axis >= 0 && count > 1) inner->axis = *axis;
  inner->scale = std::move(scale);
  inner->zero = std::move(zero);
  return inner;
}

// Integers less a zero point, or less one for each index of an axis, computed in floats.
std::optional<IntegerConstant> centred(const RecipeRef& floats, const step::Binary& binary, stream::Budget& budget) {
  const RecipeRef &numbers = floats->from[0], &zero = floats->from[1];
  if (binary.op != stream::Binary::kSub || floats->dims != numbers->dims || !stream::is_small(*zero))
    return std::nullopt;
  auto inner = integer_constant(numbers, budget);
  if (!inner || inner->scale != std::vector<float>{1} || inner->zero[0] != 0) return std::nullopt;
  const auto axis = axis_of_list(zero->dims, floats->dims);
  if (!axis) return std::nullopt;
  inner->zero.clear();
  for (const double number : stream::evaluate_doubles(zero, budget)) {
    if (!(std::fabs(number) <= 255) || number != std::nearbyint(number)) return std::nullopt;
    inner->zero.push_back(static_cast<int64_t>(number));
  }
  if (inner->zero.size() > 1) inner->axis = *axis;
  inner->scale.assign(inner->zero.size(), 1);
  return inner;
}

// Zeros around the elements: the zero point, if it is an integer of the type.
std::optional<IntegerConstant> padded(const RecipeRef& floats, const step::Pad& pad, stream::Budget& budget) {
  auto inner = integer_constant(floats->from[0], budget);
  const bool is_zero = std::all_of(pad.lane.begin(), pad.lane.end(), [](std::byte b) { return b == std::byte{0}; });
  if (!inner || !is_zero || !inner->all_zero_points_are(inner->zero[0]) || !inner->all_zero_points_fit())
    return std::nullopt;
  const Shape& from = floats->from[0]->dims;
  if (inner->axis >= 0 && from[static_cast<size_t>(inner->axis)] != floats->dims[static_cast<size_t>(inner->axis)])
    return std::nullopt;
  std::vector<int64_t> after(from.size());
  for (size_t i = 0; i < from.size(); ++i) after[i] = floats->dims[i] - from[i] - pad.before[i];
  const DType dtype = inner->integers->dtype;
  const RecipeRef zero = recipe::fill_value(static_cast<double>(inner->zero[0]), dtype, {1});
  const auto* fill = std::get_if<step::Fill>(&zero->step);
  inner->integers = recipe::pad(inner->integers, pad.before, after, fill->lane);
  return inner;
}

}  // namespace

bool IntegerConstant::all_zero_points_are(int64_t value) const {
  return std::all_of(zero.begin(), zero.end(), [value](int64_t z) { return z == value; });
}

bool IntegerConstant::all_zero_points_fit() const {
  const int bits = stream::bits(integers->dtype);
  const bool is_signed = stream::is_signed_int(integers->dtype);
  const int64_t least = is_signed ? -(int64_t{1} << (bits - 1)) : 0, count = int64_t{1} << bits;
  return std::all_of(zero.begin(), zero.end(), [&](int64_t z) { return z >= least && z < least + count; });
}

std::optional<IntegerConstant> integer_constant(const RecipeRef& floats, stream::Budget& budget) {
  if (const auto* dequantize = std::get_if<step::Dequantize>(&floats->step)) {
    // No kernel takes a scale below 0: such weights are floats for it.
    if (std::any_of(dequantize->scale.begin(), dequantize->scale.end(), [](float scale) { return scale < 0; }))
      return std::nullopt;
    IntegerConstant out{floats->from[0], dequantize->scale, dequantize->zero, dequantize->axis};
    if (out.zero.empty()) out.zero.assign(out.scale.size(), 0);
    if (out.scale.size() == 1) out.axis = -1;
    return out;
  }
  // Integers that are computed with as they are.
  if (std::holds_alternative<step::Cast>(floats->step) && floats->dtype == DType::kFloat32 &&
      stream::is_integer(floats->from[0]->dtype) && stream::bits(floats->from[0]->dtype) <= 16)
    return IntegerConstant{floats->from[0], {1}, {0}, -1};
  if (const auto* fill = std::get_if<step::Fill>(&floats->step)) return uniform(floats, *fill);
  if (const auto* permute = std::get_if<step::Permute>(&floats->step)) return permuted(floats, *permute, budget);
  if (std::holds_alternative<step::Reshape>(floats->step)) return reshaped(floats, budget);
  if (const auto* slice = std::get_if<step::Slice>(&floats->step)) return sliced(floats, *slice, budget);
  if (const auto* binary = std::get_if<step::Binary>(&floats->step); binary && floats->dtype == DType::kFloat32)
    return binary->op == stream::Binary::kMul ? scaled(floats, budget) : centred(floats, *binary, budget);
  if (const auto* pad = std::get_if<step::Pad>(&floats->step)) return padded(floats, *pad, budget);
  return std::nullopt;
}

RecipeRef shifted_integers(const RecipeRef& integers, int64_t offset, DType to) {
  const RecipeRef wide = recipe::cast(integers, DType::kInt32);
  return recipe::cast(recipe::binary(stream::Binary::kAdd, wide, recipe::ints(std::array{offset}, DType::kInt32, {})),
                      to);
}

}  // namespace lowtide::core
