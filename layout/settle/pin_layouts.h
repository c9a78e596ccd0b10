// SPDX-License-Identifier: Apache-2.0
// --layout NAME=nhwc: the user wants an input or output of the graph with its channels last.
#pragma once

#include <map>
#include <string>

#include "layout/core/graph.h"

namespace lowtide::layout {

// Gives the named inputs and outputs the asked order by a TRANSPOSE at the graph's border, which settle_layouts then
// moves or removes. "nhwc" puts axis 1 last (any rank from 3); "nchw" is ONNX's own order. Throws Error(kUsage) for an
// unknown name or order.
void pin_layouts(core::Graph& graph, const std::map<std::string, std::string>& layouts);

}  // namespace lowtide::layout
