// SPDX-License-Identifier: Apache-2.0
#include "layout/model_units.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "layout/lower/node_order.h"
#include "layout/lower/values_used.h"
#include "layout/partition/contract.h"
#include "layout/random_nodes.h"
#include "stream/dtype.h"
#include "stream/shape.h"

namespace lowtide::layout {
namespace {

constexpr size_t kNoNode = SIZE_MAX;
// Of a unit, so that cheapest_division can add them up, and what is estimated of a node (picoseconds: 1.1 s, 69 ms).
constexpr uint64_t kMostWork = uint64_t{1} << 40, kMostEstimate = uint64_t{1} << 36;

uint64_t saturated_product(uint64_t a, uint64_t b) {
  return b != 0 && a > std::numeric_limits<uint64_t>::max() / b ? std::numeric_limits<uint64_t>::max() : a * b;
}

using Extents = std::vector<uint64_t>;

Extents extents_in(const onnx::ValueInfo& info) {
  Extents out;
  for (size_t axis = 0; axis < info.dims.size(); ++axis) {
    const int64_t dim = info.dims[axis].value;
    out.push_back(dim >= 0 ? static_cast<uint64_t>(dim) : axis == 0 ? 1 : kAssumedExtent);
  }
  return out;
}

uint64_t elements_of_extents(const Extents& extents) {
  uint64_t product = 1;
  for (const uint64_t extent : extents) product = saturated_product(product, extent);
  return product;
}

uint64_t elements_in(const onnx::ValueInfo& info) { return elements_of_extents(extents_in(info)); }

// Whether a runner can take the value from one piece and hand it to another: ONNX Runtime has no arrays of others.
bool can_cross(stream::DType dtype) {
  using stream::DType;
  static const std::unordered_set<DType> kCannot = {DType::kBFloat16, DType::kInt2,  DType::kUint2,
                                                    DType::kInt4,     DType::kUint4, DType::kFloat4E2M1};
  return !kCannot.contains(dtype);
}

class Units {
 public:
  Units(const onnx::Model& model, const ModelTypes& types, const std::vector<std::string>& reasons,
        const WorkCosts& costs, const MeasuredWork& measured, const std::vector<std::vector<size_t>>& groups)
      : graph_(model.graph),
        types_(types),
        reasons_(reasons),
        costs_(costs),
        measured_(measured),
        groups_(groups),
        is_random_(random_nodes(model)),
        used_(graph_.nodes.size()) {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const std::string& name : graph_.nodes[i].outputs)
        if (!name.empty()) maker_.emplace(name, i);
      add_values_used(graph_.nodes[i], used_[i]);
    }
    for (const onnx::Tensor& tensor : graph_.initializers) constants_.emplace(tensor.name, type_of_constant(tensor));
    for (const onnx::SparseTensor& tensor : graph_.sparse_initializers)
      constants_.emplace(tensor.values.name, type_of_constant(tensor));
    for (const onnx::ValueInfo& output : graph_.outputs) outputs_.insert(output.name);
    for (const onnx::Node* node : in_order(graph_)) order_.push_back(static_cast<size_t>(node - graph_.nodes.data()));
  }

  ModelUnits make() {
    find_used();
    find_constant();
    number();
    join();
    find_factors();
    fill();
    return std::move(out_);
  }

 private:
  size_t maker(std::string_view value) const {
    const auto found = maker_.find(value);
    return found == maker_.end() ? kNoNode : found->second;
  }

  void find_used() {
    out_.is_used.assign(graph_.nodes.size(), false);
    std::vector<size_t> open;
    auto use = [&](std::string_view value) {
      const size_t node = maker(value);
      if (node == kNoNode || out_.is_used[node]) return;
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
        return from != kNoNode && is_constant_[from];
      };
      is_constant_[node] = reasons_[node].empty() && !is_random_[node] &&
                           std::all_of(used_[node].begin(), used_[node].end(), is_known) &&
                           std::none_of(here.outputs.begin(), here.outputs.end(), [&](const std::string& name) {
                             return outputs_.contains(name) || (!name.empty() && !types_.values.contains(name));
                           });
    }
  }

  void number() {
    number_.assign(graph_.nodes.size(), kNoNode);
    for (const size_t node : order_)
      if (out_.is_used[node] && !is_constant_[node]) {
        number_[node] = members_.size();
        members_.push_back(node);
      }
  }

  void join() {
    std::vector<std::pair<size_t, size_t>> edges, together;
    size_t last_random = kNoNode;
    for (size_t to = 0; to < members_.size(); ++to) {
      const onnx::Node& node = graph_.nodes[members_[to]];
      for (const std::string_view value : used_[members_[to]]) {
        const size_t producer = maker(value);
        if (producer == kNoNode || number_[producer] == kNoNode || number_[producer] == to) continue;
        const size_t from = number_[producer];
        edges.emplace_back(from, to);
        const bool is_quantized_pair =
            node.op_type == "QuantizeLinear" || graph_.nodes[producer].op_type == "DequantizeLinear";
        const auto type = types_.values.find(std::string(value));
        if (is_quantized_pair || type == types_.values.end() || !can_cross(type->second.dtype))
          together.emplace_back(from, to);
      }
      if (!is_random_[members_[to]]) continue;
      if (last_random != kNoNode) {
        edges.emplace_back(last_random, to);
        kept_orders_.emplace_back(last_random, to);
      }
      last_random = to;
    }
    for (const std::vector<size_t>& group : groups_)
      for (size_t i = 1; i < group.size(); ++i)
        if (number_[group[i - 1]] != kNoNode && number_[group[i]] != kNoNode)
          together.emplace_back(number_[group[i - 1]], number_[group[i]]);
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
      std::array<uint64_t, 2> work = {0, 0};
      bool fits = true;
      for (const size_t node : out_.nodes[unit]) {
        for (size_t runtime = 0; runtime < 2; ++runtime)
          work[runtime] = std::min(work[runtime] + work_in(runtime, node), kMostWork);
        fits = fits && reasons_[node].empty();
      }
      if (!fits) work[0] = kCannotRun;
      out_.graph.units[unit].work = work;
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
        if (producer == kNoNode || out_.unit[producer] == kNoUnit || out_.unit[producer] == out_.unit[user]) continue;
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

  uint64_t work_in(size_t runtime, size_t node) const {
    const double factor = factor_of_[runtime].empty() ? factor_[runtime] : factor_of_[runtime][node];
    const uint64_t work = work_of(node);
    if (work == 0) return 0;  // a factor may be infinite, and 0 of those is no number
    return static_cast<uint64_t>(std::min(static_cast<double>(work) * factor, static_cast<double>(kMostWork)));
  }

  void find_factors() {
    factor_ = {1, costs_.penalty};
    if (measured_.empty()) return;
    std::unordered_map<std::string_view, size_t> by_label;
    for (const size_t node : members_) by_label.emplace(graph_.nodes[node].label(), node);
    std::array<double, 2> took = {0, 0}, estimated = {0, 0};
    std::vector<std::pair<std::vector<size_t>, double>> factors;  // of the nodes of each piece
    for (const MeasuredPiece& piece : measured_) {
      factors.emplace_back();
      double estimate = 0;
      for (const std::string& label : piece.nodes)
        if (const auto node = by_label.find(label); node != by_label.end()) {
          factors.back().first.push_back(node->second);
          estimate += static_cast<double>(work_of(node->second));
        }
      if (estimate <= 0) continue;
      factors.back().second = piece.picoseconds / estimate;
      took[static_cast<size_t>(piece.runtime)] += piece.picoseconds;
      estimated[static_cast<size_t>(piece.runtime)] += estimate;
    }
    for (size_t runtime = 0; runtime < 2; ++runtime)
      if (estimated[runtime] > 0) factor_[runtime] = took[runtime] / estimated[runtime];
    // A runtime that nothing was measured in differs from the other one as it does without measurements.
    if (estimated[0] <= 0 && costs_.penalty > 0) factor_[0] = factor_[1] / costs_.penalty;
    if (estimated[1] <= 0) factor_[1] = factor_[0] * costs_.penalty;
    for (size_t runtime = 0; runtime < 2; ++runtime) factor_of_[runtime].assign(graph_.nodes.size(), factor_[runtime]);
    for (size_t i = 0; i < factors.size(); ++i)
      for (const size_t node : factors[i].first)
        if (factors[i].second > 0) factor_of_[static_cast<size_t>(measured_[i].runtime)][node] = factors[i].second;
  }

  uint64_t work_of(size_t node) const {
    const onnx::Node& here = graph_.nodes[node];
    uint64_t bytes = 0, results = 0;
    auto add = [&](std::string_view value) {
      const onnx::ValueInfo* type = type_of(value);
      if (!type) return uint64_t{0};
      bytes += std::min(bytes_of(*type), kMostEstimate);
      return elements_in(*type);
    };
    for (const std::string_view value : used_[node]) add(value);
    for (const std::string& name : here.outputs) results = std::max(results, add(name));
    const uint64_t moved = std::min(saturated_product(bytes, costs_.per_byte), kMostEstimate);
    const uint64_t products = std::min(products_of(here, results), kMostEstimate);
    return std::min(moved + std::min(saturated_product(products, costs_.per_product), kMostEstimate), kMostEstimate);
  }

  // Of convolutions and matrix products; 0 of others, whose work is moving bytes. `results`: elements.
  uint64_t products_of(const onnx::Node& node, uint64_t results) const {
    const bool is_quantized = node.op_type.starts_with("QLinear");
    const size_t place = is_quantized ? 3 : 1;
    if (node.inputs.size() <= place) return 0;
    auto has = [&](std::string_view word) { return node.op_type.find(word) != std::string::npos; };
    if (has("Conv")) {
      const std::optional<Extents> weight = extents_of(node.inputs[place]);
      if (!weight || weight->size() < 2) return 0;
      // All axes but the first one: what a result takes, or what an element gives that a transposed one takes.
      uint64_t products = results;
      if (has("ConvTranspose"))
        if (const std::optional<Extents> input = extents_of(node.inputs[0])) products = elements_of_extents(*input);
      for (size_t axis = 1; axis < weight->size(); ++axis) products = saturated_product(products, (*weight)[axis]);
      return products;
    }
    if (!has("MatMul") && !has("Gemm")) return 0;
    const std::optional<Extents> left = extents_of(node.inputs[0]);
    if (!left || left->empty()) return results;
    const onnx::Attribute* transposed = node.find("transA");
    const size_t depth = transposed && transposed->i != 0 && left->size() > 1 ? 2 : 1;
    return saturated_product(results, std::max<uint64_t>((*left)[left->size() - depth], 1));
  }

  // Of an initializer, or of another value whose type is known: a weight may be made by a Constant or a
  // DequantizeLinear.
  const onnx::ValueInfo* type_of(std::string_view value) const {
    if (const auto constant = constants_.find(value); constant != constants_.end()) return &constant->second;
    const auto type = types_.values.find(std::string(value));
    return type == types_.values.end() ? nullptr : &type->second;
  }

  std::optional<Extents> extents_of(std::string_view value) const {
    const onnx::ValueInfo* type = type_of(value);
    return type && type->has_shape ? std::optional(extents_in(*type)) : std::nullopt;
  }

  const onnx::Graph& graph_;
  const ModelTypes& types_;
  const std::vector<std::string>& reasons_;
  const WorkCosts& costs_;
  const MeasuredWork& measured_;
  const std::vector<std::vector<size_t>>& groups_;
  std::vector<bool> is_random_;  // each node
  // By runtime, what is taken of an estimate: of any node, and where something was measured of each.
  std::array<double, 2> factor_ = {1, 1};
  std::array<std::vector<double>, 2> factor_of_;
  std::vector<std::vector<std::string_view>> used_;  // by each node
  std::unordered_map<std::string_view, size_t> maker_;
  std::unordered_map<std::string_view, onnx::ValueInfo> constants_;
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
                      const WorkCosts& costs, const MeasuredWork& measured,
                      const std::vector<std::vector<size_t>>& groups) {
  return Units(model, types, reasons, costs, measured, groups).make();
}

uint64_t bytes_of(const onnx::ValueInfo& info) {
  if (info.dtype == stream::DType::kUndefined) return 0;
  return saturated_product(elements_in(info), static_cast<uint64_t>(stream::bits(info.dtype) + 7) / 8);
}

}  // namespace lowtide::layout
