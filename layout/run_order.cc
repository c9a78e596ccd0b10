// SPDX-License-Identifier: Apache-2.0
#include "layout/run_order.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "stream/dtype.h"

namespace lowtide::layout {
namespace {

using core::Graph;
using core::OpId;
using core::ValueId;
using Order = std::vector<uint32_t>;  // numbers of ops

constexpr uint64_t kTypicalExtent = 64;  // taken for a dimension that is known at run time only

double bytes_of(const core::Value& value) {
  double elements = 1;
  for (const core::Dim dim : value.shape)
    elements *= static_cast<double>(stream::is_static(dim) ? static_cast<uint64_t>(dim) : kTypicalExtent);
  constexpr uint64_t kSample = 1024;
  return elements * static_cast<double>(stream::file_bytes(value.dtype, kSample)) / kSample;
}

// Whether an op makes it: constants and inputs have memory all the time.
bool is_made(const Graph& graph, ValueId id) { return id != core::kAbsent && graph.at(id).producer >= 0; }

Order depth_first(const Graph& graph) {
  struct Visit {
    OpId op;
    size_t next_input = 0;
  };
  Order order;
  std::vector<char> is_seen(graph.ops.size(), 0);
  std::vector<Visit> path;
  const auto enter = [&](ValueId id) {
    if (!is_made(graph, id) || is_seen[static_cast<size_t>(graph.at(id).producer)]) return;
    path.push_back({graph.at(id).producer});
    is_seen[static_cast<size_t>(path.back().op)] = 1;
  };
  for (const ValueId output : graph.outputs) {
    enter(output);
    while (!path.empty()) {
      const std::vector<ValueId>& inputs = graph.op(path.back().op).inputs;
      if (path.back().next_input < inputs.size()) {
        enter(inputs[path.back().next_input++]);
      } else {
        order.push_back(static_cast<uint32_t>(path.back().op));
        path.pop_back();
      }
    }
  }
  return order;
}

// The most bytes that are kept at once.
double peak_of(const Graph& graph, const Order& order) {
  std::vector<int> reads(graph.values.size(), 0);
  for (const core::Op& op : graph.ops)
    for (const ValueId in : op.inputs)
      if (is_made(graph, in)) ++reads[static_cast<size_t>(in)];
  for (const ValueId output : graph.outputs) ++reads[static_cast<size_t>(output)];  // is kept to the end
  double kept = 0, peak = 0;
  for (const uint32_t id : order) {
    const core::Op& op = graph.ops[id];
    for (const ValueId out : op.outputs)
      if (out != core::kAbsent) kept += bytes_of(graph.at(out));
    peak = std::max(peak, kept);
    for (const ValueId out : op.outputs)
      if (out != core::kAbsent && reads[static_cast<size_t>(out)] == 0) kept -= bytes_of(graph.at(out));
    for (const ValueId in : op.inputs)
      if (is_made(graph, in) && --reads[static_cast<size_t>(in)] == 0) kept -= bytes_of(graph.at(in));
  }
  return peak;
}

}  // namespace

void order_for_memory(Graph& graph) {
  Order by_depth = depth_first(graph), present(graph.ops.size());
  std::iota(present.begin(), present.end(), 0);
  if (peak_of(graph, by_depth) < peak_of(graph, present)) graph.set_order(std::move(by_depth));
}

}  // namespace lowtide::layout
