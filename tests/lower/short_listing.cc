// SPDX-License-Identifier: Apache-2.0
#include "tests/lower/short_listing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "stream/dtype.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::golden {
namespace {

constexpr uint64_t kMostElements = 8;  // that are written out

std::string typed(const tfl::Tensor& tensor) {
  const stream::Shape& shape = tensor.shape_signature.empty() ? tensor.shape : tensor.shape_signature;
  std::string dims;
  for (int64_t dim : shape) dims += (dims.empty() ? "" : ",") + (dim < 0 ? std::string("?") : std::to_string(dim));
  return fmt::format("{}[{}]",
                     tensor.dtype == stream::DType::kUndefined ? tensor.type : stream::dtype_name(tensor.dtype), dims);
}

// " q(scale,zero point)"; of several scales, their number.
std::string quantization(const tfl::Tensor& tensor) {
  if (!tensor.quantization || tensor.quantization->scale.empty()) return "";
  const tfl::Quantization& q = *tensor.quantization;
  if (q.scale.size() > 1) return fmt::format(" q({} scales along {})", q.scale.size(), q.axis);
  return fmt::format(" q({},{})", q.scale[0], q.zero_point.empty() ? 0 : q.zero_point[0]);
}

std::string constant(const tfl::Tensor& tensor, stream::Budget& budget) {
  if (!tensor.data) return typed(tensor) + "#strings";
  const uint64_t count = tensor.data->elements();
  if (count <= kMostElements && stream::is_float(tensor.dtype)) {
    std::vector<double> values = stream::evaluate_doubles(tensor.data, budget);
    // The sign of a NaN that a computation gives is the processor's choice.
    for (double& value : values)
      if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();
    if (tensor.dtype == stream::DType::kFloat64) return fmt::format("{}{{{}}}", typed(tensor), fmt::join(values, ","));
    const std::vector<float> narrow(values.begin(), values.end());  // fewer digits
    return fmt::format("{}{{{}}}", typed(tensor), fmt::join(narrow, ","));
  }
  if (count <= kMostElements && (stream::is_integer(tensor.dtype) || tensor.dtype == stream::DType::kBool)) {
    const bool usual = tensor.dtype == stream::DType::kInt32 && tensor.shape.size() == 1;
    return fmt::format("{}{{{}}}", usual ? "" : typed(tensor),
                       fmt::join(stream::evaluate_ints(tensor.data, budget), ","));
  }
  std::vector<std::byte> lanes(count * static_cast<uint64_t>(stream::lane_bytes(tensor.dtype)));
  stream::RecipeReader(tensor.data, budget).read(0, count, lanes.data());
  return fmt::format("{}#{:08x}", typed(tensor), XXH64(lanes.data(), lanes.size(), 0) & 0xffffffff);
}

// Empty for an option that has the usual value.
std::string option(const tfl::Option& option) {
  if (!option.enumerator.empty()) {
    const bool usual =
        option.enumerator == "NONE" || option.enumerator == "DEFAULT" || option.name == "quantized_bias_type";
    return usual ? "" : fmt::format(" {}={}", option.name, option.enumerator);
  }
  if (option.name == "pot_scale_int16") return "";  // means nothing to floats, and is true unless it is said
  const bool is_dilation = option.name.starts_with("dilation_");
  auto text = [&](const auto& value) -> std::string {
    using T = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<T, std::vector<int64_t>> || std::is_same_v<T, std::vector<double>>)
      return value.empty() ? "" : fmt::format(" {}=[{}]", option.name, fmt::join(value, ","));
    else if constexpr (std::is_same_v<T, std::string>)
      return value.empty() ? "" : fmt::format(" {}='{}'", option.name, value);
    else
      return value == static_cast<T>(is_dilation ? 1 : 0) ? "" : fmt::format(" {}={}", option.name, value);
  };
  return std::visit(text, option.value);
}

class GraphListing {
 public:
  GraphListing(const tfl::Subgraph& graph, stream::Budget& budget)
      : graph_(graph), budget_(budget), names_(graph.tensors.size()) {
    for (const auto* border : {&graph.inputs, &graph.outputs})
      for (int32_t id : *border) names_[static_cast<size_t>(id)] = at(id).name;
  }

  std::string text() {
    std::string out = fmt::format("({}) -> ({})\n", border(graph_.inputs), border(graph_.outputs));
    for (const tfl::Operator& op : graph_.operators) out += op_line(op);
    return out;
  }

 private:
  const tfl::Tensor& at(int32_t id) const { return graph_.tensors[static_cast<size_t>(id)]; }

  std::string border(const std::vector<int32_t>& ids) {
    std::string out;
    for (int32_t id : ids)
      out += fmt::format("{}{} {}{}{}", out.empty() ? "" : ", ", at(id).name, typed(at(id)), quantization(at(id)),
                         at(id).has_data ? " = " + constant(at(id), budget_) : "");
    return out;
  }

  std::string operand(int32_t id) {
    if (id < 0) return "-";
    if (at(id).has_data) return constant(at(id), budget_) + quantization(at(id));
    return names_[static_cast<size_t>(id)];
  }

  std::string op_line(const tfl::Operator& op) {
    std::string results, operands;
    for (int32_t id : op.outputs) {
      std::string& name = names_[static_cast<size_t>(id)];
      if (name.empty()) name = fmt::format("%{}", ++made_);
      results += fmt::format("{}{} {}{}", results.empty() ? "" : ", ", name, typed(at(id)), quantization(at(id)));
    }
    for (int32_t id : op.inputs) operands += (operands.empty() ? "" : ", ") + operand(id);
    std::string out = fmt::format("{} = {}({})", results, op.name, operands);
    if (op.version != 1) out += fmt::format(" v{}", op.version);
    for (const tfl::Option& given : op.options) out += option(given);
    return out + "\n";
  }

  const tfl::Subgraph& graph_;
  stream::Budget& budget_;
  std::vector<std::string> names_;  // of tensors; those inside of the graph are numbered
  int made_ = 0;
};

}  // namespace

std::string short_listing(const tfl::Model& model, stream::Budget& budget) {
  std::string out;
  for (size_t i = 0; i < model.subgraphs.size(); ++i) {
    if (i > 0) out += fmt::format("graph {}\n", i);
    out += GraphListing(model.subgraphs[i], budget).text();
  }
  return out;
}

}  // namespace lowtide::golden
