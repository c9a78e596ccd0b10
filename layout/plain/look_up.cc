// SPDX-License-Identifier: Apache-2.0
// GATHERs of all places of an axis, one each, are an UNPACK, as unrolled loops write them, unless the data may be
// empty, or has 64 bits, which UNPACK would narrow; GATHER of consecutive constant places is a SLICE; any other GATHER
// gets its indices as a list:
//
//     GATHER [V,D] by [B,S]      RESHAPE ids [B*S], GATHER [B*S,D], RESHAPE [B,S,D]
//
// Where the RESHAPE would have to compute dimensions at run time, GATHER stays.
#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "layout/core/builtin.h"
#include "layout/plain/parts.h"
#include "layout/plain/rules.h"

namespace lowtide::layout {
namespace {

using core::Dim;
using core::Shape;

struct LookUp {
  Val data, indices;
  int axis;
};

// No batch axes, no scales per axis: they would have to move with the axis.
std::optional<LookUp> plain_gather(Rewriter& rewriter, const Op& op) {
  const auto& options = std::get<core::GatherOptions>(op.options);
  const core::Value& data = rewriter.value(op.inputs[0]);
  if (options.batch_dims != 0 || (data.quantization && data.quantization->scale.size() > 1)) return std::nullopt;
  const int axis = options.axis < 0 ? options.axis + data.rank() : options.axis;
  return LookUp{{op.inputs[0]}, {op.inputs[1]}, axis};
}

// Results between two ops that share the scale of the data.
Val with_scale_of(Rewriter& rewriter, Val made, Val data) {
  if (!rewriter.value(made.id).is_constant())
    rewriter.graph.at(made.id).quantization = rewriter.value(data.id).quantization;
  return made;
}

// The place that the op picks of an axis, which its result does not have.
std::optional<int64_t> picked_place(Rewriter& rewriter, const Op& op, ValueId data, int axis) {
  if (op.kind != Kind::kGather || op.inputs[0] != data || op.inputs[1] == data) return std::nullopt;
  const auto look_up = plain_gather(rewriter, op);
  const auto place = rewriter.graph.ints(op.inputs[1]);
  if (!look_up || look_up->axis != axis || !place || rewriter.value(op.inputs[1]).rank() != 0) return std::nullopt;
  return place->front();
}

bool unpack_instead(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  const ValueId data = op.inputs[0];
  const auto look_up = plain_gather(rewriter, op);
  if (!look_up || !picked_place(rewriter, op, data, look_up->axis) || rewriter.value(data).is_constant() ||
      rewriter.value(data).quantization || !rewriter.b.moves_exactly(Kind::kUnpack, {data}))
    return false;
  const Dim extent = rewriter.value(data).shape[static_cast<size_t>(look_up->axis)];
  if (core::is_symbol(extent) || extent < 2) return false;
  std::vector<std::pair<ValueId, int64_t>> picks;
  for (OpId user : rewriter.users(data))
    if (const auto place = picked_place(rewriter, rewriter.op(user), data, look_up->axis))
      picks.emplace_back(rewriter.op(user).outputs[0], *place);
  std::set<int64_t> places;
  std::vector<ValueId> first;
  std::set<ValueId> others;
  for (const auto& [result, place] : picks) {
    if (place < 0 || place >= extent) continue;
    places.insert(place);
    if (place == 0)
      first.push_back(result);
    else
      others.insert(result);
  }
  if (places.size() != static_cast<size_t>(extent) || are_parts_misread(rewriter, first, others) ||
      rewriter.b.may_have_no_element({data}))
    return false;
  rewriter.b.origin = op.origin;
  const std::vector<Val> parts = rewriter.b.unpack({data}, look_up->axis);
  for (const auto& [result, place] : picks)
    if (place >= 0 && place < extent) replace_result(rewriter, result, parts[static_cast<size_t>(place)]);
  return true;
}

bool slice_instead(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  auto look_up = plain_gather(rewriter, op);
  auto places = rewriter.graph.ints(op.inputs[1]);
  if (!look_up || !places || places->empty() || rewriter.value(op.inputs[0]).is_constant()) return false;
  const auto is_not_next = [](int64_t place, int64_t next) { return next <= place || next - 1 != place; };
  if (std::adjacent_find(places->begin(), places->end(), is_not_next) != places->end()) return false;
  const Shape shape = rewriter.value(op.outputs[0]).shape;
  if (!can_reshape_to(shape)) return false;
  std::vector<int64_t> begin(rewriter.value(op.inputs[0]).shape.size(), 0);
  std::vector<Dim> size(begin.size(), -1);
  begin[static_cast<size_t>(look_up->axis)] = places->front();
  size[static_cast<size_t>(look_up->axis)] = static_cast<Dim>(places->size());
  rewriter.b.origin = op.origin;
  Val made = with_scale_of(rewriter, rewriter.b.slice(look_up->data, begin, size), look_up->data);
  if (made == look_up->data && rewriter.value(made.id).shape == shape) return false;  // an output may be an input then
  replace_result(rewriter, op.outputs[0], rewriter.b.reshape(made, shape));
  return true;
}

// GATHER of one row of a constant, again and again, to which users broadcast it: the row.
bool one_row(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  const ValueId out = op.outputs[0];
  const auto look_up = plain_gather(rewriter, op);
  const core::Value& data = rewriter.value(op.inputs[0]);
  const auto places = rewriter.graph.ints(op.inputs[1]);
  if (!look_up || !data.is_constant() || data.quantization || !places || places->size() < 2 ||
      std::set(places->begin(), places->end()).size() != 1)
    return false;
  const std::vector<OpId> users = rewriter.users(out);
  if (users.empty() || rewriter.uses(out) != static_cast<int>(users.size())) return false;  // an output
  for (const OpId user : users) {
    const Op& its = rewriter.op(user);
    if (!core::builtin(its.kind).broadcasts || std::none_of(its.inputs.begin(), its.inputs.end(), [&](ValueId in) {
          return in != out && in != core::kAbsent && rewriter.value(in).shape == rewriter.value(its.outputs[0]).shape;
        }))
      return false;
  }
  Shape shape = rewriter.value(out).shape;
  const auto first = shape.begin() + look_up->axis;
  std::fill(first, first + rewriter.value(op.inputs[1]).rank(), 1);
  const Val row = rewriter.b.constant(
      stream::recipe::reshape(stream::recipe::gather(data.constant, look_up->axis, {places->front()}), shape));
  rewriter.note_new_ops();
  for (const OpId user : users)
    for (size_t slot = 0; slot < rewriter.op(user).inputs.size(); ++slot)
      if (rewriter.op(user).inputs[slot] == out) rewriter.set_input(user, slot, row.id);
  return true;
}

bool list_the_indices(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  auto look_up = plain_gather(rewriter, op);
  if (!look_up || rewriter.value(op.inputs[1]).rank() == 1) return false;
  const Shape shape = rewriter.value(op.outputs[0]).shape;
  if (!can_reshape_to(shape)) return false;
  rewriter.b.origin = op.origin;
  const Dim count[] = {rewriter.graph.symbols.product(rewriter.value(op.inputs[1]).shape)};
  const Val list = rewriter.b.reshape(look_up->indices, count);
  const Val rows = with_scale_of(rewriter, rewriter.b.gather(look_up->data, list, look_up->axis), look_up->data);
  replace_result(rewriter, op.outputs[0], rewriter.b.reshape(rows, shape));
  return true;
}

constexpr std::array kLookUpRules = {PlainRule{Kind::kGather, one_row}, PlainRule{Kind::kGather, unpack_instead},
                                     PlainRule{Kind::kGather, slice_instead},
                                     PlainRule{Kind::kGather, list_the_indices}};

}  // namespace

std::span<const PlainRule> look_up_rules() { return kLookUpRules; }

}  // namespace lowtide::layout
