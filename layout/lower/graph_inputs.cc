// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/graph_inputs.h"

#include <fmt/format.h>

#include <limits>

#include "stream/error.h"
#include "stream/shape.h"

namespace lowtide::layout {

using stream::Code;
using stream::Error;

void check_listed(const onnx::ValueInfo& info, const core::Value& initializer) {
  // String tensors have no element type here.
  if (info.type == onnx::ValueInfo::Type::kNone || initializer.dtype == core::DType::kUndefined) return;
  bool agrees = info.type == onnx::ValueInfo::Type::kTensor &&
                (info.dtype == initializer.dtype || is_half(info.dtype)) &&
                (!info.has_shape || info.dims.size() == initializer.shape.size());
  for (size_t i = 0; agrees && i < info.dims.size(); ++i)
    agrees = info.dims[i].value < 0 || info.dims[i].value == initializer.shape[i];
  if (agrees) return;
  core::Shape listed;
  for (const onnx::Dimension& dim : info.dims) listed.push_back(dim.value);
  throw Error(Code::kMalformed,
              fmt::format("the initializer '{}' is {}{}, and the graph's inputs list it as {}{}", info.name,
                          dtype_name(initializer.dtype), stream::to_string(initializer.shape), dtype_name(info.dtype),
                          stream::to_string(listed)));
}

void check_is_numeric(const onnx::ValueInfo& info) {
  if (info.type == onnx::ValueInfo::Type::kNone)
    throw Error(Code::kMalformed, fmt::format("the input '{}' has no type", info.name));
  if (info.type != onnx::ValueInfo::Type::kTensor || info.dtype == core::DType::kString)
    throw Error(Code::kUnsupported, fmt::format("the input '{}' is not a numeric tensor", info.name));
  if (info.dtype == core::DType::kUndefined)
    throw Error(Code::kMalformed, fmt::format("the input '{}' has no element type", info.name));
}

core::Shape input_shape(const onnx::ValueInfo& info, const std::map<std::string, core::Shape>& shapes,
                        core::Symbols& symbols) {
  auto given = shapes.find(info.name);
  if (given != shapes.end()) {
    if (!info.has_shape) return given->second;
    if (info.dims.size() != given->second.size())
      throw Error(Code::kUsage, fmt::format("--shape {}: the input has rank {}, not {}", info.name, info.dims.size(),
                                            given->second.size()));
    for (size_t i = 0; i < info.dims.size(); ++i) {
      const int64_t fixed = info.dims[i].value, wanted = given->second[i];
      if (fixed < 0 || fixed == wanted || (i == 0 && fixed > 0 && wanted > 0)) continue;
      throw Error(
          Code::kUsage,
          fmt::format("--shape {}: axis {} is {} in the model and cannot become {}; only the batch, axis 0, of a "
                      "fixed shape can be changed",
                      info.name, i, fixed, wanted));
    }
    return given->second;
  }
  if (!info.has_shape)
    throw Error(Code::kUnsupported,
                fmt::format("the input '{}' has no shape; give it by --shape {}=...", info.name, info.name));
  core::Shape shape;
  for (size_t i = 0; i < info.dims.size(); ++i) {
    const onnx::Dimension& dim = info.dims[i];
    if (dim.value >= 0)
      shape.push_back(dim.value);
    else if (!dim.has_name())
      shape.push_back(symbols.fresh(fmt::format("{}.{}", info.name, i)));
    else
      shape.push_back(symbols.named(dim.symbol));
  }
  return shape;
}

void check_extents(const std::string& input, const core::Shape& shape) {
  for (const core::Dim extent : shape)
    if (extent > std::numeric_limits<int32_t>::max())
      throw Error(
          Code::kUnsupported,
          fmt::format("the input '{}' has an extent of {}, which does not fit TFLite's 32 bits", input, extent));
}

}  // namespace lowtide::layout
