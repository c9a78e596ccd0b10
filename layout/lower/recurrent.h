// SPDX-License-Identifier: Apache-2.0
// Shared by LSTM, GRU and RNN: directions, time steps, states, sequence lengths, activations.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "layout/lower/lowering.h"

namespace lowtide::layout {

// Where the ops of a step are added: to the graph, or to the body of a loop.
struct Place {
  Builder& b;
  std::function<Val(Val)> here;  // a value of the graph, as seen there
};

// An activation function of the recurrent operators: its name in lower case, and its constants.
struct Nonlinearity {
  std::string name;
  double alpha = 0, beta = 0;
};
Val apply(Builder& b, const Nonlinearity& function, Val x);

// One direction of a layer, with its parts of the operator's inputs and attributes.
struct Direction {
  size_t index = 0;
  bool reverse = false;
  int64_t hidden = 0;
  Val w, r;    // [gates * hidden, inputs], [gates * hidden, hidden]: the layout of FULLY_CONNECTED
  Val wb, rb;  // [gates * hidden] each, or absent
  std::vector<Nonlinearity> functions;
  double clip = 0;  // of the activations' inputs; 0: none
};
Val clipped(Builder& b, const Direction& direction, Val x);
// h * rows of R; absent when h is (the initial zeros).
Val recurrence(Builder& b, Val h, Val r, Val bias);
// a + b where either may be absent.
Val sum_of(Builder& b, Val a, Val b_or_absent);
// Rows [begin, begin + count) of a list or a matrix.
Val rows(Builder& b, Val v, int64_t begin, int64_t count);

// A change of data before a product; empty: none.
using Round = std::function<Val(Builder&, Val)>;

// Returns the state after a step, h [batch, hidden] first. `x` is the step's input times W plus the cell's bias,
// [batch, gates * hidden]; a state that is still the initial zeros may be absent.
using StepFunction = std::function<std::vector<Val>(Place& place, Val x, const std::vector<Val>& state)>;
struct Cell {
  Val bias;  // [gates * hidden] or absent
  StepFunction step;
};

// An operator of the family.
struct RecurrentForm {
  int gates;
  std::vector<std::string> functions;  // the default activations of one direction
  std::vector<size_t> initial_states;  // inputs: initial_h, initial_c
  std::function<Cell(Lowering&, const Direction&)> cell;
  // W (input 1) or R (input 2) of a direction as floats [gates * hidden, inputs], where the inputs have the axes
  // [directions, inputs, gates * hidden]; empty for ONNX's own [directions, gates * hidden, inputs].
  std::function<Val(Lowering&, size_t input, size_t direction)> weights = nullptr;
  Round round = nullptr;  // what becomes of the data before each product with W; the cell's with R are its own affair
};
void lower_recurrent(Lowering& lo, const RecurrentForm& form);

}  // namespace lowtide::layout
