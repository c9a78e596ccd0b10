// SPDX-License-Identifier: Apache-2.0
// Operators with states that a TFLite model brought to ONNX, each as a call of a function (raise/stateful_function.h),
// become one node that is lowered to the builtin again. The builtin keeps its states itself, in variables, so the
// model's inputs and outputs for them go.
//
// The trap: a function of this domain may be one that Lowtide did not write. A call is taken only where its function's
// body is the one that the way back writes for the call's attributes and its operands, where its weights are constants,
// and where its states are inputs and outputs of the model that nothing else reads, with the default that LiteRT gives
// variables. Any other call is inlined as that of every function.
#pragma once

#include "stream/file/budget.h"
#include "stream/onnx/model.h"

namespace lowtide::layout {

// Of calls in the main graph. Adds a note of states that the model keeps.
void take_stateful_calls(onnx::Model& model, stream::Budget& budget);

}  // namespace lowtide::layout
