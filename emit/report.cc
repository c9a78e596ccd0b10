// SPDX-License-Identifier: Apache-2.0
#include "emit/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "stream/printable.h"
#include "stream/recipe/in_place.h"

namespace lowtide::emit {
namespace {

std::string scaled(uint64_t bytes, double step, const std::array<const char*, 5>& units) {
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= step && unit + 1 < units.size(); ++unit) value /= step;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

// Models of this size and more get the ratio of memory to model even when it is above 1.
constexpr uint64_t kLargeModel = uint64_t{64} << 20;

double ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// Of the bytes written, as for a copy.
double megabytes_per_second(const Report& report) {
  return report.seconds > 0 ? static_cast<double>(report.written.file_bytes) / 1e6 / report.seconds : 0;
}

uint64_t in_place_bytes(const WriteResult& written) {
  uint64_t sum = 0;
  for (const NamedFile& file : written.files) sum += file.bytes;
  return sum;
}

// Where weights are with --weights in-place.
std::string in_place_text(const WriteResult& written) {
  std::string out;
  for (const NamedFile& file : written.files)
    out += fmt::format("{} stay in {}: the model needs it beside itself, unchanged\n", file_size(file.bytes),
                       stream::printable(file.name));
  out += written.files.empty() ? "no weight can stay in place: all were written\n"
                               : "read by CompiledModel of ai-edge-litert 2.1.4 or newer, not by Interpreter\n";
  if (written.unaligned_bytes > 0)
    out += fmt::format("{} were written because their offsets are not multiples of {}\n",
                       file_size(written.unaligned_bytes), stream::kInPlaceAlignment);
  return out;
}

nlohmann::ordered_json in_place_files(const WriteResult& written) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const NamedFile& file : written.files) out.push_back({{"name", file.name}, {"bytes", file.bytes}});
  return out;
}

// How many weights have which form, and which could not get the form asked for.
std::string weights_text(const Report& report) {
  const core::ShrunkWeights& w = report.weights;
  std::vector<std::string> counts;
  for (auto [name, count] : {std::pair{"int4", w.int4}, {"int8", w.int8}, {"f16", w.f16}, {"float", w.f32}})
    if (count > 0) counts.push_back(fmt::format("{} {}", count, name));
  std::string out = fmt::format("weights of {} elements or more: {}\n", core::kWeightElements,
                                counts.empty() ? "none" : fmt::format("{}", fmt::join(counts, ", ")));
  for (const std::string& line : w.kept) out += "  " + stream::printable(line) + "\n";
  return out;
}

std::string tensors(uint64_t count) { return fmt::format("{} tensor{}", count, count == 1 ? "" : "s"); }

// What became of the weights that the model stores in f16.
std::string stored_halves_text(const core::ShrunkWeights& w) {
  std::string out;
  if (w.as_stored > 0)
    out += fmt::format("weights stored in f16 as in the model: {}, {} less than as f32\n", tensors(w.as_stored),
                       file_size(w.as_stored_bytes));
  if (w.widened > 0)
    out += fmt::format(
        "f16 weights of the model stored as f32: {}, {} more (folded with other constants, or an operand that "
        "must be f32)\n",
        tensors(w.widened), file_size(w.widened_bytes));
  return out;
}

constexpr size_t kListedIslands = 5;

// What of a quantized model is computed in integers; nothing for others.
std::string integers_text(const core::IntegerReport& integers) {
  if (integers.operators == 0 && integers.islands.empty()) return {};
  const std::string tables = integers.tables == 0   ? ""
                             : integers.tables == 1 ? " (1 is a table)"
                                                    : fmt::format(" ({} are tables)", integers.tables);
  std::string out = fmt::format("quantized: {} operator{} in integers{}, {} rescale{}, {} in floats\n",
                                integers.operators, integers.operators == 1 ? "" : "s", tables, integers.rescales,
                                integers.rescales == 1 ? "" : "s", integers.islands.size());
  for (size_t i = 0; i < std::min(kListedIslands, integers.islands.size()); ++i) {
    const core::FloatIsland& island = integers.islands[i];
    out += fmt::format("  {} '{}': {}\n", island.op, stream::printable(island.node), island.reason);
  }
  if (integers.islands.size() > kListedIslands)
    out += fmt::format("  and {} more (--report lists all)\n", integers.islands.size() - kListedIslands);
  return out;
}

nlohmann::ordered_json islands_values(const core::IntegerReport& integers) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const core::FloatIsland& island : integers.islands)
    out.push_back({{"node", island.node}, {"operator", island.op}, {"reason", island.reason}});
  return out;
}

// Which nodes are computed in fewer bits than the model says: one line.
std::string narrowed_text(const std::vector<core::NarrowedNode>& nodes) {
  std::map<std::pair<stream::DType, stream::DType>, std::pair<size_t, const core::NarrowedNode*>> kinds;
  for (const core::NarrowedNode& node : nodes) {
    auto& [count, first] = kinds.try_emplace({node.from, node.to}, 0, &node).first->second;
    ++count;
  }
  std::vector<std::string> parts;
  for (const auto& [types, found] : kinds)
    parts.push_back(fmt::format("{} node{} of {} in {} (first: {} '{}')", found.first, found.first == 1 ? "" : "s",
                                dtype_name(types.first), dtype_name(types.second), found.second->op,
                                stream::printable(found.second->node)));
  return parts.empty() ? "" : fmt::format("computed in fewer bits: {}\n", fmt::join(parts, ", "));
}

nlohmann::ordered_json narrowed_values(const std::vector<core::NarrowedNode>& nodes) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const core::NarrowedNode& node : nodes)
    out.push_back(
        {{"node", node.node}, {"operator", node.op}, {"from", dtype_name(node.from)}, {"to", dtype_name(node.to)}});
  return out;
}

constexpr size_t kListedRules = 10;

// What the target of --for leaves outside; nothing where there is no target.
std::string coverage_text(const core::TargetCoverage& coverage) {
  if (coverage.target.empty()) return {};
  std::string out =
      fmt::format("{}: {} of {} {}, {:.1f} % of the work\n", stream::printable(coverage.target), coverage.inside,
                  coverage.operators, coverage.of_nodes ? "nodes" : "operators", 100 * coverage.share);
  for (size_t i = 0; i < std::min(kListedRules, coverage.outside.size()); ++i) {
    const core::OutsideOperators& row = coverage.outside[i];
    out += fmt::format("  {} {}, {:.1f} % of the work, first '{}': {}\n", row.count, row.op, 100 * row.share,
                       stream::printable(row.node), stream::printable(row.reason));
  }
  if (coverage.outside.size() > kListedRules)
    out += fmt::format("  and {} more (--report lists all)\n", coverage.outside.size() - kListedRules);
  return out;
}

nlohmann::ordered_json coverage_values(const core::TargetCoverage& coverage) {
  if (coverage.target.empty()) return nullptr;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const core::OutsideOperators& row : coverage.outside)
    rows.push_back({{"operator", row.op},
                    {"node", row.node},
                    {"reason", row.reason},
                    {"source", row.source},
                    {"count", row.count},
                    {"share", row.share}});
  return {{"name", coverage.target},         {"of", coverage.of_nodes ? "ONNX" : "TFLite"},
          {"operators", coverage.operators}, {"inside", coverage.inside},
          {"share", coverage.share},         {"outside", std::move(rows)}};
}

const char* form(const WriteResult& written) { return written.external ? "buffers behind the flatbuffer" : "inline"; }

}  // namespace

std::string file_size(uint64_t bytes) { return scaled(bytes, 1000, {"B", "kB", "MB", "GB", "TB"}); }
std::string memory_size(uint64_t bytes) { return scaled(bytes, 1024, {"B", "KiB", "MiB", "GiB", "TiB"}); }

std::string report_text(const Report& report) {
  const WriteResult& w = report.written;
  std::string out = fmt::format("{}{}: {} operators, {} tensors, {} transpose{} kept\n",
                                stream::printable(report.output), report.dry_run ? " (not written)" : "", w.operators,
                                w.tensors, w.transposes, w.transposes == 1 ? "" : "s");
  out += fmt::format("in {}, out {} ({}), {:.2f} s", file_size(report.input_bytes), file_size(w.file_bytes), form(w),
                     report.seconds);
  if (!report.dry_run) out += fmt::format(", {:.0f} MB/s", megabytes_per_second(report));
  out += "\n";
  if (report.in_place) out += in_place_text(w);
  if (w.compressed_bytes > 0)
    out += fmt::format("compressed to {}, {:.0f} %\n", file_size(w.compressed_bytes),
                       100 * ratio(w.compressed_bytes, w.file_bytes));
  if (report.verified_tensors > 0)
    out += fmt::format("verified: {} constants on the disk equal the model's\n", report.verified_tensors);
  if (report.shrinks) out += weights_text(report);
  out += stored_halves_text(report.weights);
  out += integers_text(report.integers);
  out += narrowed_text(report.narrowed);
  out += coverage_text(report.coverage);
  if (!report.custom.empty())
    out += "custom operators, for which the application brings kernels:\n" + custom_text(report.custom);
  for (const std::string& note : report.notes) out += "note: " + stream::printable(note) + "\n";
  out += fmt::format("peak RSS {} ({} anonymous, {} file)", memory_size(report.peak_rss),
                     memory_size(report.peak_anonymous), memory_size(report.peak_file));
  // For a small model this would only say how large the program is.
  if (report.peak_rss < report.input_bytes || report.input_bytes >= kLargeModel) {
    const double times = ratio(report.peak_rss, report.input_bytes);
    out += fmt::format(", {:.{}f} x the model's bytes", times, times < 1 ? 4 : 1);
  }
  out += "\n";
  return out;
}

nlohmann::ordered_json report_values(const Report& report) {
  const WriteResult& w = report.written;
  return {
      {"input", report.input},
      {"output", report.output},
      {"dry_run", report.dry_run},
      {"input_bytes", report.input_bytes},
      {"output_bytes", w.file_bytes},
      {"header_bytes", w.header_bytes},
      {"payload_bytes", w.payload_bytes},
      {"compressed_bytes", w.compressed_bytes},
      {"external_buffers", w.external},
      {"in_place_bytes", in_place_bytes(w)},
      {"in_place_files", in_place_files(w)},
      {"unaligned_bytes", w.unaligned_bytes},
      {"weights",
       {{"form", report.weight_form},
        {"int4", report.weights.int4},
        {"int8", report.weights.int8},
        {"f16", report.weights.f16},
        {"float", report.weights.f32},
        {"kept", report.weights.kept},
        {"f16_as_stored", report.weights.as_stored},
        {"f16_bytes_saved", report.weights.as_stored_bytes},
        {"f16_widened", report.weights.widened},
        {"f16_bytes_added", report.weights.widened_bytes}}},
      {"integers",
       {{"operators", report.integers.operators},
        {"tables", report.integers.tables},
        {"rescales", report.integers.rescales},
        {"float_islands", islands_values(report.integers)}}},
      {"narrowed_nodes", narrowed_values(report.narrowed)},
      {"target", coverage_values(report.coverage)},
      {"custom_operators", custom_values(report.custom)},
      {"notes", report.notes},
      {"nodes", report.nodes},
      {"operators", w.operators},
      {"tensors", w.tensors},
      {"transposes", w.transposes},
      {"verified_tensors", report.verified_tensors},
      {"threads", report.threads},
      {"seconds", report.seconds},
      {"megabytes_per_second", report.dry_run ? 0 : megabytes_per_second(report)},
      {"max_rss", report.max_rss},
      {"budget_peak", report.budget_peak},
      {"peak_rss", report.peak_rss},
      {"peak_anonymous", report.peak_anonymous},
      {"peak_file", report.peak_file},
      {"peak_rss_ratio", ratio(report.peak_rss, report.input_bytes)},
  };
}

}  // namespace lowtide::emit
