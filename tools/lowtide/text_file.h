// SPDX-License-Identifier: Apache-2.0
// Text files that the program writes, such as reports.
#pragma once

#include <filesystem>
#include <string_view>

namespace lowtide::tools {

// The file is complete or absent. Throws stream::Error.
void write_text(const std::filesystem::path& path, std::string_view text);

}  // namespace lowtide::tools
