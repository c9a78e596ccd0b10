// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/conversion_report.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "emit/conversion_details.h"
#include "emit/graph_rows.h"

namespace lowtide::tools {
namespace {

using Json = nlohmann::ordered_json;

// Of schemas/report.schema.json. Keys are only added, so it changes when one gets another meaning.
constexpr int kReportVersion = 1;

double microseconds(double seconds) { return std::round(seconds * 1e6) / 1e6; }

Json memory_values(const emit::Report& report, const ResidentMarks& marks) {
  Json samples = Json::array();
  for (const MemorySample& sample : marks.samples())
    samples.push_back({microseconds(sample.seconds), sample.anonymous, sample.file});
  return {{"limit", report.max_rss}, {"model", report.input_bytes}, {"samples", std::move(samples)}};
}

Json phase_values(const ResidentMarks& marks) {
  Json out = Json::array();
  for (const Phase& phase : marks.phases()) {
    out.push_back({{"name", phase.name},
                   {"begin", microseconds(phase.begin)},
                   {"seconds", microseconds(phase.seconds)},
                   {"bytes", phase.bytes}});
  }
  return out;
}

Json digest_values(const std::vector<emit::VerifiedTensor>& verified) {
  Json out = Json::array();
  for (const emit::VerifiedTensor& tensor : verified)
    out.push_back({{"tensor", tensor.tensor}, {"bytes", tensor.bytes}, {"xxh128", tensor.digest}});
  return out;
}

void append(Json& to, Json&& more) {
  for (auto& [key, value] : more.items()) to[key] = std::move(value);
}

}  // namespace

Json report_heading(const char* kind, const std::vector<std::string>& arguments) {
  Json command = Json::array({"lowtide"});
  for (const std::string& argument : arguments) command.push_back(argument);
  return {{"version", kReportVersion}, {"kind", kind}, {"command_line", std::move(command)}};
}

ConversionReport::ConversionReport(const OutputOptions& command)
    : command_(command),
      form_(report_form(command.report)),
      versions_(Json::object()),
      models_(Json::array()),
      before_(Json::object()) {}

void ConversionReport::on_read(const onnx::Model& model, const std::string& signature) {
  const Json counts = emit::operator_counts(model);
  for (const auto& [name, count] : counts.items())
    before_[name] = before_.value(name, uint64_t{0}) + count.get<uint64_t>();
  if (signature.empty()) {
    versions_ = emit::model_versions(model);
  } else {
    models_.push_back({{"signature", signature},
                       {"input", model.path},
                       {"nodes", model.graph.nodes.size()},
                       {"versions", emit::model_versions(model)}});
  }
}

void ConversionReport::after_pass(std::string_view pass, const core::Model& model) {
  if (pass == "lower" && form_ != ReportForm::kNodeData) trace_.lowered(model);
}

void ConversionReport::on_planned(core::Model& model, const emit::Plan& plan) {
  if (form_ == ReportForm::kNodeData) return emit::add_node_data(model, graphs_);
  if (!plan.min_runtime.empty()) versions_["min_runtime"] = plan.min_runtime;
  details_ = {{"operators_after", emit::operator_counts(model)},
              {"kept_transposes", emit::kept_transposes(model)},
              {"largest_tensors", emit::largest_tensors(model)},
              {"narrowed_types", emit::narrowed_types(model)}};
  emit::add_graph_rows(model, trace_, graphs_);
  trace_ = {};
}

Json ConversionReport::heading(const char* kind) const {
  Json out = report_heading(kind, command_.arguments);
  out["versions"] = {{"lowtide", LOWTIDE_VERSION}};
  out["versions"].update(versions_);
  out["models"] = models_;
  return out;
}

void ConversionReport::write(const emit::Report& report, const ResidentMarks& marks,
                             const std::vector<emit::VerifiedTensor>& verified) const {
  if (form_ == ReportForm::kNodeData) return write_packed(command_.report, graphs_);
  Json values = heading("conversion");
  append(values, emit::report_values(report));
  values["memory"] = memory_values(report, marks);
  values["phases"] = phase_values(marks);
  values["operators_before"] = before_;
  values.update(details_);
  values["digests"] = digest_values(verified);
  write_report(command_.report, form_, values, graphs_);
}

// There are no operators to which node data could be given.
void ConversionReport::write(const emit::Refusal& refusal) const {
  if (form_ == ReportForm::kNodeData) return;
  Json values = heading("refusal");
  values["operators_before"] = before_;
  append(values, emit::refusal_values(refusal));
  write_report(command_.report, form_, values, {});
}

}  // namespace lowtide::tools
