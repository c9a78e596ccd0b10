// SPDX-License-Identifier: Apache-2.0
// lowtide convert: ONNX to TFLite. The other direction: convert_to_onnx.h.
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "emit/listing.h"
#include "emit/report.h"
#include "emit/tflite_writer.h"
#include "stream/error.h"
#include "stream/file/file.h"
#include "stream/nearest_name.h"
#include "stream/onnx/reader.h"
#include "stream/printable.h"
#include "tools/lowtide/commands.h"
#include "tools/lowtide/conversion.h"
#include "tools/lowtide/convert_to_onnx.h"
#include "tools/lowtide/data_limit.h"
#include "tools/lowtide/for_target.h"
#include "tools/lowtide/output_run.h"
#include "tools/lowtide/weight_modes.h"

namespace lowtide::tools {
namespace {

namespace fs = std::filesystem;
using layout::WeightForm;
using stream::Error;

AfterPass after_pass(const ConvertCommand& options, OutputRun& run, std::vector<std::string>& passes) {
  auto begun = std::chrono::steady_clock::now();
  return [begun, &run, &passes, dump = options.dump_after](std::string_view pass, const core::Model& model) {
    run.marks.sample();
    run.marks.end_phase(pass);
    passes.emplace_back(pass);
    if (run.report_file) run.report_file->after_pass(pass, model);
    size_t ops = 0;
    for (const auto& graph : model.graphs) ops += graph->ops.size();
    spdlog::debug("{:8.1f} ms  {}: {} operators",
                  std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count(), pass,
                  ops);
    if (pass == dump) fmt::print("{}", emit::listing_text(emit::listing(model)));
  };
}

void check_pass_name(const std::string& name, const std::vector<std::string>& passes) {
  if (name.empty() || std::find(passes.begin(), passes.end(), name) != passes.end()) return;
  usage_error(fmt::format("--dump-after: unknown pass '{}'{} (passes: {})", name, stream::did_you_mean(name, passes),
                          fmt::join(passes, ", ")));
}

// Of several models, one that cannot be read fails when it is its turn.
bool seems_tflite(const std::string& input) {
  try {
    return is_tflite(input);
  } catch (const Error&) {
    return false;
  }
}

// The input's name with the extension of the other format.
fs::path output_name(const std::string& given) {
  fs::path input = given;
  if (input.extension() == ".zst") input.replace_extension();
  return input.replace_extension(seems_tflite(given) ? ".onnx" : ".tflite");
}

bool is_folder(const std::string& output) {
  std::error_code none;
  return output.ends_with('/') || fs::is_directory(output, none);
}

// -o, or a file named like the input, beside it or in the folder that -o names.
fs::path output_path(const ConvertCommand& options) {
  const bool has_name = !options.output.empty() && !is_folder(options.output);
  if (options.input == "-" && !has_name)
    usage_error("a model from standard input has no name: name the output with -o FILE");
  if (has_name) return options.output;
  const fs::path name = output_name(options.input);
  return options.output.empty() ? name : options.output / name.filename();
}

// A model that is converted later would be replaced before it is read. `outputs`: and the input of each.
void check_no_other_input(const std::map<fs::path, std::string>& outputs, const std::vector<std::string>& inputs) {
  std::map<std::pair<dev_t, ino_t>, std::vector<std::string_view>> names;  // of each file that is an input
  for (const std::string& input : inputs)
    if (const auto number = stream::file_number(input)) names[*number].push_back(input);
  for (const auto& [output, input] : outputs) {
    const auto number = stream::file_number(output);
    const auto found = number ? names.find(*number) : names.end();
    if (found == names.end()) continue;
    for (const std::string_view other : found->second)
      if (other != input) usage_error(fmt::format("the output {} of {} is another input", output.string(), input));
  }
}

// Refuses options that exclude several models, standard input or standard output.
void check_streams(const ConvertCommand& options) {
  const bool to_stdout = options.output == "-";
  if (options.inputs.size() > 1) {
    if (!options.output.empty() && !is_folder(options.output))
      usage_error(fmt::format("{} models need a folder as output, and {} is none{}", options.inputs.size(),
                              options.output, fs::exists(options.output) ? "" : "; make it first"));
    if (!options.report.empty()) usage_error("--report takes one model");
    if (options.progress_fd >= 0) usage_error("--progress-fd takes one model");
    std::map<fs::path, std::string> outputs;
    for (const std::string& input : options.inputs) {
      ConvertCommand one = options;
      one.input = input;
      const auto [other, is_new] = outputs.emplace(output_path(one), input);
      if (!is_new)
        usage_error(fmt::format("{} and {} have one output: {}", other->second, input, other->first.string()));
    }
    check_no_other_input(outputs, options.inputs);
  }
  if (to_stdout && !options.dump_after.empty()) usage_error("--dump-after prints to standard output, as -o - does");
  if (to_stdout && isatty(STDOUT_FILENO) == 1)
    usage_error("standard output is a terminal, which cannot show a TFLite file");
  const bool has_stream =
      to_stdout || std::find(options.inputs.begin(), options.inputs.end(), "-") != options.inputs.end();
  if (has_stream && weight_form(options.weights) == WeightForm::kInPlace)
    usage_error("--weights in-place needs files with names as input and output");
}

// Where the temporary file of -o - is made: as of other temporaries, because /tmp may be memory.
fs::path stdout_folder() {
  const char* named = std::getenv("TMPDIR");
  return named != nullptr && *named != '\0' ? named : "/var/tmp";
}

// The report also lists nodes that cannot be converted.
Planned plan_or_report(const ConvertCommand& options, const fs::path& folder, const Watchers& watchers,
                       const MemoryLimit& limit, const OutputRun& run) {
  try {
    return plan_conversion(options, folder, watchers, limit);
  } catch (const emit::Refusal& refusal) {
    if (run.report_file) run.report_file->write(refusal);
    throw;
  }
}

Watchers watchers_of(const ConvertCommand& options, OutputRun& run, std::vector<std::string>& passes,
                     core::TargetCoverage& covered) {
  Watchers out;
  out.progress = &run.bar;
  out.on_read = [&](const onnx::Model& model) {
    run.check_sources(model);
    spdlog::info("read {}: {} nodes, {} initializers, {} bytes in {} files", stream::printable(model.path),
                 model.graph.nodes.size(), model.graph.initializers.size(), model.file_bytes + model.external_bytes,
                 model.sources.size());
    run.marks.sample();
    run.marks.end_phase("read");
    if (run.report_file) run.report_file->on_read(model);
  };
  out.after_pass = after_pass(options, run, passes);
  out.on_planned = [&](core::Model& model, const emit::Plan& plan) {
    run.marks.sample();
    run.marks.end_phase("plan");
    if (!options.made_for.empty()) {
      const ForTarget target = read_for_target(options.made_for);
      if (const auto* builtin = std::get_if<BuiltinTarget>(&target)) covered = coverage(*builtin, model);
    }
    if (!run.report_file) return;
    run.report_file->on_planned(model, plan);
    run.marks.end_phase("report");
  };
  return out;
}

void convert_model(const ConvertCommand& options) {
  if (is_tflite(options.input)) return convert_to_onnx(options, output_path(options));
  if (options.opset != 0 || options.external_data)
    usage_error("--opset and --external-data are for TFLite models, which become ONNX");
  const bool to_stdout = options.output == "-";
  const fs::path output = to_stdout ? stdout_folder() / "stdout.tflite" : output_path(options);
  OutputRun run(options, options.quiet, output);
  run.begin({options.input}, option_files(options), options.log);
  std::vector<std::string> passes;  // their names, as they ran
  core::TargetCoverage covered;
  const Watchers watchers = watchers_of(options, run, passes, covered);
  MemoryLimit limit(options.max_rss);
  Planned planned = plan_or_report(options, output.parent_path(), watchers, limit, run);
  check_pass_name(options.dump_after, passes);

  emit::Report report;
  report.input = stream::shown_path(options.input);
  report.output = to_stdout ? "standard output" : output.string();
  report.in_place = weight_form(options.weights) == WeightForm::kInPlace;
  report.shrinks = shrinks(weight_form(options.weights));
  report.weight_form = options.weights;
  report.weights = std::move(planned.weights);
  report.integers = std::move(planned.integers);
  report.narrowed = std::move(planned.narrowed);
  report.notes = std::move(planned.notes);
  report.coverage = std::move(planned.coverage.of_nodes ? planned.coverage : covered);
  report.threads = thread_count(options);
  report.input_bytes = planned.input_bytes;
  report.nodes = planned.nodes;
  report.budget_peak = planned.budget_peak;
  emit::WriteOptions write;
  if (to_stdout) write.copy_to = STDOUT_FILENO;
  try {
    run.write(planned.plan, write, limit, report);
  } catch (Error& error) {
    error.add_place({.file = report.input});
    throw;
  }
  run.tell(report);
}

}  // namespace

int convert_models(const ConvertCommand& command, const std::function<int()>& failed) {
  check_streams(command);
  if (!command.made_for.empty()) read_for_target(command.made_for);  // faults of it before those of models
  const DataLimit at_start;
  int status = 0;
  for (const std::string& input : command.inputs) {
    ConvertCommand options = command;
    options.input = input;
    if (command.inputs.size() == 1) {
      convert_model(options);
      continue;
    }
    at_start.restore();  // a model before it has set its own
    try {
      convert_model(options);
    } catch (...) {
      const int its_status = failed();
      if (status == 0) status = its_status;
    }
  }
  return status;
}

}  // namespace lowtide::tools
