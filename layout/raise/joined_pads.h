// SPDX-License-Identifier: Apache-2.0
// PADs that become the pads of the convolutions and pools behind them, which TFLite's have only as SAME gives them.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "layout/core/graph.h"

namespace lowtide::layout {

// ONNX's attribute 'pads', [before..., after...] of the spatial axes, by the result of the op that gets it.
using JoinedPads = std::map<core::ValueId, std::vector<int64_t>>;

// Image ops are in ONNX's axis order (channels_first.h). Those that get pads read what the PAD read, and the PAD is
// gone; the graph is tidy before and after.
JoinedPads join_pads(core::Graph& graph);

}  // namespace lowtide::layout
