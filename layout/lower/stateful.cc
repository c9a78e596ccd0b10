// SPDX-License-Identifier: Apache-2.0
// LSTM, RNN, SVDF and their sequences that a TFLite model brought to ONNX (layout/stateful_calls.h): nodes of a domain
// of our own, whose inputs are those of the builtin that are there; states are constants, their first values.
#include <fmt/format.h>

#include <memory>

#include "layout/core/stateful_builtin.h"
#include "layout/lower/quantize_linear.h"
#include "layout/lower/sliding_window.h"

namespace lowtide::layout {
namespace {

// The inputs by their places in the builtin; kAbsent where there is none.
struct Places {
  std::vector<Val> inputs;
  std::vector<std::optional<core::Quantization>> grids;  // the last is the result's
};

Places places_of(Lowering& lo, const core::StatefulForm& form) {
  const std::vector<int64_t> places = lo.attr_ints("input_places").value_or(std::vector<int64_t>());
  const std::vector<float> scales = lo.attr_floats("scales").value_or(std::vector<float>(places.size() + 1, 0));
  const std::vector<int64_t> zeros = lo.attr_ints("zero_points").value_or(std::vector<int64_t>(places.size() + 1, 0));
  if (places.size() != lo.input_count() || scales.size() != places.size() + 1 || zeros.size() != scales.size())
    lo.malformed("its attributes do not fit the number of its inputs");
  Places out{std::vector<Val>(form.inputs), std::vector<std::optional<core::Quantization>>(form.inputs + 1)};
  const auto grid = [&](size_t i) -> std::optional<core::Quantization> {
    if (scales[i] == 0) return std::nullopt;
    return core::Quantization{.scale = {scales[i]}, .zero_point = {zeros[i]}, .axis = 0};
  };
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] < 0 || places[i] >= static_cast<int64_t>(form.inputs))
      lo.malformed(fmt::format("the builtin has no input {}", places[i]));
    const auto place = static_cast<size_t>(places[i]);
    out.inputs[place] = lo.input(i);
    out.grids[place] = grid(i);
  }
  out.grids.back() = grid(places.size());
  // The kernel takes integers of a bias for such whatever the file says; other readers may look.
  constexpr size_t kGates = 4, kWeights = 1, kBiases = 12;
  if (out.grids[0] && form.inputs > kBiases + kGates)
    for (size_t gate = 0; gate < kGates; ++gate)
      if (const auto& weights = out.grids[kWeights + gate]; weights && out.inputs[kBiases + gate])
        out.grids[kBiases + gate] =
            core::Quantization{.scale = {out.grids[0]->scale[0] * weights->scale[0]}, .zero_point = {0}, .axis = 0};
  return out;
}

std::shared_ptr<core::StatefulBuiltin> options_of_call(Lowering& lo) {
  auto out = std::make_shared<core::StatefulBuiltin>();
  out->activation = to_int(lo, lo.need_attr_i("fused_activation_function"), "fused_activation_function");
  out->cell_clip = lo.attr_f("cell_clip", 0);
  out->proj_clip = lo.attr_f("proj_clip", 0);
  out->time_major = lo.attr_i("time_major", 0) != 0;
  out->rank = to_int(lo, lo.attr_i("rank", 0), "rank");
  return out;
}

// The data as the kernel needs it: its batch is that of the state, its last axis has as many elements as the weights
// columns.
void check_data(Lowering& lo, const core::StatefulForm& form, bool time_major, const Places& places) {
  const Shape& data = lo.shape(places.inputs[0]);
  const size_t rank = form.is_sequence ? 3 : 2, batch = time_major ? 1 : 0;
  const Val weights = places.inputs[form.inputs == 5 ? 1 : 2];
  const Shape& state = lo.shape(places.inputs[form.first_state]);
  if (data.size() != rank || lo.rank(weights) != 2 || state.size() != 2)
    lo.malformed(fmt::format("its data has {} axes in place of {}", data.size(), rank));
  if (data[batch] != state[0] || data.back() != lo.shape(weights)[1])
    lo.misfit(fmt::format("data of shape {} do not fit its weights and its states", stream::to_string(data)));
  const DType wanted = places.grids[0] ? DType::kInt8 : DType::kFloat32;
  if (lo.dtype(places.inputs[0]) != wanted)
    lo.malformed(fmt::format("its data are {}", dtype_name(lo.dtype(places.inputs[0]))));
}

}  // namespace

void lower_stateful(Lowering& lo) {
  Builder& b = lo.b;
  const core::StatefulForm& form = *core::stateful_form(lo.node.op_type);
  const Places places = places_of(lo, form);
  const std::shared_ptr<core::StatefulBuiltin> made = options_of_call(lo);
  core::Op op{.kind = form.kind, .inputs = {}, .outputs = {}, .options = {}, .origin = b.origin};
  for (size_t i = 0; i < form.inputs; ++i) {
    const Val in = places.inputs[i];
    const std::optional<core::Quantization>& grid = places.grids[i];
    const bool is_needed = i == 0 || form.is_state(i);
    if (is_needed && !in) lo.malformed(fmt::format("the builtin needs its input {}", i));
    if (in && i > 0 && !b.is_constant(in)) lo.unsupported("its weights are computed at run time");
    core::ValueId id = core::kAbsent;
    if (form.is_state(i)) {
      const core::Value& state = b.known(in);
      made->states[i] = {state.name, state.dtype, state.constant->dims, grid};
    } else if (in && i > 0) {
      id = b.constant(b.known(in).constant, b.known(in).name).id;
      b.graph.at(id).quantization = grid;
    } else if (in) {
      id = in.id;
    }
    op.inputs.push_back(id);
  }
  check_data(lo, form, made->time_major, places);
  if (places.grids[0]) op.inputs[0] = with_grid(b, places.inputs[0], *places.grids[0]).id;
  const std::optional<core::Quantization>& result = places.grids.back();
  if (result) made->intermediates = core::lstm_intermediates(*result);
  Shape shape = lo.shape(places.inputs[0]);
  shape.back() = form.kind == Kind::kSvdf ? lo.shape(places.inputs[1])[0] / made->rank
                                          : lo.shape(places.inputs[form.first_state])[1];
  const core::ValueId id = b.graph.add_value(lo.dtype(places.inputs[0]), std::move(shape), lo.node.outputs[0]);
  b.graph.at(id).producer = static_cast<core::OpId>(b.graph.ops.size());
  b.graph.at(id).quantization = result;
  op.outputs.push_back(id);
  op.options = core::StatefulOptions{made};
  b.graph.add_op(std::move(op));
  // As behind QUANTIZE: ONNX's integers are plain numbers.
  lo.output(0, result ? b.op(Kind::kBitcast, {Val{id}}, core::IndexOptions{b.dtype(Val{id})}) : Val{id});
}

}  // namespace lowtide::layout
