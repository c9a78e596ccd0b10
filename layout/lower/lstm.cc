// SPDX-License-Identifier: Apache-2.0
// LSTM. ONNX's gate order is i, o, f, c; that of peepholes i, o, f. The output gate's peephole sees the new cell state,
// the others the old one. The input of the last activation h is not clipped, as in ONNX Runtime.
#include "layout/lower/recurrent.h"

namespace lowtide::layout {
namespace {

struct Peepholes {
  Val i, o, f;  // [1, hidden], or absent
};

Peepholes peepholes(Lowering& lo, const Direction& d) {
  if (!lo.has_input(7)) return {};
  if (lo.rank(lo.input(7)) != 2 || lo.b.dim(lo.input(7), 1) != 3 * d.hidden)
    lo.misfit("input 7 (the peepholes 'P') must have shape [directions, 3 * hidden_size]; it has shape " +
              stream::to_string(lo.shape(lo.input(7))));
  Val all = rows(lo.b, lo.input(7), static_cast<int64_t>(d.index), 1);  // [1, 3 * hidden]
  const std::vector<int64_t> sizes(3, d.hidden);
  std::vector<Val> parts = lo.b.split(all, sizes, 1);
  return {parts[0], parts[1], parts[2]};
}

// Both may be absent.
Val product_of(Builder& b, Val x, Val y) { return x && y ? b.mul(x, y) : Val{}; }

struct LstmCell {
  Direction d;
  Peepholes p;
  bool input_forget;

  std::vector<Val> operator()(Place& place, Val x, const std::vector<Val>& state) const {
    Builder& b = place.b;
    const Nonlinearity &f = d.functions[0], &g = d.functions[1], &h = d.functions[2];
    Val old = state[1];
    Val z = sum_of(b, x, recurrence(b, state[0], place.here(d.r), {}));
    const std::vector<Val> parts = b.split(z, std::vector<int64_t>{3 * d.hidden, d.hidden}, 1);
    auto activated = [&](Val v) { return apply(b, f, clipped(b, d, v)); };
    // Without peepholes one activation computes the three gates.
    const bool peeps = static_cast<bool>(p.i);
    const std::vector<Val> gates =
        b.split(peeps ? parts[0] : activated(parts[0]), std::vector<int64_t>(3, d.hidden), 1);
    auto gate = [&](Val v, Val peephole, Val cell) {
      return peeps ? activated(sum_of(b, v, product_of(b, place.here(peephole), cell))) : v;
    };
    Val in = gate(gates[0], p.i, old);
    Val forget;
    if (old) forget = input_forget ? b.sub(b.scalar_like(1, in), in) : gate(gates[2], p.f, old);
    Val fresh = b.mul(in, apply(b, g, clipped(b, d, parts[1])));
    Val cell = sum_of(b, fresh, product_of(b, forget, old));
    Val out = gate(gates[1], p.o, cell);
    return {b.mul(out, apply(b, h, cell)), cell};
  }
};

}  // namespace

void lower_lstm(Lowering& lo) {
  const bool input_forget = lo.attr_i("input_forget", 0) != 0;
  lower_recurrent(lo, {.gates = 4,
                       .functions = {"sigmoid", "tanh", "tanh"},
                       .initial_states = {5, 6},
                       .cell = [&](Lowering&, const Direction& d) {
                         return Cell{sum_of(lo.b, d.wb, d.rb), LstmCell{d, peepholes(lo, d), input_forget}};
                       }});
}

}  // namespace lowtide::layout
