// SPDX-License-Identifier: Apache-2.0
// LSTM, GRU and RNN, time step by time step. The inputs of all steps are multiplied by W at once; a step multiplies the
// state by R. Short sequences are unrolled; long ones, and those of a length known at run time only, become a WHILE.
// (LiteRT's own sequence operators keep their state from one run of the model to the next, which ONNX's do not.)
//
//     X [T,B,I] -> FULLY_CONNECTED -> UNPACK -> step -> h, c -> step -> h, c ... -> PACK -> Y
//
// In ONNX the state of a sequence shorter than T does not change after its end, and its outputs are 0; in reverse it is
// read from its own end. The final state of an empty sequence is zero, as in ONNX Runtime.
#include "layout/lower/recurrent.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <optional>
#include <string_view>

#include "layout/core/subgraphs.h"
#include "layout/lower/subgraph.h"

namespace lowtide::layout {
namespace {

// Of one direction; a step has about ten ops. From about this many steps on a WHILE is as fast, and faster when R is
// large: XNNPACK keeps a packed copy of R for every FULLY_CONNECTED.
constexpr int64_t kMostUnrolled = 32;

// Which constants an activation takes, and their defaults. Those without a default must be listed by the model: the
// standard has values for them, but ONNX Runtime 1.31 computes with zeros (docs/decisions/disputed-semantics.md).
struct FunctionRow {
  std::string_view name;
  bool has_alpha, has_beta;
  std::optional<double> alpha = 0, beta = 0;
};
constexpr std::optional<double> kDisputed;
constexpr FunctionRow kFunctions[] = {{"affine", true, true, kDisputed, kDisputed},
                                      {"elu", true, false, 1},
                                      {"hardsigmoid", true, true, 0.2f, 0.5},
                                      {"leakyrelu", true, false, 0.01f},
                                      {"relu", false, false},
                                      {"scaledtanh", true, true, kDisputed, kDisputed},
                                      {"sigmoid", false, false},
                                      {"softplus", false, false},
                                      {"softsign", false, false},
                                      {"tanh", false, false},
                                      {"thresholdedrelu", true, false, kDisputed}};

// The model lists constants only for the functions that take them.
double next_constant(Lowering& lo, const char* list, std::string_view function, const std::vector<float>& given,
                     size_t& at, const std::optional<double>& otherwise) {
  if (at < given.size()) return static_cast<double>(given[at++]);
  if (!otherwise)
    lo.unsupported(fmt::format("the activation '{}' has no constant in '{}', and runtimes disagree about the default",
                               function, list),
                   fmt::format("list its constant in '{}'", list));
  return *otherwise;
}

std::vector<Nonlinearity> read_functions(Lowering& lo, const RecurrentForm& form, size_t directions) {
  std::vector<std::string> names;
  if (const onnx::Attribute* given = lo.attr("activations")) {
    if (given->type != onnx::Attribute::Type::kStrings)
      lo.malformed("attribute 'activations' must be a list of strings");
    names = given->strings;
  }
  if (names.empty())
    for (size_t d = 0; d < directions; ++d) names.insert(names.end(), form.functions.begin(), form.functions.end());
  // The standard's default of RNN is two names, so they are written for one direction too.
  if (form.functions.size() == 1 && directions == 1 && names.size() == 2) names.pop_back();
  if (names.size() != directions * form.functions.size())
    lo.malformed(fmt::format("attribute 'activations' must have {} names for each of the {} directions; it has {}",
                             form.functions.size(), directions, names.size()));
  const std::vector<float> alphas = lo.attr_floats("activation_alpha").value_or(std::vector<float>{});
  const std::vector<float> betas = lo.attr_floats("activation_beta").value_or(std::vector<float>{});
  size_t alpha = 0, beta = 0;
  std::vector<Nonlinearity> out;
  for (std::string name : names) {
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const auto* row = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                   [&](const FunctionRow& one) { return one.name == name; });
    if (row == std::end(kFunctions)) lo.unsupported(fmt::format("the activation '{}' is not supported", name));
    out.push_back({name, row->has_alpha ? next_constant(lo, "activation_alpha", name, alphas, alpha, row->alpha) : 0,
                   row->has_beta ? next_constant(lo, "activation_beta", name, betas, beta, row->beta) : 0});
  }
  // Some exporters list a constant for every function: then it is ambiguous which function has which.
  if ((alpha > 0 && alpha < alphas.size()) || (beta > 0 && beta < betas.size()))
    lo.unsupported("activation_alpha or activation_beta has more elements than there are functions that take one");
  return out;
}

struct Layer {
  bool batch_first = false;
  std::vector<Direction> directions;
  Val x;  // [steps, batch, inputs]
  Dim steps = 0, batch = 0;
  int64_t hidden = 0;
  Val lengths;                          // [batch, 1] i32, absent when all sequences are full
  std::optional<int64_t> least_length;  // when known
};

std::vector<bool> read_directions(Lowering& lo) {
  const std::string name = lo.attr_s("direction", "forward");
  if (name == "forward") return {false};
  if (name == "reverse") return {true};
  if (name == "bidirectional") return {false, true};
  lo.malformed(fmt::format("attribute 'direction' has the unknown value '{}'", name));
}

void check_shape(Lowering& lo, Val v, std::initializer_list<Dim> wanted, const char* what) {
  const Shape& shape = lo.shape(v);
  bool fits = shape.size() == wanted.size();
  for (size_t i = 0; fits && i < shape.size(); ++i) {
    const Dim one = wanted.begin()[i];
    fits = !stream::is_static(one) || !stream::is_static(shape[i]) || one == shape[i];
  }
  if (!fits)
    lo.misfit(fmt::format("{} must have shape {}; it has {}", what, stream::to_string(Shape(wanted)),
                          stream::to_string(shape)));
}

void read_sequence_lengths(Lowering& lo, Layer& layer) {
  if (!lo.has_input(4)) return;
  Val lengths = lo.input(4);
  check_shape(lo, lengths, {layer.batch}, "sequence_lens");
  if (auto known = lo.ints(lengths); known && !known->empty()) {
    const auto [least, most] = std::minmax_element(known->begin(), known->end());
    if (*least < 0 || (stream::is_static(layer.steps) && *most > layer.steps))
      lo.malformed("sequence_lens must be from 0 to the length of the sequences");
    layer.least_length = *least;
    if (*least == layer.steps) return;
  }
  layer.lengths = lo.b.reshape(lo.b.cast(lengths, DType::kInt32), {layer.batch, 1});
}

Direction read_direction(Lowering& lo, const Layer& layer, const RecurrentForm& form, size_t index, bool reverse) {
  Builder& b = lo.b;
  const int64_t height = form.gates * layer.hidden;
  Direction d{.index = index, .reverse = reverse, .hidden = layer.hidden};
  const auto at = static_cast<int64_t>(index);
  if (form.weights) {
    d.w = form.weights(lo, 1, index);
    d.r = form.weights(lo, 2, index);
  } else {
    d.w = b.reshape(rows(b, lo.input(1), at, 1), {height, b.dim(lo.input(1), 2)});
    d.r = b.reshape(rows(b, lo.input(2), at, 1), {height, layer.hidden});
  }
  if (lo.has_input(3)) {
    Val both = b.reshape(rows(b, lo.input(3), at, 1), {2 * height});
    d.wb = rows(b, both, 0, height);
    d.rb = rows(b, both, height, height);
  }
  return d;
}

Layer read_layer(Lowering& lo, const RecurrentForm& form) {
  Layer layer;
  layer.batch_first = lo.attr_i("layout", 0) != 0;
  layer.x = lo.input(0);
  Val w = lo.input(1), r = lo.input(2);
  if (lo.rank(layer.x) != 3 || lo.rank(w) != 3 || lo.rank(r) != 3)
    lo.malformed(fmt::format("X, W and R must have rank 3; they have ranks {}, {} and {}", lo.rank(layer.x), lo.rank(w),
                             lo.rank(r)));
  if (lo.dtype(layer.x) != DType::kFloat32)
    lo.unsupported(fmt::format("no TFLite kernel multiplies matrices of {}", dtype_name(lo.dtype(layer.x))),
                   "use float32 in the model");
  if (layer.batch_first) layer.x = lo.b.transpose(layer.x, {1, 0, 2});
  layer.steps = lo.b.dim(layer.x, 0);
  layer.batch = lo.b.dim(layer.x, 1);
  if (layer.steps == 0) lo.unsupported("a sequence of length 0 is not supported");
  layer.hidden = lo.need_static(lo.b.dim(r, form.weights ? 1 : 2), "the hidden size");
  if (lo.attr_i("hidden_size", layer.hidden) != layer.hidden)
    lo.malformed(fmt::format("attribute 'hidden_size' must be {}, the hidden size of R", layer.hidden));
  const std::vector<bool> reverse = read_directions(lo);
  const auto count = static_cast<int64_t>(reverse.size());
  const int64_t height = form.gates * layer.hidden;
  const Dim inputs = lo.b.dim(layer.x, 2);
  if (form.weights) {
    check_shape(lo, w, {count, inputs, height}, "W");
    check_shape(lo, r, {count, layer.hidden, height}, "R");
  } else {
    check_shape(lo, w, {count, height, inputs}, "W");
    check_shape(lo, r, {count, height, layer.hidden}, "R");
  }
  if (lo.has_input(3)) check_shape(lo, lo.input(3), {count, 2 * height}, "B");
  read_sequence_lengths(lo, layer);
  const std::vector<Nonlinearity> functions = read_functions(lo, form, reverse.size());
  // ONNX Runtime treats the largest float as no clip.
  const float clip = lo.attr_f("clip", 0);
  if (lo.has_attr("clip") && !(clip > 0))
    lo.unsupported(fmt::format("attribute 'clip' must be positive; it is {}", clip));
  lo.ignore_attr("output_sequence");  // of opset 1: whether Y is given, which the node's outputs show
  for (size_t d = 0; d < reverse.size(); ++d) {
    Direction one = read_direction(lo, layer, form, d, reverse[d]);
    const auto first = functions.begin() + static_cast<std::ptrdiff_t>(d * form.functions.size());
    one.functions.assign(first, first + static_cast<std::ptrdiff_t>(form.functions.size()));
    one.clip = clip;
    layer.directions.push_back(std::move(one));
  }
  return layer;
}

// [batch, hidden] of a direction, or absent.
Val initial_state(Lowering& lo, const Layer& layer, size_t input, size_t direction) {
  if (!lo.has_input(input)) return {};
  const auto count = static_cast<Dim>(layer.directions.size());
  Val given = lo.input(input);
  if (layer.batch_first && lo.rank(given) == 3) given = lo.b.transpose(given, {1, 0, 2});
  check_shape(lo, given, {count, layer.batch, layer.hidden}, "an initial state");
  return lo.b.reshape(rows(lo.b, given, static_cast<int64_t>(direction), 1), {layer.batch, layer.hidden});
}

Val zeros(Lowering& lo, const Layer& layer) {
  return lo.b.broadcast_to(lo.b.scalar(0, DType::kFloat32), std::vector<Dim>{layer.batch, layer.hidden});
}

struct DirectionOutput {
  Val sequence;  // [steps, batch, hidden]
  std::vector<Val> last;
};

// One step. For sequences that have ended (`live` is false) the state stays and the output is 0. Updates `state`,
// returns the step's row of Y.
Val masked_step(Place& place, const Cell& cell, Val live, Val x, std::vector<Val>& state) {
  std::vector<Val> next = cell.step(place, x, state);
  Val out = next[0];
  if (live) {
    out = place.b.select(live, out, place.b.scalar_like(0, out));
    for (size_t i = 0; i < state.size(); ++i) next[i] = place.b.select(live, next[i], state[i]);
  }
  state = std::move(next);
  return out;
}

DirectionOutput unrolled_cell(Lowering& lo, const Layer& layer, const Cell& cell, bool reverse, Val x,
                              std::vector<Val> state) {
  Builder& b = lo.b;
  Place place{b, [](Val v) { return v; }};
  // Not Builder::unpack(), which takes more operators where the batch may be 0: ONNX Runtime runs no such recurrence.
  const std::vector<Val> parts =
      layer.steps == 1 ? std::vector<Val>{b.squeeze(x, std::vector<int>{0})}
                       : b.ops(core::Kind::kUnpack, {x}, core::PackOptions{0}, static_cast<int>(layer.steps));
  std::vector<Val> outputs(parts.size());
  for (size_t iteration = 0; iteration < parts.size(); ++iteration) {
    const size_t at = reverse ? parts.size() - 1 - iteration : iteration;
    const auto step = static_cast<int64_t>(at);
    const bool all_live = !layer.lengths || (layer.least_length && step < *layer.least_length);
    Val live = all_live ? Val{} : b.less(b.i32_scalar(step), layer.lengths);
    outputs[at] = masked_step(place, cell, live, parts[at], state);
  }
  Val sequence = outputs.size() == 1 ? b.unsqueeze(outputs[0], std::vector<int>{0}) : b.pack(outputs, 0);
  return {sequence, std::move(state)};
}

DirectionOutput looped(Lowering& lo, const Layer& layer, const Cell& cell, bool reverse, Val x,
                       const std::vector<Val>& state) {
  Builder& b = lo.b;
  const Val steps = b.reshape(b.dims(std::vector<Dim>{layer.steps}), {});
  const Shape whole{layer.steps, layer.batch, layer.hidden};
  const ScanOutput rows_of_y{0, b.broadcast_to(b.scalar(0, DType::kFloat32), whole)};
  std::vector<Val> begin{reverse ? b.sub(steps, 1) : b.i32_scalar(0), rows_of_y.initial};
  begin.insert(begin.end(), state.begin(), state.end());
  auto condition = [&](core::SubgraphBuilder& subgraph, std::span<const Val> now) {
    Builder& inside = subgraph.b();
    return std::vector<Val>{reverse ? inside.greater_equal(now[0], inside.i32_scalar(0))
                                    : inside.less(now[0], subgraph.here(steps))};
  };
  auto iteration = [&](core::SubgraphBuilder& subgraph, std::span<const Val> now) {
    Builder& inside = subgraph.b();
    Place place{inside, [&](Val v) { return subgraph.here(v); }};
    std::vector<Val> moved(now.begin() + 2, now.end());
    Val live = layer.lengths ? inside.less(now[0], subgraph.here(layer.lengths)) : Val{};
    Val out = masked_step(place, cell, live, inside.gather(subgraph.here(x), now[0], 0), moved);
    std::vector<Val> next{inside.add(now[0], reverse ? -1 : 1), write_row(inside, rows_of_y, now[1], out, now[0])};
    next.insert(next.end(), moved.begin(), moved.end());
    return next;
  };
  const std::vector<Val> end = core::run_while(lo.around.model(), b, begin, condition, iteration);
  return {end[1], {end.begin() + 2, end.end()}};
}

DirectionOutput run_direction(Lowering& lo, const Layer& layer, const RecurrentForm& form, const Direction& d) {
  Builder& b = lo.b;
  const bool loops = !stream::is_static(layer.steps) || layer.steps > kMostUnrolled;
  const Cell cell = form.cell(lo, d);
  const Val x = b.fully_connected(form.round ? form.round(b, layer.x) : layer.x, d.w, cell.bias, true);
  std::vector<Val> state;
  for (size_t input : form.initial_states) {
    Val initial = initial_state(lo, layer, input, d.index);
    // Without an initial state the first step has fewer ops, but a loop and a mask need one.
    state.push_back(initial || !(loops || layer.lengths) ? initial : zeros(lo, layer));
  }
  DirectionOutput output = loops ? looped(lo, layer, cell, d.reverse, x, state)
                                 : unrolled_cell(lo, layer, cell, d.reverse, x, std::move(state));
  if (layer.lengths && !(layer.least_length && *layer.least_length > 0)) {
    Val any = b.greater(layer.lengths, b.i32_scalar(0));
    for (Val& last : output.last) last = b.select(any, last, b.scalar_like(0, last));
  }
  return output;
}

}  // namespace

Val apply(Builder& b, const Nonlinearity& function, Val x) {
  const std::string& name = function.name;
  auto at_least_0 = [&](Val v) { return b.maximum(v, b.scalar_like(0, v)); };
  if (name == "sigmoid") return b.logistic(x);
  if (name == "tanh") return b.tanh(x);
  if (name == "relu") return b.relu(x);
  if (name == "affine") return b.add(b.mul(x, function.alpha), function.beta);
  if (name == "leakyrelu") return b.leaky_relu(x, static_cast<float>(function.alpha));
  if (name == "thresholdedrelu") {
    return b.select(b.greater(x, b.scalar_like(function.alpha, x)), x, b.scalar_like(0, x));
  }
  if (name == "scaledtanh") return b.mul(b.tanh(b.mul(x, function.beta)), function.alpha);
  if (name == "hardsigmoid")
    return b.minimum(at_least_0(b.add(b.mul(x, function.alpha), function.beta)), b.scalar_like(1, x));
  if (name == "elu") {
    const Val negative = b.mul(b.elu(b.minimum(x, b.scalar_like(0, x))), function.alpha);
    return b.add(at_least_0(x), negative);
  }
  if (name == "softsign") return b.div(x, b.add(b.abs(x), 1));
  // Softplus, in a form where exp cannot overflow.
  const Val rest = b.log(b.add(b.exp(b.neg(b.abs(x))), 1));
  return b.add(at_least_0(x), rest);
}

Val clipped(Builder& b, const Direction& direction, Val x) {
  constexpr double kNone = std::numeric_limits<float>::max();
  if (direction.clip <= 0 || direction.clip >= kNone) return x;
  return b.minimum(b.maximum(x, b.scalar_like(-direction.clip, x)), b.scalar_like(direction.clip, x));
}

Val recurrence(Builder& b, Val h, Val r, Val bias) { return h ? b.fully_connected(h, r, bias, true) : Val{}; }

Val sum_of(Builder& b, Val a, Val b_or_absent) {
  if (!a || !b_or_absent) return a ? a : b_or_absent;
  return b.add(a, b_or_absent);
}

Val rows(Builder& b, Val v, int64_t begin, int64_t count) {
  std::vector<int64_t> from(static_cast<size_t>(b.rank(v)), 0);
  std::vector<Dim> size = b.shape(v);
  from[0] = begin;
  size[0] = count;
  return b.slice(v, from, size);
}

void lower_recurrent(Lowering& lo, const RecurrentForm& form) {
  Builder& b = lo.b;
  const Layer layer = read_layer(lo, form);
  std::vector<Val> sequences;
  std::vector<std::vector<Val>> last(form.initial_states.size());
  for (const Direction& d : layer.directions) {
    DirectionOutput output = run_direction(lo, layer, form, d);
    sequences.push_back(b.unsqueeze(output.sequence, std::vector<int>{1}));
    for (size_t i = 0; i < last.size(); ++i) last[i].push_back(b.unsqueeze(output.last[i], std::vector<int>{0}));
  }
  Val y = b.concat(sequences, 1);  // [steps, directions, batch, hidden]
  lo.output(0, layer.batch_first ? b.transpose(y, {2, 0, 1, 3}) : y);
  for (size_t i = 0; i < last.size(); ++i) {
    Val state = b.concat(last[i], 0);  // [directions, batch, hidden]
    lo.output(i + 1, layer.batch_first ? b.transpose(state, {1, 0, 2}) : state);
  }
}

}  // namespace lowtide::layout
