// SPDX-License-Identifier: Apache-2.0
// lowtide check: is this TFLite file what this ONNX model converts to?
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <unordered_map>

#include "emit/differences.h"
#include "emit/planned_file.h"
#include "emit/report.h"
#include "emit/verify.h"
#include "stream/error.h"
#include "stream/file/file.h"
#include "stream/file/seekable_source.h"
#include "stream/printable.h"
#include "stream/tflite/reader.h"
#include "tools/lowtide/commands.h"
#include "tools/lowtide/conversion.h"
#include "tools/lowtide/option_values.h"
#include "tools/lowtide/progress_bar.h"
#include "tools/lowtide/resident.h"

namespace {

using lowtide::emit::ConstantPair;
using lowtide::emit::VerifiedTensor;
using lowtide::stream::Budget;
using lowtide::stream::RecipeRef;
using lowtide::stream::Source;

constexpr size_t kMostLines = 20;
// Windows on both files, and frames of the one that is compressed.
constexpr uint64_t kReadingBudget = uint64_t{4} << 20;

struct Options : ConversionOptions {
  std::string tflite;
};

// What was compared, and what of it is not the same.
struct Findings {
  std::vector<std::string> graph;
  std::vector<VerifiedTensor> constants;

  size_t damaged() const {
    return static_cast<size_t>(std::count_if(constants.begin(), constants.end(), [](const VerifiedTensor& tensor) {
      return tensor.difference.has_value();
    }));
  }
};

// The recipes of the planned file's constants, by where they begin: a file that is only planned gives its bytes in
// order, which is slow where recipes are better read in blocks.
class Recipes {
 public:
  Recipes(const lowtide::emit::Plan& plan, const Source* planned) : planned_(planned) {
    for (const lowtide::emit::Payload& payload : plan.payloads) at_.emplace(payload.position, payload.recipe);
  }
  RecipeRef of(const RecipeRef& constant) const {
    const auto* extent = lowtide::stream::recipe::plain_extent(*constant);
    if (!extent || extent->source.get() != planned_) return constant;
    const auto found = at_.find(extent->stretches[0].offset);
    if (found == at_.end() || found->second->dtype != constant->dtype ||
        found->second->elements() != constant->elements())
      return constant;
    return found->second;
  }

 private:
  const Source* planned_;
  std::unordered_map<uint64_t, RecipeRef> at_;
};

Findings compare(const lowtide::emit::Plan& plan, const Options& options, Budget& budget,
                 lowtide::stream::Progress& progress) {
  lowtide::stream::Spill spill({});
  // Of the same name, because files that it names are looked for beside it.
  auto planned = std::make_shared<lowtide::emit::PlannedFile>(plan, budget, options.tflite);
  const lowtide::tfl::Model expected = lowtide::stream::read_tflite(planned, budget);
  const lowtide::tfl::Model found =
      lowtide::stream::read_tflite(open_decompressed(options.tflite, spill, budget), budget);
  Findings out;
  out.graph = lowtide::emit::graph_differences(expected, found, kMostLines);
  std::vector<ConstantPair> pairs = lowtide::emit::constants_of_both(expected, found);
  uint64_t bytes = 0;
  for (const ConstantPair& pair : pairs) bytes += pair.found->bytes();
  progress.begin("comparing", bytes);
  const Recipes recipes(plan, planned.get());
  for (const ConstantPair& pair : pairs) {
    out.constants.push_back(lowtide::emit::compare_constants(recipes.of(pair.expected), pair.found, budget, &progress));
    out.constants.back().tensor = pair.tensor;
  }
  return out;
}

void print(const Options& options, const Findings& findings) {
  if (!options.quiet)
    for (const VerifiedTensor& tensor : findings.constants) fmt::print("{}", digest_line(tensor));
  auto line = [](const std::string& text) { fmt::print(stderr, "  {}\n", lowtide::stream::printable(text)); };
  for (const std::string& difference : findings.graph) line(difference);
  size_t shown = 0;
  for (const VerifiedTensor& tensor : findings.constants)
    if (tensor.difference && ++shown <= kMostLines)
      line(fmt::format("tensor '{}' differs from its byte {} on", tensor.tensor, *tensor.difference));
  if (shown > kMostLines) line(fmt::format("and {} more tensors", shown - kMostLines));
}

void run(const Options& options) {
  const std::filesystem::path tflite = options.tflite;
  MemoryLimit limit(options.max_rss);
  lowtide::tools::ResidentMarks marks;
  ProgressBar bar(options.quiet, marks);
  Watchers watchers;
  watchers.progress = &bar;
  Planned planned = plan_conversion(options, tflite.parent_path(), watchers, limit);
  Budget budget(limit.writing_budget(lowtide::emit::least_for_verifying(planned.plan) + kReadingBudget, 1));
  limit.allow_graph(options.input);  // of both files
  const Findings findings = compare(planned.plan, options, budget, bar);
  bar.finish();
  print(options, findings);
  if (!findings.graph.empty() || findings.damaged() > 0)
    throw lowtide::stream::Error(
        lowtide::stream::Code::kDifferent,
        fmt::format("it is not what {} converts to: {} differences of the graph, {} of {} constants{}", options.input,
                    findings.graph.size(), findings.damaged(), findings.constants.size(),
                    findings.graph.empty() ? "" : " (were other options given when it was made?)"),
        {.file = options.tflite});
  if (options.quiet) return;
  fmt::print("{}: {} operators and {} constants are what {} converts to\npeak RSS {}\n", options.tflite,
             planned.plan.operators, findings.constants.size(), options.input,
             lowtide::emit::memory_size(lowtide::tools::resident().peak));
}

}  // namespace

void add_check(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "check", "Compare a TFLite file, to the last byte of each weight, with what an ONNX model converts to");
  add_conversion_options(*command, *options);
  file_name(command->add_option("tflite", options->tflite, "The file to check (.tflite or .tflite.zst)"))->required();
  command->callback([options] { run(*options); });
}
