// SPDX-License-Identifier: Apache-2.0
// Large float constants are stored in fewer bits: --weights f16, int8, int4. Recipes only: the bytes are read once
// here, for their scales, and once more when the file is written.
//
//     CONV_2D(x, W f32)  ->  CONV_2D(x, W i8 with scales)        ADD(x, T f32)  ->  ADD(x, DEQUANTIZE(T f16))
//
// The trap: what a kernel takes is not one rule (weights/kernels.h), and one constant may have several users. It is
// stored once, in a form that all of them can read, or stays as it is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layout/core/graph.h"
#include "layout/core/shrunk_weights.h"
#include "stream/onnx/model.h"
#include "stream/progress.h"

namespace lowtide::layout {

// kInPlace: weights stay in the model's own files where they can, those in f16 too.
enum class WeightForm : uint8_t { kFloat, kHalf, kInt8, kInt4, kInPlace };

struct WeightOptions {
  WeightForm form = WeightForm::kFloat;
  // Patterns as of fnmatch(3), '*' matches '/' too, for names of initializers and of nodes that use them. No `include`
  // means all weights.
  std::vector<std::string> include, exclude;
  int threads = 1;
  stream::Progress* progress = nullptr;
};

// Throws Error(kUsage) for a pattern that no weight's name matches. `onnx` is where names come from.
core::ShrunkWeights shrink_weights(core::Model& model, const onnx::Model& onnx, const WeightOptions& options);

}  // namespace lowtide::layout
