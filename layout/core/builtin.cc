// SPDX-License-Identifier: Apache-2.0
#include "layout/core/builtin.h"

#include <fmt/format.h>

#include <algorithm>

#include "stream/error.h"
#include "stream/recipe/recipe_step.h"

namespace lowtide::core {
namespace {

constexpr size_t kKinds = 256;  // all codes are below

struct Rows {
  std::vector<const Builtin*> all;
  std::array<const Builtin*, kKinds> by_kind{};

  Rows() {
    for (std::span<const Builtin> family :
         {elementwise_builtins(), reduce_builtins(), shape_builtins(), concat_builtins(), slice_builtins(),
          pad_builtins(), gather_builtins(), fill_builtins(), conv_builtins(), matmul_builtins(), control_builtins(),
          custom_builtins(), stateful_builtins()})
      for (const Builtin& row : family) {
        const Builtin*& place = by_kind[static_cast<size_t>(*row.kind)];
        if (place) throw stream::Error(stream::Code::kInternal, fmt::format("two rows for {}", kind_name(row.kind)));
        place = &row;
        all.push_back(&row);
      }
  }
};

const Rows& rows() {
  static const Rows made;
  return made;
}

}  // namespace

const Builtin& builtin(Kind kind) {
  const auto code = static_cast<size_t>(kind);
  if (code >= kKinds || !rows().by_kind[code])
    throw stream::Error(stream::Code::kInternal, fmt::format("no row for {}", kind_name(kind)));
  return *rows().by_kind[code];
}

std::vector<TensorType> inferred(const OpView& op) {
  std::vector<TensorType> types = (*builtin(op.kind).infer)(op);
  for (TensorType& type : types) {
    const auto is_held = [&](Dim dim) { return is_symbol(dim) || stream::recipe::fits(dim, type.dtype); };
    if (type.contents && (type.contents->size() > kContentsElements ||
                          !std::all_of(type.contents->begin(), type.contents->end(), is_held)))
      type.contents.reset();
  }
  return types;
}

std::span<const Builtin* const> all_builtins() { return rows().all; }

bool Builtin::is_elementwise() const { return *commute == follow_elementwise; }

Activation fused_activation(const Op& op) {
  const ActivationField* activation = builtin(op.kind).activation;
  return activation ? activation->get(op.options) : Activation::kNone;
}

void fuse_activation(Op& op, Activation activation) { (*builtin(op.kind).activation)->set(op.options, activation); }

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

std::optional<Movement> follow_but_last(const OpView& op, std::span<const ValueId> outputs, Slot slot,
                                        const Perm& perm) {
  if (perm.empty() || perm.back() != static_cast<int>(perm.size()) - 1) return std::nullopt;
  return follow_first(op, outputs, slot.output ? Slot{} : slot, perm);
}

std::optional<Movement> follow_all(const OpView& op, std::span<const ValueId> outputs, Slot, const Perm& perm) {
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (op.rank(i) != static_cast<int>(perm.size())) return std::nullopt;
  Movement movement;
  movement.inputs.assign(op.inputs.size(), perm);
  movement.outputs.assign(outputs.size(), perm);
  return movement;
}

}  // namespace lowtide::core
