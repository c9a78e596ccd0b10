// SPDX-License-Identifier: Apache-2.0
// Fuses RELU, RELU6 and RELU_N1_TO_1 into the ops before them: most floating-point kernels have a fused activation.
#include <array>

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

// The activation option of ops whose kernel supports it. The tables of CONCATENATION and CONV_3D_TRANSPOSE have the
// field, but their kernels refuse it.
Activation* slot(Op& op) {
  switch (op.kind) {
    case Kind::kConv2d:
    case Kind::kDepthwiseConv2d:
      return &std::get<core::Conv2dOptions>(op.options).activation;
    case Kind::kTransposeConv:
      return &std::get<core::TransposeConvOptions>(op.options).activation;
    case Kind::kConv3d:
      return &std::get<core::Conv3dOptions>(op.options).activation;
    case Kind::kFullyConnected:
      return &std::get<core::FullyConnectedOptions>(op.options).activation;
    case Kind::kAveragePool2d:
    case Kind::kMaxPool2d:
      return &std::get<core::PoolOptions>(op.options).activation;
    case Kind::kAdd:
    case Kind::kSub:
    case Kind::kMul:
    case Kind::kDiv:
      return &std::get<core::BinaryOptions>(op.options).activation;
    default:
      return nullptr;
  }
}

bool fuse_activation(Rewriter& rewriter, OpId id) {
  const Op& op = rewriter.op(id);
  const ValueId in = op.inputs[0];
  const OpId producer = rewriter.producer(in);
  if (producer < 0 || rewriter.uses(in) != 1 || rewriter.value(in).dtype != core::DType::kFloat32) return false;
  Activation* target = slot(rewriter.op(producer));
  if (!target) return false;
  const Activation wanted = activation_of(op.kind);
  // relu6(relu(x)) and relu(relu6(x)) are relu6(x).
  if (*target == Activation::kNone || *target == wanted ||
      (*target == Activation::kRelu && wanted == Activation::kRelu6)) {
    *target = wanted;
  } else if (!(*target == Activation::kRelu6 && wanted == Activation::kRelu)) {
    return false;
  }
  // The activation's output value remains, with its name.
  const ValueId out = op.outputs[0];
  std::string name = rewriter.value(out).name;
  rewriter.replace(out, in);
  if (!name.empty()) rewriter.graph.at(in).name = std::move(name);
  return true;
}

constexpr std::array kActivationRules = {FuseRule{Kind::kRelu, fuse_activation},
                                         FuseRule{Kind::kRelu6, fuse_activation},
                                         FuseRule{Kind::kReluN1To1, fuse_activation}};

}  // namespace

std::span<const FuseRule> activation_rules() { return kActivationRules; }

}  // namespace lowtide::layout
