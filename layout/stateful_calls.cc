// SPDX-License-Identifier: Apache-2.0
#include "layout/stateful_calls.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "layout/core/stateful_builtin.h"
#include "layout/raise/stateful_function.h"
#include "layout/raise_model.h"
#include "stream/error.h"
#include "stream/printable.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::layout {
namespace {

using Attribute = onnx::Attribute;

// Which tensors there are, and how often each is read, in inner graphs too.
class TensorUses {
 public:
  explicit TensorUses(const onnx::Graph& graph) {
    count(graph);
    for (const onnx::Tensor& tensor : graph.initializers) constants[tensor.name] = &tensor;
    for (const onnx::ValueInfo& port : graph.inputs) inputs[port.name] = &port;
    for (const onnx::ValueInfo& port : graph.outputs) ++outputs[port.name];
  }
  std::map<std::string, int> reads, outputs;
  std::map<std::string, const onnx::Tensor*> constants;
  std::map<std::string, const onnx::ValueInfo*> inputs;

 private:
  void count(const onnx::Graph& graph) {
    for (const onnx::Node& node : graph.nodes) {
      for (const std::string& name : node.inputs) ++reads[name];
      for (const Attribute& attribute : node.attributes)
        for (const auto& inner : attribute.graphs) {
          count(*inner);
          for (const onnx::ValueInfo& port : inner->outputs) ++reads[port.name];
        }
    }
  }
};

template <typename T>
std::optional<T> read_attribute(const onnx::Node& node, const char* name, Attribute::Type type, T Attribute::*field) {
  const Attribute* found = node.find(name);
  if (!found || found->type != type || !found->reference.empty()) return std::nullopt;
  return found->*field;
}

int narrow_of(std::optional<int64_t> number) {
  if (!number || *number < 0 || *number > std::numeric_limits<int>::max()) return 0;
  return static_cast<int>(*number);
}

// LiteRT's variables begin as zeros, those of 8 bits as the number 0.
bool is_reset(const onnx::Tensor& tensor, const std::optional<core::Quantization>& grid, stream::Budget& budget) {
  if (!tensor.data || !stream::is_small(*tensor.data)) return false;
  const bool has_zero = grid && tensor.dtype == stream::DType::kInt8;
  const double zero = has_zero ? static_cast<double>(grid->zero_point[0]) : 0;
  const std::vector<double> elements = stream::evaluate_doubles(tensor.data, budget);
  return std::all_of(elements.begin(), elements.end(), [&](double element) { return element == zero; });
}

// What the node says of the builtin; nullopt where it does not say it as the way back does.
std::optional<StatefulCall> call_of(const onnx::Node& node, const core::StatefulForm& form, const TensorUses& names,
                                    stream::Budget& budget) {
  using Type = Attribute::Type;
  const auto places = read_attribute(node, "input_places", Type::kInts, &Attribute::ints);
  const size_t count = node.inputs.size();
  if (!places || places->size() != count || count == 0 || node.outputs.size() != 1 + form.states) return std::nullopt;
  const auto scales = read_attribute(node, "scales", Type::kFloats, &Attribute::floats);
  const auto zeros = read_attribute(node, "zero_points", Type::kInts, &Attribute::ints);
  if (scales.has_value() != zeros.has_value() ||
      (scales && (scales->size() != count + 1 || zeros->size() != count + 1)))
    return std::nullopt;
  const auto grid = [&](size_t i) -> std::optional<core::Quantization> {
    if (!scales || !((*scales)[i] > 0)) return std::nullopt;
    return core::Quantization{.scale = {(*scales)[i]}, .zero_point = {(*zeros)[i]}, .axis = 0};
  };
  StatefulCall out;
  out.op.name = core::kind_name(form.kind);
  out.op.is_sequence = form.is_sequence;
  out.op.activation = narrow_of(read_attribute(node, "fused_activation_function", Type::kInt, &Attribute::i));
  out.op.cell_clip = read_attribute(node, "cell_clip", Type::kFloat, &Attribute::f).value_or(0);
  out.op.proj_clip = read_attribute(node, "proj_clip", Type::kFloat, &Attribute::f).value_or(0);
  out.op.time_major = narrow_of(read_attribute(node, "time_major", Type::kInt, &Attribute::i)) == 1;
  out.op.rank = narrow_of(read_attribute(node, "rank", Type::kInt, &Attribute::i));
  for (size_t i = 0; i < count; ++i) {
    const int64_t place = (*places)[i];
    if (place < 0 || place >= static_cast<int64_t>(form.inputs)) return std::nullopt;
    const auto at = static_cast<size_t>(place);
    StatefulCall::Operand operand{.dtype = {}, .shape = {}, .quantization = grid(i)};
    if (at == 0) {
      operand.dtype = operand.quantization ? stream::DType::kInt8 : stream::DType::kFloat32;
    } else {
      const auto constant = names.constants.find(node.inputs[i]);
      const auto input = names.inputs.find(node.inputs[i]);
      if (constant == names.constants.end() || (input != names.inputs.end()) != form.is_state(at)) return std::nullopt;
      operand.dtype = constant->second->dtype;
      operand.shape = constant->second->dims;
      if (form.is_state(at) && (names.reads.at(node.inputs[i]) != 1 || names.outputs.contains(node.inputs[i]) ||
                                !is_reset(*constant->second, operand.quantization, budget)))
        return std::nullopt;
    }
    if (!out.inputs.emplace(at, std::move(operand)).second) return std::nullopt;
  }
  out.result = grid(count);
  const auto is_there = [&](size_t place) { return out.inputs.contains(place); };
  const size_t weights = form.inputs == 5 ? 1 : 2;
  for (size_t i = 0; i < form.states; ++i)
    if (!is_there(form.first_state + i)) return std::nullopt;
  if (!is_there(0) || !is_there(weights) || out.inputs[weights].shape.size() != 2) return std::nullopt;
  core::Shape& data = out.inputs[0].shape;
  data.assign(form.is_sequence ? 3 : 2, 1);
  data.back() = out.inputs[weights].shape[1];
  for (size_t i = 1; i < node.outputs.size(); ++i) {
    const std::string& name = node.outputs[i];
    const auto listed = names.outputs.find(name);
    if (name.empty() || names.reads.contains(name) || listed == names.outputs.end() || listed->second != 1)
      return std::nullopt;
  }
  return out;
}

bool has_attributes(const onnx::Node& node, const StatefulCall& call, stream::Budget& budget) {
  const std::vector<Attribute> wanted = attributes_of_call(call);
  return node.attributes.size() == wanted.size() && std::all_of(wanted.begin(), wanted.end(), [&](const auto& one) {
           const Attribute* given = node.find(one.name);
           return given != nullptr && is_same_attribute(*given, one, budget);
         });
}

// "LSTM_2" is a second function of LSTM.
std::string builtin_of(const std::string& name) {
  const size_t digits = name.find_last_not_of("0123456789");
  const bool is_numbered = digits != std::string::npos && digits + 1 < name.size() && name[digits] == '_';
  return is_numbered ? name.substr(0, digits) : name;
}

class Taking {
 public:
  Taking(onnx::Model& model, stream::Budget& budget) : model_(model), budget_(budget), names_(model.graph) {}

  void run() {
    for (onnx::Node& node : model_.graph.nodes)
      if (node.domain == kStatefulDomain && is_builtin(node)) take(node);
    if (ports_.empty()) return;
    const auto is_taken = [&](const onnx::ValueInfo& port) {
      return std::find(ports_.begin(), ports_.end(), port.name) != ports_.end();
    };
    std::erase_if(model_.graph.inputs, is_taken);
    std::erase_if(model_.graph.outputs, is_taken);
    model_.opsets[core::kStatesDomain] = 1;
    model_.notes.push_back(
        fmt::format("the model keeps {} itself from one run to the next, as the TFLite model did from which it comes; "
                    "--outputs with the names of all outputs leaves them inputs and outputs",
                    names_of_states()));
  }

 private:
  std::string names_of_states() const {
    constexpr size_t kMost = 10;
    const std::span<const std::string> first(states_.data(), std::min(states_.size(), kMost));
    const std::string more = states_.size() > kMost ? fmt::format(" and {} more", states_.size() - kMost) : "";
    return fmt::format("{}{}", fmt::join(first, ", "), more);
  }

  bool is_builtin(const onnx::Node& node) {
    const auto function = std::find_if(model_.functions.begin(), model_.functions.end(), [&](const auto& one) {
      return one.domain == node.domain && one.name == node.op_type && one.overload == node.overload;
    });
    const core::StatefulForm* form = core::stateful_form(builtin_of(node.op_type));
    if (function == model_.functions.end() || !form) return false;
    const auto opset = function->opsets.find("");
    if (opset == function->opsets.end() || opset->second < kLeastRaisedOpset || opset->second > kMostRaisedOpset)
      return false;
    try {
      const std::optional<StatefulCall> call = call_of(node, *form, names_, budget_);
      return call && has_function(*call, budget_) && has_attributes(node, *call, budget_) &&
             is_same_body(*function, stateful_function(*call, opset->second, budget_), budget_);
    } catch (const stream::Error&) {
      return false;  // operands that do not fit: what is wrong with them is told by the body's own operators
    }
  }

  void take(onnx::Node& node) {
    node.op_type = builtin_of(node.op_type);
    const core::StatefulForm& form = *core::stateful_form(node.op_type);
    const std::vector<int64_t>& places = node.find("input_places")->ints;
    for (size_t i = 0; i < places.size(); ++i) {
      if (!form.is_state(static_cast<size_t>(places[i]))) continue;
      ports_.push_back(node.inputs[i]);
      states_.push_back(fmt::format("'{}'", stream::printable(node.inputs[i])));
    }
    ports_.insert(ports_.end(), node.outputs.begin() + 1, node.outputs.end());
    node.outputs.resize(1);
    node.domain = core::kStatesDomain;
    node.is_stateful_builtin = true;
    node.place = {};
  }

  onnx::Model& model_;
  stream::Budget& budget_;
  const TensorUses names_;
  std::vector<std::string> ports_, states_;
};

}  // namespace

void take_stateful_calls(onnx::Model& model, stream::Budget& budget) {
  const auto is_of = [](const char* domain) {
    return [domain](const onnx::Function& function) { return function.domain == domain; };
  };
  if (std::none_of(model.functions.begin(), model.functions.end(), is_of(kStatefulDomain))) return;
  // A function of that name would be inlined in place of the builtin.
  if (std::any_of(model.functions.begin(), model.functions.end(), is_of(core::kStatesDomain))) return;
  Taking(model, budget).run();
}

}  // namespace lowtide::layout
