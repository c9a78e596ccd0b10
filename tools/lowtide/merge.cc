// SPDX-License-Identifier: Apache-2.0
// lowtide merge: several ONNX models in one TFLite file, a signature each. Weights that are equal are stored once.
#include <fmt/format.h>
#include <malloc.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>
#include <variant>
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
#include "tools/lowtide/for_target.h"
#include "tools/lowtide/output_run.h"
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
    // The longest signature: one may be the beginning of another, as "a" and "a:x".
    const NamedModel* owner = nullptr;
    for (const NamedModel& other : models)
      if (text.starts_with(other.signature + ":") && (!owner || other.signature.size() > owner->signature.size()))
        owner = &other;
    if (!owner) {
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

// One of the models as a part of the file, its graphs within `budget`. What is known of it is added to `report`.
layout::Part convert_part(const MergeCommand& command, const std::vector<NamedModel>& models, const NamedModel& model,
                          OutputRun& run, const MemoryLimit& limit, Budget& budget, emit::Report& report) {
  Watchers watchers;
  watchers.progress = &run.bar;
  watchers.on_read = [&](const onnx::Model& read) {
    run.check_sources(read);
    run.marks.sample();
    run.marks.end_phase(model.signature + ": read");
    if (run.report_file) run.report_file->on_read(read, model.signature);
  };
  watchers.after_pass = [&](std::string_view pass, const core::Model& graphs) {
    run.marks.sample();
    run.marks.end_phase(fmt::format("{}: {}", model.signature, pass));
    if (run.report_file) run.report_file->after_pass(pass, graphs);
  };
  const fs::path folder = fs::path(command.output).parent_path();
  Converted converted = convert_graph(options_of(command, models, model), folder, watchers, limit, budget);
  report.input += (report.input.empty() ? "" : ", ") + model.path;
  report.input_bytes += converted.input_bytes;
  report.nodes += converted.nodes;
  report.weights += converted.result.weights;
  report.integers += converted.result.integers;
  report.narrowed.insert(report.narrowed.end(), converted.result.narrowed.begin(), converted.result.narrowed.end());
  spdlog::info("converted {} ({}): {} nodes", stream::printable(model.path), stream::printable(model.signature),
               converted.nodes);
  for (std::string& note : converted.result.notes) report.notes.push_back(model.signature + ": " + note);
  return {model.signature, std::move(converted.result.model)};
}

// --for, which lists what a target does not accept.
std::optional<BuiltinTarget> target_of(const MergeCommand& command) {
  if (command.made_for.empty()) return std::nullopt;
  ForTarget target = read_for_target(command.made_for);
  if (auto* builtin = std::get_if<BuiltinTarget>(&target)) return std::move(*builtin);
  usage_error(
      fmt::format("--for {} is a target of ONNX nodes, which are of one model: give it to lowtide convert, with "
                  "each of the models",
                  command.made_for));
}

// The report also lists nodes that cannot be converted, of the first model that has any.
std::vector<layout::Part> parts_or_report(const MergeCommand& command, const std::vector<NamedModel>& models,
                                          OutputRun& run, const MemoryLimit& limit, Budget& budget,
                                          emit::Report& report) {
  std::vector<layout::Part> out;
  try {
    for (const NamedModel& model : models)
      out.push_back(convert_part(command, models, model, run, limit, budget, report));
  } catch (const emit::Refusal& refusal) {
    if (run.report_file) run.report_file->write(refusal);
    throw;
  }
  return out;
}

}  // namespace

void merge(const MergeCommand& command) {
  const std::vector<NamedModel> models = named_models(command);
  const fs::path output = command.output;
  if (weight_form(command.weights) == layout::WeightForm::kInPlace)
    usage_error("--weights in-place is for single models");
  if (command.output == "-") usage_error("merge writes a file: give its name with -o FILE");
  const std::optional<BuiltinTarget> target = target_of(command);
  OutputRun run(command, command.quiet, output);
  std::vector<std::string> inputs;
  for (const NamedModel& model : models) inputs.push_back(model.path);
  run.begin(inputs, option_files(command), command.log);
  MemoryLimit limit(command.max_rss);
  emit::Report report;
  report.weight_form = command.weights;
  report.shrinks = shrinks(weight_form(command.weights));
  report.output = output.string();
  report.threads = thread_count(command);
  emit::EqualConstants equal;
  emit::Plan plan;
  emit::WriteOptions write;
  write.external_buffers = command.external;
  {
    Budget budget(limit.graph_budget());
    std::vector<layout::Part> parts = parts_or_report(command, models, run, limit, budget, report);
    const auto merged = layout::merge_models(parts, budget);
    {
      const uint64_t least = emit::least_for_equal_constants(*merged);
      Budget comparing(limit.writing_budget(least, 1));
      equal = emit::find_equal_constants(*merged, comparing, &run.bar);
      report.budget_peak = comparing.high_water();
    }
    run.marks.end_phase("find equal constants");
    limit.allow_graph(models[0].path);  // the header is another copy of the graphs
    plan = plan_tflite(*merged, write);
    report.budget_peak = std::max(report.budget_peak, budget.high_water());
    run.marks.end_phase("plan");
    if (target) report.coverage = coverage(*target, *merged);
    if (run.report_file) run.report_file->on_planned(*merged, plan);
  }
  malloc_trim(0);
  run.write(plan, write, limit, report);
  spdlog::info("{} constants of {} bytes are stored with an equal one", equal.constants, equal.bytes);
  run.tell(report, fmt::format("{} constants, {}, are stored with an equal one\n", equal.constants,
                               emit::file_size(equal.bytes)));
}

}  // namespace lowtide::tools
