// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/conversion.h"

#include <fmt/format.h>
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <map>
#include <thread>

#include "emit/make_plan.h"
#include "stream/error.h"
#include "stream/onnx/reader.h"
#include "stream/printable.h"
#include "tools/lowtide/commands.h"
#include "tools/lowtide/option_values.h"

namespace {

using lowtide::layout::WeightForm;
using lowtide::stream::Budget;
using lowtide::stream::Code;
using lowtide::stream::Error;
using lowtide::stream::Unsupported;

const std::map<std::string, WeightForm> kWeights = {{"float", WeightForm::kFloat},
                                                    {"f16", WeightForm::kHalf},
                                                    {"int8", WeightForm::kInt8},
                                                    {"int4", WeightForm::kInt4},
                                                    {"in-place", WeightForm::kInPlace}};

[[noreturn]] void usage(std::string text) { throw Error(Code::kUsage, std::move(text)); }

// "NAME=VALUE"; a name may hold '=' itself, a value does not.
std::pair<std::string, std::string> divide(const std::string& option, const std::string& text) {
  size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    usage(fmt::format("{} '{}' is not of the form NAME=VALUE", option, text));
  return {text.substr(0, at), text.substr(at + 1)};
}

lowtide::core::Shape parse_shape(const std::string& option, const std::string& text) {
  lowtide::core::Shape shape;
  const char* at = text.data();
  const char* end = at + text.size();
  while (true) {
    int64_t extent = -1;
    auto [rest, error] = std::from_chars(at, end, extent);
    if (error != std::errc() || extent < 0 || (rest != end && *rest != ','))
      usage(fmt::format("{}: '{}' is not a list of extents such as 1,3,512,512", option, text));
    shape.push_back(extent);
    if (rest == end) return shape;
    at = rest + 1;
  }
}

lowtide::layout::ConvertOptions layout_options(const ConversionOptions& options) {
  lowtide::layout::ConvertOptions out;
  for (const std::string& text : options.shapes) {
    auto [name, shape] = divide("--shape", text);
    if (!out.shapes.emplace(name, parse_shape("--shape " + name, shape)).second)
      usage(fmt::format("--shape {} is given twice", name));
  }
  for (const std::string& text : options.layouts) {
    auto [name, layout] = divide("--layout", text);
    if (layout != "nhwc" && layout != "nchw")
      usage(fmt::format("--layout {}: '{}' is neither nhwc nor nchw", name, layout));
    if (!out.layouts.emplace(name, layout).second) usage(fmt::format("--layout {} is given twice", name));
  }
  out.weights.form = options.weight_form();
  out.weights.include = options.include;
  out.weights.exclude = options.exclude;
  out.weights.threads = options.thread_count();
  const bool same_bits = out.weights.form == WeightForm::kFloat || out.weights.form == WeightForm::kInPlace;
  if (same_bits && !(options.include.empty() && options.exclude.empty()))
    usage("--weights-include and --weights-exclude choose among what --weights f16, int8 or int4 changes: give one");
  return out;
}

lowtide::onnx::Model read(const std::string& input, const std::filesystem::path& folder, Budget& budget,
                          const MemoryLimit& limit) {
  try {
    return lowtide::stream::read_onnx(input, budget, folder);
  } catch (const lowtide::stream::OverBudget& error) {
    limit.refuse_reading(error.needed());
  }
}

// All refused nodes at once, those with one reason together; a single one is an error like any other.
[[noreturn]] void refuse(const std::vector<Unsupported>& refused, const std::string& input) {
  if (refused.size() == 1) throw Unsupported(refused[0]);
  std::map<std::string, std::vector<std::string>> nodes_of;
  for (const Unsupported& node : refused)
    nodes_of[fmt::format("{}: {}", node.where().op, node.text())].push_back(node.where().node);
  // Names come from the file.
  auto print = [](const std::string& line) { fmt::print(stderr, "{}\n", lowtide::stream::printable(line)); };
  print(fmt::format("lowtide: {}: {} nodes cannot be converted [unsupported]", input, refused.size()));
  for (const auto& [reason, nodes] : nodes_of) {
    print(fmt::format("  {} ({} node{})", reason, nodes.size(), nodes.size() == 1 ? "" : "s"));
    for (const std::string& node : nodes) print("    " + node);
  }
  throw Exit{lowtide::stream::exit_status(Code::kUnsupported)};
}

}  // namespace

WeightForm ConversionOptions::weight_form() const { return kWeights.at(weights); }

int ConversionOptions::thread_count() const {
  if (threads > 0) return threads;
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 2u));
}

void add_conversion_options(CLI::App& command, ConversionOptions& options) {
  file_name(command.add_option("model", options.input, "The ONNX model (.onnx or .onnx.zst)"))->required();
  size(command.add_option("--max-rss", options.max_rss,
                          "Resident memory to stay below; K, M, G are powers of 1024 (default: 32M, more for very "
                          "large graphs)"));
  command.add_option("--shape", options.shapes, "Fixes a dynamic input's shape; may be repeated")
      ->type_name("INPUT=1,3,512,512")
      ->allow_extra_args(false);
  command
      .add_option("--layout", options.layouts,
                  "Gives an input or output TFLite's axis order instead of ONNX's; may be repeated")
      ->type_name("NAME=nhwc")
      ->allow_extra_args(false);
  command
      .add_option("--threads", options.threads, "Threads that pour weights (default: 2, fewer on a smaller machine)")
      ->check(CLI::Range(1, 256));
  command
      .add_option("--weights", options.weights,
                  "What becomes of the weights: float (the default); f16, int8 or int4: fewer bits, where kernels take "
                  "them; or in-place: what needs no change is not copied but read from the ONNX model's own files")
      ->check(CLI::IsMember(kWeights).description(""))
      ->type_name("MODE");
  command
      .add_option("--weights-include", options.include,
                  "Make only weights smaller whose name, or whose node's, is like this; may be repeated")
      ->type_name("PATTERN")
      ->allow_extra_args(false);
  command.add_option("--weights-exclude", options.exclude, "Leave weights of such a name as they are; may be repeated")
      ->type_name("PATTERN")
      ->allow_extra_args(false);
  command.add_flag("--external-buffers", options.external,
                   "Put weights behind the flatbuffer whatever the size (files over 2 GiB always have them there)");
  command.add_flag("--quiet", options.quiet, "Print errors only");
}

Planned plan_conversion(const ConversionOptions& options, const std::filesystem::path& folder, const Watchers& watchers,
                        const MemoryLimit& limit) {
  lowtide::layout::ConvertOptions layout = layout_options(options);
  layout.weights.progress = watchers.progress;
  Planned out;
  try {
    limit.allow_graph(options.input);
    Budget budget(limit.graph_budget());
    lowtide::onnx::Model onnx = read(options.input, folder, budget, limit);
    layout.after_pass = [&](std::string_view pass, const lowtide::core::Model& model) {
      budget.set_limit(limit.graph_budget());  // which is less as the graph grows
      if (watchers.after_pass) watchers.after_pass(pass, model);
    };
    if (watchers.on_read) watchers.on_read(onnx);
    out.input_bytes = onnx.file_bytes + onnx.external_bytes;
    out.nodes = onnx.graph.nodes.size();
    lowtide::layout::ConvertResult converted = lowtide::layout::convert(onnx, layout, budget);
    // Constants that the passes have read are not read again: what they are read from is looked at now.
    for (const auto& source : onnx.sources) source->check_unchanged();
    if (!converted.refused.empty()) refuse(converted.refused, options.input);
    onnx = {};
    out.weights = std::move(converted.weights);
    lowtide::emit::WriteOptions write;
    write.external_buffers = options.external;
    if (options.weight_form() == WeightForm::kInPlace) write.in_place = folder;
    out.plan = plan_tflite(*converted.model, write);
    out.budget_peak = budget.high_water();
  } catch (Error& error) {
    error.add_place({.file = options.input});
    throw;
  }
  malloc_trim(0);  // what reading, the passes and the plan needed goes back before tiles take its place
  return out;
}
