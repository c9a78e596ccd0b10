// SPDX-License-Identifier: Apache-2.0
// --costs PROFILE.json: what the pieces of an earlier division took, as `lowtide run DIR --profile --json` prints it.
#pragma once

#include <string>

#include "layout/model_units.h"

namespace lowtide::tools {

// Throws stream::Error: kNotFound, kMalformed.
layout::MeasuredWork read_measured_costs(const std::string& path);

}  // namespace lowtide::tools
