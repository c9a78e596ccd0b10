// SPDX-License-Identifier: Apache-2.0
// How integers move from one scale to another.
//
// XNNPACK's QUANTIZE has a factor of 8 fraction bits: far from the zero point it is off by up to half a step, so up to
// 14 % of the elements round to another integer. MUL by the number 1 rounds the exact product once there, half to even
// as ONNX Runtime does. In a person detector of 350 operators these QUANTIZEs were all that differed from ONNX Runtime.
#pragma once

#include "layout/core/graph.h"

namespace lowtide::layout {

// QUANTIZE of 8-bit integers to another scale becomes MUL by 1, where a kernel takes it. Run last: the rules of the
// pass look for QUANTIZE.
void rescale_by_product(core::Graph& graph);

}  // namespace lowtide::layout
