// SPDX-License-Identifier: Apache-2.0
// The sums are recipes over the weights, which stream by; only the sums themselves are kept.
//
// Not for TRANSPOSE_CONV: how many of its taps meet an element of the data depends on the place.
// Source of the method: Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", 2019.
#include "layout/quantize/bias_correction.h"

#include <cmath>
#include <cstring>
#include <optional>

#include "layout/core/builtin.h"
#include "layout/quantize/known_ranges.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::layout {
namespace {

namespace recipe = stream::recipe;
using stream::Dim;
using stream::RecipeRef;
using stream::Shape;

// The means of the data's channels as they meet the weights; absent for kernels that are not corrected.
struct MeanOperand {
  size_t channels;  // of the data
  Shape listed;     // of the list of means,
  Shape repeated;   // repeated for the results that the same channels make,
  Shape along;      // and as an operand of the weights
};

std::optional<MeanOperand> operand_of(const Op& op, const Shape& data, const Shape& weights) {
  if (data.empty() || core::is_symbol(data.back())) return std::nullopt;
  const Dim channels = data.back();
  switch (op.kind) {
    case Kind::kFullyConnected:
      if (weights[1] != channels) return std::nullopt;  // several axes are one there
      return MeanOperand{static_cast<size_t>(channels), {1, channels}, {1, channels}, {1, channels}};
    case Kind::kDepthwiseConv2d: {
      const Dim results = weights[3];
      if (channels == 0 || results % channels != 0) return std::nullopt;
      return MeanOperand{
          static_cast<size_t>(channels), {channels, 1}, {channels, results / channels}, {1, 1, 1, results}};
    }
    case Kind::kConv2d: {
      const Dim results = weights[0], own = weights[3];
      if (own == 0 || channels % own != 0 || results % (channels / own) != 0) return std::nullopt;
      const Dim groups = channels / own;
      return MeanOperand{
          static_cast<size_t>(channels), {groups, 1, own}, {groups, results / groups, own}, {results, 1, 1, own}};
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

// The tensor whose means the data has.
const CalibratedTensor* BiasCorrection::tensor_of(ValueId data, size_t channels) const {
  for (;;) {
    if (const CalibratedTensor* tensor = calibrated_tensor(graph_, calibrated_, data))
      return tensor->channel_means.size() == channels ? tensor : nullptr;
    const core::OpId producer = graph_.at(data).producer;
    if (producer < 0) return nullptr;
    // The border of an image is a small part of it.
    const Op& op = graph_.ops[static_cast<size_t>(producer)];
    if (op.kind != Kind::kPad && !core::only_arranges_axes(graph_, op)) return nullptr;
    data = op.inputs[0];
  }
}

void BiasCorrection::correct(OpId id) {
  Op& op = graph_.ops[static_cast<size_t>(id)];
  const core::Weights* where = core::weights_of(op.kind);
  if (where == nullptr) return;
  const core::Value& weights = graph_.at(op.inputs[*where->weights]);
  const auto floats = floats_.find(weights.constant.get());
  if (floats == floats_.end()) return;
  // The sums and the list of biases are kept in memory.
  const auto count = static_cast<size_t>(weights.shape[static_cast<size_t>(*where->output_axis)]);
  if (count > stream::kSmallElements) return;
  const auto operand = operand_of(op, graph_.at(op.inputs[*where->data]).shape, weights.shape);
  const CalibratedTensor* data = operand ? tensor_of(op.inputs[*where->data], operand->channels) : nullptr;
  if (data == nullptr) return;

  auto weighted = [&](const RecipeRef& by, const std::vector<float>& channels) {
    const RecipeRef along = recipe::reshape(
        recipe::broadcast(recipe::floats(channels, operand->listed), operand->repeated), operand->along);
    return recipe::binary(stream::Binary::kMul, by, along);
  };
  RecipeRef added =
      weighted(recipe::binary(stream::Binary::kSub, weights.constant, floats->second), data->channel_means);
  if (!data->channel_shifts.empty())
    added = recipe::binary(stream::Binary::kAdd, added, weighted(weights.constant, data->channel_shifts));
  std::vector<int> axes;
  for (int axis = 0; axis < weights.rank(); ++axis)
    if (axis != *where->output_axis) axes.push_back(axis);
  const RecipeRef sums = recipe::reduce(stream::Reduction::kSum, added, axes);
  const std::vector<std::byte> bytes = stream::evaluate(sums, graph_.budget);
  std::vector<float> bias(count, 0);
  std::memcpy(bias.data(), bytes.data(), count * sizeof(float));

  RecipeRef before = recipe::fill_value(0, DType::kFloat32, {static_cast<Dim>(count)});
  std::string name;
  std::optional<std::vector<double>> numbers;
  if (core::has_input(op, *where->bias)) {
    const core::Value& value = graph_.at(op.inputs[*where->bias]);
    before = value.constant;
    name = value.name;
    numbers = graph_.numbers(op.inputs[*where->bias]);
    if (!numbers || numbers->size() != count) return;
  }
  for (size_t i = 0; i < count; ++i) {
    bias[i] = static_cast<float>((numbers ? (*numbers)[i] : 0.0) - bias[i]);
    if (!std::isfinite(bias[i])) return;
  }
  const RecipeRef after = recipe::floats(bias, {static_cast<Dim>(count)});
  floats_.emplace(after.get(), before);
  const ValueId made = graph_.add_constant(after, std::move(name));
  Op& corrected = graph_.ops[static_cast<size_t>(id)];
  if (corrected.inputs.size() <= *where->bias) corrected.inputs.resize(*where->bias + 1, core::kAbsent);
  corrected.inputs[*where->bias] = made;
}

}  // namespace lowtide::layout
