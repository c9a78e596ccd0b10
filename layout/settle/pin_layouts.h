// SPDX-License-Identifier: Apache-2.0
// --layout NAME=nhwc: an input or output of the graph gets its channels last.
#pragma once

#include <map>
#include <string>

#include "layout/core/graph.h"

namespace lowtide::layout {

// Gives the named inputs and outputs the given order by a TRANSPOSE at the input or output, which settle_layouts then
// moves or removes. "nhwc" moves axis 1 to the end (rank 3 or more); "nchw" is ONNX's order. Throws Error(kUsage) for
// an unknown name or order.
void pin_layouts(core::Graph& graph, const std::map<std::string, std::string>& layouts);

}  // namespace lowtide::layout
