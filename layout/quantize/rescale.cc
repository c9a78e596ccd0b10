// SPDX-License-Identifier: Apache-2.0
#include "layout/quantize/rescale.h"

#include <array>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "layout/quantize/conditions.h"
#include "layout/quantize/grid.h"

namespace lowtide::layout {
namespace {

// 1 is 128 steps of 1/128. The built-in kernels round a product twice, first to 2^-7 of a step: the finer, the rarer is
// a difference, and a power of two changes no tie.
constexpr int64_t kSteps = 128;
constexpr float kScale = 1.0F / kSteps;

ValueId one_in(Graph& graph, DType dtype) {
  const TensorGrid grid = *shifted({DType::kUint8, kScale, 0}, dtype);
  const std::array<int64_t, 1> steps = {kSteps + grid.zero};
  const ValueId made = graph.add_constant(stream::recipe::ints(steps, dtype, {}));
  graph.at(made).quantization = quantization_of(grid);
  return made;
}

// A factor without a fraction rounds nothing; QUANTIZE is exact then, also where only the zero point changes.
bool is_whole(float from, float to) {
  const double factor = static_cast<double>(from) / to;
  return factor == std::nearbyint(factor);
}

bool rounds_8_bits(const Graph& graph, const Op& op) {
  if (op.kind != Kind::kQuantize) return false;
  const auto from = grid_of(graph.at(op.inputs[0])), to = grid_of(graph.at(op.outputs[0]));
  if (!from || !to || stream::bits(from->dtype) != 8 || stream::bits(to->dtype) != 8) return false;
  std::string reason;
  const std::vector<float> scales = {from->scale, kScale};
  return !is_whole(from->scale, to->scale) && ratios_fit(Kind::kMul, scales, to->scale, reason) &&
         result_fits(Kind::kMul, {steps_of(*from), {kSteps, kSteps}}, scales, *to, reason);
}

// The op's data in the type of its result.
ValueId in_type_of_result(Graph& graph, const Op& op) {
  const ValueId in = op.inputs[0];
  const DType dtype = graph.at(op.outputs[0]).dtype;
  if (graph.at(in).dtype == dtype) return in;
  const TensorGrid grid = *shifted(*grid_of(graph.at(in)), dtype);
  const ValueId made = graph.add_value(dtype, graph.at(in).shape);
  graph.at(made).quantization = quantization_of(grid);
  graph.add_op({.kind = Kind::kQuantize,
                .inputs = {in},
                .outputs = {made},
                .options = core::IndexOptions{dtype},
                .origin = op.origin});
  return made;
}

}  // namespace

void rescale_by_product(Graph& graph) {
  std::map<DType, ValueId> ones;
  const size_t count = graph.ops.size();
  for (size_t i = 0; i < count; ++i) {
    if (!rounds_8_bits(graph, graph.ops[i])) continue;
    const DType dtype = graph.at(graph.ops[i].outputs[0]).dtype;
    if (ones.count(dtype) == 0) ones[dtype] = one_in(graph, dtype);
    Op product = graph.ops[i];
    product.kind = Kind::kMul;
    product.inputs.push_back(ones[dtype]);
    product.options = core::BinaryOptions{};
    if (!integer_kernel_takes(graph, product, dtype, false)) continue;
    product.inputs[0] = in_type_of_result(graph, graph.ops[i]);
    graph.ops[i] = std::move(product);
  }
  graph.tidy();
}

}  // namespace lowtide::layout
