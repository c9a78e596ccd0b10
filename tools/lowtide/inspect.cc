// SPDX-License-Identifier: Apache-2.0
// lowtide inspect: lists a model of either format.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "emit/graph_rows.h"
#include "emit/listing.h"
#include "stream/file/file.h"
#include "stream/file/known_formats.h"
#include "stream/onnx/reader.h"
#include "stream/tflite/reader.h"
#include "tools/lowtide/absent_inputs.h"
#include "tools/lowtide/commands.h"
#include "tools/lowtide/conversion_report.h"
#include "tools/lowtide/report_file.h"

namespace lowtide::tools {
namespace {

constexpr uint64_t kInspectBudget = uint64_t{16} << 20;

// By its first bytes; a file that is cut or damaged there has its name.
bool is_tflite(std::filesystem::path path, stream::Budget& budget) {
  const auto source = stream::open_file(path);
  const bool is_compressed = path.extension() == ".zst";
  const auto first = is_compressed ? stream::first_decompressed_bytes(*source, budget) : stream::first_bytes(*source);
  if (stream::begins_like_onnx(first)) return false;
  if (is_compressed) path.replace_extension();
  return stream::begins_like_tflite(first) || path.extension() == ".tflite";
}

void refuse_page_of_weights(const InspectCommand& options, const std::filesystem::path& weights) {
  if (!options.html.empty() && stream::same_file(weights, options.html))
    usage_error(fmt::format("the page {} holds weights of the model", options.html));
}

emit::Listing listing_of_file(const InspectCommand& options, stream::Budget& budget) {
  const stream::SpillOptions spill_options = {.max_ratio = options.max_zstd_ratio};
  if (!is_tflite(options.path, budget)) {
    const onnx::Model model = stream::read_onnx(options.path, budget, spill_options);
    for (const auto& source : model.sources) refuse_page_of_weights(options, source->name());
    return emit::listing(model);
  }
  const tfl::Model model = stream::read_tflite(options.path, budget, spill_options);
  for (const tfl::ExternalFile& file : model.external_files)
    refuse_page_of_weights(options, std::filesystem::path(options.path).parent_path() / file.name);
  check_absent_inputs(model);
  return emit::listing(model);
}

void check_page_path(const InspectCommand& options) {
  if (report_form(options.html) != ReportForm::kHtml)
    usage_error(fmt::format("--html: the name of the page {} must end in .html", options.html));
  if (stream::same_file(options.path, options.html)) usage_error(fmt::format("the page {} is the model", options.html));
  check_can_be_written("page", options.html);
}

void write_page(const InspectCommand& options, const emit::Listing& listing) {
  nlohmann::ordered_json values = report_heading("inspection", options.arguments);
  values["versions"] = {{"lowtide", LOWTIDE_VERSION}};
  values["input"] = options.path;
  values["format"] = listing.format;
  nlohmann::ordered_json facts = nlohmann::ordered_json::object();
  for (const auto& [name, value] : listing.facts) facts[name] = value;
  values["facts"] = std::move(facts);
  emit::PackedText graphs;
  emit::add_graph_rows(listing, graphs);
  write_report(options.html, ReportForm::kHtml, values, graphs);
}

}  // namespace

void inspect_model(const InspectCommand& options) {
  stream::Budget budget(kInspectBudget);
  if (!options.html.empty()) check_page_path(options);
  emit::Listing listing = listing_of_file(options, budget);
  if (!options.html.empty()) write_page(options, listing);
  if (options.html.empty() || options.json)
    fmt::print("{}", options.json ? listing_json(listing) : listing_text(listing));
}

}  // namespace lowtide::tools
