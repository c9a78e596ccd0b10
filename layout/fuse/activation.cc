// SPDX-License-Identifier: Apache-2.0
// Fuses RELU, RELU6 and RELU_N1_TO_1 into the ops before them, also through RESHAPEs: most floating-point kernels have
// a fused activation.
#include <array>

#include "layout/core/builtin.h"
#include "layout/fuse/behind_reshape.h"
#include "layout/fuse/rules.h"

namespace lowtide::layout {
namespace {

using core::Activation;

Activation activation_of(Kind kind) {
  switch (kind) {
    case Kind::kRelu:
      return Activation::kRelu;
    case Kind::kRelu6:
      return Activation::kRelu6;
    default:
      return Activation::kReluN1To1;
  }
}

bool activation_into_producer(Rewriter& rewriter, OpId id) {
  const Op& op = rewriter.op(id);
  const ValueId in = op.inputs[0], made = before_reshapes(rewriter, in);
  const OpId producer = rewriter.producer(made);
  if (producer < 0 || rewriter.uses(in) != 1 || rewriter.uses(made) != 1 ||
      rewriter.value(in).dtype != core::DType::kFloat32)
    return false;
  Op& target = rewriter.op(producer);
  if (core::builtin(target.kind).activation == core::kNoActivation) return false;
  const Activation wanted = activation_of(op.kind), fused = core::fused_activation(target);
  // relu6(relu(x)) and relu(relu6(x)) are relu6(x).
  if (fused == Activation::kNone || fused == wanted || (fused == Activation::kRelu && wanted == Activation::kRelu6)) {
    core::fuse_activation(target, wanted);
  } else if (!(fused == Activation::kRelu6 && wanted == Activation::kRelu)) {
    return false;
  }
  const ValueId out = op.outputs[0];
  std::string name = rewriter.value(out).name;
  rewriter.replace(out, in);
  name_last(rewriter, made, in, std::move(name));
  return true;
}

constexpr std::array kActivationRules = {FuseRule{Kind::kRelu, activation_into_producer},
                                         FuseRule{Kind::kRelu6, activation_into_producer},
                                         FuseRule{Kind::kReluN1To1, activation_into_producer}};

}  // namespace

std::span<const FuseRule> activation_rules() { return kActivationRules; }

}  // namespace lowtide::layout
