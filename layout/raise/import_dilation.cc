// SPDX-License-Identifier: Apache-2.0
// SPACE_TO_BATCH_ND, a convolution and BATCH_TO_SPACE_ND: one convolution with dilations, which is how TensorFlow
// writes these. The blocks are the dilations: each place in a block is an image of its own, and the windows of stride 1
// in it are the windows of the whole image whose elements are a block apart. What SPACE_TO_BATCH_ND pads and
// BATCH_TO_SPACE_ND does not crop is what the one convolution pads.
//
// All else stays as it is written: other strides, crops that are larger than the padding, intermediate results that
// other operators read, scales that change on the way.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <vector>

#include "layout/raise/import_graph.h"
#include "layout/raise/import_values.h"
#include "layout/raise/options.h"
#include "layout/raise/refused_by_litert.h"
#include "schemas/tflite_generated.h"

namespace lowtide::layout {
namespace {

using tflite::BuiltinOperator;

constexpr int32_t kReadByNone = -1, kReadBySeveral = -2;
constexpr int64_t kLargestDilation = 1 << 20;
constexpr size_t kImageRank = 4;

std::optional<Kind> convolution_kind(const tfl::Operator& op) {
  const auto code = static_cast<BuiltinOperator>(op.code);
  if (code == BuiltinOperator::CONV_2D) return Kind::kConv2d;
  if (code == BuiltinOperator::DEPTHWISE_CONV_2D) return Kind::kDepthwiseConv2d;
  return std::nullopt;
}

bool same_stored_type(const tfl::Tensor& a, const tfl::Tensor& b) {
  return a.dtype == b.dtype && quantization_of(a) == quantization_of(b);
}

// The operators behind SPACE_TO_BATCH_ND, with their places in the subgraph.
struct DilatedGroup {
  const tfl::Operator &conv, &back;
  size_t conv_at, back_at;
  Kind kind;  // of the convolution
};

// Nothing but the data may be computed, and no other operator may read what is between the three.
std::optional<DilatedGroup> dilated_group(SubgraphScope& scope, const tfl::Operator& op,
                                          int32_t (*sole_reader)(SubgraphScope&, int32_t tensor)) {
  const std::vector<tfl::Operator>& all = scope.from.operators;
  const auto tensor = [&](int32_t index) -> const tfl::Tensor& {
    return scope.from.tensors[static_cast<size_t>(index)];
  };
  if (op.inputs.size() != 3 || op.outputs.size() != 1 || std::count(op.inputs.begin(), op.inputs.end(), -1) > 0)
    return std::nullopt;
  const int32_t middle = sole_reader(scope, op.outputs[0]);
  if (middle < 0) return std::nullopt;
  const tfl::Operator& conv = all[static_cast<size_t>(middle)];
  const std::optional<Kind> kind = convolution_kind(conv);
  if (!kind || conv.inputs.size() < 2 || conv.inputs.size() > 3 || conv.outputs.size() != 1) return std::nullopt;
  if (conv.inputs[0] != op.outputs[0] || conv.inputs[1] < 0 || misread_bias(scope.from, conv)) return std::nullopt;
  const int32_t last = sole_reader(scope, conv.outputs[0]);
  if (last < 0) return std::nullopt;
  const tfl::Operator& back = all[static_cast<size_t>(last)];
  const bool is_back = static_cast<BuiltinOperator>(back.code) == BuiltinOperator::BATCH_TO_SPACE_ND &&
                       back.inputs.size() == 3 && back.outputs.size() == 1 && back.inputs[0] == conv.outputs[0] &&
                       back.inputs[1] >= 0 && back.inputs[2] >= 0;
  if (!is_back || tensor(back.outputs[0]).has_data || tensor(conv.outputs[0]).has_data) return std::nullopt;
  if (!same_stored_type(tensor(op.inputs[0]), tensor(op.outputs[0])) ||
      !same_stored_type(tensor(conv.outputs[0]), tensor(back.outputs[0])))
    return std::nullopt;
  for (int32_t list : {op.inputs[1], op.inputs[2], back.inputs[1], back.inputs[2]})
    if (!tensor(list).data) return std::nullopt;
  for (size_t i = 1; i < conv.inputs.size(); ++i)
    if (conv.inputs[i] >= 0 && !tensor(conv.inputs[i]).has_data) return std::nullopt;
  return DilatedGroup{conv, back, static_cast<size_t>(middle), static_cast<size_t>(last), *kind};
}

// What the blocks are made with and put together with.
struct BlockLists {
  std::vector<int64_t> block, pads, crops;
};

// Other sizes are refused where the blocks are imported one by one.
bool are_sizes(const std::vector<int64_t>& borders) {
  return std::all_of(borders.begin(), borders.end(),
                     [](int64_t size) { return size >= 0 && size <= std::numeric_limits<int32_t>::max(); });
}

bool lists_fit(const BlockLists& lists, const Shape& image, const Shape& weights) {
  return image.size() == kImageRank && weights.size() == kImageRank &&
         (lists.block.size() == 1 || lists.block.size() == 2) && lists.pads.size() == 2 * lists.block.size() &&
         lists.crops.size() == lists.pads.size() && stream::is_static(image[1]) && stream::is_static(image[2]);
}

// What one axis of the image gets: its dilation, and how many zeros before and behind. `reach`: from the first element
// of a window to its last.
struct DilatedAxis {
  int64_t dilation = 1, before = 0, behind = 0, reach = 0;

  bool is_valid() const { return before == 0 && behind == 0; }
  bool is_same() const { return before == reach / 2 && behind == reach - reach / 2; }
};
using DilatedAxes = std::array<DilatedAxis, 2>;

// nullopt: no padding of one convolution gives the same. The lists fit.
std::optional<DilatedAxes> dilated_axes(const BlockLists& lists, const Shape& image, const Shape& weights,
                                        core::Padding padding) {
  DilatedAxes axes;
  for (size_t i = 0; i < axes.size(); ++i) {
    const bool listed = i < lists.block.size();
    DilatedAxis& axis = axes[i];
    axis.dilation = listed ? lists.block[i] : 1;
    if (axis.dilation < 1 || axis.dilation > kLargestDilation || weights[i + 1] < 1) return std::nullopt;
    const int64_t in_place = weights[i + 1] - 1;  // the reach in one place of the blocks
    const int64_t around = padding == core::Padding::kSame ? in_place : 0;
    axis.reach = in_place * axis.dilation;
    axis.before = axis.dilation * (around / 2);
    axis.behind = axis.dilation * (around - around / 2);
    if (listed) {
      const int64_t before = lists.pads[2 * i], behind = lists.pads[2 * i + 1];
      if ((image[i + 1] + before + behind) % lists.block[i] != 0) return std::nullopt;
      axis.before += before - lists.crops[2 * i];
      axis.behind += behind - lists.crops[2 * i + 1];
    }
    if (axis.before < 0 || axis.behind < 0) return std::nullopt;
  }
  return axes;
}

}  // namespace

int32_t GraphImport::sole_reader(SubgraphScope& scope, int32_t tensor) {
  if (scope.readers.empty()) {
    scope.readers.assign(scope.from.tensors.size(), kReadByNone);
    const auto note = [&](int32_t read, int32_t reader) {
      if (read < 0) return;
      int32_t& known = scope.readers[static_cast<size_t>(read)];
      known = known == kReadByNone ? reader : kReadBySeveral;
    };
    for (size_t i = 0; i < scope.from.operators.size(); ++i)
      for (int32_t input : scope.from.operators[i].inputs) note(input, static_cast<int32_t>(i));
    for (int32_t output : scope.from.outputs) note(output, kReadBySeveral);
  }
  return scope.readers[static_cast<size_t>(tensor)];
}

bool GraphImport::is_read(SubgraphScope& scope, int32_t tensor) { return sole_reader(scope, tensor) != kReadByNone; }

bool GraphImport::dilated_convolution(SubgraphScope& scope, const tfl::Operator& op) {
  const std::optional<DilatedGroup> group = dilated_group(scope, op, sole_reader);
  if (!group) return false;
  const auto& [conv, back, conv_at, back_at, kind] = *group;
  const auto list = [&](int32_t tensor) { return graph_.ints(value(scope, tensor)); };
  const auto block = list(op.inputs[1]), pads = list(op.inputs[2]);
  const auto block_again = list(back.inputs[1]), crops = list(back.inputs[2]);
  if (!block || !pads || block != block_again || !crops || !are_sizes(*pads) || !are_sizes(*crops)) return false;
  const BlockLists lists = {*block, *pads, *crops};
  const ValueId data = value(scope, op.inputs[0]);
  const Shape image = graph_.at(data).shape, weights = scope.from.tensors[static_cast<size_t>(conv.inputs[1])].shape;
  if (!lists_fit(lists, image, weights)) return false;
  Options options = read_builtin_options(kind, conv);
  auto& window = std::get<core::Conv2dOptions>(options);
  if (window.stride_h != 1 || window.stride_w != 1 || window.dilation_h != 1 || window.dilation_w != 1) return false;
  const std::optional<DilatedAxes> axes = dilated_axes(lists, image, weights, window.padding);
  if (!axes) return false;

  const auto& [height, width] = *axes;
  const bool is_valid = height.is_valid() && width.is_valid(), is_same = height.is_same() && width.is_same();
  window.dilation_h = static_cast<int>(height.dilation);
  window.dilation_w = static_cast<int>(width.dilation);
  window.padding = is_same && !is_valid ? core::Padding::kSame : core::Padding::kValid;
  std::vector<ValueId> inputs = values(scope, std::span(conv.inputs).subspan(1));
  inputs.insert(inputs.begin(), data);
  if (inputs.back() == kAbsent) inputs.pop_back();
  if (!is_valid && !is_same) {
    const int64_t border[] = {0, 0, height.before, height.behind, width.before, width.behind, 0, 0};
    inputs[0] = add_moved(Kind::kPad, data, graph_.add_ints(border, DType::kInt32, {kImageRank, 2}));
  }
  add(scope, kind, std::move(inputs), std::move(options), back.outputs);
  scope.done.insert(conv_at);
  scope.done.insert(back_at);
  return true;
}

}  // namespace lowtide::layout
