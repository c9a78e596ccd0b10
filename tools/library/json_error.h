// SPDX-License-Identifier: Apache-2.0
// What the JSON parser says, in the words of all readers of JSON files from users.
#pragma once

#include <exception>
#include <string>

namespace lowtide::tools {

// Of an exception of nlohmann::json: "it is not JSON: line 1, column 2: syntax error ...".
std::string json_error(const std::exception& error);

}  // namespace lowtide::tools
