// SPDX-License-Identifier: Apache-2.0
// Small files that the program writes beside models.
#pragma once

#include <filesystem>
#include <string_view>

namespace lowtide::tools {

// Complete or not at all. Throws stream::Error.
void write_text(const std::filesystem::path& path, std::string_view text);

}  // namespace lowtide::tools
