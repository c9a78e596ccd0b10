// SPDX-License-Identifier: Apache-2.0
#include "layout/core/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <queue>
#include <utility>

#include "stream/error.h"
#include "stream/recipe/recipe_reader.h"
#include "stream/recipe/small_floats.h"

namespace lowtide::core {

std::string_view kind_name(Kind kind) {
  switch (kind) {
#define LOWTIDE_KIND(schema_name, enumerator, code) \
  case Kind::enumerator:                            \
    return #schema_name;
#include "layout/core/kinds.inc"
#undef LOWTIDE_KIND
    case Kind::kErf:
      return "ERF";
    case Kind::kTensorList:
      return "TENSOR_LIST";
    case Kind::kChannelsFirst:
      return "CHANNELS_FIRST";
    case Kind::kDead:
      return "DEAD";
  }
  return "?";
}

namespace {

// Kernels take 8 or fewer, more are merged where possible; the masks of STRIDED_SLICE have 32 bits. Without a limit the
// memory for a shape of many unknown extents would grow with the square of their number.
constexpr size_t kMostAxes = 32;
// More than any machine holds. A file may declare any extents, and passes multiply those of a tensor: within this limit
// the product does not overflow.
constexpr uint64_t kMostElements = uint64_t{1} << 40;

}  // namespace

ValueId Graph::add_value(DType dtype, Shape shape, std::string value_name) {
  if (shape.size() > kMostAxes)
    throw stream::Unsupported(fmt::format("a tensor{} has {} axes, more than {}",
                                          value_name.empty() ? "" : fmt::format(" '{}'", value_name), shape.size(),
                                          kMostAxes));
  uint64_t elements = 1;
  for (const Dim extent : shape) {
    // A number of the file that an operator took for an extent without a look at it.
    if (extent < 0 && !is_symbol(extent))
      throw stream::Error(stream::Code::kMalformed,
                          fmt::format("a tensor{} has an axis of {} elements",
                                      value_name.empty() ? "" : fmt::format(" '{}'", value_name), extent));
    if (extent <= 1) continue;
    if (static_cast<uint64_t>(extent) > kMostElements / elements)
      throw stream::Unsupported(fmt::format("a tensor{} has shape {}, more than 2^40 elements",
                                            value_name.empty() ? "" : fmt::format(" '{}'", value_name),
                                            stream::to_string(shape)));
    elements *= static_cast<uint64_t>(extent);
  }
  values.push_back({.name = std::move(value_name), .dtype = dtype, .shape = std::move(shape)});
  return static_cast<ValueId>(values.size() - 1);
}

ValueId Graph::add_constant(RecipeRef recipe, std::string value_name) {
  ValueId id = add_value(recipe->dtype, recipe->dims, std::move(value_name));
  at(id).constant = std::move(recipe);
  return id;
}

ValueId Graph::add_ints(std::span<const int64_t> elements, DType dtype, Shape shape) {
  return add_constant(stream::recipe::ints(elements, dtype, std::move(shape)));
}

OpId Graph::add_op(Op op) {
  ops.push_back(std::move(op));
  return static_cast<OpId>(ops.size() - 1);
}

const std::vector<Dim>* Graph::contents(ValueId id) {
  if (id == kAbsent) return nullptr;
  Value& value = at(id);
  if (value.contents) return &*value.contents;
  if (!value.constant || !(stream::is_integer(value.dtype) || value.dtype == DType::kBool)) return nullptr;
  if (value.constant->elements() > kContentsElements) return nullptr;
  std::vector<int64_t> elements = stream::evaluate_ints(value.constant, budget);
  // A number in the range of symbols cannot be told from a symbol.
  if (std::any_of(elements.begin(), elements.end(), is_symbol)) return nullptr;
  value.contents = std::move(elements);
  return &*value.contents;
}

std::optional<std::vector<int64_t>> Graph::ints(ValueId id) {
  const std::vector<Dim>* known = contents(id);
  if (known) {
    if (std::any_of(known->begin(), known->end(), is_symbol)) return std::nullopt;
    return *known;
  }
  if (id == kAbsent || !at(id).constant || !stream::is_small(*at(id).constant)) return std::nullopt;
  if (!(stream::is_integer(at(id).dtype) || at(id).dtype == DType::kBool)) return std::nullopt;
  return stream::evaluate_ints(at(id).constant, budget);
}

std::optional<std::vector<double>> Graph::numbers(ValueId id) {
  if (id == kAbsent || !at(id).constant || !stream::is_small(*at(id).constant)) return std::nullopt;
  DType dtype = at(id).dtype;
  if (!stream::is_float(dtype) && !stream::is_small_float(dtype) && !stream::is_integer(dtype) && dtype != DType::kBool)
    return std::nullopt;
  return stream::evaluate_doubles(at(id).constant, budget);
}

void Graph::add_chosen_extents(const Shape& input) {
  std::copy_if(input.begin(), input.end(), std::inserter(*chosen_extents, chosen_extents->end()), is_symbol);
  if (input.empty()) return;
  for (const auto& term : symbols.terms(input[0])) batches->insert(term.atoms.begin(), term.atoms.end());
}

bool is_tensor_list(const Graph& graph, ValueId id) {
  const OpId producer = graph.at(id).producer;
  return producer >= 0 && graph.op(producer).kind == Kind::kTensorList;
}

bool only_arranges_axes(const Graph& graph, const Op& op) {
  if (op.kind == Kind::kTranspose) return true;
  if (op.kind != Kind::kReshape) return false;
  auto longer = [&](ValueId id) {
    Shape shape = graph.at(id).shape;
    std::erase(shape, 1);
    return shape;
  };
  return longer(op.inputs[0]) == longer(op.outputs[0]);
}

void keep_name(Graph& graph, ValueId arranged, ValueId source) {
  Value& kept = graph.at(source);
  if (graph.has_onnx_name(source) || kept.is_constant() || graph.at(arranged).name.empty()) return;
  if (kept.name.empty() || graph.has_onnx_name(arranged)) kept.name = std::exchange(graph.at(arranged).name, {});
}

void keep_name(Graph& graph, const Op& op) {
  if (only_arranges_axes(graph, op)) keep_name(graph, op.outputs[0], op.inputs[0]);
}

static void keep_names(Graph& graph, const std::vector<char>& live) {
  for (size_t i = graph.ops.size(); i-- > 0;)
    if (!live[i]) keep_name(graph, graph.ops[i]);
}

// Puts ops[order[i]] at i and drops the rest, in place: a second list would stand beside the first one.
static void bring_in_order(std::deque<Op>& ops, std::vector<uint32_t>& order) {
  for (size_t i = 0; i < order.size(); ++i) {
    // What stood at order[i] may have been exchanged with an earlier place: then `order` tells where it went.
    size_t from = order[i];
    while (from < i) from = order[from];
    if (from != i) std::swap(ops[i], ops[from]);
    order[i] = static_cast<uint32_t>(from);
  }
  ops.erase(ops.begin() + static_cast<ptrdiff_t>(order.size()), ops.end());
}

// The live ops in Kahn's order, the smallest old position first; `producer` is by value.
static std::vector<uint32_t> topological_order(const std::deque<Op>& ops, const std::vector<char>& live,
                                               const std::vector<OpId>& producer) {
  auto each_edge = [&](auto visit) {
    for (size_t i = 0; i < ops.size(); ++i)
      if (live[i])
        for (ValueId in : ops[i].inputs)
          if (in != kAbsent && producer[static_cast<size_t>(in)] >= 0)
            visit(static_cast<size_t>(producer[static_cast<size_t>(in)]), i);
  };
  // The users of op i are at [first[i], first[i + 1]) of `users_of`: two arrays, because a vector for each op would be
  // most of the time that a graph of 100,000 takes.
  std::vector<uint32_t> first(ops.size() + 1, 0), waits(ops.size(), 0);
  each_edge([&](size_t from, size_t to) {
    ++first[from + 1];
    ++waits[to];
  });
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<uint32_t> users_of(first.back()), filled(first.begin(), first.end() - 1);
  each_edge([&](size_t from, size_t to) { users_of[filled[from]++] = static_cast<uint32_t>(to); });
  std::vector<uint32_t> sorted;
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  size_t live_count = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    live_count += static_cast<size_t>(live[i]);
    if (live[i] && waits[i] == 0) ready.push(i);
  }
  while (!ready.empty()) {
    size_t i = ready.top();
    ready.pop();
    for (uint32_t user = first[i]; user < first[i + 1]; ++user)
      if (--waits[users_of[user]] == 0) ready.push(users_of[user]);
    sorted.push_back(static_cast<uint32_t>(i));
  }
  // The nodes of a model are in order already (lower/node_order.h, raise/): a rewrite has made the cycle.
  if (sorted.size() != live_count) throw stream::Error(stream::Code::kInternal, "the operators form a cycle");
  return sorted;
}

// By value; -1 for graph inputs and constants.
static std::vector<OpId> producers(const Graph& graph) {
  std::vector<OpId> producer(graph.values.size(), -1);
  for (OpId i = 0; const Op& op : graph.ops) {
    if (op.kind != Kind::kDead)
      for (ValueId out : op.outputs)
        if (out != kAbsent) producer[static_cast<size_t>(out)] = i;
    ++i;
  }
  // Values are far apart in memory, so they are visited once, and in their order.
  for (size_t v = 0; const Value& value : graph.values) {
    if (value.constant) producer[v] = -1;
    ++v;
  }
  return producer;
}

namespace {

// By op: whether it is reachable backwards from the outputs.
struct Live {
  std::vector<char> op;
  bool in_order = true;  // each live op stands behind those that make its inputs
  bool all() const { return std::find(op.begin(), op.end(), 0) == op.end(); }
};

// One pass from the last op to the first, which is enough where ops are in order.
void sweep(const Graph& graph, const std::vector<OpId>& producer, Live& live) {
  std::vector<char> is_needed(graph.values.size(), 0);
  for (const ValueId out : graph.outputs) is_needed[static_cast<size_t>(out)] = 1;
  auto i = static_cast<OpId>(graph.ops.size());
  for (auto op = graph.ops.rbegin(); op != graph.ops.rend(); ++op) {
    --i;
    live.op[static_cast<size_t>(i)] = std::any_of(op->outputs.begin(), op->outputs.end(), [&](ValueId out) {
      return out != kAbsent && is_needed[static_cast<size_t>(out)] && producer[static_cast<size_t>(out)] == i;
    });
    if (!live.op[static_cast<size_t>(i)]) continue;
    for (const ValueId in : op->inputs) {
      if (in == kAbsent) continue;
      live.in_order = live.in_order && producer[static_cast<size_t>(in)] < i;
      is_needed[static_cast<size_t>(in)] = 1;
    }
  }
}

void search(const Graph& graph, const std::vector<OpId>& producer, Live& live) {
  live.op.assign(graph.ops.size(), 0);
  std::vector<ValueId> pending = graph.outputs;
  while (!pending.empty()) {
    const ValueId id = pending.back();
    pending.pop_back();
    if (id == kAbsent || producer[static_cast<size_t>(id)] < 0) continue;
    const auto op = static_cast<size_t>(producer[static_cast<size_t>(id)]);
    if (live.op[op]) continue;
    live.op[op] = 1;
    for (const ValueId in : graph.ops[op].inputs) pending.push_back(in);
  }
}

Live live_ops(const Graph& graph, const std::vector<OpId>& producer) {
  Live live{.op = std::vector<char>(graph.ops.size(), 0)};
  sweep(graph, producer, live);
  if (!live.in_order) search(graph, producer, live);
  return live;
}

}  // namespace

static void number_producers(Graph& graph, const std::vector<OpId>& producer) {
  for (size_t v = 0; Value & value : graph.values) value.producer = producer[v++];
}

// Large graphs are in memory that is far apart, and passes put few ops elsewhere: what is in order is visited as few
// times as possible.
void Graph::tidy() {
  const std::vector<OpId> producer = producers(*this);
  const Live live = live_ops(*this, producer);
  if (!live.in_order || !live.all()) {
    keep_names(*this, live.op);
    std::vector<uint32_t> kept;
    if (!live.in_order) {
      kept = topological_order(ops, live.op, producer);
    } else {
      for (size_t i = 0; i < ops.size(); ++i)
        if (live.op[i]) kept.push_back(static_cast<uint32_t>(i));
    }
    return set_order(std::move(kept));
  }
  number_producers(*this, producer);
}

void Graph::set_order(std::vector<uint32_t> order) {
  bring_in_order(ops, order);
  number_producers(*this, producers(*this));
}

bool Graph::is_tidy() const {
  const std::vector<OpId> producer = producers(*this);
  const Live live = live_ops(*this, producer);
  return live.in_order && live.all() &&
         std::equal(values.begin(), values.end(), producer.begin(),
                    [](const Value& value, OpId made_by) { return value.producer == made_by; });
}

std::vector<std::vector<OpId>> Graph::users() const {
  std::vector<std::vector<OpId>> out(values.size());
  for (size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].kind == Kind::kDead) continue;
    for (ValueId in : ops[i].inputs)
      if (in != kAbsent) out[static_cast<size_t>(in)].push_back(static_cast<OpId>(i));
  }
  return out;
}

void Graph::replace_uses(ValueId from, ValueId to) {
  for (Op& op : ops) std::replace(op.inputs.begin(), op.inputs.end(), from, to);
  std::replace(outputs.begin(), outputs.end(), from, to);
}

}  // namespace lowtide::core
