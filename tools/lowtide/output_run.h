// SPDX-License-Identifier: Apache-2.0
// What `convert` and `merge` share: the checks of the paths before the work, the writing of the TFLite file, and what
// is told of it afterwards (summary, report, events).
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "emit/plan.h"
#include "emit/report.h"
#include "emit/verify.h"
#include "stream/onnx/model.h"
#include "tools/lowtide/command_line.h"
#include "tools/lowtide/conversion_report.h"
#include "tools/lowtide/memory_limit.h"
#include "tools/lowtide/progress_bar.h"
#include "tools/lowtide/resident.h"

namespace lowtide::tools {

// Names of the files that options of a conversion name, to be read: ranges, labels, constants, ...
std::vector<std::string> option_files(const ConversionOptions& options);

// The log, where there is one, must not be the file that is written. Throws stream::Error(kUsage).
void check_log_place(const std::string& log, const std::filesystem::path& output);

class OutputRun {
 public:
  // `options` must live as long. `output` is the file, a temporary one where the bytes go to standard output.
  OutputRun(const OutputOptions& options, bool quiet, std::filesystem::path output);

  // To be called first. The output, the report and the log must be different files, none of them one of `inputs`, or
  // of `option_files`, which are read too.
  // Throws stream::Error(kUsage), also for a report of unknown form and a descriptor that is not open, or kIo for a
  // report that cannot be written.
  void begin(const std::vector<std::string>& inputs, const std::vector<std::string>& option_files,
             const std::string& log);
  // Neither the output nor the report may replace a file that weights are read from.
  void check_sources(const onnx::Model& model) const;

  // Writes the file, or with --dry-run only says how large it would be. `extra` has what this command decides beside
  // the options.
  void write(const emit::Plan& plan, emit::WriteOptions extra, MemoryLimit& limit, emit::Report& report);
  // Time and memory are added to `report`, which is told in all forms that were asked for; `more` ends the summary.
  void tell(emit::Report& report, const std::string& more = {});

 private:
  // Before `marks`, whose clock starts later.
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();

 public:
  ResidentMarks marks;
  ProgressBar bar;
  std::optional<ConversionReport> report_file;  // with --report

 private:
  const OutputOptions& options_;
  bool quiet_;
  std::filesystem::path output_;
  std::vector<emit::VerifiedTensor> verified_;
};

}  // namespace lowtide::tools
