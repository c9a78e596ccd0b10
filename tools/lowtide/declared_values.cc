// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/declared_values.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <sstream>
#include <string_view>

#include "stream/dtype.h"
#include "stream/nearest_name.h"
#include "tools/lowtide/command_line.h"
#include "tools/lowtide/interface_options.h"

namespace lowtide::tools {
namespace {

stream::DType element_type(const std::string& name, const std::string& type) {
  std::vector<std::string> names;
  for (int number = 0; number < static_cast<int>(stream::DType::kUndefined); ++number) {
    const auto dtype = static_cast<stream::DType>(number);
    if (stream::dtype_name(dtype) == type) return dtype;
    names.emplace_back(stream::dtype_name(dtype));
  }
  usage_error(fmt::format("--value {}: '{}' is no element type{} (types: {})", name, type,
                          stream::did_you_mean(type, names), fmt::join(names, ", ")));
}

onnx::Dimension dimension(const std::string& name, const std::string& text) {
  if (text == "?") return {};
  int64_t extent = -1;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, extent);
  if (error == std::errc() && rest == end && extent >= 0) return {extent, ""};
  if (text.empty() || std::isalpha(static_cast<unsigned char>(text[0])) == 0)
    usage_error(fmt::format("--value {}: '{}' is neither an extent, nor a name, nor ?", name, text));
  return {-1, text};
}

}  // namespace

std::map<std::string, onnx::ValueInfo> declared_values(const std::vector<std::string>& texts) {
  std::map<std::string, onnx::ValueInfo> out;
  for (const std::string& text : texts) {
    const auto [name, type] = name_and_value("--value", text);
    const size_t open = type.find('[');
    if (open == std::string::npos || type.back() != ']')
      usage_error(fmt::format("--value {}: '{}' is not of the form f32[1,n,?]", name, type));
    onnx::ValueInfo info;
    info.name = name;
    info.type = onnx::ValueInfo::Type::kTensor;
    info.dtype = element_type(name, type.substr(0, open));
    info.has_shape = true;
    std::string dims = type.substr(open + 1, type.size() - open - 2);
    if (!dims.empty()) dims += ',';  // so that an extent that is missing at the end is seen
    std::istringstream rest(dims);
    for (std::string dim; std::getline(rest, dim, ',');) info.dims.push_back(dimension(name, dim));
    if (!out.emplace(name, std::move(info)).second) usage_error(fmt::format("--value {} is given twice", name));
  }
  return out;
}

}  // namespace lowtide::tools
