// SPDX-License-Identifier: Apache-2.0
// LSTM, and DynamicQuantizeLSTM of ONNX Runtime. ONNX's gate order is i, o, f, c; that of peepholes i, o, f. The output
// gate's peephole sees the new cell state, the others the old one. The input of the last activation h is not clipped,
// as in ONNX Runtime.
#include <fmt/format.h>

#include <cmath>

#include "layout/lower/quantize_linear.h"
#include "layout/lower/recurrent.h"

namespace lowtide::layout {
namespace {

struct Peepholes {
  Val i, o, f;  // [1, hidden], or absent
};

Peepholes peepholes(Lowering& lo, const Direction& d) {
  if (!lo.has_input(7)) return {};
  if (lo.rank(lo.input(7)) != 2 || lo.b.dim(lo.input(7), 0) != lo.b.dim(lo.input(1), 0) ||
      lo.b.dim(lo.input(7), 1) != 3 * d.hidden)
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
  Round round;  // of h before its product

  std::vector<Val> operator()(Place& place, Val x, const std::vector<Val>& state) const {
    Builder& b = place.b;
    const Nonlinearity &f = d.functions[0], &g = d.functions[1], &h = d.functions[2];
    Val old = state[1];
    const Val h_or_absent = state[0] && round ? round(b, state[0]) : state[0];
    Val z = sum_of(b, x, recurrence(b, h_or_absent, place.here(d.r), {}));
    const std::vector<Val> parts = b.split(z, std::vector<int64_t>{3 * d.hidden, d.hidden}, 1);
    auto activated = [&](Val v) { return apply(b, f, clipped(b, d, v)); };
    // Without peepholes one activation computes the three gates.
    const bool peeps = static_cast<bool>(p.i);
    const std::vector<Val> gates = b.split(peeps ? parts[0] : activated(parts[0]), 3, d.hidden, 1);
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

RecurrentForm lstm(Lowering& lo, const Round& round) {
  const bool input_forget = lo.attr_i("input_forget", 0) != 0;
  return {.gates = 4,
          .functions = {"sigmoid", "tanh", "tanh"},
          .initial_states = {5, 6},
          .cell =
              [input_forget, round](Lowering& in, const Direction& d) {
                return Cell{sum_of(in.b, d.wb, d.rb), LstmCell{d, peepholes(in, d), input_forget, round}};
              },
          .round = round};
}

// One direction's row of a list of scales or zero points: one number, or one for each column of the weights.
std::vector<double> parameters(Lowering& lo, size_t input, size_t direction) {
  const Val list = lo.input(input);
  const auto numbers = lo.numbers(list);
  if (!numbers) lo.unsupported("scales and zero points that are computed at run time", "make them initializers");
  const size_t directions = static_cast<size_t>(lo.b.dim(lo.input(1), 0));
  const size_t columns = static_cast<size_t>(lo.b.dim(lo.input(1), 2));
  if (numbers->size() != directions && numbers->size() != directions * columns)
    lo.malformed(
        fmt::format("input {} has {} elements; it must have one for each of the {} directions, or one for each "
                    "of the {} columns of each direction",
                    input, numbers->size(), directions, columns));
  const auto count = static_cast<std::ptrdiff_t>(numbers->size() / directions);
  const auto first = numbers->begin() + static_cast<std::ptrdiff_t>(direction) * count;
  return {first, first + count};
}

// W or R of a direction. Scales and zero points are inputs 8 and 9, or 10 and 11.
Val dequantized_weights(Lowering& lo, size_t input, size_t direction) {
  Builder& b = lo.b;
  const size_t scale_at = input == 1 ? 8 : 10;
  const Val all = lo.input(input);
  if (!b.is_constant(all)) lo.unsupported("W and R must be initializers");
  if (lo.dtype(lo.input(scale_at + 1)) != lo.dtype(all))
    lo.malformed(fmt::format("inputs {} and {}, a zero point, must have the same type", input, scale_at + 1));
  const std::vector<double> scales = parameters(lo, scale_at, direction),
                            zeros = parameters(lo, scale_at + 1, direction);
  if (scales.size() != zeros.size())
    lo.malformed(fmt::format("there are {} scales, but {} zero points", scales.size(), zeros.size()));
  for (const double scale : scales)
    if (!(scale >= 0) || !std::isfinite(scale))
      lo.malformed(fmt::format("input {} must be scales that are no negative numbers; one is {}", scale_at, scale));
  // Steps of the recipe, not ops: an op of a constant of many steps is not folded.
  namespace recipe = stream::recipe;
  const Shape shape = lo.shape(all);
  const stream::RecipeRef one =
      recipe::reshape(recipe::slice(b.graph.at(all.id).constant, {static_cast<int64_t>(direction), 0, 0},
                                    {1, shape[1], shape[2]}, {1, 1, 1}),
                      {shape[1], shape[2]});
  return b.transpose(b.constant(recipe::dequantize(one, {scales.begin(), scales.end()}, {zeros.begin(), zeros.end()},
                                                   scales.size() == 1 ? -1 : 1)),
                     {1, 0});
}

// The nearest of 256 levels, from the least to the greatest element of x.
Val dynamically_rounded(Builder& b, Val x) {
  const Levels made = dynamically_quantized(b, x);
  return b.mul(b.sub(as_floats(b, made.q), as_floats(b, made.zero)), made.scale);
}

}  // namespace

void lower_lstm(Lowering& lo) { lower_recurrent(lo, lstm(lo, nullptr)); }

// X, and h before each step, are quantized to 8 bits as they come, W and R are stored so. ONNX Runtime gives each
// thread rows of h with a scale of their own where there are several threads and rows; here all rows have one.
void lower_dynamic_quantize_lstm(Lowering& lo) {
  RecurrentForm form = lstm(lo, dynamically_rounded);
  form.weights = dequantized_weights;
  lower_recurrent(lo, form);
}

}  // namespace lowtide::layout
