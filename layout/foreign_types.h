// SPDX-License-Identifier: Apache-2.0
// The types of what nodes make that have no lowering: operators of ai.onnx.ml and com.microsoft, of strings, sequences,
// and of element types that TFLite lacks. A division needs them, because what stands behind such a node is lowered as
// if the node's results were inputs of the model.
//
// Sources: the operators' definitions in ONNX (docs/Operators.md, docs/Operators-ml.md) and in ONNX Runtime
// (docs/ContribOperators.md). A type that is wrong here would be found when the pieces run: the runner compares.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "stream/onnx/model.h"

namespace lowtide::layout {

// The type of a value, or null where it is not known. Strings have types too.
using TypeOf = std::function<const onnx::ValueInfo*(const std::string& value)>;

// For each output of the node what is known of its type: kNone where nothing is. Unknown extents are -1. A shape is
// given only where the rank is certain. Of a sequence (kSequence) dtype and dims are those of all its elements.
std::vector<onnx::ValueInfo> foreign_types(const onnx::Node& node, const TypeOf& type_of);

}  // namespace lowtide::layout
