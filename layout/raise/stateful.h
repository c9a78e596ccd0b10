// SPDX-License-Identifier: Apache-2.0
// Operators whose kernels keep a state between runs (LSTM, RNN, SVDF and their sequences), on their way to ONNX: a
// CUSTOM op of the core graph, which no pass looks into. Behind the results of the file it has the new states.
#pragma once

#include <optional>

#include "layout/core/graph.h"
#include "layout/raise/raised_operator.h"

namespace lowtide::layout {

struct StatefulOperator : RaisedOperator {
  int activation = 0;  // the schema's ActivationFunctionType
  float cell_clip = 0, proj_clip = 0;
  bool is_sequence = false;   // the data has an axis of time
  bool time_major = false;    // it is the first axis, not the second
  int rank = 0;               // of SVDF
  bool is_call = false;       // written as a call of a function (stateful_function.h), where it has one
  bool is_backwards = false;  // the last step of time comes first
  // Of a half of a bidirectional sequence: where further data stand among the inputs, before their weights; 0: none.
  size_t further_data = 0;
};

}  // namespace lowtide::layout
