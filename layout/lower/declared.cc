// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/declared.h"

namespace lowtide::layout {

using onnx::ValueInfo;

void Declared::name_dimensions(const ValueInfo& input, const core::Shape& shape) {
  for (size_t i = 0; i < input.dims.size(); ++i) {
    if (!input.dims[i].has_name()) continue;
    auto [it, is_new] = named_dims_.try_emplace(input.dims[i].symbol, shape[i]);
    if (!is_new && it->second != shape[i]) it->second.reset();
  }
}

const ValueInfo* Declared::find(const std::string& name, const onnx::Graph& graph) {
  auto [it, is_new] = types_.try_emplace(&graph);
  if (is_new)
    for (const auto* list : {&graph.value_info, &graph.outputs})
      for (const ValueInfo& info : *list)
        if (info.type == ValueInfo::Type::kTensor) it->second.emplace(info.name, &info);
  auto found = it->second.find(name);
  return found == it->second.end() ? nullptr : found->second;
}

std::optional<core::Shape> Declared::full_shape(const ValueInfo& info) const {
  if (!info.has_shape || !(stream::is_float(info.dtype) || stream::is_integer(info.dtype))) return std::nullopt;
  core::Shape shape;
  uint64_t elements = 1;
  for (const onnx::Dimension& dim : info.dims) {
    auto named = named_dims_.find(dim.symbol);
    if (dim.value < 0 && (named == named_dims_.end() || !named->second)) return std::nullopt;
    shape.push_back(dim.value >= 0 ? dim.value : *named->second);
    if (shape.back() >= 0 && elements <= core::kContentsElements) elements *= static_cast<uint64_t>(shape.back());
  }
  const bool may_be_known = !stream::is_float(info.dtype) && stream::is_static(shape);
  if (may_be_known && elements <= core::kContentsElements) return std::nullopt;
  return shape;
}

core::Shape Declared::symbolic_shape(const ValueInfo& info) {
  core::Shape shape;
  for (const onnx::Dimension& dim : info.dims) {
    auto named = named_dims_.find(dim.symbol);
    if (dim.value >= 0) {
      shape.push_back(dim.value);
    } else if (!dim.has_name() || (named != named_dims_.end() && !named->second)) {
      shape.push_back(symbols_.fresh(info.name));
    } else {
      if (named == named_dims_.end()) named = named_dims_.emplace(dim.symbol, symbols_.fresh(dim.symbol)).first;
      shape.push_back(*named->second);
    }
  }
  return shape;
}

}  // namespace lowtide::layout
