// SPDX-License-Identifier: Apache-2.0
// RNN: one gate, one activation: f(x * W^T + h * R^T + biases).
#include "layout/lower/recurrent.h"

namespace lowtide::layout {

void lower_rnn(Lowering& lo) {
  auto cell = [&](Lowering&, const Direction& d) {
    auto step = [d](Place& place, Val x, const std::vector<Val>& state) {
      Val z = sum_of(place.b, x, recurrence(place.b, state[0], place.here(d.r), {}));
      return std::vector<Val>{apply(place.b, d.functions[0], clipped(place.b, d, z))};
    };
    return Cell{sum_of(lo.b, d.wb, d.rb), step};
  };
  lower_recurrent(lo, {.gates = 1, .functions = {"tanh"}, .initial_states = {5}, .cell = cell});
}

}  // namespace lowtide::layout
