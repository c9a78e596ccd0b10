// SPDX-License-Identifier: Apache-2.0
// Replaces calls of the model's own functions by the functions' bodies, before anything is lowered.
//
// The trap: a function has its own opset imports, so after inlining the nodes of one graph may have different opsets:
// each node of a body has the version that its function imports (onnx::Node::opset).
#pragma once

#include "stream/onnx/model.h"

namespace lowtide::layout {

// The model without functions. Values of a body get names that are new in the model: "call/value". An attribute in a
// body that refers to an attribute of the call has the call's value, else the function's default, else it is absent. A
// function of the model takes precedence over an operator of the same name, as in ONNX Runtime. Throws
// Error(kMalformed) when functions call each other in a cycle or too deeply, expand to too many nodes, or when a call
// does not fit its function.
onnx::Model inline_functions(const onnx::Model& model);

}  // namespace lowtide::layout
