// SPDX-License-Identifier: Apache-2.0
// How large float constants are stored (--weights): in the type in which the ONNX model stores them, or in fewer bits.
// Recipes only: bytes are read here only where scales are needed, and once more when the file is written.
//
//     CONV_2D(x, W f32)  ->  CONV_2D(x, W i8 with scales)        ADD(x, T f32)  ->  ADD(x, DEQUANTIZE(T f16))
//
// The trap: which types an operand may have differs from kernel to kernel (weights/kernels.h), and one constant may
// have several users. It is stored once, in a form that all of them can read, or else as f32.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layout/core/graph.h"
#include "layout/core/shrunk_weights.h"
#include "stream/onnx/model.h"
#include "stream/progress.h"

namespace lowtide::layout {

enum class WeightForm : uint8_t {
  kStored,   // f16 where the model has f16 and nothing changes the elements, else f32
  kFloat,    // f32
  kHalf,     // f16
  kInt8,     // i8 with scales where a kernel reads them, else as kStored
  kInt4,     // i4 or i8 with scales where a kernel reads them, else as kStored
  kInPlace,  // as kStored, and the bytes stay in the model's own files where they can
};

struct WeightOptions {
  WeightForm form = WeightForm::kStored;
  // For kHalf, kInt8 and kInt4: patterns as of fnmatch(3) ('*' matches '/' too) for names of initializers and of nodes
  // that use them. No `include` means all weights. What is excluded is stored as with kStored.
  std::vector<std::string> include, exclude;
  int threads = 1;
  stream::Progress* progress = nullptr;
};

// Throws Error(kUsage) for a pattern that matches no weight's name. `onnx` is where names come from; it may be empty
// when there are no patterns.
core::ShrunkWeights shrink_weights(core::Model& model, const onnx::Model& onnx, const WeightOptions& options);

}  // namespace lowtide::layout
