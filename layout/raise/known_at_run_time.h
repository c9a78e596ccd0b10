// SPDX-License-Identifier: Apache-2.0
// How an operator is refused whose form in ONNX depends on sizes or lists that the model computes.
#pragma once

#include <string_view>

#include "layout/core/graph.h"
#include "stream/error.h"

namespace lowtide::layout {

// The refusal of an operator whose form in ONNX depends on `what` ("the size of a matrix"). Where the inputs of the
// model's main graph have open dimensions, they may be why it is not known, and the hint says what to do.
stream::Unsupported known_at_run_time(std::string_view what, const core::Model& model);

}  // namespace lowtide::layout
