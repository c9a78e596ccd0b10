// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/for_target.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tools/lowtide/json_reader.h"
#include "tools/lowtide/shipped_targets.h"

namespace lowtide::tools {
namespace {

class KindReader : private JsonReader {
 public:
  explicit KindReader(std::string file) : JsonReader(std::move(file)) {}
  bool is_of_nodes(const std::string& text) const {
    const nlohmann::json whole = parsed(text);
    return whole.is_object() && whole.contains("format") && whole["format"] == "lowtide-target";
  }
};

}  // namespace

ForTarget read_for_target(const std::string& name_or_path) {
  std::vector<ShippedTarget> all;
  for (const auto& shipped : {shipped_builtin_targets(), shipped_targets()})
    all.insert(all.end(), shipped.begin(), shipped.end());
  const std::string text = text_of_target("--for", name_or_path, all);
  if (KindReader(name_or_path).is_of_nodes(text)) return read_target(name_or_path);
  return read_builtin_target(name_or_path);
}

}  // namespace lowtide::tools
