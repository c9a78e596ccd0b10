// SPDX-License-Identifier: Apache-2.0
// Shapes of the model's inputs: what the file declares, and what --shape sets.
#pragma once

#include <map>
#include <string>

#include "layout/core/graph.h"
#include "stream/onnx/model.h"

namespace lowtide::layout {

inline bool is_half(core::DType dtype) { return dtype == core::DType::kFloat16 || dtype == core::DType::kBFloat16; }

// Before IR version 4 initializers are listed as inputs too. Throws Error(kMalformed) where the type or shape in that
// list is not the initializer's.
void check_listed(const onnx::ValueInfo& info, const core::Value& initializer);

// Throws Error(kMalformed) for an input without a type, Error(kUnsupported) for one that is not a numeric tensor.
void check_is_numeric(const onnx::ValueInfo& info);

// The shape of an input that `shapes` (by name) may override. A dimension without a number becomes the symbol of its
// name, or one of its own. Throws Error(kUsage) where `shapes` contradicts the file (axis 0 may become another batch),
// Error(kUnsupported) for an input without a shape.
core::Shape input_shape(const onnx::ValueInfo& info, const std::map<std::string, core::Shape>& shapes,
                        core::Symbols& symbols);

// Throws Error(kUnsupported) for extents that do not fit 32 bits, so that what is computed from extents of inputs does
// not overflow.
void check_extents(const std::string& input, const core::Shape& shape);

}  // namespace lowtide::layout
