// SPDX-License-Identifier: Apache-2.0
// Loop: unrolled when its conditions and trip count are known at conversion, else a WHILE.
//
// ONNX's Loop has a condition and a trip count, both optional; its scan outputs grow by one row per iteration. tf2onnx
// writes bodies that take the iteration number as a tensor of shape [1], and ONNX Runtime passes it in that shape.
//
// A WHILE has no lists in its state: it has the elements of a list that keeps its length, and one tensor for a list to
// which the body appends (lists.h).
#include <fmt/format.h>

#include <algorithm>

#include "layout/core/subgraphs.h"
#include "layout/lower/lists.h"
#include "layout/lower/shapes_and_indices.h"
#include "layout/lower/subgraph.h"

namespace lowtide::layout {
namespace {

struct Loop {
  const onnx::Graph& body;
  size_t carried, scans;
  std::vector<size_t> wanted;  // the scan outputs that are used
  Val trips, condition;        // absent: no limit; true
  std::vector<Val> state;
  bool has_lists(const Builder& b) const {
    return std::any_of(state.begin(), state.end(), [&](Val v) { return b.is_tensor_list(v); });
  }
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

constexpr size_t kMostCarriedElements = 4096;  // of a list

// The body, lowered into a graph that is discarded: it shows the types of scan outputs and of lists' elements.
struct Trial {
  core::SubgraphBuilder subgraph;
  std::vector<Val> state, out;

  Trial(Lowering& lo, const Loop& loop) : subgraph(lo.around.model(), lo.b, "trial"), state(), out() {
    const std::vector<const onnx::ValueInfo*> given = given_inputs(loop.body);
    std::vector<Val> inputs{subgraph.input(DType::kInt64, counter_shape(*given[0])),
                            subgraph.input(DType::kBool, counter_shape(*given[1]))};
    for (Val v : loop.state) state.push_back(input_like(lo, v));
    inputs.insert(inputs.end(), state.begin(), state.end());
    out = lo.around.lower_into(subgraph, loop.body, inputs);
  }

 private:
  Val input_like(Lowering& lo, Val v) {
    if (!lo.b.is_tensor_list(v)) return subgraph.input(lo.dtype(v), lo.shape(v));
    List list = list_of(lo.b, v);
    if (list.form == List::Form::kOpen || list.elements.empty()) return as_value(subgraph.b(), {List::Form::kOpen, {}});
    if (list.elements.size() > kMostCarriedElements)
      lo.unsupported(fmt::format("a Loop cannot carry a list of {} elements: each would be an input of its body",
                                 list.elements.size()));
    for (Val& element : list.elements) element = subgraph.input(lo.dtype(element), lo.shape(element));
    return as_value(subgraph.b(), list);
  }
};

std::vector<ScanOutput> scan_outputs(Lowering& lo, const Loop& loop, Trial& trial) {
  std::vector<ScanOutput> all;
  for (size_t i : loop.wanted) {
    const size_t at = loop.carried + 1 + i;
    all.push_back(scan_output(lo, trial.subgraph, trial.out[at], loop.body.outputs[at], 0, 0));
  }
  return all;
}

// A carried value in a WHILE.
struct Slot {
  bool is_list = false;
  List list = {};  // what it is before the first iteration; its elements are then values of the state
  size_t size() const { return is_list ? (list.form == List::Form::kOpen ? 0 : list.elements.size()) : 1; }
  std::vector<Val> grown = {};  // of an open list: stand-ins of what the loop appends
};

// Where --shape would tell how often the loop runs.
std::string loop_hint(Lowering& lo) {
  const bool follows = lo.has_input(0) && lo.dims(lo.input(0));
  return follows ? "fix the inputs' shapes with --shape INPUT=..." : "";
}

[[noreturn]] void refuse_list(Lowering& lo, const char* why) {
  lo.unsupported(fmt::format("a list that the Loop carries {}, and how often it runs is known at run time only", why),
                 loop_hint(lo));
}

// `appended` are values of the trial.
Joint joint_of(Lowering& lo, Trial& trial, const std::string& list, std::span<const Val> appended) {
  Joint joint;
  const Builder& b = trial.subgraph.b();
  if (const auto join = lo.around.join_of(list)) {
    joint.stacks = join->stacks;
    joint.axis = lo.axis(join->axis, b.rank(appended[0]) + (join->stacks ? 1 : 0));
  }
  joint.of_ones =
      joint.stacks || std::all_of(appended.begin(), appended.end(), [&](Val v) { return b.dim(v, joint.axis) == 1; });
  return joint;
}

// Carried value `i`, a list.
Slot list_slot(Lowering& lo, const Loop& loop, Trial& trial, size_t i) {
  using Form = List::Form;
  Builder& inner = trial.subgraph.b();
  const List before = list_of(lo.b, loop.state[i]), in = list_of(inner, trial.state[i]);
  const List out = list_of(inner, trial.out[1 + i]);
  if (out.form != in.form) refuse_list(lo, "is replaced by another one");
  Slot slot{.is_list = true, .list = before};
  if (before.form == Form::kJoined) {
    slot.list.joint.of_ones = out.joint.of_ones;
    return slot;
  }
  if (before.form == Form::kOpen) {
    for (Val v : out.elements) slot.grown.push_back(stand_in(lo.b, inner.dtype(v), inner.shape(v)));
    return slot;
  }
  if (out.elements.size() == before.elements.size()) return slot;
  if (out.elements.size() < in.elements.size() ||
      !std::equal(in.elements.begin(), in.elements.end(), out.elements.begin()))
    refuse_list(lo, "is not only appended to");
  const std::string& name = loop.body.outputs[1 + i].name;
  const std::string& made = i < lo.node.outputs.size() ? lo.node.outputs[i] : name;
  slot.list.form = Form::kJoined;
  slot.list.joint = joint_of(lo, trial, made.empty() ? name : made, out.elements);
  if (!before.elements.empty()) {
    slot.list.elements = {joined_tensor(lo.b, slot.list.joint, before.elements)};
    return slot;
  }
  Shape shape = shape_of_rows(trial.subgraph, out.elements[0], loop.body.outputs[1 + i]);
  const auto axis = static_cast<std::ptrdiff_t>(slot.list.joint.axis);
  if (slot.list.joint.stacks)
    shape.insert(shape.begin() + axis, 0);
  else
    shape[static_cast<size_t>(axis)] = 0;
  // As for the rows of scan outputs: any number that each type has.
  slot.list.elements = {lo.b.broadcast_to(lo.b.scalar(1, inner.dtype(out.elements[0])), shape)};
  return slot;
}

// What a slot is in the graph of `b`, where `values` are its part of the state.
Val from_state(Builder& b, const Slot& slot, std::span<const Val> values) {
  if (!slot.is_list) return values[0];
  return as_value(b, {slot.list.form, {values.begin(), values.end()}, slot.list.joint});
}

// Thrown where an iteration appends elements of other sizes than 1, which the trial did not show: slots were changed.
struct OtherSizes {};

// The values of the state after an iteration that made `v` of it.
std::vector<Val> to_state(Lowering& lo, Builder& b, Slot& slot, Val v) {
  if (b.is_tensor_list(v) != slot.is_list) lo.malformed("an iteration makes a tensor of a list, or a list of a tensor");
  if (!slot.is_list) return {v};
  const List list = list_of(b, v);
  if (list.form != slot.list.form || list.joint.axis != slot.list.joint.axis ||
      list.joint.stacks != slot.list.joint.stacks)
    refuse_list(lo, "is replaced by another one");
  if (list.form == List::Form::kOpen) return {};
  if (slot.list.joint.of_ones && !list.joint.of_ones) {
    slot.list.joint.of_ones = false;
    throw OtherSizes{};
  }
  if (list.elements.size() != slot.list.elements.size()) refuse_list(lo, "is not only appended to");
  return list.elements;
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
  // Only a Loop that can become a WHILE is judged by the measured count; a WHILE cannot carry every sequence.
  const bool has_lists = loop.has_lists(lo.b);
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
    Trial trial(lo, loop);
    for (const ScanOutput& scan : scan_outputs(lo, loop, trial)) state.push_back(scan.initial);
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
  std::vector<Slot> slots(loop.carried);
  std::vector<ScanOutput> scans;
  if (loop.has_lists(lo.b) || !loop.wanted.empty()) {
    Trial trial(lo, loop);
    for (size_t i = 0; i < loop.carried; ++i)
      if (lo.b.is_tensor_list(loop.state[i])) slots[i] = list_slot(lo, loop, trial, i);
    scans = scan_outputs(lo, loop, trial);
  }
  for (size_t i = 0; i < loop.carried; ++i) {
    const std::vector<Val> values = slots[i].is_list ? slots[i].list.elements : std::vector<Val>{loop.state[i]};
    begin.insert(begin.end(), values.begin(), values.begin() + static_cast<std::ptrdiff_t>(slots[i].size()));
  }
  const size_t first_scan = begin.size();
  for (const ScanOutput& scan : scans) begin.push_back(scan.initial);
  auto carried_values = [&](Builder& b, std::span<const Val> now) {
    std::vector<Val> out;
    size_t at = 2;
    for (const Slot& slot : slots) {
      out.push_back(from_state(b, slot, now.subspan(at, slot.size())));
      at += slot.size();
    }
    return out;
  };
  auto continues = [&](core::SubgraphBuilder& subgraph, std::span<const Val> now) {
    Builder& b = subgraph.b();
    return std::vector<Val>{trips ? b.logical_and(now[1], b.less(now[0], subgraph.here(trips))) : now[1]};
  };
  auto iteration = [&](core::SubgraphBuilder& subgraph, std::span<const Val> now) {
    Builder& b = subgraph.b();
    const std::vector<Val> inputs = body_inputs(b, loop.body, now[0], now[1], carried_values(b, now));
    const std::vector<Val> out = lo.around.lower_into(subgraph, loop.body, inputs);
    std::vector<Val> next{b.add(now[0], 1), reshaped_to_scalar(b, out[0])};
    for (size_t i = 0; i < loop.carried; ++i) {
      const std::vector<Val> values = to_state(lo, b, slots[i], out[1 + i]);
      next.insert(next.end(), values.begin(), values.end());
    }
    for (size_t i = 0; i < scans.size(); ++i)
      next.push_back(append_row(b, scans[i], now[first_scan + i], out[1 + loop.carried + loop.wanted[i]]));
    return next;
  };
  std::vector<Val> end;
  while (end.empty()) {
    try {
      end = core::run_while(lo.around.model(), lo.b, begin, continues, iteration);
    } catch (const OtherSizes&) {  // at most once for each slot
    }
  }
  std::vector<Val> out = carried_values(lo.b, end);
  for (size_t i = 0; i < loop.carried; ++i)
    if (slots[i].list.form == List::Form::kOpen) {
      List list = slots[i].list;
      list.elements.insert(list.elements.end(), slots[i].grown.begin(), slots[i].grown.end());
      out[i] = as_value(lo.b, list);
    }
  out.insert(out.end(), end.begin() + static_cast<std::ptrdiff_t>(first_scan), end.end());
  return out;
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
