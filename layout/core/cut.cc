// SPDX-License-Identifier: Apache-2.0
#include "layout/core/cut.h"

// g++ 12 takes an iterator inside Boost's max-flow for uninitialized; it is set before use.
#ifndef __clang__  // which does not know that warning
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <limits>

namespace lowtide::layout {
namespace {

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
using FlowGraph = boost::adjacency_list<
    boost::vecS, boost::vecS, boost::directedS,
    boost::property<
        boost::vertex_index_t, long,
        boost::property<boost::vertex_color_t, boost::default_color_type,
                        boost::property<boost::vertex_distance_t, long,
                                        boost::property<boost::vertex_predecessor_t, Traits::edge_descriptor>>>>,
    boost::property<boost::edge_capacity_t, int64_t,
                    boost::property<boost::edge_residual_capacity_t, int64_t,
                                    boost::property<boost::edge_reverse_t, Traits::edge_descriptor>>>>;

constexpr int64_t kForbidden = std::numeric_limits<int64_t>::max() / 1024;

}  // namespace

// Label 0 is the source's side of the cut, label 1 the sink's: an edge u -> v costs its capacity when u is 0 and v is
// 1.
struct Cut::Impl {
  FlowGraph graph{2};
  static constexpr size_t kSource = 0, kSink = 1;

  size_t vertex(Var v) const { return v == kAlwaysZero ? kSource : static_cast<size_t>(v) + 2; }
  size_t fresh() { return boost::add_vertex(graph); }
  void edge(size_t from, size_t to, int64_t capacity) {
    if (from == to || capacity == 0) return;
    auto forward = boost::add_edge(from, to, graph).first;
    auto backward = boost::add_edge(to, from, graph).first;
    auto capacities = boost::get(boost::edge_capacity, graph);
    auto reverse = boost::get(boost::edge_reverse, graph);
    capacities[forward] = capacity;
    capacities[backward] = 0;
    reverse[forward] = backward;
    reverse[backward] = forward;
  }
  // A vertex that is 1 if any of vars is; an edge into it carries the cost.
  size_t any_one(std::span<const Var> vars) {
    size_t gate = fresh();
    for (Var v : vars) edge(gate, vertex(v), kForbidden);
    return gate;
  }
  // A vertex that is 0 if any of vars is; an edge out of it carries the cost.
  size_t any_zero(std::span<const Var> vars) {
    size_t gate = fresh();
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
  boost::boykov_kolmogorov_max_flow(impl_->graph, Impl::kSource, Impl::kSink);
  // Vertices in the sink's tree are 1; those in the source's tree and in neither are 0.
  auto color = boost::get(boost::vertex_color, impl_->graph);
  const auto sink_color = color[Impl::kSink];
  std::vector<bool> labels;
  for (size_t v = 2; v < boost::num_vertices(impl_->graph); ++v) labels.push_back(color[v] == sink_color);
  return labels;
}

}  // namespace lowtide::layout
