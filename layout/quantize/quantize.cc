// SPDX-License-Identifier: Apache-2.0
#include "layout/quantize/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <set>
#include <utility>

#include "layout/core/builtin.h"
#include "layout/quantize/rescale.h"
#include "layout/quantize/rules.h"
#include "layout/quantize/tables.h"

namespace lowtide::layout {
namespace {

// How often grids are placed again without the ops that kernels refused. Other grids may make kernels refuse others.
constexpr int kMostPlacings = 4;

constexpr std::array kQuantizeRules = {Rule{join_quantize}, Rule{quantize_before_choice},
                                       Rule{limit_to_one_in_integers}, Rule{compute_in_integers}};

// Conversions through ops that move elements, but not into functions of them, which may become tables.
bool moves(const Op& op) { return !core::builtin(op.kind).is_elementwise(); }
bool choose_moved_integers(Rewriter& rewriter, OpId id) {
  return moves(rewriter.op(id)) && choose_integers(rewriter, id);
}
bool quantize_before_move(Rewriter& rewriter, OpId id) {
  const OpId producer = rewriter.producer(rewriter.op(id).inputs[0]);
  return producer >= 0 && moves(rewriter.op(producer)) && quantize_before_choice(rewriter, id);
}
constexpr std::array kQuantizeBeforeTables = {Rule{join_quantize}, Rule{quantize_before_move},
                                              Rule{limit_integers_to_one}, Rule{function_without_kernel_by_table}};
constexpr std::array kChosenBeforeTables = {Rule{choose_moved_integers}, Rule{choose_plain_integers}};
constexpr std::array kTableRules = {Rule{function_by_table}};
constexpr std::array kDequantizeRules = {Rule{join_dequantize}};
constexpr std::array kBitcastRules = {Rule{join_bitcast}, Rule{regrid_before_choice}};
constexpr std::array kChosenRules = {Rule{choose_integers}, Rule{choose_plain_integers}};

std::span<const Rule> rules_of(Kind kind) {
  switch (kind) {
    case Kind::kQuantize:
      return kQuantizeRules;
    case Kind::kDequantize:
      return kDequantizeRules;
    case Kind::kBitcast:
      return kBitcastRules;
    default:
      return core::builtin(kind).integers == core::Integers::kChosen ? kChosenRules : std::span<const Rule>();
  }
}

std::span<const Rule> rules_before_kernels(Kind kind) {
  const std::span<const Rule> rules = rules_of(kind);
  if (rules.data() == kQuantizeRules.data()) return kQuantizeBeforeTables;
  return rules.data() == kChosenRules.data() ? kChosenBeforeTables : rules;
}

std::span<const Rule> table_rules_of(Kind kind) {
  return kind == Kind::kQuantize ? kTableRules : std::span<const Rule>();
}

// An operator with states on integers has its scales without any conversion.
bool is_quantized_model(const Graph& graph) {
  return std::any_of(graph.ops.begin(), graph.ops.end(), [&](const Op& op) {
    return op.kind == Kind::kQuantize || op.kind == Kind::kDequantize ||
           (std::holds_alternative<core::StatefulOptions>(op.options) && graph.at(op.outputs[0]).quantization);
  });
}

// Whether the op only drops or adds a grid.
bool is_regridding(const Graph& graph, const Op& op) {
  return op.kind == Kind::kBitcast && graph.at(op.inputs[0]).dtype == graph.at(op.outputs[0]).dtype;
}

bool has_usable_grid(const core::Value& value) {
  const auto grid = grid_of(value);
  return grid && has_kernels(*grid);
}

// The model's own inputs and outputs have the grid themselves, in place of a BITCAST that adds or drops it.
void set_grids_at_borders(Graph& graph) {
  for (ValueId& out : graph.outputs) {
    const OpId producer = graph.at(out).producer;
    if (producer < 0) continue;
    const Op& op = graph.ops[static_cast<size_t>(producer)];
    if (is_regridding(graph, op) && has_usable_grid(graph.at(op.inputs[0]))) out = op.inputs[0];
  }
  const auto users = graph.users();
  for (const ValueId in : graph.inputs) {
    if (std::find(graph.outputs.begin(), graph.outputs.end(), in) != graph.outputs.end()) continue;
    std::optional<TensorGrid> grid;
    bool all = !users[static_cast<size_t>(in)].empty();
    for (const OpId user : users[static_cast<size_t>(in)]) {
      const Op& op = graph.ops[static_cast<size_t>(user)];
      const auto own = is_regridding(graph, op) ? grid_of(graph.at(op.outputs[0])) : std::nullopt;
      all = all && own && has_kernels(*own) && (!grid || grid == own);
      grid = own;
    }
    if (!all) continue;
    graph.at(in).quantization = quantization_of(*grid);
    for (const OpId user : users[static_cast<size_t>(in)])
      graph.replace_uses(graph.ops[static_cast<size_t>(user)].outputs[0], in);
  }
  graph.tidy();
}

// Whether the elements of the result are elements of the data: then they are on one grid, or on none.
bool keeps_grid(const Op& op) {
  const core::Builtin& row = core::builtin(op.kind);
  return row.numbers == core::Numbers::kMoved || row.integers == core::Integers::kChosen;
}

bool is_on_one_grid(const Graph& graph, const Op& op) {
  const core::Builtin& row = core::builtin(op.kind);
  std::optional<ValueId> first;
  const auto agrees = [&](ValueId id, core::Role role) {
    if (id == core::kAbsent || role != core::Role::kData) return true;
    if (!first) first = id;
    if (graph.at(id).dtype != graph.at(*first).dtype) return true;  // a hybrid kernel, from integers to floats
    const auto &own = graph.at(id).quantization, &other = graph.at(*first).quantization;
    // A grid for each channel may be along another axis.
    return own.has_value() == other.has_value() && (!own || own->scale.size() > 1 || *own == *other);
  };
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (!agrees(op.inputs[i], row.inputs[i])) return false;
  for (size_t i = 0; i < op.outputs.size(); ++i)
    if (!agrees(op.outputs[i], row.outputs[i])) return false;
  return true;
}

bool has_grid(const Graph& graph, ValueId id) { return id != core::kAbsent && graph.at(id).quantization.has_value(); }

void count(const Graph& graph, core::IntegerReport& report) {
  for (const Op& op : graph.ops) {
    if (op.inputs.empty() || op.outputs.empty() || !has_grid(graph, op.outputs[0])) continue;
    const bool from_integers =
        std::any_of(op.inputs.begin(), op.inputs.end(), [&](ValueId in) { return has_grid(graph, in); });
    if (!from_integers) continue;
    ++(op.kind == Kind::kQuantize ? report.rescales : report.operators);
    if (is_table(graph, op)) ++report.tables;
  }
}

bool is_conversion(const Op& op) { return op.kind == Kind::kQuantize || op.kind == Kind::kDequantize; }

bool touches_floats(const Graph& graph, const Op& op) {
  auto is_float = [&](ValueId id) { return id != core::kAbsent && stream::is_float(graph.at(id).dtype); };
  return std::any_of(op.inputs.begin(), op.inputs.end(), is_float) ||
         std::any_of(op.outputs.begin(), op.outputs.end(), is_float);
}

// Of a calibrated model, where every op is meant to be computed in integers; empty for an op that touches no floats.
std::string reason_in_calibrated(Rewriter& rewriter, OpId id, const PlacedGrids& placed) {
  const Op& op = rewriter.op(id);
  if (!touches_floats(rewriter.graph, op)) return {};
  const auto given = placed.reasons.find(op.outputs.empty() ? core::kAbsent : op.outputs[0]);
  if (given != placed.reasons.end()) return given->second;
  std::string reason = reason_for_floats(rewriter, id);
  if (!reason.empty()) return reason;
  if (core::builtin(op.kind).integers == core::Integers::kNone)
    return "LiteRT has no exact integer kernel of " + std::string(kind_name(op.kind));
  return "its data or its result are floats";
}

std::string reason_of(Rewriter& rewriter, OpId id, const PlacedGrids* placed) {
  return placed == nullptr ? reason_for_floats(rewriter, id) : reason_in_calibrated(rewriter, id, *placed);
}

void draw_into_integers(Graph& graph, bool is_main, bool tables) {
  if (tables) core::apply_rules(graph, rules_before_kernels);
  core::apply_rules(graph, rules_of);
  if (is_main) set_grids_at_borders(graph);
  core::apply_rules(graph, rules_of);
  // Tables for what is left. Kernels come first where one op computes: compilers for accelerators know them better.
  if (tables) {
    core::apply_rules(graph, table_rules_of);
    core::apply_rules(graph, rules_of);
  }
}

void report_integers(Graph& graph, const PlacedGrids* placed, core::IntegerReport& report) {
  check_grids(graph);
  count(graph, report);
  Rewriter rewriter(graph);
  const size_t ops = graph.ops.size();
  for (size_t i = 0; i < ops; ++i) {
    const Op op = graph.ops[i];
    if (is_conversion(op)) continue;
    std::string reason = reason_of(rewriter, static_cast<OpId>(i), placed);
    if (!reason.empty())
      report.islands.push_back({graph.origins[op.origin], std::string(kind_name(op.kind)), std::move(reason)});
  }
}

// Ops that were to be computed in integers, and are not.
RefusedOps refused_ops(Graph& graph, const PlacedGrids& placed) {
  RefusedOps out;
  const std::set<ValueId> computing(placed.computing.begin(), placed.computing.end());
  std::vector<OpId> found;
  for (size_t i = 0; i < graph.ops.size(); ++i)
    if (!graph.ops[i].outputs.empty() && computing.contains(graph.ops[i].outputs[0]))
      found.push_back(static_cast<OpId>(i));
  if (found.empty()) return out;
  Rewriter rewriter(graph);
  for (const OpId id : found) {
    std::string reason = reason_in_calibrated(rewriter, id, placed);
    out.emplace(rewriter.op(id).outputs[0], std::move(reason));
  }
  return out;
}

// What placing and the rules change of a graph. Constants are recipes, which are shared.
struct GraphBefore {
  explicit GraphBefore(const Graph& graph)
      : values(graph.values),
        ops(graph.ops),
        inputs(graph.inputs),
        outputs(graph.outputs),
        fused_origins(graph.fused_origins),
        kept_ranges(graph.kept_ranges) {}
  void restore(Graph& graph) const {
    graph.values = values;
    graph.ops = ops;
    graph.inputs = inputs;
    graph.outputs = outputs;
    graph.fused_origins = fused_origins;
    graph.kept_ranges = kept_ranges;
  }
  std::deque<core::Value> values;
  std::deque<Op> ops;
  std::vector<ValueId> inputs, outputs;
  std::vector<std::pair<uint32_t, uint32_t>> fused_origins;
  std::optional<core::KeptRanges> kept_ranges;
};

}  // namespace

void check_grids(const Graph& graph) {
  for (const Op& op : graph.ops) {
    const auto refuse = [&](const char* what) {
      throw stream::Error(stream::Code::kInternal,
                          fmt::format("{}: {} of {}", graph.origins[op.origin], kind_name(op.kind), what));
    };
    if (op.kind == Kind::kQuantize || op.kind == Kind::kDequantize) {
      for (const ValueId id : {op.inputs[0], op.outputs[0]})
        if (stream::is_integer(graph.at(id).dtype) && !has_grid(graph, id)) refuse("a tensor without a scale");
    } else if (keeps_grid(op) && !is_on_one_grid(graph, op)) {
      refuse("tensors with different scales or zero points");
    }
  }
}

void quantize(Graph& graph, bool is_main, core::IntegerReport& report, bool tables) {
  if (!is_quantized_model(graph)) return;
  draw_into_integers(graph, is_main, tables);
  report_integers(graph, nullptr, report);
  rescale_by_product(graph);
}

PlacedGrids quantize_calibrated(Graph& graph, const Calibrated& calibrated, core::IntegerReport& report, bool tables,
                                stream::Progress* progress, const std::function<void()>& after_placing) {
  RefusedOps refused;
  graph.tidy();
  const GraphBefore before(graph);
  for (int round = 0;; ++round) {
    PlacedGrids placed = place_grids(graph, calibrated, progress, tables, refused);
    after_placing();
    draw_into_integers(graph, true, tables);
    const RefusedOps more = round < kMostPlacings ? refused_ops(graph, placed) : RefusedOps();
    if (more.empty()) {
      report_integers(graph, &placed, report);
      restore_floats(graph, placed);
      rescale_by_product(graph);
      return placed;
    }
    refused.insert(more.begin(), more.end());
    before.restore(graph);
  }
}

std::vector<stream::Unsupported> float_operators(Graph& graph, const PlacedGrids* placed) {
  std::vector<stream::Unsupported> out;
  Rewriter rewriter(graph);
  auto is_among = [](const std::vector<ValueId>& ids, ValueId id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  const size_t ops = graph.ops.size();
  for (size_t i = 0; i < ops; ++i) {
    const Op op = graph.ops[i];
    if (!touches_floats(graph, op)) continue;
    if (op.kind == Kind::kQuantize && is_among(graph.inputs, op.inputs[0])) continue;
    if (op.kind == Kind::kDequantize && is_among(graph.outputs, op.outputs[0])) continue;
    std::string reason = is_conversion(op) ? "" : reason_of(rewriter, static_cast<OpId>(i), placed);
    if (reason.empty()) reason = is_conversion(op) ? "it converts for an operator in floats" : "its data are floats";
    stream::Unsupported refused("it is not computed in integers: " + reason,
                                placed == nullptr ? "leave out --require-integer, or quantize the operator in the model"
                                                  : "leave out --require-integer, or write the operator in others");
    refused.add_place({.node = graph.origins[op.origin], .op = std::string(kind_name(op.kind))});
    out.push_back(std::move(refused));
  }
  graph.tidy();
  return out;
}

}  // namespace lowtide::layout
