// SPDX-License-Identifier: Apache-2.0
// The trap: a channel of tiny weights and an ordinary bias, which trained networks have many of. At the scale of its
// own weights the bias would not fit 32 bits, so the scale gets a lower bound.
#include "layout/quantize/calibrated_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "layout/core/builtin.h"
#include "layout/core/integer_constant.h"
#include "layout/quantize/conditions.h"
#include "stream/recipe/magnitude.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::layout {
namespace {

namespace recipe = stream::recipe;

constexpr double kMostWeight = 127;  // of i8, symmetric

// Lists of scales are kept in memory. Vocabularies of language models, the widest layers there are, have a quarter of
// it.
constexpr uint64_t kMostChannels = uint64_t{1} << 20;

bool is_float_constant(const core::Value& value) { return value.is_constant() && value.dtype == DType::kFloat32; }

// The model's own integers, as models of quantized weights have them, are kept.
bool has_usable_integers(const core::Value& value, stream::Budget& budget) {
  if (std::holds_alternative<stream::step::Fill>(value.constant->step)) return false;
  const auto stored = core::integer_constant(value.constant, budget);
  return stored && stored->integers->dtype == DType::kInt8 && stored->all_zero_points_are(0);
}

}  // namespace

int CalibratedWeights::scale_axis(const Op& op) const {
  const core::Weights* where = core::weights_of(op.kind);
  return where != nullptr && !calibrated_.per_tensor ? *where->output_axis : -1;
}

bool CalibratedWeights::has_many_channels(const Op& op) const {
  const core::Weights* where = core::weights_of(op.kind);
  if (where == nullptr || calibrated_.per_tensor) return false;
  const core::Shape& shape = graph_.at(op.inputs[*where->weights]).shape;
  return static_cast<uint64_t>(shape[static_cast<size_t>(*where->output_axis)]) > kMostChannels;
}

bool CalibratedWeights::is_wanted(const Op& op, size_t input) const {
  if (!core::has_input(op, input) || !is_float_constant(graph_.at(op.inputs[input])) || has_many_channels(op))
    return false;
  if (const core::Weights* where = core::weights_of(op.kind))
    return input == *where->weights && !has_usable_integers(graph_.at(op.inputs[input]), graph_.budget);
  return !chooses(op) && is_data_input(op, input);
}

void CalibratedWeights::want(OpId id) {
  const Op& op = graph_.ops[static_cast<size_t>(id)];
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!is_wanted(op, i)) continue;
    const stream::RecipeRef& recipe = graph_.at(op.inputs[i]).constant;
    found_.try_emplace({recipe.get(), scale_axis(op)}, Found{recipe, {}});
  }
}

void CalibratedWeights::measure(stream::Progress* progress) {
  std::vector<stream::Magnitude> measured;
  for (const auto& [key, found] : found_) measured.push_back({.input = found.recipe, .axis = key.second, .found = {}});
  if (measured.empty()) return;
  stream::measure(measured, graph_.budget, calibrated_.threads, progress);
  size_t i = 0;
  for (auto& [key, found] : found_) found.magnitudes = std::move(measured[i++].found);
}

const CalibratedWeights::Found* CalibratedWeights::found(const Op& op, size_t input) const {
  const auto it = found_.find({graph_.at(op.inputs[input]).constant.get(), scale_axis(op)});
  return it == found_.end() ? nullptr : &it->second;
}

std::string CalibratedWeights::reason_against(OpId id) const {
  const Op& op = graph_.ops[static_cast<size_t>(id)];
  if (const core::Weights* where = core::weights_of(op.kind)) {
    if (!graph_.at(op.inputs[*where->weights]).is_constant()) return "the weights are computed at run time";
    if (has_many_channels(op)) return "the weights have too many channels for lists of scales";
    if (core::has_input(op, *where->bias)) {
      const core::Value& bias = graph_.at(op.inputs[*where->bias]);
      if (!bias.is_constant()) return "the bias is computed at run time";
      if (!stream::is_small(*bias.constant)) return "the bias has too many elements";
    }
    if (is_wanted(op, *where->weights))
      for (const float magnitude : found(op, *where->weights)->magnitudes)
        if (!std::isfinite(magnitude)) return "its weights have infinite or NaN elements";
  }
  return {};
}

bool CalibratedWeights::has_finite_operands(OpId id, const std::function<Interval(size_t input)>& needed_of) {
  const Op& op = graph_.ops[static_cast<size_t>(id)];
  if (core::weights_of(op.kind) != nullptr) return true;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!is_wanted(op, i) || std::isfinite(found(op, i)->magnitudes[0])) continue;
    const auto& all = constants_.of(op.inputs[i]).all;
    if (!all) return false;  // NaN
    const Interval needed = needed_of(i);
    if (std::isinf(all->low) && !std::isfinite(needed.low)) return false;
    if (std::isinf(all->high) && !std::isfinite(needed.high)) return false;
  }
  return true;
}

void CalibratedWeights::replace(OpId id, const TensorGrid& data, const TensorGrid& result,
                                const std::function<Interval(size_t input)>& needed_of) {
  const Op op = graph_.ops[static_cast<size_t>(id)];
  const core::Weights* where = core::weights_of(op.kind);
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!is_wanted(op, i)) continue;
    const std::vector<float>& magnitudes = found(op, i)->magnitudes;
    if (where == nullptr) {
      const double most = magnitudes[0];
      const auto range = constant_range(graph_, op.inputs[i], nullptr);
      Interval interval = range ? *range : Interval{-most, most};
      const Interval needed = needed_of(i);
      const bool is_far = needed.low > interval.low + kLeastGap || needed.high < interval.high - kLeastGap;
      if (is_far || !std::isfinite(most)) {
        // Masks; the largest magnitude is that of one.
        if (const auto& all = constants_.of(op.inputs[i]).all) interval = unite(*all, {});
        interval = {std::min(0.0, std::max(interval.low, needed.low)),
                    std::max(0.0, std::min(interval.high, needed.high))};
      }
      const TensorGrid grid = grid_over(interval, data.dtype);
      set(id, i, {grid.scale}, {grid.zero}, grid.dtype, -1);
      continue;
    }
    std::vector<double> biases;
    if (core::has_input(op, *where->bias)) biases = *graph_.numbers(op.inputs[*where->bias]);
    std::vector<float> scale;
    for (size_t channel = 0; channel < magnitudes.size(); ++channel) {
      double bias = 0;
      if (magnitudes.size() == biases.size())
        bias = biases[channel];
      else
        for (const double each : biases) bias = std::max(bias, std::fabs(each));
      const double own =
          std::max(magnitudes[channel] / kMostWeight, finest_weights_scale(bias, data.scale, result.scale));
      scale.push_back(static_cast<float>(own));
    }
    const int axis = scale.size() == 1 ? -1 : scale_axis(op);
    set(id, i, scale, {}, DType::kInt8, axis);
  }
}

void CalibratedWeights::round_bias(OpId id, const TensorGrid& data) {
  const Op op = graph_.ops[static_cast<size_t>(id)];
  const core::Weights* where = core::weights_of(op.kind);
  if (where == nullptr || !core::has_input(op, *where->bias)) return;
  const stream::RecipeRef& floats_of_weights = graph_.at(op.inputs[*where->weights]).constant;
  const auto known = graph_.numbers(op.inputs[*where->bias]);
  if (!floats_of_weights || !known) return;
  const auto weights = core::integer_constant(floats_of_weights, graph_.budget);
  const std::vector<double>& biases = *known;
  if (!weights || (weights->scale.size() > 1 && weights->scale.size() != biases.size())) return;
  std::vector<float> scale;
  for (const float own : weights->scale) scale.push_back(data.scale * own);
  for (size_t i = 0; i < biases.size(); ++i)
    if (!(std::fabs(biases[i]) / scale[scale.size() == 1 ? 0 : i] < std::numeric_limits<int32_t>::max())) return;
  set(id, *where->bias, scale, {}, DType::kInt32, scale.size() == 1 ? -1 : 0);
}

void CalibratedWeights::set(OpId id, size_t input, const std::vector<float>& scale, const std::vector<int64_t>& zero,
                            DType dtype, int axis) {
  const core::Value& value = graph_.at(graph_.ops[static_cast<size_t>(id)].inputs[input]);
  const stream::RecipeRef before = value.constant;
  std::string name = value.name;
  const stream::RecipeRef after =
      recipe::dequantize(recipe::quantize(before, dtype, scale, zero, axis), scale, zero, axis);
  const auto known = floats.find(before.get());
  floats.emplace(after.get(), known == floats.end() ? before : known->second);
  const ValueId made = graph_.add_constant(after, std::move(name));
  graph_.ops[static_cast<size_t>(id)].inputs[input] = made;
}

}  // namespace lowtide::layout
