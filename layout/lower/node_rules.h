// SPDX-License-Identifier: Apache-2.0
// What a node must be before its operator's lowering sees it, and what follows for its outputs. The checks throw
// Error(kMalformed) with the reason.
#pragma once

#include <vector>

#include "layout/lower/lowering.h"

namespace lowtide::layout {

// How many inputs and outputs there are, by the operator's row; no input is newer than `opset`, that of the node's
// domain.
void check_arity(const onnx::Node& node, const LowerRow& row, int64_t opset);
// No attribute is given twice.
void check_attribute_names(const onnx::Node& node);
// The inputs' types, by LowerRow::inputs. Absent ones and those of unknown type are passed over.
void check_types(const LowerRow& row, const Builder& builder, const std::vector<Val>& inputs);

// ONNX gives an output of floats the type of the first input of floats, from this one on: nearly all operators call
// both T. SIZE_MAX where the node names the output's type, or the standard does.
size_t first_typed_input(const onnx::Node& node, size_t output);

}  // namespace lowtide::layout
