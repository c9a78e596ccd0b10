// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/interface_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <span>
#include <string_view>
#include <unordered_set>

#include "layout/interface.h"
#include "stream/error.h"
#include "stream/file/file.h"
#include "stream/nearest_name.h"
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

// Of --mean or --std.
std::vector<float> parse_floats(const std::string& option, const std::string& text, float otherwise) {
  std::vector<float> out;
  if (text.empty()) return {otherwise};
  const char* at = text.data();
  const char* end = at + text.size();
  while (true) {
    float number = 0;
    const auto [rest, error] = std::from_chars(at, end, number);
    if (error != std::errc() || !std::isfinite(number) || (rest != end && *rest != ','))
      usage_error(fmt::format("{}: '{}' is not a list of numbers such as 123.7,116.3,103.5", option, text));
    out.push_back(number);
    if (rest == end) return out;
    at = rest + 1;
  }
}

layout::RawImages raw_images(const ConversionOptions& options) {
  layout::RawImages out{.names = options.raw_images,
                        .mean = parse_floats("--mean", options.mean, 0),
                        .std = parse_floats("--std", options.std, 1)};
  if (std::find(out.std.begin(), out.std.end(), 0) != out.std.end()) usage_error("--std: a divisor of 0");
  if (out.mean.size() != out.std.size() && out.mean.size() > 1 && out.std.size() > 1)
    usage_error(fmt::format("--mean has {} values, and --std has {}", out.mean.size(), out.std.size()));
  return out;
}

// Of an image: the extent of the axis that has a value for each, or that images usually have.
uint64_t channels_of(const onnx::ValueInfo& input, size_t values) {
  if (values > 1) return static_cast<uint64_t>(input.dims[layout::channel_axis(input, values)].value);
  for (const int64_t channels : {3, 1})
    for (const size_t axis : {size_t{1}, input.dims.size() - 1})
      if (axis < input.dims.size() && input.dims[axis].value == channels) return static_cast<uint64_t>(channels);
  return 0;
}

// Of --const: names of inputs and of files may have '=' too, so the longest name that an input has is taken.
std::pair<std::string, std::string> input_and_value(const onnx::Model& model, const std::string& text) {
  const std::vector<std::string> names = layout::input_names(model);
  const std::unordered_set<std::string_view> inputs(names.begin(), names.end());
  for (size_t at = text.rfind('='); at != std::string::npos && at > 0; at = text.rfind('=', at - 1))
    if (inputs.contains(std::string_view(text).substr(0, at)) && at + 1 < text.size())
      return {text.substr(0, at), text.substr(at + 1)};
  return name_and_value("--const", text);
}

std::string read_labels(const std::string& path) {
  constexpr uint64_t kMost = uint64_t{1} << 20;
  const auto file = stream::open_file(path);
  if (file->size() == 0 || file->size() > kMost)
    throw stream::Error(stream::Code::kUsage,
                        fmt::format("--labels: {} has {} bytes; a label file has 1 to {}", path, file->size(), kMost));
  std::string text(file->size(), '\0');
  file->read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
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
    const auto [name, value] = input_and_value(model, text);
    if (shapes.contains(name)) usage_error(fmt::format("--const {} and --shape {} exclude each other", name, name));
    const onnx::ValueInfo& input = layout::find_input(model, "--const", name);
    if (!constants.emplace(name, input_constant(model, input, value)).second)
      usage_error(fmt::format("--const {} is given twice", name));
  }
  layout::freeze_inputs(model, constants);
  layout::take_raw_images(model, raw_images(options));
  layout::choose_outputs(model, options.outputs);
}

std::optional<core::ModelNotes> model_notes(const ConversionOptions& options, const onnx::Model& model) {
  const bool normalizes = !options.mean.empty() || !options.std.empty();
  if (!options.metadata && !normalizes && options.labels.empty()) return std::nullopt;
  core::ModelNotes notes;
  notes.name = model.graph.name;
  notes.description = model.doc_string;
  if (model.model_version > 0) notes.version = std::to_string(model.model_version);
  notes.onnx = model.metadata;
  auto prop = [&](const char* key) {
    const auto found = model.metadata.find(key);
    return found == model.metadata.end() ? std::string() : found->second;
  };
  notes.author = prop("author");
  notes.license = prop("license");
  const layout::RawImages images = raw_images(options);
  const size_t values = std::max(images.mean.size(), images.std.size());
  for (const std::string& name : images.names) {
    const onnx::ValueInfo& input = layout::find_input(model, "--input-uint8", name);
    notes.inputs[name] = {{0}, {1}, channels_of(input, values)};
  }
  if (images.names.empty() && normalizes) {
    const std::vector<std::string> names = layout::input_names(model);
    const char* option = options.mean.empty() ? "--std" : "--mean";
    if (names.size() != 1)
      usage_error(fmt::format("{} needs --input-uint8 INPUT where the model has not one input (inputs: {})", option,
                              stream::listed(names)));
    const onnx::ValueInfo& input = layout::find_input(model, option, names[0]);
    notes.inputs[input.name] = {images.mean, images.std, channels_of(input, values)};
  }
  if (!options.labels.empty()) notes.labels = read_labels(options.labels);
  return notes;
}

}  // namespace lowtide::tools
