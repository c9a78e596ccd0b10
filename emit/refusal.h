// SPDX-License-Identifier: Apache-2.0
// The nodes of a model that cannot be converted, for people and for programs (schemas/report.schema.json).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "stream/error.h"

namespace lowtide::emit {

// Thrown by the tools where the model has such nodes.
struct Refusal {
  std::string input;                       // the model's path
  std::vector<stream::Unsupported> nodes;  // all that were found
  // Nodes that could not be judged, because an input of theirs is the result of a refused node: `node` and `op` are
  // set.
  std::vector<stream::Where> not_judged;
  bool in_floats = false;  // they are operators that are computed in floats, which --require-integer refuses
};

// A single node is one line, as any other error. Of several the first line says how many; below it are the nodes
// grouped by operator and reason, the largest group first, with ten names of each. Nodes that could not be judged come
// last. Each line ends with a newline.
std::string refusal_text(const Refusal& refusal);
// The fields of a report (schemas/report.schema.json), with all nodes.
nlohmann::ordered_json refusal_values(const Refusal& refusal);
nlohmann::ordered_json refused_nodes(const Refusal& refusal);

}  // namespace lowtide::emit
