// SPDX-License-Identifier: Apache-2.0
// GRU. ONNX's gate order is z, r, h. With linear_before_reset the reset gate is applied after the recurrent product and
// its bias (as in cuDNN and PyTorch), otherwise before it.
#include "layout/lower/recurrent.h"

namespace lowtide::layout {
namespace {

struct GruCell {
  Direction d;
  bool reset_last;
  Val r_zr, r_h, rb_h;  // rows of R; rb_h only when reset_last

  std::vector<Val> operator()(Place& place, Val x, const std::vector<Val>& state) const {
    Builder& b = place.b;
    const Nonlinearity &f = d.functions[0], &g = d.functions[1];
    const int64_t n = d.hidden;
    Val old = state[0];
    const std::vector<Val> parts = b.split(x, std::vector<int64_t>{2 * n, n}, 1);
    Val zr = sum_of(b, parts[0], recurrence(b, old, place.here(r_zr), {}));
    const std::vector<Val> gates = b.split(apply(b, f, clipped(b, d, zr)), std::vector<int64_t>{n, n}, 1);
    Val inner = reset_last
                    ? scaled(b, gates[1], recurrence(b, old, place.here(r_h), place.here(rb_h)), place.here(rb_h))
                    : recurrence(b, old ? b.mul(gates[1], old) : Val{}, place.here(r_h), {});
    Val fresh = apply(b, g, clipped(b, d, sum_of(b, parts[1], inner)));
    // (1 - z) * fresh + z * old
    return {b.add(fresh, b.mul(gates[0], old ? b.sub(old, fresh) : b.neg(fresh)))};
  }

  // The recurrent part of zeros is its bias alone.
  static Val scaled(Builder& b, Val gate, Val product, Val bias) {
    if (product) return b.mul(gate, product);
    return bias ? b.mul(gate, bias) : Val{};
  }
};

}  // namespace

void lower_gru(Lowering& lo) {
  const bool reset_last = lo.attr_i("linear_before_reset", 0) != 0;
  auto cell = [&](Lowering&, const Direction& d) {
    const int64_t n = d.hidden;
    GruCell made{d, reset_last, rows(lo.b, d.r, 0, 2 * n), rows(lo.b, d.r, 2 * n, n), {}};
    Val bias = sum_of(lo.b, d.wb, d.rb);
    if (reset_last && d.rb) {
      made.rb_h = rows(lo.b, d.rb, 2 * n, n);
      const Val r_zr_bias = rows(lo.b, d.rb, 0, 2 * n);
      Val zr = lo.b.add(rows(lo.b, d.wb, 0, 2 * n), r_zr_bias);
      bias = lo.b.concat({zr, rows(lo.b, d.wb, 2 * n, n)}, 0);
    }
    return Cell{bias, made};
  };
  lower_recurrent(lo, {.gates = 3, .functions = {"sigmoid", "tanh"}, .initial_states = {5}, .cell = cell});
}

}  // namespace lowtide::layout
