// SPDX-License-Identifier: Apache-2.0
#include "layout/model_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "layout/foreign_types.h"
#include "layout/half_values.h"
#include "layout/lower/graph_inputs.h"
#include "layout/lower/inline_functions.h"
#include "layout/lower/lower_graph.h"
#include "layout/lower/node_order.h"
#include "layout/lower/values_used.h"
#include "layout/marked_nodes.h"
#include "layout/optional_values.h"
#include "stream/error.h"
#include "stream/nearest_name.h"

namespace lowtide::layout {
namespace {

using onnx::ValueInfo;
using stream::Code;
using stream::DType;
using stream::Error;

bool is_tensor(const ValueInfo& info) {
  return info.type == ValueInfo::Type::kTensor && info.dtype != DType::kUndefined;
}

// Whether the lowering can begin with it.
bool is_typed(const ValueInfo& info) { return is_tensor(info) && info.has_shape && info.dtype != DType::kString; }

class Typing {
 public:
  Typing(const onnx::Model& model, const std::map<std::string, ValueInfo>& given, stream::Budget& budget)
      : model_(model), graph_(model.graph), given_(given), budget_(budget) {
    for (const onnx::Node* node : in_order(graph_)) order_.push_back(static_cast<size_t>(node - graph_.nodes.data()));
    for (const auto* list : {&graph_.outputs, &graph_.value_info})
      for (const ValueInfo& info : *list)
        if (info.type != ValueInfo::Type::kNone) declared_.emplace(info.name, &info);
    for (const onnx::Tensor& tensor : graph_.initializers) constants_.emplace(tensor.name, tensor.data != nullptr);
    for (const onnx::SparseTensor& tensor : graph_.sparse_initializers) constants_.emplace(tensor.values.name, true);
    for (const onnx::Node& node : graph_.nodes) made_.insert(node.outputs.begin(), node.outputs.end());
    out_.reasons.resize(graph_.nodes.size());
  }

  ModelTypes find() {
    check_given();
    do {
      while (!lower()) {
      }
    } while (infer());
    collect();
    return std::move(out_);
  }

 private:
  void check_given() const {
    for (const auto& [name, info] : given_) {
      if (made_.contains(name)) continue;
      std::vector<std::string> names(made_.begin(), made_.end());
      std::sort(names.begin(), names.end());
      throw Error(Code::kUsage, fmt::format("--value {}: no node makes a value of this name{}", name,
                                            stream::did_you_mean(name, names)));
    }
  }

  // The type of a node's output, as it is declared or as its operator tells it; null where neither is known.
  const ValueInfo* declared(const std::string& name) const {
    if (const auto found = declared_.find(name); found != declared_.end() && is_typed(*found->second))
      return found->second;
    if (const auto found = given_.find(name); found != given_.end()) return &found->second;
    if (const auto found = inferred_.find(name); found != inferred_.end()) return &found->second;
    if (const auto found = declared_.find(name); found != declared_.end()) return found->second;
    return nullptr;
  }

  static std::string why_unknown(const std::string& name, const ValueInfo* info) {
    if (info && info->type != ValueInfo::Type::kNone && info->type != ValueInfo::Type::kTensor)
      return fmt::format("its input '{}' is no tensor", name);
    if (info && info->dtype == DType::kString) return fmt::format("its input '{}' is a string tensor", name);
    return fmt::format("the type of its input '{}' is not known", name);
  }

  // A sequence, strings or the like, which no declaration makes a tensor of numbers.
  static bool is_no_tensor(const ValueInfo* info) {
    return info && info->type != ValueInfo::Type::kNone &&
           (info->type != ValueInfo::Type::kTensor || info->dtype == DType::kString);
  }

  struct Missing {
    std::string why;
    bool is_no_tensor = false;
  };

  // The part of the model that can be lowered, as far as is known now.
  onnx::Model part() {
    onnx::Model out;
    out.path = model_.path;
    out.ir_version = model_.ir_version;
    out.opsets = model_.opsets;
    out.functions = model_.functions;
    out.graph.name = graph_.name;
    out.graph.initializers = graph_.initializers;
    out.graph.sparse_initializers = graph_.sparse_initializers;
    std::unordered_map<std::string_view, Missing> missing;  // values that cannot be used, and why
    for (const ValueInfo& info : graph_.inputs) {
      if (constants_.contains(info.name) || is_typed(info))
        out.graph.inputs.push_back(info);
      else
        missing.emplace(info.name, Missing{why_unknown(info.name, &info), is_no_tensor(&info)});
    }
    for (const auto& [name, is_numeric] : constants_)
      if (!is_numeric) missing.emplace(name, Missing{fmt::format("its input '{}' is a string tensor", name), true});
    waits_.assign(graph_.nodes.size(), "");
    std::vector<bool> is_in_onnx(graph_.nodes.size(), false);  // whatever else is declared: it uses no tensors
    unknown_.clear();
    for (const size_t i : order_) {
      const onnx::Node& node = graph_.nodes[i];
      std::vector<std::string_view> used;
      add_values_used(node, used);
      if (out_.reasons[i].empty())
        for (const std::string_view name : used)
          if (const auto found = missing.find(name); found != missing.end() && waits_[i].empty()) {
            waits_[i] = found->second.why;
            is_in_onnx[i] = found->second.is_no_tensor;
            if (unknown_.contains(found->first)) unknown_[found->first] = true;
          }
      if (out_.reasons[i].empty() && waits_[i].empty()) {
        out.graph.nodes.push_back(marked(node, i));
        continue;
      }
      for (const std::string& name : node.outputs) {
        if (name.empty()) continue;
        const ValueInfo* info = declared(name);
        if (info && is_typed(*info)) {
          out.graph.inputs.push_back(*info);
          out.graph.inputs.back().name = name;
          continue;
        }
        missing.emplace(name, Missing{why_unknown(name, info), is_no_tensor(info)});
        if ((!out_.reasons[i].empty() || is_in_onnx[i]) && !is_no_tensor(info)) unknown_.emplace(name, false);
      }
    }
    return out;
  }

  // False: some nodes were refused, and without them there is more to be said of others.
  bool lower() {
    onnx::Model lowered = part();
    found_.clear();
    try {
      if (!lowered.functions.empty()) lowered = inline_functions(lowered);
      optionals_ = optional_values(lowered.graph);
      core::Model target(budget_);
      const LowerResult result = lower_graph(lowered, {}, {}, target, &found_);
      std::vector<Refusal> refusals;
      for (const stream::Unsupported& refused : result.refused)
        refusals.push_back(refusal(refused.where(), refused.reason(), graph_.nodes.size()));
      refuse(refusals);
      return refusals.empty();
    } catch (const Error& error) {
      const bool is_judgement = error.code() == Code::kUnsupported || (refused_ && error.code() == Code::kMalformed);
      if (!is_judgement) {
        stream::Where where = error.where();
        where.node = without_marks(where.node);
        throw Error(error.code(), without_marks(error.text()), where);
      }
      const Refusal judged = refusal(error.where(), error.text(), graph_.nodes.size());
      refuse({judged});
      return !judged.node;
    }
  }

  void refuse(const std::vector<Refusal>& refusals) {
    refused_ = refused_ || !refusals.empty();
    add_refusals(refusals, order_, out_.reasons);
  }

  // The types of all values, by what was lowered, what is declared, and what operators without a lowering tell of their
  // results (foreign_types.h). True where an operator tells a type that was not known before.
  bool infer() {
    HalfValues halves(model_);
    known_ = types_of_constants();
    for (const ValueInfo& info : graph_.inputs)
      if (is_tensor(info)) known_.insert_or_assign(info.name, info);
    doubtful_.clear();
    bool is_new = false;
    for (const size_t i : order_) {
      const onnx::Node& node = graph_.nodes[i];
      const bool may_be_half = halves.may_make(node);
      const bool is_lowered = out_.reasons[i].empty() && waits_[i].empty();
      for (ValueInfo& info : foreign_types(node, [this](const std::string& name) { return known_type(name); })) {
        if (info.name.empty()) continue;
        // Of a sequence that is lowered too: what a node that is not lowered takes out of it has a type.
        if (info.type == ValueInfo::Type::kSequence) known_.insert_or_assign(info.name, info);
        if (!is_lowered) is_new |= add_inferred(std::move(info));
      }
      for (const std::string& name : node.outputs) {
        if (name.empty()) continue;
        const auto found = found_.find(name);
        const ValueType* lowered = is_lowered && found != found_.end() ? &found->second : nullptr;
        const bool is_optional = lowered && optionals_.contains(name);
        std::optional<ValueInfo> info = type_of(name, lowered, may_be_half, is_optional);
        if (!info && lowered && !lowered->is_list) {
          info = with_type(name, *lowered, float_of(node));
          if (!info && !is_optional) doubtful_.push_back(name);
        }
        if (may_be_half && (!info || is_half(info->dtype))) halves.add(name);
        if (info && is_optional) info->type = ValueInfo::Type::kOptional;
        if (info) known_.insert_or_assign(name, std::move(*info));
      }
    }
    return is_new;
  }

  const ValueInfo* known_type(const std::string& name) const {
    if (const auto found = known_.find(name); found != known_.end()) return &found->second;
    const auto found = inferred_.find(name);
    return found == inferred_.end() ? nullptr : &found->second;
  }

  static bool may_be_lowered_as_float(DType dtype) { return dtype == DType::kFloat32 || is_half(dtype); }

  // The type of floats that a node's results certainly have, where the lowering has f32 for halves too; else
  // kUndefined. Operators of ai.onnx have one type T for operands and results, but for those that choose a type.
  DType float_of(const onnx::Node& node) const {
    static const std::unordered_set<std::string_view> kOther = {"If", "LayerNormalization", "Loop", "QuantizeLinear",
                                                                "Scan"};
    if (!node.domain.empty() || kOther.contains(node.op_type)) return DType::kUndefined;
    // "dtype", "output_datatype", "stash_type"
    if (std::any_of(node.attributes.begin(), node.attributes.end(),
                    [](const onnx::Attribute& attribute) { return attribute.name.ends_with("type"); }))
      return DType::kUndefined;
    auto type_at = [&](size_t place) {
      const ValueInfo* info = place < node.inputs.size() ? known_type(node.inputs[place]) : nullptr;
      return info ? info->dtype : DType::kUndefined;
    };
    if (node.op_type == "Constant" || node.op_type == "ConstantOfShape") {
      const onnx::Attribute* value = node.find("value");
      return value && value->tensors.size() == 1 ? value->tensors.front().dtype : DType::kUndefined;
    }
    if (node.op_type == "Cast") {
      const onnx::Attribute* to = node.find("to");
      return to ? stream::onnx_dtype(to->i).value_or(DType::kUndefined) : DType::kUndefined;
    }
    if (node.op_type == "CastLike" || node.op_type == "DequantizeLinear") return type_at(1);
    DType out = DType::kUndefined;
    for (const std::string& name : node.inputs) {
      if (name.empty()) continue;
      const ValueInfo* info = known_type(name);
      if (!info || (info->type != ValueInfo::Type::kTensor && info->type != ValueInfo::Type::kOptional))
        return DType::kUndefined;
      if (!stream::is_float(info->dtype)) continue;
      if (out != DType::kUndefined && out != info->dtype) return DType::kUndefined;
      out = info->dtype;
    }
    return out;
  }

  static std::optional<ValueInfo> with_type(const std::string& name, const ValueType& lowered, DType known) {
    if (!may_be_lowered_as_float(known) || lowered.dtype != DType::kFloat32) return std::nullopt;
    ValueInfo out;
    out.name = name;
    out.type = ValueInfo::Type::kTensor;
    out.dtype = known;
    out.has_shape = true;
    out.dims = lowered.dims;
    return out;
  }

  // True where the type was not known before. A declared type is kept.
  bool add_inferred(ValueInfo info) {
    const ValueInfo* before = declared(info.name);
    if (before && (before->type != info.type || before->has_shape)) return false;
    if (before && before->dtype != DType::kUndefined && before->dtype != info.dtype) return false;
    const std::string name = info.name;
    const auto found = inferred_.find(name);
    if (found != inferred_.end() && (found->second.has_shape || !info.has_shape)) return false;
    inferred_[name] = std::move(info);
    return true;
  }

  std::unordered_map<std::string, ValueInfo> types_of_constants() const {
    std::unordered_map<std::string, ValueInfo> out;
    for (const onnx::Tensor& tensor : graph_.initializers) {
      ValueInfo info;
      info.name = tensor.name;
      info.type = ValueInfo::Type::kTensor;
      info.dtype = tensor.dtype;
      info.has_shape = true;
      for (const int64_t dim : tensor.dims) info.dims.push_back({dim, ""});
      out.emplace(tensor.name, std::move(info));
    }
    return out;
  }

  void collect() {
    for (const ValueInfo& info : graph_.inputs)
      if (is_tensor(info)) out_.values.emplace(info.name, info);
    for (const size_t i : order_)
      for (const std::string& name : graph_.nodes[i].outputs) {
        if (name.empty()) continue;
        const auto lowered = found_.find(name);
        const bool is_lowered = out_.reasons[i].empty() && waits_[i].empty() && lowered != found_.end();
        const auto found = known_.find(name);
        if (found == known_.end() || !is_tensor(found->second)) continue;
        out_.values.emplace(name, found->second);
        if (is_lowered && !lowered->second.is_list && lowered->second.integers)
          out_.integers.emplace(name, lowered->second.integers);
      }
    for (size_t i = 0; i < waits_.size(); ++i)
      if (out_.reasons[i].empty()) out_.reasons[i] = waits_[i];
    out_.undeclared = doubtful_;
    for (const auto& [name, is_wanted] : unknown_)
      if (is_wanted) out_.undeclared.emplace_back(name);
    std::sort(out_.undeclared.begin(), out_.undeclared.end());
  }

  // Of an optional the type of the tensor that it has.
  std::optional<ValueInfo> type_of(const std::string& name, const ValueType* lowered, bool may_be_half,
                                   bool is_optional) const {
    const ValueInfo* info = is_optional ? nullptr : declared(name);
    const bool is_declared = info && is_tensor(*info);
    if (info && info->type != ValueInfo::Type::kTensor) return std::nullopt;
    if (lowered && lowered->is_list) return std::nullopt;
    ValueInfo out;
    out.name = name;
    out.type = ValueInfo::Type::kTensor;
    if (is_declared) {
      out.dtype = info->dtype;
      out.has_shape = info->has_shape;
      out.dims = info->dims;
    }
    if (!lowered) return is_declared ? std::optional(out) : std::nullopt;
    out.has_shape = true;
    out.dims = lowered->dims;
    if (!is_declared) {
      out.dtype = lowered->dtype;
      if (may_be_half && lowered->dtype == DType::kFloat32) return std::nullopt;
      return out;
    }
    const bool is_widened = lowered->dtype == DType::kFloat32 && is_half(info->dtype) && may_be_half;
    if (info->dtype != lowered->dtype && !is_widened)
      throw Error(given_.contains(name) ? Code::kUsage : Code::kMalformed,
                  fmt::format("the value '{}' is declared to be {}, and is {}", name, stream::dtype_name(info->dtype),
                              stream::dtype_name(lowered->dtype)),
                  {.file = model_.path});
    return out;
  }

  const onnx::Model& model_;
  const onnx::Graph& graph_;
  const std::map<std::string, ValueInfo>& given_;
  stream::Budget& budget_;
  std::vector<size_t> order_;
  std::unordered_map<std::string_view, const ValueInfo*> declared_;
  std::unordered_map<std::string_view, bool> constants_;  // by name: whether it is numeric
  std::unordered_set<std::string> made_;
  std::vector<std::string> waits_;                       // for each node: which input is missing
  std::unordered_map<std::string_view, bool> unknown_;   // outputs of refused nodes: whether their types are needed
  std::unordered_map<std::string, ValueInfo> inferred_;  // of outputs of nodes that are not lowered
  // All types, those of sequences included, and of optionals that have a tensor, with that tensor's dtype and dims.
  std::unordered_map<std::string, ValueInfo> known_;
  std::unordered_set<std::string> optionals_;  // of what was lowered
  std::vector<std::string> doubtful_;          // values that are f32 or of halves
  bool refused_ = false;
  ValueTypes found_;
  ModelTypes out_;
};

}  // namespace

ModelTypes find_types(const onnx::Model& model, const std::map<std::string, ValueInfo>& given, stream::Budget& budget) {
  return Typing(model, given, budget).find();
}

onnx::ValueInfo type_of_constant(const onnx::Tensor& tensor) {
  ValueInfo out{.name = tensor.name, .type = ValueInfo::Type::kTensor, .dtype = tensor.dtype, .has_shape = true};
  for (const int64_t dim : tensor.dims) out.dims.push_back({dim, ""});
  return out;
}

onnx::ValueInfo type_of_constant(const onnx::SparseTensor& tensor) {
  ValueInfo out = type_of_constant(tensor.values);
  out.dims.clear();
  for (const int64_t dim : tensor.dims) out.dims.push_back({dim, ""});
  return out;
}

}  // namespace lowtide::layout
