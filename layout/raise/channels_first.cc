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
    graph.at(first).quantization = old.quantization;
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

void pin_channels_first(core::Graph& graph, const std::map<std::string, std::string>& layouts) {
  for (const auto& [name, order] : layouts) {
    if (order != "nhwc" && order != "nchw")
      throw Error(Code::kUsage, fmt::format("--layout {}={}: the order must be nhwc or nchw", name, order));
    const auto in = std::find(graph.input_names.begin(), graph.input_names.end(), name);
    const auto out = std::find(graph.output_names.begin(), graph.output_names.end(), name);
    const bool is_input = in != graph.input_names.end();
    if (!is_input && out == graph.output_names.end())
      throw Error(Code::kUsage,
                  fmt::format("--layout: the model has no input or output '{}' (inputs: {}; outputs: {})", name,
                              stream::listed(graph.input_names), stream::listed(graph.output_names)));
    ValueId& value = is_input ? graph.inputs[static_cast<size_t>(in - graph.input_names.begin())]
                              : graph.outputs[static_cast<size_t>(out - graph.output_names.begin())];
    const core::Value old = graph.at(value);
    if (old.rank() < 3)
      throw Error(Code::kUsage,
                  fmt::format("--layout {}: the tensor must have rank 3 or more; it has rank {}", name, old.rank()));
    if (order == "nhwc") continue;
    const Perm perm = channels_to_front(old.rank());
    if (!is_input) {
      value = permuted_value(graph, value, perm, false, 0);
      continue;
    }
    const ValueId pinned = graph.add_value(old.dtype, stream::permuted(old.shape, perm), name);
    graph.at(pinned).quantization = old.quantization;
    const ValueId before = value;
    value = pinned;
    graph.at(before).name.clear();
    graph.replace_uses(before, permuted_value(graph, pinned, stream::inverse(perm), false, 0));
  }
}

}  // namespace lowtide::layout
