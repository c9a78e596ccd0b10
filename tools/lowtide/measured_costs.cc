// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/measured_costs.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "tools/lowtide/json_reader.h"

namespace lowtide::tools {
namespace {

using nlohmann::json;

constexpr uint64_t kMostBytes = uint64_t{64} << 20;
constexpr double kPicosecondsInSecond = 1e12;
constexpr double kMostSeconds = 1e6;

class CostsReader : private JsonReader {
 public:
  explicit CostsReader(std::string file) : JsonReader(std::move(file)) {}

  layout::MeasuredWork read(const std::string& text) const {
    const json whole = parsed(text);
    if (!whole.is_object() || !whole.contains("pieces") || !whole["pieces"].is_array())
      fail("it has no list 'pieces': it should be what lowtide run DIR --profile --json prints");
    layout::MeasuredWork out;
    for (const json& piece : whole["pieces"]) {
      const double runs = measured(piece, "runs");
      if (runs < 1) continue;  // a piece that no output needed
      out.emplace_back();
      const bool in_target = flag("in_target of a piece", field(piece, "in_target"));
      out.back().runtime = in_target ? layout::PieceRuntime::kTarget : layout::PieceRuntime::kOnnx;
      out.back().picoseconds = measured(piece, "run_seconds") / runs * kPicosecondsInSecond;
      if (!field(piece, "node_names").is_array()) fail("node_names of a piece is not a list");
      for (const json& name : piece["node_names"]) out.back().nodes.push_back(word("a name in node_names", name));
    }
    if (out.empty()) fail("no piece of it has run");
    return out;
  }

 private:
  const json& field(const json& piece, const char* name) const {
    if (!piece.is_object() || !piece.contains(name)) fail(fmt::format("a piece has no field '{}'", name));
    return piece[name];
  }
  double measured(const json& piece, const char* name) const {
    const json& value = field(piece, name);
    const double number = value.is_number() ? value.get<double>() : -1;
    if (!(number >= 0 && number <= kMostSeconds))
      fail(fmt::format("'{}' of a piece is not a number from 0 to {:g}", name, kMostSeconds));
    return number;
  }
};

}  // namespace

layout::MeasuredWork read_measured_costs(const std::string& path) {
  return CostsReader(path).read(text_of_file(path, kMostBytes, "a file of costs"));
}

}  // namespace lowtide::tools
