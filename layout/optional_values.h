// SPDX-License-Identifier: Apache-2.0
// Which values of a graph are optionals.
//
// The trap: the lowering takes an optional that has a tensor for that tensor (layout/lower/optional.cc). A model that
// declares it as one is another model, which ONNX Runtime refuses.
#pragma once

#include <string>
#include <unordered_set>

#include "stream/onnx/model.h"

namespace lowtide::layout {

// The names of values that the graph's nodes make, those of bodies left out. `graph`: without calls of functions.
// Throws Error(kMalformed) for a cycle.
std::unordered_set<std::string> optional_values(const onnx::Graph& graph);

}  // namespace lowtide::layout
