// SPDX-License-Identifier: Apache-2.0
#include "tools/library/json_error.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

namespace lowtide::tools {

std::string json_error(const std::exception& error) {
  if (dynamic_cast<const nlohmann::json::out_of_range*>(&error) != nullptr) return "a number in it is too large";
  // Behind "[json.exception.parse_error.101] parse error at ".
  std::string_view what = error.what();
  constexpr std::string_view kPlace = "parse error at ";
  if (const size_t place = what.find(kPlace); place != what.npos) what.remove_prefix(place + kPlace.size());
  return fmt::format("it is not JSON: {}", what);
}

}  // namespace lowtide::tools
