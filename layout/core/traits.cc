// SPDX-License-Identifier: Apache-2.0
#include "layout/core/traits.h"

#include <fmt/format.h>

#include <array>
#include <functional>

#include "stream/error.h"

namespace lowtide::core {
namespace {

constexpr size_t kKinds = 256;  // builtin codes lie below; kinds.inc ends at 209

std::array<const Traits*, kKinds> collect() {
  std::array<const Traits*, kKinds> rows{};
  for (std::span<const Traits> family :
       {elementwise_traits(), reduce_traits(), shape_traits(), movement_traits(), conv_traits(), matmul_traits()})
    for (const Traits& row : family) {
      const Traits*& slot = rows[static_cast<size_t>(row.kind)];
      if (slot)
        throw stream::Error(stream::Code::kInternal, fmt::format("two rows of traits for {}", kind_name(row.kind)));
      slot = &row;
    }
  return rows;
}

}  // namespace

const Traits& traits(Kind kind) {
  static const std::array<const Traits*, kKinds> rows = collect();
  auto code = static_cast<size_t>(kind);
  if (code >= kKinds || !rows[code])
    throw stream::Error(stream::Code::kInternal, fmt::format("no row of traits for {}", kind_name(kind)));
  return *rows[code];
}

int moved_axis(int axis, const Perm& perm) { return stream::inverse(perm)[static_cast<size_t>(axis)]; }

std::optional<Movement> follow_elementwise(const OpView& op, std::span<const ValueId> outputs, Slot slot,
                                           const Perm& perm) {
  const int rank = op.graph.at(outputs[0]).rank();
  const Value& moved = op.graph.at(slot.output ? outputs[slot.index] : op.inputs[slot.index]);
  if (moved.rank() != rank || static_cast<int>(perm.size()) != rank) return std::nullopt;
  Movement movement;
  for (ValueId in : op.inputs) {
    bool single = in == kAbsent || (stream::is_static(op.graph.at(in).shape) &&
                                    stream::element_count(op.graph.at(in).shape) == 1 && op.graph.at(in).rank() < rank);
    movement.inputs.push_back(single ? Perm{} : perm);
  }
  movement.outputs.assign(outputs.size(), perm);
  return movement;
}

std::optional<Movement> follow_first(const OpView& op, std::span<const ValueId> outputs, Slot slot, const Perm& perm) {
  if (slot.index != 0 || op.rank(0) != op.graph.at(outputs[0]).rank()) return std::nullopt;
  Movement movement;
  movement.inputs.resize(op.inputs.size());
  movement.inputs[0] = perm;
  movement.outputs.assign(outputs.size(), perm);
  return movement;
}

std::optional<Movement> follow_all(const OpView& op, std::span<const ValueId> outputs, Slot, const Perm& perm) {
  Movement movement;
  movement.inputs.assign(op.inputs.size(), perm);
  movement.outputs.assign(outputs.size(), perm);
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (op.rank(i) != static_cast<int>(perm.size())) return std::nullopt;
  return movement;
}

}  // namespace lowtide::core
