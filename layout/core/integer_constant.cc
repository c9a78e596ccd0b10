// SPDX-License-Identifier: Apache-2.0
#include "layout/core/integer_constant.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <variant>

#include "stream/recipe/recipe_reader.h"

namespace lowtide::core {
namespace {

namespace recipe = stream::recipe;
namespace step = stream::step;
using stream::DType;
using stream::RecipeRef;
using stream::Shape;

// Of the integers that are found. Recipes with more than twice as many are refused.
constexpr int kMostIntegerSteps = stream::kMaxSteps / 2;

// One number everywhere: mostly of a model of floats, where it is to stay one.
bool is_fill(const RecipeRef& floats) { return std::holds_alternative<step::Fill>(floats->step); }

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

// The scales at these indices of the axis that they are along.
void pick_scales(IntegerConstant& constant, const std::vector<int64_t>& indices) {
  std::vector<float> scale;
  std::vector<int64_t> zero;
  for (const int64_t i : indices) {
    scale.push_back(constant.scale[static_cast<size_t>(i)]);
    zero.push_back(constant.zero[static_cast<size_t>(i)]);
  }
  constant.scale = std::move(scale);
  constant.zero = std::move(zero);
}

std::optional<IntegerConstant> sliced(const RecipeRef& floats, const step::Slice& slice, stream::Budget& budget) {
  auto inner = integer_constant(floats->from[0], budget);
  if (!inner) return std::nullopt;
  inner->integers = recipe::slice(inner->integers, slice.begin, floats->dims, slice.stride);
  if (inner->axis < 0) return inner;
  const auto at = static_cast<size_t>(inner->axis);
  std::vector<int64_t> picked;
  for (int64_t i = 0; i < floats->dims[at]; ++i) picked.push_back(slice.begin[at] + i * slice.stride[at]);
  pick_scales(*inner, picked);
  return inner;
}

std::optional<IntegerConstant> gathered(const RecipeRef& floats, const step::Gather& gather, stream::Budget& budget) {
  auto inner = is_fill(floats->from[0]) ? std::nullopt : integer_constant(floats->from[0], budget);
  if (!inner) return std::nullopt;
  inner->integers = recipe::gather(inner->integers, gather.axis, gather.indices);
  if (inner->axis == gather.axis) pick_scales(*inner, gather.indices);
  return inner;
}

// Parts with scales of their own have one for each index of the axis that they are joined along.
std::optional<IntegerConstant> joined(const RecipeRef& floats, const step::Concat& concat, stream::Budget& budget) {
  std::vector<IntegerConstant> parts;
  int steps = 0;
  for (const RecipeRef& part : floats->from) {
    if (is_fill(part)) return std::nullopt;
    auto found = integer_constant(part, budget);
    if (!found || (!parts.empty() && found->integers->dtype != parts[0].integers->dtype)) return std::nullopt;
    steps += found->integers->steps;
    parts.push_back(*std::move(found));
  }
  if (steps > kMostIntegerSteps) return std::nullopt;
  std::vector<RecipeRef> integers;
  for (const IntegerConstant& part : parts) integers.push_back(part.integers);
  IntegerConstant out{recipe::concat(std::move(integers), concat.axis), parts[0].scale, parts[0].zero, parts[0].axis};
  const bool is_alike = out.axis != concat.axis && std::all_of(parts.begin(), parts.end(), [&](const auto& part) {
                          return part.axis == out.axis && part.scale == out.scale && part.zero == out.zero;
                        });
  if (is_alike) return out;
  const auto extent = static_cast<uint64_t>(floats->dims[static_cast<size_t>(concat.axis)]);
  if (extent > kMostScales) return std::nullopt;
  out.scale.clear();
  out.zero.clear();
  out.axis = concat.axis;
  for (const IntegerConstant& part : parts) {
    if (part.axis >= 0 && part.axis != concat.axis) return std::nullopt;
    const stream::Dim count = part.integers->dims[static_cast<size_t>(concat.axis)];
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      out.scale.push_back(part.scale[part.axis < 0 ? 0 : i]);
      out.zero.push_back(part.zero[part.axis < 0 ? 0 : i]);
    }
  }
  if (extent == 1) out.axis = -1;
  return out;
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

// The integers from the other end of their type, ~q, where `is_turned` says so: for all, or for each index of the axis.
RecipeRef turned(const RecipeRef& integers, const std::vector<bool>& is_turned, int axis) {
  const int64_t ends = stream::is_signed_int(integers->dtype) ? -1 : (int64_t{1} << stream::bits(integers->dtype)) - 1;
  std::vector<int64_t> signs, offsets;
  for (const bool turns : is_turned) {
    signs.push_back(turns ? -1 : 1);
    offsets.push_back(turns ? ends : 0);
  }
  Shape along;
  if (is_turned.size() > 1) {
    along.assign(integers->dims.size(), 1);
    along[static_cast<size_t>(axis)] = static_cast<stream::Dim>(is_turned.size());
  }
  const RecipeRef product = recipe::binary(stream::Binary::kMul, recipe::cast(integers, DType::kInt32),
                                           recipe::ints(signs, DType::kInt32, along));
  return recipe::cast(
      recipe::binary(stream::Binary::kAdd, product, recipe::ints(offsets, DType::kInt32, std::move(along))),
      integers->dtype);
}

// Integers times a number, or times one for each index of an axis: the scales take it. No kernel takes a scale below 0:
// ~q less ~zero is zero less q, in any type of integers.
std::optional<IntegerConstant> times(IntegerConstant constant, const std::vector<double>& factors, int axis) {
  constexpr int kMostTurnedBits = 8;  // of types that have zero points
  const size_t count = std::max(factors.size(), constant.scale.size());
  if (factors.size() > 1 && constant.scale.size() > 1 &&
      (factors.size() != constant.scale.size() || axis != constant.axis))
    return std::nullopt;
  const int64_t ends =
      stream::is_signed_int(constant.integers->dtype) ? -1 : (int64_t{1} << stream::bits(constant.integers->dtype)) - 1;
  IntegerConstant out{constant.integers, {}, {}, count == 1 ? -1 : factors.size() > 1 ? axis : constant.axis};
  std::vector<bool> is_turned;
  for (size_t i = 0; i < count; ++i) {
    const size_t at = constant.scale.size() == 1 ? 0 : i;
    const double factor = factors[factors.size() == 1 ? 0 : i];
    const auto scale = static_cast<float>(constant.scale[at] * factor);
    const bool vanishes = scale == 0 && constant.scale[at] != 0 && factor != 0;
    if (vanishes || (scale != 0 && !std::isnormal(scale))) return std::nullopt;
    is_turned.push_back(scale < 0);
    out.scale.push_back(std::fabs(scale));
    out.zero.push_back(scale < 0 ? ends - constant.zero[at] : constant.zero[at]);
  }
  if (std::find(is_turned.begin(), is_turned.end(), true) == is_turned.end()) return out;
  if (stream::bits(constant.integers->dtype) > kMostTurnedBits || constant.integers->steps > kMostIntegerSteps)
    return std::nullopt;
  if (std::find(is_turned.begin(), is_turned.end(), false) == is_turned.end()) is_turned = {true};
  out.integers = turned(out.integers, is_turned, out.axis);
  return out;
}

// Batch normalisations that were fused into weights are such factors.
std::optional<IntegerConstant> scaled(const RecipeRef& floats, bool is_quotient, size_t numbers_at,
                                      stream::Budget& budget) {
  const RecipeRef &numbers = floats->from[numbers_at], &factor = floats->from[1 - numbers_at];
  if (floats->dims != numbers->dims || !stream::is_small(*factor)) return std::nullopt;
  const auto axis = axis_of_list(factor->dims, floats->dims);
  auto inner = axis ? integer_constant(numbers, budget) : std::nullopt;
  if (!inner || factor->elements() == 0) return std::nullopt;
  std::vector<double> factors = stream::evaluate_doubles(factor, budget);
  if (is_quotient)
    for (double& each : factors) each = 1 / each;
  // A number that was repeated for each channel leaves one scale.
  if (std::adjacent_find(factors.begin(), factors.end(), std::not_equal_to<>()) == factors.end()) factors.resize(1);
  return times(*std::move(inner), factors, *axis);
}

std::optional<IntegerConstant> of_product(const RecipeRef& floats, stream::Budget& budget) {
  auto found = scaled(floats, false, 0, budget);
  return found || is_fill(floats->from[1]) ? found : scaled(floats, false, 1, budget);
}

std::optional<IntegerConstant> of_quotient(const RecipeRef& floats, stream::Budget& budget) {
  return is_fill(floats->from[0]) ? std::nullopt : scaled(floats, true, 0, budget);
}

std::optional<IntegerConstant> negated(const RecipeRef& floats, stream::Budget& budget) {
  auto inner = is_fill(floats->from[0]) ? std::nullopt : integer_constant(floats->from[0], budget);
  return inner ? times(*std::move(inner), {-1}, -1) : std::nullopt;
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
    IntegerConstant out{floats->from[0], dequantize->scale, dequantize->zero, dequantize->axis};
    if (out.zero.empty()) out.zero.assign(out.scale.size(), 0);
    if (out.scale.size() == 1) out.axis = -1;
    if (std::any_of(out.scale.begin(), out.scale.end(), [](float scale) { return scale < 0; }))
      return times(std::move(out), {1}, -1);
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
    return binary->op == stream::Binary::kMul   ? of_product(floats, budget)
           : binary->op == stream::Binary::kDiv ? of_quotient(floats, budget)
                                                : centred(floats, *binary, budget);
  if (const auto* unary = std::get_if<step::Unary>(&floats->step); unary && unary->op == stream::Unary::kNeg)
    return floats->dtype == DType::kFloat32 ? negated(floats, budget) : std::nullopt;
  if (const auto* gather = std::get_if<step::Gather>(&floats->step)) return gathered(floats, *gather, budget);
  if (const auto* concat = std::get_if<step::Concat>(&floats->step)) return joined(floats, *concat, budget);
  if (const auto* pad = std::get_if<step::Pad>(&floats->step)) return padded(floats, *pad, budget);
  return std::nullopt;
}

RecipeRef shifted_integers(const RecipeRef& integers, int64_t offset, DType to) {
  const RecipeRef wide = recipe::cast(integers, DType::kInt32);
  return recipe::cast(recipe::binary(stream::Binary::kAdd, wide, recipe::ints(std::array{offset}, DType::kInt32, {})),
                      to);
}

}  // namespace lowtide::core
