// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/interface_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "layout/interface.h"
#include "stream/error.h"
#include "tools/lowtide/input_constants.h"

namespace lowtide::tools {
namespace {

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

std::map<std::string, int64_t> parse_dims(const ConversionOptions& options) {
  std::map<std::string, int64_t> out;
  for (const std::string& text : options.dims) {
    const auto [name, value] = name_and_value("--dim", text);
    int64_t extent = -1;
    const char* end = value.data() + value.size();
    const auto [rest, error] = std::from_chars(value.data(), end, extent);
    if (error != std::errc() || rest != end || extent < 0)
      usage_error(fmt::format("--dim {}: '{}' is not an extent such as 1", name, value));
    if (!out.emplace(name, extent).second) usage_error(fmt::format("--dim {} is given twice", name));
  }
  return out;
}

// --dim and --shape may both fix one axis, to the same extent.
void check_dims_and_shapes(const onnx::Model& model, const std::map<std::string, int64_t>& dims,
                           const std::map<std::string, core::Shape>& shapes) {
  for (const onnx::ValueInfo& input : model.graph.inputs) {
    const auto shape = shapes.find(input.name);
    if (shape == shapes.end()) continue;
    for (size_t i = 0; i < std::min(input.dims.size(), shape->second.size()); ++i) {
      const auto dim = dims.find(input.dims[i].symbol);
      if (input.dims[i].value < 0 && dim != dims.end() && dim->second != shape->second[i])
        usage_error(fmt::format("--dim {}={} and --shape {} contradict each other: axis {} is {} there", dim->first,
                                dim->second, input.name, i, shape->second[i]));
    }
  }
}

}  // namespace

std::pair<std::string, std::string> name_and_value(const std::string& option, const std::string& text) {
  size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    usage_error(fmt::format("{}: '{}' is not of the form NAME=VALUE", option, text));
  return {text.substr(0, at), text.substr(at + 1)};
}

void set_interface(const ConversionOptions& options, layout::ConvertOptions& out) {
  for (const std::string& text : options.shapes) {
    auto [name, shape] = name_and_value("--shape", text);
    if (!out.shapes.emplace(name, parse_shape("--shape " + name, shape)).second)
      usage_error(fmt::format("--shape {} is given twice", name));
  }
  for (const std::string& text : options.layouts) {
    auto [name, layout] = name_and_value("--layout", text);
    std::transform(layout.begin(), layout.end(), layout.begin(),
                   [](unsigned char letter) { return std::tolower(letter); });
    if (layout != "nhwc" && layout != "nchw")
      usage_error(fmt::format("--layout {}: the axis order '{}' is neither nhwc nor nchw", name, layout));
    if (!out.layouts.emplace(name, layout).second) usage_error(fmt::format("--layout {} is given twice", name));
  }
  out.signature = options.signature;
}

void edit_interface(const ConversionOptions& options, const std::map<std::string, core::Shape>& shapes,
                    onnx::Model& model) {
  const std::map<std::string, int64_t> dims = parse_dims(options);
  check_dims_and_shapes(model, dims, shapes);
  layout::fix_dimensions(model, dims);
  std::map<std::string, stream::RecipeRef> constants;
  for (const std::string& text : options.constants) {
    const auto [name, value] = name_and_value("--const", text);
    if (shapes.contains(name)) usage_error(fmt::format("--const {} and --shape {} exclude each other", name, name));
    const onnx::ValueInfo& input = layout::find_input(model, "--const", name);
    if (!constants.emplace(name, input_constant(model, input, value)).second)
      usage_error(fmt::format("--const {} is given twice", name));
  }
  layout::freeze_inputs(model, constants);
  layout::choose_outputs(model, options.outputs);
}

}  // namespace lowtide::tools
