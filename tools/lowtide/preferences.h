// SPDX-License-Identifier: Apache-2.0
// The values of partition's --prefer.
#pragma once

#include <string>
#include <vector>

#include "layout/divide_model.h"

namespace lowtide::tools {

std::vector<std::string> preference_names();
// `name` is one of preference_names().
layout::DivideOptions::Prefer preference(const std::string& name);

}  // namespace lowtide::tools
