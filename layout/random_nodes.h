// SPDX-License-Identifier: Apache-2.0
// Which nodes of a model may give other numbers when they run again: a second copy of such a node has other results.
#pragma once

#include <vector>

#include "stream/onnx/model.h"

namespace lowtide::layout {

// Of each node of the main graph. Random are the operators of ONNX that are, Dropout where training is not known to be
// off, and operators of domains that are not known here; and each node with one of these in a body or in the function
// that it calls.
std::vector<bool> random_nodes(const onnx::Model& model);

}  // namespace lowtide::layout
