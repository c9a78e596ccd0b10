// SPDX-License-Identifier: Apache-2.0
// LSTM, RNN, SVDF and their sequences, whose kernels keep a state between runs: variable tensors, which belong to one
// op. They are no values of the graph: the op's inputs at their places are absent, and the writer adds the tensors.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "layout/core/graph.h"

namespace lowtide::core {

struct StatefulBuiltin {
  int activation = 0;  // the schema's ActivationFunctionType, which has more than core::Activation
  float cell_clip = 0, proj_clip = 0;
  bool time_major = false;
  int rank = 0;  // of SVDF

  struct Tensor {
    std::string name;
    DType dtype = DType::kUndefined;
    Shape shape;
    Boxed<Quantization> quantization;
  };
  std::map<size_t, Tensor> states;    // by their places among the inputs
  std::vector<Tensor> intermediates;  // of the integer kernels: scales of what they compute on the way
};

// What all ops of such a builtin have.
struct StatefulForm {
  Kind kind;
  size_t inputs;               // the last of them may be left out
  size_t first_state, states;  // their places among the inputs
  bool is_sequence;            // the data has an axis of time
  bool is_state(size_t place) const { return place >= first_state && place < first_state + states; }
};
// Of nodes that become such an op, which are in no file.
inline constexpr const char* kStatesDomain = "lowtide.states";
// Null where the builtin is none of these.
const StatefulForm* stateful_form(std::string_view builtin);

// The intermediates of the integer LSTM, of which the last has the scale of the state.
std::vector<StatefulBuiltin::Tensor> lstm_intermediates(const Quantization& hidden);

}  // namespace lowtide::core
