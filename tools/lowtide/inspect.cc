// SPDX-License-Identifier: Apache-2.0
// lowtide inspect: lists a model of either format.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "emit/custom_operators.h"
#include "emit/graph_rows.h"
#include "emit/json_text.h"
#include "emit/listing.h"
#include "stream/file/file.h"
#include "tools/library/model_listing.h"
#include "tools/lowtide/commands.h"
#include "tools/lowtide/conversion_report.h"
#include "tools/lowtide/report_file.h"

namespace lowtide::tools {
namespace {

void refuse_page_of_weights(const InspectCommand& options, const std::filesystem::path& weights) {
  if (!options.html.empty() && stream::same_file(weights, options.html))
    usage_error(fmt::format("the page {} holds weights of the model", options.html));
}

void check_page_path(const InspectCommand& options) {
  if (!options.html.ends_with(".html"))
    usage_error(fmt::format("--html: the name of the page {} must end in .html", options.html));
  if (stream::same_file(options.path, options.html)) usage_error(fmt::format("the page {} is the model", options.html));
  check_can_be_written(options.html);
}

void write_page(const InspectCommand& options, const emit::Listing& listing) {
  nlohmann::ordered_json values = report_heading("inspection", options.arguments);
  values["versions"] = {{"lowtide", LOWTIDE_VERSION}};
  values["input"] = options.path;
  values["format"] = listing.format;
  nlohmann::ordered_json facts = nlohmann::ordered_json::object();
  for (const auto& [name, value] : listing.facts) facts[name] = value.text;
  values["facts"] = std::move(facts);
  emit::PackedText graphs;
  emit::add_graph_rows(listing, graphs);
  write_report(options.html, ReportForm::kHtml, values, graphs);
}

void list_custom(const InspectCommand& options) {
  if (!options.html.empty()) usage_error("--custom and --html exclude each other");
  if (!options.follow_links.empty())
    usage_error(
        "--custom and --follow-links exclude each other: only TFLite models are searched for custom operators, and "
        "they have no such links");
  const std::vector<emit::CustomUse> uses = custom_operators_of_file(options.path, options.max_zstd_ratio);
  if (options.json)
    fmt::print("{}", emit::json_text({{"custom_operators", emit::custom_values(uses)}}));
  else
    fmt::print("custom operators: {}\n{}", uses.size(), emit::custom_text(uses));
}

}  // namespace

void inspect_model(const InspectCommand& options) {
  if (options.custom) return list_custom(options);
  if (!options.html.empty()) check_page_path(options);
  const emit::Listing listing =
      listing_of_file(options.path, {options.max_zstd_ratio, options.follow_links},
                      [&](const std::filesystem::path& weights) { refuse_page_of_weights(options, weights); });
  if (!options.html.empty()) write_page(options, listing);
  if (options.html.empty() || options.json)
    fmt::print("{}", options.json ? listing_json(listing) : listing_text(listing));
}

}  // namespace lowtide::tools
