// SPDX-License-Identifier: Apache-2.0
// Refuses models that no input can run: dimensions that are known only at run time, behind a RESHAPE for instance, of
// which operators require numbers that contradict each other.
#pragma once

#include "layout/core/graph.h"

namespace lowtide::layout {

// For the main graph, whose operators all run; those of branches and loops' bodies may never run. Throws
// stream::Error(kMalformed) with the node and both numbers. A model that may run is never refused.
void check_run_time_dims(core::Graph& graph);

}  // namespace lowtide::layout
