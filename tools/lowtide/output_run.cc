// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/output_run.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <string_view>
#include <utility>

#include "emit/events.h"
#include "emit/tflite_writer.h"
#include "stream/error.h"
#include "stream/file/file.h"
#include "stream/file/known_formats.h"
#include "stream/printable.h"
#include "tools/library/output_suffix.h"
#include "tools/lowtide/messages.h"
#include "tools/lowtide/report_file.h"

namespace lowtide::tools {
namespace {

namespace fs = std::filesystem;
using emit::VerifiedTensor;
using stream::Budget;

// True when both paths name one file, which need not exist.
bool one_place(const fs::path& a, const fs::path& b) {
  std::error_code first, second;
  return stream::same_file(a, b) ||
         fs::weakly_canonical(fs::absolute(a), first) == fs::weakly_canonical(fs::absolute(b), second);
}

}  // namespace

void check_log_place(const std::string& log, const fs::path& output) {
  if (!log.empty() && one_place(log, output)) usage_error(fmt::format("the log {} is the output", log));
}

std::vector<std::string> option_files(const ConversionOptions& options) {
  // --for and --const may have a value that is no file. Names of inputs and of files may contain '=', so each text
  // after a '=' is tried; one that is too long for a path is no file.
  std::vector<std::string> out = {options.ranges, options.labels, options.custom_ops_map, options.made_for};
  for (const std::string& constant : options.constants) {
    const size_t first = constant.size() > PATH_MAX ? constant.size() - PATH_MAX : 0;
    for (size_t at = constant.find('=', first); at != std::string::npos; at = constant.find('=', at + 1))
      out.push_back(constant.substr(at + 1));
  }
  return out;
}

OutputRun::OutputRun(const OutputOptions& options, bool quiet, fs::path output)
    : bar(quiet, marks, options.progress_fd), options_(options), quiet_(quiet), output_(std::move(output)) {}

void OutputRun::begin(const std::vector<std::string>& inputs, const std::vector<std::string>& option_files,
                      const std::string& log) {
  if (options_.progress_fd >= 0) check_progress_fd(options_.progress_fd);
  for (const std::string& input : inputs) {
    if (input == "-" || (fs::path(input) != output_ && !stream::same_file(input, output_))) continue;
    // The most common reason is that the input is a TFLite model.
    const auto file = stream::open_file(input);
    stream::refuse_other_formats(stream::first_bytes(*file), stream::kOnnxModel, input);
    usage_error(fmt::format("the output {} is the input; give another name with -o", output_.string()));
  }
  for (const std::string& read : option_files)
    for (const auto& [what, path] : {std::pair{"output", output_}, std::pair{"report", fs::path(options_.report)}})
      if (stream::same_file(read, path))
        usage_error(fmt::format("the {} {} is a file that an option reads", what, path.string()));
  if (const auto wrong = wrong_suffix(output_))
    usage_error(fmt::format("{}: -o {}", wrong->reason, wrong->better.string()));
  if (options_.zstd_level != 0 && output_.extension() != ".zst")
    usage_error("--zstd-level needs an output whose name ends in .tflite.zst");
  check_log_place(log, output_);
  if (options_.report.empty()) return;
  if (!log.empty() && one_place(log, options_.report)) usage_error(fmt::format("the log {} is the report", log));
  const bool is_input = std::any_of(inputs.begin(), inputs.end(), [&](const std::string& input) {
    return stream::same_file(input, options_.report);
  });
  if (is_input || one_place(options_.report, output_))
    usage_error(fmt::format("the report {} is the input or the output", options_.report));
  check_can_be_written(options_.report);  // before the conversion, not after it
  report_file.emplace(options_);
  marks.keep_history();
}

void OutputRun::check_sources(const onnx::Model& model) const {
  for (const auto& source : model.sources)
    for (const auto& [what, path] : {std::pair{"output", output_}, std::pair{"report", fs::path(options_.report)}})
      if (stream::same_file(source->name(), path))
        usage_error(fmt::format("the {} {} holds weights of the model {}", what, path.string(), model.path));
}

void OutputRun::write(const emit::Plan& plan, emit::WriteOptions extra, MemoryLimit& limit, emit::Report& report) {
  emit::WriteOptions write = std::move(extra);
  write.threads = report.threads;
  write.progress = &bar;
  if (output_.extension() == ".zst")
    write.zstd_level = options_.zstd_level == 0 ? kUsualZstdLevel : options_.zstd_level;
  if (options_.verify) write.on_verified = [&](const VerifiedTensor& tensor) { verified_.push_back(tensor); };
  Budget budget(limit.writing_budget(least_budget(plan, write), write.threads));
  report.max_rss = limit.bytes();
  report.custom = plan.custom;
  report.dry_run = options_.dry_run;
  report.written = options_.dry_run ? summary(plan) : write_tflite(plan, output_, budget, write);
  bar.finish();
  marks.sample();
  report.budget_peak = std::max(report.budget_peak, budget.high_water());
}

void OutputRun::tell(emit::Report& report, const std::string& more) {
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  report.peak_rss = std::max(resident().peak, marks.highest());
  for (const std::string& note : report.notes) spdlog::warn("{}", stream::printable(note));
  spdlog::info("{} {}: {} operators, {} bytes, {:.3f} s, peak RSS {}", options_.dry_run ? "planned" : "wrote",
               stream::printable(report.output), report.written.operators, report.written.file_bytes, report.seconds,
               emit::memory_size(report.peak_rss));
  report.peak_anonymous = marks.anonymous();
  report.peak_file = marks.file();
  report.verified_tensors = verified_.size();
  if (!quiet_) {
    std::FILE* to = options_.output == "-" ? stderr : stdout;
    for (const VerifiedTensor& tensor : verified_) fmt::print(to, "{}", digest_line(tensor));
    fmt::print(to, "{}{}", report_text(report), more);
  }
  if (report_file) report_file->write(report, marks, verified_);
  flush_output();
  if (options_.progress_fd >= 0) write_event(options_.progress_fd, done_line(report));
}

}  // namespace lowtide::tools
