// SPDX-License-Identifier: Apache-2.0
// A node that is computed in fewer bits than the ONNX model says, for the report and for --strict-types.
#pragma once

#include <string>

#include "stream/dtype.h"

namespace lowtide::core {

struct NarrowedNode {
  std::string node, op;    // the ONNX node's name and operator
  stream::DType from, to;  // f64 and f32, or i64 and i32
};

}  // namespace lowtide::core
