// SPDX-License-Identifier: Apache-2.0
// --report of a conversion: what is known of the graphs is collected while they are in memory, and written at the end.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "emit/packed_text.h"
#include "emit/plan.h"
#include "emit/refusal.h"
#include "emit/report.h"
#include "emit/verify.h"
#include "layout/core/graph.h"
#include "layout/core/origin_trace.h"
#include "stream/onnx/model.h"
#include "tools/lowtide/command_line.h"
#include "tools/lowtide/report_file.h"
#include "tools/lowtide/resident.h"

namespace lowtide::tools {

class ConversionReport {
 public:
  // Of a command that has --report. Throws stream::Error(kUsage) for a name of unknown form.
  explicit ConversionReport(const OutputOptions& command);

  // `signature` says which one of several models this is; empty for a single model.
  void on_read(const onnx::Model& model, const std::string& signature = {});
  void after_pass(std::string_view pass, const core::Model& model);
  void on_planned(core::Model& model, const emit::Plan& plan);

  void write(const emit::Report& report, const ResidentMarks& marks,
             const std::vector<emit::VerifiedTensor>& verified) const;
  void write(const emit::Refusal& refusal) const;

 private:
  nlohmann::ordered_json heading(const char* kind) const;

  const OutputOptions& command_;
  ReportForm form_;
  core::OriginTrace trace_;
  nlohmann::ordered_json versions_, models_, before_, details_;
  emit::PackedText graphs_;
};

// {"version": 1, "kind": ..., ...}: what all reports begin with.
nlohmann::ordered_json report_heading(const char* kind, const std::vector<std::string>& arguments);

}  // namespace lowtide::tools
