// SPDX-License-Identifier: Apache-2.0
#include "layout/sub_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "layout/foreign_types.h"
#include "layout/lower/values_used.h"
#include "layout/model_functions.h"
#include "layout/model_types.h"
#include "layout/value_names.h"
#include "stream/error.h"
#include "stream/nearest_name.h"

namespace lowtide::layout {
namespace {

using onnx::ValueInfo;
using stream::Code;
using stream::Error;
using Names = std::unordered_set<std::string_view>;

// The first IR version in which initializers need not be inputs.
constexpr int64_t kFirstIrWithFreeInitializers = 4;

[[noreturn]] void usage(const std::string& text) { throw Error(Code::kUsage, text); }

// The functions that nodes call, each of which may call others: a chain of them may be as long as the file.
class Calls {
 public:
  explicit Calls(const onnx::Model& model) : model_(model), functions_(model), called_(model.functions.size()) {}
  // In the order of the model.
  std::vector<onnx::Function> of(const std::vector<onnx::Node>& nodes) {
    add(nodes);
    while (!open_.empty()) {
      const size_t index = open_.back();
      open_.pop_back();
      add(model_.functions[index].nodes);
    }
    std::vector<onnx::Function> out;
    for (size_t i = 0; i < called_.size(); ++i)
      if (called_[i]) out.push_back(model_.functions[i]);
    return out;
  }

 private:
  // Recursive in bodies of nodes only, whose depth the reader limits.
  void add(const std::vector<onnx::Node>& nodes) {
    for (const onnx::Node& node : nodes) {
      if (const auto function = functions_.called_by(node); function && !called_[*function]) {
        called_[*function] = true;
        open_.push_back(*function);
      }
      for (const onnx::Attribute& attribute : node.attributes)
        for (const auto& body : attribute.graphs) add(body->nodes);
    }
  }

  const onnx::Model& model_;
  ModelFunctions functions_;
  std::vector<bool> called_;
  std::vector<size_t> open_;  // called, but not looked into yet
};

bool has_type(const ValueInfo& info) {
  const bool is_tensor = info.type == ValueInfo::Type::kTensor || info.type == ValueInfo::Type::kSparseTensor;
  return info.type != ValueInfo::Type::kNone && (!is_tensor || info.dtype != stream::DType::kUndefined);
}

class Cutter {
 public:
  Cutter(const onnx::Model& model, const PartEnds& ends) : model_(model), graph_(model.graph), ends_(ends) {
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      for (const std::string& name : graph_.nodes[i].outputs)
        if (!name.empty()) producers_.emplace(name, i);
    for (const onnx::Tensor& tensor : graph_.initializers) constants_.insert(tensor.name);
    for (const onnx::SparseTensor& tensor : graph_.sparse_initializers) constants_.insert(tensor.values.name);
    for (const ValueInfo& input : graph_.inputs) inputs_.emplace(input.name, &input);
    for (const auto* list : {&graph_.inputs, &graph_.outputs, &graph_.value_info})
      for (const ValueInfo& info : *list)
        if (has_type(info)) types_.emplace(info.name, &info);
  }

  onnx::Model part() {
    check_names("--from", ends_.from);
    check_names("--to", ends_.to);
    if (ends_.to.empty()) usage("--to: names of values are missing");
    check_types();
    find_needed();
    onnx::Model out;
    out.path = model_.path;
    out.ir_version = model_.ir_version;
    out.producer_name = model_.producer_name;
    out.producer_version = model_.producer_version;
    out.domain = model_.domain;
    out.model_version = model_.model_version;
    out.doc_string = model_.doc_string;
    out.opsets = model_.opsets;
    out.metadata = model_.metadata;
    out.sources = model_.sources;
    out.graph = graph();
    out.functions = Calls(model_).of(out.graph.nodes);
    return out;
  }

 private:
  bool is_known(const std::string& name) const {
    return producers_.contains(name) || constants_.contains(name) || inputs_.contains(name);
  }

  // What is probably meant comes first: inputs, or the results of nodes.
  std::vector<std::string> value_names(bool inputs_first) const {
    std::vector<std::string> out, results;
    for (const ValueInfo& input : graph_.inputs)
      if (!constants_.contains(input.name)) out.push_back(input.name);
    for (const onnx::Node& node : graph_.nodes)
      for (const std::string& name : node.outputs)
        if (!name.empty()) results.push_back(name);
    out.insert(inputs_first ? out.end() : out.begin(), results.begin(), results.end());
    out.insert(out.end(), constants_.begin(), constants_.end());
    return out;
  }

  // The node in whose body a value is, or null.
  static const onnx::Node* owner(const std::vector<onnx::Node>& nodes, const std::string& name) {
    for (const onnx::Node& node : nodes)
      for (const onnx::Attribute& attribute : node.attributes)
        for (const auto& body : attribute.graphs) {
          auto makes = [&](const onnx::Node& inner) {
            return std::find(inner.outputs.begin(), inner.outputs.end(), name) != inner.outputs.end();
          };
          if (std::any_of(body->nodes.begin(), body->nodes.end(), makes) || owner(body->nodes, name)) return &node;
        }
    return nullptr;
  }

  void check_names(const char* option, const std::vector<std::string>& names) const {
    Names seen;
    for (const std::string& name : names) {
      if (name.empty()) usage(fmt::format("{}: a name is empty", option));
      if (!seen.insert(name).second) usage(fmt::format("{}: '{}' is given twice", option, name));
      if (is_known(name)) continue;
      if (const onnx::Node* node = owner(graph_.nodes, name))
        usage(
            fmt::format("{}: '{}' is inside the body of node '{}' ({}); a model is cut between values of its main "
                        "graph",
                        option, name, node->label(), node->op_type));
      const std::vector<std::string> known = value_names(option == std::string_view("--from"));
      usage(fmt::format("{}: no value has the name '{}'{} (values: {})", option, name,
                        stream::did_you_mean(name, known), stream::listed(known)));
    }
  }

  void check_types() const {
    for (const auto& [name, type] : ends_.types) {
      auto has = [&, &wanted = name](const std::vector<std::string>& names) {
        return std::find(names.begin(), names.end(), wanted) != names.end();
      };
      if (!has(ends_.from) && !has(ends_.to))
        usage(fmt::format("--value {}: it is neither in --from nor in --to", name));
      if (types_.contains(name)) usage(fmt::format("--value {}: the model declares the type of this value", name));
    }
  }

  // What the outputs need, back to the inputs of the part.
  void find_needed() {
    const Names given(ends_.from.begin(), ends_.from.end());
    Names seen;
    is_kept_.resize(graph_.nodes.size());
    std::vector<std::string_view> open(ends_.to.begin(), ends_.to.end());
    while (!open.empty()) {
      const std::string_view name = open.back();
      open.pop_back();
      if (given.contains(name) || !seen.insert(name).second) continue;
      if (const auto producer = producers_.find(name); producer != producers_.end()) {
        if (is_kept_[producer->second]) continue;
        is_kept_[producer->second] = true;
        add_values_used(graph_.nodes[producer->second], open);
        continue;
      }
      const bool is_constant = constants_.contains(name);
      if (!is_constant && !inputs_.contains(name))
        throw Error(Code::kMalformed, fmt::format("value '{}' is used, and nothing makes it", name),
                    {.file = model_.path});
      (is_constant ? used_constants_ : used_inputs_).insert(name);
    }
    if (ends_.from.empty() || used_inputs_.empty()) return;
    std::vector<std::string> missing;
    for (const ValueInfo& input : graph_.inputs)
      if (used_inputs_.contains(input.name)) missing.push_back(input.name);
    usage(fmt::format("the outputs also need inputs of the model that --from does not name: {}",
                      stream::listed(missing)));
  }

  ValueInfo declared(const char* option, const std::string& name) const {
    if (const auto known = types_.find(name); known != types_.end()) return *known->second;
    if (const auto given = ends_.types.find(name); given != ends_.types.end()) return given->second;
    for (const onnx::Tensor& tensor : graph_.initializers)
      if (tensor.name == name) return type_of_constant(tensor);
    for (const onnx::SparseTensor& tensor : graph_.sparse_initializers)
      if (tensor.values.name == name) return type_of_constant(tensor);
    if (is_sequence(name))
      throw UndeclaredEnd(fmt::format("{}: '{}' is a sequence, and the model does not declare its type: add it to "
                                      "value_info of the model, or name a tensor",
                                      option, name),
                          name, true);
    throw UndeclaredEnd(fmt::format("{}: the model does not declare the type of '{}' (it has no value_info of it): "
                                    "give it as --value '{}=f32[1,3,?]'",
                                    option, name, name),
                        name, false);
  }

  bool is_sequence(const std::string& name) const {
    const auto producer = producers_.find(name);
    if (producer == producers_.end()) return false;
    auto type_of = [this](const std::string& value) {
      const auto found = types_.find(value);
      return found == types_.end() ? nullptr : found->second;
    };
    const std::vector<ValueInfo> made = foreign_types(graph_.nodes[producer->second], type_of);
    return std::any_of(made.begin(), made.end(), [&](const ValueInfo& info) {
      return info.name == name && info.type == ValueInfo::Type::kSequence;
    });
  }

  onnx::Graph graph() const {
    onnx::Graph out;
    out.name = graph_.name;
    for (const std::string& name : ends_.from) out.inputs.push_back(declared("--from", name));
    for (const ValueInfo& input : graph_.inputs) {
      const bool is_listed = used_constants_.contains(input.name) && model_.ir_version < kFirstIrWithFreeInitializers;
      if (used_inputs_.contains(input.name) || is_listed) out.inputs.push_back(input);
    }
    for (const std::string& name : ends_.to) out.outputs.push_back(declared("--to", name));
    Names named(ends_.from.begin(), ends_.from.end());
    named.insert(ends_.to.begin(), ends_.to.end());
    Names made;
    ValueNames taken;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!is_kept_[i]) continue;
      out.nodes.push_back(graph_.nodes[i]);
      made.insert(graph_.nodes[i].outputs.begin(), graph_.nodes[i].outputs.end());
      rename_given(out.nodes.back(), taken);
    }
    for (const ValueInfo& info : graph_.value_info)
      if (made.contains(info.name) && !named.contains(info.name)) out.value_info.push_back(info);
    for (const onnx::Tensor& tensor : graph_.initializers)
      if (used_constants_.contains(tensor.name)) out.initializers.push_back(tensor);
    for (const onnx::SparseTensor& tensor : graph_.sparse_initializers)
      if (used_constants_.contains(tensor.values.name)) out.sparse_initializers.push_back(tensor);
    return out;
  }

  // A node may also make a value that is an input of the part: under a name that is not used.
  void rename_given(onnx::Node& node, ValueNames& taken) const {
    for (std::string& name : node.outputs) {
      if (name.empty() || std::find(ends_.from.begin(), ends_.from.end(), name) == ends_.from.end()) continue;
      if (taken.empty()) taken = all_value_names(graph_);
      name = new_value_name(fmt::format("{}_unused", name), taken);
      node.place = {};
    }
  }

  const onnx::Model& model_;
  const onnx::Graph& graph_;
  const PartEnds& ends_;
  std::unordered_map<std::string_view, size_t> producers_;
  Names constants_;
  std::unordered_map<std::string_view, const ValueInfo*> inputs_, types_;
  std::vector<bool> is_kept_;
  Names used_constants_, used_inputs_;
};

}  // namespace

onnx::Model sub_model(const onnx::Model& model, const PartEnds& ends) { return Cutter(model, ends).part(); }

}  // namespace lowtide::layout
