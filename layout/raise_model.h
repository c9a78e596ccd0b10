// SPDX-License-Identifier: Apache-2.0
// From a TFLite model to an ONNX model: the way back. raise_model.cc is the list of passes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "layout/raise/import_options.h"
#include "stream/error.h"
#include "stream/file/budget.h"
#include "stream/onnx/model.h"
#include "stream/tflite/model.h"

namespace lowtide::layout {

// The opsets that can be asked for.
inline constexpr int64_t kLeastRaisedOpset = 17, kMostRaisedOpset = 26;

struct RaiseOptions {
  std::optional<int64_t> opset;  // nullopt: the lowest that has the operators, mostly 17
  // --layout: input or output name -> "nhwc" (TFLite's order) or "nchw"
  std::map<std::string, std::string> layouts;
  ImportOptions file;  // --custom-ops, --signature, --shape
};

struct RaiseResult {
  onnx::Model model;                         // complete only when nothing was refused
  std::vector<stream::Unsupported> refused;  // every operator that has no form in ONNX
  std::vector<std::string> notes;            // what the user should know of a model that was converted
  uint64_t transposes = 0;                   // Transpose nodes of the result
  uint64_t operators = 0;                    // TFLite operators of the model, over all subgraphs
};

// Throws Error for a malformed model or options that do not fit it. Memory grows with the number of operators only.
RaiseResult raise_model(const tfl::Model& model, const RaiseOptions& options, stream::Budget& budget);

}  // namespace lowtide::layout
