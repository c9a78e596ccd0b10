// SPDX-License-Identifier: Apache-2.0
#include "layout/core/subgraphs.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "stream/error.h"

namespace lowtide::core {
namespace {

using stream::Unsupported;

void give_outputs(Graph& graph, std::span<const Val> results) {
  for (Val v : results) {
    graph.outputs.push_back(v.id);
    graph.output_names.push_back(fmt::format("out{}", graph.output_names.size()));
  }
}

// Results of IF or WHILE: the type and shape of `like`, nothing known of the elements.
std::vector<Val> add_op(Builder& b, Kind kind, std::vector<ValueId> inputs, SubgraphOptions options,
                        std::span<const Value> types) {
  Op op{.kind = kind, .inputs = std::move(inputs), .outputs = {}, .options = options, .origin = b.origin};
  std::vector<Val> out;
  for (const Value& type : types) {
    const ValueId id = b.graph.add_value(type.dtype, type.shape);
    b.graph.at(id).producer = static_cast<OpId>(b.graph.ops.size());
    op.outputs.push_back(id);
    out.push_back({id});
  }
  b.graph.add_op(std::move(op));
  return out;
}

// One more value, whose extent changes, tells the kernels that an op's results change their shapes:
// * WHILE finds that out from the first iteration, but not where an axis 0 without elements gets some.
// * IF lets the taken branch write into its own results, unless shapes change. Ops that are computed as soon as shapes
//   are known (SHAPE, and what is made of it) then never write.
constexpr int64_t kOneElement[] = {0}, kTwoElements[] = {0, 0};

// Whether a result is made of shapes and constants alone.
bool has_early_result(const Graph& graph, std::span<const Val> results) {
  std::vector<bool> early(graph.values.size(), false);
  for (size_t i = 0; i < graph.values.size(); ++i) early[i] = graph.values[i].is_constant();
  for (const Op& op : graph.ops) {
    const bool all = std::all_of(op.inputs.begin(), op.inputs.end(),
                                 [&](ValueId id) { return id == kAbsent || early[static_cast<size_t>(id)]; });
    if (all || op.kind == Kind::kShape)
      for (ValueId out : op.outputs) early[static_cast<size_t>(out)] = true;
  }
  return std::any_of(results.begin(), results.end(),
                     [&](Val v) { return early[static_cast<size_t>(v.id)] && !graph.at(v.id).is_constant(); });
}

constexpr size_t kMostListElements = 4096;  // of a sequence that a subgraph takes

Value type_of(const Graph& graph, ValueId id) { return {.dtype = graph.at(id).dtype, .shape = graph.at(id).shape}; }

}  // namespace

SubgraphBuilder::SubgraphBuilder(Model& model, Builder& around, std::string name)
    : model_(model),
      graphs_before_(model.graphs.size()),
      graph_(std::make_unique<Graph>(model.symbols, model.budget)),
      builder_(*graph_),
      around_(around) {
  graph_->name = std::move(name);
  graph_->reductions_left = around.graph.reductions_left;
  graph_->chosen_extents = around.graph.chosen_extents;
  graph_->batches = around.graph.batches;
  graph_->halves = around.graph.halves;
  graph_->add_origin(around.graph.origins[around.origin], around.graph.origin_operator(around.origin));
  builder_.origin = 1;
}

SubgraphBuilder::~SubgraphBuilder() {
  if (graph_ && model_.graphs.size() > graphs_before_) model_.graphs.resize(graphs_before_);
}

Val SubgraphBuilder::input(DType dtype, Shape shape) {
  const ValueId id = graph_->add_value(dtype, std::move(shape));
  graph_->inputs.push_back(id);
  graph_->input_names.push_back(fmt::format("in{}", graph_->input_names.size()));
  return {id};
}

Val SubgraphBuilder::here(Val outer) {
  if (!outer) return {};
  if (const auto known = here_.find(outer.id); known != here_.end()) return known->second;
  // Kept afterwards: what is refused here must be refused at the next use too.
  const Val inner = around_.is_tensor_list(outer) ? list_here(outer) : tensor_here(outer);
  here_.emplace(outer.id, inner);
  return inner;
}

Val SubgraphBuilder::tensor_here(Val outer) {
  const Value& value = around_.graph.at(outer.id);
  Val made;
  if (value.is_constant()) {
    made = builder_.constant(value.constant, value.name);
  } else {
    made = input(value.dtype, value.shape);
    captured_.push_back(outer.id);
  }
  Value& inner = graph_->at(made.id);
  inner.contents = value.contents;
  inner.quantization = value.quantization;
  return made;
}

Val SubgraphBuilder::list_here(Val outer) {
  const auto producer = static_cast<size_t>(around_.graph.at(outer.id).producer);
  const std::vector<ValueId>& elements = around_.graph.ops[producer].inputs;
  // Few bytes name a long sequence in any number of subgraphs.
  if (elements.size() > std::min(kMostListElements, around_.ops_left))
    throw Unsupported(
        fmt::format("a sequence of {} elements is not supported inside If, Loop and Scan: each would be "
                    "an input of a subgraph",
                    elements.size()));
  around_.ops_left -= elements.size();
  std::vector<Val> taken;
  for (ValueId element : elements) taken.push_back(here({element}));
  return builder_.tensor_list(taken);
}

// Two subgraphs that become the graphs of one op: both must take the same inputs.
class SubgraphOpBuilder {
 public:
  SubgraphOpBuilder(Model& model, Builder& b) : model_(model), b_(b) {}

  // Adds what only one of them uses to the other; gives all that both take from around.
  std::vector<ValueId> share_captures(SubgraphBuilder& first, SubgraphBuilder& second, size_t state) {
    std::vector<ValueId> all = first.captured();
    for (ValueId id : second.captured())
      if (!std::count(all.begin(), all.end(), id)) all.push_back(id);
    for (SubgraphBuilder* subgraph : {&first, &second}) {
      for (ValueId id : all) subgraph->here({id});
      Graph& graph = subgraph->graph();
      graph.inputs.resize(state);
      for (ValueId id : all) graph.inputs.push_back(subgraph->here_.at(id).id);
    }
    return all;
  }

  SubgraphOptions add_graphs(SubgraphBuilder& first, SubgraphBuilder& second) {
    const int count = static_cast<int>(model_.graphs.size());
    model_.graphs.push_back(std::move(first.graph_));
    model_.graphs.push_back(std::move(second.graph_));
    return {count, count + 1};
  }

  std::vector<Val> branches(Val condition, const Fill& yes, const Fill& no);
  std::vector<Val> loop(std::span<const Val> state, const FillWithState& condition, const FillWithState& body);

 private:
  Model& model_;
  Builder& b_;
};

std::vector<Val> SubgraphOpBuilder::branches(Val condition, const Fill& yes, const Fill& no) {
  SubgraphBuilder first(model_, b_, "then"), second(model_, b_, "else");
  std::vector<Val> a = yes(first), b = no(second);
  if (a.size() != b.size()) throw Unsupported(fmt::format("the branches give {} and {} values", a.size(), b.size()));
  std::vector<Value> types;
  for (size_t i = 0; i < a.size(); ++i) {
    const Value x = type_of(first.graph(), a[i].id), y = type_of(second.graph(), b[i].id);
    if (x.dtype != y.dtype)
      throw Unsupported(fmt::format("output {} is {} in one branch and {} in the other", i, dtype_name(x.dtype),
                                    dtype_name(y.dtype)));
    if (x.rank() != y.rank())
      throw Unsupported(fmt::format("output {} has rank {} in one branch and {} in the other", i, x.rank(), y.rank()),
                        "make the condition a constant, for example with --shape INPUT=...");
    types.push_back(x);
    for (size_t axis = 0; axis < x.shape.size(); ++axis)
      if (x.shape[axis] != y.shape[axis]) types.back().shape[axis] = model_.symbols.fresh("if");
  }
  const size_t own = a.size();
  if (has_early_result(first.graph(), a) || has_early_result(second.graph(), b)) {
    a.push_back(first.b().i32(kOneElement));
    b.push_back(second.b().i32(kTwoElements));
    types.push_back({.dtype = DType::kInt32, .shape = {model_.symbols.fresh("if")}});
  }
  give_outputs(first.graph(), a);
  give_outputs(second.graph(), b);
  std::vector<ValueId> inputs = share_captures(first, second, 0);
  inputs.insert(inputs.begin(), condition.id);
  std::vector<Val> out = add_op(b_, Kind::kIf, std::move(inputs), add_graphs(first, second), types);
  out.resize(own);
  return out;
}

namespace {

// What is known of a loop's state before every iteration.
struct LoopState {
  size_t own;  // values of the loop; one more follows when extents vary
  std::vector<Value> types;
  std::set<std::pair<size_t, size_t>> varying;  // state and axis: extents that iterations change

  std::vector<Val> add_inputs(SubgraphBuilder& subgraph) const {
    std::vector<Val> out;
    for (const Value& type : types) out.push_back(subgraph.input(type.dtype, type.shape));
    out.resize(own);
    return out;
  }
  // Makes the extents dynamic that `next` changes; false when there are none.
  bool widen(SubgraphBuilder& body, std::span<const Val> next);
};

bool LoopState::widen(SubgraphBuilder& body, std::span<const Val> next) {
  if (next.size() != own)
    throw stream::Error(stream::Code::kInternal,
                        fmt::format("a loop's body gives {} values for {} of state", next.size(), own));
  bool widened = false;
  for (size_t i = 0; i < own; ++i) {
    const Value made = type_of(body.graph(), next[i].id);
    if (made.dtype != types[i].dtype || made.rank() != types[i].rank())
      throw Unsupported(fmt::format("an iteration of the loop changes state {} from {} of rank {} to {} of rank {}", i,
                                    dtype_name(types[i].dtype), types[i].rank(), dtype_name(made.dtype), made.rank()));
    for (size_t axis = 0; axis < made.shape.size(); ++axis) {
      if (made.shape[axis] == types[i].shape[axis] || !varying.emplace(i, axis).second) continue;
      types[i].shape[axis] = body.graph().symbols.fresh("loop");
      widened = true;
    }
  }
  if (widened && types.size() == own)
    types.push_back({.dtype = DType::kInt32, .shape = {body.graph().symbols.fresh("loop")}});
  return widened;
}

}  // namespace

std::vector<Val> SubgraphOpBuilder::loop(std::span<const Val> state, const FillWithState& condition,
                                         const FillWithState& body) {
  LoopState known{.own = state.size(), .types = {}, .varying = {}};
  std::vector<ValueId> inputs;
  for (Val v : state) {
    known.types.push_back(type_of(b_.graph, v.id));
    inputs.push_back(v.id);
  }
  std::unique_ptr<SubgraphBuilder> turn;
  std::vector<Val> next;
  do {
    turn.reset();
    turn = std::make_unique<SubgraphBuilder>(model_, b_, "body");
    next = body(*turn, known.add_inputs(*turn));
  } while (known.widen(*turn, next));
  if (known.types.size() > known.own) {
    inputs.push_back(b_.i32(kOneElement).id);
    next.push_back(turn->b().i32(kTwoElements));
  }
  SubgraphBuilder question(model_, b_, "condition");
  const std::vector<Val> goes_on = condition(question, known.add_inputs(question));

  const std::vector<ValueId> captured = share_captures(question, *turn, known.types.size());
  inputs.insert(inputs.end(), captured.begin(), captured.end());
  std::vector<Value> types = known.types;
  // After the last iteration they differ from those before one.
  for (const auto& [i, axis] : known.varying) types[i].shape[axis] = model_.symbols.fresh("loop");
  for (ValueId id : captured) {
    types.push_back(type_of(b_.graph, id));
    next.push_back(turn->here({id}));
  }
  give_outputs(question.graph(), goes_on);
  give_outputs(turn->graph(), next);
  std::vector<Val> out = add_op(b_, Kind::kWhile, std::move(inputs), add_graphs(question, *turn), types);
  out.resize(known.own);
  return out;
}

std::vector<Val> run_if(Model& model, Builder& b, Val condition, const Fill& yes, const Fill& no) {
  return SubgraphOpBuilder(model, b).branches(condition, yes, no);
}

std::vector<Val> run_while(Model& model, Builder& b, std::span<const Val> state, const FillWithState& condition,
                           const FillWithState& body) {
  return SubgraphOpBuilder(model, b).loop(state, condition, body);
}

void drop_unused_graphs(Model& model) {
  std::vector<bool> used(model.graphs.size(), false);
  std::vector<size_t> pending{0};
  used[0] = true;
  while (!pending.empty()) {
    const Graph& graph = *model.graphs[pending.back()];
    pending.pop_back();
    for (const Op& op : graph.ops)
      if (const auto* named = std::get_if<SubgraphOptions>(&op.options))
        for (int index : {named->first, named->second})
          if (const auto i = static_cast<size_t>(index); !used[i]) {
            used[i] = true;
            pending.push_back(i);
          }
  }
  std::vector<int> place(used.size(), 0);
  std::vector<std::unique_ptr<Graph>> kept;
  for (size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) continue;
    place[i] = static_cast<int>(kept.size());
    kept.push_back(std::move(model.graphs[i]));
  }
  model.graphs = std::move(kept);
  for (const auto& graph : model.graphs)
    for (Op& op : graph->ops)
      if (auto* named = std::get_if<SubgraphOptions>(&op.options))
        *named = {place[static_cast<size_t>(named->first)], place[static_cast<size_t>(named->second)]};
}

}  // namespace lowtide::core
