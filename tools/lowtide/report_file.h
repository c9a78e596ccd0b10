// SPDX-License-Identifier: Apache-2.0
// The file of a report: JSON, or a page with the same JSON in it, or node data for Model Explorer.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "emit/packed_text.h"

namespace lowtide::tools {

enum class ReportForm { kJson, kHtml, kNodeData };

// By the end of the name: .nodes.json, .json, .html. Throws stream::Error(kUsage) for another one.
ReportForm report_form(const std::filesystem::path& path);

// Throws stream::Error when a file cannot be made there: for before the work.
void check_can_be_written(const std::filesystem::path& path);

// `values` is an object, to which "graphs" is added unless that text is empty. For kJson and kHtml. The file is
// complete or absent. Throws stream::Error.
void write_report(const std::filesystem::path& path, ReportForm form, const nlohmann::ordered_json& values,
                  const emit::PackedText& graphs);
// The text as it is.
void write_packed(const std::filesystem::path& path, const emit::PackedText& text);

}  // namespace lowtide::tools
