// SPDX-License-Identifier: Apache-2.0
// The model's outputs: their types, and the extents that the file declares of them.
#pragma once

#include <map>

#include "layout/lower/lowering.h"
#include "stream/onnx/model.h"

namespace lowtide::layout {

// An output in the type that the model gives it: halves are computed as f32 (graph_inputs.h).
Val as_declared(Builder& builder, Val v, const onnx::ValueInfo& info);

// Adds the extents that the model declares of an output to those that are known only at run time and do not follow
// from the graph's inputs. (Where they do, a declaration is often left over from before the inputs were changed.)
void note_declared_extents(const core::Graph& graph, Val v, const onnx::ValueInfo& info,
                           std::map<core::Dim, core::Dim>& extents);

}  // namespace lowtide::layout
