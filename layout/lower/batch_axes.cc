// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/batch_axes.h"

#include <algorithm>
#include <set>
#include <string>

namespace lowtide::layout {

int64_t int_attribute(const onnx::Node& node, std::string_view name) {
  const onnx::Attribute* found = node.find(name);
  return found ? found->i : 0;
}

int64_t axis_attribute(const onnx::Node& node, int64_t absent, size_t rank) {
  const int64_t axis = node.find("axis") ? int_attribute(node, "axis") : absent;
  return axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
}

bool vanishes(const onnx::Node& node, size_t k, size_t axis, size_t rank) {
  // Sums and the like; their results may have an axis of extent 1, or other axes than the input.
  static const std::set<std::string_view> kOthers = {"ArgMax",
                                                     "ArgMin",
                                                     "CropAndResize",
                                                     "DynamicQuantizeLSTM",
                                                     "Einsum",
                                                     "GRU",
                                                     "Gather",
                                                     "GatherND",
                                                     "GlobalAveragePool",
                                                     "GlobalLpPool",
                                                     "GlobalMaxPool",
                                                     "If",
                                                     "LSTM",
                                                     "Loop",
                                                     "MaxRoiPool",
                                                     "QLinearGlobalAveragePool",
                                                     "RNN",
                                                     "RoiAlign",
                                                     "Scan",
                                                     "Shape",
                                                     "Size"};
  const std::string_view type = node.op_type;
  if (kOthers.contains(type) || type.starts_with("Reduce") || type.starts_with("QLinearReduce")) return true;
  if (type.find("Sequence") != type.npos) return true;  // a list has no axes
  if (type == "GatherElements") return static_cast<int64_t>(axis) == axis_attribute(node, 0, rank);
  if (type.find("MatMul") != type.npos) return axis + 2 >= rank;
  // Of rows and columns of a product, one remains, and is a change of the output.
  if (type.find("Gemm") != type.npos && rank == 2) {
    const bool is_second = k != 0;
    const bool transposed = int_attribute(node, is_second ? "transB" : "transA") != 0;
    return axis == (is_second == transposed ? 1 : 0);
  }
  return false;
}

std::optional<Indices> indices_of(const onnx::Node& node, size_t rank, const std::vector<stream::Shape>& inputs) {
  const std::string_view type = node.op_type;
  const auto depth = [&] { return inputs.size() > 1 && !inputs[1].empty() ? inputs[1].back() : 0; };
  if (type == "Gather" || type == "GatherElements" || type == "Scatter" || type == "ScatterElements") {
    const int64_t axis = axis_attribute(node, 0, rank);
    return Indices{1, axis, 1};
  }
  if (type == "Compress") {
    const int64_t axis = axis_attribute(node, 0, rank);
    return node.find("axis") ? Indices{1, axis, 1} : Indices{1, 0, static_cast<int64_t>(rank)};
  }
  if (type == "ScatterND") return Indices{1, 0, depth()};
  if (type == "GatherND") return Indices{1, int_attribute(node, "batch_dims"), depth()};
  if (type == "SequenceAt" || type == "SequenceErase" || type == "MaxRoiPool") return Indices{1, 0, 1};
  if (type == "SequenceInsert") return Indices{2, 0, 1};
  if (type == "RoiAlign" || type == "CropAndResize") return Indices{2, 0, 1};
  return std::nullopt;
}

std::map<int64_t, int64_t> slice_starts(const onnx::Node& node, size_t rank,
                                        const std::vector<std::optional<stream::Shape>>& contents) {
  if (node.op_type != "Slice") return {};
  // Inputs 1 and 3; attributes before opset 10.
  const auto list = [&](size_t input, std::string_view name) -> std::optional<std::vector<int64_t>> {
    if (const onnx::Attribute* given = node.find(name)) return given->ints;
    if (input >= contents.size()) return std::nullopt;
    return contents[input];
  };
  const auto starts = list(1, "starts"), axes = list(3, "axes");
  const bool has_axes = node.find("axes") || (node.inputs.size() > 3 && !node.inputs[3].empty());
  if (!starts || (has_axes && (!axes || axes->size() != starts->size()))) return {};
  std::map<int64_t, int64_t> out;
  for (size_t i = 0; i < starts->size(); ++i) {
    const int64_t axis = has_axes ? (*axes)[i] : static_cast<int64_t>(i);
    out.emplace(axis < 0 ? axis + static_cast<int64_t>(rank) : axis, (*starts)[i]);
  }
  return out;
}

bool is_of_channels(const onnx::Node& node, size_t k, size_t axis, size_t rank) {
  static const std::set<std::string_view> kSecond = {"Conv",      "ConvInteger", "ConvTranspose", "DeformConv",
                                                     "FusedConv", "NhwcConv",    "NhwcFusedConv"};
  constexpr size_t kWeightsOfQLinearConv = 3;
  if (k != (node.op_type == "QLinearConv" ? kWeightsOfQLinearConv : 1)) return false;
  if (node.op_type == "NhwcConv") return axis == 0 || axis + 1 == rank;
  return axis < 2 && (kSecond.contains(node.op_type) || node.op_type == "QLinearConv");
}

std::optional<size_t> axis_of_steps(const onnx::Node& node) {
  const std::string_view type = node.op_type;
  if (type != "LSTM" && type != "GRU" && type != "RNN" && type != "DynamicQuantizeLSTM") return std::nullopt;
  return int_attribute(node, "layout") == 1 ? 1 : 0;
}

std::optional<int> einsum_label(const onnx::Node& node, size_t k, size_t axis, size_t rank) {
  constexpr int kEllipsis = 256;
  const onnx::Attribute* equation = node.op_type == "Einsum" ? node.find("equation") : nullptr;
  if (!equation) return std::nullopt;
  std::string terms(equation->s.substr(0, equation->s.find("->")));
  std::erase(terms, ' ');
  for (; k > 0; --k) {
    const size_t comma = terms.find(',');
    if (comma == terms.npos) return std::nullopt;
    terms.erase(0, comma + 1);
  }
  const std::string term = terms.substr(0, terms.find(','));
  const size_t head = std::min(term.find("..."), term.size());
  const size_t tail = head < term.size() ? term.size() - head - 3 : 0;
  if (head + tail > rank) return std::nullopt;
  if (axis < head) return term[axis];
  const size_t from_end = rank - axis;  // 1 is the last axis
  if (from_end <= tail) return term[term.size() - from_end];
  return kEllipsis + static_cast<int>(from_end - tail);
}

}  // namespace lowtide::layout
