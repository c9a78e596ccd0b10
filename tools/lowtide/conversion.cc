// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/conversion.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <charconv>
#include <thread>

#include "emit/make_plan.h"
#include "stream/error.h"
#include "stream/onnx/reader.h"
#include "tools/lowtide/weight_modes.h"

namespace lowtide::tools {
namespace {

using layout::WeightForm;
using stream::Budget;
using stream::Error;

// "NAME=VALUE"; a name may hold '=' itself, a value does not.
std::pair<std::string, std::string> divide(const std::string& option, const std::string& text) {
  size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    usage_error(fmt::format("{}: '{}' is not of the form NAME=VALUE", option, text));
  return {text.substr(0, at), text.substr(at + 1)};
}

core::Shape parse_shape(const std::string& option, const std::string& text) {
  core::Shape shape;
  const char* at = text.data();
  const char* end = at + text.size();
  while (true) {
    int64_t extent = -1;
    auto [rest, error] = std::from_chars(at, end, extent);
    if (error != std::errc() || extent < 0 || (rest != end && *rest != ','))
      usage_error(fmt::format("{}: '{}' is not a list of extents such as 1,3,512,512", option, text));
    shape.push_back(extent);
    if (rest == end) return shape;
    at = rest + 1;
  }
}

layout::ConvertOptions layout_options(const ConversionOptions& options) {
  layout::ConvertOptions out;
  for (const std::string& text : options.shapes) {
    auto [name, shape] = divide("--shape", text);
    if (!out.shapes.emplace(name, parse_shape("--shape " + name, shape)).second)
      usage_error(fmt::format("--shape {} is given twice", name));
  }
  for (const std::string& text : options.layouts) {
    auto [name, layout] = divide("--layout", text);
    std::transform(layout.begin(), layout.end(), layout.begin(),
                   [](unsigned char letter) { return std::tolower(letter); });
    if (layout != "nhwc" && layout != "nchw")
      usage_error(fmt::format("--layout {}: the axis order '{}' is neither nhwc nor nchw", name, layout));
    if (!out.layouts.emplace(name, layout).second) usage_error(fmt::format("--layout {} is given twice", name));
  }
  out.require_integer = options.require_integer;
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

onnx::Model read_within(const ConversionOptions& options, const std::filesystem::path& folder, Budget& budget,
                        const MemoryLimit& limit) {
  try {
    return stream::read_onnx(options.input, budget, {.folder = folder, .max_ratio = options.max_zstd_ratio},
                             options.access);
  } catch (const stream::OverBudget& error) {
    limit.refuse_reading(error.needed());
  }
}

}  // namespace

int thread_count(const ConversionOptions& options) {
  if (options.threads > 0) return options.threads;
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 2u));
}

Planned plan_conversion(const ConversionOptions& options, const std::filesystem::path& folder, const Watchers& watchers,
                        const MemoryLimit& limit) {
  layout::ConvertOptions layout = layout_options(options);
  layout.weights.progress = watchers.progress;
  Planned out;
  try {
    limit.allow_graph(options.input);
    Budget budget(limit.graph_budget());
    onnx::Model onnx = read_within(options, folder, budget, limit);
    layout.after_pass = [&](std::string_view pass, const core::Model& model) {
      budget.set_limit(limit.graph_budget());  // it becomes smaller as the graph grows
      if (watchers.after_pass) watchers.after_pass(pass, model);
    };
    if (watchers.on_read) watchers.on_read(onnx);
    out.input_bytes = onnx.file_bytes + onnx.external_bytes;
    out.nodes = onnx.graph.nodes.size();
    layout::ConvertResult converted = layout::convert(onnx, layout, budget);
    // Constants that passes have read are not read again, so their files are checked for changes now.
    for (const auto& source : onnx.sources) source->check_unchanged();
    if (!converted.refused.empty())
      throw emit::Refusal{
          .input = options.input, .nodes = std::move(converted.refused), .not_judged = std::move(converted.not_judged)};
    out.notes = std::move(converted.notes);
    onnx = {};
    out.weights = std::move(converted.weights);
    out.integers = std::move(converted.integers);
    emit::WriteOptions write;
    write.external_buffers = options.external;
    if (weight_form(options.weights) == WeightForm::kInPlace) write.in_place = folder;
    out.plan = plan_tflite(*converted.model, write);
    if (watchers.on_planned) watchers.on_planned(*converted.model, out.plan);
    out.budget_peak = budget.high_water();
  } catch (Error& error) {
    error.add_place({.file = options.input});
    throw;
  }
  malloc_trim(0);  // memory of the graphs is returned before tiles are allocated
  return out;
}

}  // namespace lowtide::tools
