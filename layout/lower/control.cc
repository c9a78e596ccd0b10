// If, Loop, Scan: subgraphs whose course is known at conversion are laid out in line.
//
// ONNX's Loop carries a condition and a trip count, both may be absent; its scan outputs grow by a row an iteration.
// Scan has no condition. A body sees the values of the graphs around it by name.
#include <fmt/format.h>

#include <algorithm>

#include "layout/lowering.h"

namespace lowtide::layout {
namespace {

// Unrolling multiplies nodes: beyond this many in all, a loop is no longer a convenience.
constexpr int64_t kMostNodes = 20000;

const onnx::Graph& subgraph(Lowering& lo, std::string_view name) {
  const onnx::Attribute* found = lo.attr(name);
  if (!found || found->type != onnx::Attribute::Type::kGraph || found->graphs.size() != 1)
    lo.malformed(fmt::format("attribute '{}' must be a graph", name));
  return *found->graphs[0];
}

void check_size(const Lowering& lo, const onnx::Graph& body, int64_t iterations) {
  const auto nodes = static_cast<int64_t>(std::max<size_t>(1, body.nodes.size()));
  if (iterations > kMostNodes / nodes)
    lo.unsupported(fmt::format("{} iterations of {} nodes are too many to unroll", iterations, nodes),
                   "shorten the sequence with --shape INPUT=...");
}

// Known truth of a bool scalar.
std::optional<bool> truth(const Lowering& lo, Val v) {
  auto known = lo.ints(v);
  if (!known || known->size() != 1) return std::nullopt;
  return (*known)[0] != 0;
}

Val add_row_axis(Lowering& lo, Val v) { return lo.b.unsqueeze(v, std::vector<int>{0}); }

}  // namespace

void lower_if(Lowering& lo) {
  const onnx::Graph &yes = subgraph(lo, "then_branch"), &no = subgraph(lo, "else_branch");
  auto condition = truth(lo, lo.input(0));
  if (!condition)
    lo.unsupported("the condition is computed at run time",
                   "fix what it depends on: --shape, or make it an initializer");
  std::vector<Val> out = lo.around.lower_inline(*condition ? yes : no, {});
  if (out.size() != lo.output_count())
    lo.malformed(fmt::format("the branch has {} outputs, the node {}", out.size(), lo.output_count()));
  for (size_t i = 0; i < out.size(); ++i) lo.output(i, out[i]);
}

void lower_loop(Lowering& lo) {
  const onnx::Graph& body = subgraph(lo, "body");
  const size_t carried = lo.input_count() < 2 ? 0 : lo.input_count() - 2;
  if (body.inputs.size() != carried + 2 || body.outputs.size() < carried + 1)
    lo.malformed(fmt::format("the body has {} inputs and {} outputs for {} carried values", body.inputs.size(),
                             body.outputs.size(), carried));
  const size_t scans = body.outputs.size() - carried - 1;
  std::optional<int64_t> trips;
  if (lo.has_input(0)) {
    auto known = lo.ints(lo.input(0));
    if (!known || known->size() != 1)
      lo.unsupported("the trip count is computed at run time",
                     "fix what it depends on: --shape, or make it an initializer");
    trips = std::max<int64_t>(0, (*known)[0]);
    check_size(lo, body, *trips);
  }
  std::vector<Val> state;
  for (size_t i = 0; i < carried; ++i) state.push_back(lo.input(i + 2));
  std::vector<std::vector<Val>> rows(scans);
  Val condition = lo.has_input(1) ? lo.input(1) : lo.b.filled(1, DType::kBool, {});
  for (int64_t trip = 0; !trips || trip < *trips; ++trip) {
    check_size(lo, body, trip + 1);
    auto goes_on = truth(lo, condition);
    if (!goes_on) lo.unsupported("the loop's condition is computed at run time");
    if (!*goes_on) break;
    std::vector<Val> inputs{lo.b.scalar(static_cast<double>(trip), DType::kInt64), condition};
    inputs.insert(inputs.end(), state.begin(), state.end());
    std::vector<Val> out = lo.around.lower_inline(body, inputs);
    condition = out[0];
    std::copy_n(out.begin() + 1, carried, state.begin());
    for (size_t i = 0; i < scans; ++i) rows[i].push_back(add_row_axis(lo, out[carried + 1 + i]));
  }
  for (size_t i = 0; i < carried; ++i) lo.output(i, state[i]);
  for (size_t i = 0; i < scans; ++i) {
    if (!lo.wants_output(carried + i)) continue;
    if (rows[i].empty()) lo.unsupported("a scan output of a loop without iterations has no known shape");
    lo.output(carried + i, lo.b.concat(rows[i], 0));
  }
}

void lower_scan(Lowering& lo) {
  if (lo.opset() < 9)
    lo.unsupported("Scan before opset 9 has a batch axis of its own", "convert the model to opset 9 or later");
  const onnx::Graph& body = subgraph(lo, "body");
  const int64_t scanned = lo.need_attr_i("num_scan_inputs");
  const auto inputs = static_cast<int64_t>(lo.input_count());
  if (scanned < 1 || scanned > inputs) lo.malformed(fmt::format("num_scan_inputs {} with {} inputs", scanned, inputs));
  const auto carried = static_cast<size_t>(inputs - scanned);
  const auto scan_in = static_cast<size_t>(scanned);
  if (body.outputs.size() < carried) lo.malformed("the body has fewer outputs than carried values");
  const size_t scan_out = body.outputs.size() - carried;
  auto list = [&](const char* name, size_t count) {
    std::vector<int64_t> values = lo.attr_ints(name).value_or(std::vector<int64_t>(count, 0));
    if (values.size() != count) lo.malformed(fmt::format("{} has {} entries, not {}", name, values.size(), count));
    return values;
  };
  const std::vector<int64_t> in_axes = list("scan_input_axes", scan_in),
                             in_back = list("scan_input_directions", scan_in);
  const std::vector<int64_t> out_axes = list("scan_output_axes", scan_out),
                             out_back = list("scan_output_directions", scan_out);

  std::vector<Val> state;
  for (size_t i = 0; i < carried; ++i) state.push_back(lo.input(i));
  std::vector<std::vector<Val>> slices;
  int64_t length = -1;
  for (size_t i = 0; i < scan_in; ++i) {
    Val x = lo.input(carried + i);
    const int axis = lo.axis(in_axes[i], lo.rank(x));
    const int64_t own = lo.need_static(lo.b.dim(x, axis), "the scanned axis");
    if (length >= 0 && own != length) lo.malformed(fmt::format("scanned axes have {} and {} elements", length, own));
    length = own;
    check_size(lo, body, length);
    slices.push_back(lo.b.split(x, std::vector<int64_t>(static_cast<size_t>(length), 1), axis));
    for (Val& slice : slices.back()) slice = lo.b.squeeze(slice, std::vector<int>{axis});
    if (in_back[i]) std::reverse(slices.back().begin(), slices.back().end());
  }
  std::vector<std::vector<Val>> rows(scan_out);
  for (int64_t step = 0; step < length; ++step) {
    std::vector<Val> given = state;
    for (const auto& slice : slices) given.push_back(slice[static_cast<size_t>(step)]);
    std::vector<Val> out = lo.around.lower_inline(body, given);
    std::copy_n(out.begin(), carried, state.begin());
    for (size_t i = 0; i < scan_out; ++i) rows[i].push_back(out[carried + i]);
  }
  for (size_t i = 0; i < carried; ++i) lo.output(i, state[i]);
  for (size_t i = 0; i < scan_out; ++i) {
    if (!lo.wants_output(carried + i)) continue;
    if (rows[i].empty()) lo.unsupported("a scan over no elements has outputs of unknown shape");
    if (out_back[i]) std::reverse(rows[i].begin(), rows[i].end());
    const int axis = lo.axis(out_axes[i], lo.rank(rows[i][0]) + 1);
    for (Val& row : rows[i]) row = lo.b.unsqueeze(row, std::vector<int>{axis});
    lo.output(carried + i, lo.b.concat(rows[i], axis));
  }
}

}  // namespace lowtide::layout
