// SPDX-License-Identifier: Apache-2.0
// Models that LiteRT does not run and whose meaning is clear: they are converted, and the user is told.
#pragma once

#include <string>
#include <vector>

#include "stream/tflite/model.h"

namespace lowtide::layout {

// One note for each reason.
std::vector<std::string> refused_by_litert(const tfl::Model& model);

}  // namespace lowtide::layout
