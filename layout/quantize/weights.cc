// SPDX-License-Identifier: Apache-2.0
// The trap: kernels read a bias as integers at the scale of the data times that of the weights, and do not look at the
// scale that the file gives it. A bias of another scale is converted here.
#include "layout/quantize/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "layout/core/integer_constant.h"
#include "layout/quantize/conditions.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::layout {
namespace {

namespace recipe = stream::recipe;
using stream::RecipeRef;

constexpr int64_t kHalf = 128;  // of the values of 8 bits
// Two scales that differ by rounding only.
constexpr double kSameScale = 1e-6;

// A bias that is rounded by no more than this many steps of the result.
constexpr double kMostLost = 0.5;

// The integers of channels of scale 0 are multiplied by 0: the channels get another scale.
void clear_channels_of_scale_0(IntegerWeights& weights, int axis) {
  std::vector<int64_t> keep;
  for (const float scale : weights.scale) keep.push_back(scale == 0 ? 0 : 1);
  if (std::find(keep.begin(), keep.end(), 0) == keep.end()) return;
  const stream::Shape& dims = weights.integers->dims;
  stream::Shape along(dims.size(), 1);
  along[static_cast<size_t>(axis)] = static_cast<stream::Dim>(keep.size());
  const DType dtype = weights.integers->dtype;
  const RecipeRef wide = recipe::cast(weights.integers, DType::kInt32);
  weights.integers = recipe::cast(
      recipe::binary(stream::Binary::kMul, wide, recipe::ints(keep, DType::kInt32, std::move(along))), dtype);
}

// Kernels that read a bias of i32 with data of i16, if their options say so.
bool has_narrow_bias(Kind kind) {
  return kind == Kind::kConv2d || kind == Kind::kTransposeConv || kind == Kind::kFullyConnected;
}

// Whether no sum of products with data of 16 bits, and no partial sum, leaves 32 bits.
bool sums_fit(stream::Budget& budget, IntegerWeights& weights, const RecipeRef& bias, int output_axis) {
  constexpr int64_t kLargestDatum = 1 << 15, kMostSum = std::numeric_limits<int32_t>::max();
  if (!stream::is_small(*bias)) return false;
  const std::vector<int64_t>* sums = sums_of_magnitudes(budget, weights, output_axis);
  if (sums == nullptr || sums->size() != bias->elements()) return false;
  const std::vector<int64_t> offsets = stream::evaluate_ints(bias, budget);
  for (size_t i = 0; i < sums->size(); ++i)
    if ((*sums)[i] * kLargestDatum + std::abs(offsets[i]) > kMostSum) return false;
  return true;
}

// The integers minus their zero points, where 8 bits hold them all: a channel of zeros may be stored as any zero point.
// Reads the weights.
RecipeRef without_zero_points(stream::Budget& budget, const core::IntegerConstant& stored) {
  if (stored.integers->elements() == 0) return nullptr;
  stream::Shape along;
  std::vector<int> axes(stored.integers->dims.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (stored.axis >= 0) {
    along.assign(axes.size(), 1);
    along[static_cast<size_t>(stored.axis)] = static_cast<stream::Dim>(stored.zero.size());
  }
  const RecipeRef centred = recipe::binary(stream::Binary::kSub, recipe::cast(stored.integers, DType::kInt32),
                                           recipe::ints(stored.zero, DType::kInt32, std::move(along)));
  const auto extreme = [&](stream::Reduction how) {
    return stream::evaluate_ints(recipe::reduce(how, centred, axes), budget).at(0);
  };
  const bool fits = extreme(stream::Reduction::kMin) >= -kHalf && extreme(stream::Reduction::kMax) < kHalf;
  return fits ? recipe::cast(centred, DType::kInt8) : nullptr;
}

// The op's own bias as i32 at `scale`; null, with a reason, where it cannot be.
RecipeRef given_bias(Rewriter& rewriter, ValueId bias, const std::vector<float>& scale, float result,
                     std::string& reason) {
  const core::Value& value = rewriter.value(bias);
  if (!value.is_constant()) {
    reason = "the bias is computed at run time";
    return nullptr;
  }
  const auto channels = static_cast<stream::Dim>(value.constant->elements());
  const RecipeRef floats = recipe::reshape(value.constant, {channels});
  if (auto stored = core::integer_constant(floats, rewriter.graph.budget);
      stored && stored->integers->dtype == DType::kInt32 && stored->all_zero_points_are(0)) {
    const size_t count = std::max(stored->scale.size(), scale.size());
    bool is_same = true;
    for (size_t i = 0; i < count; ++i) {
      const double own = stored->scale[stored->scale.size() == 1 ? 0 : i], wanted = scale[scale.size() == 1 ? 0 : i];
      is_same = is_same && std::fabs(own - wanted) <= kSameScale * wanted;
    }
    if (is_same) return stored->integers;
  }
  if (!stream::is_small(*floats)) {
    reason = fmt::format("the bias has {} elements, too many to compare with its scale", channels);
    return nullptr;
  }
  const std::vector<double> numbers = stream::evaluate_doubles(floats, rewriter.graph.budget);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const float own = scale[scale.size() == 1 ? 0 : i];
    const bool fits = std::fabs(numbers[i] / own) < static_cast<double>(std::numeric_limits<int32_t>::max());
    const double lost = steps_lost(numbers[i], own, result);
    if (fits && lost <= kMostLost) continue;
    reason = fits ? fmt::format(
                        "element {} of the bias, {:.6g}, is rounded by {:.2g} steps of the result at the scale "
                        "{:.6g}",
                        i, numbers[i], lost, own)
                  : fmt::format("element {} of the bias, {:.6g}, does not fit 32 bits at the scale {:.6g}", i,
                                numbers[i], own);
    return nullptr;
  }
  const int axis = scale.size() == 1 ? -1 : 0;
  return recipe::quantize(floats, DType::kInt32, scale, {}, axis);
}

bool reads_four_bits(Kind kind) { return kind == Kind::kFullyConnected || kind == Kind::kConv2d; }

}  // namespace

std::optional<IntegerWeights> integer_weights(Rewriter& rewriter, const Op& op, const core::Weights& where, DType data,
                                              std::string& reason) {
  const core::Value& value = rewriter.value(op.inputs[where.weights]);
  auto stored = value.is_constant() ? core::integer_constant(value.constant, rewriter.graph.budget) : std::nullopt;
  if (!stored) {
    reason = value.is_constant()
                 ? "the weights are not stored as integers, or more is computed from these than products"
                 : "the weights are computed at run time";
    return std::nullopt;
  }
  if (!stored->all_zero_points_fit()) {
    reason = "a zero point of the weights is not a number of their type";
    return std::nullopt;
  }
  if (std::any_of(stored->scale.begin(), stored->scale.end(), [](float s) { return s != 0 && !std::isnormal(s); })) {
    reason = "a scale of the weights is subnormal, which kernels refuse";
    return std::nullopt;
  }
  const bool by_channel = stored->axis >= 0;
  if (by_channel && stored->axis != *where.output_axis) {
    reason = fmt::format("the scales of the weights are along axis {}, not along the output channels", stored->axis);
    return std::nullopt;
  }
  DType dtype = stored->integers->dtype;
  IntegerWeights out{.integers = stored->integers, .scale = stored->scale};
  if (dtype == DType::kInt4 && !(reads_four_bits(op.kind) && stored->all_zero_points_are(0) && data != DType::kInt16)) {
    out.integers = recipe::cast(out.integers, DType::kInt8);
    dtype = DType::kInt8;
  }
  if (dtype == DType::kUint4) {
    out.integers = recipe::cast(out.integers, DType::kUint8);
    dtype = DType::kUint8;
  }
  if (dtype != DType::kInt4 && dtype != DType::kInt8 && dtype != DType::kUint8) {
    reason = fmt::format("no integer kernel takes weights of {}", dtype_name(dtype));
    return std::nullopt;
  }
  const bool is_signed = dtype != DType::kUint8;
  // Of integers without a zero point that a negative factor turned.
  const int64_t turned = is_signed ? -1 : kHalf - 1;
  RecipeRef centred;
  if (stored->all_zero_points_are(is_signed ? 0 : kHalf))
    centred = is_signed ? out.integers : core::shifted_integers(out.integers, -kHalf, DType::kInt8);
  else if (by_channel || data == DType::kInt16 || stored->zero[0] == turned)
    centred = without_zero_points(rewriter.graph.budget, *stored);
  if (centred) {
    out.integers = centred;
    out.data = data == DType::kInt16 ? DType::kInt16 : DType::kInt8;
    clear_channels_of_scale_0(out, where.output_axis);
    return out;
  }
  if (by_channel) {
    const bool is_turned = std::all_of(stored->zero.begin(), stored->zero.end(),
                                       [&](int64_t z) { return z == turned || z == turned + 1; });
    reason = is_turned ? "weights of -128 are multiplied by a negative number, and no kernel takes 128"
                       : "the weights have a zero point for each channel, which no kernel takes";
    return std::nullopt;
  }
  if (data == DType::kInt16) {
    reason = "the weights have a zero point, which no kernel takes with data of 16 bits";
    return std::nullopt;
  }
  if (out.scale[0] == 0) {
    reason = "the scale of the weights is 0";
    return std::nullopt;
  }
  out.zero = is_signed ? stored->zero[0] + kHalf : stored->zero[0];
  if (is_signed) out.integers = core::shifted_integers(out.integers, kHalf, DType::kUint8);
  out.data = DType::kUint8;
  return out;
}

const std::vector<int64_t>* sums_of_magnitudes(stream::Budget& budget, IntegerWeights& weights, int output_axis) {
  constexpr uint64_t kMostSum = std::numeric_limits<int32_t>::max(), kLargestInteger = 255;
  if (weights.magnitudes) return &*weights.magnitudes;
  const stream::Shape& dims = weights.integers->dims;
  const auto channels = static_cast<uint64_t>(dims[static_cast<size_t>(output_axis)]);
  if (channels == 0 || channels > stream::kSmallElements) return nullptr;
  if (weights.integers->elements() / channels > kMostSum / kLargestInteger) return nullptr;
  std::vector<int> axes;
  for (int axis = 0; axis < static_cast<int>(dims.size()); ++axis)
    if (axis != output_axis) axes.push_back(axis);
  RecipeRef centred = recipe::cast(weights.integers, DType::kInt32);
  if (weights.zero != 0)
    centred = recipe::binary(stream::Binary::kSub, centred, recipe::fill_value(weights.zero, DType::kInt32, {}));
  weights.magnitudes = stream::evaluate_ints(
      recipe::reduce(stream::Reduction::kSum, recipe::unary(stream::Unary::kAbs, centred), axes), budget);
  return &*weights.magnitudes;
}

void choose_free_scales(Rewriter& rewriter, const Op& op, const core::Weights& where, float data, float result,
                        IntegerWeights& weights) {
  std::vector<double> biases;
  if (core::has_input(op, where.bias)) biases = rewriter.graph.numbers(op.inputs[where.bias]).value_or(biases);
  const size_t count = weights.scale.size();
  if (count > 1 && biases.size() != count) biases.clear();
  const auto are_zeros = [&](size_t i) {
    const std::vector<int64_t>* sums = sums_of_magnitudes(rewriter.graph.budget, weights, *where.output_axis);
    if (sums == nullptr) return false;
    return count > 1 ? (*sums)[i] == 0 : std::all_of(sums->begin(), sums->end(), [](int64_t sum) { return sum == 0; });
  };
  std::vector<double> most(count, 0), lost(count, 0);
  for (size_t i = 0; i < biases.size(); ++i) {
    const size_t at = count == 1 ? 0 : i;
    most[at] = std::max(most[at], std::fabs(biases[i]));
    lost[at] = std::max(lost[at], steps_lost(biases[i], data * weights.scale[at], result));
  }
  for (size_t i = 0; i < count; ++i)
    if (weights.scale[i] == 0 || (lost[i] > kMostLost && are_zeros(i)))
      weights.scale[i] = static_cast<float>(finest_weights_scale(most[i], data, result));
}

ValueId integer_bias(Rewriter& rewriter, const Op& op, const core::Weights& where, const std::vector<float>& scale,
                     float result, IntegerWeights& weights, std::string& reason) {
  std::string name;
  RecipeRef integers;
  if (core::has_input(op, where.bias)) {
    integers = given_bias(rewriter, op.inputs[where.bias], scale, result, reason);
    if (!integers) return core::kAbsent;
    name = rewriter.value(op.inputs[where.bias]).name;
  } else {
    const stream::Dim channels = weights.integers->dims[static_cast<size_t>(*where.output_axis)];
    integers = recipe::fill_value(0, DType::kInt32, {channels});
  }
  const bool is_narrow =
      weights.data != DType::kInt16 ||
      (has_narrow_bias(op.kind) && sums_fit(rewriter.graph.budget, weights, integers, *where.output_axis));
  if (!is_narrow) integers = recipe::cast(integers, DType::kInt64);
  const ValueId made = rewriter.graph.add_constant(std::move(integers), std::move(name));
  rewriter.graph.at(made).quantization = core::Quantization{scale, std::vector<int64_t>(scale.size(), 0), 0};
  rewriter.note_new_ops();
  return made;
}

}  // namespace lowtide::layout
