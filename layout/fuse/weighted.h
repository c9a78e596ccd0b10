// SPDX-License-Identifier: Apache-2.0
// The inputs of ops with weights, for the rules that fold ops into weights.
#pragma once

#include <optional>

#include "layout/core/graph.h"

namespace lowtide::layout {

struct Weighted {
  size_t weights, bias;  // input slots
  int channel_axis;      // of the weights: that of the output channels
  core::Activation activation;
};

// nullopt for ops without weights.
std::optional<Weighted> weighted(const core::Op& op, int weights_rank);

}  // namespace lowtide::layout
