// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/lower_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <queue>
#include <set>
#include <unordered_map>
#include <utility>

#include "layout/core/subgraphs.h"
#include "layout/lower/lowering.h"
#include "layout/lower/sparse.h"
#include "stream/nearest_name.h"
#include "stream/shape.h"

namespace lowtide::layout {
namespace {

using onnx::ValueInfo;
using stream::Code;
using stream::Error;
using stream::Unsupported;

// Operators may change their meaning with every opset: what is newer than the definitions that were read is refused.
constexpr int64_t kNewestOpset = 24;

// Names seen from a graph: its own values, then those of the graphs around it.
struct Scope {
  std::unordered_map<std::string, Val> names;
  std::set<std::string> strings;  // those of string tensors
  Scope* outer = nullptr;
  core::SubgraphBuilder* subgraph = nullptr;  // of the values, when the outer scope's are of the graph around it

  // Absent when there is none.
  Val find(const std::string& name) const {
    if (auto it = names.find(name); it != names.end()) return it->second;
    if (!outer) return {};
    Val found = outer->find(name);
    return subgraph ? subgraph->here(found) : found;
  }
  bool is_string(const std::string& name) const {
    return names.contains(name) ? strings.contains(name) : outer && outer->is_string(name);
  }
  void add(const std::string& name, Val v) {
    if (!names.emplace(name, v).second)
      throw Error(Code::kMalformed, fmt::format("the name '{}' is given twice", name));
  }
};

// Gives a variable another value until the end of the block, be it by an exception.
template <typename T>
class Meanwhile {
 public:
  Meanwhile(T& variable, T value) : variable_(variable), before_(std::exchange(variable, value)) {}
  ~Meanwhile() { variable_ = before_; }
  Meanwhile(const Meanwhile&) = delete;
  Meanwhile& operator=(const Meanwhile&) = delete;

 private:
  T& variable_;
  T before_;
};

bool is_half(core::DType dtype) { return dtype == core::DType::kFloat16 || dtype == core::DType::kBFloat16; }

// `kind` is a letter of LowerRow::inputs, a capital one as its small one.
bool is_of_kind(core::DType dtype, char kind) {
  const bool is_bool = dtype == core::DType::kBool, is_int = stream::is_integer(dtype);
  const bool is_complex = dtype == core::DType::kComplex64 || dtype == core::DType::kComplex128;
  const bool is_real = !is_bool && !is_int && !is_complex;
  switch (kind) {
    case 'b':
      return is_bool;
    case 'i':
    case 'I':
      return is_int;
    case 'f':
    case 'F':
      return is_real;
    case 'n':
    case 'N':
      return is_int || is_real;
    default:
      return true;
  }
}
bool shares_its_type(char kind) { return kind == 'I' || kind == 'F' || kind == 'N' || kind == '*'; }

std::string full_name(const onnx::Node& node) {
  return node.domain.empty() ? node.op_type : node.domain + "." + node.op_type;
}

// ONNX demands topological order; files in the wild do not always keep it.
std::vector<const onnx::Node*> in_order(const onnx::Graph& graph) {
  std::unordered_map<std::string, size_t> maker;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (const std::string& out : graph.nodes[i].outputs)
      if (!out.empty()) maker.emplace(out, i);
  std::vector<int> waits(graph.nodes.size(), 0);
  std::vector<std::vector<size_t>> next(graph.nodes.size());
  auto wait_for = [&](size_t user, const std::string& name) {
    if (auto it = maker.find(name); it != maker.end() && it->second != user) {
      next[it->second].push_back(user);
      ++waits[user];
    }
  };
  // A subgraph's captures count as inputs of the node that holds it.
  auto visit = [&](auto&& self, size_t user, const onnx::Node& node) -> void {
    for (const std::string& in : node.inputs) wait_for(user, in);
    for (const onnx::Attribute& attribute : node.attributes)
      for (const auto& sub : attribute.graphs) {
        for (const onnx::Node& inner : sub->nodes) self(self, user, inner);
        for (const ValueInfo& out : sub->outputs) wait_for(user, out.name);
      }
  };
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    visit(visit, i, graph.nodes[i]);
    if (waits[i] == 0) ready.push(i);
  }
  std::vector<const onnx::Node*> out;
  while (!ready.empty()) {
    size_t i = ready.top();
    ready.pop();
    out.push_back(&graph.nodes[i]);
    for (size_t user : next[i])
      if (--waits[user] == 0) ready.push(user);
  }
  if (out.size() != graph.nodes.size()) {
    for (size_t i = 0; i < waits.size(); ++i)
      if (waits[i] > 0)
        throw Error(Code::kMalformed, "the graph has a cycle through this node",
                    {.node = graph.nodes[i].label(), .op = full_name(graph.nodes[i])});
  }
  return out;
}

class GraphLowering : public Surroundings {
 public:
  GraphLowering(const onnx::Model& source, core::Model& target, LowerResult& result)
      : source_(source), target_(target), main_(*target.graphs[0]), builder_(&main_), result_(result) {}

  void add_initializers(const onnx::Graph& graph, Scope& scope) {
    for (const onnx::Tensor& tensor : graph.initializers) {
      scope.add(tensor.name, tensor.data ? widened(builder_->constant(tensor.data, tensor.name)) : poison());
      if (!tensor.data) scope.strings.insert(tensor.name);
    }
    for (const onnx::SparseTensor& sparse : graph.sparse_initializers)
      scope.add(sparse.values.name,
                widened(builder_->constant(dense(sparse, builder_->graph.budget), sparse.values.name)));
  }

  // Half precision is how numbers are stored, not how they are computed: inside the graph f16 and bf16 are f32
  // (docs/decisions/half-precision.md).
  Val widened(Val v) { return is_half(builder_->dtype(v)) ? builder_->cast(v, core::DType::kFloat32) : v; }

  void lower_nodes(const onnx::Graph& graph, Scope& scope) {
    collect_types(graph);
    Meanwhile inside(scope_, &scope);
    for (const onnx::Node* node : in_order(graph)) lower_node(*node, scope);
  }

  std::vector<Val> lower_inline(const onnx::Graph& graph, std::span<const Val> inputs) override {
    return lower_subgraph(graph, inputs, nullptr);
  }

  std::vector<Val> lower_into(core::SubgraphBuilder& subgraph, const onnx::Graph& graph,
                              std::span<const Val> inputs) override {
    const size_t refused = result_.refused.size();
    Meanwhile inside(builder_, &subgraph.b());
    std::vector<Val> out = lower_subgraph(graph, inputs, &subgraph);
    if (result_.refused.size() > refused) throw Unsupported("its subgraph holds nodes that are refused");
    return out;
  }

  // `subgraph` is where the values of the subgraph live when that is not the graph around it.
  std::vector<Val> lower_subgraph(const onnx::Graph& graph, std::span<const Val> inputs,
                                  core::SubgraphBuilder* subgraph) {
    if (inputs.size() != graph.inputs.size())
      throw Error(Code::kMalformed, fmt::format("the subgraph '{}' has {} inputs, {} are given", graph.name,
                                                graph.inputs.size(), inputs.size()));
    Meanwhile deeper(depth_, depth_ + 1);
    if (depth_ > kMaxDepth) throw Error(Code::kMalformed, "subgraphs are nested too deeply");
    Scope scope{.names = {}, .strings = {}, .outer = scope_, .subgraph = subgraph};
    for (size_t i = 0; i < inputs.size(); ++i) scope.add(graph.inputs[i].name, inputs[i]);
    add_initializers(graph, scope);
    lower_nodes(graph, scope);
    std::vector<Val> out;
    for (const ValueInfo& info : graph.outputs) {
      Val found = scope.find(info.name);
      if (!found) throw Error(Code::kMalformed, fmt::format("the subgraph's output '{}' has no producer", info.name));
      if (scope.is_string(info.name))
        throw Unsupported(fmt::format("the subgraph's output '{}' is a string tensor", info.name));
      out.push_back(found);
    }
    return out;
  }

  core::Model& model() override { return target_; }

  // A graph output in the type that the model gives it.
  Val as_declared(Val v, const ValueInfo& info) {
    const bool narrows = is_half(info.dtype) && builder_->dtype(v) == core::DType::kFloat32;
    return narrows ? builder_->cast(v, info.dtype) : v;
  }

  // A value that stands for what could not be lowered: uses of it are skipped, since they are no news to the user.
  Val poison() { return {builder_->graph.add_value(core::DType::kUndefined, {})}; }
  bool is_poisoned(Val v) const { return builder_->dtype(v) == core::DType::kUndefined; }

 private:
  static constexpr int kMaxDepth = 32;
  static constexpr int64_t kMostInnerNodes = 100'000;  // of subgraphs, each time that they are laid out

  void collect_types(const onnx::Graph& graph) {
    for (const auto* list : {&graph.value_info, &graph.outputs})
      for (const ValueInfo& info : *list)
        if (info.type == ValueInfo::Type::kTensor && info.has_shape) types_.emplace(info.name, &info);
  }

  // The outputs of a refused node, so that the nodes after it can be judged too: a value of the declared type where the
  // file declares one.
  Val stand_in(const std::string& name) {
    auto it = types_.find(name);
    if (it == types_.end()) return poison();
    core::Shape shape;
    for (const onnx::Dimension& dim : it->second->dims)
      shape.push_back(dim.value >= 0 ? dim.value : builder_->graph.symbols.fresh(name));
    return {builder_->graph.add_value(is_half(it->second->dtype) ? core::DType::kFloat32 : it->second->dtype, shape)};
  }

  // Loops in loops may ask for more nodes than any machine has.
  void count_node() {
    if (depth_ > 0 && ++inner_nodes_ > kMostInnerNodes)
      throw Error(Code::kUnsupported,
                  fmt::format("the loops would be laid out as more than {} nodes", kMostInnerNodes));
  }

  static std::string no_producer(const onnx::Node& node, const std::string& input) {
    const bool is_its_own = std::find(node.outputs.begin(), node.outputs.end(), input) != node.outputs.end();
    return is_its_own ? fmt::format("its input '{}' is its own output: a cycle", input)
                      : fmt::format("its input '{}' has no producer", input);
  }

  void lower_node(const onnx::Node& node, Scope& scope) {
    count_node();
    const stream::Where where{.node = node.label(), .op = full_name(node)};
    try {
      const LowerRow* row = find_lowering(node.domain, node.op_type);
      if (!row) throw Unsupported("the operator is not known");
      std::vector<Val> inputs;
      bool poisoned = false;
      for (const std::string& name : node.inputs) {
        if (name.empty()) {
          inputs.emplace_back();
          continue;
        }
        Val found = scope.find(name);
        if (!found) throw Error(Code::kMalformed, no_producer(node, name));
        if (scope.is_string(name))
          throw Unsupported(fmt::format("its input '{}' is a string tensor, which TFLite's kernels do not take", name));
        inputs.push_back(found);
        poisoned = poisoned || is_poisoned(found);
      }
      check_arity(node, *row);
      if (poisoned) {
        for (const std::string& out : node.outputs)
          if (!out.empty()) scope.add(out, stand_in(out));
        return;
      }
      builder_->graph.origins.push_back(node.label());
      builder_->origin = static_cast<uint32_t>(builder_->graph.origins.size() - 1);
      check_types(*row, inputs);
      Lowering lowering(*builder_, node, opset(node), std::move(inputs), *this);
      row->lower(lowering);
      lowering.finish();
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i].empty()) continue;
        Val out = widened(lowering.outputs()[i]);
        core::Value& value = builder_->graph.at(out.id);
        if (value.name.empty() && !value.is_constant()) value.name = node.outputs[i];
        scope.add(node.outputs[i], out);
      }
    } catch (Unsupported& refused) {
      refused.add_place(where);
      refused.add_place({.file = source_.path});
      result_.refused.push_back(refused);
      for (const std::string& out : node.outputs)
        if (!out.empty() && !scope.names.contains(out)) scope.add(out, stand_in(out));
    } catch (Error& error) {
      error.add_place(where);
      throw;
    }
  }

  static void check_arity(const onnx::Node& node, const LowerRow& row) {
    auto count = static_cast<int>(node.inputs.size());
    if (count < row.min_inputs || (row.max_inputs >= 0 && count > row.max_inputs))
      throw Error(Code::kMalformed,
                  fmt::format("it has {} inputs, {} to {} are allowed", count, row.min_inputs,
                              row.max_inputs < 0 ? std::string("any number") : std::to_string(row.max_inputs)));
    if (row.max_outputs >= 0 && static_cast<int>(node.outputs.size()) > row.max_outputs)
      throw Error(Code::kMalformed,
                  fmt::format("it has {} outputs, at most {} are allowed", node.outputs.size(), row.max_outputs));
    std::set<std::string_view> names;
    for (const onnx::Attribute& attribute : node.attributes)
      if (!names.insert(attribute.name).second)
        throw Error(Code::kMalformed, fmt::format("attribute '{}' is given twice", attribute.name));
  }

  void check_types(const LowerRow& row, const std::vector<Val>& inputs) const {
    std::optional<core::DType> shared;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i]) continue;
      const core::DType dtype = builder_->dtype(inputs[i]);
      const char kind = row.inputs[std::min(i, row.inputs.size() - 1)];
      if (!is_of_kind(dtype, kind))
        throw Error(Code::kMalformed, fmt::format("it does not take {}", stream::dtype_name(dtype)),
                    {.slot = fmt::format("input {}", i)});
      if (!shares_its_type(kind)) continue;
      if (shared.value_or(dtype) != dtype)
        throw Error(Code::kMalformed,
                    fmt::format("it is {}, and others that must be of the same type are {}", stream::dtype_name(dtype),
                                stream::dtype_name(*shared)),
                    {.slot = fmt::format("input {}", i)});
      shared = dtype;
    }
  }

  int64_t opset(const onnx::Node& node) const {
    if (node.opset > 0) return node.opset;
    auto it = source_.opsets.find(node.domain);
    if (it != source_.opsets.end()) return it->second;
    // ONNX Runtime takes its own domains at version 1 when the import is missing; for ai.onnx it is required.
    if (!node.domain.empty()) return 1;
    throw Error(Code::kMalformed, "the model imports no opset for the domain ai.onnx");
  }

  const onnx::Model& source_;
  core::Model& target_;
  Builder main_;
  Builder* builder_;  // of the graph that nodes go to
  LowerResult& result_;
  Scope* scope_ = nullptr;
  int depth_ = 0;
  int64_t inner_nodes_ = 0;
  std::unordered_map<std::string, const ValueInfo*> types_;
};

// Before IR version 4 initializers are listed as inputs too; what is said of them there must be true.
void check_listed(const ValueInfo& info, const core::Value& initializer) {
  // Strings have no values here.
  if (info.type == ValueInfo::Type::kNone || initializer.dtype == core::DType::kUndefined) return;
  bool agrees = info.type == ValueInfo::Type::kTensor && (info.dtype == initializer.dtype || is_half(info.dtype)) &&
                (!info.has_shape || info.dims.size() == initializer.shape.size());
  for (size_t i = 0; agrees && i < info.dims.size(); ++i)
    agrees = info.dims[i].value < 0 || info.dims[i].value == initializer.shape[i];
  if (agrees) return;
  core::Shape listed;
  for (const onnx::Dimension& dim : info.dims) listed.push_back(dim.value);
  throw Error(Code::kMalformed,
              fmt::format("the initializer '{}' is {}{}, and the graph's inputs list it as {}{}", info.name,
                          dtype_name(initializer.dtype), stream::to_string(initializer.shape), dtype_name(info.dtype),
                          stream::to_string(listed)));
}

core::Shape input_shape(const ValueInfo& info, const std::map<std::string, core::Shape>& shapes,
                        core::Symbols& symbols) {
  auto given = shapes.find(info.name);
  if (given != shapes.end()) {
    if (!info.has_shape) return given->second;
    if (info.dims.size() != given->second.size())
      throw Error(Code::kUsage, fmt::format("--shape {}: the input has rank {}, not {}", info.name, info.dims.size(),
                                            given->second.size()));
    for (size_t i = 0; i < info.dims.size(); ++i)
      if (info.dims[i].value >= 0 && info.dims[i].value != given->second[i])
        throw Error(Code::kUsage, fmt::format("--shape {}: axis {} is {} in the model and cannot become {}", info.name,
                                              i, info.dims[i].value, given->second[i]));
    return given->second;
  }
  if (!info.has_shape)
    throw Error(Code::kUnsupported,
                fmt::format("the input '{}' has no shape; give it by --shape {}=...", info.name, info.name));
  core::Shape shape;
  for (size_t i = 0; i < info.dims.size(); ++i) {
    const onnx::Dimension& dim = info.dims[i];
    if (dim.value >= 0)
      shape.push_back(dim.value);
    else if (dim.symbol.empty() || dim.symbol == "?")
      shape.push_back(symbols.fresh(fmt::format("{}.{}", info.name, i)));
    else
      shape.push_back(symbols.named(dim.symbol));
  }
  return shape;
}

// So that what is worked out from extents of inputs does not overflow.
void check_extents(const std::string& input, const core::Shape& shape) {
  for (const core::Dim extent : shape)
    if (extent > std::numeric_limits<int32_t>::max())
      throw Error(
          Code::kUnsupported,
          fmt::format("the input '{}' has an extent of {}, which does not fit TFLite's 32 bits", input, extent));
}

}  // namespace

LowerResult lower_graph(const onnx::Model& model, const std::map<std::string, core::Shape>& shapes,
                        core::Model& target) {
  LowerResult result;
  target.graphs.push_back(std::make_unique<core::Graph>(target.symbols, target.budget));
  core::Graph& graph = *target.graphs[0];
  GraphLowering lowering(model, target, result);
  Scope scope;
  graph.name = model.graph.name;
  if (auto ai_onnx = model.opsets.find(""); ai_onnx != model.opsets.end() && ai_onnx->second > kNewestOpset)
    throw Error(Code::kUnsupported,
                fmt::format("the model is of opset {}; {} is the newest that is known", ai_onnx->second, kNewestOpset));
  lowering.add_initializers(model.graph, scope);
  std::set<std::string> known;
  for (const ValueInfo& info : model.graph.inputs) {
    if (auto it = scope.names.find(info.name); it != scope.names.end()) {
      check_listed(info, graph.at(it->second.id));
      continue;
    }
    known.insert(info.name);
    if (info.type == ValueInfo::Type::kNone)
      throw Error(Code::kMalformed, fmt::format("the input '{}' has no type", info.name));
    if (info.type != ValueInfo::Type::kTensor || info.dtype == core::DType::kString)
      throw Error(Code::kUnsupported, fmt::format("the input '{}' is not a numeric tensor", info.name));
    if (info.dtype == core::DType::kUndefined)
      throw Error(Code::kMalformed, fmt::format("the input '{}' has no element type", info.name));
    core::Shape shape = input_shape(info, shapes, graph.symbols);
    check_extents(info.name, shape);
    core::ValueId id = graph.add_value(info.dtype, std::move(shape), info.name);
    graph.inputs.push_back(id);
    graph.input_names.push_back(info.name);
    scope.add(info.name, lowering.widened({id}));
  }
  for (const auto& [name, shape] : shapes)
    if (!known.contains(name))
      throw Error(Code::kUsage,
                  fmt::format("--shape: the model has no input '{}'{} (inputs: {})", name,
                              stream::did_you_mean(name, graph.input_names), stream::listed(graph.input_names)));
  lowering.lower_nodes(model.graph, scope);
  for (const ValueInfo& info : model.graph.outputs) {
    Val found = scope.find(info.name);
    if (!found) throw Error(Code::kMalformed, fmt::format("the output '{}' has no producer", info.name));
    const bool is_tensor = info.type == ValueInfo::Type::kTensor || info.type == ValueInfo::Type::kNone;
    if (!is_tensor || scope.is_string(info.name) || graph.at(found.id).dtype == core::DType::kString)
      throw Error(Code::kUnsupported, fmt::format("the output '{}' is not a numeric tensor", info.name));
    graph.outputs.push_back(lowering.as_declared(found, info).id);
    graph.output_names.push_back(info.name);
  }
  return result;
}

}  // namespace lowtide::layout
