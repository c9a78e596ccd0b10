// SPDX-License-Identifier: Apache-2.0
// ONNX models from their text form, as far as the golden cases need it:
//
//     <opset_import: ["": 13, "com.microsoft": 1]>
//     g (float[1,3,N,9] x) => (float[1,4,4,3] y) <float[4,3,3,2] w = random, int64[2] s = {3,-1}> {
//       y = Conv<strides=[2,3]>(x, w)
//     }
//
// It is the form of onnx.parser, except that an initializer may be `random` (fixed by its name) or `raw "00ff"` (its
// bytes). Types without brackets are scalars, with empty ones of unknown rank. Functions and sparse tensors have no
// form.
#pragma once

#include <string_view>

#include "schemas/onnx.pb.h"

namespace lowtide::golden {

// Throws std::runtime_error with the line of a mistake.
::onnx::ModelProto parse_onnx(std::string_view text);

}  // namespace lowtide::golden
