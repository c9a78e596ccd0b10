// SPDX-License-Identifier: Apache-2.0
#include "layout/model_units.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "layout/lower/node_order.h"
#include "layout/partition/contract.h"
#include "layout/values_used.h"
#include "stream/dtype.h"
#include "stream/shape.h"

namespace lowtide::layout {
namespace {

constexpr size_t kNobody = SIZE_MAX;
// Below what cheapest_division sums, whatever the model.
constexpr uint64_t kMostWork = uint64_t{1} << 32;

bool is_random(const onnx::Node& node) {
  return node.op_type.starts_with("Random") || node.op_type == "Multinomial" || node.op_type == "Bernoulli";
}

uint64_t saturated_product(uint64_t a, uint64_t b) {
  return b != 0 && a > std::numeric_limits<uint64_t>::max() / b ? std::numeric_limits<uint64_t>::max() : a * b;
}

uint64_t elements_in(const onnx::ValueInfo& info) {
  uint64_t elements = 1;
  for (const onnx::Dimension& dim : info.dims)
    if (dim.value >= 0) elements = saturated_product(elements, static_cast<uint64_t>(dim.value));
  return elements;
}

class Units {
 public:
  Units(const onnx::Model& model, const ModelTypes& types, const std::vector<std::string>& reasons,
        const WorkCosts& costs)
      : graph_(model.graph), types_(types), reasons_(reasons), costs_(costs), used_(graph_.nodes.size()) {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const std::string& name : graph_.nodes[i].outputs)
        if (!name.empty()) maker_.emplace(name, i);
      add_values_used(graph_.nodes[i], used_[i]);
    }
    for (const onnx::Tensor& tensor : graph_.initializers) constants_.emplace(tensor.name, tensor.dims);
    for (const onnx::SparseTensor& tensor : graph_.sparse_initializers)
      constants_.emplace(tensor.values.name, tensor.dims);
    for (const onnx::ValueInfo& output : graph_.outputs) outputs_.insert(output.name);
    for (const onnx::Node* node : in_order(graph_)) order_.push_back(static_cast<size_t>(node - graph_.nodes.data()));
  }

  ModelUnits make() {
    find_used();
    find_constant();
    number();
    join();
    fill();
    return std::move(out_);
  }

 private:
  size_t maker(std::string_view value) const {
    const auto found = maker_.find(value);
    return found == maker_.end() ? kNobody : found->second;
  }

  void find_used() {
    out_.is_used.assign(graph_.nodes.size(), false);
    std::vector<size_t> open;
    auto use = [&](std::string_view value) {
      const size_t node = maker(value);
      if (node == kNobody || out_.is_used[node]) return;
      out_.is_used[node] = true;
      open.push_back(node);
    };
    for (const std::string_view output : outputs_) use(output);
    while (!open.empty()) {
      const size_t node = open.back();
      open.pop_back();
      for (const std::string_view value : used_[node]) use(value);
    }
  }

  // Nodes that compute from constants alone: pieces have copies of them. An output of the model has to be made in one
  // place.
  void find_constant() {
    is_constant_.assign(graph_.nodes.size(), false);
    for (const size_t node : order_) {
      const onnx::Node& here = graph_.nodes[node];
      auto is_known = [&](std::string_view value) {
        if (constants_.contains(value)) return true;
        const size_t from = maker(value);
        return from != kNobody && is_constant_[from];
      };
      is_constant_[node] = reasons_[node].empty() && !is_random(here) &&
                           std::all_of(used_[node].begin(), used_[node].end(), is_known) &&
                           std::none_of(here.outputs.begin(), here.outputs.end(), [&](const std::string& name) {
                             return outputs_.contains(name) || (!name.empty() && !types_.values.contains(name));
                           });
    }
  }

  void number() {
    number_.assign(graph_.nodes.size(), kNobody);
    for (const size_t node : order_)
      if (out_.is_used[node] && !is_constant_[node]) {
        number_[node] = members_.size();
        members_.push_back(node);
      }
  }

  void join() {
    std::vector<std::pair<size_t, size_t>> edges, together;
    size_t last_random = kNobody;
    for (size_t to = 0; to < members_.size(); ++to) {
      const onnx::Node& node = graph_.nodes[members_[to]];
      for (const std::string_view value : used_[members_[to]]) {
        const size_t producer = maker(value);
        if (producer == kNobody || number_[producer] == kNobody || number_[producer] == to) continue;
        const size_t from = number_[producer];
        edges.emplace_back(from, to);
        const bool is_quantized_pair =
            node.op_type == "QuantizeLinear" || graph_.nodes[producer].op_type == "DequantizeLinear";
        if (is_quantized_pair || !types_.values.contains(std::string(value))) together.emplace_back(from, to);
      }
      if (!is_random(node)) continue;
      if (last_random != kNobody) {
        edges.emplace_back(last_random, to);
        kept_orders_.emplace_back(last_random, to);
      }
      last_random = to;
    }
    contraction_ = contract(members_.size(), edges, together);
  }

  void fill() {
    out_.unit.assign(graph_.nodes.size(), kNoUnit);
    out_.nodes.resize(contraction_.units);
    out_.graph.units.resize(contraction_.units);
    for (size_t i = 0; i < members_.size(); ++i) {
      const size_t unit = contraction_.unit[i];
      out_.unit[members_[i]] = unit;
      out_.nodes[unit].push_back(members_[i]);
    }
    for (size_t unit = 0; unit < contraction_.units; ++unit) {
      std::sort(out_.nodes[unit].begin(), out_.nodes[unit].end());
      uint64_t work = 0;
      bool fits = true;
      for (const size_t node : out_.nodes[unit]) {
        work = std::min(work + work_of(node), kMostWork);
        fits = fits && reasons_[node].empty();
      }
      out_.graph.units[unit].work = {fits ? work : kCannotRun,
                                     static_cast<uint64_t>(static_cast<double>(work) * costs_.penalty)};
    }
    add_values();
    for (const auto& [from, to] : kept_orders_)
      if (contraction_.unit[from] != contraction_.unit[to])
        out_.graph.values.push_back({contraction_.unit[from], {contraction_.unit[to]}, 0});
  }

  void add_values() {
    std::unordered_map<std::string_view, size_t> index;
    for (const size_t user : members_)
      for (const std::string_view value : used_[user]) {
        const size_t producer = maker(value);
        if (producer == kNobody || out_.unit[producer] == kNoUnit || out_.unit[producer] == out_.unit[user]) continue;
        const auto [found, fresh] = index.emplace(value, out_.graph.values.size());
        if (fresh) {
          const auto type = types_.values.find(std::string(value));
          out_.graph.values.push_back(
              {out_.unit[producer], {}, type == types_.values.end() ? 0 : bytes_of(type->second)});
        }
        std::vector<size_t>& users = out_.graph.values[found->second].users;
        if (std::find(users.begin(), users.end(), out_.unit[user]) == users.end()) users.push_back(out_.unit[user]);
      }
  }

  uint64_t work_of(size_t node) const {
    const onnx::Node& here = graph_.nodes[node];
    uint64_t bytes = 0, results = 0;
    auto add = [&](std::string_view value) {
      const auto type = types_.values.find(std::string(value));
      if (type == types_.values.end()) return uint64_t{0};
      bytes += std::min(bytes_of(type->second), kMostWork);
      return elements_in(type->second);
    };
    for (const std::string_view value : used_[node]) add(value);
    for (const std::string& name : here.outputs) results = std::max(results, add(name));
    const uint64_t moved = std::min(saturated_product(bytes, costs_.per_byte), kMostWork);
    const uint64_t products = std::min(saturated_product(results, products_of_a_result(here)), kMostWork);
    return std::min(moved + std::min(saturated_product(products, costs_.per_product), kMostWork), kMostWork);
  }

  // Of convolutions and matrix products; 0 of others, whose work is moving bytes.
  uint64_t products_of_a_result(const onnx::Node& node) const {
    const bool is_quantized = node.op_type.starts_with("QLinear");
    const size_t place = is_quantized ? 3 : 1;
    if (node.inputs.size() <= place) return 0;
    const auto weight = constants_.find(node.inputs[place]);
    const bool is_convolution = node.op_type.find("Conv") != std::string::npos;
    const bool is_product = node.op_type.find("MatMul") != std::string::npos || node.op_type == "Gemm";
    if (is_convolution && weight != constants_.end() && weight->second.size() > 1 && weight->second[0] > 0)
      return stream::element_count(weight->second) / static_cast<uint64_t>(weight->second[0]);
    if (!is_product) return 0;
    const auto left = types_.values.find(node.inputs[0]);
    if (left == types_.values.end() || left->second.dims.empty()) return 1;
    return static_cast<uint64_t>(std::max<int64_t>(left->second.dims.back().value, 1));
  }

  const onnx::Graph& graph_;
  const ModelTypes& types_;
  const std::vector<std::string>& reasons_;
  const WorkCosts& costs_;
  std::vector<std::vector<std::string_view>> used_;  // by each node
  std::unordered_map<std::string_view, size_t> maker_;
  std::unordered_map<std::string_view, stream::Shape> constants_;
  std::unordered_set<std::string_view> outputs_;
  std::vector<size_t> order_;
  std::vector<bool> is_constant_;
  std::vector<size_t> number_, members_;  // of a node; its node
  std::vector<std::pair<size_t, size_t>> kept_orders_;
  Contraction contraction_;
  ModelUnits out_;
};

}  // namespace

ModelUnits make_units(const onnx::Model& model, const ModelTypes& types, const std::vector<std::string>& reasons,
                      const WorkCosts& costs) {
  return Units(model, types, reasons, costs).make();
}

uint64_t bytes_of(const onnx::ValueInfo& info) {
  if (info.dtype == stream::DType::kUndefined) return 0;
  return saturated_product(elements_in(info), static_cast<uint64_t>(stream::bits(info.dtype) + 7) / 8);
}

}  // namespace lowtide::layout
