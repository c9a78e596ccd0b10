// SPDX-License-Identifier: Apache-2.0
// Merges chains of RESHAPE; removes a RESHAPE to the same shape.
#include <array>

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

constexpr std::array kReshapeRules = {FuseRule{Kind::kReshape, skip_inner_reshape},
                                      FuseRule{Kind::kReshape, drop_idle_reshape}};

}  // namespace

std::span<const FuseRule> reshape_rules() { return kReshapeRules; }

}  // namespace lowtide::layout
