// SPDX-License-Identifier: Apache-2.0
// Float constants as integers: weights symmetric, with a scale for each channel or one, other operands with one scale
// and zero point. Their largest magnitudes are found in one pass over their bytes; nothing else of them is kept.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "layout/quantize/known_ranges.h"
#include "stream/progress.h"

namespace lowtide::layout {

class CalibratedWeights {
 public:
  CalibratedWeights(Graph& graph, const Calibrated& calibrated, KnownConstants& constants)
      : graph_(graph), calibrated_(calibrated), constants_(constants) {}

  // Weights and constant operands of the op are measured; does nothing for others. Call it for all ops, then measure().
  void want(OpId op);
  void measure(stream::Progress* progress);
  // Why the op's constants cannot be integers; empty when they can.
  std::string reason_against(OpId op) const;

  // Of an op without weights: whether each of its constants is finite, but for masks of infinity that `needed_of` says
  // are to be saturated (see replace()).
  bool has_finite_operands(OpId op, const std::function<Interval(size_t input)>& needed_of);

  // Makes the op's constants integers with a DEQUANTIZE as a step of their recipes. `data` and `result`: the grids of
  // an op with weights; they bound the scales from below, so that the bias fits 32 bits. `needed_of`: of an operand of
  // an op without weights, the interval to whose ends other elements may be saturated.
  void replace(OpId op, const TensorGrid& data, const TensorGrid& result,
               const std::function<Interval(size_t input)>& needed_of);

  // After replace(), puts the bias on the grid of the op's sums, as quantized models have it: one step of these is less
  // than what the data lost when it was rounded, however coarse it is for the result.
  void round_bias(OpId op, const TensorGrid& data);

  // What was replaced: the floats by the new recipes.
  std::map<const stream::Recipe*, stream::RecipeRef> floats;

 private:
  using Key = std::pair<const stream::Recipe*, int>;  // a constant and the axis of its scales; -1: one scale
  struct Found {
    stream::RecipeRef recipe;
    std::vector<float> magnitudes;
  };

  int scale_axis(const Op& op) const;
  const Found* found(const Op& op, size_t input) const;
  bool has_many_channels(const Op& op) const;
  bool is_wanted(const Op& op, size_t input) const;
  void set(OpId op, size_t input, const std::vector<float>& scale, const std::vector<int64_t>& zero, DType dtype,
           int axis);

  Graph& graph_;
  const Calibrated& calibrated_;
  KnownConstants& constants_;
  std::map<Key, Found> found_;
};

}  // namespace lowtide::layout
