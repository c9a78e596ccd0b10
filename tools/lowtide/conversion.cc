// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/conversion.h"

#include <fmt/format.h>
#include <malloc.h>

#include <optional>
#include <utility>

#include "emit/make_plan.h"
#include "stream/error.h"
#include "stream/onnx/reader.h"
#include "stream/printable.h"
#include "tools/library/custom_choice.h"
#include "tools/library/ranges_file.h"
#include "tools/lowtide/for_target.h"
#include "tools/lowtide/interface_options.h"
#include "tools/lowtide/weight_modes.h"

namespace lowtide::tools {
namespace {

using layout::WeightForm;
using stream::Budget;
using stream::DType;
using stream::Error;

layout::ConvertOptions layout_options(const ConversionOptions& options) {
  layout::ConvertOptions out;
  out.require_integer = options.require_integer;
  out.tables = options.tables;
  out.strict_types = options.strict_types;
  // Outputs that are named stay outputs, and calibration saw the functions' bodies.
  out.keep_states = options.outputs.empty() && options.quantize.empty();
  if (!options.made_for.empty()) {
    const ForTarget target = read_for_target(options.made_for);
    const auto* builtin = std::get_if<BuiltinTarget>(&target);
    out.for_gpu = builtin != nullptr && builtin->gpu_forms;
  }
  if (out.for_gpu && out.tables) usage_error("--for gpu and --tables exclude each other: GPU delegates take no tables");
  out.custom = custom_choice(options.custom_ops, options.custom_ops_map);
  if (!options.border.empty())
    out.border = options.border == "int8"    ? stream::DType::kInt8
                 : options.border == "uint8" ? stream::DType::kUint8
                                             : stream::DType::kFloat32;
  out.weights.form = weight_form(options.weights);
  out.weights.include = options.include;
  out.weights.exclude = options.exclude;
  out.weights.threads = thread_count(options);
  const bool same_bits = out.weights.form == WeightForm::kStored || out.weights.form == WeightForm::kFloat ||
                         out.weights.form == WeightForm::kInPlace;
  if (same_bits && !(options.include.empty() && options.exclude.empty()))
    usage_error("--weights-include and --weights-exclude need --weights f16, int8 or int4");
  return out;
}

// What a target of ONNX nodes takes, and how the model is divided by it.
core::TargetCoverage node_coverage(const ConversionOptions& options, const onnx::Model& model,
                                   const std::map<std::string, core::Shape>& shapes, Budget& budget) {
  if (options.made_for.empty()) return {};
  const ForTarget target = read_for_target(options.made_for);
  const auto* of_nodes = std::get_if<Target>(&target);
  return of_nodes != nullptr ? coverage(*of_nodes, model, shapes, budget) : core::TargetCoverage();
}

onnx::Model read_within(const ConversionOptions& options, const std::filesystem::path& folder, Budget& budget,
                        const MemoryLimit& limit) {
  try {
    return stream::read_onnx(options.input, budget, {.folder = folder, .max_ratio = options.max_zstd_ratio},
                             options.access, options.follow_links);
  } catch (const stream::OverBudget& error) {
    limit.refuse_reading(error.needed());
  }
}

// --quantize and what goes with it.
std::optional<layout::Calibrated> calibrated(const ConversionOptions& options, const layout::WeightOptions& weights) {
  if (options.quantize.empty()) {
    const char* given = !options.ranges.empty()       ? "--ranges"
                        : !options.range.empty()      ? "--range"
                        : options.per_tensor          ? "--per-tensor"
                        : !options.equalize.empty()   ? "--equalize"
                        : !options.correct.empty()    ? "--correct"
                        : !options.keep_float.empty() ? "--keep-float"
                                                      : nullptr;
    if (given != nullptr) usage_error(fmt::format("{} needs --quantize int8 or int16x8", given));
    return std::nullopt;
  }
  if (options.ranges.empty())
    usage_error(fmt::format("--quantize {} needs --ranges FILE, which lowtide calibrate writes", options.quantize));
  if (weights.form != WeightForm::kStored && weights.form != WeightForm::kFloat && weights.form != WeightForm::kHalf)
    usage_error(fmt::format("--quantize and --weights {} exclude each other", options.weights));
  if (!options.raw_images.empty() || !options.constants.empty())
    usage_error(fmt::format("--quantize and {} exclude each other: calibration saw the model's own inputs",
                            options.constants.empty() ? "--input-uint8" : "--const"));
  const DType activations = options.quantize == "int8" ? DType::kInt8 : DType::kInt16;
  layout::Calibrated out = read_ranges(options.ranges, {options.range, options.equalize, options.correct}, activations);
  out.per_tensor = options.per_tensor;
  out.keep_float = options.keep_float;
  out.threads = weights.threads;
  return out;
}

}  // namespace

int thread_count(const ConversionOptions& options) { return options.threads > 0 ? options.threads : default_threads(); }

Converted convert_graph(const ConversionOptions& options, const std::filesystem::path& folder, const Watchers& watchers,
                        const MemoryLimit& limit, Budget& budget) {
  layout::ConvertOptions layout = layout_options(options);
  layout.weights.progress = watchers.progress;
  layout.calibrated = calibrated(options, layout.weights);
  Converted out;
  try {
    set_interface(options, layout);
    limit.allow_graph(options.input);
    onnx::Model onnx = read_within(options, folder, budget, limit);
    layout.after_pass = [&](std::string_view pass, const core::Model& model) {
      budget.set_limit(limit.graph_budget());  // it becomes smaller as the graph grows
      if (watchers.after_pass) watchers.after_pass(pass, model);
    };
    if (layout.calibrated) layout::check_calibrated(*layout.calibrated, onnx.graph);
    edit_interface(options, layout.shapes, onnx);
    std::optional<core::ModelNotes> notes = model_notes(options, onnx);
    if (watchers.on_read) watchers.on_read(onnx);
    out.input_bytes = onnx.file_bytes + onnx.external_bytes;
    out.nodes = onnx.graph.nodes.size();
    out.coverage = node_coverage(options, onnx, layout.shapes, budget);
    out.result = layout::convert(onnx, layout, budget);
    if (!out.coverage.outside.empty())
      out.result.notes.push_back(
          fmt::format("lowtide partition --target {} divides the model between the target and ONNX Runtime",
                      stream::printable(options.made_for)));
    if (options.tables && out.result.integers.operators == 0)
      out.result.notes.push_back("--tables has no effect: no operator computes integers that stand for numbers");
    // Constants that passes have read are not read again, so their files are checked for changes now.
    for (const auto& source : onnx.sources) source->check_unchanged();
    if (!out.result.refused.empty())
      throw emit::Refusal{.input = stream::shown_path(options.input),
                          .nodes = std::move(out.result.refused),
                          .not_judged = std::move(out.result.not_judged),
                          .in_floats = out.result.refused_floats};
    out.result.model->notes = std::move(notes);
  } catch (Error& error) {
    error.add_place({.file = stream::shown_path(options.input)});
    throw;
  }
  return out;
}

Planned plan_conversion(const ConversionOptions& options, const std::filesystem::path& folder, const Watchers& watchers,
                        const MemoryLimit& limit) {
  Planned out;
  {
    Budget budget(limit.graph_budget());
    Converted converted = convert_graph(options, folder, watchers, limit, budget);
    out.input_bytes = converted.input_bytes;
    out.nodes = converted.nodes;
    out.notes = std::move(converted.result.notes);
    out.coverage = std::move(converted.coverage);
    out.weights = std::move(converted.result.weights);
    out.integers = std::move(converted.result.integers);
    out.narrowed = std::move(converted.result.narrowed);
    emit::WriteOptions write;
    write.external_buffers = options.external;
    if (weight_form(options.weights) == WeightForm::kInPlace) write.in_place = folder;
    try {
      out.plan = plan_tflite(*converted.result.model, write);
    } catch (Error& error) {
      error.add_place({.file = stream::shown_path(options.input)});
      throw;
    }
    if (watchers.on_planned) watchers.on_planned(*converted.result.model, out.plan);
    out.budget_peak = budget.high_water();
  }
  malloc_trim(0);  // memory of the graphs is returned before tiles are allocated
  return out;
}

}  // namespace lowtide::tools
