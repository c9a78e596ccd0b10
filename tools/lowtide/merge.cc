// SPDX-License-Identifier: Apache-2.0
// lowtide merge: several ONNX models in one TFLite file, a signature each. Weights that are equal are stored once.
#include <fmt/format.h>
#include <malloc.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>
#include <vector>

#include "emit/equal_constants.h"
#include "emit/make_plan.h"
#include "emit/report.h"
#include "emit/tflite_writer.h"
#include "layout/merge_models.h"
#include "stream/error.h"
#include "stream/file/file.h"
#include "stream/nearest_name.h"
#include "stream/printable.h"
#include "tools/lowtide/commands.h"
#include "tools/lowtide/conversion.h"
#include "tools/lowtide/progress_bar.h"
#include "tools/lowtide/resident.h"
#include "tools/lowtide/weight_modes.h"

namespace lowtide::tools {
namespace {

namespace fs = std::filesystem;
using stream::Budget;

struct NamedModel {
  std::string signature, path;
};

// "encode=a.onnx"; a path may have '=' too.
std::vector<NamedModel> named_models(const MergeCommand& command) {
  std::vector<NamedModel> out;
  for (const std::string& text : command.models) {
    const size_t at = text.find('=');
    if (at == std::string::npos || at == 0 || at + 1 == text.size())
      usage_error(fmt::format("'{}' is not of the form SIGNATURE=MODEL.onnx", text));
    NamedModel model{text.substr(0, at), text.substr(at + 1)};
    for (const NamedModel& other : out)
      if (other.signature == model.signature) usage_error(fmt::format("two models are called '{}'", model.signature));
    out.push_back(std::move(model));
  }
  if (out.size() < 2) usage_error("merge needs two models or more, each as SIGNATURE=MODEL.onnx");
  return out;
}

// Of --shape encode:x=1,3 and the like: what is for one of the models. Each must be for one.
std::vector<std::string> of_model(const std::string& option, const std::vector<std::string>& texts,
                                  const std::vector<NamedModel>& models, const NamedModel& model) {
  std::vector<std::string> out, names;
  for (const NamedModel& other : models) names.push_back(other.signature);
  for (const std::string& text : texts) {
    const auto owner = std::find_if(models.begin(), models.end(),
                                    [&](const NamedModel& other) { return text.starts_with(other.signature + ":"); });
    if (owner == models.end()) {
      const std::string given = text.substr(0, text.find(':'));
      usage_error(fmt::format("{} {}: say of which model, as {}:{}{} (models: {})", option, text, names[0], text,
                              stream::did_you_mean(given, names), stream::listed(names)));
    }
    if (owner->signature == model.signature) out.push_back(text.substr(model.signature.size() + 1));
  }
  return out;
}

ConversionOptions options_of(const MergeCommand& command, const std::vector<NamedModel>& models,
                             const NamedModel& model) {
  ConversionOptions options = static_cast<const ConversionOptions&>(command);
  options.input = model.path;
  options.shapes = of_model("--shape", command.shapes, models, model);
  options.layouts = of_model("--layout", command.layouts, models, model);
  options.dims = of_model("--dim", command.dims, models, model);
  options.constants = of_model("--const", command.constants, models, model);
  options.outputs = of_model("--outputs", command.outputs, models, model);
  return options;
}

}  // namespace

void merge(const MergeCommand& command) {
  const auto begun = std::chrono::steady_clock::now();
  const std::vector<NamedModel> models = named_models(command);
  const fs::path output = command.output;
  if (weight_form(command.weights) == layout::WeightForm::kInPlace)
    usage_error("--weights in-place is for single models");
  ResidentMarks marks;
  ProgressBar bar(command.quiet, marks);
  MemoryLimit limit(command.max_rss);
  emit::Report report;
  report.weight_form = command.weights;
  report.output = output.string();
  report.threads = thread_count(command);
  emit::EqualConstants equal;
  emit::Plan plan;
  emit::WriteOptions write;
  write.external_buffers = command.external;
  write.threads = report.threads;
  write.progress = &bar;
  if (output.extension() == ".zst") write.zstd_level = 3;
  {
    Budget budget(limit.graph_budget());
    std::vector<layout::Part> parts;
    for (const NamedModel& model : models) {
      Watchers watchers;
      watchers.progress = &bar;
      watchers.after_pass = [&](std::string_view, const core::Model&) { marks.sample(); };
      watchers.on_read = [&](const onnx::Model& read) {
        for (const auto& source : read.sources)
          if (stream::same_file(source->name(), output))
            usage_error(fmt::format("the output {} holds weights of {}", output.string(), model.path));
      };
      Converted converted =
          convert_graph(options_of(command, models, model), output.parent_path(), watchers, limit, budget);
      report.input += (report.input.empty() ? "" : ", ") + model.path;
      report.input_bytes += converted.input_bytes;
      report.nodes += converted.nodes;
      spdlog::info("converted {} ({}): {} nodes", stream::printable(model.path), stream::printable(model.signature),
                   converted.nodes);
      for (std::string& note : converted.result.notes) report.notes.push_back(std::move(note));
      parts.push_back({model.signature, std::move(converted.result.model)});
    }
    const auto merged = layout::merge_models(parts, budget);
    {
      const uint64_t least = emit::least_for_equal_constants(*merged);
      Budget comparing(limit.writing_budget(least, 1));
      equal = emit::find_equal_constants(*merged, comparing, &bar);
      report.budget_peak = comparing.high_water();
    }
    limit.allow_graph(models[0].path);  // the header is another copy of the graphs
    plan = plan_tflite(*merged, write);
    report.budget_peak = std::max(report.budget_peak, budget.high_water());
  }
  malloc_trim(0);
  Budget budget(limit.writing_budget(least_budget(plan, write), write.threads));
  report.max_rss = limit.bytes();
  report.written = write_tflite(plan, output, budget, write);
  bar.finish();
  marks.sample();
  report.budget_peak = std::max(report.budget_peak, budget.high_water());
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  report.peak_rss = resident().peak;
  report.peak_anonymous = marks.anonymous();
  report.peak_file = marks.file();
  spdlog::info("wrote {}: {} bytes, {} constants of {} bytes stored with an equal one",
               stream::printable(report.output), report.written.file_bytes, equal.constants, equal.bytes);
  if (command.quiet) return;
  fmt::print("{}", report_text(report));
  fmt::print("{} constants, {}, are stored with an equal one\n", equal.constants, emit::file_size(equal.bytes));
}

}  // namespace lowtide::tools
