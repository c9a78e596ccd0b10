// SPDX-License-Identifier: Apache-2.0
// Which operators of a model meet the rules of a target, and which share of the work the others are.
//
// Work is estimated as a division does it (layout/model_units.h).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "emit/builtins/table.h"
#include "layout/model_units.h"
#include "stream/dtype.h"
#include "tools/lowtide/builtin_target.h"

namespace lowtide::tools {
namespace {

using core::Graph;
using core::Kind;
using core::Op;
using core::Value;
using core::ValueId;
using Rule = BuiltinTarget::Rule;
using Which = BuiltinTarget::Operands::Which;

constexpr layout::WorkCosts kCosts;

double extent(const core::Shape& shape, size_t axis) {
  if (!core::is_symbol(shape[axis])) return static_cast<double>(shape[axis]);
  return axis == 0 ? 1 : static_cast<double>(layout::kAssumedExtent);
}

double elements(const Value& value) {
  double out = 1;
  for (size_t axis = 0; axis < value.shape.size(); ++axis) out *= extent(value.shape, axis);
  return out;
}

double bytes(const Value& value) { return elements(value) * static_cast<double>(stream::bits(value.dtype)) / 8; }

double products(const Graph& graph, const Op& op) {
  const auto& result = graph.at(op.outputs[0]);
  auto weight = [&](size_t axis) {
    const core::Shape& shape = graph.at(op.inputs[1]).shape;
    return axis < shape.size() ? extent(shape, axis) : 1;
  };
  switch (op.kind) {
    case Kind::kConv2d:
      return elements(result) * weight(1) * weight(2) * weight(3);
    case Kind::kDepthwiseConv2d:
      return elements(result) * weight(1) * weight(2);
    case Kind::kTransposeConv:
      return elements(graph.at(op.inputs[2])) * weight(0) * weight(1) * weight(2);
    case Kind::kConv3d:
      return elements(result) * weight(0) * weight(1) * weight(2) * weight(3);
    case Kind::kFullyConnected:
      return elements(result) * weight(1);
    case Kind::kBatchMatmul: {
      const Value& left = graph.at(op.inputs[0]);
      const bool adjoint = std::get<core::BatchMatmulOptions>(op.options).adj_x;
      return left.rank() < 2 ? 0 : elements(result) * extent(left.shape, left.shape.size() - (adjoint ? 2 : 1));
    }
    default:
      return 0;
  }
}

double work(const Graph& graph, const Op& op) {
  double moved = 0;
  for (const ValueId in : op.inputs)
    if (in != core::kAbsent) moved += bytes(graph.at(in));
  for (const ValueId out : op.outputs) moved += bytes(graph.at(out));
  const double multiplied = op.outputs.empty() ? 0 : products(graph, op);
  return moved * static_cast<double>(kCosts.per_byte) + multiplied * static_cast<double>(kCosts.per_product);
}

std::string text(const BuiltinTarget::Range& range) {
  return range.least == range.most ? fmt::format("{}", range.least) : fmt::format("{} to {}", range.least, range.most);
}

// Why a value does not meet the rule; empty: it does.
std::string misfit(const Rule& rule, Graph& graph, const Op& op, ValueId id) {
  const Value& value = graph.at(id);
  if (rule.rank && !rule.rank->has(value.rank()))
    return fmt::format("has {} axes; taken: {}", value.rank(), text(*rule.rank));
  if (!rule.dtypes.empty() && std::find(rule.dtypes.begin(), rule.dtypes.end(), value.dtype) == rule.dtypes.end()) {
    std::vector<std::string> names;
    for (const stream::DType dtype : rule.dtypes) names.emplace_back(stream::dtype_name(dtype));
    return fmt::format("is {}; taken: {}", stream::dtype_name(value.dtype), fmt::join(names, ", "));
  }
  if (rule.constant && *rule.constant != value.is_constant())
    return value.is_constant() ? "is a constant" : "is not a constant";
  if (rule.fixed && std::any_of(value.shape.begin(), value.shape.end(), core::is_symbol))
    return "has an extent that only the run knows";
  if (!rule.extents.empty()) {
    bool fits = rule.extents.size() == value.shape.size();
    for (size_t i = 0; fits && i < value.shape.size(); ++i)
      fits = !core::is_symbol(value.shape[i]) && rule.extents[i].has(value.shape[i]);
    if (!fits) {
      std::vector<std::string> texts;
      for (const core::Dim dim : value.shape) texts.push_back(graph.symbols.to_string(dim));
      return fmt::format("has the extents [{}]", fmt::join(texts, ","));
    }
  }
  if (rule.elements && value.is_constant()) {
    const auto numbers = graph.ints(id);
    if (!numbers) return "is not known";
    for (const int64_t number : *numbers)
      if (!rule.elements->has(number)) return fmt::format("has {}; taken: {}", number, text(*rule.elements));
  }
  if (rule.like_output && value.shape != graph.at(op.outputs[0]).shape && elements(value) != 1)
    return "has not the result's shape";
  return {};
}

std::string misfit(const Rule& rule, Graph& graph, const Op& op) {
  if (rule.result_rank && !rule.result_rank->has(graph.at(op.outputs[0]).rank())) return {};
  if (rule.version && !rule.version->has(emit::op_version(graph, op)))
    return fmt::format("it has version {}; taken: {}", emit::op_version(graph, op), text(*rule.version));
  if (rule.computed_inputs) {
    int64_t count = 0;
    for (const ValueId in : op.inputs) count += in != core::kAbsent && !graph.at(in).is_constant();
    if (!rule.computed_inputs->has(count))
      return fmt::format("it has {} inputs that are no constants; taken: {}", count, text(*rule.computed_inputs));
  }
  if (rule.different_inputs && std::set(op.inputs.begin(), op.inputs.end()).size() != op.inputs.size())
    return "two of its inputs are the same";
  if (!rule.operands) return {};
  const std::vector<ValueId>& all = rule.operands->outputs ? op.outputs : op.inputs;
  for (size_t i = 0; i < all.size(); ++i) {
    const bool is_meant =
        rule.operands->which == Which::kEach || (rule.operands->which == Which::kOne && i == rule.operands->at) ||
        (rule.operands->which == Which::kComputed && all[i] != core::kAbsent && !graph.at(all[i]).is_constant());
    if (!is_meant || all[i] == core::kAbsent) continue;
    if (const std::string why = misfit(rule, graph, op, all[i]); !why.empty())
      return fmt::format("{} {} {}", rule.operands->outputs ? "output" : "input", i, why);
  }
  return {};
}

}  // namespace

core::TargetCoverage coverage(const BuiltinTarget& target, core::Model& model) {
  static const Rule kUnlisted{}, kInBody{};
  core::TargetCoverage out;
  out.target = target.name;
  std::map<std::pair<Kind, const Rule*>, core::OutsideOperators> found;
  double all = 0, outside = 0;
  for (size_t i = 0; i < model.graphs.size(); ++i) {
    const auto& graph = model.graphs[i];
    const bool has_signature = i == 0 || model.signatures.contains(i);
    for (const Op& op : graph->ops) {
      ++out.operators;
      const double its_work = work(*graph, op);
      all += its_work;
      const Rule* broken = nullptr;
      std::string why;
      const auto listed = target.operators.find(op.kind);
      if (!has_signature) {
        broken = &kInBody;
        why = "it is in a branch or in the body of a loop";
      } else if (listed == target.operators.end()) {
        broken = &kUnlisted;
        why = "the target does not take it";
      } else {
        for (const std::vector<Rule>* rules : {&listed->second, &target.every})
          for (const Rule& rule : *rules)
            if (broken == nullptr && !(why = misfit(rule, *graph, op)).empty()) broken = &rule;
      }
      if (broken == nullptr) {
        ++out.inside;
        continue;
      }
      outside += its_work;
      core::OutsideOperators& row = found[{op.kind, broken}];
      if (row.count++ == 0) {
        row.op = kind_name(op.kind);
        row.node = graph->origins[op.origin];
        row.reason = broken->says.empty() ? why : fmt::format("{} (\"{}\")", why, broken->says);
        row.source = broken->source;
      }
      row.share += its_work;
    }
  }
  for (auto& [ignored, row] : found) {
    row.share = all > 0 ? row.share / all : 0;
    out.outside.push_back(std::move(row));
  }
  std::stable_sort(out.outside.begin(), out.outside.end(), [](const auto& a, const auto& b) {
    return std::pair(-a.share, a.op + a.reason) < std::pair(-b.share, b.op + b.reason);
  });
  out.share = all > 0 ? 1 - outside / all : 1;
  return out;
}

}  // namespace lowtide::tools
