// SPDX-License-Identifier: Apache-2.0
#include "layout/raise/channels_first.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "layout/core/builtin.h"
#include "layout/core/orders.h"
#include "layout/core/replacements.h"
#include "stream/error.h"
#include "stream/nearest_name.h"

namespace lowtide::layout {
namespace {

using core::Kind;
using stream::Code;
using stream::Error;

// Where an image op has its image and its weights, and the order of the weights in ONNX.
struct ImageOp {
  Kind kind;
  size_t image;
  size_t weights;
  Perm weight_order;  // empty: no weights
};

std::optional<ImageOp> image_op(Kind kind) {
  switch (kind) {
    case Kind::kConv2d:  // OHWI -> OIHW
      return ImageOp{kind, 0, 1, {0, 3, 1, 2}};
    case Kind::kDepthwiseConv2d:  // 1HWO -> O1HW
      return ImageOp{kind, 0, 1, {3, 0, 1, 2}};
    case Kind::kTransposeConv:  // OHWI -> IOHW
      return ImageOp{kind, 2, 1, {3, 0, 1, 2}};
    case Kind::kConv3d:  // DHWIO -> OIDHW
      return ImageOp{kind, 0, 1, {4, 3, 0, 1, 2}};
    case Kind::kConv3dTranspose:  // DHWOI -> IODHW
      return ImageOp{kind, 2, 1, {4, 3, 0, 1, 2}};
    case Kind::kAveragePool2d:
    case Kind::kMaxPool2d:
    case Kind::kResizeBilinear:
    case Kind::kResizeNearestNeighbor:
    case Kind::kSpaceToDepth:
    case Kind::kDepthToSpace:
    case Kind::kLocalResponseNormalization:
      return ImageOp{kind, 0, 0, {}};
    default:
      return std::nullopt;
  }
}

Perm channels_to_front(int rank) {
  Perm perm{0, rank - 1};
  for (int axis = 1; axis + 1 < rank; ++axis) perm.push_back(axis);
  return perm;
}

core::ChannelsFirstOptions image_options(const core::Op& op) {
  core::ChannelsFirstOptions out{.code = static_cast<int16_t>(op.kind), .options = {}};
  std::visit(
      [&]<typename T>(const T& own) {
        if constexpr (std::is_constructible_v<decltype(out.options), const T&>) out.options = own;
      },
      op.options);
  return out;
}

}  // namespace

void to_channels_first(core::Graph& graph) {
  core::Replacements replacements(graph);
  const size_t op_count = graph.ops.size();
  for (size_t i = 0; i < op_count; ++i) {
    const std::optional<ImageOp> image = image_op(graph.ops[i].kind);
    if (!image) continue;
    core::Op made = replacements.now(graph.ops[i]);
    const Perm perm = channels_to_front(graph.at(made.inputs[image->image]).rank());
    made.inputs[image->image] = permuted_value(graph, made.inputs[image->image], perm, false, made.origin);
    if (!image->weight_order.empty())
      made.inputs[image->weights] =
          permuted_value(graph, made.inputs[image->weights], image->weight_order, false, made.origin);
    const ValueId result = made.outputs[0];
    const core::Value old = graph.at(result);
    const ValueId first = graph.add_value(old.dtype, stream::permuted(old.shape, perm), old.name);
    graph.at(first).quantization = permuted_scales(old.quantization, perm);
    graph.at(first).producer = static_cast<OpId>(i);
    graph.at(result).name.clear();
    made.outputs = {first};
    made.options = image_options(made);
    made.kind = Kind::kChannelsFirst;
    const uint32_t origin = made.origin;
    graph.ops[i] = std::move(made);
    replacements.note(result, permuted_value(graph, first, stream::inverse(perm), false, origin));
  }
  replacements.apply();
  graph.tidy();
}

void merge_transposes(core::Graph& graph) {
  const Orders orders(graph);
  std::map<std::pair<ValueId, Perm>, ValueId> made;
  auto merged = [&](ValueId id, uint32_t origin) {
    const Orders::Held held = orders.held(id);
    if (held.base == id) return id;
    const auto [place, is_new] = made.try_emplace({held.base, *held.order}, held.base);
    if (is_new) place->second = permuted_value(graph, held.base, *held.order, false, origin);
    return place->second;
  };
  const size_t op_count = graph.ops.size();
  for (size_t i = 0; i < op_count; ++i) {
    if (orders.is_view(static_cast<OpId>(i))) continue;
    for (size_t slot = 0; slot < graph.ops[i].inputs.size(); ++slot)
      if (const ValueId in = graph.ops[i].inputs[slot]; in != core::kAbsent) {
        const ValueId now = merged(in, graph.ops[i].origin);
        graph.ops[i].inputs[slot] = now;
      }
  }
  for (ValueId& output : graph.outputs) output = merged(output, 0);
  graph.tidy();
}

namespace {

void turn_output(core::Graph& graph, size_t output) {
  ValueId& value = graph.outputs[output];
  value = permuted_value(graph, value, channels_to_front(graph.at(value).rank()), false, 0);
}

void turn_input(core::Graph& graph, size_t input) {
  const ValueId before = graph.inputs[input];
  const core::Value old = graph.at(before);
  const Perm perm = channels_to_front(old.rank());
  const ValueId turned = graph.add_value(old.dtype, stream::permuted(old.shape, perm), graph.input_names[input]);
  graph.at(turned).quantization = permuted_scales(old.quantization, perm);
  graph.inputs[input] = turned;
  graph.at(before).name.clear();
  graph.replace_uses(before, permuted_value(graph, turned, stream::inverse(perm), false, 0));
}

// The value of the first run, and what a run leaves for the next one, have the order of the input.
void turn_state(core::Graph& graph, RaisedState& state) {
  state.initial =
      stream::recipe::permute(state.initial, channels_to_front(static_cast<int>(state.initial->dims.size())));
  if (state.output) turn_output(graph, *state.output);
}

// Where a name is among the inputs or outputs; their number where it is not.
size_t place_of(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

// An output that is the next run's input has the order of that input, which turns both.
void need_order_of_input(const core::Graph& graph, const RaisedState& state,
                         const std::map<std::string, std::string>& layouts, const std::string& output) {
  const std::string& input = graph.input_names[state.input];
  const auto given = layouts.find(input);
  const std::string order = given == layouts.end() ? "nhwc" : given->second;
  if (layouts.at(output) != order)
    throw Error(Code::kUsage,
                fmt::format("--layout {}={}: it is the next run's input '{}', which has the order {}; use --layout "
                            "{}={}, which is for both",
                            output, layouts.at(output), input, order, input, layouts.at(output)));
}

}  // namespace

void pin_channels_first(core::Graph& graph, const std::map<std::string, std::string>& layouts,
                        std::span<RaisedState> states) {
  for (const auto& [name, order] : layouts) {
    if (order != "nhwc" && order != "nchw")
      throw Error(Code::kUsage, fmt::format("--layout {}={}: the order must be nhwc or nchw", name, order));
    const size_t input = place_of(graph.input_names, name), output = place_of(graph.output_names, name);
    const bool is_input = input < graph.inputs.size();
    if (!is_input && output == graph.outputs.size())
      throw Error(Code::kUsage,
                  fmt::format("--layout: the model has no input or output '{}' (inputs: {}; outputs: {})", name,
                              stream::listed(graph.input_names), stream::listed(graph.output_names)));
    const int rank = graph.at(is_input ? graph.inputs[input] : graph.outputs[output]).rank();
    if (rank < 3)
      throw Error(Code::kUsage,
                  fmt::format("--layout {}: the tensor must have rank 3 or more; it has rank {}", name, rank));
    const auto state = std::find_if(states.begin(), states.end(), [&](const RaisedState& one) {
      return is_input ? one.input == input : one.output == output;
    });
    if (state != states.end() && !is_input) {
      need_order_of_input(graph, *state, layouts, name);
      continue;
    }
    if (order == "nhwc") continue;
    if (!is_input) {
      turn_output(graph, output);
      continue;
    }
    if (state != states.end()) turn_state(graph, *state);
    turn_input(graph, input);
  }
}

}  // namespace lowtide::layout
