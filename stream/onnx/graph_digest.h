// SPDX-License-Identifier: Apache-2.0
// The digest by which a ranges file names the model that it is for (docs/ranges-file.md says of which fields).
#pragma once

#include <string>

#include "stream/onnx/model.h"

namespace lowtide::onnx {

// 16 hexadecimal digits: FNV-1a of 64 bits over nodes, names and shapes of the main graph, as they are in the file;
// weights are not read. tools/python/lowtide/onnx_graph.py computes the same.
std::string graph_digest(const Graph& graph);

}  // namespace lowtide::onnx
