// SPDX-License-Identifier: Apache-2.0
#include "layout/quantize/border_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "layout/quantize/grid.h"
#include "stream/error.h"

namespace lowtide::layout {
namespace {

class Borders {
 public:
  Borders(Graph& graph, DType wanted) : graph_(graph), wanted_(wanted), users_(graph.users()) {}

  void set_input(size_t i) {
    const ValueId given = graph_.inputs[i];
    const auto own = grid_of(graph_.at(given));
    if (own) {
      if (own->dtype == wanted_ || (!is_float() && !shifted(*own, wanted_))) return;
      graph_.inputs[i] = is_float() ? add(DType::kFloat32, given) : add_on_grid(*shifted(*own, wanted_), given);
      return push(Kind::kQuantize, graph_.inputs[i], given);
    }
    if (is_float() || graph_.at(given).dtype != DType::kFloat32) return;
    const std::optional<TensorGrid> grid = grid_of_users(given);
    if (!grid) refuse("input", graph_.input_names[i]);
    graph_.inputs[i] = add_on_grid(*grid, given);
    for (const OpId user : users_[static_cast<size_t>(given)]) {
      Op& op = graph_.ops[static_cast<size_t>(user)];
      op.inputs[0] = graph_.inputs[i];
      if (grid_of(graph_.at(op.outputs[0])) != grid) continue;
      graph_.replace_uses(op.outputs[0], graph_.inputs[i]);
      op.kind = Kind::kDead;
    }
  }

  void set_output(size_t i) {
    const ValueId given = graph_.outputs[i];
    ValueId quantized = given;
    if (graph_.at(given).dtype == DType::kFloat32 && !is_float()) {
      const OpId producer = graph_.at(given).producer;
      const bool is_dequantized = producer >= 0 && graph_.ops[static_cast<size_t>(producer)].kind == Kind::kDequantize;
      if (is_dequantized) quantized = graph_.ops[static_cast<size_t>(producer)].inputs[0];
      const auto grid = is_dequantized ? grid_of(graph_.at(quantized)) : std::nullopt;
      if (!grid || !shifted(*grid, wanted_)) refuse("output", graph_.output_names[i]);
    }
    const auto grid = grid_of(graph_.at(quantized));
    if (!grid || (!is_float() && !shifted(*grid, wanted_))) return;
    graph_.outputs[i] = quantized;
    if (grid->dtype == wanted_) return;
    graph_.outputs[i] = is_float() ? add(DType::kFloat32, quantized) : add_on_grid(*shifted(*grid, wanted_), quantized);
    push(is_float() ? Kind::kDequantize : Kind::kQuantize, quantized, graph_.outputs[i]);
  }

 private:
  bool is_float() const { return wanted_ == DType::kFloat32; }

  // The grid, in the wanted type, on which all users of a float input quantize it.
  std::optional<TensorGrid> grid_of_users(ValueId floats) const {
    std::optional<TensorGrid> grid;
    if (std::find(graph_.outputs.begin(), graph_.outputs.end(), floats) != graph_.outputs.end()) return std::nullopt;
    for (const OpId user : users_[static_cast<size_t>(floats)]) {
      const Op& op = graph_.ops[static_cast<size_t>(user)];
      const auto own = op.kind == Kind::kQuantize ? grid_of(graph_.at(op.outputs[0])) : std::nullopt;
      const auto same = own ? shifted(*own, wanted_) : std::nullopt;
      if (!same || (grid && grid != same)) return std::nullopt;
      grid = same;
    }
    return grid;
  }

  ValueId add(DType dtype, ValueId like) {
    const core::Shape shape = graph_.at(like).shape;
    return graph_.add_value(dtype, shape);
  }
  ValueId add_on_grid(const TensorGrid& grid, ValueId like) {
    const ValueId made = add(grid.dtype, like);
    graph_.at(made).quantization = quantization_of(grid);
    return made;
  }
  void push(Kind kind, ValueId from, ValueId to) {
    graph_.at(to).producer = static_cast<OpId>(graph_.ops.size());
    graph_.add_op(
        {.kind = kind, .inputs = {from}, .outputs = {to}, .options = core::IndexOptions{graph_.at(to).dtype}});
  }

  [[noreturn]] void refuse(const char* what, const std::string& name) const {
    throw stream::Error(stream::Code::kUsage,
                        fmt::format("--io {}: the {} '{}' is not quantized to 8 bits in the model",
                                    wanted_ == DType::kInt8 ? "int8" : "uint8", what, name));
  }

  Graph& graph_;
  const DType wanted_;
  const std::vector<std::vector<OpId>> users_;
};

}  // namespace

void set_border_types(core::Graph& graph, DType wanted) {
  Borders borders(graph, wanted);
  for (size_t i = 0; i < graph.outputs.size(); ++i) borders.set_output(i);
  for (size_t i = 0; i < graph.inputs.size(); ++i) borders.set_input(i);
  graph.tidy();
}

}  // namespace lowtide::layout
