// SPDX-License-Identifier: Apache-2.0
// LSTM, RNN, SVDF and their sequences as one call of a function of the ONNX model. What ONNX has no operator for is one
// node so, which runtimes run by the function's body, and which can become the builtin again:
//
//     y, h_out, c_out = lowtide.tflite.UNIDIRECTIONAL_SEQUENCE_LSTM <cell_clip = 10, ...> (x, weights, ..., h, c)
//
// The body follows from the call: from its attributes, and from the types of its inputs. So whoever meets a call makes
// the body again, and takes the call for the builtin only where the model's function is the same one
// (layout/stateful_calls.h).
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "layout/core/graph.h"
#include "layout/raise/stateful.h"
#include "stream/file/budget.h"
#include "stream/onnx/model.h"

namespace lowtide::layout {

inline constexpr const char* kStatefulDomain = "lowtide.tflite";

struct StatefulCall {
  struct Operand {
    core::DType dtype = core::DType::kUndefined;
    core::Shape shape;
    std::optional<core::Quantization> quantization;
  };
  StatefulOperator op;               // its name is the builtin's
  std::map<size_t, Operand> inputs;  // those that are there, by place; of the data's shape, input 0's, the last extent
                                     // is known, and the rank
  std::optional<core::Quantization> result;  // which is of the data's type
};

// Whether a builtin with these operands is written as a call: floats, or the integers that LSTM's kernel takes. Hybrids
// are not, because LiteRT's kernels round their data. Throws Error(kMalformed), Unsupported where shapes do not fit.
bool has_function(const StatefulCall& call, stream::Budget& budget);

// Its name is the builtin's.
onnx::Function stateful_function(const StatefulCall& call, int64_t opset, stream::Budget& budget);
std::vector<onnx::Attribute> attributes_of_call(const StatefulCall& call);

// Of two functions, whatever their names are.
bool is_same_body(const onnx::Function& a, const onnx::Function& b, stream::Budget& budget);
bool is_same_attribute(const onnx::Attribute& a, const onnx::Attribute& b, stream::Budget& budget);

}  // namespace lowtide::layout
