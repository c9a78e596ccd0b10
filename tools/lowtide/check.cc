// SPDX-License-Identifier: Apache-2.0
// lowtide check: is this TFLite file what this ONNX model converts to?
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <unordered_map>

#include "emit/differences.h"
#include "emit/planned_file.h"
#include "emit/report.h"
#include "emit/verify.h"
#include "stream/counted.h"
#include "stream/error.h"
#include "stream/file/file.h"
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

Findings compare_with(const emit::Plan& plan, const CheckCommand& options, Budget& budget, stream::Progress& progress) {
  // With the same name, because files that it refers to are looked for in its folder.
  auto planned = std::make_shared<emit::PlannedFile>(plan, budget, options.tflite);
  const tfl::Model expected = stream::read_tflite(planned, budget);
  const tfl::Model found = stream::read_tflite(options.tflite, budget, {.max_ratio = options.max_zstd_ratio});
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

void check_model(const CheckCommand& options) {
  const std::filesystem::path tflite = options.tflite;
  MemoryLimit limit(options.max_rss);
  ResidentMarks marks;
  ProgressBar bar(options.quiet, marks);
  Watchers watchers;
  watchers.progress = &bar;
  Planned planned = plan_conversion(options, tflite.parent_path(), watchers, limit);
  uint64_t least = std::max(kReadingBudget, emit::least_for_verifying(planned.plan));
  if (tflite.extension() == ".zst") least += kCompressedBudget;
  Budget budget(limit.writing_budget(least, 1));
  limit.allow_graph(options.input);  // of both files
  const Findings findings = compare_with(planned.plan, options, budget, bar);
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
  fmt::print("peak RSS {}\n{}: {} and {} are what {} converts to\n", emit::memory_size(resident().peak),
             stream::printable(options.tflite), counted(planned.plan.operators, "operator"),
             counted(findings.constants.size(), "constant"), stream::printable(options.input));
}

}  // namespace lowtide::tools
