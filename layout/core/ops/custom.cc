// SPDX-License-Identifier: Apache-2.0
// CUSTOM: nothing is known of what it computes. The types of its results are set by who adds the op.
#include "layout/core/custom_operator.h"
#include "layout/core/ops/checks.h"
#include "layout/core/ops/rows.h"
#include "stream/error.h"
#include "stream/shape.h"

namespace lowtide::core {
namespace {

std::vector<TensorType> infer_custom(const OpView&) {
  throw stream::Error(stream::Code::kInternal, "the types of a custom operator cannot be inferred");
}

bool is_single(const Value& value) { return stream::is_static(value.shape) && stream::element_count(value.shape) == 1; }

// Where any axis order does, all data of one rank moves alike. An input of another rank could not be moved with it.
std::optional<Movement> commute_custom(const OpView& op, std::span<const ValueId> outputs, Slot slot,
                                       const Perm& perm) {
  if (!op.get<CustomOptions>().described->any_axis_order) return std::nullopt;
  const Value& moved = op.graph.at(slot.output ? outputs[slot.index] : op.inputs[slot.index]);
  const int rank = static_cast<int>(perm.size());
  if (moved.rank() != rank) return std::nullopt;
  Movement movement;
  for (const ValueId in : op.inputs) {
    const bool stays = in == kAbsent || (op.graph.at(in).rank() < rank && is_single(op.graph.at(in)));
    if (!stays && op.graph.at(in).rank() != rank) return std::nullopt;
    movement.inputs.push_back(stays ? Perm{} : perm);
  }
  for (const ValueId out : outputs)
    if (op.graph.at(out).rank() != rank) return std::nullopt;
  movement.outputs.assign(outputs.size(), perm);
  return movement;
}

constexpr std::array kCustomRows = {computing(Kind::kCustom,
                                              {infer_custom, kNotFolded, commute_custom, kNothingToRewrite, kNotMerged},
                                              Roles::all(kData), Roles::all(kData))};

}  // namespace

std::span<const Builtin> custom_builtins() { return kCustomRows; }

}  // namespace lowtide::core
