// SPDX-License-Identifier: Apache-2.0
// What `lowtide partition` prints of a divided model.
#pragma once

#include <string>

#include "layout/divide_model.h"

namespace lowtide::tools {

// A line for each piece, and what has to be declared so that more can be in TFLite. `in_full`: also why nodes are not
// in TFLite, grouped by operator and reason, and the paths that prove that fewer pieces are impossible.
std::string partition_table(const layout::DividedModel& divided, const std::string& model, const std::string& target,
                            bool in_full);

}  // namespace lowtide::tools
