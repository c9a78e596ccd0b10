// SPDX-License-Identifier: Apache-2.0
// The page of a report: tools/lowtide/report/ in one file, which the build makes (embed.cmake). The JSON of the report
// stands between both parts.
#pragma once

#include <string_view>

namespace lowtide::tools {

extern const std::string_view kPageHead;
extern const std::string_view kPageTail;

}  // namespace lowtide::tools
