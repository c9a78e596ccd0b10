// SPDX-License-Identifier: Apache-2.0
// lowtide convert: ONNX to TFLite.
#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>

#include "emit/listing.h"
#include "emit/report.h"
#include "emit/tflite_writer.h"
#include "emit/verify.h"
#include "stream/error.h"
#include "stream/file/file.h"
#include "stream/printable.h"
#include "tools/lowtide/commands.h"
#include "tools/lowtide/conversion.h"
#include "tools/lowtide/option_values.h"
#include "tools/lowtide/progress_bar.h"
#include "tools/lowtide/resident.h"
#include "tools/lowtide/text_file.h"

namespace {

namespace fs = std::filesystem;
using lowtide::emit::VerifiedTensor;
using lowtide::layout::WeightForm;
using lowtide::stream::Budget;
using lowtide::stream::Code;
using lowtide::stream::Error;

struct Options : ConversionOptions {
  std::string output, report, dump_after;
  bool dry_run = false, verbose = false, verify = false;
  int zstd_level = 3;
};

// What is seen while the conversion runs.
struct Watch {
  lowtide::tools::ResidentMarks marks;
  bool dumped = false;  // the pass of --dump-after was there
  std::vector<VerifiedTensor> verified;
};

[[noreturn]] void usage(std::string text) { throw Error(Code::kUsage, std::move(text)); }

AfterPass after_pass(const Options& options, Watch& watch) {
  auto begun = std::chrono::steady_clock::now();
  return [begun, &watch, dump = options.dump_after](std::string_view pass, const lowtide::core::Model& model) {
    watch.marks.sample();
    size_t ops = 0;
    for (const auto& graph : model.graphs) ops += graph->ops.size();
    spdlog::debug("{:8.1f} ms  {}: {} operators",
                  std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count(), pass,
                  ops);
    if (pass != dump) return;
    watch.dumped = true;
    fmt::print("{}", lowtide::emit::listing_text(lowtide::emit::listing(model)));
  };
}

// Where the output goes: the input's name with .tflite in its folder, unless one is given.
fs::path output_path(const Options& options) {
  fs::path input = options.input;
  if (input.extension() == ".zst") input.replace_extension();
  return options.output.empty() ? input.replace_extension(".tflite") : fs::path(options.output);
}

// True when both paths name one file, which need not exist.
bool one_place(const fs::path& a, const fs::path& b) {
  std::error_code first, second;
  return lowtide::stream::same_file(a, b) ||
         fs::weakly_canonical(fs::absolute(a), first) == fs::weakly_canonical(fs::absolute(b), second);
}

void check_paths(const Options& options, const fs::path& output) {
  if (fs::path(options.input) == output || lowtide::stream::same_file(options.input, output))
    usage(fmt::format("the output {} is the input", output.string()));
  if (options.report.empty()) return;
  if (lowtide::stream::same_file(options.input, options.report) || one_place(options.report, output))
    usage(fmt::format("the report {} is the input or the output", options.report));
  // Found now and not when the model is written.
  std::error_code none;
  if (fs::exists(options.report, none) && !fs::is_regular_file(options.report, none))
    throw Error(Code::kUnsafePath, fmt::format("the report {} exists and is not a regular file", options.report));
  fs::path folder = fs::absolute(options.report).parent_path();
  if (access(folder.c_str(), W_OK) != 0)
    throw Error(Code::kNotFound, fmt::format("the report's folder {} cannot be written", folder.string()));
}

// Neither the output nor the report may replace a file that the weights are read from.
void check_sources(const lowtide::onnx::Model& model, const fs::path& output, const fs::path& report) {
  for (const auto& source : model.sources)
    for (const auto& [what, path] : {std::pair{"output", output}, std::pair{"report", report}})
      if (lowtide::stream::same_file(source->name(), path))
        usage(fmt::format("the {} {} holds weights of the model", what, path.string()));
}

void write_output(const Options& options, const lowtide::emit::Plan& plan, const fs::path& output, MemoryLimit& limit,
                  ProgressBar& bar, Watch& watch, lowtide::emit::Report& report) {
  lowtide::emit::WriteOptions write;
  write.threads = report.threads;
  write.progress = &bar;
  if (output.extension() == ".zst") write.zstd_level = options.zstd_level;
  if (options.verify) write.on_verified = [&](const VerifiedTensor& tensor) { watch.verified.push_back(tensor); };
  Budget budget(limit.writing_budget(least_budget(plan, write), write.threads));
  report.max_rss = limit.bytes();
  report.written = options.dry_run ? summary(plan) : write_tflite(plan, output, budget, write);
  bar.finish();
  watch.marks.sample();
  report.budget_peak = std::max(report.budget_peak, budget.high_water());
}

void log_to_stderr() {
  spdlog::set_default_logger(spdlog::stderr_logger_st("lowtide"));
  spdlog::set_pattern("%v");
  spdlog::set_level(spdlog::level::debug);
}

void run(const Options& options) {
  auto begun = std::chrono::steady_clock::now();
  if (options.verbose) log_to_stderr();
  Watch watch;
  fs::path output = output_path(options);
  check_paths(options, output);
  ProgressBar bar(options.quiet, watch.marks);
  Watchers watchers;
  watchers.progress = &bar;
  watchers.on_read = [&](const lowtide::onnx::Model& model) { check_sources(model, output, options.report); };
  watchers.after_pass = after_pass(options, watch);
  MemoryLimit limit(options.max_rss);
  Planned planned = plan_conversion(options, output.parent_path(), watchers, limit);
  if (!options.dump_after.empty() && !watch.dumped)
    usage(fmt::format("--dump-after: no pass is called '{}' (see --verbose)", options.dump_after));

  lowtide::emit::Report report;
  report.input = options.input;
  report.output = output.string();
  report.dry_run = options.dry_run;
  report.in_place = options.weight_form() == WeightForm::kInPlace;
  report.shrinks = !report.in_place && options.weight_form() != WeightForm::kFloat;
  report.weight_form = options.weights;
  report.weights = std::move(planned.weights);
  report.threads = options.thread_count();
  report.input_bytes = planned.input_bytes;
  report.nodes = planned.nodes;
  report.budget_peak = planned.budget_peak;
  try {
    write_output(options, planned.plan, output, limit, bar, watch, report);
  } catch (Error& error) {
    error.add_place({.file = options.input});
    throw;
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  report.peak_rss = lowtide::tools::resident().peak;
  report.peak_anonymous = watch.marks.anonymous();
  report.peak_file = watch.marks.file();
  report.verified_tensors = watch.verified.size();
  if (!options.quiet) {
    for (const VerifiedTensor& tensor : watch.verified) fmt::print("{}", digest_line(tensor));
    fmt::print("{}", report_text(report));
  }
  if (!options.report.empty()) write_text(options.report, report_json(report));
}

}  // namespace

void add_convert(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("convert", "Convert an ONNX model to TFLite");
  add_conversion_options(*command, *options);
  file_name(
      command->add_option("-o,--output", options->output,
                          "Where to write (default: the model's name with .tflite); compressed when it ends in .zst"));
  command->add_option("--zstd-level", options->zstd_level, "How hard to compress a .tflite.zst (default: 3)")
      ->check(CLI::Range(1, 19));
  command->add_flag("--verify-output", options->verify,
                    "Read the file back from the disk, compare each weight with what it should be, and print digests");
  command->add_flag("--dry-run", options->dry_run, "Convert and print the sizes, but write nothing");
  command->add_flag("--verbose", options->verbose, "Print each pass and its time")
      ->excludes(command->get_option("--quiet"));
  file_name(command->add_option("--report", options->report, "Write the report as JSON to this file"));
  command->add_option("--dump-after", options->dump_after, "Print the graph after this pass, such as lower")
      ->type_name("PASS");
  command->callback([options] { run(*options); });
}
