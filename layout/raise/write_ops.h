// SPDX-License-Identifier: Apache-2.0
// Writes the ops of a graph as ONNX nodes, by the table (table.h).
#pragma once

#include "layout/raise/raising.h"

namespace lowtide::layout {

// What is refused is added to RaisedModel::refused, with the operator's place in the file.
void write_ops(OnnxGraph& target);

// The type of a value as ONNX writes it, for an input or output of this name.
onnx::ValueInfo port_of(const core::Graph& graph, ValueId id, const std::string& name);

}  // namespace lowtide::layout
