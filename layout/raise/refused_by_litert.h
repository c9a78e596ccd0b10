// SPDX-License-Identifier: Apache-2.0
// Models that LiteRT does not run and whose meaning is clear: they are converted, and the user is told. Operators of
// which LiteRT reads something else than what the file says.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stream/tflite/model.h"

namespace lowtide::layout {

// One note for each reason.
std::vector<std::string> refused_by_litert(const tfl::Model& model);

// Why the bias of an operator is not what LiteRT's kernel reads; nullopt: it is.
std::optional<std::string> misread_bias(const tfl::Subgraph& graph, const tfl::Operator& op);

}  // namespace lowtide::layout
