// SPDX-License-Identifier: Apache-2.0
#include "layout/core/cut.h"

// g++ 12 takes an iterator inside Boost's max-flow for uninitialized; it is set before use.
#ifndef __clang__  // which does not know that warning
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <boost/iterator/counting_iterator.hpp>
#include <boost/property_map/property_map.hpp>
#include <limits>
#include <utility>

namespace lowtide::layout {

struct CostEdge {
  uint32_t from, to;
  int64_t capacity;
};

namespace {

// The edges with their opposites, by the vertex from which they go, each vertex's in the order in which they were
// added: that order decides between cuts of equal cost. Boost's adjacency_list takes five times the memory.
class FlowGraph {
 public:
  using vertex_descriptor = uint32_t;
  using edge_descriptor = uint32_t;
  using vertex_iterator = boost::counting_iterator<uint32_t>;
  using edge_iterator = boost::counting_iterator<uint32_t>;
  using out_edge_iterator = boost::counting_iterator<uint32_t>;
  using vertices_size_type = uint32_t;
  using edges_size_type = uint32_t;
  using degree_size_type = uint32_t;
  using directed_category = boost::directed_tag;
  using edge_parallel_category = boost::allow_parallel_edge_tag;
  struct traversal_category : boost::vertex_list_graph_tag, boost::edge_list_graph_tag, boost::incidence_graph_tag {};
  static vertex_descriptor null_vertex() { return std::numeric_limits<uint32_t>::max(); }

  FlowGraph(uint32_t vertex_count, const std::vector<CostEdge>& edges)
      : first(vertex_count + 1), target(2 * edges.size()), opposite(2 * edges.size()), residual(2 * edges.size()) {
    for (const CostEdge& edge : edges) {
      ++first[edge.from + 1];
      ++first[edge.to + 1];
    }
    for (size_t v = 0; v < vertex_count; ++v) first[v + 1] += first[v];
    std::vector<uint32_t> next(first.begin(), first.end() - 1);
    for (const CostEdge& edge : edges) {
      const uint32_t forward = next[edge.from]++;
      const uint32_t backward = next[edge.to]++;
      target[forward] = edge.to;
      target[backward] = edge.from;
      opposite[forward] = backward;
      opposite[backward] = forward;
      residual[forward] = edge.capacity;
    }
  }

  std::vector<uint32_t> first;             // by vertex: its first edge
  std::vector<uint32_t> target, opposite;  // by edge
  std::vector<int64_t> residual;           // at first the capacities
};

std::pair<FlowGraph::vertex_iterator, FlowGraph::vertex_iterator> numbers_in(size_t begin, size_t end) {
  return {FlowGraph::vertex_iterator(static_cast<uint32_t>(begin)),
          FlowGraph::vertex_iterator(static_cast<uint32_t>(end))};
}
// What Boost.Graph asks of a graph.
uint32_t num_vertices(const FlowGraph& g) { return static_cast<uint32_t>(g.first.size() - 1); }
uint32_t num_edges(const FlowGraph& g) { return static_cast<uint32_t>(g.target.size()); }
auto vertices(const FlowGraph& g) { return numbers_in(0, num_vertices(g)); }
auto edges(const FlowGraph& g) { return numbers_in(0, num_edges(g)); }
auto out_edges(uint32_t vertex, const FlowGraph& g) { return numbers_in(g.first[vertex], g.first[vertex + 1]); }
uint32_t out_degree(uint32_t vertex, const FlowGraph& g) { return g.first[vertex + 1] - g.first[vertex]; }
uint32_t target(uint32_t edge, const FlowGraph& g) { return g.target[edge]; }
uint32_t source(uint32_t edge, const FlowGraph& g) { return g.target[g.opposite[edge]]; }

constexpr int64_t kForbidden = std::numeric_limits<int64_t>::max() / 1024;

}  // namespace

// Label 0 is the source's side of the cut, label 1 the sink's: an edge u -> v costs its capacity when u is 0 and v is
// 1.
struct Cut::Impl {
  static constexpr uint32_t kSource = 0, kSink = 1;
  uint32_t vertex_count = 2;
  std::vector<CostEdge> edges;

  uint32_t vertex(Var v) const { return v == kAlwaysZero ? kSource : static_cast<uint32_t>(v) + 2; }
  uint32_t fresh() { return vertex_count++; }
  void edge(uint32_t from, uint32_t to, int64_t capacity) {
    if (from != to && capacity != 0) edges.push_back({from, to, capacity});
  }
  // A vertex that is 1 if any of vars is; an edge into it carries the cost.
  uint32_t any_one(std::span<const Var> vars) {
    const uint32_t gate = fresh();
    for (Var v : vars) edge(gate, vertex(v), kForbidden);
    return gate;
  }
  // A vertex that is 0 if any of vars is; an edge out of it carries the cost.
  uint32_t any_zero(std::span<const Var> vars) {
    const uint32_t gate = fresh();
    for (Var v : vars) edge(vertex(v), gate, kForbidden);
    return gate;
  }
};

Cut::Cut() : impl_(std::make_unique<Impl>()) {}
Cut::~Cut() = default;

// Variables and gates are vertices; a Var is the vertex number minus the two terminals.
Cut::Var Cut::add() { return static_cast<Var>(impl_->fresh()) - 2; }

void Cut::pay_if_zero(Var v, uint64_t cost) { impl_->edge(impl_->vertex(v), Impl::kSink, static_cast<int64_t>(cost)); }
void Cut::pay_if_one(Var v, uint64_t cost) { impl_->edge(Impl::kSource, impl_->vertex(v), static_cast<int64_t>(cost)); }
void Cut::pay_if_any_zero(std::span<const Var> vars, uint64_t cost) {
  if (!vars.empty()) impl_->edge(impl_->any_zero(vars), Impl::kSink, static_cast<int64_t>(cost));
}
void Cut::pay_if_any_one(std::span<const Var> vars, uint64_t cost) {
  if (!vars.empty()) impl_->edge(Impl::kSource, impl_->any_one(vars), static_cast<int64_t>(cost));
}
void Cut::pay_if_zero_and_any_one(Var v, std::span<const Var> vars, uint64_t cost) {
  if (!vars.empty()) impl_->edge(impl_->vertex(v), impl_->any_one(vars), static_cast<int64_t>(cost));
}
void Cut::pay_if_one_and_any_zero(Var v, std::span<const Var> vars, uint64_t cost) {
  if (!vars.empty()) impl_->edge(impl_->any_zero(vars), impl_->vertex(v), static_cast<int64_t>(cost));
}

std::vector<bool> Cut::solve() {
  FlowGraph graph(impl_->vertex_count, std::exchange(impl_->edges, {}));
  const boost::typed_identity_property_map<uint32_t> itself;
  auto by_index = [&](auto& vector) { return boost::make_iterator_property_map(vector.begin(), itself); };
  std::vector<uint32_t> towards(impl_->vertex_count), distance(impl_->vertex_count);
  std::vector<boost::default_color_type> color(impl_->vertex_count);
  boost::boykov_kolmogorov_max_flow(graph, by_index(graph.residual), by_index(graph.residual), by_index(graph.opposite),
                                    by_index(towards), by_index(color), by_index(distance), itself, Impl::kSource,
                                    Impl::kSink);
  // Vertices in the sink's tree are 1; those in the source's tree and in neither are 0.
  std::vector<bool> labels;
  labels.reserve(color.size());
  for (size_t v = 2; v < color.size(); ++v) labels.push_back(color[v] == color[Impl::kSink]);
  return labels;
}

}  // namespace lowtide::layout
