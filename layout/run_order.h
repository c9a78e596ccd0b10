// SPDX-License-Identifier: Apache-2.0
// The order in which the runtime computes a graph. LiteRT runs operators as they stand in the file and keeps a tensor's
// memory from the operator that makes it to the last that reads it. Passes put new ops at the end, and what was not
// rewritten comes before them: the keys and values of all cross-attentions of a decoder, which depend on an input
// alone, would be computed first and all be kept.
#pragma once

#include "layout/core/graph.h"

namespace lowtide::layout {

// Orders the ops depth-first from the outputs, each right behind what it reads, if fewer bytes are kept at once then.
// The graph must be tidy, and is afterwards.
void order_for_memory(core::Graph& graph);

}  // namespace lowtide::layout
