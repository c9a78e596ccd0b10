// SPDX-License-Identifier: Apache-2.0
// What stands as CUSTOM in a core graph on its way to ONNX: each is derived from RaisedOperator, which names the
// function that writes it.
#pragma once

#include <cstdint>

#include "layout/core/custom_operator.h"

namespace lowtide::layout {

class Raising;

struct RaisedOperator : core::CustomOperator {
  void (*raise)(Raising&) = nullptr;
  int64_t least_opset = 0;  // the first that has its nodes
};

}  // namespace lowtide::layout
