// SPDX-License-Identifier: Apache-2.0
// The values of --weights.
#pragma once

#include <string>
#include <vector>

#include "layout/weights/shrink_weights.h"

namespace lowtide::tools {

std::vector<std::string> weight_modes();
// `mode` is one of weight_modes().
layout::WeightForm weight_form(const std::string& mode);
// True where weights get fewer bits than the model gives them.
bool shrinks(layout::WeightForm form);

}  // namespace lowtide::tools
