// SPDX-License-Identifier: Apache-2.0
// Scan: unrolled when the scanned axes are short and of known size, else a WHILE.
//
// Scan has no condition; its inputs are split along an axis, forwards or backwards, and its outputs are concatenated
// likewise. At opset 8 there is a batch axis before the scanned axis, and the axes are fixed.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "layout/core/subgraphs.h"
#include "layout/lower/shapes_and_indices.h"
#include "layout/lower/subgraph.h"

namespace lowtide::layout {
namespace {

// One scanned input or output.
struct Scanned {
  int64_t axis = 0;
  bool reverse = false;
};

struct Scan {
  const onnx::Graph& body;
  std::vector<Val> state, inputs;
  std::vector<Scanned> in, out;
  Dim length = 0;
};

Val as_slice(Lowering& lo, Val x, int64_t at, int axis) {
  std::vector<int64_t> begin(static_cast<size_t>(lo.rank(x)), 0);
  std::vector<Dim> size = lo.shape(x);
  begin[static_cast<size_t>(axis)] = at;
  size[static_cast<size_t>(axis)] = 1;
  return lo.b.squeeze(lo.b.slice(x, begin, size), std::vector<int>{axis});
}

// The slices of x, in the order of the iterations.
std::vector<Val> slices_of(Lowering& lo, Val x, const Scanned& how, int64_t length) {
  const int axis = lo.axis(how.axis, lo.rank(x));
  std::vector<Val> slices;
  if (length == 1)
    slices.push_back(as_slice(lo, x, 0, axis));
  else
    slices = lo.b.unpack(x, axis);
  if (how.reverse) std::reverse(slices.begin(), slices.end());
  return slices;
}

// Nullopt when there would be too many nodes.
std::optional<std::vector<Val>> unrolled_scan(Lowering& lo, const Scan& scan) {
  Unrolling unrolling(lo, scan.body);
  if (!unrolling.may_have(scan.length)) return std::nullopt;
  std::vector<std::vector<Val>> slices;
  for (size_t i = 0; i < scan.inputs.size(); ++i)
    slices.push_back(slices_of(lo, scan.inputs[i], scan.in[i], scan.length));
  std::vector<Val> state = scan.state;
  std::vector<std::vector<Val>> rows(scan.out.size());
  for (size_t step = 0; step < static_cast<size_t>(scan.length); ++step) {
    if (!unrolling.may_have(scan.length)) return std::nullopt;
    std::vector<Val> given = state;
    for (const auto& slice : slices) given.push_back(slice[step]);
    const std::vector<Val> out = lo.around.lower_inline(scan.body, given);
    std::copy_n(out.begin(), state.size(), state.begin());
    for (size_t i = 0; i < rows.size(); ++i) rows[i].push_back(out[state.size() + i]);
    unrolling.end_turn();
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (scan.out[i].reverse) std::reverse(rows[i].begin(), rows[i].end());
    const int axis = lo.axis(scan.out[i].axis, lo.rank(rows[i][0]) + 1);
    for (Val& row : rows[i]) row = lo.b.unsqueeze(row, std::vector<int>{axis});
    state.push_back(lo.b.concat(rows[i], axis));
  }
  return state;
}

// State of the WHILE: the iteration number, the carried values, the scan outputs so far.
std::vector<Val> scan_at_run_time(Lowering& lo, const Scan& scan) {
  const Val length = lo.b.reshape(lo.b.dims(std::vector<Dim>{scan.length}), {});
  auto position = [&](core::SubgraphBuilder& subgraph, Val step, bool reverse) {
    Builder& b = subgraph.b();
    return reverse ? b.sub(b.sub(subgraph.here(length), 1), step) : step;
  };
  auto body_of = [&](core::SubgraphBuilder& subgraph, Val step, std::span<const Val> carried) {
    std::vector<Val> given(carried.begin(), carried.end());
    for (size_t i = 0; i < scan.inputs.size(); ++i) {
      Val x = subgraph.here(scan.inputs[i]);
      const int axis = lo.axis(scan.in[i].axis, subgraph.b().rank(x));
      given.push_back(subgraph.b().gather(x, position(subgraph, step, scan.in[i].reverse), axis));
    }
    return lo.around.lower_into(subgraph, scan.body, given);
  };
  const size_t count = scan.state.size();
  std::vector<ScanOutput> rows;
  if (!scan.out.empty()) {
    core::SubgraphBuilder trial(lo.around.model(), lo.b, "trial");
    const Val step = trial.input(DType::kInt32, {});
    std::vector<Val> carried;
    for (Val v : scan.state) carried.push_back(trial.input(lo.dtype(v), lo.shape(v)));
    const std::vector<Val> out = body_of(trial, step, carried);
    for (size_t i = 0; i < scan.out.size(); ++i)
      rows.push_back(
          scan_output(lo, trial, out[count + i], scan.body.outputs[count + i], scan.out[i].axis, scan.length));
  }
  std::vector<Val> begin{lo.b.i32_scalar(0)};
  begin.insert(begin.end(), scan.state.begin(), scan.state.end());
  for (const ScanOutput& how : rows) begin.push_back(how.initial);
  if (scan.length == 0) return {begin.begin() + 1, begin.end()};
  auto continues = [&](core::SubgraphBuilder& subgraph, std::span<const Val> now) {
    return std::vector<Val>{subgraph.b().less(now[0], subgraph.here(length))};
  };
  auto iteration = [&](core::SubgraphBuilder& subgraph, std::span<const Val> now) {
    const std::vector<Val> out = body_of(subgraph, now[0], now.subspan(1, count));
    std::vector<Val> next{subgraph.b().add(now[0], 1)};
    next.insert(next.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count));
    for (size_t i = 0; i < rows.size(); ++i)
      next.push_back(write_row(subgraph.b(), rows[i], now[1 + count + i], out[count + i],
                               position(subgraph, now[0], scan.out[i].reverse)));
    return next;
  };
  std::vector<Val> end = core::run_while(lo.around.model(), lo.b, begin, continues, iteration);
  end.erase(end.begin());
  return end;
}

std::vector<Val> run(Lowering& lo, Scan& scan) {
  for (size_t i = 0; i < scan.inputs.size(); ++i) {
    const Dim own = lo.b.dim(scan.inputs[i], lo.axis(scan.in[i].axis, lo.rank(scan.inputs[i])));
    if (i > 0 && stream::is_static(own) && stream::is_static(scan.length) && own != scan.length)
      lo.malformed(fmt::format("scanned axes must have the same size; two have {} and {} elements", scan.length, own));
    if (i == 0 || stream::is_static(own)) scan.length = own;
  }
  std::optional<std::vector<Val>> unrolled;
  if (stream::is_static(scan.length) && scan.length > 0) unrolled = unrolled_scan(lo, scan);
  return unrolled ? *unrolled : scan_at_run_time(lo, scan);
}

std::vector<Scanned> read_scanned(Lowering& lo, const char* axes, const char* directions, size_t count) {
  auto list = [&](const char* name) {
    std::vector<int64_t> values = lo.attr_ints(name).value_or(std::vector<int64_t>(count, 0));
    if (values.size() != count)
      lo.malformed(fmt::format("attribute '{}' must have {} elements; it has {}", name, count, values.size()));
    return values;
  };
  const std::vector<int64_t> axis = list(axes), back = list(directions);
  for (int64_t direction : back)
    if (direction != 0 && direction != 1)
      lo.malformed(fmt::format("attribute '{}' must contain 0 and 1 only; it contains {}", directions, direction));
  std::vector<Scanned> out;
  for (size_t i = 0; i < count; ++i) out.push_back({axis[i], back[i] != 0});
  return out;
}

// Opset 8: one scan for every element of the batch.
void lower_batched_scan(Lowering& lo, const onnx::Graph& body, size_t carried) {
  if (lo.has_input(0))
    lo.unsupported("sequences of different lengths (input 'sequence_lens') are not supported",
                   "pad them to the same length");
  const size_t scanned = lo.input_count() - 1 - carried, outputs = body.outputs.size();
  const std::vector<int64_t> back = lo.attr_ints("directions").value_or(std::vector<int64_t>(scanned, 0));
  if (back.size() != scanned)
    lo.malformed(fmt::format("attribute 'directions' must have {} elements; it has {}", scanned, back.size()));
  const int64_t batch = lo.need_static(lo.b.dim(lo.input(1), 0), "the batch size");
  if (batch < 1) lo.unsupported("a batch of size 0 is not supported");
  for (size_t i = 1; i < lo.input_count(); ++i)
    if (lo.rank(lo.input(i)) == 0 || known_to_differ(lo.b.dim(lo.input(i), 0), batch))
      lo.misfit(fmt::format("input {} must have the batch size {} on axis 0; it has shape {}", i, batch,
                            stream::to_string(lo.shape(lo.input(i)))));
  std::vector<std::vector<Val>> results(outputs);
  for (int64_t element = 0; element < batch; ++element) {
    Scan scan{.body = body, .state = {}, .inputs = {}, .in = {}, .out = std::vector<Scanned>(outputs - carried)};
    for (size_t i = 1; i < lo.input_count(); ++i)
      (i <= carried ? scan.state : scan.inputs).push_back(as_slice(lo, lo.input(i), element, 0));
    for (int64_t one : back) scan.in.push_back({0, one != 0});
    const std::vector<Val> out = run(lo, scan);
    for (size_t i = 0; i < outputs; ++i) results[i].push_back(lo.b.unsqueeze(out[i], std::vector<int>{0}));
  }
  for (size_t i = 0; i < outputs; ++i) lo.output(i, lo.b.concat(results[i], 0));
}

}  // namespace

void lower_scan(Lowering& lo) {
  const onnx::Graph& body = subgraph(lo, "body");
  const bool batched = lo.opset() < 9;  // with an input before all others: sequence_lens
  const int64_t scanned = lo.need_attr_i("num_scan_inputs");
  const auto inputs = static_cast<int64_t>(lo.input_count()) - (batched ? 1 : 0);
  if (scanned < 1 || scanned > inputs)
    lo.malformed(fmt::format("attribute 'num_scan_inputs' must be from 1 to the number of inputs {}; it is {}", inputs,
                             scanned));
  const auto carried = static_cast<size_t>(inputs - scanned);
  const auto given = static_cast<int64_t>(given_inputs(body).size());
  if (body.outputs.size() < carried || given != inputs)
    lo.malformed(
        fmt::format("the body has {} inputs and {} outputs, which does not fit {} inputs and {} carried values", given,
                    body.outputs.size(), inputs, carried));
  if (batched) return lower_batched_scan(lo, body, carried);
  Scan scan{.body = body, .state = {}, .inputs = {}};
  for (size_t i = 0; i < static_cast<size_t>(inputs); ++i)
    (i < carried ? scan.state : scan.inputs).push_back(lo.input(i));
  scan.in = read_scanned(lo, "scan_input_axes", "scan_input_directions", scan.inputs.size());
  scan.out = read_scanned(lo, "scan_output_axes", "scan_output_directions", body.outputs.size() - carried);
  const std::vector<Val> out = run(lo, scan);
  for (size_t i = 0; i < out.size(); ++i) lo.output(i, out[i]);
}

}  // namespace lowtide::layout
