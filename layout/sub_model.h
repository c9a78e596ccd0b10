// SPDX-License-Identifier: Apache-2.0
// A part of an ONNX model between values: the nodes that the last values need, as far back as the first ones.
//
// The traps: the body of an If, Loop or Scan uses values of the graph around it without naming them as inputs; a node
// may make one of the first values beside another one that is needed; files of IR version 3 list initializers as
// inputs.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "stream/error.h"
#include "stream/onnx/model.h"

namespace lowtide::layout {

struct PartEnds {
  std::vector<std::string> from;                 // the inputs of the part; empty: the model's, as far as it needs them
  std::vector<std::string> to;                   // its outputs
  std::map<std::string, onnx::ValueInfo> types;  // of those of these values whose type the model does not declare
};

// The type of a value at an end of the part is not declared.
class UndeclaredEnd : public stream::Error {
 public:
  UndeclaredEnd(const std::string& text, std::string value, bool is_sequence)
      : Error(stream::Code::kUsage, text), value_(std::move(value)), is_sequence_(is_sequence) {}
  const std::string& value() const { return value_; }
  bool is_sequence() const { return is_sequence_; }

 private:
  std::string value_;
  bool is_sequence_;
};

// The nodes keep their order, and everything that is kept its place in the model's file: emit::write_onnx copies it.
// Weights are shared, not copied. Throws Error(kUsage) for names that the graph does not have, or has only in a body,
// for names given twice, and for inputs of the model that the part needs and `from` lacks; UndeclaredEnd for a type
// that is not declared; Error(kMalformed) for a value that a node needs and nothing makes.
onnx::Model sub_model(const onnx::Model& model, const PartEnds& ends);

}  // namespace lowtide::layout
