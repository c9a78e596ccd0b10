// SPDX-License-Identifier: Apache-2.0
// TFLite's image ops work on NHWC, ONNX's on NCHW. Each becomes TRANSPOSE, CHANNELS_FIRST, TRANSPOSE, with its weights
// in ONNX's order; settle_layouts then decides where transposes stay.
#pragma once

#include <map>
#include <span>
#include <string>

#include "layout/core/graph.h"
#include "layout/raise/import_values.h"

namespace lowtide::layout {

void to_channels_first(core::Graph& graph);

// Makes one TRANSPOSE of several in a row, and none where they cancel each other out: those of the model stand beside
// ours.
void merge_transposes(core::Graph& graph);

// Inputs and outputs, by name, that get ONNX's order where the value is "nchw"; "nhwc" leaves them as they are. A state
// is turned as a whole: its input, its first value and the output that is the next run's input. Throws Error(kUsage).
void pin_channels_first(core::Graph& graph, const std::map<std::string, std::string>& layouts,
                        std::span<RaisedState> states);

}  // namespace lowtide::layout
