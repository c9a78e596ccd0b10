// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/convert_to_onnx.h"

#include <fmt/format.h>
#include <malloc.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "emit/events.h"
#include "emit/onnx_writer.h"
#include "emit/refusal.h"
#include "emit/report.h"
#include "layout/raise_model.h"
#include "stream/counted.h"
#include "stream/error.h"
#include "stream/file/file.h"
#include "stream/file/known_formats.h"
#include "stream/file/zstd_source.h"
#include "stream/printable.h"
#include "stream/tflite/reader.h"
#include "tools/library/custom_choice.h"
#include "tools/lowtide/conversion.h"
#include "tools/lowtide/interface_options.h"
#include "tools/lowtide/memory_limit.h"
#include "tools/lowtide/messages.h"
#include "tools/lowtide/output_run.h"
#include "tools/lowtide/progress_bar.h"
#include "tools/lowtide/resident.h"

namespace lowtide::tools {
namespace {

namespace fs = std::filesystem;
using stream::Budget;
using stream::counted;
using stream::Error;

// To decompress the first bytes of a model.
constexpr uint64_t kBeginningBudget = uint64_t{16} << 20;

// The file that external weights of the output would be in.
fs::path data_of(fs::path output) { return output += ".data"; }

// What belongs to the other direction.
void check_options(const ConvertCommand& o, const fs::path& output) {
  const std::pair<bool, const char*> given[] = {{!o.dims.empty(), "--dim"},
                                                {!o.constants.empty(), "--const"},
                                                {!o.outputs.empty(), "--outputs"},
                                                {!o.raw_images.empty(), "--input-uint8"},
                                                {!o.mean.empty(), "--mean"},
                                                {!o.std.empty(), "--std"},
                                                {!o.labels.empty(), "--labels"},
                                                {o.metadata, "--metadata"},
                                                {!o.follow_links.empty(), "--follow-links"},
                                                {!o.include.empty(), "--weights-include"},
                                                {!o.exclude.empty(), "--weights-exclude"},
                                                {o.weights != "stored", "--weights"},
                                                {o.external, "--external-buffers"},
                                                {!o.quantize.empty(), "--quantize"},
                                                {!o.ranges.empty(), "--ranges"},
                                                {!o.range.empty(), "--range"},
                                                {o.per_tensor, "--per-tensor"},
                                                {!o.equalize.empty(), "--equalize"},
                                                {!o.correct.empty(), "--correct"},
                                                {!o.keep_float.empty(), "--keep-float"},
                                                {o.require_integer, "--require-integer"},
                                                {o.tables, "--tables"},
                                                {o.zstd_level != 0, "--zstd-level"},
                                                {o.strict_types, "--strict-types"},
                                                {!o.made_for.empty(), "--for"},
                                                {!o.border.empty(), "--io int8, uint8 and float"},
                                                {o.access != stream::Access::kMap, "--io pread"},
                                                {!o.report.empty(), "--report"},
                                                {!o.dump_after.empty(), "--dump-after"},
                                                {!o.custom_ops_map.empty(), "--custom-ops-map"},
                                                {o.verify, "--verify-output"}};
  for (const auto& [is_given, name] : given)
    if (is_given) usage_error(fmt::format("{} is for ONNX models; {} is a TFLite model", name, o.input));
  if (o.output == "-") usage_error("a model that becomes ONNX is not written to standard output: name a file with -o");
  if (output.extension() == ".zst" || output.extension() == ".tflite") {
    fs::path name = output;
    if (name.extension() == ".zst") name.replace_extension();
    usage_error(fmt::format("{} is a TFLite model and becomes ONNX, which the output's name does not say: -o {}",
                            o.input, name.replace_extension(".onnx").string()));
  }
  if (stream::same_file(o.input, output))
    usage_error(fmt::format("the output {} is the input; give another name with -o", output.string()));
  check_log_place(o.log, output);
  check_log_place(o.log, data_of(output));
}

// Names in TFLite files have no domain; that of the nodes that they become may be given.
layout::KeptOperators kept_operators(const std::string& allowed) {
  const layout::CustomChoice choice = custom_choice(allowed, {});
  layout::KeptOperators out{.all = choice.all, .named = {}};
  for (const layout::OperatorName& name : choice.named) {
    if (name.domain.value_or(layout::kKeptDomain) != layout::kKeptDomain)
      usage_error(fmt::format("--custom-ops: operators of a TFLite model have no domain '{}'", *name.domain));
    out.named.insert(name.op);
  }
  return out;
}

layout::RaiseResult raise(const ConvertCommand& options, const fs::path& folder, const MemoryLimit& limit,
                          Budget& budget) {
  layout::ConvertOptions interface;
  set_interface(options, interface);
  layout::RaiseOptions raise;
  raise.layouts = interface.layouts;
  if (options.opset != 0) raise.opset = options.opset;
  raise.file = {kept_operators(options.custom_ops), interface.signature, std::move(interface.shapes)};
  limit.allow_graph(options.input);
  tfl::Model model;
  try {
    model = stream::read_tflite(options.input, budget, {.folder = folder, .max_ratio = options.max_zstd_ratio});
  } catch (const stream::OverBudget& error) {
    limit.refuse_reading(error.needed());
  }
  try {
    layout::RaiseResult result = layout::raise_model(model, raise, budget);
    for (const tfl::ExternalFile& file : model.external_files) result.model.external_bytes += file.bytes;
    for (const auto& source : result.model.sources) source->check_unchanged();
    if (!result.refused.empty())
      throw emit::Refusal{.input = options.input, .nodes = std::move(result.refused), .not_judged = {}};
    return result;
  } catch (Error& error) {
    error.add_place({.file = options.input});
    throw;
  }
}

void print_summary(const emit::Report& report, const layout::RaiseResult& raised) {
  fmt::print("{} {}: opset {}, {} ({}), {}, {:.3f} s, peak RSS {}\n", report.dry_run ? "would write" : "wrote",
             stream::printable(report.output), raised.model.opsets.at(""), counted(report.nodes, "node"),
             counted(raised.transposes, "Transpose"), counted(report.written.tensors, "initializer"), report.seconds,
             emit::memory_size(report.peak_rss));
  for (const std::string& note : report.notes) fmt::print("note: {}\n", stream::printable(note));
}

}  // namespace

bool is_tflite(const std::string& input) {
  if (input == "-") return false;
  const auto source = stream::open_file(input);
  if (!input.ends_with(".zst")) return stream::begins_like_tflite(stream::first_bytes(*source));
  // What is damaged is told by the reader, which the name chooses then.
  try {
    Budget budget(kBeginningBudget);
    const auto first = stream::first_decompressed_bytes(*source, budget);
    if (stream::begins_like_tflite(first) || stream::begins_like_onnx(first)) return stream::begins_like_tflite(first);
  } catch (const Error&) {
  }
  return input.ends_with(".tflite.zst");
}

void convert_to_onnx(const ConvertCommand& options, const fs::path& output) {
  const auto begun = std::chrono::steady_clock::now();
  check_options(options, output);
  if (options.progress_fd >= 0) check_progress_fd(options.progress_fd);
  ResidentMarks marks;
  ProgressBar bar(options.quiet, marks, options.progress_fd);
  MemoryLimit limit(options.max_rss);
  emit::Report report;
  report.input = options.input;
  report.output = output.string();
  report.dry_run = options.dry_run;
  report.threads = thread_count(options);
  // A compressed model's sources hold memory of it as long as weights are read from them.
  Budget reading(limit.graph_budget());
  const layout::RaiseResult raised = raise(options, output.parent_path(), limit, reading);
  report.budget_peak = reading.high_water();
  marks.sample();
  malloc_trim(0);  // memory of the graphs is returned before tiles are allocated
  emit::OnnxWriteOptions write;
  if (options.external_data) write.weights = emit::OnnxWriteOptions::Weights::kExternal;
  write.progress = &bar;
  write.threads = report.threads;
  try {
    const emit::OnnxPlan plan = emit::plan_onnx(raised.model, output, write);
    if (options.dry_run) refuse_needed_files(plan, raised.model, output);  // as write_onnx does
    Budget budget(limit.writing_budget(least_budget(plan), write.threads));
    report.max_rss = limit.bytes();
    const emit::OnnxWriteResult written =
        options.dry_run ? summary(plan) : write_onnx(plan, raised.model, output, budget, write);
    report.budget_peak = std::max(report.budget_peak, budget.high_water());
    report.written.file_bytes = written.file_bytes + written.data_bytes;
  } catch (Error& error) {
    error.add_place({.file = options.input});
    throw;
  }
  bar.finish();
  marks.sample();
  report.notes = raised.notes;
  report.input_bytes = raised.model.file_bytes + raised.model.external_bytes;
  report.nodes = raised.model.graph.nodes.size();
  report.written.operators = raised.operators;
  report.written.transposes = raised.transposes;
  report.written.tensors = raised.model.graph.initializers.size();
  for (const onnx::Tensor& tensor : raised.model.graph.initializers)
    report.written.payload_bytes += tensor.data->bytes();
  report.peak_rss = marks.highest();
  report.peak_anonymous = marks.anonymous();
  report.peak_file = marks.file();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  for (const std::string& note : report.notes) spdlog::warn("{}", stream::printable(note));
  spdlog::info("{} {}: {} nodes, {} bytes, {:.3f} s, peak RSS {}", options.dry_run ? "planned" : "wrote",
               stream::printable(output.string()), report.nodes, report.written.file_bytes, report.seconds,
               emit::memory_size(report.peak_rss));
  if (!options.quiet) print_summary(report, raised);
  flush_output();
  if (options.progress_fd >= 0) write_event(options.progress_fd, done_line(report));
}

}  // namespace lowtide::tools
