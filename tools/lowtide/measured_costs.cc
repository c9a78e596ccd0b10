// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/measured_costs.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "stream/error.h"
#include "stream/file/file.h"

namespace lowtide::tools {
namespace {

using nlohmann::json;

constexpr uint64_t kMostBytes = uint64_t{64} << 20;
constexpr double kPicosecondsInSecond = 1e12;
constexpr double kMostSeconds = 1e6;

class CostsReader {
 public:
  explicit CostsReader(std::string file) : file_(std::move(file)) {}

  layout::MeasuredWork read(const std::string& text) const {
    json whole;
    try {
      whole = json::parse(text);
    } catch (const json::exception& error) {
      fail(fmt::format("it is not JSON: {}", error.what()));
    }
    if (!whole.is_object() || !whole.contains("pieces") || !whole["pieces"].is_array())
      fail("it has no list 'pieces': it should be what lowtide run DIR --profile --json prints");
    layout::MeasuredWork out;
    for (const json& piece : whole["pieces"]) {
      const double runs = number(piece, "runs");
      if (runs < 1) continue;  // a piece that no output needed
      out.emplace_back();
      const std::string runtime = field(piece, "runtime").is_string() ? piece["runtime"].get<std::string>() : "";
      if (runtime != "tflite" && runtime != "onnx") fail("the runtime of a piece is neither tflite nor onnx");
      const json& inside = field(piece, "in_target");
      if (!inside.is_boolean()) fail("in_target of a piece is neither true nor false");
      out.back().runtime = inside.get<bool>() ? layout::PieceRuntime::kTarget : layout::PieceRuntime::kOnnx;
      out.back().picoseconds = number(piece, "run_seconds") / runs * kPicosecondsInSecond;
      if (!field(piece, "node_names").is_array()) fail("node_names of a piece is not a list");
      for (const json& name : piece["node_names"]) {
        if (!name.is_string()) fail("a name in node_names is not a string");
        out.back().nodes.push_back(name.get<std::string>());
      }
    }
    if (out.empty()) fail("no piece of it has run");
    return out;
  }

 private:
  [[noreturn]] void fail(const std::string& text) const {
    throw stream::Error(stream::Code::kMalformed, text, {.file = file_});
  }
  const json& field(const json& piece, const char* name) const {
    if (!piece.is_object() || !piece.contains(name)) fail(fmt::format("a piece has no field '{}'", name));
    return piece[name];
  }
  double number(const json& piece, const char* name) const {
    const json& value = field(piece, name);
    const double number = value.is_number() ? value.get<double>() : -1;
    if (!(number >= 0 && number <= kMostSeconds))
      fail(fmt::format("'{}' of a piece is not a number that it can be", name));
    return number;
  }

  std::string file_;
};

}  // namespace

layout::MeasuredWork read_measured_costs(const std::string& path) {
  const auto source = stream::open_file(path);
  if (source->size() > kMostBytes)
    throw stream::Error(stream::Code::kMalformed, fmt::format("costs have at most {} MiB", kMostBytes >> 20),
                        {.file = path});
  std::string text(source->size(), '\0');
  source->read_at(0, std::as_writable_bytes(std::span(text)));
  return CostsReader(path).read(text);
}

}  // namespace lowtide::tools
