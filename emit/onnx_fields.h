// SPDX-License-Identifier: Apache-2.0
// The messages of an ONNX file from plain data (stream/onnx/model.h): one function for each message of
// schemas/onnx.proto. Field numbers are the generated ones.
//
// The traps: an attribute has its type beside its value, and a reader believes the type; a scalar has a shape without
// dimensions, and a tensor of unknown rank has no shape; numbers of 4 bits are packed, low nibble first.
#pragma once

#include <functional>

#include "emit/onnx_message.h"
#include "stream/onnx/model.h"

namespace lowtide::emit {

// Writes where the elements of an initializer are: raw_data, or external_data. They are not strings.
using PutElements = std::function<void(const onnx::Tensor&, OnnxMessage& tensor)>;

// Its elements in the file itself, as raw_data.
void put_inline(const onnx::Tensor& tensor, OnnxMessage& out);

// The whole model. What stands in model.sources[0] as it is to be written (`place` of nodes, value infos, functions) is
// copied from there, with all fields, unless a tensor in it has external data: those are put inline, because their
// location is relative to the model's folder. Throws Error(kUnsupported) for types that ONNX's plain data cannot say
// (maps, and sequences of sequences, without a place).
OnnxMessage onnx_model(const onnx::Model& model, const PutElements& put_elements);

}  // namespace lowtide::emit
