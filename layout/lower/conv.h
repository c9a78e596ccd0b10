// SPDX-License-Identifier: Apache-2.0
// ONNX's convolution, for all lowerings that contain one.
#pragma once

#include "layout/lower/lowering.h"

namespace lowtide::layout {

// x [N, C, spatial...] with weights [M, C / group, kernel...] and a bias [M] that may be absent; reads the node's
// group, kernel_shape, strides, dilations, pads and auto_pad. Gives [N, M, spatial...].
Val convolution(Lowering& lo, Val x, Val weights, Val bias);

}  // namespace lowtide::layout
