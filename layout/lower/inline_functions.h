// SPDX-License-Identifier: Apache-2.0
// Calls of a model's own functions are replaced by the functions' bodies, before anything is lowered.
//
// The trap: a function has opset imports of its own, so after inlining the version of a node is no longer the model's:
// each node of a body carries the version that its function imports (onnx::Node::opset).
#pragma once

#include "stream/onnx/model.h"

namespace lowtide::layout {

// The model without functions. Values inside a body get names that are new in the model: "call/value". A body's
// attribute that refers to one of the call's takes its value, else the function's default, else it is absent. A model's
// own function goes before an operator of the same name, as in ONNX Runtime. Throws Error(kMalformed) when functions
// call each other in a circle or too deeply, expand without measure, or when a call does not fit its function.
onnx::Model inline_functions(const onnx::Model& model);

}  // namespace lowtide::layout
