// SPDX-License-Identifier: Apache-2.0
// Several converted models in one: a signature each. Their constants that have the same bytes are found by emit.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "layout/core/graph.h"

namespace lowtide::layout {

struct Part {
  std::string signature;
  std::unique_ptr<core::Model> model;  // its graph 0 is the signature's
};

// Moves the graphs of all parts into one model, in their order. The parts must outlive it: the graphs use their
// symbols.
std::unique_ptr<core::Model> merge_models(std::vector<Part>& parts, stream::Budget& budget);

}  // namespace lowtide::layout
