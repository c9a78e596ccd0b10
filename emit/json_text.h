// SPDX-License-Identifier: Apache-2.0
// JSON as it is printed and written: names in it come from files.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace lowtide::emit {

// Bytes that are not UTF-8 become U+FFFD; all control characters are escaped, also DEL and U+0080 to U+009F, which JSON
// allows and a terminal obeys.
std::string json_text(const nlohmann::ordered_json& json);

}  // namespace lowtide::emit
