// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/report_file.h"

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "emit/json_text.h"
#include "stream/error.h"
#include "stream/file/out_file.h"
#include "stream/file/system_call.h"
#include "stream/file/temporary.h"
#include "tools/lowtide/command_line.h"
#include "tools/lowtide/report_page.h"

namespace lowtide::tools {
namespace {

namespace fs = std::filesystem;
using emit::PackedText;

// One piece of a file: a text, or one that is packed.
struct Piece {
  std::string_view text;
  const PackedText* packed = nullptr;
  uint64_t bytes() const { return packed ? packed->size() : text.size(); }
};

void write_pieces(const fs::path& path, const std::vector<Piece>& pieces) {
  uint64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes();
  stream::OutFile file(path, bytes);
  uint64_t at = 0;
  const auto write = [&](std::string_view text) {
    file.write_at(at, std::as_bytes(std::span(text)));
    at += text.size();
  };
  for (const Piece& piece : pieces) piece.packed ? piece.packed->read(write) : write(piece.text);
  file.commit();
}

}  // namespace

ReportForm report_form(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name.ends_with(".nodes.json")) return ReportForm::kNodeData;
  if (name.ends_with(".json")) return ReportForm::kJson;
  if (name.ends_with(".html")) return ReportForm::kHtml;
  usage_error(fmt::format("the report {} must end in .json, .html or .nodes.json", path.string()));
}

void check_can_be_written(const fs::path& path) {
  stream::check_output_path(path);
  stream::Temporary trial(path);
  if (const int error = trial.close())
    throw stream::Error(stream::is_no_space(error) ? stream::Code::kNoSpace : stream::Code::kIo,
                        fmt::format("cannot be written: {}", std::strerror(error)), {.file = path.string()});
}

void write_report(const fs::path& path, ReportForm form, const nlohmann::ordered_json& values,
                  const PackedText& graphs) {
  std::string text = emit::html_safe(emit::json_text(values));
  std::vector<Piece> pieces;
  if (form == ReportForm::kHtml) pieces.push_back({kPageHead});
  if (graphs.size() == 0) {
    pieces.push_back({text});
  } else {
    text.resize(text.rfind('\n', text.rfind('}')));
    text += ",\n  \"graphs\": ";
    pieces.push_back({text});
    pieces.push_back({{}, &graphs});
    pieces.push_back({"\n}\n"});
  }
  if (form == ReportForm::kHtml) pieces.push_back({kPageTail});
  write_pieces(path, pieces);
}

void write_packed(const fs::path& path, const PackedText& text) { write_pieces(path, {{{}, &text}}); }

}  // namespace lowtide::tools
