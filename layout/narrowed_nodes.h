// SPDX-License-Identifier: Apache-2.0
// Which nodes are computed in fewer bits than the model says: no kernel takes f64, and some take no i64.
#pragma once

#include <vector>

#include "layout/core/graph.h"
#include "layout/core/narrowed_node.h"
#include "layout/legalise/legalise.h"
#include "stream/error.h"

namespace lowtide::layout {

// The nodes of one graph, once each, in the order of the graph's origins: those whose types legalise() changed, and
// those that were lowered in f32 although their data is f64. A Cast that the model asks for is none.
std::vector<core::NarrowedNode> narrowed_nodes(const core::Model& model, const core::Graph& graph,
                                               const NarrowedTypes& changed);

// One refusal for each, for --strict-types.
std::vector<stream::Unsupported> refused_for_their_types(const std::vector<core::NarrowedNode>& nodes);

}  // namespace lowtide::layout
