// SPDX-License-Identifier: Apache-2.0
// --custom-ops and --custom-ops-map: from their texts to the nodes that become custom operators.
#pragma once

#include <string>

#include "layout/lower/custom_operators.h"

namespace lowtide::tools {

// `allowed` is "allow" or "allow=Op,domain:Op"; `map` is a file as schemas/custom_ops_map.schema.json says; both may be
// empty. Throws Error(kUsage), Error(kMalformed) with the place in the file, and the errors of reading it.
layout::CustomChoice custom_choice(const std::string& allowed, const std::string& map);

}  // namespace lowtide::tools
