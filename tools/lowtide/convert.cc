// SPDX-License-Identifier: Apache-2.0
// lowtide convert: ONNX to TFLite.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>

#include "emit/events.h"
#include "emit/listing.h"
#include "emit/report.h"
#include "emit/tflite_writer.h"
#include "emit/verify.h"
#include "stream/error.h"
#include "stream/file/file.h"
#include "stream/file/known_formats.h"
#include "stream/nearest_name.h"
#include "stream/onnx/reader.h"
#include "stream/printable.h"
#include "tools/lowtide/commands.h"
#include "tools/lowtide/conversion.h"
#include "tools/lowtide/conversion_report.h"
#include "tools/lowtide/data_limit.h"
#include "tools/lowtide/messages.h"
#include "tools/lowtide/progress_bar.h"
#include "tools/lowtide/report_file.h"
#include "tools/lowtide/resident.h"
#include "tools/lowtide/weight_modes.h"

namespace lowtide::tools {
namespace {

namespace fs = std::filesystem;
using emit::VerifiedTensor;
using layout::WeightForm;
using stream::Budget;
using stream::Error;

// Collected while the conversion runs.
struct Watch {
  ResidentMarks marks;
  std::vector<std::string> passes;  // their names, as they ran
  std::vector<VerifiedTensor> verified;
  std::optional<ConversionReport> report;  // with --report
};

AfterPass after_pass(const ConvertCommand& options, Watch& watch) {
  auto begun = std::chrono::steady_clock::now();
  return [begun, &watch, dump = options.dump_after](std::string_view pass, const core::Model& model) {
    watch.marks.sample();
    watch.marks.end_phase(pass);
    watch.passes.emplace_back(pass);
    if (watch.report) watch.report->after_pass(pass, model);
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

// The input's name with .tflite.
fs::path output_name(const std::string& given) {
  fs::path input = given;
  if (input.extension() == ".zst") input.replace_extension();
  return input.replace_extension(".tflite");
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

// What several models, standard input and standard output do not go with.
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
  }
  if (to_stdout && !options.dump_after.empty()) usage_error("--dump-after prints to standard output, as -o - does");
  if (to_stdout && isatty(STDOUT_FILENO) == 1)
    usage_error("standard output is a terminal, which cannot show a TFLite file");
  const bool has_stream =
      to_stdout || std::find(options.inputs.begin(), options.inputs.end(), "-") != options.inputs.end();
  if (has_stream && weight_form(options.weights) == WeightForm::kInPlace)
    usage_error("--weights in-place needs files with names as input and output");
  if (!options.follow_links.empty() && weight_form(options.weights) == WeightForm::kInPlace)
    usage_error("--weights in-place and --follow-links exclude each other: runtimes do not follow links");
}

// Where the temporary file of -o - is made: as of other temporaries, because /tmp may be memory.
fs::path stdout_folder() {
  const char* named = std::getenv("TMPDIR");
  return named != nullptr && *named != '\0' ? named : "/var/tmp";
}

// True when both paths name one file, which need not exist.
bool one_place(const fs::path& a, const fs::path& b) {
  std::error_code first, second;
  return stream::same_file(a, b) ||
         fs::weakly_canonical(fs::absolute(a), first) == fs::weakly_canonical(fs::absolute(b), second);
}

// The name m.tflite.gz would say that the file is compressed, which it is not.
void check_suffix(const fs::path& output) {
  constexpr std::string_view kCompressions[] = {".gz", ".tgz", ".bz2", ".xz",  ".lzma", ".lz4",
                                                ".br", ".zip", ".7z",  ".tar", ".zstd", ".zst"};
  std::string suffix = output.extension().string();
  if (suffix == ".zst") return;
  std::transform(suffix.begin(), suffix.end(), suffix.begin(),
                 [](unsigned char letter) { return std::tolower(letter); });
  if (std::find(std::begin(kCompressions), std::end(kCompressions), suffix) == std::end(kCompressions)) return;
  fs::path compressed = output;
  usage_error(fmt::format("the output {} would not be compressed as its name says; lowtide compresses to .zst: -o {}",
                          output.string(), compressed.replace_extension(".zst").string()));
}

void check_paths(const ConvertCommand& options, const fs::path& output) {
  check_suffix(output);
  if (options.input != "-" && (fs::path(options.input) == output || stream::same_file(options.input, output))) {
    // The most common reason is that the input is a TFLite model.
    const auto input = stream::open_file(options.input);
    stream::refuse_other_formats(stream::first_bytes(*input), stream::kOnnxModel, options.input);
    usage_error(fmt::format("the output {} is the input; give another name with -o", output.string()));
  }
  if (!options.log.empty() && one_place(options.log, output))
    usage_error(fmt::format("the log {} is the output", options.log));
  if (options.report.empty()) return;
  if (stream::same_file(options.input, options.report) || one_place(options.report, output))
    usage_error(fmt::format("the report {} is the input or the output", options.report));
  check_can_be_written("report", options.report);  // before the conversion, not after it
}

// Neither the output nor the report may replace a file that the weights are read from.
void check_sources(const onnx::Model& model, const fs::path& output, const fs::path& report) {
  for (const auto& source : model.sources)
    for (const auto& [what, path] : {std::pair{"output", output}, std::pair{"report", report}})
      if (stream::same_file(source->name(), path))
        usage_error(fmt::format("the {} {} holds weights of the model", what, path.string()));
}

void write_output(const ConvertCommand& options, const emit::Plan& plan, const fs::path& output, MemoryLimit& limit,
                  ProgressBar& bar, Watch& watch, emit::Report& report) {
  emit::WriteOptions write;
  write.threads = report.threads;
  write.progress = &bar;
  if (options.output == "-") write.copy_to = STDOUT_FILENO;
  if (output.extension() == ".zst") write.zstd_level = options.zstd_level;
  if (options.verify) write.on_verified = [&](const VerifiedTensor& tensor) { watch.verified.push_back(tensor); };
  Budget budget(limit.writing_budget(least_budget(plan, write), write.threads));
  report.max_rss = limit.bytes();
  report.written = options.dry_run ? summary(plan) : write_tflite(plan, output, budget, write);
  bar.finish();
  watch.marks.sample();
  report.budget_peak = std::max(report.budget_peak, budget.high_water());
}

// The report also lists nodes that cannot be converted.
Planned plan_or_report(const ConvertCommand& options, const fs::path& folder, const Watchers& watchers,
                       const MemoryLimit& limit, Watch& watch) {
  try {
    return plan_conversion(options, folder, watchers, limit);
  } catch (const emit::Refusal& refusal) {
    if (watch.report) watch.report->write(refusal);
    throw;
  }
}

Watchers watchers_of(const ConvertCommand& options, const fs::path& output, ProgressBar& bar, Watch& watch) {
  Watchers out;
  out.progress = &bar;
  out.on_read = [&](const onnx::Model& model) {
    check_sources(model, output, options.report);
    spdlog::info("read {}: {} nodes, {} initializers, {} bytes in {} files", stream::printable(model.path),
                 model.graph.nodes.size(), model.graph.initializers.size(), model.file_bytes + model.external_bytes,
                 model.sources.size());
    watch.marks.sample();
    watch.marks.end_phase("read");
    if (watch.report) watch.report->on_read(model);
  };
  out.after_pass = after_pass(options, watch);
  out.on_planned = [&](core::Model& model, const emit::Plan& plan) {
    watch.marks.sample();
    watch.marks.end_phase("plan");
    if (!watch.report) return;
    watch.report->on_planned(model, plan);
    watch.marks.end_phase("report");
  };
  return out;
}

void convert_model(const ConvertCommand& options) {
  auto begun = std::chrono::steady_clock::now();
  Watch watch;
  const bool to_stdout = options.output == "-";
  const fs::path output = to_stdout ? stdout_folder() / "stdout.tflite" : output_path(options);
  check_paths(options, output);
  if (options.progress_fd >= 0) check_progress_fd(options.progress_fd);
  if (!options.report.empty()) {
    watch.report.emplace(options);
    watch.marks.keep_history();
  }
  ProgressBar bar(options.quiet, watch.marks, options.progress_fd);
  const Watchers watchers = watchers_of(options, output, bar, watch);
  MemoryLimit limit(options.max_rss);
  Planned planned = plan_or_report(options, output.parent_path(), watchers, limit, watch);
  check_pass_name(options.dump_after, watch.passes);

  emit::Report report;
  report.input = stream::shown_path(options.input);
  report.output = to_stdout ? "standard output" : output.string();
  report.dry_run = options.dry_run;
  report.in_place = weight_form(options.weights) == WeightForm::kInPlace;
  report.shrinks = weight_form(options.weights) == WeightForm::kHalf ||
                   weight_form(options.weights) == WeightForm::kInt8 ||
                   weight_form(options.weights) == WeightForm::kInt4;
  report.weight_form = options.weights;
  report.weights = std::move(planned.weights);
  report.integers = std::move(planned.integers);
  report.notes = std::move(planned.notes);
  report.threads = thread_count(options);
  report.input_bytes = planned.input_bytes;
  report.nodes = planned.nodes;
  report.budget_peak = planned.budget_peak;
  try {
    write_output(options, planned.plan, output, limit, bar, watch, report);
  } catch (Error& error) {
    error.add_place({.file = report.input});
    throw;
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  report.peak_rss = resident().peak;
  for (const std::string& note : report.notes) spdlog::warn("{}", stream::printable(note));
  spdlog::info("{} {}: {} operators, {} bytes, {:.3f} s, peak RSS {}", options.dry_run ? "planned" : "wrote",
               stream::printable(report.output), report.written.operators, report.written.file_bytes, report.seconds,
               emit::memory_size(report.peak_rss));
  report.peak_anonymous = watch.marks.anonymous();
  report.peak_file = watch.marks.file();
  report.verified_tensors = watch.verified.size();
  if (!options.quiet) {
    std::FILE* to = to_stdout ? stderr : stdout;
    for (const VerifiedTensor& tensor : watch.verified) fmt::print(to, "{}", digest_line(tensor));
    fmt::print(to, "{}", report_text(report));
  }
  if (watch.report) watch.report->write(report, watch.marks, watch.verified);
  if (options.progress_fd >= 0) write_event(options.progress_fd, done_line(report));
}

}  // namespace

int convert_models(const ConvertCommand& command, const std::function<int()>& failed) {
  check_streams(command);
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
