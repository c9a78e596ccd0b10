// SPDX-License-Identifier: Apache-2.0
// Draws DEQUANTIZE -> op -> QUANTIZE together into ops on integers, where LiteRT has a kernel that is right for the
// model's scales and zero points, which stay as they are. What has none stays float between a DEQUANTIZE and a
// QUANTIZE.
#pragma once

#include <functional>
#include <vector>

#include "layout/core/graph.h"
#include "layout/core/integer_report.h"
#include "layout/quantize/place_grids.h"
#include "stream/error.h"

namespace lowtide::layout {

// Run when axis orders are settled and ops are fused. `is_main`: the inputs and outputs are those of the model, and may
// get scales. Adds to the report. `tables`: functions without a kernel become tables (tables.h).
void quantize(core::Graph& graph, bool is_main, core::IntegerReport& report, bool tables = false);

// The main graph of a model that calibration quantizes: place_grids() and the same rules. Where kernels refuse scales,
// grids are placed again with those ops in floats, so that nothing between two of them is rounded. Every op in floats
// is reported, not only those whose data comes from integers, and reads its floats again. `after_placing` is called
// each time. Values keep their numbers: the result is about the graph as it is then.
PlacedGrids quantize_calibrated(core::Graph& graph, const Calibrated& calibrated, core::IntegerReport& report,
                                bool tables, stream::Progress* progress, const std::function<void()>& after_placing);

// Throws Error(kInternal) where a pass lost a scale: LiteRT would compute with a scale of 0, and be wrong without an
// error. Of QUANTIZE and DEQUANTIZE every integer tensor has a scale; ops that only choose or move elements have one
// grid for data and result, or none.
void check_grids(const core::Graph& graph);

// For models that must be computed in integers: every op that reads or gives floats, with the reason, but for QUANTIZE
// of the model's inputs and DEQUANTIZE to its outputs. `placed` may be null.
std::vector<stream::Unsupported> float_operators(core::Graph& graph, const PlacedGrids* placed = nullptr);

}  // namespace lowtide::layout
