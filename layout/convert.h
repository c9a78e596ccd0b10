// SPDX-License-Identifier: Apache-2.0
// READ FIRST: from an ONNX model to a core model that is ready to be written. convert.cc is the list of passes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layout/core/graph.h"
#include "layout/core/integer_report.h"
#include "layout/core/narrowed_node.h"
#include "layout/lower/custom_operators.h"
#include "layout/quantize/calibrated.h"
#include "layout/weights/shrink_weights.h"
#include "stream/error.h"
#include "stream/onnx/model.h"

namespace lowtide::layout {

struct ConvertOptions {
  std::map<std::string, core::Shape> shapes;   // --shape: input name -> static shape
  std::map<std::string, std::string> layouts;  // --layout: input or output name -> "nchw" (ONNX's order) or "nhwc"
  std::string signature;                       // name of the main graph's signature; empty: the default
  WeightOptions weights;                       // --weights
  std::optional<core::DType> border;           // --io: i8, u8 or f32 inputs and outputs of a quantized model
  bool require_integer = false;                // --require-integer: refuse every op that is computed in floats
  bool tables = false;                         // --tables: functions without an integer kernel become tables
  std::optional<Calibrated> calibrated;        // --quantize, --ranges; checked against the model
  bool for_gpu = false;                        // --for gpu: forms that GPU delegates take, at a processor's cost
  bool strict_types = false;                   // --strict-types: refuse every node that is computed in fewer bits
  // Calls of the functions that the way back writes for operators with states become these operators again, which keep
  // their states themselves (stateful_calls.h).
  bool keep_states = false;
  CustomChoice custom;                                                        // --custom-ops, --custom-ops-map
  std::function<void(std::string_view pass, const core::Model&)> after_pass;  // called after each pass; may be empty
};

struct ConvertResult {
  std::unique_ptr<core::Model> model;        // complete only when nothing was refused
  std::vector<stream::Unsupported> refused;  // every node that cannot be converted
  bool refused_floats = false;               // by --require-integer: they are operators that are computed in floats
  std::vector<stream::Where> not_judged;     // nodes behind those that could not be judged: their names and operators
  std::vector<std::string> notes;            // operators and attributes that are newer than the model's opset
  core::ShrunkWeights weights;
  core::IntegerReport integers;              // of a quantized model
  std::vector<core::NarrowedNode> narrowed;  // nodes that are computed in fewer bits than the model says
};

// Throws Error for a malformed model or options that do not fit it. Memory grows with the number of nodes only; the
// nodes of `model` are freed when no pass needs them any more.
ConvertResult convert(onnx::Model& model, const ConvertOptions& options, stream::Budget& budget);

}  // namespace lowtide::layout
