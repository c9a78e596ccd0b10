// SPDX-License-Identifier: Apache-2.0
#include "emit/events.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "emit/json_text.h"
#include "stream/printable.h"

namespace lowtide::emit {
namespace {

// The text of an error without the kind in brackets at the end of its first line. A name may have such brackets too.
std::string without_kind(std::string text, stream::Code code) {
  const std::string kind = " [" + std::string(stream::code_name(code)) + "]";
  const size_t end = std::min(text.find('\n'), text.size());
  if (std::string_view(text).substr(0, end).ends_with(kind)) text.erase(end - kind.size(), kind.size());
  return text;
}

nlohmann::ordered_json error_values(stream::Code code, std::string message) {
  return {{"event", "error"},
          {"kind", stream::code_name(code)},
          {"status", stream::exit_status(code)},
          {"message", std::move(message)}};
}

// "input 1 'w17'" becomes {"input": "1 'w17'"}.
void add_slot(nlohmann::ordered_json& json, const std::string& slot) {
  for (const char* part : {"input", "attribute"}) {
    const std::string begin = std::string(part) + " ";
    if (slot.starts_with(begin)) json[part] = slot.substr(begin.size());
  }
}

void add_where(nlohmann::ordered_json& json, const stream::Where& where) {
  if (!where.file.empty()) json["file"] = where.file;
  if (where.offset) json["byte"] = *where.offset;
  if (!where.node.empty()) json["node"] = where.node;
  if (!where.op.empty()) json["operator"] = where.op;
  add_slot(json, where.slot);
}

}  // namespace

std::string progress_line(std::string_view phase, uint64_t done, uint64_t total, uint64_t resident) {
  return json_line({{"event", "progress"}, {"phase", phase}, {"done", done}, {"total", total}, {"resident", resident}});
}

std::string done_line(const Report& report) {
  return json_line({{"event", "done"}, {"report", report_values(report)}});
}

std::string error_line(const stream::Error& error) {
  nlohmann::ordered_json json = error_values(error.code(), without_kind(error.what(), error.code()));
  add_where(json, error.where());
  return json_line(json);
}

std::string refusal_line(const Refusal& refusal) {
  std::string text = without_kind(refusal_text(refusal), stream::Code::kUnsupported);
  text.erase(text.find_last_not_of('\n') + 1);
  nlohmann::ordered_json json = error_values(stream::Code::kUnsupported, std::move(text));
  json["file"] = refusal.input;
  if (refusal.nodes.size() == 1) {
    const stream::Unsupported& node = refusal.nodes[0];
    add_where(json, node.where());
    json["reason"] = node.reason();
    json["hint"] = node.hint();
  }
  json["nodes"] = refused_nodes(refusal);
  return json_line(json);
}

}  // namespace lowtide::emit
