// SPDX-License-Identifier: Apache-2.0
#include "layout/raise/write_ops.h"

#include <fmt/format.h>

#include "layout/core/builtin.h"
#include "layout/core/custom_operator.h"
#include "layout/raise/table.h"
#include "stream/error.h"

namespace lowtide::layout {
namespace {

using stream::Unsupported;

// What is refused is told with the operator's place in the file.
void add_refused(const core::Graph& graph, const core::Op& op, const Unsupported& reason,
                 std::vector<Unsupported>& list) {
  Unsupported refused = reason;
  const auto* image = std::get_if<core::ChannelsFirstOptions>(&op.options);
  const auto kind = image ? static_cast<core::Kind>(image->code) : op.kind;
  const auto* custom = std::get_if<core::CustomOptions>(&op.options);
  const std::string name = custom ? custom->described->name : std::string(core::kind_name(kind));
  refused.add_place({.node = graph.origins[op.origin], .op = name});
  list.push_back(std::move(refused));
}

void refuse_other_types(const Raising& r, Takes takes) {
  if (takes == Takes::kAny) return;
  const core::Roles& roles = core::builtin(r.kind()).inputs;
  size_t first = 0;
  while (first < r.op.inputs.size() && !(r.has(first) && roles[first] == core::Role::kData)) ++first;
  if (first == r.op.inputs.size()) return;
  const core::Value& value = r.in(first);
  const bool is_real = stream::is_float(value.dtype) || value.quantization;
  if (is_real || (takes == Takes::kNumbers && stream::is_integer(value.dtype))) return;
  const bool is_number = stream::is_integer(value.dtype);
  r.unsupported(fmt::format("input {} is {}{}, for which ONNX Runtime has no kernel", first,
                            stream::dtype_name(value.dtype), is_number ? " without a scale" : ""),
                is_number ? "CAST it to f32 before" : "");
}

}  // namespace

void write_ops(OnnxGraph& target) {
  for (const core::Op& op : target.graph.ops) {
    target.begin_op();
    Raising raising(target, op);
    try {
      const RaiseRow& row = *raise_row(raising.kind());
      refuse_other_types(raising, row.takes);
      row.raise(raising);
    } catch (const Unsupported& error) {
      add_refused(target.graph, op, error, target.model.refused);
    }
  }
}

onnx::ValueInfo port_of(const core::Graph& graph, core::ValueId id, const std::string& name) {
  const core::Value& value = graph.at(id);
  onnx::ValueInfo out;
  out.name = name;
  out.type = onnx::ValueInfo::Type::kTensor;
  out.dtype = value.dtype;
  out.has_shape = true;
  for (core::Dim dim : value.shape) {
    onnx::Dimension made;
    if (stream::is_static(dim))
      made.value = dim;
    else
      made.symbol = graph.symbols.to_string(dim);
    out.dims.push_back(std::move(made));
  }
  return out;
}

}  // namespace lowtide::layout
