// SPDX-License-Identifier: Apache-2.0
// Weights and biases of integer kernels, from the model's own integers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "layout/core/builtin.h"
#include "layout/quantize/grid.h"

namespace lowtide::layout {

// Weights as an integer kernel reads them.
struct IntegerWeights {
  DType data = DType::kUndefined;                  // the type of activations that the kernel needs with them
  stream::RecipeRef integers;                      // i8, u8 or i4
  std::vector<float> scale;                        // one, or one for each output channel; 0 for channels of zeros
  int64_t zero = 0;                                // not 0 for u8 only
  std::optional<std::vector<int64_t>> magnitudes;  // what sums_of_magnitudes() found
};

// Forms of an op's weights for activations of type `data`: i8 weights without zero point, by channel or by tensor, for
// i8 and i16 data; u8 by tensor for u8 data. On failure `reason` tells why.
std::optional<IntegerWeights> integer_weights(Rewriter& rewriter, const Op& op, const core::Weights& where, DType data,
                                              std::string& reason);

// For each output channel the sum of the magnitudes of its integers, less the zero point: the largest sum of products
// with a datum of 1. Reads the weights once, and keeps the sums. Null where they are too many, or may not fit 32 bits.
const std::vector<int64_t>* sums_of_magnitudes(stream::Budget& budget, IntegerWeights& weights, int output_axis);

// Any scale is right for a channel of zeros, but kernels refuse 0, and a coarse one rounds the bias: channels of scale
// 0, and those that would lose more of their bias than integer_bias() allows, get the finest. `data` and `result`: the
// scales of both.
void choose_free_scales(Rewriter& rewriter, const Op& op, const core::Weights& where, float data, float result,
                        IntegerWeights& weights);

// The bias, zeros where the op has none, as integers at `scale` (one, or one for each channel): i32, and for i16 data
// i64, but i32 where all sums with `weights` fit 32 bits and the kernel has that form: it rounds better. On failure
// kAbsent and a reason, also where `scale` is so coarse that rounding changes the result, whose scale is `result`, by
// more than half a step.
ValueId integer_bias(Rewriter& rewriter, const Op& op, const core::Weights& where, const std::vector<float>& scale,
                     float result, IntegerWeights& weights, std::string& reason);

}  // namespace lowtide::layout
