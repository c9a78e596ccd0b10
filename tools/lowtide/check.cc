// SPDX-License-Identifier: Apache-2.0
// lowtide check: is this TFLite file what this ONNX model converts to?
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>

#include "emit/differences.h"
#include "emit/planned_file.h"
#include "emit/report.h"
#include "emit/verify.h"
#include "stream/counted.h"
#include "stream/error.h"
#include "stream/file/file.h"
#include "stream/file/zstd_source.h"
#include "stream/printable.h"
#include "stream/tflite/reader.h"
#include "tools/lowtide/commands.h"
#include "tools/lowtide/conversion.h"
#include "tools/lowtide/progress_bar.h"
#include "tools/lowtide/resident.h"

namespace lowtide::tools {
namespace {

using emit::ConstantPair;
using emit::VerifiedTensor;
using stream::Budget;
using stream::counted;
using stream::RecipeRef;
using stream::Source;

constexpr size_t kMostLines = 20;
// For reading both graphs, before constants are compared.
constexpr uint64_t kReadingBudget = uint64_t{1} << 20;
// In addition for a compressed file: its frames, or the window of the decompression.
constexpr uint64_t kCompressedBudget = uint64_t{4} << 20;

// What was compared, and which of it differs.
struct Findings {
  std::vector<std::string> graph;
  std::vector<VerifiedTensor> constants;
  std::string not_comparable;  // why bytes that are not of constants were not compared; empty: they were

  size_t damaged() const {
    return static_cast<size_t>(std::count_if(constants.begin(), constants.end(), [](const VerifiedTensor& tensor) {
      return tensor.difference.has_value();
    }));
  }
};

// The recipes of the constants of the planned file, by their offsets: PlannedFile reads bytes in order, which is slow
// for recipes that are better read in blocks.
class Recipes {
 public:
  Recipes(const emit::Plan& plan, const Source* planned) : planned_(planned) {
    for (const emit::Payload& payload : plan.payloads) at_.emplace(payload.position, payload.recipe);
  }
  RecipeRef of(const RecipeRef& constant) const {
    const auto* stored = stream::recipe::plain_stored(*constant);
    if (!stored || stored->source.get() != planned_) return constant;
    const auto found = at_.find(stored->file_runs[0].offset);
    if (found == at_.end() || found->second->dtype != constant->dtype ||
        found->second->elements() != constant->elements())
      return constant;
    return found->second;
  }

 private:
  const Source* planned_;
  std::unordered_map<uint64_t, RecipeRef> at_;
};

// How a file stores its buffers makes no difference: they may be after the flatbuffer, or in files of the ONNX model.
// But only bytes of files of one form can be compared. Whether `options`, which are changed for this, plan another form
// than `plan` has, which is the file's.
bool take_form_of(const tfl::Model& found, const emit::Plan& plan, CheckCommand& options) {
  const bool external = found.external_buffers || found.metadata.contains("buffer_location");
  const bool other_buffers = external != plan.external && external != options.external;
  const bool is_copied = found.external_files.empty() && !plan.files.empty();
  if (other_buffers) options.external = external;
  if (is_copied) options.weights = "stored";
  return other_buffers || is_copied;
}

// Whether the plan's bytes can be compared with the file's. They cannot where options of the conversion say that
// weights are in this file, and it finds them in others.
bool of_one_form(const tfl::Model& found, const emit::Plan& plan) {
  return std::is_permutation(plan.files.begin(), plan.files.end(), found.external_files.begin(),
                             found.external_files.end(),
                             [](const auto& ours, const auto& theirs) { return ours.name == theirs.name; });
}

// What nothing else compares: all bytes that are not of constants. Empty when there is no difference.
std::string other_bytes(const emit::Plan& plan, const Source& planned, const Source& found) {
  if (const auto at = emit::header_difference(plan, found))
    return fmt::format("the graph is the same, but the header differs from its byte {} on", *at);
  if (found.size() != planned.size())
    return fmt::format("the file has {} bytes, expected {}", found.size(), planned.size());
  // The archive with labels is after the constants.
  uint64_t at = plan.header.size();
  for (const emit::Payload& payload : plan.payloads)
    if (payload.buffer != 0) at = payload.position + payload.bytes;
  std::array<std::byte, 16 * 1024> ours, theirs;
  while (at < found.size()) {
    const auto count = static_cast<size_t>(std::min<uint64_t>(ours.size(), found.size() - at));
    planned.read_at(at, std::span(ours).first(count));
    found.read_at(at, std::span(theirs).first(count));
    if (!std::equal(ours.begin(), ours.begin() + static_cast<ptrdiff_t>(count), theirs.begin()))
      return fmt::format("what follows the constants, the labels for example, differs (bytes {} to {})", at,
                         at + count);
    at += count;
  }
  return {};
}

// Nothing when the plan should have the form that `options` are changed to.
std::optional<Findings> compare_with(const emit::Plan& plan, CheckCommand& options, bool is_last, Budget& budget,
                                     stream::Progress& progress) {
  auto planned = std::make_shared<emit::PlannedFile>(plan, budget, options.tflite);
  // Weights in place are looked for there, also where the file is compressed.
  const std::filesystem::path parent = std::filesystem::path(options.tflite).parent_path();
  const std::filesystem::path folder = parent.empty() ? "." : parent;
  stream::Spill spill({.max_ratio = options.max_zstd_ratio});
  const auto file = stream::open_tflite(options.tflite, spill, budget);
  const tfl::Model found = stream::read_tflite(file, budget, folder);
  if (!is_last && take_form_of(found, plan, options)) return std::nullopt;
  const tfl::Model expected = stream::read_tflite(planned, budget, folder);
  Findings out;
  out.graph = emit::graph_differences(expected, found, kMostLines);
  std::vector<ConstantPair> pairs = emit::constants_of_both(expected, found);
  uint64_t bytes = 0;
  for (const ConstantPair& pair : pairs) bytes += pair.found->bytes();
  progress.begin("comparing", bytes);
  const Recipes recipes(plan, planned.get());
  for (const ConstantPair& pair : pairs) {
    out.constants.push_back(emit::compare_constants(recipes.of(pair.expected), pair.found, budget, &progress));
    out.constants.back().tensor = pair.tensor;
  }
  if (emit::other_version(expected, found))
    out.not_comparable = fmt::format("{} wrote it", found.description);
  else if (!of_one_form(found, plan))
    out.not_comparable = "its weights are in other files";
  if (!out.graph.empty() || out.damaged() > 0 || !out.not_comparable.empty()) return out;
  if (std::string difference = other_bytes(plan, *planned, *file); !difference.empty())
    out.graph.push_back(std::move(difference));
  return out;
}

void print_findings(const CheckCommand& options, const Findings& findings) {
  if (!options.quiet)
    for (const VerifiedTensor& tensor : findings.constants) fmt::print("{}", digest_line(tensor));
  auto line = [](const std::string& text) { fmt::print(stderr, "  {}\n", stream::printable(text)); };
  for (const std::string& difference : findings.graph) line(difference);
  size_t shown = 0;
  for (const VerifiedTensor& tensor : findings.constants)
    if (tensor.difference && ++shown <= kMostLines)
      line(fmt::format("tensor '{}' differs from its byte {} on", tensor.tensor, *tensor.difference));
  if (shown > kMostLines) line(fmt::format("and {} more tensors", shown - kMostLines));
}

}  // namespace

void check_model(const CheckCommand& command) {
  CheckCommand options = command;
  const std::filesystem::path tflite = options.tflite;
  MemoryLimit limit(options.max_rss);
  ResidentMarks marks;
  ProgressBar bar(options.quiet, marks);
  Watchers watchers;
  watchers.progress = &bar;
  std::optional<Findings> compared;
  uint64_t operators = 0;
  for (bool is_last = false; !compared; is_last = true) {
    Planned planned = plan_conversion(options, tflite.parent_path(), watchers, limit);
    operators = planned.plan.operators;
    uint64_t least = std::max(kReadingBudget, emit::least_for_verifying(planned.plan));
    if (tflite.extension() == ".zst") least += kCompressedBudget;
    Budget budget(limit.writing_budget(least, 1));
    limit.allow_graph(options.input);  // of both files
    compared = compare_with(planned.plan, options, is_last, budget, bar);
  }
  const Findings& findings = *compared;
  bar.finish();
  spdlog::info("compared {} with what {} converts to: {} constants, {} of them damaged, {} differences of the graph",
               stream::printable(options.tflite), stream::printable(options.input), findings.constants.size(),
               findings.damaged(), findings.graph.size());
  print_findings(options, findings);
  if (!findings.graph.empty() || findings.damaged() > 0)
    throw stream::Error(stream::Code::kDifferent,
                        fmt::format("it is not what {} converts to: {} of the graph, {} of {}{}", options.input,
                                    counted(findings.graph.size(), "difference"), findings.damaged(),
                                    counted(findings.constants.size(), "constant"),
                                    findings.graph.empty() ? "" : " (were other options given when it was made?)"),
                        {.file = options.tflite});
  if (options.quiet) return;
  fmt::print("peak RSS {}\n{}: {} and {} are what {} converts to{}\n", emit::memory_size(resident().peak),
             stream::printable(options.tflite), counted(operators, "operator"),
             counted(findings.constants.size(), "constant"), stream::printable(options.input),
             findings.not_comparable.empty()
                 ? ""
                 : stream::printable(fmt::format(" (only the graph and the weights were compared, not labels, long "
                                                 "metadata or other bytes of the file: {})",
                                                 findings.not_comparable)));
}

}  // namespace lowtide::tools
