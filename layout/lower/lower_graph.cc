// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/lower_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "layout/core/subgraphs.h"
#include "layout/lower/batch_change.h"
#include "layout/lower/custom_operators.h"
#include "layout/lower/declared.h"
#include "layout/lower/graph_inputs.h"
#include "layout/lower/graph_outputs.h"
#include "layout/lower/judgement.h"
#include "layout/lower/lowering.h"
#include "layout/lower/newer_parts.h"
#include "layout/lower/node_order.h"
#include "layout/lower/node_rules.h"
#include "layout/lower/scope.h"
#include "layout/lower/since.h"
#include "layout/lower/sparse.h"
#include "layout/lower/subgraph.h"
#include "stream/nearest_name.h"

namespace lowtide::layout {
namespace {

using onnx::ValueInfo;
using stream::Code;
using stream::Error;
using stream::Unsupported;

// Gives a variable another value until the end of the block.
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

// Until the end of the block, a builder makes `free` operators and as many more as are left of `others`.
class LimitedOps {
 public:
  LimitedOps(core::Builder& builder, size_t free, size_t& others)
      : builder_(builder), free_(free), at_first_(free + others), others_(others), before_(builder.ops_left) {
    builder.ops_left = at_first_;
  }
  ~LimitedOps() {
    const size_t made = at_first_ - builder_.ops_left;
    if (made > free_) others_ -= std::min(others_, made - free_);
    builder_.ops_left = before_;
  }
  LimitedOps(const LimitedOps&) = delete;
  LimitedOps& operator=(const LimitedOps&) = delete;

 private:
  core::Builder& builder_;
  size_t free_, at_first_;
  size_t& others_;
  size_t before_;
};

Unsupported unknown_operator(const onnx::Node& node) {
  if (node.domain == "com.microsoft.nchwc")
    return Unsupported("ONNX Runtime wrote the operator for the processor that it ran on",
                       "convert the model from before, or let ONNX Runtime save it with ORT_ENABLE_EXTENDED");
  return Unsupported("the operator is not known", "with '--custom-ops allow' it becomes a custom operator");
}

class GraphLowering : public Surroundings {
 public:
  // `batch` and `released` may be null.
  GraphLowering(const onnx::Model& source, core::Model& target, BatchChange* batch, const CustomChoice& choice,
                onnx::Graph* released)
      : custom(choice),
        declared(target.symbols),
        source_(source),
        target_(target),
        main_(*target.graphs[0]),
        builder_(&main_),
        batch_(batch),
        released_(released) {}

  Judgement judgement;
  NewerParts newer;
  CustomOperators custom;
  Declared declared;

  void add_initializers(const onnx::Graph& graph, Scope& scope) {
    for (const onnx::Tensor& tensor : graph.initializers) {
      if (tensor.data)
        add_widened(tensor.name, builder_->constant(tensor.data, tensor.name), scope);
      else
        scope.add(tensor.name, unknown(), kIsString);
    }
    for (const onnx::SparseTensor& sparse : graph.sparse_initializers)
      add_widened(sparse.values.name, builder_->constant(dense(sparse, builder_->graph.budget), sparse.values.name),
                  scope);
  }

  // Half precision is a way of storing numbers, not of computing: inside the graph f16 and bf16 are f32
  // (docs/decisions/half-precision.md). Returns what the name stands for.
  Val add_widened(const std::string& name, Val v, Scope& scope) {
    const core::DType dtype = builder_->graph.at(v.id).dtype;
    const Val wide = is_half(dtype) ? builder_->cast(v, core::DType::kFloat32) : v;
    if (is_half(dtype)) builder_->graph.halves->insert(dtype);
    scope.add(name, wide, half_mark(dtype));
    return wide;
  }

  // The main graph's inputs. `shapes` overrides the file's, by name.
  void add_inputs(const std::map<std::string, core::Shape>& shapes, Scope& scope) {
    core::Graph& graph = main_.graph;
    std::set<std::string> known;
    for (const ValueInfo& info : scope.graph.inputs) {
      if (auto it = scope.names.find(info.name); it != scope.names.end()) {
        check_listed(info, graph.at(it->second.v.id));
        continue;
      }
      known.insert(info.name);
      check_is_numeric(info);
      core::Shape shape = input_shape(info, shapes, graph.symbols);
      check_extents(info.name, shape);
      declared.name_dimensions(info, shape);
      graph.add_chosen_extents(shape);
      core::ValueId id = graph.add_value(info.dtype, std::move(shape), info.name);
      graph.inputs.push_back(id);
      graph.input_names.push_back(info.name);
      add_widened(info.name, {id}, scope);
    }
    for (const auto& [name, shape] : shapes)
      if (!known.contains(name))
        throw Error(Code::kUsage,
                    fmt::format("--shape: the model has no input '{}'{} (inputs: {})", name,
                                stream::did_you_mean(name, graph.input_names), stream::listed(graph.input_names)));
  }

  // The main graph's outputs, unless a node is refused. `extents` gets what the file declares of them, where its inputs
  // have the shapes that the file gives them.
  void add_outputs(bool has_file_shapes, const Scope& scope, std::map<core::Dim, core::Dim>& extents) {
    core::Graph& graph = main_.graph;
    for (const ValueInfo& info : scope.graph.outputs) {
      Val found = scope.find(info.name);
      if (!found) throw Error(Code::kMalformed, fmt::format("the output '{}' has no producer", info.name));
      if (judgement.refusals() > 0) continue;
      const bool is_tensor = info.type == ValueInfo::Type::kTensor || info.type == ValueInfo::Type::kNone;
      if (!is_tensor || scope.has(info.name, kIsString) || graph.at(found.id).dtype == core::DType::kString)
        throw Error(Code::kUnsupported, fmt::format("the output '{}' is not a numeric tensor", info.name));
      const Val output = as_declared(main_, found, info);
      graph.outputs.push_back(output.id);
      if (has_file_shapes) note_declared_extents(graph, output, info, extents);
      graph.output_names.push_back(info.name);
    }
  }

  void lower_nodes(const onnx::Graph& graph, Scope& scope) {
    Meanwhile inside(scope_, &scope);
    for (const onnx::Node* node : layout::in_order(graph)) {
      lower_node(*node, scope);
      if (released_ && &graph == released_) release(released_->nodes[static_cast<size_t>(node - graph.nodes.data())]);
    }
  }

  std::vector<Val> lower_inline(const onnx::Graph& graph, std::span<const Val> inputs) override {
    return lower_subgraph(graph, inputs, nullptr);
  }

  std::vector<Val> lower_into(core::SubgraphBuilder& subgraph, const onnx::Graph& graph,
                              std::span<const Val> inputs) override {
    const uint64_t refusals = judgement.refusals(), open = judgement.open();
    Meanwhile inside(builder_, &subgraph.b());
    std::vector<Val> out = lower_subgraph(graph, inputs, &subgraph);
    if (judgement.refusals() > refusals) throw Unsupported("its subgraph holds nodes that are refused");
    if (judgement.open() > open || std::any_of(out.begin(), out.end(), [&](Val v) { return is_unknown(v); }))
      throw core::UnknownType{};
    return out;
  }

  // `subgraph` is where the values of the subgraph live when that is not the graph around it.
  std::vector<Val> lower_subgraph(const onnx::Graph& graph, std::span<const Val> inputs,
                                  core::SubgraphBuilder* subgraph) {
    const std::vector<const ValueInfo*> given = given_inputs(graph);
    if (inputs.size() != given.size())
      throw Error(Code::kMalformed, fmt::format("the subgraph '{}' has {} inputs, {} are given", graph.name,
                                                given.size(), inputs.size()));
    Meanwhile deeper(depth_, depth_ + 1);
    if (depth_ > kMaxDepth) throw Error(Code::kMalformed, "subgraphs are nested too deeply");
    count_inner(1 + values_of(graph) / kValuesOfANode);
    Scope scope{.graph = graph, .outer = scope_, .subgraph = subgraph};
    add_initializers(graph, scope);
    size_t next = 0;
    for (const ValueInfo& info : graph.inputs) {
      if (next == given.size() || given[next] != &info)
        check_listed(info, builder_->graph.at(scope.names.at(info.name).v.id));
      else
        scope.add(info.name, inputs[next++], half_mark(info.dtype));
    }
    looked_through_.insert(&graph);
    lower_nodes(graph, scope);
    std::vector<uint8_t>& halves = output_halves_[&graph];
    halves.resize(graph.outputs.size());
    std::vector<Val> out;
    for (const ValueInfo& info : graph.outputs) {
      Val found = scope.find(info.name);
      if (!found) throw Error(Code::kMalformed, fmt::format("the subgraph's output '{}' has no producer", info.name));
      if (scope.has(info.name, kIsString))
        throw Unsupported(fmt::format("the subgraph's output '{}' is a string tensor", info.name));
      halves[out.size()] |= half_mark(scope.half(info.name));
      out.push_back(found);
    }
    return out;
  }

  core::Model& model() override { return target_; }
  int64_t inner_nodes() const override { return inner_nodes_; }

  std::optional<ListJoin> join_of(const std::string& list) override {
    if (!joins_) joins_.emplace(source_.graph);
    return joins_->find(list);
  }

  core::DType half_of(const std::string& value) const override { return scope_->half(value); }

 private:
  // Frees what is not used once a node is lowered. Names and outputs are still used in messages, and graphs, by
  // their addresses, to tell which were looked through.
  static void release(onnx::Node& node) {
    std::vector<std::string>().swap(node.inputs);  // `= {}` would keep the capacity
    if (!holds_graphs(node)) std::vector<onnx::Attribute>().swap(node.attributes);
  }

  static constexpr int kMaxDepth = 32;
  // Nodes of subgraphs, counted each time that they are laid out. The fuzzer's build takes 0.1 ms for a node, and few
  // bytes name any number of them.
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
  static constexpr int64_t kMostInnerNodes = 10'000;
#else
  static constexpr int64_t kMostInnerNodes = 100'000;
#endif
  static constexpr int64_t kValuesOfANode = 8;
  // A node becomes some operators, or some for each group, class, or part, of which a file of a hundred bytes may
  // declare any number. So only the first operators of a node that stands once in the file are free.
  static constexpr size_t kFreeOps = 64, kMostOtherOps = 131'072;

  // ---- behind refused nodes ----

  // The output of a node that was not lowered, where nothing tells its type: whoever asks for the type gets a
  // core::UnknownType.
  Val unknown() { return {builder_->graph.add_value(core::DType::kUndefined, {})}; }
  bool is_unknown(Val v) const { return builder_->graph.at(v.id).dtype == core::DType::kUndefined; }

  // The outputs of a node that was not lowered, so that the nodes behind it can be judged.
  void give_stand_ins(const onnx::Node& node, Scope& scope) {
    const bool computed = any_computed(node, scope);
    for (const std::string& name : node.outputs) {
      if (name.empty() || scope.names.contains(name)) continue;
      const ValueInfo* info = declared.find(name, scope.graph);
      std::optional<core::Shape> shape;
      if (info && computed) shape = declared.full_shape(*info);
      if (shape) {
        const core::DType dtype = is_half(info->dtype) ? core::DType::kFloat32 : info->dtype;
        scope.add(name, {builder_->graph.add_value(dtype, std::move(*shape))}, kIsDeclared | half_mark(info->dtype));
        continue;
      }
      scope.add(name, unknown());
      if (info && info->dtype == core::DType::kString) scope.mark(name, kIsString);
      if (computed) scope.mark(name, kIsComputed);
    }
  }

  // Whether an input is known only at run time: then so are the outputs, and no node behind could find a constant.
  bool any_computed(const onnx::Node& node, const Scope& scope) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](const std::string& name) {
      const Val v = name.empty() ? Val{} : scope.find(name);
      if (!v) return false;
      if (is_unknown(v)) return scope.has(name, kIsComputed);
      return !builder_->is_constant(v) && !builder_->graph.contents(v.id);
    });
  }

  // Neither lowered nor refused. Its subgraphs are looked through by themselves.
  void leave_open(const onnx::Node& node, Scope& scope) {
    judgement.leave_open(node);
    look_through_subgraphs(node);
    give_stand_ins(node, scope);
  }

  // Reports what is refused in the subgraphs of a node that was not lowered, whatever its inputs are.
  void look_through_subgraphs(const onnx::Node& node) {
    for (const onnx::Attribute& attribute : node.attributes)
      for (const auto& graph : attribute.graphs) {
        if (!looked_through_.insert(graph.get()).second) continue;
        core::SubgraphBuilder inner(target_, *builder_, "looked through");
        Meanwhile inside(builder_, &inner.b());
        Meanwhile in_doubt(in_doubt_, true);
        std::vector<Val> inputs(given_inputs(*graph).size());
        for (Val& input : inputs) input = unknown();
        try {
          lower_subgraph(*graph, inputs, &inner);
        } catch (const Error&) {  // the node that holds the subgraph is not judged, or refused already
        } catch (const core::UnknownType&) {
        }
      }
  }

  // ---- nodes ----

  // The inputs, outputs and constants of a graph, which take some work each time that it is laid out.
  static int64_t values_of(const onnx::Graph& graph) {
    return static_cast<int64_t>(graph.inputs.size() + graph.outputs.size() + graph.initializers.size() +
                                graph.sparse_initializers.size());
  }

  // Loops in loops may have more turns than any machine has memory for. `work` counts nodes, and the
  // inputs, outputs and constants of each graph that is lowered.
  void count_inner(int64_t work) {
    inner_work_ += work;
    if (inner_work_ <= kMostInnerNodes) return;
    if (in_doubt_) throw core::UnknownType{};
    // A body that is malformed is called so whatever its size.
    for (const Scope* scope = scope_; scope; scope = scope->outer) check_names(scope->graph);
    throw Error(Code::kUnsupported, fmt::format("the loops would be laid out as more than {} nodes", kMostInnerNodes));
  }

  static std::string no_producer(const onnx::Node& node, const std::string& input) {
    const bool is_its_own = std::find(node.outputs.begin(), node.outputs.end(), input) != node.outputs.end();
    return is_its_own ? fmt::format("its input '{}' is its own output: a cycle", input)
                      : fmt::format("its input '{}' has no producer", input);
  }

  std::vector<Val> inputs_of(const onnx::Node& node, const Scope& scope) {
    std::vector<Val> inputs;
    for (const std::string& name : node.inputs) {
      if (name.empty()) {
        inputs.emplace_back();
        continue;
      }
      Val found = scope.find(name);
      if (!found) throw Error(Code::kMalformed, no_producer(node, name));
      if (scope.has(name, kIsString))
        throw Unsupported(fmt::format("its input '{}' is a string tensor, which TFLite's kernels do not take", name));
      inputs.push_back(found);
    }
    return inputs;
  }

  // Whether the node's inputs, or those of a node in its subgraphs, may have types that are only declared.
  bool relies_on_declared(const onnx::Node& node, const Scope& scope) const {
    if (in_doubt_) return true;
    if (judgement.refusals() == 0) return false;
    return holds_graphs(node) || std::any_of(node.inputs.begin(), node.inputs.end(), [&](const std::string& name) {
             return !name.empty() && scope.has(name, kIsDeclared);
           });
  }

  void lower_node(const onnx::Node& node, Scope& scope) {
    if (depth_ > 0) {
      ++inner_nodes_;
      count_inner(1);
    }
    const stream::Where where{.node = node.label(), .op = full_name(node)};
    bool in_doubt = false;
    try {
      const LowerRow* row = find_lowering(node);
      const bool is_named = custom.names(node);
      if (!row && !is_named && !custom.takes_refused()) throw unknown_operator(node);
      std::vector<Val> inputs = inputs_of(node, scope);
      const int64_t version = opset(node);
      if (row) check_arity(node, *row, version);
      check_attribute_names(node);
      in_doubt = relies_on_declared(node, scope);
      builder_->graph.add_origin(node.label(), operator_number(where.op));
      builder_->origin = static_cast<uint32_t>(builder_->graph.origins.size() - 1);
      if (row) check_types(*row, *builder_, inputs);
      Meanwhile doubt(in_doubt_, in_doubt);
      const std::optional<size_t> place = begin_batch(node, inputs);
      std::optional<std::vector<Val>> outputs;
      if (row && !is_named) outputs = lowered(node, *row, version, inputs);
      const bool is_custom = !outputs;
      if (is_custom) outputs = as_custom(node, is_named ? row : nullptr, version, inputs, scope);
      if (place) batch_->end(*place, *builder_, *outputs);
      give_outputs(node, *outputs, scope, in_doubt);
      if (is_custom) return;
      mark_halves(node, inputs, *outputs, scope);
      newer.look_at(node, version);
    } catch (const core::UnknownType&) {
      leave_open(node, scope);
    } catch (Unsupported& refused) {
      refuse(node, refused, where, scope);
    } catch (Error& error) {
      // What the file declares may be wrong, and a branch that does not fit may never be taken.
      if (in_doubt && error.code() == Code::kMalformed) return leave_open(node, scope);
      if (batch_ && batch_->following() && error.code() == Code::kMalformed) {
        Unsupported refused(fmt::format("it does not follow the new batch: {}", error.text()));
        return refuse(node, refused, where, scope);
      }
      error.add_place(where);
      throw;
    }
  }

  // By the operator's own function; nullopt where it refuses the node, which then becomes a custom operator.
  std::optional<std::vector<Val>> lowered(const onnx::Node& node, const LowerRow& row, int64_t version,
                                          const std::vector<Val>& inputs) {
    const bool is_last = !custom.takes_refused() || holds_graphs(node);
    const LimitedOps limited(*builder_, depth_ == 0 ? kFreeOps : 0, other_ops_left_);
    try {
      if (node.domain.empty() && version > kNewestOpset)  // of a function, which imports its own
        throw Unsupported(fmt::format("it is of opset {}; {} is the newest that is known", version, kNewestOpset));
      Lowering lowering(*builder_, node, version, inputs, *this);
      row.lower(lowering);
      lowering.finish();
      return lowering.outputs();
    } catch (const Unsupported& refused) {
      if (is_last) throw;
      refused_for_custom_ = refused.reason();
      return std::nullopt;
    }
  }

  static bool holds_graphs(const onnx::Node& node) {
    return std::any_of(node.attributes.begin(), node.attributes.end(),
                       [](const onnx::Attribute& attribute) { return !attribute.graphs.empty(); });
  }

  // `row`, where given, tells the types of the outputs: what it adds to the graph is not used.
  std::vector<Val> as_custom(const onnx::Node& node, const LowerRow* row, int64_t version,
                             const std::vector<Val>& inputs, const Scope& scope) {
    const std::string reason = std::exchange(refused_for_custom_, {});
    try {
      return custom.add(*builder_, node, version, inputs, known_outputs(node, row, version, inputs, scope));
    } catch (const Unsupported& refused) {
      if (reason.empty()) throw;
      throw Unsupported(fmt::format("{}; as a custom operator: {}", reason, refused.reason()), refused.hint());
    }
  }

  // By ONNX's rules where they are known here, else as the file declares them.
  KnownOutputs known_outputs(const onnx::Node& node, const LowerRow* row, int64_t version,
                             const std::vector<Val>& inputs, const Scope& scope) {
    KnownOutputs known = outputs_by_onnx(*builder_, node, inputs);
    known.resize(node.outputs.size());
    if (row && !holds_graphs(node)) {
      const LimitedOps limited(*builder_, depth_ == 0 ? kFreeOps : 0, other_ops_left_);
      try {
        Lowering lowering(*builder_, node, version, inputs, *this);
        row->lower(lowering);
        lowering.finish();
        for (size_t i = 0; i < node.outputs.size(); ++i)
          if (const Val v = lowering.outputs()[i]; v && !is_unknown(v))
            known[i] = CustomOutput{builder_->dtype(v), builder_->shape(v)};
      } catch (const Unsupported&) {  // then the file has to declare them
      }
    }
    // What the file declares is of its own batch.
    if (batch_ && batch_->following()) return known;
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (const ValueInfo* info =
              known[i] || node.outputs[i].empty() ? nullptr : declared.find(node.outputs[i], scope.graph);
          info && info->has_shape && info->dtype != core::DType::kUndefined)
        known[i] = CustomOutput{info->dtype, declared.symbolic_shape(*info)};
    return known;
  }

  void refuse(const onnx::Node& node, Unsupported& refused, const stream::Where& where, Scope& scope) {
    refused.add_place(where);
    refused.add_place({.file = source_.path});
    judgement.refuse(node, refused);
    look_through_subgraphs(node);
    give_stand_ins(node, scope);
  }

  // Once a node is refused, others may be lowered in another order than in the record.
  std::optional<size_t> begin_batch(const onnx::Node& node, std::vector<Val>& inputs) {
    if (!batch_ || judgement.refusals() > 0 || judgement.open() > 0) return std::nullopt;
    return batch_->begin(node, *builder_, inputs);
  }

  void give_outputs(const onnx::Node& node, const std::vector<Val>& outputs, Scope& scope, bool in_doubt) {
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const std::string& name = node.outputs[i];
      if (name.empty()) continue;
      const Val out = add_widened(name, outputs[i], scope);
      core::Value& value = builder_->graph.at(out.id);
      if (value.name.empty() && !value.is_constant()) value.name = name;
      if (in_doubt) scope.mark(name, kIsDeclared);
      if (is_unknown(out) && any_computed(node, scope)) scope.mark(name, kIsComputed);
    }
  }

  // Whether it may be halves in ONNX: f32, or a sequence that has elements.
  bool may_be_halves(Val v) const {
    if (!v) return false;
    const core::Graph& graph = builder_->graph;
    const core::Value& value = graph.at(v.id);
    if (!core::is_tensor_list(graph, v.id)) return value.dtype == core::DType::kFloat32;
    return !graph.ops[static_cast<size_t>(value.producer)].inputs.empty();
  }

  // By what the file says of a subgraph's output, and what was found when it was lowered.
  uint8_t half_mark_of_output(const onnx::Graph& graph, size_t at) const {
    if (at >= graph.outputs.size()) return 0;
    const uint8_t declared_mark = half_mark(graph.outputs[at].dtype);
    const auto found = output_halves_.find(&graph);
    return found == output_halves_.end() ? declared_mark : declared_mark | found->second[at];
  }

  // Outputs that are halves in ONNX: by those of the subgraphs, else by the inputs.
  void mark_halves(const onnx::Node& node, const std::vector<Val>& inputs, const std::vector<Val>& outputs,
                   Scope& scope) {
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const std::string& name = node.outputs[i];
      if (name.empty() || !may_be_halves(outputs[i])) continue;
      const size_t at = node.op_type == "Loop" ? i + 1 : i;  // output 0 of the body is the condition
      for (const onnx::Attribute& attribute : node.attributes)
        for (const auto& graph : attribute.graphs) scope.mark(name, half_mark_of_output(*graph, at));
      if (holds_graphs(node)) continue;
      size_t typed = first_typed_input(node, i);
      while (typed < inputs.size() && !may_be_halves(inputs[typed])) ++typed;
      if (typed < inputs.size()) scope.mark(name, half_mark(scope.half(node.inputs[typed])));
    }
  }

  // Its index in Model::onnx_operators.
  uint32_t operator_number(const std::string& name) {
    auto [it, fresh] = operator_numbers_.try_emplace(name, static_cast<uint32_t>(target_.onnx_operators.size()));
    if (fresh) target_.onnx_operators.push_back(name);
    return it->second;
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
  BatchChange* batch_;
  onnx::Graph* released_;
  Scope* scope_ = nullptr;
  std::optional<ListJoins> joins_;  // once it is asked for
  std::unordered_map<std::string, uint32_t> operator_numbers_;
  int depth_ = 0;
  int64_t inner_nodes_ = 0, inner_work_ = 0;
  size_t other_ops_left_ = kMostOtherOps;
  std::string refused_for_custom_;  // why the node that becomes a custom operator has no other form
  bool in_doubt_ = false;           // types of values may be wrong or unknown: what does not fit is no error
  std::unordered_map<const onnx::Graph*, std::vector<uint8_t>> output_halves_;  // marks of subgraphs' outputs
  std::unordered_set<const onnx::Graph*> looked_through_;                       // subgraphs that were lowered, or begun
};

// Of constants with constants, in all: done once, in about a second, and not in each run of the model.
constexpr int64_t kMostMultiplications = int64_t{1} << 27;

LowerResult lower_with(const onnx::Model& model, const std::map<std::string, core::Shape>& shapes,
                       const CustomChoice& custom, core::Model& target, BatchChange* batch, ValueTypes* types,
                       onnx::Graph* released) {
  target.graphs.push_back(std::make_unique<core::Graph>(target.symbols, target.budget));
  core::Graph& graph = *target.graphs[0];
  graph.multiplications_left = kMostMultiplications;
  graph.name = model.graph.name;
  if (auto ai_onnx = model.opsets.find(""); ai_onnx != model.opsets.end() && ai_onnx->second > kNewestOpset)
    throw Error(Code::kUnsupported,
                fmt::format("the model is of opset {}; {} is the newest that is known", ai_onnx->second, kNewestOpset));
  GraphLowering lowering(model, target, batch, custom, released);
  Scope scope{.graph = model.graph};
  scope.names.reserve(model.graph.initializers.size() + model.graph.nodes.size());
  lowering.add_initializers(model.graph, scope);
  lowering.add_inputs(shapes, scope);
  lowering.lower_nodes(model.graph, scope);
  if (types)
    for (const auto& [name, value] : scope.names)
      if (value.v && graph.at(value.v.id).dtype != core::DType::kUndefined)
        types->emplace(name, type_of(graph, value.v.id));
  LowerResult result{lowering.judgement.refused(), lowering.judgement.not_judged(), lowering.newer.notes(), {}};
  lowering.add_outputs(shapes.empty(), scope, result.declared_extents);
  if (result.refused.empty())
    for (std::string& note : lowering.custom.notes()) result.notes.push_back(std::move(note));
  return result;
}

}  // namespace

LowerResult lower_graph(const onnx::Model& model, const std::map<std::string, core::Shape>& shapes,
                        const CustomChoice& custom, core::Model& target, ValueTypes* types, onnx::Graph* released) {
  const auto file_shapes = shapes_of_file(model, shapes);
  if (!file_shapes) return lower_with(model, shapes, custom, target, nullptr, types, released);
  BatchChange batch(*file_shapes, shapes);
  {
    core::Model before(target.budget);
    LowerResult result = lower_with(model, *file_shapes, custom, before, &batch, nullptr, nullptr);
    if (!result.refused.empty()) return result;
  }
  batch.follow();
  return lower_with(model, shapes, custom, target, &batch, types, nullptr);
}

}  // namespace lowtide::layout
