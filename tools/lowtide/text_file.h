// SPDX-License-Identifier: Apache-2.0
// Small files that the program writes beside models.
#pragma once

#include <filesystem>
#include <string_view>

// Complete or not at all. Throws lowtide::stream::Error.
void write_text(const std::filesystem::path& path, std::string_view text);
