// SPDX-License-Identifier: Apache-2.0
// --value NAME=f32[1,n,?]: the type of a value that a model does not declare.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "stream/onnx/model.h"

namespace lowtide::tools {

// Dimensions are extents, names, or ? for unknown ones. Throws stream::Error(kUsage).
std::map<std::string, onnx::ValueInfo> declared_values(const std::vector<std::string>& texts);

}  // namespace lowtide::tools
