// SPDX-License-Identifier: Apache-2.0
// Merges chains of RESHAPE, through a CONCATENATION between them too; removes a RESHAPE to the same shape.
#include <algorithm>
#include <array>

#include "layout/core/reshape_groups.h"
#include "layout/fuse/rules.h"

namespace lowtide::layout {
namespace {

// A RESHAPE does not depend on the shape of its input.
bool skip_inner_reshape(Rewriter& rewriter, OpId id) {
  const ValueId in = rewriter.op(id).inputs[0];
  const OpId producer = rewriter.producer(in);
  if (producer < 0) return false;
  const Kind kind = rewriter.op(producer).kind;
  if (kind != Kind::kReshape && kind != Kind::kSqueeze && kind != Kind::kExpandDims) return false;
  rewriter.set_input(id, 0, rewriter.op(producer).inputs[0]);
  return true;
}

bool drop_idle_reshape(Rewriter& rewriter, OpId id) {
  const Op& op = rewriter.op(id);
  const core::Value &in = rewriter.value(op.inputs[0]), &out = rewriter.value(op.outputs[0]);
  if (in.shape != out.shape || in.is_constant()) return false;
  rewriter.replace(op.outputs[0], op.inputs[0], Rewriter::kNoOrigin);
  return true;
}

constexpr int kMostJoinedAxes = 4;  // that a CONCATENATION may get: of inputs that GPU delegates take

// The axis of the RESHAPE's result that is the axis `joined` of its input; -1 when that is merged or split.
int axis_across(Rewriter& rewriter, const core::Shape& in, const core::Shape& out, int joined) {
  for (const core::ReshapeGroup& group : core::reshape_groups(rewriter.graph.symbols, in, out))
    if (group.in == std::vector<int>{joined}) {
      const bool is_kept =
          group.out.size() == 1 && out[static_cast<size_t>(group.out[0])] == in[static_cast<size_t>(joined)];
      return is_kept ? group.out[0] : -1;
    }
  return -1;
}

// A shape that a RESHAPE has as a constant.
bool is_plain_shape(const core::Shape& shape) {
  return std::count_if(shape.begin(), shape.end(), core::is_symbol) <= 1 &&
         std::find(shape.begin(), shape.end(), 0) == shape.end();
}

// RESHAPE(CONCATENATION(RESHAPE(a), RESHAPE(b))): the parts get the last shape at once.
bool reshape_parts(Rewriter& rewriter, OpId id) {
  const ValueId whole = rewriter.op(id).inputs[0], result = rewriter.op(id).outputs[0];
  const OpId joining = rewriter.sole_producer(whole, Kind::kConcatenation);
  if (joining < 0 || core::fused_activation(rewriter.op(joining)) != core::Activation::kNone) return false;
  const core::Shape in = rewriter.value(whole).shape, out = rewriter.value(result).shape;
  if (!is_plain_shape(in) || !is_plain_shape(out) || out.size() > std::max<size_t>(in.size(), kMostJoinedAxes))
    return false;
  const auto at = static_cast<size_t>(std::get<core::ConcatOptions>(rewriter.op(joining).options).axis);
  const int axis = axis_across(rewriter, in, out, static_cast<int>(at));
  if (axis < 0) return false;
  const std::vector<ValueId> parts = rewriter.op(joining).inputs;
  const bool are_reshaped = std::all_of(parts.begin(), parts.end(), [&](ValueId part) {
    const core::Value& value = rewriter.value(part);
    return !value.quantization && is_plain_shape(value.shape) &&
           (value.is_constant() || rewriter.sole_producer(part, Kind::kReshape) >= 0);
  });
  if (!are_reshaped) return false;
  rewriter.b.origin = rewriter.op(joining).origin;
  std::vector<Val> reshaped;
  for (ValueId part : parts) {
    core::Shape shape = out;
    shape[static_cast<size_t>(axis)] = rewriter.value(part).shape[at];
    reshaped.push_back(rewriter.b.reshape({part}, shape));
  }
  const Val joined = rewriter.b.concat(reshaped, axis);
  rewriter.note_new_ops();
  rewriter.graph.at(joined.id).shape = out;
  rewriter.replace(result, joined.id);
  return true;
}

constexpr std::array kReshapeRules = {FuseRule{Kind::kReshape, skip_inner_reshape},
                                      FuseRule{Kind::kReshape, drop_idle_reshape},
                                      FuseRule{Kind::kReshape, reshape_parts}};

}  // namespace

std::span<const FuseRule> reshape_rules() { return kReshapeRules; }

}  // namespace lowtide::layout
