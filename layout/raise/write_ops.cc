// SPDX-License-Identifier: Apache-2.0
#include "layout/raise/write_ops.h"

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

}  // namespace

void write_ops(OnnxGraph& target) {
  for (const core::Op& op : target.graph.ops) {
    target.begin_op();
    Raising raising(target, op);
    try {
      raise_row(raising.kind())->raise(raising);
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
