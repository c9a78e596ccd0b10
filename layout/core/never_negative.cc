// SPDX-License-Identifier: Apache-2.0
#include "layout/core/never_negative.h"

#include "layout/core/builtin.h"

namespace lowtide::core {
namespace {

// The activation of an image op in ONNX's axis order is in the options of the builtin that it stands for.
Activation activation_of_image(const ChannelsFirstOptions& image) {
  return std::visit(
      [](const auto& own) {
        if constexpr (requires { own.activation; })
          return own.activation;
        else
          return Activation::kNone;
      },
      image.options);
}

}  // namespace

bool is_never_negative(const Graph& graph, ValueId id) {
  for (;;) {
    const OpId producer = graph.at(id).producer;
    if (producer < 0) return false;
    const Op& op = graph.op(producer);
    const auto* image = std::get_if<ChannelsFirstOptions>(&op.options);
    const Activation fused = image ? activation_of_image(*image) : fused_activation(op);
    if (fused == Activation::kRelu || fused == Activation::kRelu6) return true;
    switch (image ? static_cast<Kind>(image->code) : op.kind) {
      case Kind::kRelu:
      case Kind::kRelu6:
      case Kind::kRelu0To1:
      case Kind::kLogistic:
      case Kind::kSoftmax:
        return true;
      case Kind::kTranspose:
      case Kind::kReshape:
      case Kind::kMaxPool2d:
      case Kind::kAveragePool2d:
        id = op.inputs[0];
        break;
      default:
        return false;
    }
  }
}

}  // namespace lowtide::core
