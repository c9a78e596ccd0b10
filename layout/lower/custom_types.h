// SPDX-License-Identifier: Apache-2.0
// Element types by the names that the options of custom operators and mappings give them: "float32", "int64", "bool".
#pragma once

#include <optional>
#include <string_view>

#include "stream/dtype.h"

namespace lowtide::layout {

std::string_view custom_type_name(stream::DType dtype);  // "undefined" where there is none
std::optional<stream::DType> custom_type(std::string_view name);

}  // namespace lowtide::layout
