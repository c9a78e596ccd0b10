// SPDX-License-Identifier: Apache-2.0
// Loop: unrolled when its conditions and trip count are known at conversion, else a WHILE.
//
// ONNX's Loop has a condition and a trip count, both optional; its scan outputs grow by one row per iteration. tf2onnx
// writes bodies that take the iteration number as a tensor of shape [1], and ONNX Runtime passes it in that shape.
#include <fmt/format.h>

#include <algorithm>

#include "layout/core/subgraphs.h"
#include "layout/lower/subgraph.h"

namespace lowtide::layout {
namespace {

struct Loop {
  const onnx::Graph& body;
  size_t carried, scans;
  std::vector<size_t> wanted;  // the scan outputs that are used
  Val trips, condition;        // absent: no limit; true
  std::vector<Val> state;
};

Val add_row_axis(Lowering& lo, Val v) { return lo.b.unsqueeze(v, std::vector<int>{0}); }
Val reshaped_to_scalar(Builder& b, Val v) { return b.reshape(v, {}); }

// The shape in which the body takes the iteration number or the condition, its first inputs.
Shape counter_shape(const onnx::ValueInfo& info) {
  return info.has_shape && info.dims.size() == 1 ? Shape{1} : Shape{};
}
// The inputs of the body for one iteration.
std::vector<Val> body_inputs(Builder& b, const onnx::Graph& body, Val trip, Val condition, std::span<const Val> state) {
  const std::vector<const onnx::ValueInfo*> given = given_inputs(body);
  std::vector<Val> inputs{b.reshape(trip, counter_shape(*given[0])), b.reshape(condition, counter_shape(*given[1]))};
  inputs.insert(inputs.end(), state.begin(), state.end());
  return inputs;
}

// The scan outputs' shapes, found by lowering the body into a graph that is discarded.
std::vector<ScanOutput> scan_outputs(Lowering& lo, const Loop& loop) {
  if (loop.wanted.empty()) return {};
  core::SubgraphBuilder trial(lo.around.model(), lo.b, "trial");
  const std::vector<const onnx::ValueInfo*> given = given_inputs(loop.body);
  std::vector<Val> inputs{trial.input(DType::kInt64, counter_shape(*given[0])),
                          trial.input(DType::kBool, counter_shape(*given[1]))};
  for (Val v : loop.state) inputs.push_back(trial.input(lo.dtype(v), lo.shape(v)));
  const std::vector<Val> out = lo.around.lower_into(trial, loop.body, inputs);
  std::vector<ScanOutput> all;
  for (size_t i : loop.wanted) {
    const size_t at = loop.carried + 1 + i;
    all.push_back(scan_output(lo, trial, out[at], loop.body.outputs[at], 0, 0));
  }
  return all;
}

// The carried values and the used scan outputs; nullopt when the number of iterations is known at run time only or too
// large.
std::optional<std::vector<Val>> unrolled_loop(Lowering& lo, const Loop& loop) {
  Unrolling unrolling(lo, loop.body);
  std::optional<int64_t> trips;
  if (loop.trips) {
    auto known = lo.ints(loop.trips);
    if (!known || known->size() != 1) return std::nullopt;
    trips = std::max<int64_t>(0, (*known)[0]);
    if (!unrolling.may_have(*trips)) return std::nullopt;
  }
  std::vector<Val> state = loop.state;
  // Only a Loop that can become a WHILE is judged by the measured count; a WHILE cannot carry a sequence.
  const bool has_lists = std::any_of(state.begin(), state.end(), [&](Val v) { return lo.b.is_tensor_list(v); });
  std::vector<std::vector<Val>> rows(loop.scans);
  Val condition = loop.condition ? loop.condition : lo.b.filled(1, DType::kBool, {});
  for (int64_t trip = 0; !trips || trip < *trips; ++trip) {
    auto continues = known_bool(lo, condition);
    if (!continues || !unrolling.may_have(trips.value_or(trip + 1))) return std::nullopt;
    if (!*continues) break;
    const Val counter = lo.b.scalar(static_cast<double>(trip), DType::kInt64);
    std::vector<Val> out = lo.around.lower_inline(loop.body, body_inputs(lo.b, loop.body, counter, condition, state));
    condition = out[0];
    std::copy_n(out.begin() + 1, loop.carried, state.begin());
    for (size_t i : loop.wanted) rows[i].push_back(add_row_axis(lo, out[loop.carried + 1 + i]));
    if (!has_lists) unrolling.end_turn();
  }
  if (!loop.wanted.empty() && rows[loop.wanted[0]].empty()) {
    for (const ScanOutput& scan : scan_outputs(lo, loop)) state.push_back(scan.initial);
    return state;
  }
  for (size_t i : loop.wanted) state.push_back(lo.b.concat(rows[i], 0));
  return state;
}

// State of the WHILE: the iteration number, the condition, the carried values, the scan outputs so far.
std::vector<Val> loop_at_run_time(Lowering& lo, const Loop& loop) {
  if (!loop.trips && !loop.condition)
    lo.unsupported("a Loop without trip count and initial condition is supported only if it can be unrolled");
  const Val trips = loop.trips ? reshaped_to_scalar(lo.b, lo.b.cast(loop.trips, DType::kInt64)) : Val{};
  const Val condition = loop.condition ? loop.condition : lo.b.filled(1, DType::kBool, {});
  std::vector<Val> begin{lo.b.scalar(0, DType::kInt64), reshaped_to_scalar(lo.b, condition)};
  begin.insert(begin.end(), loop.state.begin(), loop.state.end());
  const std::vector<ScanOutput> scans = scan_outputs(lo, loop);
  for (const ScanOutput& scan : scans) begin.push_back(scan.initial);

  auto continues = [&](core::SubgraphBuilder& subgraph, std::span<const Val> now) {
    Builder& b = subgraph.b();
    return std::vector<Val>{trips ? b.logical_and(now[1], b.less(now[0], subgraph.here(trips))) : now[1]};
  };
  auto iteration = [&](core::SubgraphBuilder& subgraph, std::span<const Val> now) {
    Builder& b = subgraph.b();
    const size_t first_scan = 2 + loop.carried;
    const std::vector<Val> inputs = body_inputs(b, loop.body, now[0], now[1], now.subspan(2, loop.carried));
    const std::vector<Val> out = lo.around.lower_into(subgraph, loop.body, inputs);
    std::vector<Val> next{b.add(now[0], 1), reshaped_to_scalar(b, out[0])};
    next.insert(next.end(), out.begin() + 1, out.begin() + 1 + static_cast<std::ptrdiff_t>(loop.carried));
    for (size_t i = 0; i < scans.size(); ++i)
      next.push_back(append_row(b, scans[i], now[first_scan + i], out[1 + loop.carried + loop.wanted[i]]));
    return next;
  };
  std::vector<Val> end = core::run_while(lo.around.model(), lo.b, begin, continues, iteration);
  end.erase(end.begin(), end.begin() + 2);
  return end;
}

}  // namespace

void lower_loop(Lowering& lo) {
  const onnx::Graph& body = subgraph(lo, "body");
  const size_t carried = lo.input_count() < 2 ? 0 : lo.input_count() - 2;
  const size_t given = given_inputs(body).size();
  if (given != carried + 2 || body.outputs.size() < carried + 1)
    lo.malformed(fmt::format("the body has {} inputs and {} outputs, which does not fit {} carried values", given,
                             body.outputs.size(), carried));
  Loop loop{.body = body,
            .carried = carried,
            .scans = body.outputs.size() - carried - 1,
            .wanted = {},
            .trips = lo.optional_input(0),
            .condition = lo.optional_input(1),
            .state = {}};
  for (size_t i = 0; i < carried; ++i) loop.state.push_back(lo.input(i + 2));
  for (size_t i = 0; i < loop.scans; ++i)
    if (lo.wants_output(carried + i)) loop.wanted.push_back(i);
  auto known = unrolled_loop(lo, loop);
  const std::vector<Val> out = known ? *known : loop_at_run_time(lo, loop);
  for (size_t i = 0; i < carried; ++i) lo.output(i, out[i]);
  for (size_t i = 0; i < loop.wanted.size(); ++i) lo.output(carried + loop.wanted[i], out[carried + i]);
}

}  // namespace lowtide::layout
